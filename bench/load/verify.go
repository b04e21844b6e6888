package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	api "tollgate/sdk/go"
)

// Verification is what the cluster says after the load, against what it acknowledged.
type Verification struct {
	// Acknowledged units were answered with success, Unknown ones not at all, Counted is what the
	// customers' counters add up to.
	Acknowledged uint64 `json:"acknowledged"`
	Unknown      uint64 `json:"unknown"`
	Counted      uint64 `json:"counted"`
	// Lost is by how much customers' counters fall short of what was acknowledged, Doubled by how
	// much they exceed that and what is unknown.
	Lost    uint64 `json:"lost"`
	Doubled uint64 `json:"doubled"`
	// Checks were answered for AuditCustomers of the customers, AuditEvents are listed for them.
	AuditCustomers int    `json:"auditCustomers"`
	Checks         uint64 `json:"checks"`
	AuditEvents    uint64 `json:"auditEvents"`
}

// verify reads every customer's counter, and the audit events of some. An acknowledged unit that
// was not counted, a unit that was counted without having been sent, or a check without its audit
// event is an error.
func (r *Run) verify(ctx context.Context) (Verification, error) {
	var v Verification
	var counted, wrong, spent, lost, doubled atomic.Uint64
	err := r.each(ctx, r.Customers, func(c *connection, n int) error {
		used, err := r.used(c, n)
		if err != nil {
			return err
		}
		counted.Add(used)
		least := uint64(r.acknowledged[n].Load())
		most := least
		if r.Scenario.writes() {
			most += uint64(r.unknown[n].Load())
		}
		if used < least || used > most {
			wrong.Add(1)
			lost.Add(least - min(least, used))
			doubled.Add(max(most, used) - most)
			r.note(fmt.Sprintf("customer %s: counted %d, acknowledged %d, unknown %d",
				r.customer(n), used, least, most-least))
		}
		if what := r.spentWrongly(n, used); what != "" {
			spent.Add(1)
			r.note(what)
		}
		return nil
	})
	v.Counted, v.Lost, v.Doubled = counted.Load(), lost.Load(), doubled.Load()
	for n := range r.Customers {
		v.Acknowledged += uint64(r.acknowledged[n].Load())
		v.Unknown += uint64(r.unknown[n].Load())
	}
	if err == nil && wrong.Load() > 0 {
		err = fmt.Errorf("the counters of %d customers are not what was acknowledged", wrong.Load())
	}
	if err == nil && spent.Load() > 0 {
		err = fmt.Errorf("the limits of %d customers were not kept", spent.Load())
	}
	if err != nil {
		return v, err
	}
	if r.Unaudited {
		return v, nil
	}
	return v, r.verifyAudit(ctx, &v)
}

func (r *Run) get(c *connection, path string, into any) error {
	status, body, err := c.do(r.request("GET", path, nil))
	if err != nil {
		return err
	}
	if err = json.Unmarshal(body, into); err != nil || status != 200 {
		return errors.Join(fmt.Errorf("GET %s: %d %.300s", path, status, body), err)
	}
	return nil
}

// used asks for a customer's counter, which is a check.
func (r *Run) used(c *connection, n int) (uint64, error) {
	var answer struct{ Data api.Decision }
	path := "/api/v1/client/entitlements/" + r.customer(n) + "/" + r.Feature
	if err := r.get(c, path, &answer); err != nil {
		return 0, err
	}
	r.checks[n].Add(1)
	used, err := strconv.ParseUint(answer.Data.Usage.Used.String(), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("check: used %q: %w", answer.Data.Usage.Used, err)
	}
	return used, nil
}

func (r *Run) verifyAudit(ctx context.Context, v *Verification) error {
	v.AuditCustomers = min(r.AuditSample, r.Customers)
	var events, checks, wrong atomic.Uint64
	stride := r.Customers / max(v.AuditCustomers, 1)
	err := r.each(ctx, v.AuditCustomers, func(c *connection, i int) error {
		n := i * stride
		want := uint64(r.checks[n].Load())
		most := want
		if !r.Scenario.writes() {
			most += uint64(r.unknown[n].Load())
		}
		var listed uint64
		for deadline := time.Now().Add(r.AuditPatience); ; {
			var err error
			if listed, err = r.auditEvents(c, n); err != nil {
				return err
			}
			if listed >= want || time.Now().After(deadline) {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		checks.Add(want)
		events.Add(listed)
		if listed < want || listed > most {
			wrong.Add(1)
			r.note(fmt.Sprintf("customer %s: %d audit events for %d checks", r.customer(n), listed, want))
		}
		return nil
	})
	v.Checks, v.AuditEvents = checks.Load(), events.Load()
	if err == nil && wrong.Load() > 0 {
		err = fmt.Errorf("%d customers have other audit events than checks", wrong.Load())
	}
	return err
}

func (r *Run) auditEvents(c *connection, n int) (uint64, error) {
	total, cursor := uint64(0), ""
	for {
		path := "/api/v1/client/customers/" + r.customer(n) + "/events?kind=audit&limit=1000"
		if cursor != "" {
			path += "&cursor=" + url.QueryEscape(cursor)
		}
		var answer struct {
			Data struct {
				Events     []struct{} `json:"events"`
				NextCursor string     `json:"nextCursor"`
			} `json:"data"`
		}
		if err := r.get(c, path, &answer); err != nil {
			return 0, err
		}
		total += uint64(len(answer.Data.Events))
		if cursor = answer.Data.NextCursor; cursor == "" {
			return total, nil
		}
	}
}
