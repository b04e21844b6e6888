package book

import (
	"cmp"
	"slices"
	"sort"
	"strings"
	"sync"

	"tollgate/engine/decimal"
	"tollgate/engine/rollup"
)

// Revenue sums the invoices of each environment by hour. It is not state: it follows from the
// invoices, is updated when they are written, and recounted at restore. An hour takes 56 bytes and
// exists only if an invoice was issued or paid in it, so each invoice has at most two.
type Revenue struct {
	lock sync.RWMutex
	sums map[uint32][]*RevenueSums // by environment, in the order of currencies
	// statuses are the numbers of invoices of all environments.
	statuses [InvoiceStatuses]int64
}

// Statuses are the numbers of invoices of all environments, by InvoiceStatus.
func (r *Revenue) Statuses() (counts [InvoiceStatuses]uint64) {
	r.lock.RLock()
	defer r.lock.RUnlock()
	for status, count := range r.statuses {
		counts[status] = uint64(count)
	}
	return counts
}

// RevenueSums are the sums of an environment's invoices in one currency: by what they are now,
// whenever they were issued, and by hour.
type RevenueSums struct {
	Currency                 string
	Due, PastDue, Paid, Void Amount
	Hours                    []RevenueHour // in order
}

// RevenueHour is the revenue of one hour.
type RevenueHour struct {
	Hour int32 // since 1970 UTC
	// Billed are invoices issued in that hour, without void ones; Collected are those paid in it.
	Billed, Collected Amount
}

// Amount is a number of invoices and their sum.
type Amount struct {
	Invoices int64
	Sum      decimal.Decimal // modulo 2¹²⁸, as rollup.Cell adds
}

func (a *Amount) add(invoices int64, sum decimal.Decimal) {
	c := rollup.Cell{Events: a.Invoices, Units: a.Sum}
	c.Add(invoices, sum)
	*a = Amount{c.Events, c.Units}
}

// in returns the sums of a currency, and makes missing ones. Callers hold the lock.
func (r *Revenue) in(env uint32, currency string) *RevenueSums {
	list := r.sums[env]
	at, found := slices.BinarySearchFunc(list, currency, func(s *RevenueSums, currency string) int {
		return strings.Compare(s.Currency, currency)
	})
	if !found {
		if r.sums == nil {
			r.sums = map[uint32][]*RevenueSums{}
		}
		list = slices.Insert(list, at, &RevenueSums{Currency: currency})
		r.sums[env] = list
	}
	return list[at]
}

// hour returns the hour of an instant, and makes a missing one: nearly always at the end, because
// invoices are issued and paid in the order of time.
func (s *RevenueSums) hour(at int64) *RevenueHour {
	hour := rollup.HourOf(at)
	i, found := slices.BinarySearchFunc(s.Hours, hour, func(h RevenueHour, hour int32) int {
		return cmp.Compare(h.Hour, hour)
	})
	if !found {
		s.Hours = slices.Insert(s.Hours, i, RevenueHour{Hour: hour})
	}
	return &s.Hours[i]
}

// tally adds an invoice, or with −1 removes it.
func (r *Revenue) tally(env uint32, currency string, v *Invoice, sign int64) {
	amount := v.Amount
	if sign < 0 {
		amount = amount.Neg()
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	r.statuses[v.Status] += sign
	s := r.in(env, currency)
	if v.Status == InvoiceVoid {
		s.Void.add(sign, amount)
		return
	}
	s.hour(v.CreatedAt).Billed.add(sign, amount)
	switch v.Status {
	case InvoiceDue:
		s.Due.add(sign, amount)
	case InvoicePastDue:
		s.PastDue.add(sign, amount)
	case InvoicePaid:
		s.Paid.add(sign, amount)
		s.hour(v.PaidAt).Collected.add(sign, amount)
	}
}

// Of copies an environment's sums, with the hours that begin within [from, to).
func (r *Revenue) Of(env uint32, from, to int64) []RevenueSums {
	r.lock.RLock()
	defer r.lock.RUnlock()
	list := make([]RevenueSums, 0, len(r.sums[env]))
	for _, s := range r.sums[env] {
		first := func(at int64) int {
			return sort.Search(len(s.Hours), func(i int) bool {
				return int64(s.Hours[i].Hour)*rollup.HourMS >= at
			})
		}
		c := *s
		c.Hours = slices.Clone(s.Hours[first(from):max(first(from), first(to))])
		list = append(list, c)
	}
	return list
}

// tallyInvoice adds an invoice to its environment's revenue, or with −1 removes it.
func (s *Book) tallyInvoice(v *Invoice, sign int64) {
	env := s.Customers.Read(v.Customer).Env
	s.Revenue.tally(env, s.Environment(env).Catalog.Load().Version(v.Version).Currency, v, sign)
}

// AppendInvoice adds an invoice. AppendInvoice and RewriteInvoice are for Apply, under the
// customer's lock.
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

// Standing counts a suspended subscription, or with −1 removes it.
func (s *Book) Standing(b *Subscription, sign int64) {
	if b.SuspendedAt != 0 && b.EndedAt == 0 {
		s.Environment(s.Customers.Read(b.Customer).Env).Suspended.Add(sign)
	}
}
