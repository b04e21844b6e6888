package billing

import (
	"fmt"
	"math"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/decimal"
	"tollgate/engine/journal"
	"tollgate/engine/wire"
)

// usageEntry is the payload of a KindUsage record: the RecordUsage itself and its effects.
//
//schema:declared
//schema:split head tail 33
//schema:straight
type usageEntry struct {
	// Subscription, Feature and Period tell where the event counted: the subscription's row, the
	// feature's number, the period's number. They are 0 if it is unpriced (Period 0 is also the
	// first period).
	Subscription uint32          `wire:"1"`
	Feature      uint32          `wire:"2"`
	Period       uint32          `wire:"3"`
	Outcome      engine.Outcome  `wire:"4"`
	RecordedAt   int64           `wire:"5"` // on the environment's clock
	HasCost      bool            `wire:"6"`
	Cost         decimal.Decimal `wire:"7"`
	Record       []byte          `wire:"8"` // RecordUsage
	// Draws are the credits that the event burnt (a DrawList), Covered the units that they paid.
	Draws   []byte          `wire:"33"`
	Covered decimal.Decimal `wire:"34"`
	// Budget is what it counted in limits of budgets (a budgets.Counted); empty: in none.
	Budget []byte `wire:"35"`
	// Span is the span of the subscription that counted it; Ahead reports whether it counted for
	// Period, the period after that span.
	Span  uint32 `wire:"9"`
	Ahead bool   `wire:"10"`
	// Reservation is what the event settled, Overrun the units beyond it that did not fit.
	Reservation [16]byte        `wire:"20"`
	Overrun     decimal.Decimal `wire:"21"`
}

// IndexRecord is the journal.Indexer of the billing journal.
func IndexRecord(r journal.Record, add func(owner uint32, at int64, ordinal uint32)) {
	switch r.Kind {
	case journal.KindAudit:
		block, err := openAudits(r.Payload)
		if err != nil {
			return // Apply refuses what does not decode, and records of another version are not ours
		}
		for ordinal := uint32(0); block.next(); ordinal++ {
			if block.check.CustomerRow != 0 {
				add(block.check.CustomerRow, block.check.At, ordinal)
			}
		}
	case journal.KindUsage, journal.KindVoid, journal.KindAmend:
		add(r.Owner, r.At, 0)
	case journal.KindChange:
		var changes accounts.ChangeRecords
		if err := wire.Decode(r.Payload, &changes); err != nil {
			return
		}
		for i := range changes.Changes {
			add(0, r.At, uint32(i))
		}
	case journal.KindBilling:
		var facts credits.FactRecord
		if err := wire.Decode(r.Payload, &facts); err != nil {
			return
		}
		for i := range facts.Facts {
			add(facts.Facts[i].Customer, facts.Facts[i].At, uint32(i))
		}
	}
}

// EventQuery asks for a page of a customer's events.
type EventQuery struct {
	Customer uint32 // row
	// From and To bound occurredAt, From ≤ occurredAt < To, in milliseconds.
	From, To int64
	// Kinds selects kinds; empty selects all.
	Kinds []EventKind
	// Feature selects events of a feature, by its key; empty selects all. Denied selects denied
	// checks, Unbilled usage events that nothing bills.
	Feature          string
	Denied, Unbilled bool
	// After, if its Index is not 0, is the end of the page before.
	After journal.Cursor
	// Until, if its Index is not 0, is the Newest of an earlier page of NewestEvents: only what was
	// recorded behind it is listed.
	Until journal.Cursor
	// Descending lists the newest events first.
	Descending bool
	Limit      int // 1–1000
}

const (
	// maxEventPage bounds a page of events.
	maxEventPage = 1000
	// maxEventLook bounds how many events are looked at for a page that selects some.
	maxEventLook = 10_000
)

// selective reports whether it wants only some of the events of its kinds.
func (q *EventQuery) selective() bool { return q.Feature != "" || q.Denied || q.Unbilled }

// selects reports whether it wants an event.
func (q *EventQuery) selects(e *EventView) bool {
	return (q.Feature == "" || q.Feature == e.FeatureKey) &&
		(!q.Denied || e.Kind == EventAudit && e.Reason != ReasonAllowed) &&
		(!q.Unbilled || e.Unbilled)
}

