package enginetest

import (
	"fmt"
	"math"
	"strings"

	"tollgate/engine/billing"
)

func (s *scenario) customer(l *line) string {
	name := l.word(0)
	return s.outcome(s.log.Do(billing.KindCreateCustomer, &billing.CreateCustomer{
		Env: s.environment(l), ID: l.idOr("id", "customer "+name), ExternalID: name,
		FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com",
	}))
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
	return s.outcome(s.log.Do(billing.KindCreateSubscription, &billing.CreateSubscription{
		Env: env, ID: ID(id), InvoiceID: ID("invoice " + l.value("invoice", id)),
		Customer: customer, Plan: plan, GraceDays: uint32(l.number("grace", 7)),
	}))
}

// show prints a customer with its subscriptions.
func (s *scenario) show(l *line) string {
	c, ok := s.m.Customer(s.environment(l), l.word(0))
	if !ok {
		return "unknown"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s created %s\n", c.ExternalID, show(c.CreatedAt))
	for _, v := range s.m.Subscriptions(c.Row) {
		fmt.Fprintf(&b, "  %s version=%d active=%t %s to %s anchor=%d grace=%d\n", v.Plan.Key,
			v.Plan.Version, v.IsActive, show(v.PeriodStart), show(v.PeriodEnd), v.AnchorDay,
			v.GraceDays)
	}
	return b.String()
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
		FlowID: []byte(l.value("flow", "")),
	}
	if text := l.value("at", ""); text != "" {
		c.OccurredAt = l.instant(text, c.OccurredAt)
	}
	if name := l.value("feature-id", ""); name != "" {
		c.FeatureID = ID(fmt.Sprintf("feature %d %s", env, name))
	}
	if text := l.value("entitlement", ""); text != "" {
		at := strings.LastIndexByte(text, '/')
		c.EntitlementID = EntitlementID(ID(text[:at]),
			ID(fmt.Sprintf("feature %d %s", env, text[at+1:])))
	}
	if cost := l.value("cost", ""); cost != "" {
		c.HasCost = true
		c.Cost = l.decimal("cost", "")
		l.used--
	}
	return s.outcome(s.log.DoPayload(billing.KindRecordUsage, c.Seal(nil)))
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
func (s *scenario) check(l *line) string {
	q := &billing.CheckQuery{
		Env: s.environment(l), Customer: []byte(l.word(0)), Feature: []byte(l.word(1)),
		Now: s.m.Clock(s.log.Stamp),
	}
	if text := l.value("track", ""); text != "" {
		q.Track, q.Units = true, l.decimal("track", "")
		l.used--
	}
	var d billing.Decision
	s.m.Check(q, &d)
	var b strings.Builder
	fmt.Fprintf(&b, "allowed=%t %s\n", d.Allowed(), d.Reason)
	if d.HasUsage {
		fmt.Fprintf(&b, "used=%s", d.Used)
		if d.HasLimit {
			fmt.Fprintf(&b, " limit=%s remaining=%s", d.Limit, d.Remaining)
		}
		b.WriteString("\n")
	}
	if q.Track {
		fmt.Fprintf(&b, "projected=%s exceed=%t", d.Projected, d.WouldExceed)
		if d.HasLimit {
			fmt.Fprintf(&b, " remaining=%s", d.ProjectedRemaining)
		}
		if d.HasCost {
			fmt.Fprintf(&b, " cost=%s", d.ProjectedCost)
		}
		b.WriteString("\n")
	} else {
		rows, _ := s.m.Entitlements(q.Env, l.word(0), q.Now)
		for _, row := range rows {
			same := row.FeatureKey == l.word(1) && row.SubscriptionID == d.SubscriptionID
			if same && row.Decision.Reason != d.Reason {
				fmt.Fprintf(&b, "listed as %s\n", row.Decision.Reason)
			}
		}
	}
	return b.String()
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
	return s.outcome(s.log.DoPayload(billing.KindRecordAudits, block.Encode(nil)))
}

// events lists a customer's events: events CUSTOMER [from=…] [to=…] [kind=…] [limit=…].
func (s *scenario) events(l *line) string {
	c, ok := s.m.Customer(s.environment(l), l.word(0))
	if !ok {
		return "unknown"
	}
	q := billing.EventQuery{
		Customer: c.Row, From: math.MinInt64, To: math.MaxInt64, Limit: int(l.number("limit", 100)),
	}
	if text := l.value("from", ""); text != "" {
		q.From = l.instant(text, s.log.Stamp)
	}
	if text := l.value("to", ""); text != "" {
		q.To = l.instant(text, s.log.Stamp)
	}
	kinds := map[string]billing.EventKind{
		"usage": billing.EventUsage, "audit": billing.EventAudit, "void": billing.EventVoid,
		"amend": billing.EventAmend,
	}
	if text := l.value("kind", ""); text != "" {
		q.Kinds = []billing.EventKind{kinds[text]}
	}
	var b strings.Builder
	for page := 1; ; page++ {
		events, next, err := s.m.Events(s.src, q)
		if err != nil {
			l.d.Fatalf(l.t, "%v", err)
		}
		for i := range events {
			s.listed(&b, &events[i])
		}
		if next.Index == 0 {
			return either(b.String(), "none")
		}
		fmt.Fprintf(&b, "-- page %d\n", page+1)
		q.After = next
	}
}

func (s *scenario) listed(b *strings.Builder, e *billing.EventView) {
	if e.Kind == billing.EventAudit {
		fmt.Fprintf(b, "%s audit feature=%s %s", show(e.OccurredAt), e.FeatureKey, e.Reason)
	} else {
		kind := map[billing.EventKind]string{billing.EventVoid: "void", billing.EventAmend: "amend"}
		fmt.Fprintf(b, "%s %s %s feature=%s units=%s", show(e.OccurredAt),
			either(kind[e.Kind], "usage"), e.Key, either(e.FeatureKey, "-"), e.Units)
		if e.VoidedAt != 0 {
			fmt.Fprintf(b, " voided %s", show(e.VoidedAt))
		}
		if e.HasCost {
			fmt.Fprintf(b, " cost=%s", e.Cost)
		}
		if e.HasCredits {
			fmt.Fprintf(b, " credits=%s", e.Credits)
		}
		if e.SubscriptionID == ([16]byte{}) {
			b.WriteString(" unattributed")
		}
	}
	if e.FlowID != "" {
		fmt.Fprintf(b, " flow=%s", e.FlowID)
	}
	b.WriteString("\n")
}

func (s *scenario) invoices(l *line) string {
	env := s.environment(l)
	c, ok := s.m.Customer(env, l.word(0))
	if !ok {
		return "unknown"
	}
	var b strings.Builder
	for _, v := range s.m.Invoices(env, c.Row) {
		fmt.Fprintf(&b, "%d %s %s %s due %s", v.Number, v.Status, v.Amount, v.Currency,
			show(v.DueDate))
		if v.PaidAt != 0 {
			fmt.Fprintf(&b, " paid %s", show(v.PaidAt))
		}
		b.WriteString("\n")
		lines(&b, &v)
	}
	return either(b.String(), "none")
}

// pay marks an invoice paid: pay SUBSCRIPTION (its initial invoice).
func (s *scenario) pay(l *line) string {
	return s.outcome(s.log.Do(billing.KindMarkInvoicePaid, &billing.MarkInvoicePaid{
		Env: s.environment(l), ID: ID("invoice " + l.word(0)),
	}))
}
