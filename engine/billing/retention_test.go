package billing_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/journal"
	"tollgate/engine/wire"
)

// auditLog is a machine with what was ever recorded in it, and the segments that its node has.
type auditLog struct {
	t   *rapid.T
	m   *billing.Machine
	log *enginetest.Log
	src *enginetest.Source

	retention int64
	longest   int64 // retention so far
	expired   int64 // retention of the newest entry: it sets its own after that
	usage     []string
	// audits has the stamp of each check, by its flow id; old those that reached the retention of
	// their time, which may be gone.
	audits   map[string]int64
	old      map[string]bool
	sequence uint64
}

func openAuditLog(t *rapid.T) *auditLog {
	m, l := opened()
	return &auditLog{
		t: t, m: m, log: l, src: &enginetest.Source{Journal: m.Journal()},
		retention: m.Limits().AuditRetentionMS, audits: map[string]int64{}, old: map[string]bool{},
	}
}

// step applies one entry of random records, after a random pause.
func (a *auditLog) step() {
	t, l := a.t, a.log
	l.Stamp += rapid.SampledFrom([]int64{0, 1, 3_600_000, 86_400_000, 12 * 86_400_000}).
		Draw(t, "pause")
	a.longest, a.expired = max(a.longest, a.retention), a.retention
	for name, at := range a.audits {
		a.old[name] = a.old[name] || l.Stamp-at >= a.retention
	}
	var records []engine.Record
	for range rapid.IntRange(1, 4).Draw(t, "records") {
		switch rapid.IntRange(0, 7).Draw(t, "record") {
		case 0, 1, 2:
			records = append(records, a.block())
		case 3, 4, 5:
			key := fmt.Sprint("usage-", len(a.usage))
			a.usage = append(a.usage, key)
			records = append(records, engine.Record{
				Kind:    billing.KindRecordUsage,
				Payload: enginetest.Usage(l, key, "ada", "requests", 1).Seal(nil),
			})
		case 6:
			records = append(records, engine.Record{Kind: engine.KindTick})
		default:
			c := &billing.SetLimits{
				AuditRetentionMS: rapid.Int64Range(1, 40).Draw(t, "retention") * 86_400_000,
			}
			records = append(records, engine.Record{
				Kind: billing.KindSetLimits, Payload: wire.Encode(nil, c),
			})
			a.retention = c.AuditRetentionMS
		}
	}
	_, err := l.Apply(records...)
	require.NoError(t, err)
	a.src.Keep(&l.Applied)
}

func (a *auditLog) block() engine.Record {
	var b billing.AuditBlock
	a.sequence++
	b.Reset(1, 1, a.sequence)
	for n := range rapid.IntRange(1, 3).Draw(a.t, "checks") {
		flow := fmt.Sprintf("flow-%d-%d", a.sequence, n)
		b.Add(&billing.AuditCheck{
			Env: 1, CustomerRow: 1, FeatureNumber: 1, Reason: 1, FlowID: []byte(flow),
			// A spool may have held it for weeks, and an environment's clock may be a year ahead.
			At: a.log.Stamp + 86_400_000*rapid.Int64Range(-20, 400).Draw(a.t, "ahead"),
		})
		a.audits[flow] = a.log.Stamp
	}
	return engine.Record{Kind: billing.KindRecordAudits, Payload: b.Encode(nil)}
}

// listed lists all of ada's events through one machine: usage by key, checks by flow.
func listed(t require.TestingT, m *billing.Machine, src journal.Source) map[string]bool {
	found := map[string]bool{}
	q := billing.EventQuery{Customer: 1, To: 1 << 60, Limit: 7}
	for {
		events, next, err := m.Events(src, q)
		require.NoError(t, err)
		for i := range events {
			name := events[i].Key
			if events[i].Kind == billing.EventAudit {
				name = events[i].FlowID
			}
			require.False(t, found[name], "%s appears twice", name)
			found[name] = true
		}
		if next.Index == 0 {
			return found
		}
		q.After = next
	}
}

// requireKept requires what must be there of everything that was recorded.
func (a *auditLog) requireKept(m *billing.Machine, src journal.Source) {
	found := listed(a.t, m, src)
	for n, key := range a.usage {
		require.True(a.t, found[key], "usage event %s is lost", key)
		_, err := src.Event(uint64(n) + 1)
		require.NoError(a.t, err)
	}
	for name, at := range a.audits {
		age := a.log.Stamp - at
		require.True(a.t, a.old[name] || found[name], "%s is lost at age %d", name, age)
		require.False(a.t, found[name] && age > a.expired+a.longest/30+1,
			"%s is kept at age %d of %d", name, age, a.expired)
	}
}