// Events lists a page of a customer's events, by when they occurred. next begins the following
// page; its Index is 0 at the end. A page that selects events looks at 10,000 at most, so it may be
// short and have a next one. Any goroutine may call it.
func (m *journalReader) Events(
	src journal.Source, q EventQuery,
) (events []EventView, next journal.Cursor, err error) {
	s := m.state.Load()
	limit := min(max(q.Limit, 1), maxEventPage)
	jq := journal.Query{
		Owner: q.Customer, From: q.From, To: q.To,
		After: q.After, HasAfter: q.After.Index != 0, Descending: q.Descending, Limit: limit + 1,
	}
	if q.selective() {
		jq.Limit = maxEventPage + 1
	}
	jq.Kinds = q.kinds()
	events = make([]EventView, 0, limit)
	for looked := 0; ; {
		items, err := src.List(jq)
		if err != nil {
			return nil, next, fmt.Errorf("billing: list events of customer %d: %w", q.Customer, err)
		}
		more := len(items) == jq.Limit
		if more {
			items = items[:jq.Limit-1]
		}
		for i, item := range items {
			event, err := s.event(item)
			if err != nil {
				return nil, journal.Cursor{}, err
			}
			if !q.selects(&event) {
				continue
			}
			if events = append(events, event); len(events) == limit && (more || i < len(items)-1) {
				return events, item.Cursor(), s.voided(src, q.Customer, events)
			}
		}
		if looked += len(items); !more {
			return events, journal.Cursor{}, s.voided(src, q.Customer, events)
		}
		jq.After, jq.HasAfter = items[len(items)-1].Cursor(), true
		if looked >= maxEventLook {
			return events, jq.After, s.voided(src, q.Customer, events)
		}
	}
}

// maxEventChecks bounds how many records and checks of all environments a page of an environment's
// events passes over.
const maxEventChecks = 100_000

// newest is a page of an environment's events that is being listed.
type newest struct {
	*state
	env    uint32
	q      *EventQuery
	kinds  journal.KindSet
	limit  int
	events []EventView
	// passed counts records and checks, looked events of the environment.
	passed, looked int
	// first is the place of what came first, last that of what was passed last, more whether something
	// older may follow.
	first, last journal.Cursor
	more        bool
}

// EventPage is a page of an environment's events.
type EventPage struct {
	Events []EventView
	// Next begins the following page; its Index is 0 at the end.
	Next journal.Cursor
	// Newest is the place of the newest record, listed or not, also of another environment. Its Index
	// is 0 where there is none, and of all pages but the first.
	Newest journal.Cursor
}

// NewestEvents lists a page of the events of all customers of an environment, and the checks of
// unknown customers, the most recently recorded first. Of q, Customer and Descending do not matter,
// and of After the time does not. A page looks at 10,000 events, and passes over 100,000 of all
// environments, so it may be short and have a next one. Any goroutine may call it.
func (m *journalReader) NewestEvents(
	src journal.Source, env uint32, q *EventQuery,
) (p EventPage, err error) {
	n := newest{
		state: m.state.Load(), env: env, q: q, kinds: q.kinds(), first: q.Until,
		limit: min(max(q.Limit, 1), maxEventPage), events: []EventView{},
	}
	err = src.Back(journal.BackQuery{
		Kinds: n.kinds, Index: q.After.Index, Position: q.After.Position, From: q.From, To: q.To,
	}, n.take)
	if err != nil {
		return p, fmt.Errorf("billing: list events of environment %d: %w", env, err)
	}
	if err = n.voidedOf(src); err != nil {
		return p, err
	}
	if p.Events = n.events; q.After.Index == 0 {
		p.Newest = n.first
	}
	if n.more {
		p.Next = n.last
	}
	return p, nil
}

// kinds are those of the journal that q selects.
func (q *EventQuery) kinds() (set journal.KindSet) {
	if len(q.Kinds) == 0 {
		return journal.Kinds(eventKinds...)
	}
	for _, k := range q.Kinds {
		set |= journal.Kinds(journal.Kind(k))
	}
	return set
}

// full reports whether the page has come to one of its bounds.
func (n *newest) full() bool {
	return len(n.events) == n.limit || n.looked >= maxEventLook || n.passed >= maxEventChecks
}

// take adds what the page wants of a record.
func (n *newest) take(r journal.Record) (more bool, err error) {
	after, until := &n.q.After, &n.q.Until
	if r.Index < until.Index || r.Index == until.Index && r.Position <= until.Position {
		return false, nil
	}
	if n.first == *until {
		n.first = journal.Cursor{Index: r.Index, Position: r.Position}
	}
	if n.more = n.full(); n.more {
		return false, nil
	}
	resumed := after.Index != 0 && r.Index == after.Index && r.Position == after.Position
	if r.Kind == journal.KindAudit {
		return n.takeBlock(r, resumed)
	}
	if resumed {
		return true, nil
	}
	n.passed++
	n.last = journal.Cursor{Index: r.Index, Position: r.Position}
	if !n.kinds.Has(r.Kind) || r.Owner == 0 || r.Owner > n.Customers.Len() ||
		n.Customers.Read(r.Owner).Env != n.env {
		return true, nil
	}
	view, err := n.event(journal.Item{Record: r, Time: r.At})
	if err != nil {
		return false, err
	}
	view.Customer = n.customerOf(r.Owner)
	n.add(&view)
	return true, nil
}

