package billing_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// creditHistory is a history of reservations that credits pay while pools are frozen and archived,
// and grants expire and are reversed: of videos, half a credit each, which have no price, and of
// images, 3 credits each, else 0.02 USD, in a budget of 0.10 or 0.40.
type creditHistory struct {
	*rapid.T
	m       *billing.Machine
	l       *enginetest.Log
	made    int
	expires bool // whether grants do
	pools   [][16]byte
	grants  [][16]byte
	holds   []string
	events  map[string]decimal.Decimal // units, by feature
	marked  map[string]decimal.Decimal // overruns, by feature
	over    bool                       // the budget's limit is passed
}

func newCreditHistory(t *rapid.T) *creditHistory {
	m := billing.New(billing.Config{})
	h := &creditHistory{
		T: t, m: m, l: enginetest.NewLog(m, enginetest.Epoch), expires: rapid.Bool().Draw(t, "expires"),
		events: map[string]decimal.Decimal{}, marked: map[string]decimal.Decimal{},
	}
	enginetest.NewAccount(h.l, enginetest.PrepaidPlan())
	enginetest.NewCustomer(h.l, "ada", "prepaid")
	h.pools = [][16]byte{m.Pools(1)[0].ID}
	limit := inUSD(rapid.SampledFrom([]string{"0.1", "0.4"}).Draw(t, "limit"))
	require.Equal(t, engine.OutcomeDone, h.l.Do(billing.KindPutBudget, &billing.PutBudget{
		Env: 1, Key: "all", Name: "all", Customer: "ada", Limits: []billing.LimitDocument{limit},
	}).Outcome)
	return h
}

func (h *creditHistory) name(kind string) string {
	h.made++
	return fmt.Sprint(kind, h.made)
}

func (h *creditHistory) number(label string, least, most int64) decimal.Decimal {
	return decimal.FromInt(rapid.Int64Range(least, most).Draw(h.T, label))
}

func (h *creditHistory) feature() string {
	return rapid.SampledFrom([]string{"videos", "images"}).Draw(h.T, "feature")
}

// Lose holds both features, stops a pool under that, grants some more, and when other grants have
// expired settles both, mostly at what they hold.
func (h *creditHistory) Lose(t *rapid.T) {
	c := enginetest.Reservation(h.name("r"), "ada", "videos", 0)
	c.Items = []billing.ReserveItem{
		{FeatureKey: "videos", Units: h.number("units", 1, 200)},
		{FeatureKey: "images", Units: h.number("images", 1, 15)},
	}
	if rapid.Bool().Draw(h.T, "images first") {
		c.Items[0], c.Items[1] = c.Items[1], c.Items[0]
	}
	c.RefuseOverrun = rapid.Bool().Draw(h.T, "refuses")
	if h.l.Do(billing.KindReserve, c).Outcome != engine.OutcomeDone {
		return
	}
	h.holds = append(h.holds, c.KeyText)
	h.Stop(t)
	if rapid.Bool().Draw(h.T, "more") {
		h.Grant(t)
	}
	h.l.Stamp += rapid.SampledFrom([]int64{1, 500, 30_000}).Draw(h.T, "later")
	s := &billing.SettleReservation{Env: 1, ID: c.ID}
	for i := range c.Items {
		item := billing.SettleItem{FeatureKey: c.Items[i].FeatureKey, Units: c.Items[i].Units}
		if rapid.IntRange(0, 3).Draw(h.T, "other") == 0 {
			item.Units = h.number("total", 0, 60)
		}
		s.Items = append(s.Items, item)
	}
	h.l.Do(billing.KindSettleReservation, s)
}

// Event uses some.
func (h *creditHistory) Event(*rapid.T) {
	c := enginetest.Usage(h.l, h.name("e"), "ada", h.feature(), 0)
	c.Units = h.number("units", 0, 40)
	if !h.l.DoPayload(billing.KindRecordUsage, c.Seal(nil)).Outcome.Refused() {
		h.events[string(c.EventName)] = plus(h.events[string(c.EventName)], c.Units)
	}
}

