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
	before := processorTime(b)
	b.ResetTimer()
	return func() {
		used := processorTime(b) - before
		b.ReportMetric(float64(used.Nanoseconds())/float64(b.N*units), "cpu-ns/unit")
		b.ReportMetric(float64(b.N*units)/b.Elapsed().Seconds(), "units/s")
	}
}

// processorTime is what this process has taken, with the kernel.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
