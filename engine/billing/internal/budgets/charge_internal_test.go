package budgets

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

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

// TestRowsAreSmall: what a hold's item holds in a budget takes 96 bytes.
func TestRowsAreSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(Item{}), uintptr(96))
}
