package billing

import (
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/outbox"
	"tollgate/engine/decimal"
)

// tellReached queues a message when a usage event is the one that has reached its feature's limit;
// before is what the counter held.
func (t *turn) tellReached(u *usage, before decimal.Decimal) {
	b := t.Subscriptions.Read(u.place.Subscription)
	e := t.Environment(t.Customers.Read(u.customer).Env)
	if f := u.place.Feature; e.Wants(accounts.WebhookLimitReached) && !f.Full(before) &&
		f.Full(u.counted.Reading(f)) {
		m := outbox.LimitMessage(&b.UsualSubscription, e.Catalog.Load(), f, u.counted.Reading(f))
		m.At = u.recordedAt
		t.Tell(e, u.customer, &m)
	}
}
