package book

// PaymentResult is the effect of a payment.
//
//schema:enum
type PaymentResult uint8

const (
	_ PaymentResult = 0 // none
	// PaymentApplied: it made its invoice PAID.
	PaymentApplied PaymentResult = 1 // applied
	// PaymentOver: the invoice was PAID already.
	PaymentOver PaymentResult = 2 // overpaid
	// PaymentMismatch: amount or currency differ from the invoice's.
	PaymentMismatch PaymentResult = 3 // mismatch
	// PaymentUnexpected: the invoice takes no payment: void or pending.
	PaymentUnexpected PaymentResult = 4 // unexpected
	// PaymentIgnored: the report is not a payment.
	PaymentIgnored PaymentResult = 5 // ignored
)
