package budgets

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/decimal"
	"tollgate/engine/page"
)

// TestAChangeVisitsWhatLeadsThroughIt: of 2,500 nodes with 20,000 limits a freeze above them writes
// none, and it visits them only where the node that it freezes has no limit.
func TestAChangeVisitsWhatLeadsThroughIt(t *testing.T) {
	var f Forest
	store := page.NewStore()
	f.Open(store)
	node := func(key, parent string, limits int) {
		c := PutBudget{Env: 1, Key: key, Parent: parent}
		for i := range limits {
			c.Limits = append(c.Limits, LimitDocument{
				Of: MeasurePrice, Limit: decimal.FromInt(1), Window: WindowHour + Window(i%5),
				Feature: []string{"", "a"}[i/5],
			})
		}
		require.Equal(t, engine.OutcomeDone, put(t, &f, &c, 0))
	}
	node("top", "", 0)
	node("team", "top", 2)
	const leaves = 2500
	for i := range leaves {
		node(fmt.Sprint(i), "team", MaxLimits)
	}
	work := func(key string, frozen bool) int {
		tx := accounts.Tx{Entry: new(accounts.Entry)}
		_, _, o := f.Set(&tx, 1, key, day, func(n *Node) { n.Frozen = frozen })
		require.Equal(t, engine.OutcomeDone, o)
		return tx.Entry.Work
	}
	running := store.Begin()
	defer running.Release()
	require.Zero(t, work("team", true))
	require.Equal(t, (2+leaves+2)/limitsPerUnit, work("top", true), "each node, and the team's limits")
	require.False(t, running.Pressed(), "few pages were copied")
	c := Charge{Currency: [3]byte{'U', 'S', 'D'}}
	for _, key := range []string{"team", "top"} {
		refused, o := f.Ask(f.Named(1, []byte("7")), &c, day)
		require.Equal(t, engine.OutcomeBudgetFrozen, o)
		require.Equal(t, key, refused.Budget)
		work(key, false)
	}
	_, o := f.Ask(f.Named(1, []byte("7")), &c, day)
	require.Equal(t, engine.OutcomeDone, o)
	require.True(t, f.limits.Read(f.nodes.Read(f.Named(1, []byte("team"))).FirstLimit).code > refusing)
}

// TestAPutWalksTheNodesOnce: whatever the number of its limits.
func TestAPutWalksTheNodesOnce(t *testing.T) {
	var f Forest
	f.Open(page.NewStore())
	for i := range 800 {
		require.Equal(t, engine.OutcomeDone, put(t, &f, &PutBudget{Env: 1, Key: fmt.Sprint(i)}, 0))
	}
	work := func(limits int) int {
		c := PutBudget{Env: 1, Key: fmt.Sprint("with ", limits), Name: "n"}
		for i := range limits {
			c.Limits = append(c.Limits, LimitDocument{
				Of: MeasureCost, Limit: decimal.FromInt(1), Window: WindowHour + Window(i%5),
				Feature: []string{"", "a"}[i/5],
			})
		}
		tx := accounts.Tx{Entry: new(accounts.Entry)}
		_, o := f.Put(&tx, &c, Known{Feature: featureNumber, Now: day})
		require.Equal(t, engine.OutcomeDone, o)
		return tx.Entry.Work
	}
	require.Equal(t, 4, work(0))
	require.Equal(t, 4+2+50, work(1))
	require.Equal(t, 4+16+50+1, work(8))
}

// TestASnapshotHasWhatCountedBefore: what plainly fits is counted in place, but not in a page that
// a snapshot has still to take.
func TestASnapshotHasWhatCountedBefore(t *testing.T) {
	var f Forest
	store := page.NewStore()
	f.Open(store)
	require.Equal(t, engine.OutcomeDone, put(t, &f, &PutBudget{
		Env: 1, Key: "a", Limits: []LimitDocument{
			{Of: MeasurePrice, Limit: decimal.FromInt(1000), Window: WindowDay},
		},
	}, 0))
	node := f.Named(1, []byte("a"))
	one := decimal.FromInt(1).Exact()
	charge := func() {
		c := Charge{Currency: [3]byte{'U', 'S', 'D'}, Price: one}
		_, o := f.Ask(node, &c, day)
		require.Equal(t, engine.OutcomeDone, o)
		f.Charge(&accounts.Tx{Entry: new(accounts.Entry)}, 1, node, &c, day, true, nil)
	}
	used := func(f *Forest) decimal.Exact { return f.limits.Read(f.nodes.Read(node).FirstLimit).Used }
	charge()
	running := store.Begin()
	charge()
	var written bytes.Buffer
	_, err := running.WriteTo(&written)
	require.NoError(t, err)
	running.Release()
	require.Equal(t, decimal.FromInt(2).Exact(), used(&f))

	var restored Forest
	store = page.NewStore()
	restored.Open(store)
	require.NoError(t, store.Restore(&written))
	require.Equal(t, one, used(&restored))
}
