package billing_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/journal"
	"tollgate/engine/wire"
)

// poolWork is a pool to which much happens.
type poolWork struct {
	t   *testing.T
	m   *billing.Machine
	l   *enginetest.Log
	src *enginetest.Source
	id  [16]byte

	config billing.Config
}

// restore goes on with a machine that has taken a snapshot.
func (w *poolWork) restore() {
	data := enginetest.Snapshot(w.t, w.m)
	w.m = billing.New(w.config)
	require.NoError(w.t, w.m.Restore(bytes.NewReader(data)))
	require.Equal(w.t, data, enginetest.Snapshot(w.t, w.m))
	w.l = enginetest.NewLog(w.m, w.l.Stamp)
	w.l.Keep = false
	w.src.Journal = w.m.Journal()
}

func newPoolWork(t *testing.T) *poolWork {
	t.Helper()
	return newSmallPoolWork(t, 0, 0)
}

// newSmallPoolWork is a pool that keeps so few of its newest transactions, and traces of others.
func newSmallPoolWork(t *testing.T, newest, traces uint32) *poolWork {
	t.Helper()
	config := billing.WithPools(billing.Config{}, newest, traces)
	m, l := prepaidIn(t, config)
	l.Keep = false
	return &poolWork{t, m, l, &enginetest.Source{Journal: m.Journal()}, onlyPool(t, m).ID, config}
}

func (w *poolWork) deduct(name, amount string) engine.Outcome {
	r := w.l.Do(billing.KindDeductCredits, &billing.DeductCredits{
		Env: enginetest.Sandbox, ID: enginetest.ID(name), Pool: w.id,
		Amount: decimal.MustParse(amount), Note: name,
	})
	w.src.Keep(&w.l.Applied)
	return r.Outcome
}

// deductMany takes 0.01 out n times, many times an entry. They are numbered from first on.
func (w *poolWork) deductMany(first, n int) int {
	for at := first; at < first+n; at += 100 {
		var records []engine.Record
		for i := at; i < at+100; i++ {
			c := billing.DeductCredits{
				Env: enginetest.Sandbox, ID: enginetest.ID(fmt.Sprint("deduction ", i)), Pool: w.id,
				Amount: decimal.MustParse("0.01"), Note: fmt.Sprint("deduction ", i),
			}
			records = append(records, engine.Record{
				Kind: billing.KindDeductCredits, Payload: wire.Encode(nil, &c),
			})
		}
		results, err := w.l.Apply(records...)
		require.NoError(w.t, err)
		for i := range results {
			require.Equal(w.t, engine.OutcomeDone, results[i].Outcome)
		}
		w.src.Keep(&w.l.Applied)
	}
	return n
}

// grant adds credits: those of 1 burn first, so that what follows can use them up.
func (w *poolWork) grant(name string, amount int64) engine.Outcome {
	priority := int64(5)
	if amount == 1 {
		priority = -5
	}
	return w.l.Do(billing.KindGrantCredits, &billing.GrantCredits{
		Env: enginetest.Sandbox, ID: enginetest.ID(name), Pool: w.id, Note: name,
		Amount: decimal.FromInt(amount), Priority: priority,
	}).Outcome
}

// reverse reverses a transaction as the API does: what has left memory it brings from the journal.
func (w *poolWork) reverse(name string) engine.Outcome {
	c := billing.ReverseTransaction{
		Env: enginetest.Sandbox, ID: enginetest.ID("reversal of " + name),
		Transaction: enginetest.ID(name),
	}
	outcome := w.send(&c)
	if outcome == engine.OutcomeTransactionLeft {
		c.Left = w.left(c.Transaction).Record
		outcome = w.send(&c)
	}
	return outcome
}

func (w *poolWork) send(c *billing.ReverseTransaction) engine.Outcome {
	outcome := w.l.Do(billing.KindReverseTransaction, c).Outcome
	w.src.Keep(&w.l.Applied)
	return outcome
}

