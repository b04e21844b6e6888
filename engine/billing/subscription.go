package billing

import (
	"tollgate/engine"
	"tollgate/engine/decimal"
	"tollgate/engine/page"
	"tollgate/engine/period"
	"tollgate/engine/wire"
)

// MaxSubscriptions is how many subscriptions one customer may have: each check walks them.
const MaxSubscriptions = 128

// maxGraceDays is the longest grace of a subscription.
const maxGraceDays = 365

// CreateSubscription subscribes a customer to the newest version of a plan and issues the initial
// invoice. A subscription of this ID is the same success again (a re-sent command).
type CreateSubscription struct {
	Env       uint32
	ID        [16]byte
	InvoiceID [16]byte
	Customer  string // the customer's ExternalID
	Plan      string // the plan's id (text form) or key
	GraceDays uint32 // 0–365
}

// Fields states the command's fields.
func (c *CreateSubscription) Fields(w *wire.Codec) {
	wire.Uint(w, 1, &c.Env)
	w.ID(2, &c.ID)
	w.ID(3, &c.InvoiceID)
	w.String(4, &c.Customer)
	w.String(5, &c.Plan)
	wire.Uint(w, 6, &c.GraceDays)
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
	p := e.catalog.Load().planNamed(c.Plan)
	if p == nil {
		return engine.OutcomePlanUnknown
	}
	if t.profile(customer).ArchivedAt != 0 {
		return engine.OutcomeCustomerArchived
	}
	if p.document.Status != planActive {
		return engine.OutcomePlanInactive
	}
	if t.customers.Read(customer).subscriptions >= MaxSubscriptions {
		return engine.OutcomeSubscriptionLimit
	}
	version, now := p.newest(), e.now(t.stamp)
	first, ok := period.Cycle{Anchor: now, IntervalMonths: version.interval}.Period(0)
	if !ok {
		return engine.OutcomeOverflow
	}

	t.subscribe(e, &subscription{
		id: c.ID, customer: customer, version: version.number, createdAt: now, anchor: now,
		periodStart: first.Start, periodEnd: first.End,
		graceDays: uint16(min(c.GraceDays, maxGraceDays)),
	}, c.InvoiceID)
	return engine.OutcomeDone
}

// subscribe adds a subscription with its counters and its initial invoice.
func (t *turn) subscribe(e *environment, b *subscription, invoiceID [16]byte) {
	version := e.catalog.Load().version(b.version)
	lock := t.stripe(b.customer)
	lock.Lock()
	b.counters = uint16(len(version.features))
	for i := range version.features {
		row, _ := t.counters.Append()
		if i == 0 {
			b.firstCounter = row
		}
	}
	row, r := t.subscriptions.Append()
	*r = *b
	c := t.customers.Write(b.customer)
	if c.firstSubscription == 0 {
		c.firstSubscription = row
	} else {
		t.subscriptions.Write(c.lastSubscription).next = row
	}
	c.lastSubscription = row
	c.subscriptions++
	t.hint(row, b)
	invoice := t.issueInitial(e, row, invoiceID)
	t.creditsAtPeriodStart(row, b.periodStart)
	lock.Unlock()

	t.subscriptionByID.Insert(t.idHash(&b.id), row)
	t.invoiceByID.Insert(t.idHash(&invoiceID), invoice)
	t.subscribed(b, 1)
	t.fold(uint64(row)<<32 | uint64(b.firstCounter))
}

// subscription is the record of a subscription; what a check needs comes first. id, customer and
// createdAt never change.
type subscription struct {
	customer                 uint32
	next                     uint32 // the customer's next younger subscription
	version                  uint32 // number of the plan version in the environment's catalog
	firstCounter             uint32 // its counters are rows from here on, in the version's order
	suspendedAt, cancelledAt int64  // 0: it is not
	id                       [16]byte
	periodStart, periodEnd   int64
	createdAt                int64
	anchor                   int64  // the instant from which all periods are computed
	period                   uint32 // number of the current period, from 0
	counters                 uint16
	graceDays                uint16
}

