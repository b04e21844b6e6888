package book

// PaymentResult says what a payment did.
type PaymentResult uint8

const (
	// PaymentApplied: it made its invoice PAID.
	PaymentApplied PaymentResult = 1
	// PaymentOver: the invoice was PAID already.
	PaymentOver PaymentResult = 2
	// PaymentMismatch: amount or currency are not the invoice's.
	PaymentMismatch PaymentResult = 3
	// PaymentUnexpected: the invoice takes no payment: void or pending.
	PaymentUnexpected PaymentResult = 4
	// PaymentIgnored: what was reported is not a payment.
	PaymentIgnored PaymentResult = 5
)

// String is the result's name in the admin API.
func (r PaymentResult) String() string {
	names := [...]string{"none", "applied", "overpaid", "mismatch", "unexpected", "ignored"}
	if int(r) < len(names) {
		return names[r]
	}
	return names[0]
}
