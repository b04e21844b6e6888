package budgets

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/decimal"
	"tollgate/engine/page"
)

// TestClimbsChangeNothing: whatever happens to budgets, a forest that asks by climbs refuses and
// counts what one does that asks each limit, in the same work.
func TestClimbsChangeNothing(t *testing.T) {
	climbed := 0
	rapid.Check(t, func(t *rapid.T) {
		var forests [2]Forest
		var txs [2]accounts.Tx
		for i := range forests {
			forests[i].Open(page.NewStore())
			txs[i].Entry = new(accounts.Entry)
		}
		both := func(do func(f *Forest, tx *accounts.Tx) any) {
			results := [2]any{}
			for i := range forests {
				results[i] = do(&forests[i], &txs[i])
			}
			require.Equal(t, results[0], results[1])
			require.Equal(t, txs[0].Hash, txs[1].Hash)
			require.Equal(t, *txs[0].Entry, *txs[1].Entry)
		}
		key := func() string {
			return rapid.SampledFrom([]string{"6", "6", "6", "5", "4", "2"}).Draw(t, "node")
		}
		amount := func() decimal.Decimal {
			of := []int64{0, 1, 1, 1, 2, 3, 20, 1e18}
			return decimal.FromInt(rapid.SampledFrom(of).Draw(t, "amount"))
		}
		now := int64(day)
		put := func(key, parent string) {
			c := PutBudget{Env: 1, Key: key, Name: key, Parent: parent}
			for i := range rapid.IntRange(0, 2).Draw(t, "limits") {
				most := rapid.SampledFrom([]int64{9, 60, 60, 1e18}).Draw(t, "max")
				d := LimitDocument{
					Of: MeasurePrice, Limit: decimal.FromInt(most), Window: []Window{WindowDay, WindowHour}[i],
					Soft: rapid.IntRange(0, 3).Draw(t, "soft") == 0,
				}
				switch rapid.IntRange(0, 19).Draw(t, "kind") {
				case 0:
					d.Of = MeasureCost
				case 1:
					d.Thresholds = []byte{50}
				case 2:
					d.Currency = "EUR"
				}
				c.Limits = append(c.Limits, d)
			}
			both(func(f *Forest, tx *accounts.Tx) any {
				_, o := f.Put(tx, &c, Known{Feature: featureNumber, Now: now})
				require.Equal(t, engine.OutcomeDone, o)
				return o
			})
		}
		for i := range 6 {
			parent := ""
			if i > 0 {
				parent = fmt.Sprint(rapid.IntRange(max(1, i-1), i).Draw(t, "parent"))
			}
			put(fmt.Sprint(i+1), parent)
		}
		charge := func() Charge {
			c := Charge{Currency: [3]byte{'U', 'S', 'D'}, Cost: amount(), Price: amount().Exact()}
			if rapid.IntRange(0, 9).Draw(t, "negative") == 0 {
				c = c.Neg()
			}
			return c
		}
		for range rapid.IntRange(20, 100).Draw(t, "steps") {
			name := key()
			switch rapid.IntRange(0, 49).Draw(t, "step") {
			case 0:
				put(name, "")
			case 1:
				frozen := rapid.Bool().Draw(t, "frozen")
				both(func(f *Forest, tx *accounts.Tx) any {
					_, _, o := f.Set(tx, 1, name, now, func(n *Node) { n.Frozen = frozen })
					return o
				})
			case 2:
				c := MoveBudget{Env: 1, Key: name, Parent: key()}
				both(func(f *Forest, tx *accounts.Tx) any {
					_, o := f.Move(tx, &c, now)
					return o
				})
			case 3:
				c, item := charge(), rapid.Uint32Range(1, 3).Draw(t, "item")
				both(func(f *Forest, tx *accounts.Tx) any {
					f.Hold(tx, item, f.Named(1, []byte(name)), &c, rows.Never)
					return nil
				})
			case 4:
				now += rapid.SampledFrom([]int64{1, day / 24, day}).Draw(t, "later")
			case 5:
				c := charge()
				both(func(f *Forest, tx *accounts.Tx) any {
					var k Counted
					crossed := f.Charge(tx, f.Named(1, []byte(name)), &c, now, &k, false)
					change := c.Neg()
					f.Correct(tx, 1, &k, &change, now)
					f.Correct(tx, 1, &k, &c, now)
					return []any{crossed, k}
				})
			default:
				c, other := charge(), rapid.IntRange(0, 19).Draw(t, "other")
				both(func(f *Forest, tx *accounts.Tx) any {
					if f == &forests[1] {
						f.climbs.changed()
					}
					refused, o := f.Ask(f.Named(1, []byte(name)), &c, now)
					if f.climbs.asked != nil {
						climbed++
					}
					if o != engine.OutcomeDone {
						return []any{refused, o}
					}
					c, at := c, now
					switch other {
					case 0: // than what was asked for
						c.Currency = [3]byte{'E', 'U', 'R'}
					case 1:
						at += day
					}
					var k Counted
					crossed := f.Charge(tx, f.Named(1, []byte(name)), &c, at, &k, true)
					return []any{crossed, k}
				})
			}
			for row := uint32(1); row <= forests[0].limits.Len(); row++ {
				require.Equal(t, *forests[1].limits.Read(row), *forests[0].limits.Read(row))
			}
		}
	})
	require.Positive(t, climbed)
	t.Log(climbed, "asked by climbs")
}

