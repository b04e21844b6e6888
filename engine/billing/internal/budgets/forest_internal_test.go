package budgets

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/decimal"
	"tollgate/engine/page"
	"tollgate/engine/wire"
	"tollgate/engine/zone"
)

const day = accounts.DayMS

// model is a forest kept naively: what limits have used and hold is added up from all events and
// holds that there have been.
type model struct {
	*rapid.T
	store *page.Store
	f     *Forest
	tx    accounts.Tx
	now   int64
	nodes map[string]*modelNode
	keys  []string
	event []*modelEvent
	holds []modelHold
	most  map[uint64]decimal.Exact // of hard limits, what they may have used and hold
}

type modelNode struct {
	parent           string
	limits           []modelLimit
	frozen, archived bool
}

type modelLimit struct {
	LimitDocument
	born uint64
}

type modelEvent struct {
	counted Counted
	in      map[uint64]decimal.Exact // by Born
}

type modelHold struct {
	item uint32
	node string
	c    Charge
	over int64
}

func newModel(t *rapid.T) *model {
	m := &model{
		T: t, now: 20_000 * day, nodes: map[string]*modelNode{}, most: map[uint64]decimal.Exact{},
	}
	m.store, m.f = page.NewStore(), new(Forest)
	m.f.Open(m.store)
	m.tx.Entry = new(accounts.Entry)
	return m
}

func (m *model) path(key string) (path []string) {
	for ; key != ""; key = m.nodes[key].parent {
		path = append(path, key)
	}
	return path
}

func (m *model) archived(key string) bool { return m.nodes[key].archived }

// first is the row of a node's first limit.
func (m *model) first(key string) uint32 {
	return m.f.nodes.Read(m.f.Named(1, []byte(key))).FirstLimit
}

func (m *model) one(what string) string {
	if len(m.keys) == 0 {
		m.Skip()
	}
	return rapid.SampledFrom(m.keys).Draw(m.T, what)
}

func featureNumber(key string) uint32 {
	if key == "" {
		return 0
	}
	return uint32(key[0]-'a') + 1
}

func (m *model) drawLimits() (limits []LimitDocument) {
	seen := map[limitKey]bool{}
	for range rapid.IntRange(0, 3).Draw(m.T, "limits") {
		d := LimitDocument{
			Of:      rapid.SampledFrom([]Measure{MeasureUnits, MeasurePrice, MeasureCost}).Draw(m.T, "of"),
			Feature: rapid.SampledFrom([]string{"", "a", "b"}).Draw(m.T, "feature"),
			Limit:   decimal.FromInt(rapid.Int64Range(0, 60).Draw(m.T, "limit")),
			Window: rapid.SampledFrom([]Window{
				WindowHour, WindowDay, WindowWeek, WindowLifetime,
			}).Draw(m.T, "window"),
			Soft: rapid.Bool().Draw(m.T, "soft"), Thresholds: []byte{50, 100},
		}
		if d.Of == MeasureUnits && d.Feature == "" {
			d.Feature = "a"
		}
		if d.Of == MeasurePrice {
			d.Currency = rapid.SampledFrom([]string{"", "EUR"}).Draw(m.T, "currency")
		}
		key := limitKey{Of: d.Of, Window: d.Window, Feature: featureNumber(d.Feature)}
		if d.Of == MeasurePrice {
			copy(key.Currency[:], d.currency())
		}
		if !seen[key] {
			seen[key] = true
			limits = append(limits, d)
		}
	}
	return limits
}

// Put makes or replaces a node.
func (m *model) Put(*rapid.T) {
	key := rapid.SampledFrom([]string{"n1", "n2", "n3", "n4", "n5", "n6"}).Draw(m.T, "key")
	c := &PutBudget{Env: 1, Key: key, Name: key, Limits: m.drawLimits()}
	old := m.nodes[key]
	if old == nil && len(m.keys) > 0 && rapid.Bool().Draw(m.T, "below") {
		c.Parent = m.one("parent")
	}
	_, o := m.f.Put(&m.tx, c, Known{Feature: featureNumber, Now: m.now})
	switch {
	case old != nil && old.archived:
		require.Equal(m, engine.OutcomeBudgetArchived, o)
		return
	case old == nil && slices.ContainsFunc(m.path(c.Parent), m.archived):
		require.Equal(m, engine.OutcomeBudgetArchived, o)
		return
	}
	require.Equal(m, engine.OutcomeDone, o)
	if old == nil {
		m.nodes[key] = &modelNode{parent: c.Parent}
		m.keys = append(m.keys, key)
	}
	was := m.nodes[key].limits
	m.nodes[key].limits = nil
	row := m.first(key)
	for _, d := range c.Limits {
		l := m.f.limits.Read(row)
		stays := slices.IndexFunc(was, func(x modelLimit) bool {
			return x.Of == d.Of && x.Feature == d.Feature && x.Window == d.Window &&
				x.currency() == d.currency()
		})
		if stays >= 0 {
			require.Equal(m, was[stays].born, l.Born, "it goes on counting")
		} else {
			require.Equal(m, decimal.Exact{}, l.Used, "it begins anew")
		}
		m.nodes[key].limits = append(m.nodes[key].limits, modelLimit{d, l.Born})
		m.most[l.Born] = maxExact(l.Max.Exact(), m.total(l, key))
		row = l.Next
	}
	require.Zero(m, row)
}

