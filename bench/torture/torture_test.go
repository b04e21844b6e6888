package torture

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/faultnet"
)

var (
	length = flag.Duration("for", 30*time.Second, "how long faults are made")
	seed   = flag.Uint64("seed", 0, "decides faults and work; 0: a new one, which is printed")
	links  = flag.String("net", "proxy", "what is between the nodes: proxy or namespaces")
)

// A cluster that is killed, paused, cut apart, flooded, restarted and told the wrong time keeps
// every promise.
func TestTorture(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	if enclosed(t) {
		return
	}
	repeat := fmt.Sprintf("go test ./bench/torture -run TestTorture -count=1 -v "+
		"-timeout 0 -args -net=%s -for=%s -seed=%d", *links, *length, *seed)
	t.Log(repeat)
	summary := tortureOnce(t, Options{Seed: *seed, For: *length})
	if len(summary.Violations) > 0 {
		t.Logf("repeat with:\n%s", repeat)
	}
	require.Empty(t, summary.Violations)
	require.NoError(t, summary.Enough(*length))
}

// enclosed runs this test once more, in a network namespace of its own, where one was asked for and
// it is in none; false where it is to go on.
func enclosed(t *testing.T) bool {
	t.Helper()
	if *links != "namespaces" || faultnet.Enclosed() {
		require.Contains(t, []string{"proxy", "namespaces"}, *links, "-net")
		return false
	}
	runtime.LockOSThread() // with its thread the child would end
	defer runtime.UnlockOSThread()
	again := exec.Command(os.Args[0], append(os.Args[1:], fmt.Sprintf("-seed=%d", *seed))...)
	again.Stdout, again.Stderr = os.Stdout, os.Stderr
	faultnet.Enclose(again)
	err := again.Start()
	require.NoError(t, err, "network namespaces need root, or user namespaces: "+
		"nothing was tortured. Run it as root, or with -net=proxy (make torture NET=proxy)")
	require.NoError(t, again.Wait(), "see above")
	return true
}

// tortureOnce builds the program, with more build tags, and tortures it. What it wrote is kept
// where there is something to see.
func tortureOnce(t *testing.T, o Options, tags ...string) Summary {
	t.Helper()
	dir, err := os.MkdirTemp("", "tollgate-torture-")
	require.NoError(t, err)
	program := filepath.Join(dir, "tollgate")
	build := exec.Command("go", "build", "-tags", strings.Join(append(tags, "stepped_clock"), ","),
		"-o", program, "tollgate/cmd/tollgate")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	require.NoError(t, build.Run())
	o.Program, o.Dir, o.Namespaces, o.Say = program, dir, *links == "namespaces", t.Logf
	summary, err := Run(context.Background(), o)
	t.Logf("%s", summary)
	if err != nil || len(summary.Violations) > 0 && len(tags) == 0 {
		t.Logf("logs and histories are in %s", dir)
	} else {
		require.NoError(t, os.RemoveAll(dir))
	}
	require.NoError(t, err)
	return summary
}