var subscriptionCodec = page.Codec[subscription]{
	Append: func(dst []byte, b *subscription) []byte {
		dst = append(dst, b.id[:]...)
		dst = appendI64(appendI64(dst, b.createdAt), b.anchor)
		dst = appendI64(appendI64(dst, b.periodStart), b.periodEnd)
		dst = appendI64(appendI64(dst, b.suspendedAt), b.cancelledAt)
		dst = appendU32(appendU32(dst, b.customer), b.next)
		dst = appendU32(appendU32(dst, b.version), b.firstCounter)
		return appendU16(appendU16(appendU32(dst, b.period), b.counters), b.graceDays)
	},
	Read: func(src []byte, b *subscription) ([]byte, error) {
		r := reader{rest: src}
		b.id = r.id()
		b.createdAt, b.anchor = r.i64(), r.i64()
		b.periodStart, b.periodEnd = r.i64(), r.i64()
		b.suspendedAt, b.cancelledAt = r.i64(), r.i64()
		b.customer, b.next = r.u32(), r.u32()
		b.version, b.firstCounter = r.u32(), r.u32()
		b.period, b.counters, b.graceDays = r.u32(), r.u16(), r.u16()
		return r.rest, r.err
	},
}

// active says whether the subscription gives access.
func (b *subscription) active() bool { return b.suspendedAt == 0 && b.cancelledAt == 0 }

// counter counts one feature's usage within a subscription. It is what checks read and what the
// invoice bills.
type counter struct {
	// used belongs to the current period (since the beginning where usage accumulates), next to
	// the period after it: events that occurred past the period's end.
	used, next decimal.Decimal
}

var counterCodec = page.Codec[counter]{
	Append: func(dst []byte, c *counter) []byte {
		return appendDecimal(appendDecimal(dst, c.used), c.next)
	},
	Read: func(src []byte, c *counter) ([]byte, error) {
		r := reader{rest: src}
		c.used, c.next = r.decimal(), r.decimal()
		return r.rest, r.err
	},
}

// advance returns a subscription as it is at an instant of its environment's clock. Every command
// and query that touches a subscription comes through here first, so that what is due has happened
// whether or not a tick has come.
func (s *state) advance(row uint32, _ int64) *subscription { return s.subscriptions.Read(row) }

// subscriptionWith finds a subscription by its UUID in any environment; 0 when there is none.
func (s *state) subscriptionWith(id *[16]byte) uint32 {
	return s.subscriptionByID.Find(s.idHash(id), func(row uint32) bool {
		return s.subscriptions.Read(row).id == *id
	})
}

// subscriptionView must be called under the customer's lock.
func (s *state) subscriptionView(row uint32, customer CustomerView) SubscriptionView {
	env := s.environment(s.customers.Read(customer.Row).env)
	b := s.advance(row, env.now(s.stamp.Load()))
	c := env.catalog.Load()
	return SubscriptionView{
		ID: b.id, Customer: customer, Plan: c.planView(c.version(b.version)),
		IsActive: b.active(), GraceDays: uint32(b.graceDays), CreatedAt: b.createdAt,
		PeriodStart: b.periodStart, PeriodEnd: b.periodEnd,
		AnchorDay:   uint32(period.DayOfMonth(b.anchor)),
		SuspendedAt: b.suspendedAt, CancelledAt: b.cancelledAt,
	}
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
	row := s.subscriptionWith(&id)
	if row == 0 {
		return SubscriptionView{}, false
	}
	customer := s.subscriptions.Read(row).customer
	if s.customers.Read(customer).env != env {
		return SubscriptionView{}, false
	}
	lock := s.stripe(customer)
	lock.RLock()
	defer lock.RUnlock()
	return s.subscriptionView(row, s.customerView(customer)), true
}