func maxExact(a, b decimal.Exact) decimal.Exact {
	if a.Cmp(b) < 0 {
		return b
	}
	return a
}

// total is what a limit has used in its present window, and what it holds.
func (m *model) total(l *Limit, key string) decimal.Exact {
	sum, _ := m.used(l, l.Start, l.End).Add(m.held(l, key))
	return sum
}

func (m *model) used(l *Limit, start, end int64) (sum decimal.Exact) {
	for _, e := range m.event {
		if e.counted.At >= start && e.counted.At < end {
			sum, _ = sum.Add(e.in[l.Born])
		}
	}
	return sum
}

func (m *model) held(l *Limit, key string) (sum decimal.Exact) { return m.heldAfter(l, key, 0) }

// heldAfter is what a limit holds of what is over after an instant.
func (m *model) heldAfter(l *Limit, key string, at int64) (sum decimal.Exact) {
	for _, h := range m.holds {
		amount, takes := l.takes(&h.c)
		if takes && h.over > at && slices.Contains(m.path(h.node), key) {
			sum, _ = sum.Add(amount)
		}
	}
	return sum
}

func (m *model) Move(*rapid.T) {
	key, parent := m.one("key"), ""
	if rapid.Bool().Draw(m.T, "under another") {
		parent = m.one("parent")
	}
	n := m.nodes[key]
	before, o := m.f.Move(&m.tx, &MoveBudget{Env: 1, Key: key, Parent: parent}, m.now)
	require.Equal(m, n.parent, before)
	switch {
	case n.parent == parent:
		require.Equal(m, engine.OutcomeDone, o)
	case slices.Contains(m.path(parent), key):
		require.Equal(m, engine.OutcomeBudgetConflict, o)
	case slices.ContainsFunc(append(m.path(key), m.path(parent)...), m.archived):
		require.Equal(m, engine.OutcomeBudgetArchived, o)
	case o == engine.OutcomeDone:
		n.parent = parent
	default:
		require.Equal(m, engine.OutcomeBudgetExceeded, o, "what is held does not fit there")
	}
}

func (m *model) Set(*rapid.T) {
	key := m.one("key")
	frozen, archived := rapid.Bool().Draw(m.T, "frozen"), rapid.IntRange(0, 9).Draw(m.T, "archive") == 0
	_, after, o := m.f.Set(&m.tx, 1, key, m.now, func(n *Node) {
		n.Frozen, n.Archived = frozen, n.Archived || archived
	})
	n := m.nodes[key]
	if n.archived {
		require.Equal(m, "ARCHIVED", after)
		return
	}
	require.Equal(m, engine.OutcomeDone, o)
	n.frozen, n.archived = frozen && !archived, archived
}

func (m *model) drawCharge() Charge {
	c := Charge{
		Feature: rapid.Uint32Range(0, 2).Draw(m.T, "feature"),
		Units:   decimal.FromInt(rapid.Int64Range(0, 20).Draw(m.T, "units")),
		Cost:    decimal.FromInt(rapid.Int64Range(0, 20).Draw(m.T, "cost")),
		Price:   decimal.FromInt(rapid.Int64Range(-3, 20).Draw(m.T, "price")).Exact(),
	}
	copy(c.Currency[:], rapid.SampledFrom([]string{"USD", "EUR"}).Draw(m.T, "currency"))
	return c
}

// plan says what Plan must.
func (m *model) plan(key string, c *Charge) engine.Outcome {
	for _, at := range m.path(key) {
		switch {
		case m.nodes[at].archived:
			return engine.OutcomeBudgetArchived
		case m.nodes[at].frozen:
			return engine.OutcomeBudgetFrozen
		}
		for row := m.first(at); row != 0; row = m.f.limits.Read(row).Next {
			l := *m.f.limits.Read(row)
			l.Start, l.End = l.Window.Around(m.now, nil)
			amount, takes := l.takes(c)
			total, _ := m.total(&l, at).Add(amount)
			if takes && !l.Soft && amount.Sign() > 0 && total.Cmp(l.Max.Exact()) > 0 {
				return engine.OutcomeBudgetExceeded
			}
		}
	}
	return engine.OutcomeDone
}