// takeBlock adds what the page wants of a block of checks, the last of them first.
func (n *newest) takeBlock(r journal.Record, resumed bool) (more bool, err error) {
	block, err := openAudits(r.Payload)
	if err != nil {
		return false, fmt.Errorf("%w: %d.%d: %w", rows.ErrEvent, r.Index, r.Position, err)
	}
	type check struct {
		AuditCheck
		ordinal uint32
	}
	var own []check
	for ordinal := uint32(0); block.next(); ordinal++ {
		if resumed && ordinal >= n.q.After.Ordinal {
			break
		}
		if n.passed++; block.check.Env == n.env {
			own = append(own, check{block.check, ordinal})
		}
	}
	for i := len(own) - 1; i >= 0; i-- {
		if len(n.events) == n.limit {
			n.more = true
			return false, nil
		}
		n.last = journal.Cursor{Index: r.Index, Position: r.Position, Ordinal: own[i].ordinal}
		item := journal.Item{Record: r, Time: own[i].At, Ordinal: own[i].ordinal}
		view := checkView(n.state, item, &own[i].AuditCheck)
		if view.Customer = string(own[i].CustomerText); own[i].CustomerRow != 0 {
			view.Customer = n.customerOf(own[i].CustomerRow)
		}
		n.add(&view)
	}
	n.last = journal.Cursor{Index: r.Index, Position: r.Position}
	return true, nil
}

func (n *newest) customerOf(row uint32) string {
	return string(n.ExternalID(n.Customers.Read(row)))
}

func (n *newest) add(e *EventView) {
	n.looked++
	if n.q.From <= e.OccurredAt && e.OccurredAt < n.q.To && n.q.selects(e) {
		n.events = append(n.events, *e)
	}
}

// voidedOf marks the voided events of the page, customer by customer.
func (n *newest) voidedOf(src journal.Source) error {
	of := map[string][]int{}
	for i := range n.events {
		if n.events[i].Kind == EventUsage {
			of[n.events[i].Customer] = append(of[n.events[i].Customer], i)
		}
	}
	// any order: customers do not meet.
	for customer, places := range of {
		row := n.CustomerNamed(n.env, []byte(customer))
		if row == 0 {
			continue
		}
		some := make([]EventView, len(places))
		for i, at := range places {
			some[i] = n.events[at]
		}
		if err := n.voided(src, row, some); err != nil {
			return err
		}
		for i, at := range places {
			n.events[at].VoidedAt = some[i].VoidedAt
		}
	}
	return nil
}

// eventKinds are the kinds that Events lists.
var eventKinds = []journal.Kind{
	journal.KindUsage, journal.KindAudit, journal.KindVoid, journal.KindAmend,
}

// voided marks the voided events of a page: a void is listed at the time of the event that it
// voids.
func (s *state) voided(src journal.Source, customer uint32, events []EventView) error {
	byKey := map[string]*EventView{}
	q := journal.Query{
		Owner: customer, From: math.MaxInt64, Kinds: journal.Kinds(journal.KindVoid),
		Limit: maxEventPage,
	}
	for i := range events {
		if e := &events[i]; e.Kind == EventUsage {
			byKey[e.Key] = e
			q.From, q.To = min(q.From, e.OccurredAt), max(q.To, e.OccurredAt+1)
		}
	}
	for len(byKey) > 0 {
		items, err := src.List(q)
		if err != nil {
			return fmt.Errorf("billing: list voids of customer %d: %w", customer, err)
		}
		for _, item := range items {
			event, err := s.event(item)
			if err != nil {
				return err
			}
			if e := byKey[event.Key]; e != nil {
				e.VoidedAt = event.RecordedAt
			}
		}
		if len(items) < q.Limit {
			break
		}
		q.After, q.HasAfter = items[len(items)-1].Cursor(), true
	}
	return nil
}

// DecodeEvent decodes one item of the journal.
func (m *journalReader) DecodeEvent(item journal.Item) (EventView, error) {
	return m.state.Load().event(item)
}

func (s *state) event(item journal.Item) (EventView, error) {
	switch item.Kind {
	case journal.KindUsage:
		return s.usageEvent(item)
	case journal.KindAudit:
		return s.auditEvent(item)
	case journal.KindVoid, journal.KindAmend:
		return s.correctionEvent(item)
	}
	return EventView{}, fmt.Errorf("%w: record %d.%d of kind %d",
		rows.ErrEvent, item.Index, item.Position, item.Kind)
}

