package billing

import (
	"strconv"

	"tollgate/engine"
	"tollgate/engine/wire"
)

const (
	// DefaultPaymentTermDays is how long after its issue an invoice falls due, unless the environment
	// says otherwise; MaxPaymentTermDays is the most that it may say.
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
	Env   uint32
	Days  uint32 // 0–365
	Actor string
	// KeepDays leaves the days as they are; SetSettle says that SettleMinutes, 0–10,080, is meant.
	KeepDays, SetSettle bool
	SettleMinutes       uint32
}

// Fields states the command's fields.
func (c *SetPaymentTerms) Fields(w *wire.Codec) {
	wire.Uint(w, 1, &c.Env)
	wire.Uint(w, 2, &c.Days)
	w.String(3, &c.Actor)
	w.Bool(4, &c.KeepDays)
	w.Bool(5, &c.SetSettle)
	wire.Uint(w, 6, &c.SettleMinutes)
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
	t.fold(uint64(after.Days)<<32 | uint64(after.SettleMinutes))
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
type paymentTerms struct {
	Days, SettleMinutes uint32
	Set                 bool // they were set once: 0 days are not the standard
}

// Fields states the terms' fields; 2 and 3 were the terms before these.
func (p *paymentTerms) Fields(w *wire.Codec) {
	wire.Uint(w, 1, &p.Days)
	w.Bool(4, &p.Set)
	wire.Uint(w, 5, &p.SettleMinutes)
}

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
