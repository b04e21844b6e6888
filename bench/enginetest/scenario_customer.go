package enginetest

import (
	"fmt"
	"math"
	"strings"

	"tollgate/engine/billing"
)

func (s *scenario) customer(l *line) string {
	name := l.word(0)
	return s.do(billing.KindCreateCustomer, &billing.CreateCustomer{
		Env: s.environment(l), ID: l.idOr("id", "customer "+name), ExternalID: name,
		FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com",
	})
}

// idOr is the id of a name, or of another when the line gives none.
func (l *line) idOr(key, otherwise string) [16]byte { return ID(l.value(key, otherwise)) }

// subscribe subscribes a customer to a plan. The subscription is called CUSTOMER/PLAN, or id=; its
// invoice like it, or invoice=; an entitlement SUBSCRIPTION/FEATURE.
func (s *scenario) subscribe(l *line) string {
	customer, plan := l.word(0), l.word(1)
	id := l.value("id", customer+"/"+plan)
	env := s.environment(l)
	if l.has("by-plan-id") {
		plan = fmt.Sprintf("%x", ID(fmt.Sprintf("plan %d %s", env, plan)))
		plan = strings.Join([]string{
			plan[:8], plan[8:12], plan[12:16], plan[16:20], plan[20:],
		}, "-")
	}
	return s.do(billing.KindCreateSubscription, &billing.CreateSubscription{
		Env: env, ID: ID(id), InvoiceID: ID("invoice " + l.value("invoice", id)),
		Customer: customer, Plan: plan, GraceDays: uint32(l.number("grace", 7)),
	})
}

// show prints a customer with its subscriptions.
func (s *scenario) show(l *customerLine) {
	fmt.Fprintf(l, "%s created %s\n", l.customer.ExternalID, show(l.customer.CreatedAt))
	for _, v := range s.m.Subscriptions(l.customer.Row) {
		fmt.Fprintf(l, "  %s version=%d active=%t %s to %s anchor=%d grace=%d\n", v.Plan.Key,
			v.Plan.Version, v.IsActive, show(v.PeriodStart), show(v.PeriodEnd), v.AnchorDay,
			v.GraceDays)
	}
}

// event records a usage event: event KEY customer=… name=… and what the body may have.
func (s *scenario) event(l *line) string {
	env, key := s.environment(l), l.word(0)
	c := &billing.RecordUsage{
		Env: env, Key: billing.UsageKey(env, []byte(key)), KeyText: []byte(key),
		Attempt:  uint32(l.number("attempt", int64(s.mint()))),
		Customer: []byte(l.value("customer", "")), CustomerID: l.id("customer-id", "customer "),
		EventName: []byte(l.value("name", "")), FeatureKey: []byte(l.value("feature", "")),
		Units:          l.decimal("units", "1"),
		OccurredAt:     s.m.EnvironmentNow(env, s.log.Stamp),
		SubscriptionID: l.id("subscription", ""), InvoiceID: l.id("invoice", "invoice "),
		FlowID: []byte(l.value("flow", "")), Budget: []byte(l.value("budget", "")),
		KeyBudget: s.boundTo(l),
	}
	c.OccurredAt = l.instantOr("at", c.OccurredAt, c.OccurredAt)
	if name := l.value("feature-id", ""); name != "" {
		c.FeatureID = ID(fmt.Sprintf("feature %d %s", env, name))
	}
	if text := l.value("entitlement", ""); text != "" {
		at := strings.LastIndexByte(text, '/')
		c.EntitlementID = EntitlementID(ID(text[:at]),
			ID(fmt.Sprintf("feature %d %s", env, text[at+1:])))
	}
	c.Cost, c.HasCost = l.optional("cost")
	return s.doPayload(billing.KindRecordUsage, c.Seal(nil))
}

// mint returns a new attempt tag.
func (s *scenario) mint() int {
	s.minted++
	return s.minted
}

// EntitlementID is the rule by which entitlements are named, stated a second time.
func EntitlementID(subscription, feature [16]byte) (id [16]byte) {
	for i := range id {
		id[i] = subscription[i] ^ feature[i]
	}
	id[6] = 0x80 | id[6]&15
	id[8] = 0x80 | id[8]&63
	return id
}