// TestRetentionLosesNothingYoung: whatever is dropped when, no usage event and no check younger
// than the retention is lost; and a node that replays the log, or goes on from any snapshot with
// the segments that the others still have, lists the same.
func TestRetentionLosesNothingYoung(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := openAuditLog(t)
		steps := rapid.IntRange(2, 20).Draw(t, "steps")
		cut := rapid.IntRange(0, steps-1).Draw(t, "snapshot")
		var snapshot []byte
		var since int
		for i := range steps {
			a.step()
			a.requireKept(a.m, a.src)
			if i == cut {
				snapshot, since = enginetest.Snapshot(t, a.m), len(a.log.Entries)
			}
		}
		lagging := restored(t, snapshot)
		// What a peer sends is what it still has.
		src := &enginetest.Source{Journal: lagging.Journal()}
		for _, s := range a.src.Sealed {
			if !a.m.Journal().Dropped(s.SegmentInfo) {
				src.Sealed = append(src.Sealed, s)
			}
		}
		src.Sealed = sealedBefore(src.Sealed, lagging.Journal())
		replayed := billing.New(billing.Config{})
		again := &enginetest.Source{Journal: replayed.Journal()}
		follow(t, replayed, again, a.log.Entries)
		follow(t, lagging, src, a.log.Entries[since:])
		for _, m := range []*billing.Machine{lagging, replayed} {
			require.Equal(t, enginetest.StateHash(a.m), enginetest.StateHash(m))
			require.Equal(t, a.m.Journal().Manifest(), m.Journal().Manifest())
			require.Equal(t, a.m.NextDue(), m.NextDue())
			require.True(t, bytes.Equal(enginetest.Snapshot(t, a.m), enginetest.Snapshot(t, m)))
		}
		a.requireKept(lagging, src)
		a.requireKept(replayed, again)
		require.Equal(t, listed(t, a.m, a.src), listed(t, lagging, src))
	})
}

// sealedBefore keeps those segments that a journal lists.
func sealedBefore(all []journal.Segment, j *journal.Journal) (list []journal.Segment) {
	for _, s := range all {
		for _, info := range j.Manifest() {
			if info == s.SegmentInfo {
				list = append(list, s)
			}
		}
	}
	return list
}

// follow applies the rest of a log.
func follow(t require.TestingT, m *billing.Machine, src *enginetest.Source, entries [][]byte) {
	var out engine.Applied
	for _, e := range entries {
		require.NoError(t, m.Apply(m.Applied()+1, e, &out))
		src.Keep(&out)
	}
}

// A cluster that does nothing else drops audit blocks as well: the leader's ticks see to it.
func TestAuditBlocksExpireWhenNothingElseHappens(t *testing.T) {
	m, l := opened()
	before := m.NextDue()
	var b billing.AuditBlock
	b.Reset(1, 1, 1)
	b.Add(&billing.AuditCheck{Env: 1, CustomerRow: 1, FeatureNumber: 1, Reason: 1, At: l.Stamp})
	at := l.Stamp
	require.Equal(t, engine.OutcomeDone, l.DoPayload(billing.KindRecordAudits, b.Encode(nil)).Outcome)
	require.Equal(t, at+86_400_000, m.NextDue(), "after a 30th of the retention the tail is cut")
	require.Equal(t, m.NextDue(), restored(t, enginetest.Snapshot(t, m)).NextDue())
	l.Stamp = m.NextDue()
	l.DoPayload(engine.KindTick, nil)
	require.Len(t, l.Applied.Sealed, 1)
	require.Equal(t, journal.PartAudit, l.Applied.Sealed[0].Part)
	require.Equal(t, before, m.NextDue(), "what is due before the drop")
	stats := m.Stats().Journal
	require.Equal(t, "audit", stats[journal.PartAudit].Part)
	require.EqualValues(t, 1, stats[journal.PartAudit].Segments)
	require.Equal(t, l.Applied.Sealed[0].Length, stats[journal.PartAudit].Bytes)
	require.Equal(t, at, stats[journal.PartAudit].OldestAt)

	for m.NextDue() < at+30*86_400_000 {
		require.EqualValues(t, 1, m.Stats().Journal[journal.PartAudit].Segments)
		l.Stamp = m.NextDue()
		l.DoPayload(engine.KindTick, nil)
	}
	require.Equal(t, at+30*86_400_000, m.NextDue(), "its time is over")
	l.Stamp = m.NextDue()
	l.DoPayload(engine.KindTick, nil)
	require.Equal(t, billing.JournalStats{Part: "audit"}, m.Stats().Journal[journal.PartAudit])
	require.Greater(t, m.NextDue(), l.Stamp)
}

// A snapshot that kept audit events for no time would make the next entry drop all of them.
func TestASnapshotWithoutARetentionIsRefused(t *testing.T) {
	m, _ := opened()
	require.ErrorIs(t, billing.RestoreWithoutRetention(m), billing.ErrSnapshot)
}
