package billing_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

// TestDeductionsOfABusyPoolGoOn: a 250th of 50,000 a day, in a 250th of the room, are never
// refused, and each of the last 30 days can be reversed, once.
func TestDeductionsOfABusyPoolGoOn(t *testing.T) {
	const small = 250
	require.GreaterOrEqual(t, billing.MaxTraces, 30*50_000)
	require.EqualValues(t, 30*dayMS, billing.ReversalMS)
	w := newSmallPoolWork(t, 64, billing.MaxTraces/small)
	require.Equal(t, engine.OutcomeDone, w.grant("large", 1_000_000))
	n := 0
	for range 33 {
		n += w.deductMany(n, 50_000/small)
		w.l.Stamp += dayMS
	}
	first := n - 30*50_000/small
	require.Equal(t, engine.OutcomeTransactionUnknown, w.reverse("deduction 0"), "33 days ago")
	for i := first; i < n; i += 997 {
		require.Equal(t, engine.OutcomeDone, w.reverse(fmt.Sprint("deduction ", i)), i)
	}
	rows, _ := billing.TransactionRows(w.m)
	require.LessOrEqual(t, rows, uint32(64+64), "the journal has the others")
	require.LessOrEqual(t, billing.Traces(w.m), uint32(32*50_000/small))
	require.NoError(t, billing.CheckCredits(w.m))
	requireProved(t, w.m, w.src)
}

// TestDeductionsAreBounded: a pool at its limit of traces takes no more deductions until
// the oldest are a day old; those are forgotten then, and listed all the same.
func TestDeductionsAreBounded(t *testing.T) {
	const traces = 256
	w := newSmallPoolWork(t, 64, traces)
	require.Equal(t, engine.OutcomeDone, w.grant("large", 1_000_000))
	n := 0
	for ; ; n++ {
		require.Less(t, n, traces+3*64)
		outcome := w.deduct(fmt.Sprint("deduction ", n), "0.01")
		if outcome != engine.OutcomeDone {
			require.Equal(t, engine.OutcomeDeductionLimit, outcome)
			break
		}
	}
	require.GreaterOrEqual(t, n, traces)
	require.Equal(t, engine.OutcomeDone, w.grant("more", 1), "only deductions are refused,")
	require.Equal(t, engine.OutcomeDeductionLimit, w.reverse("deduction 1"), "and reversals")
	w.l.Stamp += dayMS
	require.Equal(t, engine.OutcomeDone, w.reverse("deduction 0"))
	for i := range 2 * 64 {
		require.Equal(t, engine.OutcomeDone, w.deduct(fmt.Sprint("later ", i), "0.01"))
	}
	require.Equal(t, engine.OutcomeTransactionUnknown, w.reverse("deduction 1"))
	require.LessOrEqual(t, billing.Traces(w.m), uint32(traces))
	w.restore()
	requireProved(t, w.m, w.src)
	all := w.list(w.m, 100, func() {})
	w.requireWhole(all, all[0].Sequence)
	for i := range all {
		require.Equal(t, all[i].Note == "deduction 0", all[i].Reversed, "%q", all[i].Note)
	}
}

// TestADeductionIsReversedFromTheJournal: with what the journal has of it and nothing else, once.
func TestADeductionIsReversedFromTheJournal(t *testing.T) {
	w := newSmallPoolWork(t, 64, 0)
	require.Equal(t, engine.OutcomeDone, w.grant("large", 100))
	require.Equal(t, engine.OutcomeDone, w.deduct("old", "30"))
	require.Equal(t, engine.OutcomeDone, w.deduct("other", "7"))
	w.busy(300)
	before := onlyPool(t, w.m)
	c := billing.ReverseTransaction{
		Env: enginetest.Sandbox, ID: enginetest.ID("r"), Transaction: enginetest.ID("old"), Note: "n",
	}
	require.Equal(t, engine.OutcomeTransactionLeft, w.send(&c), "it brings nothing")
	old := w.left(c.Transaction)
	for i := range old.Record {
		c.Left = append([]byte(nil), old.Record...)
		c.Left[i] ^= 4
		require.Equal(t, engine.OutcomeTransactionLeft, w.send(&c), "it brings what was changed")
	}
	c.Left = w.left(enginetest.ID("other")).Record
	require.Equal(t, engine.OutcomeTransactionLeft, w.send(&c), "it brings another's")
	require.Equal(t, before, onlyPool(t, w.m))

	c.Left = old.Record
	require.Equal(t, engine.OutcomeDone, w.send(&c))
	require.Equal(t, "30", minus(t, onlyPool(t, w.m).Balance, before.Balance))
	require.Equal(t, engine.OutcomeDone, w.send(&c), "the same reversal again")
	again := c
	again.ID = enginetest.ID("r2")
	require.Equal(t, engine.OutcomeTransactionFinal, w.send(&again))
	w.busy(300)
	w.restore()
	require.Equal(t, engine.OutcomeTransactionFinal, w.send(&again), "though the reversal has left")
	require.Equal(t, engine.OutcomeTransactionLeft, w.send(&c), "which a repeat finds")
	made := w.left(c.ID)
	require.Equal(t, "REVERSAL", made.Kind)
	require.Equal(t, c.Transaction, made.Of)
	require.Equal(t, "n", made.Note)
	require.True(t, w.left(c.Transaction).Reversed)
	for _, x := range w.list(w.m, 1000, func() {}) {
		require.Equal(t, x.ID == c.Transaction, x.Reversed)
	}
	_, found, err := w.m.LeftTransaction(w.src, enginetest.Sandbox+1, c.ID)
	require.NoError(t, err)
	require.False(t, found, "another environment does not see it")
	elsewhere := c
	elsewhere.Env++
	require.Equal(t, engine.OutcomeIDsContradict, w.send(&elsewhere))
	requireProved(t, w.m, w.src)
}

