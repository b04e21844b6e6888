package enginetest

import (
	"fmt"
	"io"
	"strings"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
)

// cancel cancels a subscription: cancel SUBSCRIPTION [now|by-customer].
func (s *scenario) cancel(l *line) string {
	mode := billing.CancelAtPeriodEnd
	switch {
	case l.has("now"):
		mode = billing.CancelImmediate
	case l.has("by-customer"):
		mode = billing.CancelByCustomer
	}
	return s.do(billing.KindCancelSubscription, &billing.CancelSubscription{
		Env: s.environment(l), ID: ID(l.word(0)), Mode: mode,
	})
}

// revert takes a cancellation back: revert SUBSCRIPTION [by-customer].
func (s *scenario) revert(l *line) string {
	r := s.log.Do(billing.KindRevertCancellation, &billing.RevertCancellation{
		Env: s.environment(l), ID: ID(l.word(0)), ByCustomer: l.has("by-customer"),
	})
	answer := s.outcome(r)
	var reply billing.RevertReply
	if r.Value != nil && wire.Decode(r.Value, &reply) == nil {
		answer += fmt.Sprintf(": pay %d of %s %s", reply.Number, reply.Amount, reply.Currency)
	}
	return answer
}

// upgrade and downgrade change a plan: upgrade SUBSCRIPTION PLAN [id=…].
func (s *scenario) upgrade(l *line) string   { return s.change(l, billing.ChangeUpgrade) }
func (s *scenario) downgrade(l *line) string { return s.change(l, billing.ChangeDowngrade) }

func (s *scenario) change(l *line, kind billing.ChangeType) string {
	return s.do(billing.KindChangePlan, &billing.ChangePlan{
		Env: s.environment(l), ID: ID(l.word(0)), Plan: l.word(1), Type: kind,
		ChangeID: ID(l.value("id", fmt.Sprint("change ", s.mint()))),
	})
}

func (s *scenario) cancelChange(l *line) string {
	return s.do(billing.KindCancelPlanChange, &billing.CancelPlanChange{
		Env: s.environment(l), ID: ID(l.word(0)),
	})
}

// changes lists a subscription's plan changes.
func (s *scenario) changes(l *line) string {
	all, ok := s.m.PlanChanges(s.environment(l), ID(l.word(0)))
	if !ok {
		return "unknown"
	}
	var b strings.Builder
	for i := range all {
		c := &all[i]
		fmt.Fprintf(&b, "%s %s to %s %s at %s\n", c.Type, c.From.Key, c.To.Key,
			c.Status, show(c.EffectiveAt))
	}
	return either(b.String(), "none")
}

// subscription prints one subscription with what is scheduled for it.
func (s *scenario) subscription(l *line) string {
	v, ok := s.m.Subscription(s.environment(l), ID(l.word(0)))
	if !ok {
		return "unknown"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s active=%t %s to %s\n", v.Plan.Key, v.IsActive, show(v.PeriodStart),
		show(v.PeriodEnd))
	if v.CancelMode != 0 {
		by := ""
		if v.CancelledByCustomer {
			by = " by the customer"
		}
		fmt.Fprintf(&b, "cancel %s asked %s effective %s%s\n", v.CancelMode,
			show(v.CancelledAt), show(v.CancelEffectiveAt), by)
	}
	b.WriteString(when(v.SuspendedAt != 0, "suspended %s\n", show(v.SuspendedAt)))
	if c := v.ScheduledChange; c != nil {
		fmt.Fprintf(&b, "scheduled %s to %s at %s\n", c.Type, c.To.Key,
			show(c.EffectiveAt))
	}
	return b.String()
}

// settle lets everything happen that is due by now, tick by tick, and says how many it took.
func (s *scenario) settle(*line) string {
	ticks := 0
	for at := s.m.NextDue(); at != 0 && at <= s.log.Stamp; at = s.m.NextDue() {
		s.log.DoPayload(engine.KindTick, nil)
		ticks++
	}
	return fmt.Sprintf("%d ticks", ticks)
}

// clock moves the sandbox's clock: clock TIME.
func (s *scenario) clock(l *line) string {
	env := s.environment(l)
	answer := s.do(billing.KindAdvanceClock, &billing.AdvanceClock{
		Env: env, To: l.instant(l.word(0), s.m.EnvironmentNow(env, s.log.Stamp)),
	})
	settled := s.m.ClockSettled(env)
	s.settle(l)
	return fmt.Sprintf("%s at %s settled=%t", answer,
		show(s.m.EnvironmentNow(env, s.log.Stamp)), settled)
}

// terms says how long after their issue invoices fall due, and how long after their period's end
// they are issued: terms [days=…] [settle=…].
func (s *scenario) terms(l *line) string {
	env := s.environment(l)
	days, settle := l.number("days", -1), l.number("settle", -1)
	c := &billing.SetPaymentTerms{
		Env: env, KeepDays: days < 0, Days: uint32(max(days, 0)),
		SetSettle: settle >= 0, SettleMinutes: uint32(max(settle, 0)),
	}
	answer := s.do(billing.KindSetPaymentTerms, c)
	stands, minutes := s.m.PaymentTerms(env)
	if minutes == 0 && !c.SetSettle {
		return fmt.Sprintf("%s: %d days", answer, stands)
	}
	return fmt.Sprintf("%s: %d days, %d minutes", answer, stands, minutes)
}

