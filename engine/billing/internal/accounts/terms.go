package accounts

import "slices"

const (
	// DefaultPaymentTermDays is how long after its issue an invoice falls due by default;
	// MaxPaymentTermDays bounds the setting.
	DefaultPaymentTermDays = 7
	MaxPaymentTermDays     = 365
	// MaxSettleMinutes bounds how long a period's invoice waits for late usage: 7 days, which is
	// shorter than any period.
	MaxSettleMinutes = 7 * 24 * 60
)

// PaymentTerms are an environment's. Each invoice keeps the due date that they gave it. Numbers 2
// and 3 were the terms before these, and are not reused.
type PaymentTerms struct {
	// Days is how long after its issue an invoice falls due, and SettleMinutes how long after its
	// period's end it is issued.
	Days          uint32 `wire:"1"`
	SettleMinutes uint32 `wire:"5"`
	Set           bool   `wire:"4"` // they were set once, so 0 days differ from the default
}

// PaymentTerms are those of SetPaymentTerms.
func (e *Environment) PaymentTerms() PaymentTerms {
	if p := e.Terms.Load(); p != nil {
		return *p
	}
	return PaymentTerms{Days: DefaultPaymentTermDays}
}

// Bounds of what a seller states, in bytes.
const (
	MaxSellerText    = 512
	MaxSellerAddress = 2000
)

// Seller is who issues an environment's invoices, as their documents state it.
//
//schema:answer admin Seller
type Seller struct {
	Name    string `wire:"1" json:"name,omitzero" rule:"max=128"`
	Address string `wire:"2" json:"address,omitzero" rule:"max=500"`
	Email   string `wire:"3" json:"email,omitzero" rule:"max=254"`
	TaxID   string `wire:"4" json:"taxId,omitzero" rule:"max=64"`
}

// Bounded reports whether no field is too long.
func (s *Seller) Bounded() bool {
	return len(s.Name) <= MaxSellerText && len(s.Address) <= MaxSellerAddress &&
		len(s.Email) <= MaxSellerText && len(s.TaxID) <= MaxSellerText
}

// FormerSeller is who issued an environment's invoices up to a number, from that of the one before.
type FormerSeller struct {
	Invoices uint64 `wire:"1"`
	Seller   Seller `wire:"2"`
}

// maxFormerSellers bounds them: of more changes the oldest are forgotten.
const maxFormerSellers = 100

// SetSeller replaces the seller. The one before is kept if it has issued invoices. If none was set
// before, the first one applies to all earlier invoices.
func (e *Environment) SetSeller(s Seller) {
	before, former, last := e.StatedSeller(), e.FormerSellers(), uint64(0)
	if n := len(former); n > 0 {
		last = former[n-1].Invoices
	}
	if e.Invoices > last && (last > 0 || before != (Seller{})) {
		former = append(slices.Clone(former[max(0, len(former)+1-maxFormerSellers):]),
			FormerSeller{e.Invoices, before})
		e.Sellers.Store(&former)
	}
	e.Seller.Store(&s)
}

// FormerSellers are those of invoices that were issued before the seller changed, oldest first.
func (e *Environment) FormerSellers() []FormerSeller {
	if f := e.Sellers.Load(); f != nil {
		return *f
	}
	return nil
}

// SellerOf is who issued the invoice of a number; of 0, who issues the next one.
func (e *Environment) SellerOf(number uint64) Seller {
	now := e.StatedSeller() // before the former ones: a new one is stored behind them
	if number == 0 {
		return now
	}
	for _, f := range e.FormerSellers() {
		if number <= f.Invoices {
			return f.Seller
		}
	}
	return now
}

// StatedSeller is that of SetSeller.
func (e *Environment) StatedSeller() Seller {
	if s := e.Seller.Load(); s != nil {
		return *s
	}
	return Seller{}
}