// TestReversalsAgreeWithAModel: whatever is deducted, reversed and repeated in which order, however
// far it has left memory, each counts once.
func TestReversalsAgreeWithAModel(t *testing.T) {
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 8))
		w := newSmallPoolWork(t, 64, 0)
		require.Equal(t, engine.OutcomeDone, w.grant("large", 5000))
		balance := onlyPool(t, w.m).Balance
		var amounts []int64
		reversed := map[int]bool{}
		name := func(i int) string { return fmt.Sprint("deduction ", i) }
		for range 800 {
			switch k := r.IntN(10); {
			case k < 6 || len(amounts) == 0:
				amount := r.Int64N(3) + 1
				outcome := w.deduct(name(len(amounts)), fmt.Sprint(amount))
				require.Equal(t, engine.OutcomeDone, outcome)
				amounts = append(amounts, amount)
				balance = less(t, balance, amount)
			case k < 7:
				i := r.IntN(len(amounts))
				require.Contains(t, []engine.Outcome{
					engine.OutcomeDone, engine.OutcomeTransactionLeft,
				}, w.deduct(name(i), fmt.Sprint(amounts[i])), "a repeat, which takes nothing")
			case k == 9 && r.IntN(100) == 0:
				w.restore()
			default:
				i := r.IntN(len(amounts))
				outcome := w.reverse(name(i))
				if !reversed[i] {
					require.Equal(t, engine.OutcomeDone, outcome)
					balance = less(t, balance, -amounts[i])
				}
				reversed[i] = true
				c := billing.ReverseTransaction{
					Env: enginetest.Sandbox, ID: enginetest.ID("second " + name(i)),
					Transaction: enginetest.ID(name(i)),
				}
				if w.send(&c) == engine.OutcomeTransactionLeft {
					c.Left = w.left(c.Transaction).Record
				}
				require.Equal(t, engine.OutcomeTransactionFinal, w.send(&c))
			}
			require.Equal(t, balance, onlyPool(t, w.m).Balance)
		}
		for _, x := range w.list(w.m, 1000, func() {}) {
			if x.Kind == "DEDUCTION" {
				var i int
				_, err := fmt.Sscanf(x.Note, "deduction %d", &i)
				require.NoError(t, err)
				require.Equal(t, reversed[i], x.Reversed)
			}
		}
		require.NoError(t, billing.CheckCredits(w.m))
		requireProved(t, w.m, w.src)
	}
}

func less(t *testing.T, d decimal.Decimal, amount int64) decimal.Decimal {
	t.Helper()
	d, ok := d.Sub(decimal.FromInt(amount))
	require.True(t, ok)
	return d
}

// TestWhatLeavesMemoryIsTheSame: the journal has of a deduction all that memory had.
func TestWhatLeavesMemoryIsTheSame(t *testing.T) {
	w := newSmallPoolWork(t, 64, 0)
	require.Equal(t, engine.OutcomeDone, w.grant("large", 100))
	require.Equal(t, engine.OutcomeDone, w.deduct("old", "30"))
	inMemory := w.left(enginetest.ID("old"))
	w.busy(300)
	require.Equal(t, inMemory, w.left(enginetest.ID("old")))
}
