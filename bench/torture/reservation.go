package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	api "tollgate/sdk/go"
)

// reservation is one that a spender asked for, and what is known of it.
type reservation struct {
	wallet *wallet
	key    string
	body   []byte // of the request
	// agent: the agent's key makes it. partial: less may be granted. short: it expires while the run
	// lasts. refuses: it refuses overruns.
	agent, partial, short, refuses bool
	// event is the key that some of its settlements name; empty: none does. rival: an ordinary event
	// may come under that key, before or after.
	event string
	rival bool

	mu    sync.Mutex
	items []heldItem
	// id is set once it is known to be there, and first is its first answer; refused: it certainly
	// is not there. sending are the attempts to make it under way, unsure reports whether one before
	// has an unknown fate.
	id      string
	first   json.RawMessage
	refused bool
	sending int
	unsure  bool
	// bills: what is held is billed when it expires, or may be. closing: a settlement for good, or a
	// release, was asked for.
	bills, closing bool
	// last is an answer in a state that nothing changes any more, and final the settlement, or the
	// release, that was answered so.
	last  *api.Reservation
	final *api.Request
	// counted reports whether the ordinary event was acknowledged, voided whether a void of the first
	// event that settled it was.
	counted, voided bool
}

// heldItem is what a reservation holds of a feature.
type heldItem struct {
	feature int
	units   float64 // asked for
	// granted is the largest hold that was acknowledged, wanted the largest that was asked for.
	granted, wanted float64
	// settled is the largest total that was acknowledged and cannot be taken back, tried the largest
	// that was asked for.
	settled, tried float64
}

// Times to live, in seconds: of most, and the longest of the others.
const longTTL, shortTTL = 86_400, 4

func newReservation(w *wallet, n int, random *rand.Rand) *reservation {
	one := func(of int) bool { return random.IntN(of) == 0 }
	r := &reservation{
		wallet: w, key: "reserved-" + strconv.Itoa(n), short: one(3), refuses: one(2), bills: one(2),
	}
	r.agent = w.agent && one(3)
	count, ttl := 1, longTTL
	if one(3) {
		count = 2 + random.IntN(len(heldFeatures)-1)
	}
	if r.short {
		ttl = 1 + random.IntN(shortTTL)
	}
	if one(3) {
		r.event = "of-" + r.key
		r.rival = !r.agent && one(2)
	}
	var list []string
	features := random.Perm(len(heldFeatures))
	if one(2) { // most hold calls, which budgets limit
		at := slices.Index(features, calls)
		features[0], features[at] = features[at], features[0]
	}
	for _, f := range features[:count] {
		units := float64(1 + random.IntN(4))
		r.items = append(r.items, heldItem{feature: f, units: units, wanted: units})
		list = append(list, fmt.Sprintf(`{"featureKey":%q,"usageUnits":%v%s}`,
			heldFeatures[f].key, units, w.cost(units)))
	}
	text := fmt.Sprintf(`{"reservationKey":%q,"customerReferenceId":%q,"ttlSeconds":%d,"items":[%s]`,
		r.key, w.customer, ttl, strings.Join(list, ","))
	if r.partial = count == 1 && one(4); r.partial {
		text += `,"onShortage":"partial"`
	}
	if r.refuses {
		text += `,"overrun":"refuse"`
	}
	if r.bills {
		text += `,"onExpiry":"settle"`
	}
	r.body = []byte(text + "}")
	return r
}

// cost is the field that states what units cost the provider; empty: nothing does.
func (w *wallet) cost(units float64) string {
	if w.overruns {
		return ""
	}
	return fmt.Sprintf(`,"costAmount":%.2f`, unitCost*units)
}

func (r *reservation) request() api.Request {
	return api.Request{Method: "POST", Path: reservationsPath, Body: r.body}
}

// known reports whether the reservation is there.
func (r *reservation) known() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.id != ""
}

// lost reports whether the reservation is certainly not there.
func (r *reservation) lost() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}

// begin notes that an attempt to make the reservation begins; false where it is not to be made any
// more.
func (r *reservation) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.refused {
		r.sending++
	}
	return !r.refused
}

