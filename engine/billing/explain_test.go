package billing_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/journal"
)

// books is a sandbox with one customer, whose usage and corrections are sent by key.
type books struct {
	t   *testing.T
	m   *billing.Machine
	l   *enginetest.Log
	src *enginetest.Source
}

func openBooks(t *testing.T) *books {
	m, l := opened()
	return &books{t, m, l, &enginetest.Source{Journal: m.Journal()}}
}

// use records usage that occurred some milliseconds ago, or ahead where ago is below 0.
func (k *books) use(key string, units, ago int64) {
	k.t.Helper()
	u := enginetest.Usage(k.l, key, "ada", "input-tokens", units)
	u.OccurredAt -= ago
	r := k.l.DoPayload(billing.KindRecordUsage, u.Seal(nil))
	require.False(k.t, r.Outcome.Refused(), r.Outcome)
}

func (k *books) reference(key string) ([16]byte, billing.UsageRef) {
	k.t.Helper()
	id := billing.UsageKey(enginetest.Sandbox, []byte(key))
	ref, found, err := k.m.FindUsage(k.src, k.src, enginetest.Sandbox, id)
	require.NoError(k.t, err)
	require.True(k.t, found)
	return id, ref
}

func (k *books) void(key string) {
	k.t.Helper()
	id, ref := k.reference(key)
	r := k.l.Do(billing.KindVoidUsage, &billing.VoidUsage{
		Env: enginetest.Sandbox, Key: id, Original: ref,
	})
	require.Equal(k.t, engine.OutcomeDone, r.Outcome)
}

func (k *books) amend(key string, units int64) {
	k.t.Helper()
	id, ref := k.reference(key)
	r := k.l.Do(billing.KindAmendUsage, &billing.AmendUsage{
		Env: enginetest.Sandbox, Key: id, Original: ref, Units: decimal.FromInt(units),
		ID: enginetest.ID("amend " + key),
	})
	require.Equal(k.t, engine.OutcomeDone, r.Outcome)
}

// to moves the log to an instant, and carries out what is due.
func (k *books) to(at int64) {
	k.l.Stamp = at
	k.l.DoPayload(engine.KindTick, nil)
}

// explained explains the customer's invoice of a number.
func (k *books) explained(number uint64) billing.Explanation {
	k.t.Helper()
	for _, v := range k.m.Invoices(enginetest.Sandbox, 1) {
		if v.Number == number {
			x, found, err := k.m.Explain(k.src, enginetest.Sandbox, v.ID)
			require.NoError(k.t, err)
			require.True(k.t, found)
			require.True(k.t, x.Equal, x.Problem)
			require.Len(k.t, x.Counted, len(x.Recomputed))
			require.Len(k.t, x.Costs, len(x.Recomputed))
			return x
		}
	}
	require.FailNow(k.t, "no such invoice")
	return billing.Explanation{}
}

// verified requires that nothing of a customer of the sandbox differs, and that it has invoices.
func verified(t require.TestingT, m *billing.Machine, src journal.Source, row uint32) {
	v, err := m.VerifyInvoices(src, enginetest.Sandbox, []uint32{row})
	require.NoError(t, err)
	require.Empty(t, v.Differences)
	require.Zero(t, v.Different)
	stored := m.Invoices(enginetest.Sandbox, row)
	stored = slices.DeleteFunc(stored, func(v billing.InvoiceView) bool { return v.Number == 0 })
	require.Equal(t, uint64(len(stored)), v.Invoices)
	require.NotZero(t, v.Invoices)
}

// tally is what an explained line says beside its amount.
func tally(x *billing.Explanation, line int) []any {
	return []any{
		x.Recomputed[line].Kind, x.Recomputed[line].Quantity.String(), x.Counted[line],
		x.Costs[line].String(),
	}
}

// TestExplainCountsEventsAndCosts: each line says how many events and corrections it counts, what
// they cost as corrected, and between which log entries they are; a late line counts what came
// after the line before it, and usage ahead of a period's end is on the next period's.
func TestExplainCountsEventsAndCosts(t *testing.T) {
	k := openBooks(t)
	end := int64(enginetest.Epoch + 28*dayMS)
	first := k.l.Index + 1
	k.use("a", 1_000_000, 0)
	k.use("b", 2_000_000, 0)
	k.use("c", 5_000_000, 0)
	k.void("b")
	k.amend("c", 3_000_000)
	last := k.l.Index
	k.to(end - 60_000)
	k.use("ahead", 7_000_000, -120_000)
	k.to(end)
	x := k.explained(2)
	require.Equal(t, []any{billing.LineUsage, "4000000", uint64(5), "4"}, tally(&x, 0),
		"a, b taken back, c amended: at 0.000001 each")
	require.Equal(t, []uint64{first, last}, []uint64{x.FirstIndex, x.LastIndex})
	require.Equal(t, []any{billing.LineBase, "1", uint64(0), "0"}, tally(&x, 1))

	k.to(end + dayMS)
	lateFirst := k.l.Index + 1
	k.use("late", 6_000_000, 2*dayMS)
	k.void("late")
	k.use("later", 8_000_000, 2*dayMS)
	k.use("present", 500_000, 0)
	k.to(enginetest.Epoch + 59*dayMS)
	x = k.explained(3)
	require.Equal(t, []any{billing.LineUsage, "7500000", uint64(2), "7.5"}, tally(&x, 0))
	require.Equal(t, []any{billing.LineLate, "8000000", uint64(3), "8"}, tally(&x, 1))
	require.Less(t, x.FirstIndex, lateFirst, "usage ahead was recorded before")
	require.Greater(t, x.FirstIndex, last)
	require.Equal(t, lateFirst+3, x.LastIndex)

	all := k.explained(1)
	require.Zero(t, all.FirstIndex+all.LastIndex, "the initial invoice counts no event")
}
