package accounts

const (
	// DefaultPaymentTermDays is how long after its issue an invoice falls due, unless the
	// environment says otherwise; MaxPaymentTermDays is the most that it may say.
	DefaultPaymentTermDays = 7
	MaxPaymentTermDays     = 365
	// MaxSettleMinutes is how long at most the invoice of a period waits for late usage: 7 days,
	// less than any period lasts.
	MaxSettleMinutes = 7 * 24 * 60
)

// PaymentTerms are an environment's. Each invoice keeps the due date that they gave it.
// Numbers 2 and 3 were the terms before these, and are not given again.
type PaymentTerms struct {
	Days          uint32 `wire:"1"`
	SettleMinutes uint32 `wire:"5"`
	Set           bool   `wire:"4"` // they were set once: 0 days are not the standard
}

// PaymentTerms are those of SetPaymentTerms.
func (e *Environment) PaymentTerms() PaymentTerms {
	if p := e.Terms.Load(); p != nil {
		return *p
	}
	return PaymentTerms{Days: DefaultPaymentTermDays}
}

// DueOf is when an invoice falls due that is issued at an instant.
func (e *Environment) DueOf(issued int64) int64 {
	return issued + int64(e.PaymentTerms().Days)*DayMS
}

// SettleMS is how long after its period's end an invoice is issued.
func (e *Environment) SettleMS() int64 { return int64(e.PaymentTerms().SettleMinutes) * 60_000 }