func (m *model) Event(*rapid.T) {
	key, c := m.one("node"), m.drawCharge()
	node := m.f.Named(1, []byte(key))
	refusal, o := m.f.Plan(node, []Charge{c}, m.now)
	require.Equal(m, m.plan(key, &c), o)
	refused, asked := m.f.Ask(node, &c, m.now)
	require.Equal(m, o, asked)
	if require.Equal(m, o == engine.OutcomeDone, refused == nil); refused != nil {
		require.Equal(m, refusal, *refused)
	}
	if o != engine.OutcomeDone {
		require.NotEmpty(m, refusal.Budget)
		if o != engine.OutcomeBudgetExceeded || rapid.IntRange(0, 4).Draw(m.T, "settle") > 0 {
			return
		}
	}
	e := &modelEvent{in: map[uint64]decimal.Exact{}}
	before := map[uint32]uint8{}
	for row, l := range m.f.limits.All() {
		before[row] = l.reached()
	}
	admitted := o == engine.OutcomeDone && rapid.Bool().Draw(m.T, "as it was asked")
	record, crossed := m.f.Charge(&m.tx, 1, node, &c, m.now, admitted, []byte("before"))
	record = record[len("before"):]
	require.NoError(m, wire.Decode(record, &e.counted))
	require.Equal(m, wire.Encode(nil, &e.counted), record)
	require.Equal(m, c, e.counted.Charge())
	m.event = append(m.event, e)
	for _, at := range m.path(key) {
		for row := m.first(at); row != 0; row = m.f.limits.Read(row).Next {
			l := m.f.limits.Read(row)
			if amount, takes := l.takes(&c); takes {
				e.in[l.Born] = amount
				m.most[l.Born] = maxExact(m.most[l.Born], m.total(l, at))
				told := slices.ContainsFunc(crossed, func(x Crossing) bool { return x.Row == row })
				// What a lower limit has made of usage is not told.
				require.True(m, l.reached() <= l.Told || l.reached() == before[row])
				require.True(m, !told || l.Told > 0)
			}
		}
	}
}

// Correct voids an event, or counts it otherwise.
func (m *model) Correct(*rapid.T) {
	if len(m.event) == 0 {
		m.Skip()
	}
	e := rapid.SampledFrom(m.event).Draw(m.T, "event")
	change := e.counted.Charge().Neg()
	if more := m.drawCharge(); rapid.Bool().Draw(m.T, "amend") {
		change.Units, change.Cost, change.Price = more.Units, more.Cost, more.Price
	}
	events := []Corrected{{Counted: &e.counted, Change: &change}}
	switch r, o := m.f.PlanCorrections(events, m.now); o {
	case engine.OutcomeDone:
	case engine.OutcomeBudgetFrozen:
		require.True(m, m.nodes[r.Budget].frozen)
		return
	case engine.OutcomeBudgetArchived:
		require.True(m, m.nodes[r.Budget].archived)
		return
	default:
		require.Equal(m, engine.OutcomeBudgetExceeded, o)
		return
	}
	kept := map[uint64]bool{}
	m.f.each(&e.counted, func(_ uint32, l *Limit, _ uint32) { kept[l.Born] = true })
	for row, l := range m.f.limits.All() {
		if amount, takes := l.takes(&change); takes && kept[l.Born] {
			e.in[l.Born], _ = e.in[l.Born].Add(amount)
		}
		_ = row
	}
	m.f.Correct(&m.tx, 1, &e.counted, &change, m.now)
	for row, l := range m.f.limits.All() {
		if l.Born != 0 {
			m.most[l.Born] = maxExact(m.most[l.Born], m.total(l, m.f.Key(l.Node)))
		}
		_ = row
	}
}

func (m *model) Hold(*rapid.T) {
	key, c := m.one("node"), m.drawCharge()
	c.Price = maxExact(c.Price, decimal.Exact{})
	node := m.f.Named(1, []byte(key))
	if _, o := m.f.Plan(node, []Charge{c}, m.now); o != engine.OutcomeDone {
		require.Equal(m, m.plan(key, &c), o)
		return
	}
	item := uint32(len(m.holds)) + 1
	over := m.drawOver()
	m.f.Hold(&m.tx, item, node, &c, over)
	m.holds = append(m.holds, modelHold{item, key, c, over})
}

// drawOver is when a hold expires into nothing, if it does.
func (m *model) drawOver() int64 {
	after := rapid.SampledFrom([]int64{1, 1, day / 48, day, rows.Never}).Draw(m.T, "over")
	if after == rows.Never {
		return after
	}
	return m.now + after
}

func (m *model) Extend(*rapid.T) {
	if len(m.holds) == 0 {
		m.Skip()
	}
	h := &m.holds[rapid.IntRange(0, len(m.holds)-1).Draw(m.T, "hold")]
	h.over = m.drawOver()
	Expires(m.f, h.item, h.over)
}

// Glance is a query that another command interrupts.
func (m *model) Glance(*rapid.T) {
	if e := m.f.in(1); e != nil {
		e.step(m.f, m.drawInstant(), rapid.IntRange(1, 12).Draw(m.T, "work"))
	}
}

// Look is a query: what is over holds nothing.
func (m *model) Look(*rapid.T) {
	at := m.drawInstant()
	Current(m.f, 1, at).RUnlock()
	for _, key := range m.keys {
		for row := m.first(key); row != 0; row = m.f.limits.Read(row).Next {
			require.Equal(m, m.heldAfter(m.f.limits.Read(row), key, at), unexpired(m.f, row))
		}
	}
}

// drawInstant is that of a query: now, or where no hold expires within backMS of it, one by which
// queries before were ahead.
func (m *model) drawInstant() int64 {
	at := m.now - rapid.SampledFrom([]int64{0, 0, day / 48, day}).Draw(m.T, "ahead")
	for _, h := range m.holds {
		if at < h.over && h.over <= at+backMS {
			return m.now
		}
	}
	return at
}

func (m *model) Release(*rapid.T) {
	if len(m.holds) == 0 {
		m.Skip()
	}
	h := &m.holds[rapid.IntRange(0, len(m.holds)-1).Draw(m.T, "hold")]
	m.f.Release(&m.tx, h.item)
	h.c = Charge{}
}

