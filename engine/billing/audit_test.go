package billing_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/journal"
)

func TestAuditBlockRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOfN(rapid.Byte(), 1, 40)
		checks := rapid.SliceOf(rapid.Custom(func(t *rapid.T) billing.AuditCheck {
			c := billing.AuditCheck{
				Env:           rapid.Uint32Range(1, 4).Draw(t, "env"),
				CustomerRow:   rapid.Uint32().Draw(t, "row"),
				FeatureNumber: rapid.Uint32Range(0, 9).Draw(t, "n"),
				Reason:        billing.Reason(rapid.Uint8().Draw(t, "reason")), At: rapid.Int64().Draw(t, "at"),
			}
			if c.CustomerRow%3 == 0 {
				c.CustomerRow, c.CustomerText = 0, text.Draw(t, "customer")
			}
			if c.FeatureNumber == 0 {
				c.FeatureText = text.Draw(t, "feature")
			}
			if rapid.Bool().Draw(t, "has key") {
				c.IdempotencyKey = text.Draw(t, "key")
			}
			if rapid.Bool().Draw(t, "has flow") {
				c.FlowID = text.Draw(t, "flow")
			}
			if rapid.Bool().Draw(t, "limited") {
				number := rapid.Custom(func(t *rapid.T) decimal.Decimal {
					return decimal.FromBits(rapid.Int64().Draw(t, "hi"), rapid.Uint64().Draw(t, "lo"))
				})
				c.Figures = billing.CheckFigures{
					Limited: true, Used: number.Draw(t, "used"), Held: number.Draw(t, "held"),
					Limit: number.Draw(t, "limit"), Asked: number.Draw(t, "asked"),
					Budget: rapid.SampledFrom([]string{"", "team", "team:ü"}).Draw(t, "budget"),
				}
			}
			return c
		})).Draw(t, "checks")
		var b billing.AuditBlock
		b.Reset(1, 2, 3)
		for i := range checks {
			b.Add(&checks[i])
		}
		payload := b.Encode(nil)
		require.Equal(t, len(checks), b.Len())
		require.LessOrEqual(t, len(payload), b.Bytes())
		got, err := billing.ReadAudits(payload)
		require.NoError(t, err)
		require.Equal(t, len(checks), len(got))
		for i := range checks {
			require.Equal(t, checks[i], got[i])
		}
	})
}

// TestAuditBlockIsSmall: a check of a known customer, drawn at random from a million, takes five
// bytes.
func TestAuditBlockIsSmall(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var b billing.AuditBlock
	b.Reset(1, 1769871600000, 1)
	at := int64(enginetest.Epoch)
	for range 10_000 {
		at += r.Int64N(2)
		b.Add(&billing.AuditCheck{
			Env: 1, CustomerRow: 1 + uint32(r.IntN(1_000_000)), FeatureNumber: 1 + uint32(r.IntN(3)),
			Reason: billing.ReasonAllowed, At: at,
		})
	}
	require.LessOrEqual(t, len(b.Encode(nil)), 5*10_000+200)
	c := billing.AuditCheck{Env: 1, CustomerRow: 77, FeatureNumber: 2, Reason: 1, At: at}
	b.Reset(1, 1, 2)
	b.Add(&c)
	require.Zero(t, testing.AllocsPerRun(1000, func() { b.Add(&c) }))
}

func TestAuditTextsAreBounded(t *testing.T) {
	var b billing.AuditBlock
	b.Reset(1, 1, 1)
	b.Add(&billing.AuditCheck{Env: 1, CustomerText: make([]byte, 5000), FeatureText: []byte("x")})
	got, err := billing.ReadAudits(b.Encode(nil))
	require.NoError(t, err)
	require.Len(t, got[0].CustomerText, 512)
}

// TestAuditSourcesAreBounded: the process that was silent longest is forgotten first.
func TestAuditSourcesAreBounded(t *testing.T) {
	m, l := opened()
	propose := func(origin uint64) engine.Outcome {
		var b billing.AuditBlock
		b.Reset(origin, 1, 1)
		b.Add(&billing.AuditCheck{Env: 1, CustomerRow: 1, FeatureNumber: 1, Reason: 1, At: l.Stamp})
		return l.DoPayload(billing.KindRecordAudits, b.Encode(nil)).Outcome
	}
	for origin := range uint64(300) {
		require.Equal(t, engine.OutcomeDone, propose(origin))
	}
	require.Equal(t, engine.OutcomeDuplicate, propose(299))
	require.Equal(t, engine.OutcomeDuplicate, propose(100))
	require.Equal(t, engine.OutcomeDone, propose(0), "forgotten")
	require.Equal(t, uint64(301), m.Stats().AuditEvents)
}

