package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// graceDays keeps unpaid subscriptions active, also when the clock is moved.
const graceDays = 365

// createCustomers makes the run's customers, each with one subscription.
func (r *Run) createCustomers(ctx context.Context) error {
	err := r.each(ctx, r.Customers, func(c *connection, n int) error {
		name := r.customer(n)
		err := r.create(c, name, "/api/v1/client/customers", fmt.Sprintf(
			`{"externalClientCustomerId":%q,"firstName":"Load","lastName":"Test",`+
				`"email":"%s@example.com"}`, name, name))
		if err != nil {
			return err
		}
		err = r.create(c, name, "/api/v1/client/subscriptions", fmt.Sprintf(
			`{"planId":%q,"customerReferenceId":%q,"gracePeriod":%d}`, r.Plan, name, graceDays))
		if err == nil && r.Scenario == ScenarioPairs {
			err = r.createBudget(c, name)
		}
		return err
	})
	r.occurredAt = time.Now().UTC().Format(occurredLayout)
	return err
}

// createTries bounds how often a creation is repeated while the cluster cannot serve.
const createTries = 50

// create makes a customer, or its subscription. It has no Idempotency-Key, of which an environment
// keeps 100,000 a day only: where a try's outcome is unknown, the customer is looked at before the
// next one. A customer that exists is refused the second time, a subscription would be one more.
func (r *Run) create(c *connection, customer, path, body string) error {
	request := r.request("POST", path, []byte(body))
	for try := range createTries {
		if try > 0 {
			time.Sleep(100 * time.Millisecond)
			status, found, err := c.do(r.request("GET", "/api/v1/client/customers/"+customer, nil))
			if err != nil {
				return err
			}
			if status == 200 && bytes.Contains(found, []byte(`"planId"`)) {
				return nil
			}
		}
		status, answer, err := c.do(request)
		if err != nil {
			return err
		}
		switch {
		case status == 201, status == 409 && try > 0:
			return nil
		case status != 429 && status != 503:
			return fmt.Errorf("POST %s: %d %.300s", path, status, answer)
		}
	}
	return fmt.Errorf("POST %s: the cluster cannot serve", path)
}

// fillBatch is how many events a batch of fill has at most, fillConnections how many batches
// are sent at a time.
const (
	fillBatch       = 1000
	fillConnections = 8
)

// fill records so many events in batches, of the customers in turns. It is not a measurement: what
// an overloaded cluster refuses is sent again.
func (r *Run) fill(ctx context.Context, events int) error {
	return r.over(ctx, fillConnections, (events+fillBatch-1)/fillBatch, func(conn *connection,
		n int,
	) error {
		size := min(fillBatch, events-n*fillBatch)
		t := r.eventTemplate(r.Connections+n, size, true)
		customer := func(i int) int { return (n*fillBatch + i) % r.Customers }
		for i := range size {
			t.setCustomer(i, uint64(customer(i)))
			t.setKey(i, uint64(i))
		}
		if err := r.insist(conn, t.bytes, size); err != nil {
			return err
		}
		for i := range size {
			r.acknowledged[customer(i)].Add(1)
		}
		return nil
	})
}

// insist sends a batch until all of its events have counted. If they do not, the error quotes the
// first refusal: later tries mostly say less.
func (r *Run) insist(conn *connection, request []byte, events int) error {
	done, left := make([]bool, events), events
	var failed, refused error
	for try := range createTries {
		if try > 0 {
			time.Sleep(100 * time.Millisecond)
		}
		status, body, err := conn.do(request)
		if err != nil { // whatever became of it, the keys tell
			failed = err
			continue
		}
		if status != 200 && status != 429 && status != 503 {
			return fmt.Errorf("batch: %d %.300s", status, body)
		}
		if status != 200 && refused == nil {
			refused = fmt.Errorf("first refusal: %d %.300s", status, body)
		}
		for i := 0; i < events && status == 200; i++ {
			one, after, ok := number(body, statusField)
			// What is a repeat now has counted at an earlier try, whatever was said of it then.
			counted := ok && (one == 200 || one == 201 || one == 409 && try > 0)
			if counted && !done[i] {
				done[i] = true
				left--
			}
			if !counted && refused == nil {
				refused = fmt.Errorf("first refusal: event %d: %.300s", i,
					body[max(0, bytes.Index(body, statusField)):])
			}
			body = after
		}
		if left == 0 {
			return nil
		}
	}
	return errors.Join(fmt.Errorf("batch: %d of %d events were not accepted", left, events), refused,
		failed)
}

// each calls do for 0 … n-1 over some connections, until one fails or ctx ends.
func (r *Run) each(ctx context.Context, n int, do func(*connection, int) error) error {
	return r.over(ctx, min(max(r.Connections, 64), 256), n, do)
}

// over is each, over so many connections.
func (r *Run) over(ctx context.Context, connections, n int, do func(*connection, int) error,
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var group sync.WaitGroup
	for worker := range min(n, connections) {
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