func (m *model) Wait(*rapid.T) {
	m.now += rapid.SampledFrom([]int64{1, day / 48, day, 9 * day}).Draw(m.T, "wait")
}

// Restore goes on with what a snapshot has, as a node that was restored does.
func (m *model) Restore(*rapid.T) {
	var snapshot bytes.Buffer
	_, err := m.store.Begin().WriteTo(&snapshot)
	require.NoError(m, err)
	lists := m.f.Lists
	m.store, m.f = page.NewStore(), new(Forest)
	m.f.Open(m.store)
	require.NoError(m, m.store.Restore(&snapshot))
	m.f.Lists = lists
	m.checkState()
	m.f.Reindex(nil)
	for _, h := range m.holds {
		Expires(m.f, h.item, h.over)
	}
}

// checkState is what a restore checks.
func (m *model) checkState() {
	require.NoError(m, m.f.Check(&Outside{
		Customer:    func(uint32) (uint32, bool) { return 1, true },
		Environment: func(env uint32) bool { return env == 1 },
		Feature:     func(_, number uint32) bool { return number <= 2 },
	}))
}

// check compares everything.
func (m *model) check() {
	m.checkState()
	for _, key := range m.keys {
		require.Len(m, m.path(key), level(m.f, m.f.Named(1, []byte(key))))
		m.checkShortcuts(key)
		for row := m.first(key); row != 0; row = m.f.limits.Read(row).Next {
			l := m.f.limits.Read(row)
			require.Equal(m, m.used(l, l.Start, l.End), l.Used, "%s %s", key, l.Window)
			require.Equal(m, m.held(l, key), l.Held)
			for at := l.FirstClosed; at != 0; at = m.f.windows.Read(at).Next {
				w := m.f.windows.Read(at)
				require.Equal(m, m.used(l, w.Start, w.End), w.Used)
			}
			if !l.Soft && m.now < l.End {
				total, _ := l.Used.Add(l.Held)
				require.LessOrEqual(m, total.Cmp(m.most[l.Born]), 0, "used + held is within the limit")
			}
		}
	}
}

// checkShortcuts compares what leads on from a node with its limits and those above it.
func (m *model) checkShortcuts(key string) {
	row := m.f.first.At(m.f.Named(1, []byte(key)))
	for _, at := range m.path(key) {
		refuses := m.nodes[at].archived || m.nodes[at].frozen
		if refuses && m.first(at) == 0 {
			require.Equal(m, uint32(shut), row)
			return
		}
		for limit := m.first(at); limit != 0; limit = m.f.limits.Read(limit).Next {
			require.Equal(m, limit, row)
			l := *m.f.limits.Read(row)
			row = l.above
			room, code := l.room, l.code
			l.shorten(limit)
			require.LessOrEqual(m, room, l.room, "what is known is no more than what there is")
			if refuses {
				l.code, refuses = refusing, false
			}
			require.Equal(m, code, l.code)
			require.Equal(m, m.f.limits.Read(limit).text, l.text)
		}
	}
	require.Zero(m, row)
}

func TestForestIsWhatEventsAndHoldsAddUpTo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		t.Repeat(map[string]func(*rapid.T){
			"put": m.Put, "move": m.Move, "set": m.Set, "event": m.Event, "correct": m.Correct,
			"hold": m.Hold, "release": m.Release, "extend": m.Extend, "wait": m.Wait,
			"glance": m.Glance, "look": m.Look, "restore": m.Restore,
			"": func(*rapid.T) { m.check() },
		})
	})
}

func put(t *testing.T, f *Forest, c *PutBudget, customer uint32) engine.Outcome {
	t.Helper()
	tx := accounts.Tx{Entry: new(accounts.Entry)}
	if c.Name == "" {
		c.Name = c.Key
	}
	_, o := f.Put(&tx, c, Known{Customer: customer, Feature: featureNumber, Now: day})
	return o
}

// TestABudgetIsReplacedAsExpected: none, or the one that its sender has seen.
func TestABudgetIsReplacedAsExpected(t *testing.T) {
	var f Forest
	f.Open(page.NewStore())
	for _, c := range []struct {
		expects int64
		want    engine.Outcome
	}{
		{day, engine.OutcomeBudgetUnknown},
		{ExpectsNone, engine.OutcomeDone},
		{ExpectsNone, engine.OutcomeBudgetChanged},
		{day - 1, engine.OutcomeBudgetChanged},
		{day, engine.OutcomeDone},
		{day, engine.OutcomeBudgetChanged}, // all of this happens within one millisecond
		{day + 1, engine.OutcomeDone},
		{0, engine.OutcomeDone},
	} {
		require.Equal(t, c.want, put(t, &f, &PutBudget{Env: 1, Key: "a", Expects: c.expects}, 0))
	}
}

