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
// on. The terms that stand already are the same success again.
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

	e.terms.Store(&paymentTerms{Days: c.Days, Earlier: before.Days, Since: e.now(t.stamp)})
	t.fold(uint64(c.Days))
	t.note(change{
		Env: c.Env, Actor: c.Actor, Action: "payment-terms.set",
		Values: []FieldChange{{
			"days", strconv.FormatUint(uint64(before.Days), 10), strconv.FormatUint(uint64(c.Days), 10),
		}},
	})
	return engine.OutcomeDone
}

// paymentTerms are an environment's. What fell due to be issued before Since is issued by the
// Earlier ones, also when it is issued after.
type paymentTerms struct {
	Days, Earlier uint32
	Since         int64 // on the environment's clock; 0: they were never set
}

// Fields states the terms' fields.
func (p *paymentTerms) Fields(w *wire.Codec) {
	wire.Uint(w, 1, &p.Days)
	wire.Uint(w, 2, &p.Earlier)
	w.Int(3, &p.Since)
}

func (e *environment) paymentTerms() paymentTerms {
	if p := e.terms.Load(); p != nil {
		return *p
	}
	return paymentTerms{Days: DefaultPaymentTermDays}
}

// dueOf is when an invoice falls due that is issued at an instant.
func (e *environment) dueOf(issued int64) int64 {
	p := e.paymentTerms()
	days := p.Days
	if issued < p.Since {
		days = p.Earlier
	}
	return issued + int64(days)*dayMS
}

// PaymentTermDays is how many days after its issue an environment's invoice falls due.
func (m *Machine) PaymentTermDays(env uint32) uint32 {
	e := m.state.Load().environment(env)
	if e == nil {
		return DefaultPaymentTermDays
	}
	return e.paymentTerms().Days
}
