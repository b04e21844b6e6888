package billing

import (
	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/lifecycle"
	"tollgate/engine/period"
	"tollgate/engine/wire"
)

// MaxSubscriptions bounds the subscriptions of one customer: each check walks them.
const MaxSubscriptions = 128

// maxGraceDays bounds the grace period of a subscription, as the tags of GraceDays do.
const maxGraceDays = 365

// CreateSubscription subscribes a customer to the newest version of a plan and issues the initial
// invoice. Repeating the ID is the same success (a re-sent command).
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

func (c *CreateSubscription) apply(t *turn, e *accounts.Environment) engine.Outcome {
	if row := t.SubscriptionWith(&c.ID); row != 0 {
		if t.Customers.Read(t.Subscriptions.Read(row).Customer).Env == c.Env {
			return engine.OutcomeDone
		}
		return engine.OutcomeIDsContradict
	}
	if c.GraceDays > maxGraceDays {
		return engine.OutcomeOverflow
	}
	if t.InvoiceWith(&c.InvoiceID) != 0 {
		return engine.OutcomeIDsContradict
	}
	customer := t.CustomerNamed(c.Env, []byte(c.Customer))
	if customer == 0 {
		return engine.OutcomeCustomerUnknown
	}
	version, outcome := subscribable(t.state, customer, e, c.Plan)
	if version == nil {
		return outcome
	}
	now := e.Now(t.Stamp)
	if !t.AdvanceCustomer(customer, now) {
		return engine.OutcomeDeferred
	}
	b, outcome := begun(t.state, customer, version, now)
	if outcome.Refused() {
		return outcome
	}

	b.ID, b.GraceDays = c.ID, uint16(c.GraceDays)
	b.ColdSubscription = b.DefaultCold()
	details := wire.Encode(nil, &c.SubscriptionDetails)
	t.Subscriptions.Details.Put(t.Subscriptions.Len()+1, details)
	t.subscribe(e, &b, c.InvoiceID)
	return engine.OutcomeDone
}

// subscribable returns the version of a plan to which a customer may subscribe, for the command and
// its preview. If it returns nil, outcome tells why.
func subscribable(
	s *state, customer uint32, e *accounts.Environment, plan string,
) (*catalogs.PlanVersion, engine.Outcome) {
	p := e.Catalog.Load().PlanNamed(plan)
	if p == nil {
		return nil, engine.OutcomePlanUnknown
	}
	if profile := s.Profile(customer); profile.Gone() {
		return nil, engine.OutcomeCustomerArchived
	}
	if p.Document.Status != catalogs.PlanActive {
		return nil, engine.OutcomePlanInactive
	}
	if s.Customers.Cold(customer).Subscriptions >= MaxSubscriptions {
		return nil, engine.OutcomeSubscriptionLimit
	}
	return p.Newest(), engine.OutcomeDone
}

// begun returns a subscription that begins now, after everything due of the customer's others has
// happened. It refuses a first period beyond the last instant, and credits without room.
func begun(
	s *state, customer uint32, version *catalogs.PlanVersion, now int64,
) (b book.Subscription, outcome engine.Outcome) {
	first, ok := period.Cycle{Anchor: now, IntervalMonths: version.Interval}.Period(0)
	if !ok {
		return b, engine.OutcomeOverflow
	}
	b.HotSubscription = book.HotSubscription{
		Customer: customer, Version: version.Number, CreatedAt: now,
		PeriodStart: first.Start, PeriodEnd: first.End, Months: version.Interval,
		Counters: uint16(len(version.Features)),
	}
	return b, credits.Allocatable(&s.Vault, customer, version)
}

// subscribe adds a subscription with its counters and its initial invoice.
func (t *turn) subscribe(e *accounts.Environment, b *book.Subscription, invoiceID [16]byte) {
	version := e.Catalog.Load().Version(b.Version)
	lock := t.WriteLock(b.Customer)
	b.Due = b.PeriodEnd // for queries, until its initial invoice exists
	b.FirstCounter = lifecycle.AppendRows(t.Counters.Rows, len(version.Features))
	row := t.Subscriptions.Append(b)
	c, cold := t.Customers.Write(b.Customer), t.Customers.Cold(b.Customer)
	if c.FirstSubscription == 0 {
		c.FirstSubscription = row
	} else {
		t.Subscriptions.Link(cold.LastSubscription, row)
	}
	cold.LastSubscription = row
	cold.Subscriptions++
	t.Customers.SetCold(b.Customer, cold)
	t.Hint(b.Customer)
	t.CreditsAtPeriodStart(row, b.PeriodStart)
	lock.Unlock()

	t.SubscriptionByID.Insert(t.IDHash(&b.ID), row)
	t.IndexPending(row, b)
	t.Subscribed(b, 1)
	t.Fold(uint64(row)<<32 | uint64(b.FirstCounter))
	l := t.OpenProjection(row)
	l.Emit(accounts.WebhookSubscriptionCreated, b.CreatedAt)
	t.Spend(2*l.Weight() + 4)
	l.Initial(invoiceID)
	t.Commit(l)
}