// reserve makes one attempt.
func (s *spender) reserve(ctx context.Context, node *api.Client, r *reservation) {
	if !r.begin() {
		return
	}
	answer, err := node.Try(ctx, r.request())
	r.mu.Lock()
	r.sending--
	switch {
	case err != nil || answer.Status == 503 || answer.Status == 429:
		r.unsure = true
		r.mu.Unlock()
	case answer.Status == 402 && r.id == "":
		// An attempt before may have come since, or may come yet.
		r.refused = !r.unsure && r.sending == 0
		r.mu.Unlock()
	default:
		r.mu.Unlock()
		s.made(r, answer)
	}
}

// made notes the answer to a reservation that is there: always the first one.
func (s *spender) made(r *reservation, answer api.Answer) {
	var v api.Reservation
	var data json.RawMessage
	if answer.Data(&v) != nil || answer.Data(&data) != nil || len(v.Items) != len(r.items) {
		s.violate(byReservations, "reserve %s: %d %s", r.key, answer.Status, answer.Body)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused || r.first != nil && !bytes.Equal(r.first, data) {
		s.violate(byReservations, "reserve %s again: %s; the first answer was %s", r.key, data, r.first)
	}
	if r.first != nil {
		return
	}
	s.reserved.Add(1)
	r.id, r.first = v.ID, bytes.Clone(data)
	for i := range r.items {
		got, err := v.Items[i].GrantedUnits.Float64()
		k := &r.items[i]
		if k.granted = max(k.granted, got); err != nil || got > k.units || got <= 0 ||
			!r.partial && got != k.units {
			s.violate(byReservations, "reserve %s: %s", r.key, data)
		}
	}
}

// spend does one thing with a reservation that is there, or two at once.
func (s *spender) spend(ctx context.Context, r *reservation, random *rand.Rand) {
	ask := func(act string, body []byte, final bool) {
		s.ask(ctx, s.at(r, random), r, act, body, final)
	}
	switch dice := random.IntN(100); {
	case dice < 45:
		ask("settle", r.part(s, random), false)
	case dice < 60:
		ask("settle", r.whole(s, random), true)
	case dice < 68:
		ask("release", nil, true)
	case dice < 78:
		ask("extend", r.longer(random), false)
	case dice < 84 && !r.agent:
		s.intrude(ctx, s.agents[random.IntN(fleetSize)], r)
	case dice < 88 && r.rival:
		s.compete(ctx, s.clients[random.IntN(fleetSize)], r)
	case dice < 95:
		s.raced.Add(1)
		body, other := r.whole(s, random), s.at(r, random)
		node := s.at(r, random)
		var both sync.WaitGroup
		both.Go(func() { s.ask(ctx, node, r, "settle", body, true) })
		both.Go(func() {
			if r.rival {
				s.compete(ctx, other, r)
			} else {
				s.ask(ctx, other, r, "release", nil, true)
			}
		})
		both.Wait()
	case dice < 98 && r.voidable():
		s.void(ctx, s.clients[random.IntN(fleetSize)], r)
	default:
		s.read(ctx, s.at(r, random), r)
	}
}

// voidable reports whether the first event that settled the reservation, under a key of the
// reservation's own, may be voided: nothing settles it any more, and no credits have paid.
func (r *reservation) voidable() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last != nil && r.last.State == "settled" && r.event == "" &&
		!slices.ContainsFunc(r.items, func(k heldItem) bool { return k.feature == tokens })
}

// void takes back the first event that settled a reservation, which leaves it as it is.
func (s *spender) void(ctx context.Context, node *api.Client, r *reservation) {
	answer, err := node.Try(ctx, api.Request{
		Method: "POST", Path: eventsPath + "/reservation:" + r.id + ":1/void",
	})
	switch {
	case err != nil || answer.Status == 429 || answer.Status == 503:
	case answer.Status == 200:
		r.mu.Lock()
		r.voided = true
		r.mu.Unlock()
	case answer.Status != 404 || !r.unused(): // it was settled at nothing
		s.violate(byReservations, "the void of %s: %d %s", r.key, answer.Status, answer.Body)
	}
}

// unused reports whether a reservation that is over was settled at nothing.
func (r *reservation) unused() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !slices.ContainsFunc(r.last.Items, func(i api.ReservationItem) bool {
		return i.SettledUnits != "0"
	})
}

// part is the body of a settlement of some of it: totals that may lie below those of parts before.
func (r *reservation) part(s *spender, random *rand.Rand) []byte {
	return r.settlement(s, random, func(k *heldItem, maximum float64) float64 {
		return float64(random.IntN(int(maximum) + 1))
	}, false)
}