// TestNoTwoChangesOfABudgetAreAlike: each has an instant of its own, also within a millisecond.
func TestNoTwoChangesOfABudgetAreAlike(t *testing.T) {
	var f Forest
	f.Open(page.NewStore())
	tx := accounts.Tx{Entry: new(accounts.Entry)}
	require.Equal(t, engine.OutcomeDone, put(t, &f, &PutBudget{Env: 1, Key: "top"}, 0))
	require.Equal(t, engine.OutcomeDone, put(t, &f, &PutBudget{Env: 1, Key: "a"}, 0))
	row := f.Named(1, []byte("a"))
	seen := f.nodes.Read(row).ModifiedAt
	require.EqualValues(t, day, seen)
	for _, change := range []func() engine.Outcome{
		func() engine.Outcome { return put(t, &f, &PutBudget{Env: 1, Key: "a", Name: "A"}, 0) },
		func() (o engine.Outcome) {
			_, o = f.Move(&tx, &MoveBudget{Env: 1, Key: "a", Parent: "top"}, day)
			return o
		},
		func() (o engine.Outcome) {
			_, _, o = f.Set(&tx, 1, "a", day, func(n *Node) { n.Frozen = true })
			return o
		},
	} {
		require.Equal(t, engine.OutcomeDone, change())
		require.Greater(t, f.nodes.Read(row).ModifiedAt, seen)
		seen = f.nodes.Read(row).ModifiedAt
	}
	_, _, o := f.Set(&tx, 1, "a", day, func(n *Node) { n.Frozen = true })
	require.Equal(t, engine.OutcomeDone, o)
	require.Equal(t, seen, f.nodes.Read(row).ModifiedAt, "nothing has changed")
}

func TestBoundsOfTrees(t *testing.T) {
	var f Forest
	f.Open(page.NewStore())
	tx := accounts.Tx{Entry: new(accounts.Entry)}
	parent := ""
	for level := range MaxLevels {
		key := fmt.Sprint("level ", level+1)
		require.Equal(t, engine.OutcomeDone, put(t, &f, &PutBudget{Env: 2, Key: key, Parent: parent}, 0))
		parent = key
	}
	require.Equal(t, engine.OutcomeBudgetLimit, put(t, &f, &PutBudget{Env: 2, Key: "9", Parent: parent}, 0))
	require.Equal(t, engine.OutcomeDone, put(t, &f, &PutBudget{Env: 2, Key: "top"}, 0))
	_, o := f.Move(&tx, &MoveBudget{Env: 2, Key: "level 1", Parent: "top"}, day)
	require.Equal(t, engine.OutcomeBudgetLimit, o)
	_, o = f.Move(&tx, &MoveBudget{Env: 2, Key: "level 2", Parent: "top"}, day)
	require.Equal(t, engine.OutcomeDone, o)
	require.Equal(t, engine.OutcomeBudgetUnknown,
		put(t, &f, &PutBudget{Env: 1, Key: "x", Parent: "top"}, 0), "another environment's")
	require.Equal(t, engine.OutcomeBudgetConflict,
		put(t, &f, &PutBudget{Env: 2, Key: "level 2", Parent: "level 1"}, 0))
	require.Equal(t, engine.OutcomeDone, put(t, &f, &PutBudget{Env: 2, Key: "level 2"}, 7))
	require.Equal(t, engine.OutcomeBudgetConflict, put(t, &f, &PutBudget{Env: 2, Key: "top"}, 7))

	unknown := zone.Zone{Name: "Moon/Tycho"}
	limit := LimitDocument{
		Of: MeasureCost, Limit: decimal.FromInt(1), Window: WindowDay, TimeZone: "Moon/Tycho",
	}
	for _, bad := range []PutBudget{
		{Key: ""},
		{Key: "a\n"},
		{Key: "a", Limits: make([]LimitDocument, MaxLimits+1)},
		{Key: "a", Limits: []LimitDocument{{}}},
		{Key: "a", Limits: []LimitDocument{limit}},
		{Key: "a", Limits: []LimitDocument{limit, limit}, Zones: []zone.Zone{unknown}},
		{Key: "a", Limits: []LimitDocument{{Of: MeasureUnits, Window: WindowDay}}},
		{Key: "a", Limits: []LimitDocument{{Of: MeasureCost, Window: WindowDay, Currency: "EUR"}}},
		{Key: "a", Limits: []LimitDocument{{Of: MeasurePrice, Window: WindowDay, Currency: "XXX"}}},
		{Key: "a", Limits: []LimitDocument{{Of: MeasurePrice, Window: WindowDay, Thresholds: []byte{50, 50}}}},
		{Key: "a", Limits: []LimitDocument{{Of: MeasurePrice, Window: WindowDay, Thresholds: []byte{101}}}},
		{Key: "a", Limits: []LimitDocument{{Of: MeasurePrice, Window: WindowDay, Limit: decimal.FromInt(-1)}}},
	} {
		bad.Env = 2
		require.Equal(t, engine.OutcomeBudgetInvalid, put(t, &f, &bad, 0), "%+v", bad)
	}
	require.Equal(t, engine.OutcomeDone, put(t, &f, &PutBudget{
		Env: 2, Key: "a", Limits: []LimitDocument{limit}, Zones: []zone.Zone{unknown},
	}, 0))
}

