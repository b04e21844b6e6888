package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"

	api "tollgate/sdk/go"
)

const (
	reservationsPath = "/api/v1/client/reservations"
	heldPath         = "/api/v1/client/budgets/held"
	// heldCustomer is whom reservations are for, at a budget of so many calls.
	heldCustomer = "held"
	heldCalls    = 400
)

// reservation is one that the spender asked for, and what is known of it.
type reservation struct {
	key   string
	units int
	// id is set once it is known to be there; refused: it certainly is not. asked reports whether an
	// attempt to make it has an unknown fate.
	id             string
	refused, asked bool
	// settled is the total that was acknowledged, tried the largest that was asked for. closed
	// reports whether a settlement for good, or a release, was acknowledged; closing whether one was
	// asked for.
	settled, tried  int
	closed, closing bool
}

// spender holds calls of a customer at a budget while the cluster is tortured, settles them in
// parts and for good, and releases them: each unit must be in the budget once, whatever became of
// the answers, and the budget never has more than its limit.
type spender struct {
	*load
	reservations []*reservation
}

// open makes the customer and the budget.
func (s *spender) open(ctx context.Context) error {
	if _, err := create(ctx, s.any, heldCustomer, 0); err != nil {
		return err
	}
	_, err := s.any.Call(ctx, "PUT", heldPath, map[string]any{
		"name": "held", "customerReferenceId": heldCustomer, "limits": []any{map[string]any{
			"of": "units", "featureKey": features[calls].key, "limit": heldCalls, "window": "lifetime",
			"thresholds": []int{10, 50, 100},
		}},
	}, nil)
	if err != nil {
		return fmt.Errorf("torture: make a budget: %w", err)
	}
	return nil
}

// keep does one thing after the other, at any node, until ctx ends.
func (s *spender) keep(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		node := s.clients[random.IntN(fleetSize)]
		try, cancel := context.WithTimeout(ctx, timeouts[random.IntN(len(timeouts))])
		if r := s.next(random); r == nil {
			s.look(try, node)
		} else if r.id == "" {
			s.reserve(try, node, r)
		} else {
			s.spend(try, node, r, random)
		}
		cancel()
	}
}

// next is what is asked for next: a new reservation, or one of the newest again; nil: the budget is
// looked at.
func (s *spender) next(random *rand.Rand) *reservation {
	const newest = 30
	n := len(s.reservations)
	switch dice := random.IntN(100); {
	case dice < 10:
		return nil
	case dice < 60 && n > 0:
		if r := s.reservations[n-1-random.IntN(min(n, newest))]; !r.refused && !r.closed {
			return r
		}
		return nil
	}
	r := &reservation{key: "held-" + strconv.Itoa(n), units: 1 + random.IntN(4)}
	s.reservations = append(s.reservations, r)
	return r
}

func (r *reservation) request() api.Request {
	return api.Request{
		Method: "POST", Path: reservationsPath,
		Body: fmt.Appendf(nil, `{"reservationKey":%q,"customerReferenceId":%q,"featureKey":%q,`+
			`"usageUnits":%d,"ttlSeconds":86400}`, r.key, heldCustomer, features[calls].key, r.units),
	}
}

// reserve makes one attempt.
func (s *spender) reserve(ctx context.Context, node *api.Client, r *reservation) {
	answer, err := node.Try(ctx, r.request())
	var made api.Reservation
	switch {
	case err != nil || answer.Status == 503 || answer.Status == 429:
		r.asked = true
	case answer.Status == 402 && !r.asked:
		r.refused = true
	case answer.Status == 402: // an attempt before may have come since, or may come yet
	case answer.Data(&made) != nil || len(made.Items) != 1:
		s.violate(byReservations, "reserve %s: %d %s", r.key, answer.Status, answer.Body)
	default:
		r.id = made.ID
		s.reserved.Add(1)
	}
}

