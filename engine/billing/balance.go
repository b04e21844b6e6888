package billing

import (
	"tollgate/engine/decimal"
	"tollgate/engine/page"
)

// balance is what a customer has to its credit in one currency: totals below zero that were
// carried forward. The customer's next invoices in that currency use it up.
type balance struct {
	amount         decimal.Decimal
	currency       [4]byte // ISO 4217
	customer, next uint32
}

var balanceCodec = page.Codec[balance]{
	Append: func(dst []byte, b *balance) []byte {
		dst = append(appendDecimal(dst, b.amount), b.currency[:]...)
		return appendU32(appendU32(dst, b.customer), b.next)
	},
	Read: func(src []byte, b *balance) ([]byte, error) {
		r := reader{rest: src}
		b.amount = r.decimal()
		copy(b.currency[:], r.take(len(b.currency)))
		b.customer, b.next = r.u32(), r.u32()
		return r.rest, r.err
	},
}

// balanceOf finds a customer's balance in a currency; 0 when there is none.
func (s *state) balanceOf(customer uint32, currency string) (row uint32) {
	row = s.customers.Read(customer).firstBalance
	for row != 0 {
		b := s.balances.Read(row)
		if string(b.currency[:len(currency)]) == currency {
			return row
		}
		row = b.next
	}
	return 0
}

// credit returns what the customer has to its credit in a currency.
func (s *state) credit(customer uint32, currency string) decimal.Decimal {
	if row := s.balanceOf(customer, currency); row != 0 {
		return s.balances.Read(row).amount
	}
	return decimal.Decimal{}
}

// setCredit sets a customer's balance. The customer's lock is held.
func (t *turn) setCredit(customer uint32, currency string, amount decimal.Decimal) {
	row := t.balanceOf(customer, currency)
	if row == 0 {
		if amount.IsZero() {
			return
		}
		c := t.customers.Write(customer)
		var b *balance
		row, b = t.balances.Append()
		*b = balance{customer: customer, next: c.firstBalance}
		copy(b.currency[:], currency)
		c.firstBalance = row
	}
	t.balances.Write(row).amount = amount
	t.foldDecimal(amount)
}