func TestWhoseBudgetApplies(t *testing.T) {
	var f Forest
	f.Open(page.NewStore())
	for _, c := range []struct {
		key, parent string
		customer    uint32
	}{{"org", "", 0}, {"acme", "org", 1}, {"acme:search", "acme", 0}, {"globex", "org", 2}} {
		require.Equal(t, engine.OutcomeDone,
			put(t, &f, &PutBudget{Env: 1, Key: c.key, Parent: c.parent}, c.customer))
	}
	for _, c := range []struct {
		customer     uint32
		named, bound string
		want         string
	}{
		{1, "", "", "acme"},
		{1, "acme", "", "acme"},
		{1, "acme:search", "", "acme:search"},
		{1, "org", "", "refused"},
		{1, "globex", "", "refused"},
		{1, "acme:serach", "", "refused"},
		{3, "", "", ""},
		{3, "acme", "", "refused"},
		{1, "", "acme:search", "acme:search"},
		{1, "acme", "acme:search", "refused"},
		{1, "", "org", "acme"},
		{3, "", "org", "org"},
		{3, "globex", "org", "globex"},
		{2, "", "acme", "refused"},
	} {
		node, ok := f.Choose(&For{
			Env: 1, Customer: c.customer, Named: []byte(c.named), KeyNode: f.Named(1, []byte(c.bound)),
		})
		got := "refused"
		if ok {
			if got = ""; node != 0 {
				got = f.Key(node)
			}
		}
		require.Equal(t, c.want, got, "%+v", c)
	}
	_, ok := f.Choose(&For{Env: 2, Customer: 1, Named: []byte("acme")})
	require.False(t, ok, "another environment's")
}

func TestWindowsOfThePastAreKept(t *testing.T) {
	var f Forest
	f.Open(page.NewStore())
	tx := accounts.Tx{Entry: new(accounts.Entry)}
	require.Equal(t, engine.OutcomeDone, put(t, &f, &PutBudget{Env: 1, Key: "a", Limits: []LimitDocument{
		{Of: MeasureCost, Limit: decimal.FromInt(1000), Window: WindowDay},
	}}, 0))
	node := f.Named(1, []byte("a"))
	events := make([]Counted, 30)
	for i := range events {
		c := Charge{Cost: decimal.FromInt(int64(i) + 1)}
		charge(&f, &tx, node, &c, int64(i+10)*day, &events[i])
	}
	l := f.limits.Read(f.nodes.Read(node).FirstLimit)
	require.EqualValues(t, MaxWindows, l.Count)
	require.EqualValues(t, MaxWindows, f.windows.Len(), "rows are used again")
	require.Equal(t, decimal.FromInt(30).Exact(), l.Used)
	for i := range events {
		back := events[i].Charge().Neg()
		f.Correct(&tx, 1, &events[i], &back, 0)
	}
	require.Equal(t, decimal.Exact{}, l.Used)
	for _, w := range f.windows.All() {
		require.Equal(t, decimal.Exact{}, w.Used)
	}
}

// TestMovingCountsWhatIsHeldOnce: the nodes above both parents hold it already.
func TestMovingCountsWhatIsHeldOnce(t *testing.T) {
	var f Forest
	f.Open(page.NewStore())
	tx := accounts.Tx{Entry: new(accounts.Entry)}
	most := func(limit int64) []LimitDocument {
		return []LimitDocument{{Of: MeasureCost, Limit: decimal.FromInt(limit), Window: WindowLifetime}}
	}
	for _, c := range []*PutBudget{
		{Key: "org", Limits: most(10)},
		{Key: "a", Parent: "org"},
		{Key: "b", Parent: "org", Limits: most(8)},
		{Key: "c", Parent: "org", Limits: most(7)},
		{Key: "a:x", Parent: "a"},
	} {
		c.Env = 1
		require.Equal(t, engine.OutcomeDone, put(t, &f, c, 0))
	}
	held := Charge{Cost: decimal.FromInt(8)}
	f.Hold(&tx, 1, f.Named(1, []byte("a:x")), &held, rows.Never)
	move := func(parent string) engine.Outcome {
		_, o := f.Move(&tx, &MoveBudget{Env: 1, Key: "a:x", Parent: parent}, day)
		return o
	}
	require.Equal(t, engine.OutcomeBudgetExceeded, move("c"))
	for _, parent := range []string{"b", "org", "", "b"} {
		require.Equal(t, engine.OutcomeDone, move(parent), parent)
	}
	org := f.limits.Read(f.nodes.Read(f.Named(1, []byte("org"))).FirstLimit)
	require.Equal(t, held.Cost.Exact(), org.Held)
}

// TestAnArchivedBudgetLetsItsCustomerGo: as one below an archived one does.
func TestAnArchivedBudgetLetsItsCustomerGo(t *testing.T) {
	var f Forest
	f.Open(page.NewStore())
	tx := accounts.Tx{Entry: new(accounts.Entry)}
	for i, parent := range []string{"", "org"} {
		customer := uint32(i) + 7
		if parent != "" {
			require.Equal(t, engine.OutcomeDone, put(t, &f, &PutBudget{Env: 1, Key: parent}, 0))
		}
		old, fresh := fmt.Sprint("old ", i), fmt.Sprint("new ", i)
		owns := func(key, parent string) engine.Outcome {
			return put(t, &f, &PutBudget{Env: 1, Key: key, Parent: parent}, customer)
		}
		require.Equal(t, engine.OutcomeDone, owns(old, parent))
		require.Equal(t, engine.OutcomeBudgetConflict, owns(fresh, ""))
		archived := old
		if parent != "" {
			archived = parent
		}
		_, _, o := f.Set(&tx, 1, archived, day, func(n *Node) { n.Archived = true })
		require.Equal(t, engine.OutcomeDone, o)
		require.Equal(t, engine.OutcomeDone, owns(fresh, ""))
		require.Equal(t, fresh, f.Key(f.Own(customer)))
		require.Zero(t, f.nodes.Read(f.Named(1, []byte(old))).Customer)
	}
}

