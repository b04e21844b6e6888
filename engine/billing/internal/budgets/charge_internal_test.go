package budgets

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/decimal"
	"tollgate/engine/page"
)

// TestALimitCountsNothingOfAnotherCurrency: also where Ask was of a charge that it takes.
func TestALimitCountsNothingOfAnotherCurrency(t *testing.T) {
	var f Forest
	f.Open(page.NewStore())
	tx := accounts.Tx{}
	tx.Entry = new(accounts.Entry)
	put := PutBudget{Env: 1, Key: "a", Name: "a", Limits: []LimitDocument{
		{Of: MeasurePrice, Limit: decimal.FromInt(100), Window: WindowDay},
		{Of: MeasureCost, Limit: decimal.FromInt(100), Window: WindowDay},
	}}
	_, o := f.Put(&tx, &put, Known{Feature: featureNumber, Now: day})
	require.Equal(t, engine.OutcomeDone, o)
	node := f.Named(1, []byte("a"))
	c := Charge{
		Currency: [3]byte{'U', 'S', 'D'}, Price: decimal.FromInt(3).Exact(), Cost: decimal.FromInt(1),
	}
	_, o = f.Ask(node, &c, day)
	require.Equal(t, engine.OutcomeDone, o)
	c.Currency = [3]byte{'E', 'U', 'R'}
	var counted Counted
	f.Charge(&tx, node, &c, day, &counted, true)
	price := f.limits.Read(f.nodes.Read(node).FirstLimit)
	require.Equal(t, decimal.Exact{}, price.Used)
	require.Equal(t, decimal.FromInt(1).Exact(), f.limits.Read(price.Next).Used)
	require.Equal(t, []byte{2, 2}, counted.Limits, "it names the one that counted")
}
