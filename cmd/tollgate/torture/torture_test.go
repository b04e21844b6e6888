package torture

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	length = flag.Duration("for", 30*time.Second, "how long faults are made")
	seed   = flag.Uint64("seed", 0, "decides faults and work; 0: a new one, which is printed")
)

// A cluster that is killed, paused, cut apart, flooded and restarted keeps every promise.
func TestTorture(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	repeat := fmt.Sprintf("go test ./cmd/tollgate/torture -run TestTorture -count=1 -v "+
		"-timeout 0 -args -for=%s -seed=%d", *length, *seed)
	t.Log(repeat)
	summary := tortureOnce(t, *seed, *length, "")
	if len(summary.Violations) > 0 {
		t.Logf("repeat with:\n%s", repeat)
	}
	require.Empty(t, summary.Violations)
	require.NoError(t, summary.Enough(*length))
}

// tortureOnce builds the program, with build tags, and tortures it. What it wrote is kept where
// there is something to see.
func tortureOnce(t *testing.T, seed uint64, length time.Duration, tags string) Summary {
	t.Helper()
	dir, err := os.MkdirTemp("", "tollgate-torture-")
	require.NoError(t, err)
	program := filepath.Join(dir, "tollgate")
	build := exec.Command("go", "build", "-tags", tags, "-o", program, "tollgate/cmd/tollgate")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	require.NoError(t, build.Run())
	summary, err := Run(context.Background(), Options{
		Program: program, Dir: dir, For: length, Seed: seed, Say: t.Logf,
	})
	t.Logf("%s", summary)
	if err != nil || len(summary.Violations) > 0 && tags == "" {
		t.Logf("logs and histories are in %s", dir)
	} else {
		require.NoError(t, os.RemoveAll(dir))
	}
	require.NoError(t, err)
	return summary
}
