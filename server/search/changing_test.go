package search_test

import (
	"strconv"
	"sync"
	"testing"

	"tollgate/engine/billing"
)

// TestSearchesWhileCustomersChange is for the race detector: searches, additions and changes at the
// same time.
func TestSearchesWhileCustomersChange(t *testing.T) {
	p := start(t, 0)
	for i := range 2000 {
		p.add(p.env, "c"+strconv.Itoa(i), "A", "B", "a@b.example")
	}
	var searching sync.WaitGroup
	for range 4 {
		searching.Go(func() {
			for i := range 100 {
				p.ask(p.env, "c"+strconv.Itoa(i))
			}
		})
	}
	for i := range 1200 {
		id := "c" + strconv.Itoa(i)
		p.Do(t, billing.KindUpdateCustomer, &billing.UpdateCustomer{
			Env: p.env, ExternalID: id, Set: billing.CustomerLastName, LastName: id,
		})
		p.add(p.env, "d"+strconv.Itoa(i), "A", "B", "a@b.example")
	}
	searching.Wait()
}
