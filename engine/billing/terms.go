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
)

// SetPaymentTerms says how long after their issue invoices fall due: those that are issued from now
// on. What fell due to be issued before is issued first, by the terms that stood then. The terms
// that stand already are the same success again.
type SetPaymentTerms struct {
	Env   uint32
	Days  uint32 // 0–365
	Actor string
}

// Fields states the command's fields.
func (c *SetPaymentTerms) Fields(w *wire.Codec) {
	wire.Uint(w, 1, &c.Env)
	wire.Uint(w, 2, &c.Days)
	w.String(3, &c.Actor)
}

func (c *SetPaymentTerms) apply(t *turn) engine.Outcome {
	e := t.environment(c.Env)
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	if c.Days > MaxPaymentTermDays {
		return engine.OutcomeOverflow
	}
	before := e.paymentTerms()
	if before.Days == c.Days {
		return engine.OutcomeDone
	}
	if !t.sweep(e) {
		return engine.OutcomeDeferred
	}

	e.terms.Store(&paymentTerms{Days: c.Days, Set: true})
	t.fold(uint64(c.Days))
	t.note(change{
		Env: c.Env, Actor: c.Actor, Action: "payment-terms.set",
		Values: []FieldChange{{
			"days", strconv.FormatUint(uint64(before.Days), 10), strconv.FormatUint(uint64(c.Days), 10),
		}},
	})
	return engine.OutcomeDone
}

// paymentTerms are an environment's. Each invoice keeps the due date that they gave it.
type paymentTerms struct {
	Days uint32
	Set  bool // they were set once: 0 days are not the standard
}

// Fields states the terms' fields; 2 and 3 were the terms before these.
func (p *paymentTerms) Fields(w *wire.Codec) {
	wire.Uint(w, 1, &p.Days)
	w.Bool(4, &p.Set)
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

// PaymentTermDays is how many days after its issue an environment's invoice falls due.
func (m *Machine) PaymentTermDays(env uint32) uint32 {
	e := m.state.Load().environment(env)
	if e == nil {
		return DefaultPaymentTermDays
	}
	return e.paymentTerms().Days
}