// whole is the body of a settlement for good: of no less than parts have settled, if they came.
func (r *reservation) whole(s *spender, random *rand.Rand) []byte {
	return r.settlement(s, random, func(k *heldItem, maximum float64) float64 {
		if maximum <= k.tried {
			return k.tried
		}
		return k.tried + float64(random.IntN(int(maximum-k.tried)+1))
	}, true)
}

// settlement is the body of one of some items, and notes what it asks for. What may be asked for of
// an item is what it holds, or a little more where the wallet has overruns.
func (r *reservation) settlement(
	s *spender, random *rand.Rand, total func(k *heldItem, maximum float64) float64, final bool,
) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []string
	only := random.IntN(len(r.items))
	for i := range r.items {
		if i != only && random.IntN(4) == 0 {
			continue
		}
		k := &r.items[i]
		most := k.granted
		if r.wallet.overruns && random.IntN(3) == 0 {
			most += float64(random.IntN(4))
		}
		units := total(k, most)
		k.tried = max(k.tried, units)
		r.bills = r.bills || r.refuses && units > k.granted // it is billed if that is refused
		list = append(list, fmt.Sprintf(`{"featureKey":%q,"usageUnits":%v}`,
			heldFeatures[k.feature].key, units))
	}
	text := fmt.Sprintf(`{"final":%t,"items":[%s]`, final, strings.Join(list, ","))
	if r.event != "" && (final || random.IntN(2) == 0) {
		text += `,"eventIdempotencyKey":"` + r.event + `"`
		r.closing = r.closing || r.rival // the event may be there
	}
	if random.IntN(4) == 0 {
		begun, err := time.Parse(time.RFC3339, s.occurredAt)
		at := time.Now().Add(time.Duration(random.IntN(80)-20) * time.Second)
		if err == nil && at.After(begun.Add(time.Second)) {
			text += `,"occurredAt":"` + at.UTC().Format(time.RFC3339) + `"`
		}
	}
	r.closing = r.closing || final
	return []byte(text + "}")
}

// longer is the body of an extension: for longer, and if there is one item, to more.
func (r *reservation) longer(random *rand.Rand) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	ttl := longTTL
	if r.short {
		ttl = 1 + random.IntN(shortTTL)
	}
	text := fmt.Sprintf(`{"ttlSeconds":%d`, ttl)
	if k := &r.items[0]; len(r.items) == 1 && random.IntN(2) == 0 {
		k.wanted = max(k.wanted, k.granted+float64(1+random.IntN(2)))
		text += fmt.Sprintf(`,"usageUnits":%v`, k.wanted)
	}
	return []byte(text + "}")
}

// before is what was known of a reservation before a request was sent.
type before struct {
	last  *api.Reservation
	items []heldItem
}

func (r *reservation) before() before {
	r.mu.Lock()
	defer r.mu.Unlock()
	return before{r.last, slices.Clone(r.items)}
}

// ask makes one attempt to change a reservation. Its body is noted already.
func (s *spender) ask(
	ctx context.Context, node *api.Client, r *reservation, act string, body []byte, final bool,
) {
	if final {
		r.mu.Lock()
		r.closing = true
		r.mu.Unlock()
	}
	request := api.Request{Method: "POST", Path: reservationsPath + "/" + r.id + "/" + act, Body: body}
	b := r.before()
	answer, err := node.Try(ctx, request)
	if err != nil || answer.Status == 503 || answer.Status == 429 {
		return
	}
	r.mu.Lock()
	closing := r.closing || r.short
	r.mu.Unlock()
	var v api.Reservation
	switch {
	case answer.Status == 409 && closing: // it is over
	case answer.Status == 402 && act == "extend":
	case answer.Status == 402 && act == "settle" && (r.short || r.wallet.overruns):
	case answer.Status == 400 && act == "settle" && final &&
		strings.Contains(string(answer.Body), `"settled_more"`): // a part of more has come meanwhile
	case answer.Data(&v) != nil:
		s.violate(byReservations, "%s %s of %s: %d %s", request.Path, body, r.key, answer.Status,
			answer.Body)
	default:
		s.compare(r, b, &v)
		if final {
			r.ends(&v, &request)
		}
	}
}

// ends notes what a reservation was ended with, to be repeated.
func (r *reservation) ends(v *api.Reservation, request *api.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if over(v) && r.final == nil {
		r.final = request
	}
}