// Reserve holds some.
func (h *creditHistory) Reserve(*rapid.T) {
	c := enginetest.Reservation(h.name("r"), "ada", h.feature(), 0)
	c.Items[0].Units = h.number("units", 1, 60)
	if rapid.IntRange(0, 3).Draw(h.T, "both") == 0 {
		c.Items = []billing.ReserveItem{
			{FeatureKey: "videos", Units: c.Items[0].Units},
			{FeatureKey: "images", Units: h.number("images", 1, 15)},
		}
	}
	c.TTLMS = rapid.SampledFrom([]int64{1000, 60_000, 600_000}).Draw(h.T, "ttl")
	c.RefuseOverrun = rapid.Bool().Draw(h.T, "refuses")
	c.SettleOnExpiry = rapid.Bool().Draw(h.T, "bills")
	if h.l.Do(billing.KindReserve, c).Outcome == engine.OutcomeDone {
		h.holds = append(h.holds, c.KeyText)
	}
}

// hold is a reservation, mostly a new one.
func (h *creditHistory) hold() (id [16]byte, v billing.ReservationView) {
	if len(h.holds) == 0 {
		h.Skip()
	}
	newest := h.holds[max(0, len(h.holds)-4):]
	id = enginetest.ID("reservation " + rapid.SampledFrom(newest).Draw(h.T, "reservation"))
	v, _ = h.m.Reservation(enginetest.Sandbox, id, h.l.Stamp)
	return id, v
}

// Settle settles a part, or for good. What no expiry takes away pays for what is held.
func (h *creditHistory) Settle(*rapid.T) {
	id, before := h.hold()
	if before.State == billing.ReservationBilled {
		return
	}
	c := &billing.SettleReservation{Env: 1, ID: id, Partial: rapid.Bool().Draw(h.T, "part")}
	within := before.State == billing.ReservationOpen
	for i := range before.Items {
		item := &before.Items[i]
		s := billing.SettleItem{FeatureKey: item.FeatureKey, Units: h.number("total", 0, 60)}
		within = within && !plus(item.Settled, item.Held).Less(s.Units)
		c.Items = append(c.Items, s)
	}
	r := h.l.Do(billing.KindSettleReservation, c)
	if !within || h.expires {
		return
	}
	if r.Outcome == engine.OutcomeSettledMore {
		return
	}
	var v billing.ReservationView
	require.Equal(h, engine.OutcomeDone.String(), r.Outcome.String())
	require.NoError(h, wire.Decode(r.Value, &v))
	for i := range v.Items {
		require.Equal(h, before.Items[i].Overrun, v.Items[i].Overrun, "what is held stays")
	}
}

// Extend makes a reservation hold more.
func (h *creditHistory) Extend(*rapid.T) {
	id, v := h.hold()
	c := &billing.ExtendReservation{Env: 1, ID: id, TTLMS: 60_000}
	if len(v.Items) == 1 {
		c.Units = h.number("units", 0, 90)
	}
	h.l.Do(billing.KindExtendReservation, c)
}

func (h *creditHistory) Release(*rapid.T) {
	id, _ := h.hold()
	h.l.Do(billing.KindReleaseReservation, &billing.ReleaseReservation{Env: 1, ID: id})
}

func (h *creditHistory) pool() [16]byte { return rapid.SampledFrom(h.pools).Draw(h.T, "pool") }

// Grant gives credits, to a new pool now and then.
func (h *creditHistory) Grant(*rapid.T) {
	if len(h.pools) < 4 && rapid.IntRange(0, 2).Draw(h.T, "new") == 0 {
		id := enginetest.ID(h.name("pool"))
		require.Equal(h, engine.OutcomeDone, h.l.Do(billing.KindCreatePool, &billing.CreatePool{
			Env: 1, ID: id, Customer: "ada", Name: "studio", HardLimit: true,
		}).Outcome)
		h.pools = append(h.pools, id)
	}
	c := &billing.GrantCredits{
		Env: 1, ID: enginetest.ID(h.name("g")), Pool: h.pool(), Amount: h.number("credits", 1, 60),
	}
	if h.expires {
		c.ExpiresAt = h.l.Stamp + rapid.SampledFrom([]int64{500, 30_000, 300_000}).Draw(h.T, "for")
	}
	if h.l.Do(billing.KindGrantCredits, c).Outcome == engine.OutcomeDone {
		h.grants = append(h.grants, c.ID)
	}
}