// check prints a decision: check CUSTOMER FEATURE [track=UNITS]. Without units it says too where
// the list of the customer's entitlements differs.
func (s *scenario) check(l *printer) {
	q := &billing.CheckQuery{
		Env: s.environment(l.line), Customer: []byte(l.word(0)), Feature: []byte(l.word(1)),
		Now: s.m.Clock(s.log.Stamp), Budget: []byte(l.value("budget", "")),
		KeyBudget: s.boundTo(l.line),
	}
	q.Units, q.Track = l.optional("track")
	var d billing.Decision
	s.m.Check(q, &d)
	fmt.Fprintf(l, "allowed=%t %s\n", d.Allowed(), d.Reason)
	l.WriteString(when(d.Refused.Budget != "", "%s\n", refusedText(&d.Refused)))
	if d.HasUsage {
		fmt.Fprintf(l, "used=%s", d.Used)
		l.WriteString(when(d.HasLimit, " limit=%s remaining=%s", d.Limit, d.Remaining))
		l.WriteString(when(!d.Held.IsZero(), " held=%s", d.Held))
		l.WriteString("\n")
	}
	if q.Track {
		fmt.Fprintf(l, "projected=%s exceed=%t", d.Projected, d.WouldExceed)
		l.WriteString(when(d.HasLimit, " remaining=%s", d.ProjectedRemaining))
		l.WriteString(when(d.HasCost, " cost=%s", d.ProjectedCost))
		l.WriteString("\n")
	} else {
		rows, _ := s.m.Entitlements(q.Env, l.word(0), q.Now)
		for _, row := range rows {
			same := row.FeatureKey == l.word(1) && row.SubscriptionID == d.SubscriptionID
			l.WriteString(when(same && row.Decision.Reason != d.Reason, "listed as %s\n",
				row.Decision.Reason))
		}
	}
}

// audit checks and records the answer: audit CUSTOMER FEATURE [sequence=…] [boot=…].
func (s *scenario) audit(l *line) string {
	q := &billing.CheckQuery{
		Env: s.environment(l), Customer: []byte(l.word(0)), Feature: []byte(l.word(1)),
		Now: s.m.Clock(s.log.Stamp),
	}
	var d billing.Decision
	s.m.Check(q, &d)
	var block billing.AuditBlock
	block.Reset(1, uint64(l.number("boot", 1)), uint64(l.number("sequence", int64(s.mint()))))
	block.Add(&billing.AuditCheck{
		Env: q.Env, CustomerRow: d.CustomerRow, CustomerText: q.Customer,
		FeatureNumber: d.FeatureNumber, FeatureText: q.Feature, Reason: d.Reason,
		At: d.EnvironmentTime, FlowID: []byte(l.value("flow", "")),
	})
	return s.doPayload(billing.KindRecordAudits, block.Encode(nil))
}

// events lists a customer's events: events CUSTOMER [from=…] [to=…] [kind=…] [limit=…].
func (s *scenario) events(l *customerLine) {
	q := billing.EventQuery{
		Customer: l.customer.Row, Limit: int(l.number("limit", 100)),
		From: l.instantOr("from", s.log.Stamp, math.MinInt64),
		To:   l.instantOr("to", s.log.Stamp, math.MaxInt64),
	}
	if text := l.value("kind", ""); text != "" {
		q.Kinds = []billing.EventKind{named[billing.EventKind](text)}
	}
	for page := 1; ; page++ {
		events, next, err := s.m.Events(s.src, q)
		l.must(err)
		for i := range events {
			l.event(&events[i])
		}
		if next.Index == 0 {
			return
		}
		fmt.Fprintf(l, "-- page %d\n", page+1)
		q.After = next
	}
}

func (l *customerLine) event(e *billing.EventView) {
	if e.Kind == billing.EventAudit {
		fmt.Fprintf(l, "%s audit feature=%s %s", show(e.OccurredAt), e.FeatureKey, e.Reason)
	} else {
		fmt.Fprintf(l, "%s %s %s feature=%s units=%s", show(e.OccurredAt),
			e.Kind, e.Key, either(e.FeatureKey, "-"), e.Units)
		l.WriteString(when(e.VoidedAt != 0, " voided %s", show(e.VoidedAt)))
		l.WriteString(when(e.HasCost, " cost=%s", e.Cost))
		l.WriteString(when(e.HasCredits, " credits=%s", e.Credits))
		l.WriteString(when(e.SubscriptionID == ([16]byte{}), " unattributed"))
	}
	l.WriteString(when(e.FlowID != "", " flow=%s", e.FlowID))
	l.WriteString("\n")
}

func (s *scenario) invoices(l *customerLine) {
	for _, v := range s.m.Invoices(l.env, l.customer.Row) {
		fmt.Fprintf(l, "%d %s %s %s due %s", v.Number, v.Status, v.Amount, v.Currency,
			show(v.DueDate))
		l.WriteString(when(v.PaidAt != 0, " paid %s", show(v.PaidAt)))
		l.WriteString("\n")
		lines(l, &v)
	}
}

// pay marks an invoice paid: pay SUBSCRIPTION (its initial invoice).
func (s *scenario) pay(l *line) string {
	return s.do(billing.KindMarkInvoicePaid, &billing.MarkInvoicePaid{
		Env: s.environment(l), ID: ID("invoice " + l.word(0)),
	})
}