// spend settles a part, settles for good, or releases.
func (s *spender) spend(
	ctx context.Context, node *api.Client, r *reservation, random *rand.Rand,
) {
	request := api.Request{Method: "POST", Path: reservationsPath + "/" + r.id + "/release"}
	total, final := r.tried, true
	if random.IntN(3) > 0 {
		final = random.IntN(2) == 0
		if !r.closing {
			total += random.IntN(r.units-r.tried+1) / 2
		}
		request.Path = reservationsPath + "/" + r.id + "/settle"
		request.Body = fmt.Appendf(nil, `{"usageUnits":%d,"final":%t}`, total, final)
	}
	released := request.Body == nil
	r.closing = r.closing || final
	if !released {
		r.tried = total
	}
	answer, err := node.Try(ctx, request)
	var v api.Reservation
	switch {
	case err != nil || answer.Status == 503 || answer.Status == 429:
	case answer.Status == 409 && r.closing: // an attempt before has closed it
	case answer.Data(&v) != nil || len(v.Items) != 1:
		s.violate(byReservations, "%s: %d %s", request.Path, answer.Status, answer.Body)
	default:
		r.closed = r.closed || final
		if !released {
			r.settled = total
		}
		s.compare(r, &v)
	}
}

// compare holds a reservation as a node says it is against what is known of it.
func (s *spender) compare(r *reservation, v *api.Reservation) {
	settled, err := v.Items[0].SettledUnits.Int64()
	open := v.State == "open"
	if err != nil || int(settled) < r.settled || int(settled) > r.tried || open && r.closed ||
		!open && !r.closing {
		s.violate(byReservations, "%s is %s and settled at %d: of %d, %d were acknowledged, %d asked for",
			r.key, v.State, settled, r.units, r.settled, r.tried)
	}
}

// heldBudget is what a node says of the budget.
type heldBudget struct {
	Limits []struct {
		Used, Held int
		Overrun    bool
	}
}

// look: used and held are within the limit, at any time and node.
func (s *spender) look(ctx context.Context, node *api.Client) {
	answer, err := node.Try(ctx, api.Request{Method: "GET", Path: heldPath})
	var v heldBudget
	if err != nil || answer.Status == 503 {
		return
	}
	if answer.Data(&v) != nil || len(v.Limits) != 1 || v.Limits[0].Overrun ||
		v.Limits[0].Used+v.Limits[0].Held > heldCalls {
		s.violate(byReservations, "the budget: %d %s", answer.Status, answer.Body)
	}
}

// settle asks for every reservation of unknown fate until it is known.
func (s *spender) settle(ctx context.Context) error {
	for _, r := range s.reservations {
		if r.id != "" || r.refused {
			continue
		}
		answer, err := s.any.Do(ctx, r.request())
		var made api.Reservation
		if err == nil && answer.Status != 402 {
			err = answer.Data(&made)
		}
		if err != nil {
			return fmt.Errorf("torture: reserve %s: %w", r.key, err)
		}
		r.id, r.refused = made.ID, made.ID == ""
	}
	return nil
}

// inspect adds up the reservations as a node has them, and compares that with its budget and with
// the customer's events.
func (s *spender) inspect(ctx context.Context, node string, client *api.Client) error {
	used, held := 0, 0
	for _, r := range s.reservations {
		if r.id == "" {
			continue
		}
		v, err := client.Reservation(ctx, r.id)
		if err != nil || len(v.Items) != 1 {
			return errors.Join(fmt.Errorf("torture: the reservation %s at %s", r.key, node), err)
		}
		s.compare(r, &v)
		settled, wrong := v.Items[0].SettledUnits.Int64()
		holds, err := v.Items[0].HeldUnits.Int64()
		if err = errors.Join(err, wrong); err != nil {
			return fmt.Errorf("torture: the reservation %s: %w", r.key, err)
		}
		used, held = used+int(settled), held+int(holds)
	}
	var v heldBudget
	if _, err := client.Call(ctx, "GET", heldPath, nil, &v); err != nil {
		return fmt.Errorf("torture: the budget: %w", err)
	}
	if len(v.Limits) != 1 || v.Limits[0].Used != used || v.Limits[0].Held != held ||
		v.Limits[0].Overrun || used+held > heldCalls {
		s.violate(byReservations, "%s has %+v in the budget; reservations settled %d and hold %d",
			node, v.Limits, used, held)
	}
	got, err := client.Check(ctx, heldCustomer, features[calls].key)
	if err != nil {
		return err
	}
	if got.Usage.Used.String() != strconv.Itoa(used) {
		s.violate(byReservations, "%s says %s calls are used, reservations settled %d", node,
			got.Usage.Used, used)
	}
	return nil
}
