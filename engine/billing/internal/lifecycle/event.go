package lifecycle

import (
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/outbox"
)

// pendingEvent is one that a projection reports once it is committed.
type pendingEvent struct {
	event accounts.WebhookEvent
	at    int64
	// b is the subscription at that time, scheduled its pending plan change (zero: none).
	b         book.Subscription
	scheduled book.PlanChange
	// invoice is the invoice at that time, if the event is about one.
	invoice *HeldInvoice
}

// Emit notes an event of the subscription.
func (l *Projection) Emit(w accounts.WebhookEvent, at int64) {
	if !l.Env.Wants(w) {
		return
	}
	h := pendingEvent{event: w, at: at, b: l.Sub}
	for i := range l.changes {
		if c := &l.changes[i]; c.Status == book.ChangePending {
			h.scheduled = c.PlanChange
		}
	}
	l.events = append(l.events, h)
}

// EmitInvoice notes an event of an invoice.
func (l *Projection) EmitInvoice(w accounts.WebhookEvent, at int64, v *HeldInvoice) {
	if l.Env.Wants(w) {
		l.events = append(l.events, pendingEvent{event: w, at: at, b: l.Sub, invoice: new(*v)})
	}
}

// emitAll queues the messages of a committed projection.
func (t *Runner) emitAll(l *Projection) {
	for i := range l.events {
		h := &l.events[i]
		m := outbox.WebhookMessage{Type: h.event, At: h.at, SubscriptionID: l.Sub.ID}
		if h.invoice != nil {
			v := h.invoice.Invoice
			if h.invoice.Row == 0 {
				v.Number = l.Drafts[h.invoice.at].Number
			}
			m.OfInvoice(&v, l.Catalog.Version(v.Version).Currency)
		} else {
			h.describe(&m, l.Catalog)
		}
		t.Emit(l.Env, l.Sub.Customer, &m)
	}
	l.events = nil
}

// describe fills in a subscription's part of a message.
func (h *pendingEvent) describe(m *outbox.WebhookMessage, c *catalogs.Catalog) {
	version := c.Version(h.b.Version)
	plan := c.Plans[version.Plan-1]
	m.PlanID, m.PlanKey, m.PlanVersion = plan.ID, plan.Document.Key, version.Version
	m.Active, m.SuspendedAt = h.b.Active(), h.b.SuspendedAt
	m.CancelMode, m.CancelledAt, m.EndedAt = h.b.CancelMode.Named(), h.b.CancelledAt, h.b.EndedAt
	m.CreatedAt, m.PeriodStart, m.PeriodEnd = h.b.CreatedAt, h.b.PeriodStart, h.b.PeriodEnd
	if h.scheduled.To != 0 {
		m.ScheduledPlan = c.PlanKey(h.scheduled.To)
		m.ScheduledAt = h.scheduled.EffectiveAt
	}
}

// reaching is a message about a feature whose limit, or a threshold of it, is reached.
type reaching struct {
	outbox.WebhookMessage
	slot int
}

// reached returns messages for the features whose limit, or a threshold of it, the projection's
// usage has reached. Call it before the projection is committed.
func (t *Runner) reached(l *Projection) (told []reaching) {
	if !outbox.WantsLimits(l.Env) || l.Sub.EndedAt != 0 {
		return nil
	}
	before, now := l.Catalog.Version(l.was.Version), l.Version()
	for i := range now.Features {
		f := &now.Features[i]
		used := l.Counters[i].Reading(f)
		reading := outbox.ReadingOf(f, used)
		var was outbox.Reading
		slot, carried := before.Slot(f.Feature)
		goesOn := l.was.Period == l.Sub.Period || f.Accumulate
		if carried && goesOn && int(slot) < int(l.was.Counters) {
			old := &before.Features[slot]
			was = outbox.ReadingOf(old, t.S.Counters.Reading(l.was.FirstCounter+slot, old))
			if l.was.Version == l.Sub.Version {
				was = was.And(t.S.Told.Of(
					l.was.FirstCounter+slot, l.was.Version, l.was.Period, f.Accumulate))
			}
		}
		if reading.Beyond(was) {
			for _, m := range outbox.LimitMessages(
				&l.Sub.HotSubscription, l.Catalog, f, used, was,
			) {
				told = append(told, reaching{m, i})
			}
		}
	}
	return told
}
