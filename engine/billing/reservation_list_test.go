package billing_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

// TestReservationsAtABudget: those of all customers at a budget and below it are listed, newest
// first, in pages, and none of other budgets and environments.
func TestReservationsAtABudget(t *testing.T) {
	s := newOverdue(t) // ada holds "r"
	hold := func(key, customer, budget string) {
		c := enginetest.Reservation(key, customer, "words", 0)
		c.Items[0].Units, c.Budget = decimal.MustParse("0.1"), budget
		s.view(s.Do(billing.KindReserve, c))
	}
	s.put("team", "bob", "")
	hold("b", "bob", "")
	hold("t", "bob", "team")
	enginetest.NewCustomer(s.Log, "carl", "prepaid")
	hold("c", "carl", "") // at no budget
	s.view(s.release("r"))

	list := func(more ...func(*billing.ReservationQuery)) (keys []string) {
		q := billing.ReservationQuery{Env: enginetest.Sandbox, Limit: 10, Now: s.Stamp}
		for _, f := range more {
			f(&q)
		}
		for {
			page, next, o := s.m.Reservations(&q)
			require.Equal(t, engine.OutcomeDone, o)
			require.LessOrEqual(t, len(page), q.Limit)
			for i := range page {
				keys = append(keys, page[i].Key)
			}
			if q.After = next; next == ([16]byte{}) {
				return keys
			}
		}
	}
	at := func(budget string) func(*billing.ReservationQuery) {
		return func(q *billing.ReservationQuery) { q.Budget = budget }
	}
	of := func(customer string) func(*billing.ReservationQuery) {
		return func(q *billing.ReservationQuery) { q.Customer = customer }
	}
	paged := func(q *billing.ReservationQuery) { q.Limit = 1 }
	open := func(q *billing.ReservationQuery) { q.States = 1 << billing.ReservationOpen }
	for range 2 {
		require.Equal(t, []string{"t", "b", "r"}, list(at("all")))
		require.Equal(t, []string{"t", "b", "r"}, list(at("all"), paged))
		require.Equal(t, []string{"t", "b"}, list(at("all"), open))
		require.Equal(t, []string{"t", "b"}, list(at("bob"), paged))
		require.Equal(t, []string{"t"}, list(at("team")))
		require.Equal(t, []string{"t"}, list(at("team"), of("bob"), paged))
		require.Empty(t, list(at("team"), of("ada")))
		require.Equal(t, []string{"c"}, list(of("carl")))
		s.m = restored(t, enginetest.Snapshot(t, s.m))
	}
	s.Do(billing.KindPutBudget, &billing.PutBudget{Env: enginetest.Sandbox + 1, Key: "all", Name: "all"})
	s.m = s.Machine.(*billing.Machine)
	require.Empty(t, list(at("all"), func(q *billing.ReservationQuery) { q.Env = enginetest.Sandbox + 1 }))
	_, _, o := s.m.Reservations(&billing.ReservationQuery{
		Env: enginetest.Sandbox, Budget: "nothing", Limit: 1,
	})
	require.Equal(t, engine.OutcomeBudgetUnknown, o)
}
