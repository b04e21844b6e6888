package budgets

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/decimal"
	"tollgate/engine/page"
	"tollgate/engine/wire"
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
	record, _ := f.Charge(&tx, 1, node, &c, day, true, nil)
	require.NoError(t, wire.Decode(record, &counted))
	price := f.limits.Read(f.nodes.Read(node).FirstLimit)
	require.Equal(t, decimal.Exact{}, price.Used)
	require.Equal(t, decimal.FromInt(1).Exact(), f.limits.Read(price.Next).Used)
	require.Equal(t, []byte{2, 2}, counted.Limits, "it names the one that counted")
}

// TestExactTakesFewBytes: an amount is read as it was written, and takes no byte more than it must.
func TestExactTakesFewBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var words [4]uint64
		for i := range words {
			words[i] = rapid.Uint64().Draw(t, "word")
		}
		x := decimal.ExactOf(words)
		for range rapid.IntRange(0, 255).Draw(t, "bits") { // to fewer bits, of either sign
			low := words
			for i := range words {
				next := uint64(int64(words[3]) >> 63)
				if i < 3 {
					next = low[i+1]
				}
				words[i] = low[i]>>1 | next<<63
			}
			x = decimal.ExactOf(words)
		}
		b := appendExact([]byte("front"), x)[5:]
		require.Equal(t, x, exactOf(b))
		if n := len(b); n > 0 {
			require.NotEqual(t, x, exactOf(b[:n-1]))
		}
	})
	require.Empty(t, appendExact(nil, decimal.Exact{}))
	require.Len(t, appendExact(nil, decimal.FromInt(-1).Exact().Neg()), 11)
}

// TestRowsAreSmall: what a hold's item holds in a budget takes 96 bytes; a limit begins with a line
// of the cache, and that has all that a usual event needs.
func TestRowsAreSmall(t *testing.T) {
	require.Zero(t, unsafe.Sizeof(Limit{})%64)
	require.EqualValues(t, 64, unsafe.Offsetof(Limit{}.limitKey))
	require.LessOrEqual(t, unsafe.Sizeof(Item{}), uintptr(96))
}

// TestRoomIsNoMoreThanThereIs: of limits that hold, release and count amounts of any fraction, soft
// ones and those of a second level, too.
func TestRoomIsNoMoreThanThereIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f Forest
		f.Open(page.NewStore())
		tx := accounts.Tx{}
		tx.Entry = new(accounts.Entry)
		var limits []*Limit
		var node uint32
		for _, key := range []string{"a", "a:b"}[:rapid.IntRange(1, 2).Draw(t, "levels")] {
			put := PutBudget{Env: 1, Key: key, Name: key, Limits: []LimitDocument{{
				Of: MeasurePrice, Limit: decimal.FromBits(0, rapid.Uint64Range(0, 1<<40).Draw(t, "limit")),
				Window: WindowDay, Thresholds: []byte{50, 90}, Soft: rapid.Bool().Draw(t, "soft"),
			}}}
			if node != 0 {
				put.Parent = "a"
			}
			_, o := f.Put(&tx, &put, Known{Feature: featureNumber, Now: day})
			require.Equal(t, engine.OutcomeDone, o)
			node = f.Named(1, []byte(key))
			limits = append(limits, f.limits.Read(f.nodes.Read(node).FirstLimit))
		}
		told := map[uint32]uint8{}
		for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
			c := Charge{Currency: [3]byte{'U', 'S', 'D'}, Price: decimal.ExactOf([4]uint64{
				rapid.Uint64().Draw(t, "low"), rapid.Uint64Range(0, 40_000).Draw(t, "high"),
			})}
			refused, o := f.Ask(node, &c, day)
			_, planned := f.Plan(node, []Charge{c}, day)
			require.Equal(t, planned, o)
			switch {
			case refused != nil:
			case rapid.Bool().Draw(t, "hold"):
				f.Hold(&tx, uint32(i+1), node, &c, 2*day)
			default:
				_, crossed := f.Charge(&tx, 1, node, &c, day, true, nil)
				for _, l := range limits {
					tells := slices.ContainsFunc(crossed, func(x Crossing) bool {
						return f.limits.Read(x.Row).Node == l.Node
					})
					reached := l.reached()
					require.Equal(t, reached > told[l.Node], tells, "each threshold is told")
					told[l.Node] = reached
				}
			}
			if rapid.Bool().Draw(t, "release") {
				f.Release(&tx, uint32(rapid.IntRange(1, i+1).Draw(t, "item")))
			}
			for _, l := range limits {
				known, now := l.room, *l
				now.measure()
				require.LessOrEqual(t, known, now.room)
			}
		}
	})
}
