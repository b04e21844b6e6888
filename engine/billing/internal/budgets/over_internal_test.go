package budgets

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/decimal"
	"tollgate/engine/page"
)

// TestAStepVisitsSoManyLimits: however many limits are above an item.
func TestAStepVisitsSoManyLimits(t *testing.T) {
	var f Forest
	f.Open(page.NewStore())
	tx := accounts.Tx{Entry: new(accounts.Entry)}
	parent := ""
	for level := range MaxLevels {
		c := &PutBudget{Env: 1, Key: fmt.Sprint("level ", level), Parent: parent}
		for _, feature := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			c.Limits = append(c.Limits, LimitDocument{
				Of: MeasureCost, Feature: feature, Limit: decimal.FromInt(1), Window: WindowDay,
			})
		}
		require.Equal(t, engine.OutcomeDone, put(t, &f, c, 0))
		parent = c.Key
	}
	const items = 100
	for item := range uint32(items) {
		charge := Charge{Feature: 1, Cost: decimal.FromInt(1)}
		tx.Entry.Reset()
		f.Hold(&tx, item+1, f.Named(1, []byte(parent)), &charge, day)
		require.Equal(t, MaxLevels*MaxLimits/limitsPerUnit, tx.Entry.Work)
	}
	x := &f.in(1).expiring
	x.step(&f, day, stepWork)
	require.Equal(t, (stepWork-1)/(MaxLevels*MaxLimits+itemWork)+1, x.summed)
	CatchUp(&f, 1, day)
	require.Equal(t, items, x.summed)
	x.step(&f, 0, stepWork) // of a query behind them: it puts back
	require.Equal(t, items-(stepWork-1)/(MaxLevels*MaxLimits+itemWork)-1, x.summed)
	require.Len(t, x.over, x.summed)
	CatchUp(&f, 1, day) // of one that is ahead again
	CatchUp(&f, 1, 0)
	require.Empty(t, x.over)
	CatchUp(&f, 1, day)
	x.step(&f, 0, stepWork)
	Expires(&f, 1, 2*day) // a command, between steps
	CatchUp(&f, 1, 0)
	require.Empty(t, x.over)
	CatchUp(&f, 1, 2*day)
	require.Equal(t, items, x.summed)
	for item := range uint32(items) {
		tx.Entry.Reset()
		f.Release(&tx, item+1)
		require.Equal(t, 2*MaxLevels*MaxLimits/limitsPerUnit, tx.Entry.Work)
	}
	require.Empty(t, x.held)
}
