package client_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/servertest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/server/client"
	"tollgate/server/spool"
)

// audited counts the audit events in the log.
func (n *node) audited() uint64 { return n.Machine.Stats().AuditEvents }

func (n *node) eventually(check func() bool) {
	n.t.Helper()
	require.Eventually(n.t, check, 5*time.Second, 2*time.Millisecond)
}

func (n *node) check(headers map[string]string) answer {
	n.t.Helper()
	return n.send("GET", "entitlements/acme/tokens", "", n.sandbox, headers)
}

var stale = map[string]string{"X-Read-Consistency": "stale"}

func TestEveryCheckIsRecordedOnce(t *testing.T) {
	n := start(t)
	n.customer("acme")
	var wait sync.WaitGroup
	for range 8 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for range 50 {
				n.check(nil).is(200, "")
			}
		}()
	}
	wait.Wait()
	n.call("GET", "entitlements/nobody/nothing", "").is(200, "")
	n.eventually(func() bool { return n.audited() == 401 })
	require.Less(t, n.AuditBlocks.Load(), int64(402), "checks travel in blocks")

	n.call("POST", "entitlements", `{"customerReferenceId":"acme","featureKey":"other",`+
		`"track":{},"context":{"idempotencyKey":"ik","flowId":"fl"}}`).is(200, "")
	n.eventually(func() bool { return n.audited() == 402 })
	a := n.call("GET", "customers/acme/events?kind=audit&limit=1000", "").is(200, "")
	events := a.data("events").([]any)
	require.Len(t, events, 401)
	last := events[400].(map[string]any)
	require.Equal(t, "ik", last["eventIdempotencyKey"])
	require.Equal(t, "fl", last["flowId"])
	require.Equal(t, "other", last["featureKey"])
	require.Equal(t, "feature_not_in_plan", last["reason"])
	require.Equal(t, false, last["isAllowed"])
	require.Equal(t, 0.0, last["usageUnits"])
	denied := n.api.AuditStats().Denied
	require.EqualValues(t, 1, denied[billing.ReasonNotInPlan])
	require.EqualValues(t, 1, denied[billing.ReasonCustomerUnknown])
	require.Zero(t, denied[billing.ReasonAllowed])
	ids := map[string]bool{}
	for _, e := range events {
		ids[e.(map[string]any)["id"].(string)] = true
	}
	require.Len(t, ids, 401)
}

func TestSpoolTakesWhatTheClusterCannot(t *testing.T) {
	dir := t.TempDir()
	n := start(t, func(c *client.Config) { c.SpoolDir = dir })
	n.customer("acme")
	for _, outcome := range []engine.Outcome{
		engine.OutcomeUnavailable, engine.OutcomeUnknown, engine.OutcomeDiskLow,
	} {
		before := n.audited()
		n.Refuse(outcome)
		for range 20 {
			n.check(stale).is(200, "")
		}
		n.eventually(func() bool { return n.api.AuditStats().SpoolBlocks > 0 })
		require.Equal(t, before, n.audited())
		n.Refuse(engine.OutcomeNone)
		n.eventually(func() bool { return n.audited() == before+20 })
		n.eventually(func() bool { return n.api.AuditStats().SpoolBlocks == 0 })
	}
	info, err := os.Stat(spoolFile(t, dir))
	require.NoError(t, err)
	require.Zero(t, info.Size(), "a drained spool is emptied")
}

// spoolFile is the only file with blocks of the spool in a folder.
func spoolFile(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "audit.spool", "0*"))
	require.NoError(t, err)
	require.Len(t, names, 1)
	return names[0]
}

// moody refuses some audit blocks and notes the order in which it takes the others.
type moody struct {
	*servertest.Cluster
	mu    sync.Mutex
	calls int
	calm  bool
	taken []string
}

var flowText = regexp.MustCompile(`flow-\d{6}`)

func (m *moody) Propose(deadline time.Time, records []engine.Record, results []engine.Result) {
	if records[0].Kind == billing.KindRecordAudits {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.calls++; !m.calm && (m.calls <= 3 || m.calls%2 == 0) {
			results[0] = engine.Result{Outcome: engine.OutcomeUnknown}
			return
		}
		m.taken = append(m.taken, flowText.FindString(string(records[0].Payload)))
	}
	m.Cluster.Propose(deadline, records, results)
}

// TestBlocksReachTheLogInOrder: a later block that overtook an earlier one would make that one a
// duplicate.
func TestBlocksReachTheLogInOrder(t *testing.T) {
	m := &moody{}
	n := start(t, func(c *client.Config) {
		m.Cluster = c.Proposer.(*servertest.Cluster)
		c.Proposer = m
	})
	n.customer("acme")
	sent := 0
	n.eventually(func() bool {
		n.call("POST", "entitlements", fmt.Sprintf(
			`{"customerReferenceId":"acme","featureKey":"tokens","context":{"flowId":"flow-%06d"}}`, sent)).
			is(200, "")
		sent++
		m.mu.Lock()
		defer m.mu.Unlock()
		m.calm = len(m.taken) >= 4
		return m.calm
	})
	n.eventually(func() bool { return n.audited() == uint64(sent) })
	m.mu.Lock()
	defer m.mu.Unlock()
	require.IsIncreasing(t, m.taken)
}

func TestSpoolSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	inDir := func(c *client.Config) { c.SpoolDir = dir }
	n := start(t, inDir)
	n.customer("acme")
	n.Refuse(engine.OutcomeUnavailable)
	for range 30 {
		n.check(stale).is(200, "")
	}
	require.NoError(t, n.api.Close())
	require.Zero(t, n.audited())
	// A torn block behind the whole ones, as a power cut leaves it.
	file, err := os.OpenFile(spoolFile(t, dir), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.Write([]byte{200, 1, 1, 2, 3, 4, 5})
	require.NoError(t, err)
	require.NoError(t, file.Close())

	n.Refuse(engine.OutcomeNone)
	again, err := client.New(client.Config{
		Machine: n.Machine, Proposer: n.Cluster, Reader: n.Cluster, NodeID: 1, SpoolDir: dir,
	})
	require.NoError(t, err)
	n.eventually(func() bool { return n.audited() == 30 })
	require.NoError(t, again.Close())
}

// TestADamagedBlockHoldsUpNothing: what a disk did to one block of the spool costs that block, not
// every later one.
func TestADamagedBlockHoldsUpNothing(t *testing.T) {
	dir := t.TempDir()
	n := start(t, func(c *client.Config) { c.SpoolDir = dir })
	n.customer("acme")
	before := n.audited()
	n.Refuse(engine.OutcomeUnavailable)
	for blocks := range uint64(2) {
		n.check(stale).is(200, "")
		n.eventually(func() bool { return n.api.AuditStats().SpoolBlocks > blocks })
	}
	require.NoError(t, n.api.Close())
	file, err := os.OpenFile(spoolFile(t, dir), os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteAt([]byte{0xff}, 24) // in the first block
	require.NoError(t, err)
	require.NoError(t, file.Close())
	n.Refuse(engine.OutcomeNone)
	again, err := client.New(client.Config{
		Machine: n.Machine, Proposer: n.Cluster, Reader: n.Cluster, NodeID: 1, SpoolDir: dir,
	})
	require.NoError(t, err)
	n.eventually(func() bool { return again.AuditStats().SpoolBlocks == 0 })
	require.NoError(t, again.Close())
	require.Equal(t, before+1, n.audited())
	kept, err := os.ReadFile(filepath.Join(dir, "audit.spool.damaged"))
	require.NoError(t, err)
	require.NotEmpty(t, kept)
}

func TestForeignSpoolIsRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.spool")
	require.NoError(t, os.WriteFile(path, []byte("something else, of some length"), 0o600))
	c := servertest.New()
	_, err := client.New(client.Config{
		Machine: c.Machine, Proposer: c, Reader: c, NodeID: 1, SpoolDir: dir,
	})
	require.ErrorIs(t, err, spool.ErrForeign)
}

func TestFullSpoolRefusesChecks(t *testing.T) {
	n := start(t, func(c *client.Config) { c.SpoolBytes = 100 })
	n.customer("acme")
	n.Refuse(engine.OutcomeUnavailable)
	answered := 0
	n.eventually(func() bool {
		a := n.check(stale)
		if a.status == 200 {
			answered++
			return false
		}
		a.is(503, "audit_full")
		return true
	})
	n.Refuse(engine.OutcomeNone)
	n.eventually(func() bool { return n.check(nil).status == 200 })
	n.eventually(func() bool { return n.audited() >= uint64(answered+1) })
	require.Equal(t, uint64(answered+1), n.audited(), "what was answered is recorded, nothing else")
}

func TestCommittedModeWaitsForTheLog(t *testing.T) {
	n := start(t, func(c *client.Config) { c.AuditMode = client.AuditCommitted })
	n.customer("acme")
	for i := range 10 {
		n.check(nil).is(200, "")
		require.EqualValues(t, i+1, n.audited())
	}
	n.Refuse(engine.OutcomeUnavailable)
	n.check(nil).is(503, "audit_uncommitted")
	n.check(stale).is(200, "")
	n.Refuse(engine.OutcomeNone)
	n.eventually(func() bool { return n.audited() == 12 })
}

// TestCheckWaitsForRoom holds the log back until the collecting block is full.
func TestCheckWaitsForRoom(t *testing.T) {
	n := start(t)
	n.customer("acme")
	n.Hold()
	var wait sync.WaitGroup
	flow := fmt.Sprintf("%0128d", 1)
	for i := range 16 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for k := range 150 {
				n.call("POST", "entitlements", fmt.Sprintf(`{"customerReferenceId":"acme",`+
					`"featureKey":"tokens","context":{"flowId":"%s","idempotencyKey":"%d-%d"}}`,
					flow[:120]+fmt.Sprintf("%04d%04d", i, k), i, k)).is(200, "")
			}
		}()
	}
	n.eventually(func() bool { return n.api.AuditStats().Waits > 0 })
	n.Go()
	wait.Wait()
	n.eventually(func() bool { return n.audited() == 2400 })
}

func TestCloseRecordsWhatWasChecked(t *testing.T) {
	n := start(t)
	n.customer("acme")
	for range 5 {
		n.check(nil).is(200, "")
	}
	require.NoError(t, n.api.Close())
	require.EqualValues(t, 5, n.audited())
	n.check(nil).is(503, "audit_full")
}
