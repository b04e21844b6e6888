package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"

	api "tollgate/sdk/go"
)

const (
	customersPath     = "/api/v1/client/customers"
	subscriptionsPath = "/api/v1/client/subscriptions"
)

type customer struct {
	name string
	// createdAt is the cluster's own word, and the occurredAt of every event: it lies within the
	// current period, and it is the same on every run.
	createdAt string
}

// prepareCustomers looks every customer and subscription up, and creates what is absent.
func (r *run) prepareCustomers(ctx context.Context) error {
	r.customers = make([]customer, min(r.Customers, len(r.Rows)))
	return r.each(ctx, len(r.customers), func(ctx context.Context, i int) error {
		name := fmt.Sprintf("%s-%03d", r.Prefix, i)
		createdAt, err := r.prepare(ctx, name)
		if err != nil {
			return fmt.Errorf("customer %s: %w", name, err)
		}
		r.customers[i] = customer{name, createdAt}
		return nil
	})
}

type customerAnswer struct {
	CreatedAt     string `json:"createdAt"`
	Subscriptions []struct {
		Plan struct {
			Key string `json:"key"`
		} `json:"plan"`
	} `json:"subscriptions"`
}

func (r *run) prepare(ctx context.Context, name string) (createdAt string, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.Patience)
	defer cancel()
	for {
		var found customerAnswer
		_, err = r.Client.Call(ctx, "GET", customersPath+"/"+url.PathEscape(name), nil, &found)
		if api.IsStatus(err, 404) {
			if err = r.createCustomer(ctx, name); err != nil {
				return "", err
			}
			continue
		}
		if err != nil {
			return "", err
		}
		for _, subscription := range found.Subscriptions {
			if subscription.Plan.Key == r.Plan {
				return found.CreatedAt, nil
			}
		}
		// An answer that leaves the outcome open is followed by another look, never by a second
		// subscription.
		err = r.createSubscription(ctx, name)
		if err != nil && !errors.Is(err, api.ErrUnsure) {
			return "", err
		}
	}
}

// createCustomer makes a customer, whom a repeat finds by its name: it needs no idempotency key.
func (r *run) createCustomer(ctx context.Context, name string) error {
	ctx = api.WithIdempotencyKey(ctx, "")
	_, err := r.Client.Call(ctx, "POST", customersPath, map[string]string{
		"externalClientCustomerId": name,
		"firstName":                "Trace",
		"lastName":                 name,
		"email":                    name + "@example.com",
	}, nil)
	if api.IsStatus(err, 409) { // somebody else was faster, or an earlier try came through
		return nil
	}
	return err
}

func (r *run) createSubscription(ctx context.Context, name string) error {
	body, err := json.Marshal(map[string]string{"planId": r.Plan, "customerReferenceId": name})
	if err != nil {
		return fmt.Errorf("subscription: %w", err)
	}
	answer, err := r.Client.Do(ctx, api.Request{
		Method: "POST", Path: subscriptionsPath, Body: body, Once: true,
	})
	if err != nil {
		return err
	}
	return answer.Err()
}

// readBack asks the cluster for every counter, by entitlement checks.
func (r *run) readBack(ctx context.Context) ([]Usage, error) {
	usage := make([]Usage, len(r.customers))
	expected := r.expected()
	err := r.each(ctx, len(usage), func(ctx context.Context, i int) error {
		u := Usage{Customer: r.customers[i].name}
		for f, feature := range Features {
			u.Expected[f] = strconv.FormatUint(expected[i][f], 10)
			decision, err := r.check(ctx, u.Customer, feature)
			if err != nil {
				return fmt.Errorf("customer %s: check of %s: %w", u.Customer, feature, err)
			}
			u.Used[f] = decision.Usage.Used.String()
			u.LimitReached = u.LimitReached || !decision.IsAllowed
		}
		usage[i] = u
		return nil
	})
	return usage, err
}

func (r *run) expected() [][EventsPerRow]uint64 {
	sums := make([][EventsPerRow]uint64, len(r.customers))
	for i, row := range r.Rows {
		sum := &sums[i%r.Customers]
		sum[0]++
		sum[1] += row.Context
		sum[2] += row.Generated
	}
	return sums
}

func (r *run) check(ctx context.Context, name, feature string) (api.Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Patience)
	defer cancel()
	return r.Client.Check(ctx, name, feature)
}

// each calls do for 0 … n-1, as many at a time as there are connections, until one fails.
func (r *run) each(ctx context.Context, n int, do func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(r.Connections, n) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}