// correctionEvent is a void or an amendment: the corrected event and the result.
func (s *state) correctionEvent(item journal.Item) (EventView, error) {
	var k correctionEntry
	if err := wire.Decode(item.Payload, &k); err != nil {
		return EventView{}, fmt.Errorf("%w: %d.%d: %w", rows.ErrEvent, item.Index, item.Position, err)
	}
	view, err := s.usageView(item, &k.Original)
	view.Kind, view.Units, view.ReasonText = EventKind(item.Kind), k.Units, k.Reason
	view.RecordedAt, view.HasCost, view.Meta = k.RecordedAt, false, k.Meta
	switch view.Overrun = k.Overrun; {
	case k.HadOverrun && (k.Overrun.IsZero() || view.Kind == EventVoid):
		view.OverrunsChange = -1
	case !k.HadOverrun && !k.Overrun.IsZero():
		view.OverrunsChange = 1
	}
	if err != nil {
		return view, err
	}
	if view.CostChange, err = s.correctedCost(item.Kind, &k); err != nil {
		return view, fmt.Errorf("%w: %d.%d: %w", rows.ErrEvent, item.Index, item.Position, err)
	}
	return view, nil
}

func (s *state) usageEvent(item journal.Item) (EventView, error) {
	var u usageEntry
	if err := wire.Decode(item.Payload, &u); err != nil {
		return EventView{}, fmt.Errorf("%w: %d.%d: %w", rows.ErrEvent, item.Index, item.Position, err)
	}
	view, err := s.usageView(item, &u)
	view.Unbilled = u.Outcome == engine.OutcomeUnpriced
	return view, err
}

// usageView decodes the record of a usage event.
func (s *state) usageView(item journal.Item, u *usageEntry) (EventView, error) {
	var c RecordUsage
	if err := wire.Decode(u.Record, &c); err != nil {
		return EventView{}, fmt.Errorf("%w: %d.%d: %w", rows.ErrEvent, item.Index, item.Position, err)
	}
	view := EventView{
		Index: item.Index, Position: item.Position, Kind: EventUsage,
		Key: string(c.KeyText), EventName: string(c.EventName), FeatureKey: string(c.FeatureKey),
		Units: c.Units, HasCost: u.HasCost, Cost: u.Cost,
		EventSettlement: EventSettlement{Reservation: u.Reservation, Overrun: u.Overrun},
		OccurredAt:      c.OccurredAt, RecordedAt: u.RecordedAt,
		FlowID: string(c.FlowID), Meta: append([]byte(nil), c.Meta...),
	}
	var paid credits.DrawList
	if err := wire.Decode(u.Draws, &paid); err != nil {
		return EventView{}, fmt.Errorf("%w: %d.%d: %w", rows.ErrEvent, item.Index, item.Position, err)
	}
	view.HasCredits, view.Credits = len(paid.Draws) > 0, credits.Drawn(paid.Draws)
	if key := s.FeatureKey(c.Env, u.Feature); key != "" {
		view.FeatureKey = key
	}
	if u.Subscription != 0 && u.Subscription <= s.Subscriptions.Len() {
		view.SubscriptionID = s.Subscriptions.Read(u.Subscription).ID
	}
	return view, nil
}

func (s *state) auditEvent(item journal.Item) (EventView, error) {
	block, err := openAudits(item.Payload)
	if err != nil {
		return EventView{}, fmt.Errorf("%w: %d.%d: %w", rows.ErrEvent, item.Index, item.Position, err)
	}
	for ordinal := uint32(0); block.next(); ordinal++ {
		if ordinal != item.Ordinal {
			continue
		}
		return checkView(s, item, &block.check), nil
	}
	return EventView{}, fmt.Errorf("%w: %d.%d has no check %d",
		rows.ErrEvent, item.Index, item.Position, item.Ordinal)
}

// checkView is a check of an audit block.
func checkView(s *state, item journal.Item, a *AuditCheck) EventView {
	view := EventView{
		Index: item.Index, Position: item.Position, Ordinal: item.Ordinal, Kind: EventAudit,
		Key: string(a.IdempotencyKey), FeatureKey: string(a.FeatureText),
		OccurredAt: a.At, RecordedAt: a.At, FlowID: string(a.FlowID), Reason: a.Reason,
		CheckFigures: a.Figures,
	}
	if key := s.FeatureKey(a.Env, a.FeatureNumber); key != "" {
		view.FeatureKey = key
	}
	return view
}
