package clustertest

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/doctor"
)

// clockLead is how far log time may be from the true time while one clock is wrong, and what an
// answer may take on a busy machine.
const clockLead = 30 * time.Second

// One node's clock, of real processes, is stepped by a year either way, the leader's and a
// follower's: nothing falls due early, no invoice is made, time goes on, and what is asked of that
// node is answered as of today.
func TestSteppedClockMakesNothingFallDue(t *testing.T) {
	t.Parallel()
	d := startClusterOf(t, stepped(t))
	d.counted(200, 8)
	before := d.invoices("gen-8-000")
	require.NotEmpty(t, before, "the subscription began")
	answer, err := d.client(d.leader(), d.SandboxKey).Do(t.Context(), usageEvent(t.Name()))
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, answer.Status, "%s", answer.Body)
	const year = 365 * 24 * time.Hour
	for i, id := range []string{d.leader(), d.followers()[0]} {
		for j, step := range []time.Duration{-year, year} {
			last := d.logTime()
			d.stepClock(id, step)
			// A leader's clock that is set back holds log time up for a while, and not for a year.
			require.Eventually(t, func() bool {
				return finds(d.examine(id), doctor.LevelFail, id, "clock", "it does not lead")
			}, patience, statusEvery, "doctor says whose clock is off")
			require.Equal(t, 1, d.used(id), "in this period, at %s by %s", id, step)
			begin, now := time.Now(), last
			for time.Since(begin) < 3*time.Second || !now.After(last) {
				require.Less(t, time.Since(begin), patience, "%s by %s: time goes on", id, step)
				d.counted(20, 100+10*i+j)
				now = d.logTime()
			}
			require.WithinDuration(t, time.Now(), now, clockLead, "%s by %s", id, step)
			require.Equal(t, before, d.invoices("gen-8-000"), "%s by %s", id, step)
		}
		d.stepClock(id, 0)
	}
}

// buildStepped builds the program once whose nodes' clocks can be stepped.
var buildStepped = sync.OnceValues(func() (binary string, err error) {
	binary = program + "-stepped"
	out, err := exec.Command("go", "build", "-tags", "stepped_clock", "-o", binary,
		"tollgate/cmd/tollgate").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return binary, nil
})

// stepped is a build of the program for stepClock.
func stepped(t *testing.T) (binary string) {
	t.Helper()
	binary, err := buildStepped()
	require.NoError(t, err)
	return binary
}

// stepClock sets a node's clock ahead of the machine's, or behind it.
func (d *development) stepClock(id string, step time.Duration) {
	d.t.Helper()
	name := filepath.Join(d.folder.NodeFolder(id), "clock-step")
	// A file that is half written would be no duration.
	require.NoError(d.t, os.WriteFile(name+".tmp", []byte(step.String()), 0o600))
	require.NoError(d.t, os.Rename(name+".tmp", name))
}

// logTime is what time it is in the sandbox.
func (d *development) logTime() time.Time {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var clock struct{ Now time.Time }
	_, err := d.admin(d.leader()).Call(ctx, "GET",
		"/api/v1/admin/accounts/demo/environments/sandbox/clock", nil, &clock)
	require.NoError(d.t, err)
	return clock.Now
}

// invoices are a customer's invoices as a node answers them.
func (d *development) invoices(customer string) string {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answer, err := d.client(d.leader(), d.ReadKey).Call(ctx, "GET",
		"/api/v1/client/billing/invoices/"+url.PathEscape(customer), nil, nil)
	require.NoError(d.t, err)
	return string(answer.Body)
}
