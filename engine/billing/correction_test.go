package billing_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/journal"
)

// TestACorrectionCarriesTheRecordOfItsEvent, whole and unchanged; what it says of credits must be
// the customer's own. Anything else corrects nothing.
func TestACorrectionCarriesTheRecordOfItsEvent(t *testing.T) {
	m, l := prepaid(t)
	enginetest.NewCustomer(l, "bob", "prepaid") // whose pool is 2, and whose grant is 2
	send(t, l, enginetest.Usage(l, "a", "ada", "images", 1))
	send(t, l, enginetest.Usage(l, "b", "ada", "images", 1))
	src := &enginetest.Source{Journal: m.Journal()}
	key := billing.UsageKey(enginetest.Sandbox, []byte("a"))
	ref, found, err := m.FindUsage(src, src, enginetest.Sandbox, key)
	require.NoError(t, err)
	require.True(t, found)
	changed := func(change func(*billing.VoidUsage)) *billing.VoidUsage {
		c := &billing.VoidUsage{Env: enginetest.Sandbox, Key: key, Original: ref}
		c.Original.Payload = bytes.Clone(ref.Payload)
		change(c)
		return c
	}
	pools := [][]billing.PoolView{m.Pools(1), m.Pools(2)}
	for name, c := range map[string]*billing.VoidUsage{
		"another event's": changed(func(c *billing.VoidUsage) {
			c.Key = billing.UsageKey(enginetest.Sandbox, []byte("b"))
		}),
		"another environment's": changed(func(c *billing.VoidUsage) { c.Env = 2 }),
		"another hash":          changed(func(c *billing.VoidUsage) { c.Original.Hash++ }),
		"changed":               changed(func(c *billing.VoidUsage) { c.Original.Payload[3]++ }),
		"cut": changed(func(c *billing.VoidUsage) {
			c.Original.Payload = c.Original.Payload[:9]
		}),
		"nobody's":     changed(func(c *billing.VoidUsage) { c.Original.Owner = 0 }),
		"no customer":  changed(func(c *billing.VoidUsage) { c.Original.Owner = 99 }),
		"bob's pool":   {Original: ref.WithDraw(2, 2, decimal.FromInt(1))},
		"no such pool": {Original: ref.WithDraw(99, 0, decimal.FromInt(1))},
		"another pool's grant": {
			Original: ref.WithDraw(1, 2, decimal.FromInt(1)),
		},
	} {
		if c.Env == 0 {
			c.Env, c.Key = enginetest.Sandbox, key
		}
		require.Equal(t, engine.OutcomeUsageUnknown.String(),
			l.Do(billing.KindVoidUsage, c).Outcome.String(), name)
		require.Equal(t, pools, [][]billing.PoolView{m.Pools(1), m.Pools(2)}, name)
	}
	amend := &billing.AmendUsage{
		Env: enginetest.Sandbox, Key: key, Original: ref, Units: decimal.FromInt(-1),
	}
	require.Equal(t, engine.OutcomeOverflow, l.Do(billing.KindAmendUsage, amend).Outcome)
	amend.Units, amend.ID = decimal.FromInt(2), enginetest.ID("amendment")
	require.Equal(t, engine.OutcomeDone, l.Do(billing.KindAmendUsage, amend).Outcome)
	tail := bytes.Clone(m.Journal().Tail(journal.KindAmend.Part()))
	require.Equal(t, engine.OutcomeDone, l.Do(billing.KindAmendUsage, amend).Outcome)
	require.True(t, bytes.Equal(tail, m.Journal().Tail(journal.KindAmend.Part())), "sent again, it counts once")
	void := changed(func(*billing.VoidUsage) {})
	require.Equal(t, engine.OutcomeDone, l.Do(billing.KindVoidUsage, void).Outcome)
	require.NoError(t, billing.CheckCredits(m))
	require.Equal(t, "97", m.Pools(1)[0].Balance.String(), "one image is left")
}
