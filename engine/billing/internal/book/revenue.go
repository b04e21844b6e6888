package book

import (
	"cmp"
	"slices"
	"sync"

	"tollgate/engine/decimal"
	"tollgate/engine/rollup"
)

// Revenue is what all invoices of each environment come to by hour. It is not state: it follows
// from the invoices, is kept as they are written, and counted again at a restore. A cell, some 80
// bytes, exists where an invoice was issued or paid: there are at most two for each invoice.
type Revenue struct {
	lock  sync.RWMutex
	hours map[revenueKey]map[int32]*revenueHour
}

// revenueKey names the invoices that are added up.
type revenueKey struct {
	env      uint32
	currency string
}

type revenueHour struct{ billed, collected, due, pastDue rollup.Cell }

// RevenueHour is what an environment's invoices in one currency came to in one hour.
type RevenueHour struct {
	Currency string
	Hour     int32 // since 1970 UTC
	// Billed are invoices issued in that hour, but for void ones; Due and PastDue are those of them
	// that are unpaid now. Collected are invoices paid in that hour.
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
	if s.Revenue.hours == nil {
		s.Revenue.hours = map[revenueKey]map[int32]*revenueHour{}
	}
	hours := s.Revenue.hours[key]
	if hours == nil {
		hours = map[int32]*revenueHour{}
		s.Revenue.hours[key] = hours
	}
	in := func(at int64) *revenueHour {
		hour := rollup.HourOf(at)
		if hours[hour] == nil {
			hours[hour] = &revenueHour{}
		}
		return hours[hour]
	}
	issued := in(v.CreatedAt)
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
		in(v.PaidAt).collected.Add(sign, amount)
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

// RevenueOf lists the hours of an environment in which invoices were issued or paid, by currency.
func (s *Book) RevenueOf(env uint32) (list []RevenueHour) {
	amount := func(c *rollup.Cell) Amount { return Amount{c.Events, c.Units} }
	s.Revenue.lock.RLock()
	defer s.Revenue.lock.RUnlock()
	for key, hours := range s.Revenue.hours { // any order: they are sorted
		if key.env != env {
			continue
		}
		for hour, h := range hours { // any order: they are sorted
			list = append(list, RevenueHour{
				key.currency, hour, amount(&h.billed), amount(&h.collected), amount(&h.due),
				amount(&h.pastDue),
			})
		}
	}
	slices.SortFunc(list, func(a, b RevenueHour) int {
		return cmp.Or(cmp.Compare(a.Currency, b.Currency), cmp.Compare(a.Hour, b.Hour))
	})
	return list
}