// TestAClimbAdmitsNoMoreThanItsLimits: with a climb, too, a limit counts up to the last unit, in
// the window and the currency of the charge.
func TestAClimbAdmitsNoMoreThanItsLimits(t *testing.T) {
	var f Forest
	f.Open(page.NewStore())
	tx := accounts.Tx{}
	tx.Entry = new(accounts.Entry)
	for _, c := range []PutBudget{
		{Env: 1, Key: "all", Name: "all", Limits: []LimitDocument{
			{Of: MeasurePrice, Limit: decimal.FromInt(5), Window: WindowDay},
		}},
		{Env: 1, Key: "one", Name: "one", Parent: "all"},
	} {
		_, o := f.Put(&tx, &c, Known{Feature: featureNumber, Now: day})
		require.Equal(t, engine.OutcomeDone, o)
	}
	node, used := f.Named(1, []byte("one")), func() decimal.Exact { return f.limits.Read(1).Used }
	c := Charge{Currency: [3]byte{'U', 'S', 'D'}, Price: decimal.FromInt(1).Exact()}
	var k Counted
	for n := range 7 {
		_, o := f.Ask(node, &c, day)
		require.Equal(t, n < 5, o == engine.OutcomeDone, n)
		require.Equal(t, 1 <= n && n < 5, f.climbs.asked != nil, n)
		if o == engine.OutcomeDone {
			f.Charge(&tx, node, &c, day, &k, true)
		}
		require.Equal(t, decimal.FromInt(min(int64(n)+1, 5)).Exact(), used())
	}
	for now := int64(2 * day); now < 6*day; now += day { // asked for in the window before
		for range 3 {
			_, o := f.Ask(node, &c, now)
			require.Equal(t, engine.OutcomeDone, o)
			f.Charge(&tx, node, &c, now, &k, true)
		}
		_, _ = f.Ask(node, &c, now)
		require.NotNil(t, f.climbs.asked)
		other := c
		other.Currency = [3]byte{'E', 'U', 'R'}
		f.Charge(&tx, node, &other, now, &k, true)
		require.Equal(t, decimal.FromInt(3).Exact(), used())
		_, _ = f.Ask(node, &c, now)
		require.NotNil(t, f.climbs.asked)
		f.Charge(&tx, node, &c, now+day, &k, true)
		require.Equal(t, decimal.FromInt(1).Exact(), used(), "the window began anew")
		require.Equal(t, now+day, f.limits.Read(1).Start)
		now += day
	}
}
