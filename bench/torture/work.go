package torture

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	api "tollgate/sdk/go"
)

// load is the clients, and the customers that they work on.
type load struct {
	*report
	fleet      *fleet
	key        string
	occurredAt string
	clients    []*api.Client // one per node, the guest's the last
	any        *api.Client   // all nodes but the guest
	active     [atATime]atomic.Pointer[customer]
	replacing  sync.Mutex
	fresh      chan *customer
	retired    chan *customer
	padded     atomic.Int64

	mu        sync.Mutex
	customers []*customer
}

// create makes the next customer.
func (l *load) create(ctx context.Context) (*customer, error) {
	l.mu.Lock()
	name := fmt.Sprintf("c%d", len(l.customers))
	l.customers = append(l.customers, nil)
	place := len(l.customers) - 1
	l.mu.Unlock()
	c, err := create(ctx, l.any, name, operations)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.customers[place] = c
	return c, nil
}

// makeCustomers keeps some customers ready.
func (l *load) makeCustomers(ctx context.Context) {
	for ctx.Err() == nil {
		c, err := l.create(ctx)
		if err != nil {
			if ctx.Err() == nil {
				l.violate(byAnswers, "%v", err)
			}
			return
		}
		select {
		case l.fresh <- c:
		case <-ctx.Done():
		}
	}
}

// replace puts a fresh customer in place of one that is left in peace.
func (l *load) replace(ctx context.Context, place int, old *customer) {
	l.replacing.Lock()
	defer l.replacing.Unlock()
	if l.active[place].Load() != old {
		return
	}
	select {
	case c := <-l.fresh:
		l.active[place].Store(c)
	case <-ctx.Done():
	}
}
