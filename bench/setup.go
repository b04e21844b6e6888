package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// graceDays keeps subscriptions active that nobody pays for, also when the clock is moved.
const graceDays = 365

// createCustomers makes the run's customers, each with one subscription.
func (r *Run) createCustomers(ctx context.Context) error {
	return r.each(ctx, r.Customers, func(c *connection, n int) error {
		name := r.customer(n)
		err := r.create(c, "/api/v1/client/customers", fmt.Sprintf(
			`{"externalClientCustomerId":%q,"firstName":"Load","lastName":"Test",`+
				`"email":"%s@example.com"}`, name, name))
		if err != nil {
			return err
		}
		return r.create(c, "/api/v1/client/subscriptions", fmt.Sprintf(
			`{"planId":%q,"customerReferenceId":%q,"gracePeriod":%d}`, r.Plan, name, graceDays))
	})
}

// createTries bounds how often a creation is repeated while the cluster cannot serve.
const createTries = 50

func (r *Run) create(c *connection, path, body string) error {
	request := r.request("POST", path, []byte(body))
	for range createTries {
		status, answer, err := c.do(request)
		if err != nil {
			return err
		}
		switch status {
		case 201:
			return nil
		case 429, 503:
			time.Sleep(100 * time.Millisecond)
		default:
			return fmt.Errorf("POST %s: %d %.300s", path, status, answer)
		}
	}
	return fmt.Errorf("POST %s: the cluster cannot serve", path)
}

// fillBatch is how many events a batch of fill has at the most.
const fillBatch = 1000

// fill records so many events in batches, of the customers in turns.
func (r *Run) fill(ctx context.Context, events int) error {
	return r.each(ctx, (events+fillBatch-1)/fillBatch, func(conn *connection, n int) error {
		size := min(fillBatch, events-n*fillBatch)
		w := &worker{Run: r, connection: conn, customers: make([]uint32, size)}
		t := r.eventTemplate(r.Connections+n, size, true)
		for i := range size {
			w.customers[i] = uint32((n*fillBatch + i) % r.Customers)
			t.setCustomer(i, uint64(w.customers[i]))
			t.setKey(i, uint64(i))
		}
		units, err := w.record(t)
		if err == nil && units != uint64(size) {
			err = fmt.Errorf("%d of %d events were accepted", units, size)
		}
		return err
	})
}

// each calls do for 0 … n-1 over some connections, until one fails or ctx ends.
func (r *Run) each(ctx context.Context, n int, do func(*connection, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var group sync.WaitGroup
	for worker := range min(n, max(r.Connections, 64), 256) {
		group.Go(func() {
			c := newConnection(r.Nodes[worker%len(r.Nodes)])
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(c, i); err != nil {
					cancel(err)
				}
			}
			if err := c.close(); err != nil {
				cancel(err)
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}
