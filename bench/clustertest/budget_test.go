package clustertest

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/billing"
	api "tollgate/sdk/go"
	"tollgate/wal"
)

var leaderKills = flag.Int("leader-kills", 2,
	"how often the leader is killed in TestAThousandAgentsShareABudget")

const (
	spenders         = 1000
	spenderCustomers = 50
	// spenderCents is the price of a unit, shared the limit of all of them together, in cents.
	spenderCents = 10
	shared       = 100_00
	// spenderP99 is how long requests may take outside elections, of 99 in 100, on a quiet machine.
	spenderP99 = 10 * time.Millisecond
)

// spending is a budget of 100.00 that agents of many customers share, at any node of a cluster.
type spending struct {
	*development
	clients  []*api.Client // one for each node
	holding  [spenders]spenderHold
	next     atomic.Int64
	archived atomic.Bool // the archiving of "first" was acknowledged
	calm     calm

	mu     sync.Mutex
	holds  []spenderHold // those that are closed
	faults []string
	// refused counts refusals at the budget.
	refused int
	// doubtful are requests that were refused after a try whose answer was lost.
	doubtful []map[string]any
}

// spenderHold is a reservation of an agent, with what it has settled of it.
type spenderHold struct {
	id               string
	granted, settled int
}

// startSpending makes two halves of the budget, "first" and "second", with 25 customers each.
func startSpending(t *testing.T) *spending {
	s := &spending{development: startCluster(t)}
	for _, n := range s.Nodes {
		s.clients = append(s.clients, s.client(n.ID, s.SandboxKey))
	}
	admin, err := api.New([]string{s.Nodes[0].Ops}, s.AdminKey, 1)
	require.NoError(t, err)
	defer admin.Close()
	call := func(c *api.Client, method, path string, body map[string]any) {
		t.Helper()
		_, err := c.Call(t.Context(), method, path, body, nil)
		require.NoError(t, err, path)
	}
	call(admin, "PUT", "/api/v1/admin/accounts/"+s.Account+"/environments/sandbox/catalog",
		map[string]any{
			"features": []any{map[string]any{"key": "calls", "name": "Calls"}},
			"plans": []any{map[string]any{
				"key": "agents", "name": "Agents", "currency": "USD", "intervalMonths": 1,
				"features": []any{map[string]any{
					"key": "calls", "pricingType": "usage_based",
					"pricing": map[string]any{"pricePerUnit": 0.1},
				}},
			}},
		})
	const client = "/api/v1/client/"
	call(s.clients[0], "PUT", client+"budgets/all", map[string]any{
		"name": "all", "limits": []any{map[string]any{
			"of": "price", "limit": 100, "window": "lifetime",
		}},
	})
	for _, half := range []string{"first", "second"} {
		call(s.clients[0], "PUT", client+"budgets/"+half, map[string]any{"name": half, "parent": "all"})
	}
	for i := range spenderCustomers {
		name := spenderName(i)
		call(s.clients[0], "POST", client+"customers", map[string]any{
			"externalClientCustomerId": name, "firstName": "A", "lastName": "B", "email": "a@example.com",
		})
		call(s.clients[0], "POST", client+"subscriptions", map[string]any{
			"customerReferenceId": name, "planId": "agents",
		})
		call(s.clients[0], "PUT", client+"budgets/"+name, map[string]any{
			"name": name, "parent": []string{"first", "second"}[i%2], "customerReferenceId": name,
		})
	}
	return s
}

func spenderName(i int) string { return fmt.Sprint("spender", i%spenderCustomers) }

func (s *spending) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// pacer draws what an agent does, and paces it in calm stretches.
type pacer struct {
	*rand.Rand
	// rested is the calm stretch in which it has paused.
	rested int
}

// pause lets an agent think for some milliseconds in a calm stretch, as a thousand of them that
// make a call each second do; else they ask as often as they can.
func (r *pacer) pause(c *calm) {
	stretch := c.now()
	if c.lasts(stretch) {
		<-time.After(time.Duration(r.IntN(40)) * time.Millisecond)
		r.rested = stretch
	}
}

// ask sends a request to any node until it is answered. once reports whether the first try was.
func (s *spending) ask(random *pacer, path string, body map[string]any) (
	answer api.Answer, once bool,
) {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	for first, tries := time.Now(), 0; ; tries++ {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		begun := time.Now()
		answer, err := s.clients[random.IntN(len(s.clients))].Try(ctx, api.Request{
			Method: "POST", Path: "/api/v1/client/reservations" + path, Body: text,
		})
		s.calm.asked(random.rested, time.Since(begun))
		cancel()
		if err == nil && answer.Status != 503 && answer.Status != 429 {
			s.calm.answered(time.Since(first))
			return answer, tries == 0
		}
		<-time.After(time.Duration(20+random.IntN(80)) * time.Millisecond)
	}
}