// TestViewsSayWhatIsClosedAbove: a node says which one above it takes nothing, and the fullest
// limits of all nodes are found, but those of nodes that are archived.
func TestViewsSayWhatIsClosedAbove(t *testing.T) {
	var f Forest
	f.Open(page.NewStore())
	tx := accounts.Tx{Entry: new(accounts.Entry)}
	parent := ""
	for i, limit := range []int64{100, 0, 20, 10} {
		key := string(rune('a' + i))
		require.Equal(t, engine.OutcomeDone, put(t, &f, &PutBudget{
			Env: 1, Key: key, Parent: parent, Limits: []LimitDocument{
				{Of: MeasureCost, Limit: decimal.FromInt(limit), Window: WindowDay, Soft: true},
			},
		}, 0))
		parent = key
	}
	closed := func(key string) string {
		v, _ := f.View(1, []byte(key), day, Names{})
		if v.ClosedBy == nil {
			return ""
		}
		return v.ClosedBy.Budget + " " + v.ClosedBy.Status
	}
	require.Empty(t, closed("d"))
	var counted Counted
	charge(&f, &tx, f.Named(1, []byte("d")), &Charge{Cost: decimal.FromInt(17)}, day, &counted)
	runs := func(maximum int) string {
		keys, count := f.RunningOut(1, 80, maximum, day)
		return fmt.Sprint(keys, count)
	}
	require.Equal(t, "[d b c] 3", runs(9))
	require.Equal(t, "[d b] 3", runs(2))
	set := func(key string, set func(*Node)) { f.Set(&tx, 1, key, day, set) }
	set("a", func(n *Node) { n.Frozen = true })
	require.Equal(t, "a FROZEN", closed("d"))
	require.Empty(t, closed("a"))
	require.Equal(t, "[d b c] 3", runs(9))
	set("c", func(n *Node) { n.Archived = true })
	require.Equal(t, "c ARCHIVED", closed("d"))
	require.Equal(t, "a FROZEN", closed("c"))
	require.Equal(t, "[b] 1", runs(9))
	keys, count := f.RunningOut(2, 80, 9, day)
	require.Equal(t, "[] 0", fmt.Sprint(keys, count))
}

// TestAHigherLimitTellsItsThresholdsAgain: those that are not reached any more. What it tells is
// what a charge reaches while somebody listens.
func TestAHigherLimitTellsItsThresholdsAgain(t *testing.T) {
	var f Forest
	f.Open(page.NewStore())
	tx := accounts.Tx{Entry: new(accounts.Entry)}
	limit := func(maximum int64) *PutBudget {
		return &PutBudget{Env: 1, Key: "a", Limits: []LimitDocument{{
			Of: MeasureCost, Limit: decimal.FromInt(maximum), Window: WindowLifetime,
			Thresholds: []byte{50, 100},
		}}}
	}
	charge := func(cost int64) (told []uint8) {
		c := Charge{Cost: decimal.FromInt(cost)}
		for _, x := range charge(&f, &tx, f.Named(1, []byte("a")), &c, day, new(Counted)) {
			told = append(told, x.Percent)
		}
		return told
	}
	require.Equal(t, engine.OutcomeDone, put(t, &f, limit(100), 0))
	require.Equal(t, []uint8{50}, charge(60))
	require.Equal(t, engine.OutcomeDone, put(t, &f, limit(200), 0))
	require.Empty(t, charge(10))
	require.Equal(t, []uint8{50}, charge(30))
	require.Equal(t, engine.OutcomeDone, put(t, &f, limit(100), 0))
	require.Empty(t, charge(0), "what a PUT makes of it is not told")
	require.Empty(t, charge(1))
	require.Equal(t, engine.OutcomeDone, put(t, &f, limit(400), 0))
	f.Wanted = func(uint32) bool { return false }
	require.Empty(t, charge(99), "no endpoint listens")
	f.Wanted = nil
	require.Empty(t, charge(10), "it was reached before")
	require.Equal(t, []uint8{100}, charge(200))
}

// TestSumsOfWhatIsHeldStayInRange: a node without limits takes no hold beyond it.
func TestSumsOfWhatIsHeldStayInRange(t *testing.T) {
	var f Forest
	f.Open(page.NewStore())
	tx := accounts.Tx{Entry: new(accounts.Entry)}
	require.Equal(t, engine.OutcomeDone, put(t, &f, &PutBudget{Env: 1, Key: "a"}, 0))
	node := f.Named(1, []byte("a"))
	most, one := Charge{Cost: decimal.Largest()}, Charge{Cost: decimal.FromInt(1)}
	require.False(t, f.Holdable(node, []Charge{most, one}))
	require.True(t, f.Holdable(node, []Charge{most}))
	f.Hold(&tx, 1, node, &most, rows.Never)
	require.False(t, f.Holdable(node, []Charge{one}))
	require.True(t, f.Holdable(node, []Charge{most.Neg(), one}))
	require.True(t, f.Holdable(node, []Charge{{Feature: 2, Cost: one.Cost}}))
}

