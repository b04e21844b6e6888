package billing

import (
	"tollgate/engine"
	"tollgate/engine/decimal"
	"tollgate/engine/period"
	"tollgate/engine/wire"
)

// MaxSubscriptions is how many subscriptions one customer may have: each check walks them.
const MaxSubscriptions = 128

// maxGraceDays is the longest grace of a subscription.
const maxGraceDays = 365

// CreateSubscription subscribes a customer to the newest version of a plan and issues the initial
// invoice. A subscription of this ID is the same success again (a re-sent command).
//
//schema:request client SubscriptionRequest
type CreateSubscription struct {
	Env       uint32   `wire:"1"`
	ID        [16]byte `wire:"2"`
	InvoiceID [16]byte `wire:"3"`
	// Plan is the plan's id (text form) or key.
	Plan string `wire:"5" json:"planId" rule:"required,min=1,max=128"`
	// Customer is the customer's ExternalID.
	Customer  string `wire:"4" json:"customerReferenceId" rule:"required,min=1,max=128"`
	GraceDays uint32 `wire:"6" json:"gracePeriod" rule:"min=0,max=365,default=7"`
	SubscriptionDetails
}

func (c *CreateSubscription) apply(t *turn) engine.Outcome {
	e := t.environment(c.Env)
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	if row := t.subscriptionWith(&c.ID); row != 0 {
		if t.customers.Read(t.subscriptions.Read(row).customer).env == c.Env {
			return engine.OutcomeDone
		}
		return engine.OutcomeIDsContradict
	}
	if t.invoiceWith(&c.InvoiceID) != 0 {
		return engine.OutcomeIDsContradict
	}
	customer := t.customerNamed(c.Env, []byte(c.Customer))
	if customer == 0 {
		return engine.OutcomeCustomerUnknown
	}
	version, outcome := subscribable(t.state, customer, e, c.Plan)
	if version == nil {
		return outcome
	}
	now := e.now(t.Stamp)
	if !t.advanceCustomer(customer, now) {
		return engine.OutcomeDeferred
	}
	b, outcome := begun(t.state, customer, version, now)
	if outcome.Refused() {
		return outcome
	}

	b.id, b.graceDays = c.ID, uint16(min(c.GraceDays, maxGraceDays))
	b.subscriptionRest = b.usual()
	details := wire.Encode(nil, &c.SubscriptionDetails)
	t.subscriptions.SetDetails(t.subscriptions.Len()+1, details)
	t.subscribe(e, &b, c.InvoiceID)
	return engine.OutcomeDone
}

// subscribable is the version of a plan that a customer may subscribe to, for the command and its
// preview. Nil: outcome says why there is none.
func subscribable(
	s *state, customer uint32, e *environment, plan string,
) (*planVersion, engine.Outcome) {
	p := e.catalog.Load().planNamed(plan)
	if p == nil {
		return nil, engine.OutcomePlanUnknown
	}
	if profile := s.profile(customer); profile.gone() {
		return nil, engine.OutcomeCustomerArchived
	}
	if p.document.Status != planActive {
		return nil, engine.OutcomePlanInactive
	}
	if s.customers.Read(customer).subscriptions >= MaxSubscriptions {
		return nil, engine.OutcomeSubscriptionLimit
	}
	return p.newest(), engine.OutcomeDone
}

// begun is a subscription that begins now, once what was due of the customer's others has happened;
// refused where its first period is beyond time, or its credits do not fit.
func begun(
	s *state, customer uint32, version *planVersion, now int64,
) (b subscription, outcome engine.Outcome) {
	first, ok := period.Cycle{Anchor: now, IntervalMonths: version.interval}.Period(0)
	if !ok {
		return b, engine.OutcomeOverflow
	}
	b.usualSubscription = usualSubscription{
		customer: customer, version: version.number, createdAt: now,
		periodStart: first.Start, periodEnd: first.End, months: version.interval,
		counters: uint16(len(version.features)),
	}
	return b, allocatable(s.vault, customer, version)
}

// subscribe adds a subscription with its counters and its initial invoice.
func (t *turn) subscribe(e *environment, b *subscription, invoiceID [16]byte) {
	version := e.catalog.Load().version(b.version)
	lock := t.stripe(b.customer)
	lock.Lock()
	b.due = b.periodEnd // until its initial invoice is there, for queries
	b.firstCounter = appendRows(t.counters.rows, len(version.features))
	row := t.subscriptions.Append(b)
	c := t.customers.Write(b.customer)
	if c.firstSubscription == 0 {
		c.firstSubscription = row
	} else {
		t.subscriptions.Link(c.lastSubscription, row)
	}
	c.lastSubscription = row
	c.subscriptions++
	t.hint(row, b)
	t.creditsAtPeriodStart(row, b.periodStart)
	lock.Unlock()

	t.subscriptionByID.Insert(t.idHash(&b.id), row)
	t.indexPending(row, b)
	t.subscribed(b, 1)
	t.Fold(uint64(row)<<32 | uint64(b.firstCounter))
	l := t.openLedger(row)
	l.tell(WebhookSubscriptionCreated, b.createdAt)
	t.spend(2*l.weight() + 4)
	l.initial(invoiceID)
	t.commit(l)
}

