package billing

import (
	"strconv"

	"tollgate/engine"
)

const (
	// DefaultPaymentTermDays is how long after its issue an invoice falls due, unless the
	// environment says otherwise; MaxPaymentTermDays is the most that it may say.
	DefaultPaymentTermDays = 7
	MaxPaymentTermDays     = 365
	// MaxSettleMinutes is how long at most the invoice of a period waits for late usage: 7 days,
	// less than any period lasts.
	MaxSettleMinutes = 7 * 24 * 60
)

// SetPaymentTerms says how long after their issue invoices fall due, and how long after their
// period's end they are issued: those of which neither has happened yet. The terms that stand
// already are the same success again.
type SetPaymentTerms struct {
	Env   uint32 `wire:"1"`
	Days  uint32 `wire:"2"` // 0–365
	Actor string `wire:"3"`
	// KeepDays leaves the days as they are; SetSettle reports whether SettleMinutes, 0–10,080, is
	// meant.
	KeepDays      bool   `wire:"4"`
	SetSettle     bool   `wire:"5"`
	SettleMinutes uint32 `wire:"6"`
}

func (c *SetPaymentTerms) apply(t *turn) engine.Outcome {
	e := t.environment(c.Env)
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	before := e.paymentTerms()
	after := before
	if !c.KeepDays {
		after.Days = c.Days
	}
	if c.SetSettle {
		after.SettleMinutes = c.SettleMinutes
	}
	if after.Days > MaxPaymentTermDays || after.SettleMinutes > MaxSettleMinutes {
		return engine.OutcomeOverflow
	}
	if before == after {
		return engine.OutcomeDone
	}
	// What should have happened under the terms of before does so first.
	if !t.sweep(e) {
		return engine.OutcomeDeferred
	}

	after.Set = true
	e.terms.Store(&after)
	t.Fold(uint64(after.Days)<<32 | uint64(after.SettleMinutes))
	number := func(n uint32) string { return strconv.FormatUint(uint64(n), 10) }
	t.note(change{
		Env: c.Env, Actor: c.Actor, Action: "payment-terms.set",
		Values: []FieldChange{
			{"days", number(before.Days), number(after.Days)},
			{"settleMinutes", number(before.SettleMinutes), number(after.SettleMinutes)},
		},
	})
	return engine.OutcomeDone
}

// paymentTerms are an environment's. Each invoice keeps the due date that they gave it.
// Numbers 2 and 3 were the terms before these, and are not given again.
type paymentTerms struct {
	Days          uint32 `wire:"1"`
	SettleMinutes uint32 `wire:"5"`
	Set           bool   `wire:"4"` // they were set once: 0 days are not the standard
}

// paymentTerms are those of SetPaymentTerms.
func (e *environment) paymentTerms() paymentTerms {
	if p := e.terms.Load(); p != nil {
		return *p
	}
	return paymentTerms{Days: DefaultPaymentTermDays}
}

// dueOf is when an invoice falls due that is issued at an instant.
func (e *environment) dueOf(issued int64) int64 {
	return issued + int64(e.paymentTerms().Days)*dayMS
}

// settleMS is how long after its period's end an invoice is issued.
func (e *environment) settleMS() int64 { return int64(e.paymentTerms().SettleMinutes) * 60_000 }

// PaymentTerms says how many days after its issue an environment's invoice falls due, and how many
// minutes after its period's end it is issued.
func (m *Machine) PaymentTerms(env uint32) (days, settleMinutes uint32) {
	e := m.state.Load().environment(env)
	if e == nil {
		return DefaultPaymentTermDays, 0
	}
	p := e.paymentTerms()
	return p.Days, p.SettleMinutes
}
