package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"time"

	api "tollgate/sdk/go"
)

// settle asks for every reservation of unknown fate until it is known, and waits until all have
// expired that are to.
func (s *spender) settle(ctx context.Context) error {
	err := inParallel(s.reservations, spenders, func(_ int, r *reservation) error {
		if r.known() || r.lost() {
			return nil
		}
		answer, err := s.anyFor(r).Do(ctx, r.request())
		if err != nil {
			return fmt.Errorf("torture: reserve %s: %w", r.key, err)
		}
		if answer.Status == 402 {
			r.refused = true
			return nil
		}
		s.made(r, answer)
		return nil
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, recovery)
	defer cancel()
	for _, r := range s.reservations {
		for r.short && r.known() {
			v, err := s.anyFor(r).Reservation(ctx, r.id)
			if err == nil && v.State != "open" {
				break
			}
			if !pause(ctx, 50*time.Millisecond) {
				s.violate(byReservations, "%s does not expire: %s, %v", r.key, v.ExpiresAt, err)
				return ctx.Err()
			}
		}
	}
	return nil
}

// anyFor is a client of all nodes, with the key that a reservation is made with.
func (s *spender) anyFor(r *reservation) *api.Client {
	if r.agent {
		return s.agents[fleetSize]
	}
	return s.any
}

// sendAgain repeats what made each reservation, and what ended it: both are answered as before.
func (s *spender) sendAgain(ctx context.Context) error {
	return inParallel(s.reservations, workers, func(_ int, r *reservation) error {
		if r.refused {
			return nil
		}
		client := s.anyFor(r)
		answer, err := client.Do(ctx, r.request())
		if err != nil {
			return fmt.Errorf("torture: reserve %s again: %w", r.key, err)
		}
		s.made(r, answer)
		if r.final == nil {
			return nil
		}
		b := r.before()
		if answer, err = client.Do(ctx, *r.final); err != nil {
			return fmt.Errorf("torture: end %s again: %w", r.key, err)
		}
		var v api.Reservation
		if answer.Data(&v) != nil {
			s.violate(byReservations, "%s again, of %s: %d %s", r.final.Path, r.key, answer.Status,
				answer.Body)
			return nil
		}
		s.compare(r, b, &v)
		return nil
	})
}

// heldSums are what reservations and events of a wallet add up to, all and those of the agent.
type heldSums struct {
	used, held, overruns perFeature
	agent                *heldSums
}

func (s *heldSums) add(to func(*heldSums) *perFeature, feature int, units float64, agent bool) {
	to(s)[feature] += units
	if agent {
		to(s.agent)[feature] += units
	}
}

func usedIn(s *heldSums) *perFeature { return &s.used }
func heldIn(s *heldSums) *perFeature { return &s.held }

// inspect compares each wallet's reservations as a node has them with what is known of them, with
// the customer's events, and with what is used and held of features, credits and budgets.
func (s *spender) inspect(ctx context.Context, node string, client *api.Client) error {
	states := map[string]int{}
	for _, w := range s.wallets {
		sums := &heldSums{agent: &heldSums{}}
		listed, err := s.inspectReservations(ctx, node, client, w, sums)
		if err != nil {
			return err
		}
		for _, v := range listed {
			states[v.State]++
		}
		if err = s.inspectEvents(ctx, node, client, w, listed, sums); err != nil {
			return err
		}
		if err = s.inspectLimits(ctx, node, client, w, sums); err != nil {
			return err
		}
	}
	s.Say("%s has these reservations: %v", node, states)
	return nil
}

// inspectReservations lists a customer's reservations: each that was acknowledged is there once,
// and none that was refused.
func (s *spender) inspectReservations(
	ctx context.Context, node string, client *api.Client, w *wallet, sums *heldSums,
) (listed map[*reservation]*api.Reservation, err error) {
	listed, known := map[*reservation]*api.Reservation{}, map[string]*reservation{}
	for _, r := range s.reservations {
		if r.wallet == w && !r.refused {
			known[r.key] = r
		}
	}
	for v, err := range client.Reservations(ctx, w.customer, "") {
		if err != nil {
			return nil, fmt.Errorf("torture: reservations of %s at %s: %w", w.customer, node, err)
		}
		r := known[v.ReservationKey]
		if r == nil || listed[r] != nil {
			s.violate(byReservations, "%s lists %s, which was refused, or is listed twice", node,
				v.ReservationKey)
			continue
		}
		listed[r] = &v
		s.compare(r, r.before(), &v)
		for i := range v.Items {
			held, err := v.Items[i].HeldUnits.Float64()
			if err != nil {
				return nil, fmt.Errorf("torture: the reservation %s: %w", r.key, err)
			}
			sums.add(heldIn, r.items[i].feature, held, r.agent)
			beyond, err := v.Items[i].OverrunUnits.Float64()
			if err != nil {
				return nil, fmt.Errorf("torture: the reservation %s: %w", r.key, err)
			}
			sums.overruns[r.items[i].feature] += beyond
		}
	}
	if len(listed) != len(known) {
		s.violate(byReservations, "%s lists %d reservations of %s, and %d were made", node,
			len(listed), w.customer, len(known))
	}
	return listed, nil
}

// settlingEvent is a usage event of a wallet, with what it counts after amendments, or did until it
// was voided.
type settlingEvent struct {
	reservation, feature string
	units                json.Number
	times                int
	voided               bool
}

// walletEvents lists a customer's usage events by key.
func walletEvents(
	ctx context.Context, client *api.Client, customer string,
) (events map[string]*settlingEvent, err error) {
	events = map[string]*settlingEvent{}
	for _, kind := range []string{"usage", "amend", "void"} {
		filter := url.Values{"kind": {kind}, "limit": {"1000"}}
		amended := map[string]time.Time{}
		for e, err := range client.Events(ctx, customer, filter) {
			if err != nil {
				return nil, fmt.Errorf("torture: events of %s: %w", customer, err)
			}
			key := e.EventIdempotencyKey
			if kind == "void" {
				if events[key] != nil {
					events[key].voided = true
				}
				continue
			}
			if kind == "usage" {
				if events[key] == nil {
					events[key] = &settlingEvent{reservation: e.ReservationID, feature: e.FeatureKey}
				}
				events[key].units = e.UsageUnits
				events[key].times++
			} else if !e.RecordedAt.Before(amended[key]) && events[key] != nil {
				amended[key], events[key].units = e.RecordedAt, e.UsageUnits
			}
		}
	}
	return events, nil
}

// inspectEvents adds up a customer's events: those of a reservation are its settled total, and an
// ordinary event is there once at most, and certainly where it was acknowledged.
func (s *spender) inspectEvents(
	ctx context.Context, node string, client *api.Client, w *wallet,
	listed map[*reservation]*api.Reservation, sums *heldSums,
) error {
	events, err := walletEvents(ctx, client, w.customer)
	if err != nil {
		return err
	}
	byID, settled := map[string]*reservation{}, map[*reservation]*perFeature{}
	for r := range listed {
		byID[r.id], settled[r] = r, &perFeature{}
	}
	for key, e := range events {
		units, err := e.units.Float64()
		feature := featureNumber(e.feature)
		r := byID[e.reservation]
		if err != nil || feature < 0 || e.times != 1 || r == nil && e.reservation != "" {
			s.violate(byReservations, "%s lists the event %s: %+v", node, key, e)
			continue
		}
		if !e.voided {
			sums.add(usedIn, feature, units, r != nil && r.agent)
		}
		if r != nil {
			settled[r][feature] += units
		}
	}
	for r, v := range listed {
		for i := range r.items {
			of := &r.items[i]
			if said, err := v.Items[i].SettledUnits.Float64(); err != nil ||
				said != settled[r][of.feature] {
				s.violate(byReservations, "%s: %s is %s and settled at %v %s, and its events add up to %v",
					node, r.key, v.State, v.Items[i].SettledUnits, heldFeatures[of.feature].key,
					settled[r][of.feature])
			}
		}
		if e := events["reservation:"+r.id+":1"]; r.voided && (e == nil || !e.voided) {
			s.violate(byReservations, "%s does not have the void of %s, which was acknowledged", node,
				r.key)
		}
		if e := events[r.event]; r.counted && (e == nil || e.reservation != "") {
			s.violate(byReservations, "%s does not have the event %s, which was acknowledged", node,
				r.event)
		}
	}
	return nil
}

func featureNumber(key string) int {
	for i := range heldFeatures {
		if heldFeatures[i].key == key {
			return i
		}
	}
	return -1
}

// inspectLimits compares what a node says is used and held with what it should be.
func (s *spender) inspectLimits(
	ctx context.Context, node string, client *api.Client, w *wallet, sums *heldSums,
) error {
	for i, f := range heldFeatures {
		var v struct{ Usage struct{ Used, Held float64 } }
		if _, err := client.Call(ctx, "GET", checksPath+w.customer+"/"+f.key, nil, &v); err != nil {
			return fmt.Errorf("torture: check %s: %w", f.key, err)
		}
		u := v.Usage
		if u.Used != sums.used[i] || u.Held != sums.held[i] ||
			f.limit > 0 && u.Used+u.Held > f.limit+sums.overruns[i] {
			s.violate(byReservations, "%s: %s of %s: %+v of %v; events used %v, reservations hold %v and "+
				"overran by %v", node, f.key, w.customer, u, f.limit, sums.used[i], sums.held[i],
				sums.overruns[i])
		}
	}
	p, err := s.pool(ctx, client, w.customer)
	if err != nil {
		return err
	}
	used := int(tokenWeight * sums.used[tokens])
	if !p.conserved() || p.Balance < p.Held || p.TotalConsumed > used ||
		!w.overruns && (p.TotalConsumed != used || p.Held != int(tokenWeight*sums.held[tokens])) {
		s.violate(byReservations, "%s: credits of %s: %+v; %v tokens are used, %v held", node,
			w.customer, p, sums.used[tokens], sums.held[tokens])
	}
	for _, b := range w.budgets {
		of := sums
		if b.agent {
			of = sums.agent
		}
		if err := s.inspectBudget(ctx, node, client, b, of, w.overruns); err != nil {
			return err
		}
	}
	return nil
}

// of is what some units take of a budget's limit.
func (b *heldBudget) of(units *perFeature) (sum float64) {
	for i := range units {
		sum += b.each[i] * units[i]
	}
	return sum
}

// inspectBudget holds a budget as a node has it against what is settled and held there.
func (s *spender) inspectBudget(
	ctx context.Context, node string, client *api.Client, b heldBudget, sums *heldSums, overruns bool,
) error {
	var v heldLimits
	if _, err := client.Call(ctx, "GET", budgetsPath+b.key, nil, &v); err != nil {
		return fmt.Errorf("torture: the budget %s: %w", b.key, err)
	}
	if len(v.Limits) != 1 {
		return errors.New("torture: a budget has one limit")
	}
	used, held, beyond := b.of(&sums.used), b.of(&sums.held), rounding
	if overruns {
		beyond += b.of(&sums.overruns)
	}
	l := v.Limits[0]
	if math.Abs(l.Used-used) > rounding || math.Abs(l.Held-held) > rounding || v.beyond() > beyond {
		s.violate(byReservations,
			"%s has %+v in the budget %s; events used %v, reservations hold %v and overran by %v",
			node, l, b.key, used, held, b.of(&sums.overruns))
	}
	return nil
}

// inspectLast: once the clock has passed the end of all, nothing is held any more.
func (s *spender) inspectLast(ctx context.Context, node string, client *api.Client) error {
	for _, w := range s.wallets {
		for v, err := range client.Reservations(ctx, w.customer, "open") {
			if err != nil {
				return fmt.Errorf("torture: reservations of %s at %s: %w", w.customer, node, err)
			}
			s.violate(byReservations, "%s: %s is open, and expired at %s", node, v.ReservationKey,
				v.ExpiresAt)
		}
		for _, b := range w.budgets {
			var v heldLimits
			if _, err := client.Call(ctx, "GET", budgetsPath+b.key, nil, &v); err != nil {
				return fmt.Errorf("torture: the budget %s: %w", b.key, err)
			}
			if len(v.Limits) != 1 || v.Limits[0].Held != 0 {
				s.violate(byReservations, "%s: the budget %s holds %+v, and all has expired", node, b.key,
					v.Limits)
			}
		}
	}
	return nil
}