// over reports whether nothing changes a reservation any more. Settlements may follow an expiry.
func over(v *api.Reservation) bool { return v.State == "settled" || v.State == "released" }

// read asks a node for a reservation.
func (s *spender) read(ctx context.Context, node *api.Client, r *reservation) {
	b := r.before()
	answer, err := node.Try(ctx, api.Request{Method: "GET", Path: reservationsPath + "/" + r.id})
	if err != nil || answer.Status == 503 {
		return
	}
	var v api.Reservation
	if answer.Data(&v) != nil {
		s.violate(byReservations, "%s: %d %s", r.key, answer.Status, answer.Body)
		return
	}
	s.compare(r, b, &v)
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

// compete records an ordinary event under the key that settlements name.
func (s *spender) compete(ctx context.Context, node *api.Client, r *reservation) {
	r.mu.Lock()
	r.closing = true
	feature := heldFeatures[r.items[0].feature].key
	r.mu.Unlock()
	answer, err := node.Try(ctx, api.Request{
		Method: "POST", Path: eventsPath, Body: fmt.Appendf(nil, `{"eventIdempotencyKey":%q,`+
			`"eventName":%q,"customerReferenceId":%q,"usageUnits":1,"occurredAt":%q%s}`,
			r.event, feature, r.wallet.customer, s.occurredAt, r.wallet.cost(1)),
	})
	if err != nil {
		return
	}
	switch answer.Status {
	case 200, 201:
		r.mu.Lock()
		r.counted = true
		r.mu.Unlock()
	case 402, 409, 429, 503:
	default:
		s.violate(byReservations, "the event %s: %d %s", r.event, answer.Status, answer.Body)
	}
}

// compare holds a reservation as a node says it is against what is known of it.
func (s *spender) compare(r *reservation, b before, v *api.Reservation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	why := r.differs(b, v)
	if why == "" {
		return
	}
	text, err := json.Marshal(v)
	if err != nil {
		text = []byte(err.Error())
	}
	s.violate(byReservations, "%s: %s: %s; known of it: %+v", r.key, why, text, r.items)
}

// differs says in what a reservation differs from what is known of it, and notes what is new. What
// was known before the request was sent is the least that the answer knows.
func (r *reservation) differs(b before, v *api.Reservation) string {
	open := v.State == "open"
	switch {
	case v.ID != r.id || len(v.Items) != len(r.items):
		return "it is another one"
	case b.last != nil && v.State != b.last.State:
		return "it was " + b.last.State
	case over(v) && !r.closing, (v.State == "expired" || v.State == "billed") && !r.short,
		v.State == "billed" && !r.bills:
		return "no settlement asked for that"
	}
	for i := range r.items {
		k, got := &r.items[i], &v.Items[i]
		granted, err := got.GrantedUnits.Float64()
		settled, wrong := got.SettledUnits.Float64()
		held, bad := got.HeldUnits.Float64()
		if err != nil || wrong != nil || bad != nil || got.FeatureKey != heldFeatures[k.feature].key {
			return "it has other items"
		}
		most := k.tried
		if r.bills && !open {
			most = max(most, granted)
		}
		switch {
		case granted < b.items[i].granted, granted > k.wanted:
			return "its hold is not what was asked for"
		case open && held != max(0, granted-settled), !open && held != 0:
			return "it holds something else than is left"
		case settled < b.items[i].settled:
			return "a settlement that was acknowledged is missing"
		case settled > most:
			return "more is settled than anybody asked for"
		case got.OverrunUnits != "0" && !r.wallet.overruns:
			return "it has an overrun"
		case b.last != nil && got.SettledUnits != b.last.Items[i].SettledUnits:
			return "it was over, and settled at other units"
		}
		k.granted = max(k.granted, granted)
		if v.State == "open" || v.State == "expired" || v.State == "settled" && !v.AfterExpiry {
			k.settled = max(k.settled, settled)
		}
	}
	switch {
	case !over(v):
	case r.last == nil:
		known := *v
		r.last = &known
	case r.last.State != v.State:
		return "another answer says it is " + r.last.State
	default:
		for i := range v.Items {
			if v.Items[i].SettledUnits != r.last.Items[i].SettledUnits {
				return "another answer says it is settled at other units"
			}
		}
	}
	return ""
}
