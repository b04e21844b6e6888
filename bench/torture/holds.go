package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	api "tollgate/sdk/go"
)

const (
	reservationsPath = "/api/v1/client/reservations"
	budgetsPath      = "/api/v1/client/budgets/"
	// spenders work at a time. The wallets that they spend from follow one another.
	spenders, walletCount = 3, 6
	// agentBudget is below the first wallet's; the agent's key is bound to it.
	agentBudget = "agent"
	// callsLimit and agentLimit are of calls, spendLimit is of what they all cost, costLimit of what
	// they cost the provider, for life.
	callsLimit, agentLimit, spendLimit, costLimit = 300, 120, 18.5, 27
	// unitCost is what a unit of any feature costs the provider, as reservations and events of a
	// wallet without overruns state it. Settlements state nothing: theirs is the share.
	unitCost = 0.03
)

// heldFeatures are what reservations hold: what a unit costs, and the hard limit; 0: none.
var heldFeatures = [...]struct {
	key   string
	price float64
	limit float64
}{
	{key: "calls", price: 0.05},
	{key: "seats", limit: 60},
	{key: "tokens"},
	{key: "pages", price: 0.01},
	{key: "images", price: 0.02},
	{key: "minutes", price: 0.01},
	{key: "files", price: 0.01},
	{key: "steps", price: 0.01},
}

// perFeature is something of each of heldFeatures.
type perFeature [len(heldFeatures)]float64

// wallet is a customer with budgets for life. With overruns, settlements may say more than was
// held: no more is used and held beyond a limit than the overruns that answers admit to. Without,
// nothing ever passes a limit.
type wallet struct {
	customer string
	overruns bool
	budgets  []heldBudget
	agent    bool // the agent's budget is among them
}

// heldBudget is a budget, and what a unit of each feature takes of its limit.
type heldBudget struct {
	key, body string
	each      perFeature
	agent     bool // only what the agent holds counts in it
}

func newWallet(n int) *wallet {
	name := "held-" + strconv.Itoa(n)
	w := &wallet{customer: name, overruns: n%2 == 1}
	var prices perFeature
	for i, f := range heldFeatures {
		prices[i] = f.price
	}
	calls, parent := perFeature{calls: 1}, ""
	if !w.overruns {
		var costs perFeature
		for i := range costs {
			costs[i] = unitCost
		}
		w.budgets = append(w.budgets, heldBudget{key: "cost-" + name, each: costs, body: fmt.Sprintf(
			`{"name":"cost","limits":[{"of":"cost","limit":%v,"window":"lifetime"}]}`, costLimit)})
		parent = `"parent":"cost-` + name + `",`
	}
	units := `"limits":[{"of":"units","featureKey":"calls","window":"lifetime","limit":`
	w.budgets = append(w.budgets,
		heldBudget{key: "all-" + name, each: prices, body: fmt.Sprintf(
			`{"name":"all",%s"limits":[{"of":"price","limit":%v,"window":"lifetime"}]}`,
			parent, spendLimit)},
		heldBudget{key: name, each: calls, body: fmt.Sprintf(
			`{"name":"own","parent":%q,"customerReferenceId":%q,%s%d,"thresholds":[10,50,100]}]}`,
			"all-"+name, name, units, callsLimit)},
	)
	if w.agent = n == 0; w.agent {
		w.budgets = append(w.budgets, heldBudget{
			key: agentBudget, each: calls, agent: true,
			body: fmt.Sprintf(`{"name":"agent","parent":%q,%s%d}]}`, name, units, agentLimit),
		})
	}
	return w
}

// spender reserves units of customers at budgets while the cluster is tortured, settles them in
// parts, in any order, and for good, extends and releases them, or lets them expire, some of them
// with the key of an agent: each unit must be in each budget once, whatever became of the answers.
type spender struct {
	*load
	wallets []*wallet
	// agents are clients with the agent's key, one per node; the last is of all nodes.
	agents []*api.Client

	mu           sync.Mutex
	reservations []*reservation
}

