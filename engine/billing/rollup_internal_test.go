package billing

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/page"
	"tollgate/engine/rollup"
)

func TestTheFirstOfARankingAreThoseOfAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		order := func(a, b *rollup.Cell) int {
			return cmp.Or(cmp.Compare(b.Events, a.Events), a.Compare(b.Key))
		}
		sums := map[uint32]cellRows{}
		var all []*rollup.Cell
		for item := range uint32(3) {
			var rows cellRows
			for row, events := range rapid.MapOf(rapid.Uint32Range(1, 3*rowsOfGroup-1),
				rapid.Int64Range(0, 9)).Draw(t, "rows") {
				c, _ := rows.at(row)
				*c = rollup.Cell{Key: rollup.Key{Owner: uint64(row), Item: item}, Events: events}
				if events != 0 {
					all = append(all, c)
				}
			}
			sums[item] = rows
		}
		slices.SortFunc(all, order)
		most := rapid.IntRange(1, 20).Draw(t, "most")
		first, others := rank(most, sums, order)
		require.Equal(t, all[:min(most, len(all))], first[:len(first):len(first)])
		require.Equal(t, len(all)-len(first), others)
	})
}

// TestARankingIsBounded: whatever customers used, it takes no more memory than it may. A feature of
// one customer takes little of it, wherever its row is.
func TestARankingIsBounded(t *testing.T) {
	customers := book.OpenCustomers(page.NewStore())
	for range 100_000 {
		_, r := customers.Append()
		r.Env = 1
	}
	sum := summing{
		customers: &customers, env: 1, left: 8 << 20, sums: map[uint32]cellRows{},
		as: func(item uint32) uint32 { return item },
	}
	add := func(customer uint64, feature uint32) error {
		return sum.add(rollup.Cell{Key: rollup.Key{Owner: customer, Item: feature}, Events: 1})
	}
	for feature := range uint32(2000) {
		require.NoError(t, add(99_999, feature))
		require.NoError(t, add(99_999, feature))
	}
	require.NoError(t, add(100_001, 1), "none of its customers")
	for _, cells := range sum.sums {
		n := 0
		for c := range cells.all() {
			require.Equal(t, rollup.Cell{
				Key: rollup.Key{Owner: 99_999, Item: c.Item}, Events: 2,
			}, *c)
			n++
		}
		require.Equal(t, 1, n)
	}
	var err error
	for row := uint64(1); row <= 100_000 && err == nil; row++ {
		err = add(row, 1)
	}
	require.ErrorIs(t, err, ErrRankingTooLarge)
}

// usedBy is a source of the usage of customers; it counts how often it is asked.
type usedBy struct {
	uses func(row uint64) bool
	sums int
}

func (u *usedBy) Sum(q rollup.Query, yield func(rollup.Cell) error) error {
	u.sums++
	for row := q.Owner; row <= min(q.Through, 100_000); row++ {
		if !u.uses(row) {
			continue
		}
		if err := yield(rollup.Cell{Key: rollup.Key{Owner: row, Item: 1}, Events: 1}); err != nil {
			return err
		}
	}
	return nil
}

// TestARankingHasSoManyParts: they grow again behind customers that lie close together, and where
// there would be too many the ranking is refused.
func TestARankingHasSoManyParts(t *testing.T) {
	s := New(Config{}).state.Load()
	for range 100_000 {
		_, r := s.Customers.Append()
		r.Env = 1
	}
	read := func(room int, uses func(row uint64) bool) (parts int, err error) {
		p := pricer{
			state: s, env: &accounts.Environment{Number: 1}, room: room,
			kept: foremost[candidate]{most: 2, order: likelier},
		}
		src := usedBy{uses: uses}
		err = p.read(&src, rollup.Query{Owner: 1, Through: rollup.Environment(0) - 1})
		return src.sums, err
	}
	parts, err := read(256<<10, func(row uint64) bool { return row <= 20_000 || row%5_000 == 0 })
	require.NoError(t, err)
	require.Greater(t, parts, 5)
	require.Less(t, parts, 12)
	parts, err = read(8<<10, func(uint64) bool { return true })
	require.ErrorIs(t, err, ErrRankingTooLarge)
	require.Equal(t, maxParts, parts)
}

// TestLaterUsageIsAddedToItsFeature: of a customer's many, and of no other.
func TestLaterUsageIsAddedToItsFeature(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := pricer{
			room: 1 << 20, kept: foremost[candidate]{most: 2, order: likelier},
		}
		p.kept.add(candidate{row: 1})
		p.kept.add(candidate{row: 2})
		used := map[uint32]cellRows{}
		for feature := range uint32(9) {
			var rows cellRows
			for _, row := range rapid.SliceOf(rapid.Uint32Range(1, 3)).Draw(t, "rows") {
				c, _ := rows.at(row)
				*c = rollup.Cell{Key: rollup.Key{Owner: uint64(row), Item: feature}, Events: 1}
			}
			used[feature] = rows
		}
		require.NoError(t, p.take(used))
		want := map[rollup.Key]int64{}
		for range 50 {
			key := rollup.Key{
				Owner: rapid.Uint64Range(1, 3).Draw(t, "row"),
				Item:  rapid.Uint32Range(0, 9).Draw(t, "item"),
			}
			require.NoError(t, p.addLater(rollup.Cell{Key: key, Events: 1}))
			want[key]++
		}
		for row, list := range p.used {
			for _, of := range list {
				key := rollup.Key{Owner: uint64(row), Item: of.feature}
				require.Equal(t, want[key], of.later.Events)
			}
		}
	})
}