// TestRowsOfItemsAreTaken: one for each item that holds something, whatever its own row.
func TestRowsOfItemsAreTaken(t *testing.T) {
	var f Forest
	f.Open(page.NewStore())
	tx := accounts.Tx{Entry: new(accounts.Entry)}
	require.Equal(t, engine.OutcomeDone, put(t, &f, &PutBudget{Env: 1, Key: "a"}, 0))
	node := f.Named(1, []byte("a"))
	for n := range uint32(3) {
		c := Charge{Cost: decimal.FromInt(int64(n) + 1)}
		f.Hold(&tx, 5_000_000+n, node, &c, rows.Never)
		at, got := f.HeldBy(5_000_000 + n)
		require.Equal(t, node, at)
		require.Equal(t, c, got)
		if n > 0 {
			f.Release(&tx, 5_000_000+n)
		}
	}
	require.EqualValues(t, 2, f.items.Len())
	at, _ := f.HeldBy(5_000_001)
	require.Zero(t, at)
	require.NoError(t, f.checkHeld(nil))
	f.items.Write(2).Of = 2
	require.Error(t, f.checkHeld(nil), "a circle of free rows")
	f.items.Write(2).Of, f.items.Write(2).Node = 5_000_000, node
	require.Error(t, f.checkHeld(nil), "an item that holds twice")
}

// TestAForcedCorrectionIsAnOverrun: where it goes beyond a hard limit, of a closed window, too.
func TestAForcedCorrectionIsAnOverrun(t *testing.T) {
	var f Forest
	f.Open(page.NewStore())
	tx := accounts.Tx{Entry: new(accounts.Entry)}
	require.Equal(t, engine.OutcomeDone, put(t, &f, &PutBudget{Env: 1, Key: "a", Limits: []LimitDocument{
		{Of: MeasureCost, Limit: decimal.FromInt(10), Window: WindowDay},
	}}, 0))
	node := f.Named(1, []byte("a"))
	c, more := Charge{Cost: decimal.FromInt(8)}, Charge{Cost: decimal.FromInt(3)}
	var first, second Counted
	charge(&f, &tx, node, &c, day, &first)
	charge(&f, &tx, node, &c, 2*day, &second)
	l := f.limits.Read(f.nodes.Read(node).FirstLimit)
	less := more.Neg()
	for _, event := range []*Counted{&first, &second} {
		f.Correct(&tx, 1, event, &less, 0)
	}
	require.False(t, l.Overrun || f.windows.Read(l.FirstClosed).Overrun)
	for _, event := range []*Counted{&first, &second} {
		f.Correct(&tx, 1, event, &more, 0)
		f.Correct(&tx, 1, event, &more, 0)
	}
	require.True(t, l.Overrun)
	require.True(t, f.windows.Read(l.FirstClosed).Overrun)
}

// TestWhatIsHeldBelowIsOneSum: however many nodes hold it, a move touches a limit once for each
// feature and currency.
func TestWhatIsHeldBelowIsOneSum(t *testing.T) {
	var f Forest
	f.Open(page.NewStore())
	tx := accounts.Tx{Entry: new(accounts.Entry)}
	require.Equal(t, engine.OutcomeDone, put(t, &f, &PutBudget{Env: 1, Key: "top"}, 0))
	hold := func(n uint32, c Charge) {
		key := fmt.Sprint(n)
		require.Equal(t, engine.OutcomeDone, put(t, &f, &PutBudget{Env: 1, Key: key, Parent: "top"}, 0))
		f.Hold(&tx, n, f.Named(1, []byte(key)), &c, rows.Never)
	}
	for n := range uint32(50) {
		hold(n+1, Charge{Feature: 1 + n%2, Units: decimal.FromInt(2)})
	}
	top := f.Named(1, []byte("top"))
	require.Equal(t, []Charge{
		{Feature: 1, Units: decimal.FromInt(50)}, {Feature: 2, Units: decimal.FromInt(50)},
	}, f.tallied(top))
	hold(51, Charge{Feature: 1, Units: decimal.Largest()})
	require.Len(t, f.tallied(top), 3, "a sum out of range is two")
}

// TestAWindowBeginsNoEarlierThanTheOneBeforeEnds: by other changes of its zone that a PUT brings,
// the day of now may have begun before that.
func TestAWindowBeginsNoEarlierThanTheOneBeforeEnds(t *testing.T) {
	var f Forest
	f.Open(page.NewStore())
	l := Limit{limitKey: limitKey{Window: WindowDay}, Start: 4 * day, End: 5*day + hourMS}
	start, end := f.bounds(&l, 5*day+2*hourMS)
	require.Equal(t, []int64{l.End, 6 * day}, []int64{start, end})
}

// charge counts a charge that was not asked for.
func charge(
	f *Forest, tx *accounts.Tx, node uint32, c *Charge, now int64, k *Counted,
) []Crossing {
	record, crossed := f.Charge(tx, 1, node, c, now, false, nil)
	if err := wire.Decode(record, k); err != nil {
		panic(err)
	}
	return crossed
}
