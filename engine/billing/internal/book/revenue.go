package book

import (
	"cmp"
	"slices"
	"sync"

	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/decimal"
	"tollgate/engine/rollup"
)

// Revenue is what all invoices of each environment come to by day. It is not state: it follows from
// the invoices, is kept as they are written, and counted again at a restore. A cell, some 80 bytes,
// exists where an invoice was issued or paid: there are at most two for each invoice.
type Revenue struct {
	lock sync.RWMutex
	days map[revenueKey]map[int32]*revenueDay
}

// revenueKey names the invoices that are added up.
type revenueKey struct {
	env      uint32
	currency string
}

type revenueDay struct{ billed, collected, due, pastDue rollup.Cell }

// RevenueDay is what an environment's invoices in one currency came to on one day (UTC).
type RevenueDay struct {
	Currency string
	Day      int32 // since 1970
	// Billed are invoices issued on that day, but for void ones; Due and PastDue are those of them
	// that are unpaid now. Collected are invoices paid on that day.
	Billed, Collected, Due, PastDue Amount
}

// Amount is a number of invoices and their sum.
type Amount struct {
	Invoices int64
	Sum      decimal.Decimal
}

// tallyInvoice adds an invoice to its environment's revenue, or with −1 takes it away.
func (s *Book) tallyInvoice(v *Invoice, sign int64) {
	env := s.Customers.Read(v.Customer).Env
	key := revenueKey{env, s.Environment(env).Catalog.Load().Version(v.Version).Currency}
	amount := v.Amount
	if sign < 0 {
		amount = amount.Neg()
	}
	s.Revenue.lock.Lock()
	defer s.Revenue.lock.Unlock()
	if s.Revenue.days == nil {
		s.Revenue.days = map[revenueKey]map[int32]*revenueDay{}
	}
	days := s.Revenue.days[key]
	if days == nil {
		days = map[int32]*revenueDay{}
		s.Revenue.days[key] = days
	}
	on := func(at int64) *revenueDay {
		day := int32(at / accounts.DayMS)
		if days[day] == nil {
			days[day] = &revenueDay{}
		}
		return days[day]
	}
	issued := on(v.CreatedAt)
	if v.Status == InvoiceVoid {
		return
	}
	issued.billed.Add(sign, amount)
	switch v.Status {
	case InvoiceDue:
		issued.due.Add(sign, amount)
	case InvoicePastDue:
		issued.pastDue.Add(sign, amount)
	case InvoicePaid:
		on(v.PaidAt).collected.Add(sign, amount)
	}
}

// AppendInvoice adds an invoice. For Apply, under the customer's lock, as is RewriteInvoice.
func (s *Book) AppendInvoice(v *Invoice) (row uint32) {
	s.tallyInvoice(v, 1)
	return s.Invoices.Append(v)
}

// RewriteInvoice stores an invoice that has changed.
func (s *Book) RewriteInvoice(row uint32, v *Invoice) {
	if before := s.Invoices.Read(row); before.Status != v.Status {
		s.tallyInvoice(&before, -1)
		s.tallyInvoice(v, 1)
	}
	s.Invoices.Write(row, v)
}

// TallyInvoices adds up all invoices, after a restore.
func (s *Book) TallyInvoices() {
	for row := uint32(1); row <= s.Invoices.Len(); row++ {
		v := s.Invoices.Read(row)
		s.tallyInvoice(&v, 1)
	}
}

// Standing counts a subscription where it is suspended, or with −1 takes it away.
func (s *Book) Standing(b *Subscription, sign int64) {
	if b.SuspendedAt != 0 && b.EndedAt == 0 {
		s.Environment(s.Customers.Read(b.Customer).Env).Suspended.Add(sign)
	}
}

// RevenueOf lists the days of an environment on which invoices were issued or paid, by currency.
func (s *Book) RevenueOf(env uint32) (list []RevenueDay) {
	amount := func(c *rollup.Cell) Amount { return Amount{c.Events, c.Units} }
	s.Revenue.lock.RLock()
	defer s.Revenue.lock.RUnlock()
	for key, days := range s.Revenue.days { // any order: they are sorted
		if key.env != env {
			continue
		}
		for day, d := range days { // any order: they are sorted
			list = append(list, RevenueDay{
				key.currency, day, amount(&d.billed), amount(&d.collected), amount(&d.due),
				amount(&d.pastDue),
			})
		}
	}
	slices.SortFunc(list, func(a, b RevenueDay) int {
		return cmp.Or(cmp.Compare(a.Currency, b.Currency), cmp.Compare(a.Day, b.Day))
	})
	return list
}