// initial issues the invoice that comes with a new subscription: the base price when it is billed
// in advance, nothing when in arrears.
func (l *ledger) initial(id [16]byte) {
	d := l.draft(InvoiceInitial, id, l.b.createdAt)
	if l.version().timing == timingInAdvance {
		d.charge(l, chargeFact{
			Kind: LineBase, Version: l.b.version, Ratio: decimal.FromInt(1),
			Start: l.b.periodStart, End: l.b.periodEnd,
		})
	}
	d.always = true
	l.issue(d)
	l.b.due = l.nextDue()
}

// subscriptionWith finds a subscription by its UUID in any environment; 0 when there is none.
func (s *book) subscriptionWith(id *[16]byte) uint32 {
	return s.subscriptionByID.Find(s.idHash(id), func(row uint32) bool {
		return s.subscriptions.Read(row).id == *id
	})
}

// details is what a subscription's request said of it that the engine only keeps.
func (s *state) details(row uint32) (d SubscriptionDetails) {
	if data := s.subscriptions.Details(row); data != "" {
		if err := wire.Decode([]byte(data), &d); err != nil {
			panic("billing: details in memory do not decode: " + err.Error()) // checked at restore
		}
	}
	return d
}

// subscriptionView must be called under the customer's lock.
func (s *state) subscriptionView(row uint32, customer CustomerView) SubscriptionView {
	env := s.environment(s.customers.Read(customer.Row).env)
	l := s.ledgerAt(row, env.now(s.log.Stamp()))
	b := &l.b
	view := SubscriptionView{
		ID: b.id, Customer: customer.CustomerCore, Plan: planView(l.catalog, l.version()),
		IsActive: b.active(), GraceDays: uint32(b.graceDays), CreatedAt: b.createdAt,
		PeriodStart: b.periodStart, PeriodEnd: b.periodEnd,
		AnchorDay:   uint32(period.DayOfMonth(b.anchor)),
		SuspendedAt: b.suspendedAt, CancelledAt: b.cancelledAt, EndedAt: b.endedAt,
		CancelMode: b.cancelMode, SubscriptionDetails: s.details(row),
	}
	view.IntervalMonths = view.Plan.IntervalMonths
	switch {
	case b.endedAt != 0:
		view.CancelEffectiveAt = b.endedAt
	case b.cancelMode != 0:
		view.CancelEffectiveAt = b.periodEnd
	}
	if b.pending != 0 {
		view.ScheduledChange = new(planChangeView(l, &l.pendingChange().planChange))
	}
	return view
}

// Subscriptions lists all subscriptions of a customer, oldest first, in any state.
func (m *Machine) Subscriptions(customerRow uint32) []SubscriptionView {
	s := m.state.Load()
	views := []SubscriptionView{}
	if customerRow == 0 || customerRow > s.customers.Len() {
		return views
	}
	lock := s.stripe(customerRow)
	lock.RLock()
	defer lock.RUnlock()
	customer := s.customerView(customerRow)
	row := s.customers.Read(customerRow).firstSubscription
	for ; row != 0; row = s.subscriptions.Read(row).next {
		views = append(views, s.subscriptionView(row, customer))
	}
	return views
}

// Subscription finds a subscription by its UUID, in any state.
func (m *Machine) Subscription(env uint32, id [16]byte) (SubscriptionView, bool) {
	s := m.state.Load()
	row := s.subscriptionIn(env, &id)
	if row == 0 {
		return SubscriptionView{}, false
	}
	customer := s.subscriptions.Read(row).customer
	lock := s.stripe(customer)
	lock.RLock()
	defer lock.RUnlock()
	return s.subscriptionView(row, s.customerView(customer)), true
}

// subscriptionIn finds a subscription of one environment; 0 when there is none.
func (s *book) subscriptionIn(env uint32, id *[16]byte) uint32 {
	row := s.subscriptionWith(id)
	if row == 0 || s.customers.Read(s.subscriptions.Read(row).customer).env != env {
		return 0
	}
	return row
}