// Stop freezes, or rarely archives, a pool.
func (h *creditHistory) Stop(*rapid.T) {
	if id := h.pool(); rapid.IntRange(0, 4).Draw(h.T, "archives") == 0 {
		h.l.Do(billing.KindArchivePool, &billing.ArchivePool{Env: 1, ID: id})
	} else {
		h.l.Do(billing.KindFreezePool, &billing.FreezePool{Env: 1, ID: id})
	}
}

func (h *creditHistory) Go(*rapid.T) {
	h.l.Do(billing.KindUnfreezePool, &billing.UnfreezePool{Env: 1, ID: h.pool()})
}

func (h *creditHistory) Reverse(*rapid.T) {
	if len(h.grants) > 0 {
		h.l.Do(billing.KindReverseTransaction, &billing.ReverseTransaction{
			Env: 1, ID: enginetest.ID(h.name("back")),
			Transaction: rapid.SampledFrom(h.grants).Draw(h.T, "grant"),
		})
	}
}

func (h *creditHistory) Wait(*rapid.T) {
	h.l.Stamp += rapid.SampledFrom([]int64{1, 500, 59_000, 600_000}).Draw(h.T, "later")
}

func (h *creditHistory) Restore(*rapid.T) {
	h.m = restored(h, enginetest.Snapshot(h, h.m))
	h.l.Machine = h.m
}

// check compares what was used with what paid for it: credits, a price, or nothing, which is
// marked.
func (h *creditHistory) check() {
	for at := h.m.NextDue(); at != 0 && at <= h.l.Stamp; at = h.m.NextDue() {
		h.l.DoPayload(engine.KindTick, nil)
	}
	require.NoError(h, billing.HeldAddsUp(h.m))
	used, marked := map[string]decimal.Decimal{}, map[string]decimal.Decimal{}
	for _, key := range h.holds {
		v, _ := h.m.Reservation(enginetest.Sandbox, enginetest.ID("reservation "+key), h.l.Stamp)
		for i := range v.Items {
			item := &v.Items[i]
			used[item.FeatureKey] = plus(used[item.FeatureKey], item.Settled)
			marked[item.FeatureKey] = plus(marked[item.FeatureKey], item.Overrun)
		}
	}
	burnt := decimal.Decimal{}
	for _, id := range h.pools {
		p, _ := h.m.Pool(enginetest.Sandbox, id)
		burnt = plus(burnt, p.TotalConsumed)
	}
	b, _ := h.m.Budget(enginetest.Sandbox, "all", h.l.Stamp)
	l := &b.Limits[0]
	videos := without(plus(used["videos"], h.events["videos"]), marked["videos"])
	images := plus(used["images"], h.events["images"])
	need := plus(times(videos, decimal.MustParse("0.5")), times(images, decimal.FromInt(3)))
	paid := plus(burnt, times(l.Used, decimal.FromInt(150))) // 3 credits for each 0.02
	rounded := decimal.MustParse("0.000001")
	require.True(h, without(need, paid).Less(rounded) && without(paid, need).Less(rounded),
		"%s are needed, %s paid: %s burnt, %s USD", need, paid, burnt, l.Used)

	over := l.Limit.Less(plus(l.Used, l.Held))
	require.True(h, h.over || !over || h.marked["images"].Less(marked["images"]),
		"%s used, %s held of %s, in no overrun", l.Used, l.Held, l.Limit)
	h.over, h.marked = over, marked
}

// TestHistoriesOfHeldCredits: no unit is free without an overrun that says so, money beyond a hard
// limit is in one, and what is held is paid whatever becomes of pools, unless it expires.
func TestHistoriesOfHeldCredits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newCreditHistory(t)
		t.Repeat(map[string]func(*rapid.T){
			"event": h.Event, "reserve": h.Reserve, "reserve ": h.Reserve, "settle": h.Settle,
			"settle ": h.Settle, "extend": h.Extend, "release": h.Release, "grant": h.Grant,
			"stop": h.Stop, "go": h.Go, "reverse": h.Reverse, "wait": h.Wait, "restore": h.Restore,
			"lose": h.Lose, "lose ": h.Lose, "": func(*rapid.T) { h.check() },
		})
	})
}