// void and amend correct an event: void KEY, amend KEY units=….
func (s *scenario) void(l *line) string {
	ref, answer := s.find(l)
	if answer != "" {
		return answer
	}
	env := s.environment(l)
	return s.do(billing.KindVoidUsage, &billing.VoidUsage{
		Env: env, Key: billing.UsageKey(env, []byte(l.word(0))), Original: ref,
		Reason: l.value("reason", ""),
	})
}

func (s *scenario) amend(l *line) string {
	ref, answer := s.find(l)
	if answer != "" {
		return answer
	}
	env := s.environment(l)
	return s.do(billing.KindAmendUsage, &billing.AmendUsage{
		Env: env, Key: billing.UsageKey(env, []byte(l.word(0))), Original: ref,
		Units: l.decimal("units", "1"), ID: ID(fmt.Sprint("amendment ", s.mint())),
	})
}

func (s *scenario) find(l *line) (ref billing.UsageRef, answer string) {
	env := s.environment(l)
	ref, found, err := s.m.FindUsage(s.src, s.src, env, billing.UsageKey(env, []byte(l.word(0))))
	l.used--
	l.must(err)
	if !found {
		l.used++
		return ref, "not found"
	}
	return ref, ""
}

// upcoming previews the PENDING invoice of a subscription.
func (s *scenario) upcoming(l *line) string {
	v, ok := s.m.Upcoming(s.environment(l), ID(l.word(0)))
	if !ok {
		return "none"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", v.Amount, v.Currency)
	lines(&b, &v)
	return b.String()
}

// pendingInvoices previews all PENDING invoices of a customer.
func (s *scenario) pendingInvoices(l *customerLine) {
	for _, v := range s.m.PendingInvoices(l.env, l.customer.Row) {
		fmt.Fprintf(l, "%s to %s due %s: %s %s\n", show(v.PeriodStart)[:10],
			show(v.PeriodEnd)[:10], show(v.DueDate), v.Amount, v.Currency)
		lines(l, &v)
	}
}

// lines prints an invoice's lines; the period where it is not the invoice's own.
func lines(b io.Writer, v *billing.InvoiceView) {
	for i := range v.Items {
		item := &v.Items[i]
		fmt.Fprintf(b, "  %s: %s × %s = %s", item.Description, item.Quantity, item.UnitPrice,
			item.Amount)
		if item.PeriodStart != v.PeriodStart || item.PeriodEnd != v.PeriodEnd {
			fmt.Fprintf(b, " (%s to %s)", show(item.PeriodStart)[:10], show(item.PeriodEnd)[:10])
		}
		fmt.Fprintln(b)
	}
}

// verify explains all invoices of a customer and says which differ.
func (s *scenario) verify(l *customerLine) {
	v, err := s.m.VerifyInvoices(s.src, l.env, []uint32{l.customer.Row})
	l.must(err)
	for _, d := range v.Differences {
		fmt.Fprintf(l, "%d: %s\n", d.Number, d.Problem)
	}
	for _, stored := range s.m.Invoices(l.env, l.customer.Row) {
		if stored.Number == 0 {
			continue
		}
		x, _, err := s.m.Explain(s.src, l.env, stored.ID)
		l.must(err)
		fmt.Fprintf(l, "%d equal=%t counted=%v\n", stored.Number, x.Equal, x.Counted)
	}
}

// ofInvoice is the function of a command about an invoice that it names by CUSTOMER NUMBER.
func ofInvoice(
	f func(s *scenario, l *line, env uint32, id [16]byte) string,
) func(*scenario, *line) string {
	return func(s *scenario, l *line) string {
		number := l.word(1)
		if c, ok := s.about(l); ok {
			if id, ok := s.numbered(c.env, c.customer.Row, number); ok {
				return f(s, l, c.env, id)
			}
		}
		return "unknown"
	}
}

// payNumber pays an invoice by its number: pay-number CUSTOMER NUMBER; void-invoice likewise.
func (s *scenario) payNumber(_ *line, env uint32, id [16]byte) string {
	return s.do(billing.KindMarkInvoicePaid, &billing.MarkInvoicePaid{Env: env, ID: id})
}

func (s *scenario) voidInvoice(_ *line, env uint32, id [16]byte) string {
	return s.do(billing.KindVoidInvoice, &billing.VoidInvoice{Env: env, ID: id})
}

// payPending pays the PENDING invoice of a subscription.
func (s *scenario) payPending(l *line) string {
	env := s.environment(l)
	v, ok := s.m.Upcoming(env, ID(l.word(0)))
	if !ok {
		return "none"
	}
	return s.payNumber(l, env, v.ID)
}