func (w *poolWork) left(id [16]byte) billing.LeftTransaction {
	w.t.Helper()
	x, found, err := w.m.LeftTransaction(w.src, enginetest.Sandbox, id)
	require.NoError(w.t, err)
	require.True(w.t, found)
	return x
}

// list reads all transactions of the pool by pages, between which the pool may go on.
func (w *poolWork) list(
	m *billing.Machine, limit int, between func(),
) (all []billing.TransactionView) {
	q := billing.TransactionQuery{Env: enginetest.Sandbox, Pool: w.id, Limit: limit}
	for {
		page, found, err := m.Transactions(w.src, q)
		require.NoError(w.t, err)
		require.True(w.t, found)
		all = append(all, page.List...)
		if !page.More {
			return all
		}
		require.Len(w.t, page.List, limit)
		q.Cursor = page.Next
		between()
	}
}

// requireWhole reports whether a list has every transaction from a sequence down to the first one.
func (w *poolWork) requireWhole(all []billing.TransactionView, newest uint32) {
	w.t.Helper()
	require.Len(w.t, all, int(newest))
	for i := range all {
		require.Equal(w.t, newest-uint32(i), all[i].Sequence)
	}
}

// busy lets n things happen: deductions among usage of one feature after another, on other days.
func (w *poolWork) busy(n int) {
	for i := range n {
		sequence := w.newest() + 1
		switch i % 3 {
		case 0:
			require.Equal(w.t, engine.OutcomeDone, w.deduct(fmt.Sprint("d", sequence), "0.001"))
		case 1:
			require.Equal(w.t, engine.OutcomeDone, w.grant(fmt.Sprint("g", sequence), 1))
			require.Equal(w.t, engine.OutcomeDone, w.deduct(fmt.Sprint("s", sequence), "1"))
		default:
			c := enginetest.Usage(w.l, fmt.Sprint("event ", sequence), "ada", "images", 1)
			c.Units = decimal.MustParse("0.001")
			send(w.t, w.l, c)
			w.l.Stamp += dayMS / 500
		}
	}
}

func (w *poolWork) newest() uint32 {
	page, _, err := w.m.Transactions(w.src, billing.TransactionQuery{
		Env: enginetest.Sandbox, Pool: w.id, Limit: 1,
	})
	require.NoError(w.t, err)
	return page.List[0].Sequence
}

// TestPoolListsAllItsTransactions: what has left memory is listed from the journal, whatever the
// size of pages and whatever happens between them; memory stays bounded, a restored pool is the
// same, and the journal proves the totals.
func TestPoolListsAllItsTransactions(t *testing.T) {
	w := newPoolWork(t)
	require.Equal(t, engine.OutcomeDone, w.grant("large", 1_000_000))
	require.Equal(t, engine.OutcomeDone, w.deduct("old", "0.01"))
	w.busy(1800)
	newest := w.newest()
	require.Greater(t, newest, uint32(3*billing.MaxTransactions/2))
	require.NoError(t, billing.CheckCredits(w.m))
	requireProved(t, w.m, w.src)
	rows, free := billing.TransactionRows(w.m)
	require.LessOrEqual(t, rows, uint32(billing.MaxTransactions+64))
	require.LessOrEqual(t, free, uint32(64))

	all := w.list(w.m, 999, func() {})
	w.requireWhole(all, newest)
	require.Equal(t, "old", all[len(all)-3].Note)
	require.Equal(t, all, w.list(w.m, 170, func() {}))

	again := restored(t, enginetest.Snapshot(t, w.m))
	require.Equal(t, all, w.list(again, 1000, func() {}))
	require.Equal(t, enginetest.Snapshot(t, w.m), enginetest.Snapshot(t, again))
	grown := w.list(w.m, 400, func() { w.busy(150) })
	require.Equal(t, all[len(all)-1000:], grown[len(grown)-1000:])
	w.requireWhole(grown, newest)
}

