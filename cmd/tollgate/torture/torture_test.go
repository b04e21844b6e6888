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
	dir, err := os.MkdirTemp("", "tollgate-torture-")
	require.NoError(t, err)
	program := filepath.Join(dir, "tollgate")
	build := exec.Command("go", "build", "-o", program, "tollgate/cmd/tollgate")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	require.NoError(t, build.Run())

	repeat := fmt.Sprintf("go test ./cmd/tollgate/torture -run TestTorture -count=1 -v "+
		"-timeout 0 -args -for=%s -seed=%d", *length, *seed)
	t.Log(repeat)
	summary, err := Run(context.Background(), Options{
		Program: program, Dir: dir, For: *length, Seed: *seed, Say: t.Logf,
	})
	t.Logf("%s", summary)
	if err != nil || len(summary.Violations) > 0 {
		t.Logf("logs and histories are in %s; repeat with:\n%s", dir, repeat)
	}
	require.NoError(t, err)
	require.Empty(t, summary.Violations)
	require.NoError(t, summary.Enough(*length))
	require.NoError(t, os.RemoveAll(dir))
}