// act lets an agent that holds nothing reserve, and one that holds something settle or release it.
func (s *spending) act(random *pacer, agent int) {
	h := &s.holding[agent]
	if h.id == "" {
		s.reserve(random, agent)
		return
	}
	path, body := "/release", map[string]any{}
	units := h.settled
	if random.IntN(4) > 0 {
		units += random.IntN(h.granted - h.settled + 1)
		path, body = "/settle", map[string]any{"usageUnits": units, "final": random.IntN(3) > 0}
	}
	answer, _ := s.ask(random, "/"+h.id+path, body)
	var v api.Reservation
	if err := answer.Data(&v); err != nil {
		s.fault("%s of %s: %v", path, h.id, err)
		return
	}
	h.settled = units
	if v.State == "open" {
		return
	}
	s.mu.Lock()
	s.holds = append(s.holds, *h)
	s.mu.Unlock()
	*h = spenderHold{}
}

func (s *spending) reserve(random *pacer, agent int) {
	units, late := 1+random.IntN(5), s.archived.Load()
	body := map[string]any{
		"reservationKey":      fmt.Sprint("call-", s.next.Add(1)),
		"customerReferenceId": spenderName(agent), "ttlSeconds": 3600,
		"featureKey": "calls", "usageUnits": units,
	}
	answer, once := s.ask(random, "", body)
	if !once && answer.Status == 402 {
		s.mu.Lock()
		s.doubtful = append(s.doubtful, body)
		s.mu.Unlock()
	}
	var v api.Reservation
	err := answer.Data(&v)
	var said *api.Error
	switch below := agent%2 == 0; { // of spenderCustomers, which is even
	case err == nil && late && below:
		s.fault("a hold below an archived budget, at index %d", v.LogIndex)
	case err == nil:
		s.holding[agent] = spenderHold{id: v.ID, granted: units}
		return
	case errors.As(err, &said) && said.Code == "budget_archived" && below:
		return
	case errors.As(err, &said) && said.Code == "budget_exceeded":
		s.refusal(answer)
		return
	default:
		s.fault("reserve: %v", err)
	}
}

// granted asks again for a reservation that was refused after a try whose answer was lost: that one
// may have been carried out after the refusal. It returns what is held by now, in cents.
func (s *spending) granted(body map[string]any) int {
	answer, _ := s.ask(&pacer{Rand: rand.New(rand.NewPCG(2, 1))}, "", body)
	var v api.Reservation
	if answer.Data(&v) != nil {
		return 0
	}
	return body["usageUnits"].(int) * spenderCents
}