func TestJournalRecordsSayWhoseTheyAre(t *testing.T) {
	m, l := opened()
	var b billing.AuditBlock
	b.Reset(1, 1, 1)
	for row := range uint32(3) {
		b.Add(&billing.AuditCheck{
			Env: 1, CustomerRow: row, FeatureNumber: 1, Reason: 1, At: l.Stamp + int64(row),
		})
	}
	l.DoPayload(billing.KindRecordAudits, b.Encode(nil))
	u := enginetest.Usage(l, "k", "ada", "requests", 1)
	u.OccurredAt -= 5000
	l.DoPayload(billing.KindRecordUsage, u.Seal(nil))
	var got []string
	for _, part := range journal.Parts() {
		require.NoError(t, journal.Scan(m.Journal().Tail(part), func(r journal.Record) error {
			billing.IndexRecord(r, func(owner uint32, at int64, ordinal uint32) {
				got = append(got, fmt.Sprintf("%s: kind %d owner %d at %d ordinal %d", part, r.Kind, owner,
					at-enginetest.Epoch, ordinal))
			})
			return nil
		}))
	}
	require.Equal(t, []string{
		"usage: kind 6 owner 0 at 0 ordinal 0", "usage: kind 6 owner 0 at 0 ordinal 0",
		"usage: kind 5 owner 1 at 0 ordinal 0", "usage: kind 1 owner 1 at -5000 ordinal 0",
		"audit: kind 2 owner 1 at 1 ordinal 1", "audit: kind 2 owner 2 at 2 ordinal 2",
	}, got)
	billing.IndexRecord(journal.Record{Kind: journal.KindAudit, Payload: []byte{9}}, nil)
	_, err := m.DecodeEvent(journal.Item{Record: journal.Record{Kind: 60}})
	require.ErrorIs(t, err, billing.ErrEvent)
	_, err = m.DecodeEvent(journal.Item{
		Record: journal.Record{Kind: journal.KindUsage, Payload: []byte{1}},
	})
	require.ErrorIs(t, err, billing.ErrEvent)
	_, err = m.DecodeEvent(journal.Item{
		Record: journal.Record{Kind: journal.KindAudit, Payload: b.Encode(nil)}, Ordinal: 3,
	})
	require.ErrorIs(t, err, billing.ErrEvent)
}

// FuzzAuditBlock: no bytes make the decoder panic or reserve more than a small multiple of them.
func FuzzAuditBlock(f *testing.F) {
	f.Add([]byte{})
	f.Add(goldenBlock().Encode(nil))
	f.Add([]byte{1, 1, 1, 1, 0xff, 0xff, 0xff, 0xff, 0x0f, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		checks, err := billing.ReadAudits(data)
		if err != nil {
			return
		}
		require.LessOrEqual(t, 3*len(checks), len(data))
		var b billing.AuditBlock
		b.Reset(1, 1, 1)
		for i := range checks {
			b.Add(&checks[i])
		}
		again, err := billing.ReadAudits(b.Encode(nil))
		require.NoError(t, err)
		require.Equal(t, len(checks), len(again))
	})
}

// FuzzApply: no entry makes Apply panic, whatever its bytes are.
func FuzzApply(f *testing.F) {
	_, l := opened()
	for _, e := range l.Entries {
		f.Add(e)
	}
	f.Add(l.Entry(engine.Record{
		Kind: billing.KindRecordUsage, Payload: enginetest.Usage(l, "k", "ada", "prompt", 5).Seal(nil),
	}))
	f.Add(l.Entry(engine.Record{Kind: billing.KindRecordAudits, Payload: goldenBlock().Encode(nil)}))
	f.Fuzz(func(t *testing.T, entry []byte) {
		m, l := opened()
		err := m.Apply(l.Index+1, entry, &engine.Applied{})
		if err != nil {
			require.ErrorIs(t, err, engine.ErrHalt)
			return
		}
		require.NoError(t, m.Apply(l.Index+2, l.Entry(engine.Record{Kind: engine.KindTick}),
			&engine.Applied{}))
	})
}

// FuzzRestore: whatever stands in the blocks and records of a snapshot, under checksums that are
// right, Restore does not panic.
func FuzzRestore(f *testing.F) {
	m, l := opened()
	l.DoPayload(billing.KindRecordUsage, enginetest.Usage(l, "k", "ada", "requests", 1).Seal(nil))
	header, account := billing.SnapshotBlocks(m)
	f.Add(header, account)
	f.Fuzz(func(_ *testing.T, header, account []byte) {
		billing.ReadRecords(account)
		billing.RestoreBlocks(header, account)
	})
}
