package limits_test

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(loadEnv); addr != "" {
		if err := load(addr, os.Stdin); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// perUnit reports the processor time that this process takes for each of the benchmark's units from
// here until the result is called.
func perUnit(b *testing.B, units int) (stop func()) {
	b.Helper()
	used := func() time.Duration {
		var u syscall.Rusage
		require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	b.ResetTimer()
	return func() {
		b.ReportMetric(float64((used()-before).Nanoseconds())/float64(b.N*units), "cpu-ns/unit")
		b.ReportMetric(float64(b.N*units)/b.Elapsed().Seconds(), "units/s")
	}
}