// TestOldTransactionsAreReversed: a grant as long as it holds something, a deduction as long as it
// is kept, though both left the newest long ago; the list says so, once.
func TestOldTransactionsAreReversed(t *testing.T) {
	w := newPoolWork(t)
	require.Equal(t, engine.OutcomeDone, w.grant("large", 5000))
	require.Equal(t, engine.OutcomeDone, w.grant("spare", 7))
	require.Equal(t, engine.OutcomeDone, w.deduct("old", "0.01"))
	w.busy(1500)
	before := w.newest()
	require.Equal(t, engine.OutcomeDone, w.grant("spare", 7), "a repeat, which grants nothing")
	require.Equal(t, engine.OutcomeTransactionLeft, w.deduct("old", "0.01"), "nor deducted twice")
	require.Equal(t, "old", w.left(enginetest.ID("old")).Note, "the journal has what to answer")
	require.Equal(t, before, w.newest())

	granted := onlyPool(t, w.m).TotalReversed
	require.Equal(t, engine.OutcomeDone, w.reverse("spare"))
	require.Equal(t, engine.OutcomeDone, w.reverse("old"))
	require.Equal(t, engine.OutcomeDone, w.reverse("spare"), "the same reversal again")
	require.Equal(t, engine.OutcomeTransactionUnknown, w.reverse("nothing"))
	require.Equal(t, before+2, w.newest())
	require.Equal(t, "7", minus(t, onlyPool(t, w.m).TotalReversed, granted))
	all := w.list(w.m, 1000, func() {})
	w.requireWhole(all, before+2)
	for i := range all {
		reversed := all[i].Note == "spare" || all[i].Note == "old"
		require.Equal(t, reversed, all[i].Reversed, "%s %d", all[i].Note, all[i].Sequence)
	}
	requireProved(t, w.m, w.src)
	again := restored(t, enginetest.Snapshot(t, w.m))
	w.m, w.l = again, enginetest.NewLog(again, w.l.Stamp)
	require.Equal(t, engine.OutcomeDone, w.reverse("large"), "restored indexes find it")
}

// TestARepeatedGrantIsKnownForEver: once its transaction has left memory the grant's own row
// answers a repeat, with all but the balance of then; another request under its ID is told from it.
func TestARepeatedGrantIsKnownForEver(t *testing.T) {
	w := newPoolWork(t)
	c := billing.GrantCredits{
		Env: enginetest.Sandbox, ID: enginetest.ID("g"), Pool: w.id, Type: "PLAN_INCLUDED",
		Amount: decimal.FromInt(5000), Priority: -1, ExpiresAt: w.l.Stamp + 300*dayMS, Note: "for the year",
	}
	send := func(c billing.GrantCredits) (engine.Outcome, billing.TransactionView) {
		r := w.l.Do(billing.KindGrantCredits, &c)
		var reply billing.TransactionReply
		if r.Outcome == engine.OutcomeDone {
			require.NoError(t, wire.Decode(r.Value, &reply))
		}
		return r.Outcome, reply.Transaction
	}
	_, first := send(c)
	require.False(t, first.BalanceUnknown)
	w.busy(1500)
	want := first
	want.Balance, want.BalanceUnknown = decimal.Decimal{}, true
	outcome, again := send(c)
	require.Equal(t, engine.OutcomeDone, outcome)
	require.Equal(t, want, again)
	billing.EndCreditPeriod(w.m, 1, w.l.Stamp) // what is left rolls over, as another type
	grants, _ := w.m.Grants(enginetest.Sandbox, w.id)
	require.Equal(t, "ROLLOVER", grants[0].Type)
	before, newest := onlyPool(t, w.m), w.newest()
	outcome, again = send(c)
	require.Equal(t, engine.OutcomeDone, outcome)
	require.Equal(t, want, again)
	w.m = restored(t, enginetest.Snapshot(t, w.m))
	w.l = enginetest.NewLog(w.m, w.l.Stamp)
	outcome, again = send(c)
	require.Equal(t, engine.OutcomeDone, outcome)
	require.Equal(t, want, again)

	for name, change := range map[string]func(*billing.GrantCredits){
		"amount":   func(c *billing.GrantCredits) { c.Amount = decimal.FromInt(5001) },
		"type":     func(c *billing.GrantCredits) { c.Type = "ROLLOVER" },
		"priority": func(c *billing.GrantCredits) { c.Priority++ },
		"expiry":   func(c *billing.GrantCredits) { c.ExpiresAt = 0 },
		"note":     func(c *billing.GrantCredits) { c.Note = "for a year" },
		"pool":     func(c *billing.GrantCredits) { c.Pool = enginetest.ID("another") },
		"env":      func(c *billing.GrantCredits) { c.Env = enginetest.Sandbox + 1 },
	} {
		other := c
		change(&other)
		outcome, _ := send(other)
		require.Equal(t, engine.OutcomeIDsContradict, outcome, name)
	}
	require.Equal(t, before.TotalGranted, onlyPool(t, w.m).TotalGranted)
	require.Equal(t, newest, w.newest())
}

