package clustertest

import (
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// startWithAgent runs a cluster as `make run` does: with the example agent, and the sample product.
func startWithAgent(t *testing.T) *development {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "agent")
	printed, err := exec.Command("go", "build", "-o", binary, "tollgate/examples/agent").CombinedOutput()
	require.NoError(t, err, string(printed))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return startClusterOf(t, program, "--sample-product", "--sample-port", port,
		"--agent", "example="+binary)
}

// What `make demo-workspace` does: from signup to a run that five calls decide, and one that does
// not pass. The tour checks every answer by itself; here it is seen that it went all the way.
func TestTourOfTheWorkspaceAPI(t *testing.T) {
	t.Parallel()
	d := startWithAgent(t)
	printed, err := d.tollgate("tour", "--data", string(d.folder))
	require.NoError(t, err, printed)
	at := 0
	for _, step := range []string{
		"POST http://", "/v1/signup", "  201 ", "/quote", "  402 ", `"next_action":"approve"`,
		"/approve", "card=success", "  303 ", `"status":"succeeded"`, "  202 ", "asks for a key",
		`"outcome":"passed"`, "key none   → 401, refused true", "key wrong  → 401, refused true",
		"key real   → 200, refused false", "key none   → 401, refused true", `"agent":"nop"`,
		`"outcome":"inconclusive"`, "freeRunsUsed 1, paidRunsUsed 0, runsReturned 0, spentCents 500",
		"/login?return=/console", "/login/identity", "/v0/inboxes/",
	} {
		found := strings.Index(printed[at:], step)
		require.GreaterOrEqual(t, found, 0, "%s after:\n%s\nin:\n%s", step, printed[:at], printed)
		at += found + len(step)
	}
	require.NotRegexp(t, `tg_(ws|clm)_[A-Za-z0-9]{8}`, printed, "no secret is printed")
	require.NotContains(t, printed, d.AdminKey)
	owner := d.browser(false) // as it says
	require.Equal(t, "/console", owner.open(owner.begin("node1", "ada@example.com")).to)
	require.Contains(t, owner.open(owner.base("node1")+"/console").body, "/console/runs/run_")

	require.Zero(t, d.stop())
	printed, err = d.tollgate("tour", "--data", string(d.folder))
	require.Error(t, err)
	require.Contains(t, printed, "is `tollgate dev` running there?")
}
