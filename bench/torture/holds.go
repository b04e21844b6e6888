package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	api "tollgate/sdk/go"
)

const (
	reservationsPath = "/api/v1/client/reservations"
	budgetsPath      = "/api/v1/client/budgets/"
	// heldCustomer is whom reservations are for, at a budget of calls. An agent's key is bound to one
	// below it, of fewer calls; above it is one of what all calls cost.
	heldCustomer = "held"
	agentBudget  = "agent"
)

// heldBudgets are the budgets of the spender: of what they limit, how many calls are one of it.
var heldBudgets = []heldBudget{
	{
		"everything", `{"name":"everything","limits":[{"of":"price","limit":18.5,"window":"lifetime"}]}`,
		0.05,
	},
	{heldCustomer, `{"name":"held","parent":"everything","customerReferenceId":"held","limits":[` +
		`{"of":"units","featureKey":"calls","limit":400,"window":"lifetime",` +
		`"thresholds":[10,50,100]}]}`, 1},
	{agentBudget, `{"name":"agent","parent":"held","limits":[{"of":"units","featureKey":"calls",` +
		`"limit":150,"window":"lifetime"}]}`, 1},
}

// heldBudget is a budget, and how much of its limit a call takes.
type heldBudget struct {
	key, body string
	each      float64
}

// reservation is one that the spender asked for, and what is known of it.
type reservation struct {
	key   string
	units int
	// agent reports whether the agent's key makes it.
	agent bool
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

// spender holds calls of a customer at budgets while the cluster is tortured, settles them in parts
// and for good, and releases them, some of them with the key of an agent: each unit must be in each
// budget once, whatever became of the answers, and no budget ever has more than its limit.
type spender struct {
	*load
	reservations []*reservation
	// agents are clients with the agent's key, one per node; the last is of all nodes.
	agents []*api.Client
}

// open makes the customer, its budgets, and the agent's key.
func (s *spender) open(ctx context.Context) error {
	if _, err := create(ctx, s.any, heldCustomer, 0); err != nil {
		return err
	}
	for _, b := range heldBudgets {
		_, err := s.any.Call(ctx, "PUT", budgetsPath+b.key, json.RawMessage(b.body), nil)
		if err != nil {
			return fmt.Errorf("torture: make the budget %s: %w", b.key, err)
		}
	}
	admin, err := s.fleet.admin()
	if err != nil {
		return err
	}
	defer admin.Close()
	var made api.MadeKey
	_, err = admin.Call(ctx, "POST", sandbox+"/keys", json.RawMessage(`{"scope":"full"}`), &made)
	if err == nil {
		_, err = admin.Call(ctx, "PUT", sandbox+"/keys/"+made.ID+"/budget",
			json.RawMessage(`{"budget":"`+agentBudget+`"}`), nil)
	}
	if err != nil {
		return fmt.Errorf("torture: the agent's key: %w", err)
	}
	var all []string
	for _, p := range s.fleet.nodes {
		all = append(all, p.settings.HTTP)
	}
	for i := range fleetSize + 1 {
		to := all
		if i < fleetSize {
			to = all[i : i+1]
		}
		client, err := api.New(to, made.Key, 1)
		if err != nil {
			return err
		}
		s.agents = append(s.agents, client)
	}
	return nil
}

// keep does one thing after the other, at any node, until ctx ends.
func (s *spender) keep(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		at := random.IntN(fleetSize)
		node, r := s.clients[at], s.next(random)
		try, cancel := context.WithTimeout(ctx, timeouts[random.IntN(len(timeouts))])
		if r != nil && r.agent {
			node = s.agents[at]
		}
		switch {
		case r == nil:
			s.look(try, node, heldBudgets[random.IntN(len(heldBudgets))])
		case r.id == "":
			s.reserve(try, node, r)
		case !r.agent && random.IntN(20) == 0:
			s.intrude(try, s.agents[at], r)
		default:
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
	r := &reservation{
		key: "held-" + strconv.Itoa(n), units: 1 + random.IntN(4), agent: random.IntN(3) == 0,
	}
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

// intrude lets the agent release what is not its own: it cannot.
func (s *spender) intrude(ctx context.Context, agent *api.Client, r *reservation) {
	answer, err := agent.Try(ctx, api.Request{
		Method: "POST", Path: reservationsPath + "/" + r.id + "/release",
	})
	if err == nil && answer.Status != 404 && answer.Status != 503 && answer.Status != 429 {
		s.violate(byReservations, "the agent's key releases %s: %d %s", r.key, answer.Status, answer.Body)
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

// heldLimits are what a node says of a budget.
type heldLimits struct {
	Limits []struct {
		Used, Held, Limit float64
		Overrun           bool
	}
}

// beyond reports whether it has more than its limit.
func (v *heldLimits) beyond() bool {
	return len(v.Limits) != 1 || v.Limits[0].Overrun ||
		v.Limits[0].Used+v.Limits[0].Held > v.Limits[0].Limit+rounding
}

// rounding is how far sums of prices may differ as floating point.
const rounding = 1e-6

// look: used and held are within the limit, at any time and node.
func (s *spender) look(ctx context.Context, node *api.Client, b heldBudget) {
	answer, err := node.Try(ctx, api.Request{Method: "GET", Path: budgetsPath + b.key})
	var v heldLimits
	if err != nil || answer.Status == 503 {
		return
	}
	if answer.Data(&v) != nil || v.beyond() {
		s.violate(byReservations, "the budget %s: %d %s", b.key, answer.Status, answer.Body)
	}
}

// settle asks for every reservation of unknown fate until it is known.
func (s *spender) settle(ctx context.Context) error {
	for _, r := range s.reservations {
		if r.id != "" || r.refused {
			continue
		}
		client := s.any
		if r.agent {
			client = s.agents[fleetSize]
		}
		answer, err := client.Do(ctx, r.request())
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

// inspect adds up the reservations as a node has them, and compares that with its budgets and with
// the customer's events.
func (s *spender) inspect(ctx context.Context, node string, client *api.Client) error {
	var all, agent [2]int // used, and held
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
		all = [2]int{all[0] + int(settled), all[1] + int(holds)}
		if r.agent {
			agent = [2]int{agent[0] + int(settled), agent[1] + int(holds)}
		}
	}
	for _, b := range heldBudgets {
		want := all
		if b.key == agentBudget {
			want = agent
		}
		if err := s.compareBudget(ctx, node, client, b, want); err != nil {
			return err
		}
	}
	got, err := client.Check(ctx, heldCustomer, features[calls].key)
	if err != nil {
		return err
	}
	if got.Usage.Used.String() != strconv.Itoa(all[0]) {
		s.violate(byReservations, "%s says %s calls are used, reservations settled %d", node,
			got.Usage.Used, all[0])
	}
	return nil
}

// compareBudget holds a budget as a node has it against the calls that are settled and held there.
func (s *spender) compareBudget(
	ctx context.Context, node string, client *api.Client, b heldBudget, want [2]int,
) error {
	var v heldLimits
	if _, err := client.Call(ctx, "GET", budgetsPath+b.key, nil, &v); err != nil {
		return fmt.Errorf("torture: the budget %s: %w", b.key, err)
	}
	is := func(amount float64, calls int) bool {
		return math.Abs(amount-b.each*float64(calls)) < rounding
	}
	if v.beyond() || !is(v.Limits[0].Used, want[0]) || !is(v.Limits[0].Held, want[1]) {
		s.violate(byReservations,
			"%s has %+v in the budget %s; reservations settled %d and hold %d calls",
			node, v.Limits, b.key, want[0], want[1])
	}
	return nil
}
