package enginetest

import (
	"fmt"
	"slices"
	"strings"

	"tollgate/engine/billing"
)

func hookID(name string) [16]byte { return ID("webhook endpoint " + name) }

// webhookLines are the commands about webhooks.
type webhookLines struct{ *scenario }

// hook makes a webhook endpoint: hook NAME [events=a,b] [url=…].
func (s webhookLines) hook(l *line) string {
	name := l.word(0)
	events, ok := webhookEvents(l)
	if !ok {
		return "no such event"
	}
	return s.do(billing.KindCreateWebhookEndpoint, &billing.CreateWebhookEndpoint{
		Env: s.environment(l), ID: hookID(name), Events: events, Secret: []byte{1},
		URL: l.value("url", "https://hooks.example/"+name),
	})
}

func webhookEvents(l *line) (billing.WebhookEvents, bool) {
	text := l.value("events", "")
	if text == "" {
		return 0, true
	}
	return billing.WebhookEventsOf(strings.Split(text, ","))
}

// hookSet changes an endpoint: hook-set NAME [events=…] [on|off].
func (s webhookLines) hookSet(l *line) string {
	c := &billing.UpdateWebhookEndpoint{Env: s.environment(l)}
	if l.has("on") {
		c.Set, c.Enabled = c.Set|billing.WebhookEnabled, true
	}
	if l.has("off") {
		c.Set |= billing.WebhookEnabled
	}
	if l.d.HasArg("events") {
		c.Set |= billing.WebhookEventSet
		c.Events, _ = webhookEvents(l)
	}
	c.ID = hookID(l.word(0))
	return s.do(billing.KindUpdateWebhookEndpoint, c)
}

func (s webhookLines) unhook(l *line) string {
	return s.do(billing.KindDeleteWebhookEndpoint, &billing.DeleteWebhookEndpoint{
		Env: s.environment(l), ID: hookID(l.word(0)),
	})
}

// hooks lists an environment's endpoints.
func (s webhookLines) hooks(l *printer) {
	for _, v := range s.m.WebhookEndpoints(s.environment(l.line)) {
		fmt.Fprintf(l, "%s %s pending=%d delivered=%d failed=%d skipped=%d", v.URL,
			either(v.Off.String(), "on"), v.Pending, v.Delivered, v.Failed, v.Skipped)
		l.WriteString(when(v.FailingSince != 0, " failing since %s", show(v.FailingSince)))
		l.WriteString("\n")
	}
}

// messages lists an endpoint's deliveries, oldest first.
func (s webhookLines) messages(l *line) string {
	views, _, ok := s.m.WebhookDeliveries(&billing.DeliveryQuery{
		Env: s.environment(l), Endpoint: hookID(l.word(0)), Limit: 1000,
		Status: l.value("status", ""),
	})
	if !ok {
		return "unknown"
	}
	slices.Reverse(views)
	var b strings.Builder
	for i := range views {
		v := &views[i]
		fmt.Fprintf(&b, "%s %s %s", show(v.Message.At), told(&v.Message), v.Status)
		b.WriteString(when(v.Attempts > 0, " attempts=%d", v.Attempts))
		b.WriteString("\n")
	}
	return either(b.String(), "none")
}

// told says in a few words what a message tells.
func told(m *billing.WebhookMessage) string {
	text := m.Type.String() + " " + m.Customer
	switch {
	case m.InvoiceID != [16]byte{}:
		text += fmt.Sprintf(" #%d %s %s %s", m.Number, m.Status, m.Amount, m.Currency)
		text += when(m.Provider != "", " by %s %s %s: %s", m.Provider, m.Paid, m.PaidCurrency,
			m.PaidResult)
	case m.PoolName != "":
		text += fmt.Sprintf(" %s balance=%s", m.PoolName, m.Balance)
		if m.Credits.Sign() != 0 {
			text += fmt.Sprintf(" %s for %s %s %s", m.Credits, m.Amount, m.Currency, m.Code)
		}
	case m.FeatureKey != "":
		text += fmt.Sprintf(" %s %s of %s hard=%t", m.FeatureKey, m.Used, m.Limit, m.HardLimit)
		if m.Type == billing.WebhookUsageThreshold {
			text += fmt.Sprintf(" at %d%%", m.Percent)
		}
	default:
		text += fmt.Sprintf(" %s active=%t", m.PlanKey, m.Active)
		text += when(m.CancelMode != 0, " cancelled")
		text += when(m.ScheduledPlan != "", " then %s", m.ScheduledPlan)
	}
	return text
}

// deliver sends what is due, once: deliver [delivered|retry|gone|blocked|expired] [wait=5m].
func (s webhookLines) deliver(l *line) string {
	outcome := billing.AttemptDelivered
	for o := billing.AttemptDelivered; o <= billing.AttemptExpired; o++ {
		if l.has(o.String()) {
			outcome = o
		}
	}
	wait := l.span("wait")
	due := s.m.DueWebhooks(s.log.Stamp, 1000, func([16]byte) int { return 1000 },
		func(uint64) bool { return false })
	slices.SortFunc(due, func(a, b billing.DueDelivery) int {
		return int(a.Delivery.Sequence) - int(b.Delivery.Sequence)
	})
	var b strings.Builder
	for i := range due {
		d := &due[i]
		status := uint32(500)
		if outcome == billing.AttemptDelivered {
			status = 204
		}
		r := s.do(billing.KindRecordDelivery, &billing.RecordDelivery{
			Env: d.Env, Endpoint: d.Endpoint.ID, Row: d.Delivery.Row, Sequence: d.Delivery.Sequence,
			Attempt: d.Delivery.Attempts + 1, Outcome: outcome, Status: status, RetryMS: wait,
		})
		fmt.Fprintf(&b, "%s %s %s\n", d.Endpoint.URL, told(&d.Delivery.Message), r)
	}
	return either(b.String(), "nothing is due")
}

// resend sends a delivery once more: resend NAME N, the N-th of messages from 1.
func (s webhookLines) resend(l *line) string {
	env, id, n := s.environment(l), hookID(l.word(0)), 0
	if _, err := fmt.Sscan(l.word(1), &n); err != nil {
		l.d.Fatalf(l.t, "%v", err)
	}
	views, _, _ := s.m.WebhookDeliveries(&billing.DeliveryQuery{Env: env, Endpoint: id, Limit: 1000})
	c := &billing.ResendWebhook{Env: env, Endpoint: id, Row: 1, Sequence: 1 << 40}
	if n <= len(views) {
		v := &views[len(views)-n]
		c.Row, c.Sequence = v.Row, v.Sequence
	}
	return s.do(billing.KindResendWebhook, c)
}

// payment reports a payment of an invoice: payment CUSTOMER NUMBER event= amount=.
func (s *scenario) payment(l *line, env uint32, id [16]byte) string {
	return s.do(billing.KindRecordPayment, &billing.RecordPayment{
		Env: env, Provider: "sandbox", EventID: l.value("event", "e"), InvoiceID: id,
		Amount: l.decimal("amount", "0"), Currency: "USD",
	})
}