// open makes the customers, their budgets, and the agent's key.
func (s *spender) open(ctx context.Context) error {
	for n := range walletCount {
		w := newWallet(n)
		if _, err := create(ctx, s.any, w.customer, 0); err != nil {
			return err
		}
		for _, b := range w.budgets {
			_, err := s.any.Call(ctx, "PUT", budgetsPath+b.key, json.RawMessage(b.body), nil)
			if err != nil {
				return fmt.Errorf("torture: make the budget %s: %w", b.key, err)
			}
		}
		s.wallets = append(s.wallets, w)
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
		client, err := api.New(to, made.Key, spenders)
		if err != nil {
			return err
		}
		s.agents = append(s.agents, client)
	}
	return nil
}

// keep does one thing after the other, at any node, until ctx ends. Several goroutines run it.
func (s *spender) keep(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		r := s.next(random)
		try, cancel := context.WithTimeout(ctx, timeouts[random.IntN(len(timeouts))])
		switch {
		case r == nil:
			s.look(try, random)
		case !r.known() || random.IntN(20) == 0:
			s.reserve(try, s.at(r, random), r)
		default:
			s.spend(try, r, random)
		}
		cancel()
	}
}

// at is a client of any node, with the key that a reservation is made with.
func (s *spender) at(r *reservation, random *rand.Rand) *api.Client {
	if r.agent {
		return s.agents[random.IntN(fleetSize)]
	}
	return s.clients[s.fleet.place(random)]
}

// next is what is asked for next: a new reservation, or one of the newest again; nil: limits are
// looked at.
func (s *spender) next(random *rand.Rand) *reservation {
	const newest = 30
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.reservations)
	switch dice := random.IntN(100); {
	case dice < 10:
		return nil
	case dice < 75 && n > 0:
		if r := s.reservations[n-1-random.IntN(min(n, newest))]; !r.lost() {
			return r
		}
		return nil
	}
	at := min(walletCount-1, int(time.Since(s.begun)*walletCount/max(s.For, 1)))
	r := newReservation(s.wallets[at], n, random)
	s.reservations = append(s.reservations, r)
	return r
}

// heldLimits are what a node says of a budget.
type heldLimits struct {
	Limits []struct {
		Used, Held, Limit float64
		Overrun           bool
	}
}

// beyond is how much is used and held beyond the limit.
func (v *heldLimits) beyond() float64 {
	l := v.Limits[0]
	return l.Used + l.Held - l.Limit
}

// rounding is how far sums of prices may differ as floating point.
const rounding = 1e-6

// look: used and held are within the limits of a wallet without overruns, at any time and node.
func (s *spender) look(ctx context.Context, random *rand.Rand) {
	w := s.wallets[random.IntN(walletCount)/2*2]
	node := s.clients[random.IntN(fleetSize)]
	if random.IntN(2) == 0 {
		s.lookAtSeats(ctx, node, w)
		return
	}
	b := w.budgets[random.IntN(len(w.budgets))]
	answer, err := node.Try(ctx, api.Request{Method: "GET", Path: budgetsPath + b.key})
	var v heldLimits
	if err != nil || answer.Status == 503 {
		return
	}
	if answer.Data(&v) != nil || len(v.Limits) != 1 || v.Limits[0].Overrun || v.beyond() > rounding {
		s.violate(byReservations, "the budget %s: %d %s", b.key, answer.Status, answer.Body)
	}
}

// lookAtSeats looks at a feature with a hard limit.
func (s *spender) lookAtSeats(ctx context.Context, node *api.Client, w *wallet) {
	seats := heldFeatures[1]
	answer, err := node.Try(ctx, api.Request{
		Method: "GET", Path: checksPath + w.customer + "/" + seats.key,
	})
	if err != nil || answer.Status == 503 {
		return
	}
	var v struct{ Usage struct{ Used, Held float64 } }
	if answer.Data(&v) != nil || v.Usage.Used+v.Usage.Held > seats.limit {
		s.violate(byReservations, "seats of %s: %d %s", w.customer, answer.Status, answer.Body)
	}
}