// refusal: it names the level and the index.
func (s *spending) refusal(answer api.Answer) {
	var said struct {
		Error struct {
			Budget struct {
				Budget   string
				Limit    json.Number
				LogIndex int
			}
		}
	}
	err := json.Unmarshal(answer.Body, &said)
	if b := said.Error.Budget; err != nil || b.Budget != "all" || b.Limit != "100" || b.LogIndex == 0 {
		s.fault("a refusal: %s", answer.Body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused++
}

// counts is what a node says is used and held, in cents; false where it does not answer.
func (s *spending) counts(c *api.Client) (used, held int, overrun, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	answer, err := c.Try(ctx, api.Request{Method: "GET", Path: "/api/v1/client/budgets/all"})
	var v struct {
		Limits []struct {
			Used, Held float64
			Overrun    bool
		}
	}
	if err != nil || answer.Data(&v) != nil || len(v.Limits) != 1 {
		return 0, 0, false, false
	}
	l := v.Limits[0]
	return int(l.Used*100 + 0.5), int(l.Held*100 + 0.5), l.Overrun, true
}

// goesOn waits until agents have asked for many more reservations.
func (s *spending) goesOn() {
	s.t.Helper()
	from := s.next.Load()
	on := func() bool { return s.next.Load() >= from+spenders }
	require.Eventually(s.t, on, patience, statusEvery)
}

// walk applies the log of a stopped node again, up to an entry: after none is more than the limit
// settled and held, and nothing is marked as an overrun. It returns the most that was, in cents.
func (s *spending) walk(node string, through uint64) (most int) {
	t := s.t
	log, err := wal.Open(filepath.Join(s.folder.NodeFolder(node), "billing", "log"), wal.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, log.Close()) }()
	first, err := log.FirstIndex()
	require.NoError(t, err)
	require.EqualValues(t, 1, first, "all of the log is there")
	m, out := billing.New(billing.Config{}), engine.Applied{}
	for index := first; index <= through; index++ {
		var entry raft.Log
		require.NoError(t, log.GetLog(index, &entry))
		if entry.Type != raft.LogCommand {
			continue
		}
		if h, _, err := engine.ParseEntry(entry.Data); err == nil && h.Stamp < m.Stamp() {
			engine.SetStamp(entry.Data, m.Stamp()) // as a node does
		}
		require.NoError(t, m.Apply(index, entry.Data, &out))
		env, ok := m.Environment(s.Account, billing.EnvironmentSandbox)
		if !ok {
			continue
		}
		v, ok := m.Budget(env, "all", m.Stamp())
		if !ok {
			continue
		}
		l := v.Limits[0]
		spent, ok := l.Used.Add(l.Held)
		require.True(t, ok)
		dollars, err := strconv.ParseFloat(spent.String(), 64)
		require.NoError(t, err)
		if most = max(most, int(dollars*100+0.5)); l.Overrun || most > shared {
			s.fault("%s settled, %s held, overrun %t at index %d", l.Used, l.Held, l.Overrun, index)
			break
		}
	}
	return most
}

// One budget of 100.00, 1,000 agents of 50 customers, three nodes; the leader is killed, and a half
// of the budget archived. What is settled and held never exceeds the limit at any log index, each
// refusal names level and index, and once the archiving is acknowledged no new hold lies below it.
// While no leader is killed, requests are answered within 10 ms (p99), where the machine is quiet.
func TestAThousandAgentsShareABudget(t *testing.T) {
	s := startSpending(t)
	var stop atomic.Bool
	var all sync.WaitGroup
	const workers = 40
	for w := range workers {
		random := &pacer{Rand: rand.New(rand.NewPCG(1, uint64(w)))}
		all.Go(func() {
			for !stop.Load() {
				s.act(random, w+workers*random.IntN(spenders/workers))
				random.pause(&s.calm)
			}
		})
	}
	all.Go(func() {
		for n := 0; !stop.Load(); n++ {
			used, held, overrun, ok := s.counts(s.clients[n%len(s.clients)])
			if ok && (overrun || used+held > shared) {
				s.fault("%d used, %d held, overrun %t", used, held, overrun)
			}
			<-time.After(5 * time.Millisecond)
		}
	})
	nodes := func() (processes []int) {
		for _, n := range s.Nodes {
			processes = append(processes, n.PID)
		}
		return processes
	}
	for range *leaderKills {
		s.calm.during(nodes(), s.goesOn)
		leader := s.leader()
		s.development.signal(leader, syscall.SIGKILL)
		s.leader(leader)
		s.restart(leader)
		s.ready(leader)
	}
	_, err := s.clients[0].Call(t.Context(), "DELETE", "/api/v1/client/budgets/first", nil, nil)
	require.NoError(t, err)
	s.archived.Store(true)
	s.goesOn()
	stop.Store(true)
	all.Wait()

	used, held := 0, 0
	for _, body := range s.doubtful {
		held += s.granted(body)
	}
	for _, h := range s.holds {
		used += h.settled * spenderCents
	}
	for _, h := range s.holding {
		used += h.settled * spenderCents
		held += (h.granted - h.settled) * spenderCents
	}
	for i, c := range s.clients {
		require.EventuallyWithT(t, func(t *assert.CollectT) {
			gotUsed, gotHeld, overrun, ok := s.counts(c)
			require.True(t, ok && !overrun)
			require.Equal(t, []int{used, held}, []int{gotUsed, gotHeld}, "used, held")
		}, patience, statusEvery, s.Nodes[i].ID)
	}
	status, err := s.status(s.Nodes[0].ID)
	require.NoError(t, err)
	s.kill()
	most := s.walk(s.Nodes[0].ID, status.Groups[0].AppliedIndex)
	t.Logf("%d reservations, %d refusals, at most %d of %d cents settled and held; %s",
		s.next.Load(), s.refused, most, shared, &s.calm)
	if s.calm.quiet() && quickDisk(t) {
		require.LessOrEqual(t, s.calm.p99(), spenderP99)
	}
	require.Empty(t, s.faults)
	require.Positive(t, s.refused)
	require.Positive(t, used)
}
