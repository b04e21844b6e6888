package outbox

import (
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// Emitter is the part of a turn that queues messages for webhook endpoints.
type Emitter struct {
	book.Keeper
	S      *book.Book
	Outbox *Outbox
	// Told counts the record's webhook messages.
	Told uint32
}

// Emit queues a message for each endpoint of the environment that wants it.
func (t *Emitter) Emit(e *accounts.Environment, customer uint32, m *WebhookMessage) {
	if !e.Wants(m.Type) {
		return
	}
	m.Customer = string(t.S.ExternalID(t.S.Customers.Read(customer)))
	var to []uint32
	for _, row := range e.Hooks {
		ep := t.Outbox.Endpoints.Read(row)
		if ep.Off == WebhookOn && ep.Events.wants(m.Type) {
			to = append(to, row)
		}
	}
	t.Send(to, customer, m)
}

// Send queues a message for endpoints; of no customer, customer is 0.
func (t *Emitter) Send(to []uint32, customer uint32, m *WebhookMessage) {
	id := messageID(t.Index, t.Position, t.Told)
	t.Told++
	encoded := wire.Encode(nil, &DeliveryText{Message: *m})
	o := t.Outbox
	o.Mu.Lock()
	defer o.Mu.Unlock()
	for _, row := range to {
		d := Delivery{
			ID: id, Turn: o.Sequence + 1, CreatedAt: t.Stamp, QueuedAt: t.Stamp, NextAt: t.Stamp,
			Customer: customer, Event: m.Type,
		}
		o.Enqueue(row, &d, encoded)
		t.Spend(8)
		t.Fold(o.Sequence)
	}
}

// OfInvoice fills in an invoice's part of a message.
func (m *WebhookMessage) OfInvoice(v *book.Invoice, currency string) {
	m.InvoiceID, m.Number, m.InvoiceType, m.Status = v.ID, v.Number, v.Kind, v.Status
	m.Amount, m.Currency = v.Amount, currency
	m.CreatedAt, m.DueAt, m.PaidAt = v.CreatedAt, v.DueAt, v.PaidAt
	m.PeriodStart, m.PeriodEnd = v.PeriodStart, v.PeriodEnd
}

// Reading is what a limit said of usage.
type Reading struct {
	full    bool
	percent uint8
}

// ReadingOf compares usage with a feature's limit and its thresholds.
func ReadingOf(f *catalogs.PlanFeature, used decimal.Decimal) Reading {
	return Reading{f.Full(used), f.Reached(used)}
}

// And is a reading of which a threshold was told before.
func (r Reading) And(told uint8) Reading { return Reading{r.full, max(r.percent, told)} }

// Beyond reports whether usage has reached more than before.
func (r Reading) Beyond(before Reading) bool {
	return r.full && !before.full || r.percent > before.percent
}

// LimitMessages makes the messages about what a feature's usage has reached since a reading: the
// limit, and the highest of its thresholds.
func LimitMessages(
	b *book.HotSubscription, c *catalogs.Catalog, f *catalogs.PlanFeature, used decimal.Decimal,
	before Reading,
) (told []WebhookMessage) {
	now := ReadingOf(f, used)
	m := WebhookMessage{
		SubscriptionID: b.ID, PeriodStart: b.PeriodStart, PeriodEnd: b.PeriodEnd,
		ToldLimit: ToldLimit{
			FeatureKey: c.Feature(f.Feature).Document.Key, Used: used, Limit: f.Max, HardLimit: f.Hard,
		},
	}
	if now.percent > before.percent {
		m.Type, m.Percent = accounts.WebhookUsageThreshold, now.percent
		told = append(told, m)
	}
	if now.full && !before.full {
		m.Type, m.Percent = accounts.WebhookLimitReached, 0
		told = append(told, m)
	}
	return told
}

// WantsLimits reports whether any endpoint asks for what LimitMessages makes.
func WantsLimits(e *accounts.Environment) bool {
	return e.Wants(accounts.WebhookLimitReached) || e.Wants(accounts.WebhookUsageThreshold)
}

// EmitReached queues messages if usage at a place has just reached its feature's limit, or a
// threshold of it: before is the counter's reading before it, used its reading now.
func (t *Emitter) EmitReached(place book.Place, before, used decimal.Decimal, at int64) {
	b := t.S.Subscriptions.Read(place.Subscription)
	e := t.S.Environment(t.S.Customers.Read(b.Customer).Env)
	f := place.Feature
	was := ReadingOf(f, before)
	if !WantsLimits(e) || !ReadingOf(f, used).Beyond(was) {
		return
	}
	was = was.And(t.S.Told.Of(place.Counter, b.Version, b.Period, f.Accumulate))
	told := LimitMessages(&b.HotSubscription, e.Catalog.Load(), f, used, was)
	for i := range told {
		told[i].At = at
		t.EmitLimit(e, &b.HotSubscription, place.Counter, &told[i])
	}
}

// EmitLimit queues a message of LimitMessages. What it tells of thresholds is not told again though
// a correction takes usage below it: see book.Told.
func (t *Emitter) EmitLimit(
	e *accounts.Environment, b *book.HotSubscription, counter uint32, m *WebhookMessage,
) {
	t.Emit(e, b.Customer, m)
	if m.Type != accounts.WebhookUsageThreshold || !e.Wants(m.Type) {
		return
	}
	lock := t.S.WriteLock(b.Customer)
	t.S.Told.Set(book.Told{
		Counter: counter, Version: b.Version, Period: b.Period, Percent: m.Percent,
	})
	lock.Unlock()
}
