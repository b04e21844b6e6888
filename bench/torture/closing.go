package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	api "tollgate/sdk/go"
)

// month is how far the sandbox's clock is moved: past the end of everybody's first period, and not
// of the second.
const month = 40 * 24 * time.Hour

// closePeriods moves the clock past the end of every period, loses the leader while all of them are
// closed, and compares the invoices with the events.
func (a *auditor) closePeriods(ctx context.Context) error {
	admin, err := a.fleet.admin()
	if err != nil {
		return err
	}
	defer admin.Close()
	well, cancel := context.WithTimeout(ctx, recovery)
	defer cancel()
	if err = a.advance(well, admin); err != nil {
		return fmt.Errorf("torture: advance the clock: %w", err)
	}
	if err = a.fleet.awaitReady(well); err != nil {
		return err
	}
	err = inParallel(a.customers, workers, func(_ int, c *customer) error {
		if c == nil {
			return nil
		}
		return a.inspectInvoices(ctx, c)
	})
	if err != nil {
		return err
	}
	return inParallel(a.fleet.nodes, fleetSize, func(_ int, p *process) error {
		return a.verify(ctx, p)
	})
}

// advance moves the clock, and kills the leader while what falls due by that happens.
func (a *auditor) advance(ctx context.Context, admin *api.Client) error {
	target := time.Now().Add(month).UTC()
	ask := api.Request{
		Method: "POST", Path: sandbox + "/clock", Once: true,
		Body: fmt.Appendf(nil, `{"advanceTo":%q}`, target.Format(time.RFC3339)),
	}
	asked := make(chan error, 1)
	go func() {
		_, err := admin.Do(ctx, ask) // its fate may stay open: the clock is looked at below
		asked <- err
	}()
	pause(ctx, 30*time.Millisecond)
	if p := a.fleet.leading(); p != nil {
		if err := a.fleet.kill(p); err != nil {
			return err
		}
		if err := a.fleet.start(p); err != nil {
			return err
		}
	}
	if err := <-asked; err != nil {
		a.Say("advance the clock: %v", err)
	}
	for {
		var clock api.Clock
		if _, err := admin.Call(ctx, "GET", sandbox+"/clock", nil, &clock); err != nil {
			return err
		}
		switch {
		case clock.Now.Before(target):
			if _, err := admin.Do(ctx, ask); err != nil {
				a.Say("advance the clock: %v", err)
			}
		case clock.Settled:
			return nil
		}
		if !pause(ctx, 50*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// inspectInvoices compares the invoice that closed a customer's first period, and the interim ones
// before it, with its events.
func (a *auditor) inspectInvoices(ctx context.Context, c *customer) error {
	var invoices []api.Invoice
	path := "/api/v1/client/billing/invoices/" + c.name
	if _, err := a.any.Call(ctx, "GET", path, nil, &invoices); err != nil {
		return fmt.Errorf("torture: invoices of %s: %w", c.name, err)
	}
	regular, billed := 0, 0
	for _, invoice := range invoices {
		a.mu.Lock()
		a.invoices = append(a.invoices, invoice.ID)
		a.mu.Unlock()
		switch invoice.Type {
		case "REGULAR":
			regular++
		case "INTERIM":
		default:
			continue
		}
		for _, item := range invoice.Items {
			if item.FeatureKey != features[calls].key {
				continue
			}
			n, err := item.Quantity.Int64()
			if err != nil {
				return fmt.Errorf("torture: invoices of %s: %w", c.name, err)
			}
			billed += int(n)
		}
	}
	used := 0
	for _, u := range c.counters[calls].usages() {
		used += u.left()
	}
	if regular != 1 || billed != used {
		a.violate(byInvoices, "%s has %d regular invoices for %d calls, and made %d", c.name, regular,
			billed, used)
	}
	return nil
}

// verify lets a node recompute every invoice from its journal.
func (a *auditor) verify(ctx context.Context, p *process) error {
	node, err := api.New([]string{p.settings.Ops}, a.fleet.adminKey, 1)
	if err != nil {
		return err
	}
	defer node.Close()
	for cursor := ""; ; {
		var page struct {
			Differences []json.RawMessage `json:"differences"`
			NextCursor  string            `json:"nextCursor"`
		}
		_, err = node.Call(ctx, "GET", sandbox+"/invoices/verify?limit=100"+cursor, nil, &page)
		if err != nil {
			return fmt.Errorf("torture: verify invoices: %w", err)
		}
		if len(page.Differences) > 0 {
			a.violate(byProofs, "%s finds that %d invoices differ from its journal, the first one %s", p.id,
				len(page.Differences), page.Differences[0])
		}
		if page.NextCursor == "" {
			return nil
		}
		cursor = "&cursor=" + page.NextCursor
	}
}