func minus(t *testing.T, a, b decimal.Decimal) string {
	t.Helper()
	d, ok := a.Sub(b)
	require.True(t, ok)
	return d.String()
}

// TestPoolsAreProvedByTheJournal: a total, or a transaction, that was changed by hand is found.
func TestPoolsAreProvedByTheJournal(t *testing.T) {
	w := newPoolWork(t)
	w.busy(1200)
	requireProved(t, w.m, w.src)
	for name, change := range billing.PoolFrauds {
		m := restored(t, enginetest.Snapshot(t, w.m))
		change(m)
		proofs, err := m.VerifyPools(w.src, enginetest.Sandbox, 1)
		require.NoError(t, err)
		require.Contains(t, proofs[0].Problem, name)
	}
	hidden := &withoutSegments{w.src}
	_, _, err := w.m.Transactions(hidden, billing.TransactionQuery{
		Env: enginetest.Sandbox, Pool: w.id, Limit: 1000,
		Cursor: billing.TransactionCursor{Before: 500},
	})
	require.ErrorIs(t, err, billing.ErrEvent, "what the journal lacks is said, not left out")
}

// withoutSegments is a journal that has lost its records.
type withoutSegments struct{ journal.Source }

func (*withoutSegments) List(journal.Query) ([]journal.Item, error) { return nil, nil }

// TestTransactionsLeaveBesideASettlementOfItems: a command that makes several records of the
// journal moves the entry's record of what left memory, and it is found there.
func TestTransactionsLeaveBesideASettlementOfItems(t *testing.T) {
	w := newSmallPoolWork(t, 64, 0)
	require.Equal(t, engine.OutcomeDone, w.grant("large", 5000))
	for n := range 40 {
		name := fmt.Sprint("r", n)
		reserve := enginetest.Reservation(name, "ada", "images", 1)
		reserve.Items = bothItems(1, 1)
		require.Equal(t, engine.OutcomeDone, w.l.Do(billing.KindReserve, reserve).Outcome)
		settle := billing.SettleReservation{
			Env: enginetest.Sandbox, ID: enginetest.ID("reservation " + name),
		}
		settlesBoth(1, 1)(&settle)
		records := []engine.Record{{
			Kind: billing.KindSettleReservation, Payload: wire.Encode(nil, &settle),
		}}
		for i := range 30 {
			records = append(records, engine.Record{
				Kind: billing.KindDeductCredits, Payload: wire.Encode(nil, &billing.DeductCredits{
					Env: enginetest.Sandbox, ID: enginetest.ID(fmt.Sprint(name, " ", i)), Pool: w.id,
					Amount: decimal.MustParse("0.01"),
				}),
			})
		}
		results, err := w.l.Apply(records...)
		require.NoError(t, err)
		for i := range results {
			require.Equal(t, engine.OutcomeDone.String(), results[i].Outcome.String(), "%d", i)
		}
		w.src.Keep(&w.l.Applied)
	}
	w.requireWhole(w.list(w.m, 100, func() {}), w.newest())
}