// details are the facts in a subscription's request that the engine only keeps.
func (s *state) details(row uint32) (d SubscriptionDetails) {
	if data := s.Subscriptions.Details.Get(row); data != "" {
		if err := wire.Decode([]byte(data), &d); err != nil {
			panic("billing: details in memory do not decode: " + err.Error()) // checked at restore
		}
	}
	return d
}

// subscriptionView requires the customer's lock.
func (s *state) subscriptionView(l *lifecycle.Projection, customer CustomerView) SubscriptionView {
	b := &l.Sub
	view := SubscriptionView{
		ID: b.ID, Customer: customer.CustomerCore, Plan: planView(l.Catalog, l.Version()),
		IsActive: b.Active(), GraceDays: uint32(b.GraceDays), CreatedAt: b.CreatedAt,
		PeriodStart: b.PeriodStart, PeriodEnd: b.PeriodEnd,
		AnchorDay:   uint32(period.DayOfMonth(b.Anchor)),
		SuspendedAt: b.SuspendedAt, CancelledAt: b.CancelledAt, EndedAt: b.EndedAt,
		CancelMode: b.CancelMode.Named(), CancelledByCustomer: b.CancelMode == book.CancelByCustomer,
		SubscriptionDetails: s.details(l.Row),
	}
	view.IntervalMonths = view.Plan.IntervalMonths
	switch {
	case b.EndedAt != 0:
		view.CancelEffectiveAt = b.EndedAt
	case b.CancelMode != 0:
		view.CancelEffectiveAt = b.PeriodEnd
	}
	if b.Pending != 0 {
		view.ScheduledChange = new(planChangeView(l, &l.PendingChange().PlanChange))
	}
	return view
}

// Subscriptions lists all subscriptions of a customer, oldest first, in any state.
func (m *customerReader) Subscriptions(customerRow uint32) []SubscriptionView {
	s := m.state.Load()
	views := []SubscriptionView{}
	if customerRow == 0 || customerRow > s.Customers.Len() {
		return views
	}
	lock := s.ReadLock(customerRow)
	defer lock.RUnlock()
	customer, projections := s.customerView(customerRow), s.ProjectionsNow(customerRow)
	row := s.Customers.Read(customerRow).FirstSubscription
	for ; row != 0; row = s.Subscriptions.Read(row).Next {
		views = append(views, s.subscriptionView(projections.Of(row), customer))
	}
	return views
}

// NewSubscription is a subscription in a list of the newest.
type NewSubscription struct {
	Customer, Plan string // the plan's name
	CreatedAt      int64
}

// NewestSubscriptions lists so many of an environment's subscriptions at most, the newest first,
// ended ones too. It looks at no more than scan subscriptions.
func (m *customerReader) NewestSubscriptions(env uint32, maximum, scan int) (
	list []NewSubscription,
) {
	s := m.state.Load()
	for row := s.whole.subscriptions.Load(); row > 0 && scan > 0 && len(list) < maximum; row-- {
		scan--
		customer := s.Subscriptions.Read(row).Customer
		c := s.Customers.Read(customer)
		if c.Env != env {
			continue
		}
		lock := s.ReadLock(customer)
		b, catalog := s.Subscriptions.Read(row), s.Environment(env).Catalog.Load()
		list = append(list, NewSubscription{
			Customer: string(s.ExternalID(c)), CreatedAt: b.CreatedAt,
			Plan: catalog.Plans[catalog.Version(b.Version).Plan-1].Document.Name,
		})
		lock.RUnlock()
	}
	return list
}

// Subscription finds a subscription by its UUID, in any state.
func (m *customerReader) Subscription(env uint32, id [16]byte) (SubscriptionView, bool) {
	s := m.state.Load()
	row := s.SubscriptionIn(env, &id)
	if row == 0 {
		return SubscriptionView{}, false
	}
	customer := s.Subscriptions.Read(row).Customer
	lock := s.ReadLock(customer)
	defer lock.RUnlock()
	return s.subscriptionView(s.ProjectionsNow(customer).Of(row), s.customerView(customer)), true
}
