package billing

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/billing/internal/book"
)

// TestACustomerIsHeldByName: also where another one stands before it under the same hash, which is
// let go again.
func TestACustomerIsHeldByName(t *testing.T) {
	var s book.Book
	s.Open()
	for _, name := range []string{"anna", "bert", "carl"} {
		row, c := s.Customers.Append()
		c.Env, c.ExternalLen = 1, uint8(copy(c.External[:], name))
		if name == "anna" {
			s.CustomerByExternal.Insert(s.ExternalHash(1, []byte("bert")), row)
			s.CustomerByExternal.Insert(s.ExternalHash(1, []byte("dora")), row)
		}
		s.IndexCustomer(row)
	}
	free := func(customer uint32) bool {
		lock := s.Stripe(customer)
		if !lock.TryLock() {
			return false
		}
		lock.Unlock()
		return true
	}
	for row, name := range []string{1: "anna", 2: "bert", 3: "carl"} {
		if row == 0 {
			continue
		}
		held, lock := holdNamed(&s, 1, name)
		require.EqualValues(t, row, held)
		for other := range uint32(4) {
			require.Equal(t, other != held, free(other), "%s is held, of %d", name, other)
		}
		lock.RUnlock()
	}
	for _, name := range []string{"dora", "emil"} { // one that shares anna's place, one without any
		held, lock := holdNamed(&s, 1, name)
		require.Zero(t, held)
		require.Nil(t, lock)
	}
	held, _ := holdNamed(&s, 2, "anna")
	require.Zero(t, held, "of another environment")
	for row := range uint32(4) {
		require.True(t, free(row))
	}
}

func holdNamed(s *book.Book, env uint32, name string) (uint32, *sync.RWMutex) {
	return s.HoldNamed(env, []byte(name), false)
}

// TestHintsFollowTheOldestSubscription: also where the index is made anew, as after a restore.
func TestHintsFollowTheOldestSubscription(t *testing.T) {
	var s book.Book
	s.Open()
	row, c := s.Customers.Append()
	c.Env, c.ExternalLen = 1, uint8(copy(c.External[:], "anna"))
	s.IndexCustomer(row)
	noted := func() uint64 {
		likely, hint := s.CustomerByExternal.Likely(s.ExternalHash(1, []byte("anna")))
		require.Equal(t, row, likely)
		return hint
	}
	require.Zero(t, noted())
	held := func() {
		found, lock := holdNamed(&s, 1, "anna")
		require.Equal(t, row, found)
		lock.RUnlock()
	}
	held()
	c.FirstSubscription = s.Subscriptions.Append(&book.Subscription{
		HotSubscription: book.HotSubscription{Customer: row},
	})
	s.Hint(row)
	require.Equal(t, uint64(c.FirstSubscription)<<32, noted())
	held() // of a plan without features
	s.Prefetch([]uint64{s.ExternalHash(1, []byte("anna"))})
	for range 7 {
		s.Counters.Rows.Append()
	}
	s.Subscriptions.Write(c.FirstSubscription, &book.Subscription{
		HotSubscription: book.HotSubscription{Customer: row, FirstCounter: 7},
	})
	s.Hint(row)
	require.Equal(t, uint64(c.FirstSubscription)<<32|7, noted())
	s.Prefetch([]uint64{s.ExternalHash(1, []byte("anna")), s.ExternalHash(1, []byte("bert"))})
	s.CustomerByExternal.Note(s.ExternalHash(1, []byte("anna")), row, 0)
	s.CustomerByExternal.Remove(s.ExternalHash(1, []byte("anna")), row)
	s.IndexCustomer(row)
	require.Equal(t, uint64(c.FirstSubscription)<<32|7, noted(), "as after a restore")
}
