package billing

import (
	"iter"
	"sync"

	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/decimal"
	"tollgate/engine/page"
	"tollgate/engine/wire"
)

// Checkout is one requested hosted page.
type Checkout struct {
	ID          [16]byte `wire:"1"`
	Env         uint32   `wire:"2"`
	InvoiceID   [16]byte `wire:"3"`
	RequestedAt int64    `wire:"4"` // log time, also in the sandbox
	Provider    string   `wire:"5"`
	ProviderID  string   `wire:"6"` // empty until the provider has answered
	Closed      bool     `wire:"7"`
	// Revision is that of the PaymentSettings that made it.
	Revision uint32 `wire:"8"`
}

// MaxCheckouts bounds the checkouts that one group remembers. A new one replaces the oldest, which
// is no longer polled; its webhook is still understood.
const MaxCheckouts = 100_000

// checkouts is a ring: checkout n, counted from 0, is row 1 + n mod MaxCheckouts.
type checkouts struct {
	mu    sync.RWMutex
	table *page.Table[rows.Text]
	count uint64              // how many there have been
	byID  map[[16]byte]uint32 // no state
	// latest is the row of each invoice's newest checkout. No state.
	latest map[[16]byte]uint32
}

// find returns a checkout's row; 0 if there is none.
func (q *checkouts) find(id [16]byte) uint32 {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.byID[id]
}

func (q *checkouts) read(row uint32) (c Checkout) {
	q.mu.RLock()
	data := q.table.Read(row).Data
	q.mu.RUnlock()
	if err := wire.Decode([]byte(data), &c); err != nil {
		panic("billing: checkout in memory does not decode: " + err.Error())
	}
	return c
}

func (q *checkouts) write(row uint32, c *Checkout) {
	data := string(wire.Encode(nil, c))
	q.mu.Lock()
	q.table.Write(row).Data = data
	q.mu.Unlock()
}

func (q *checkouts) open(c *Checkout) {
	row := uint32(q.count%MaxCheckouts) + 1
	if row <= q.table.Len() {
		oldest := q.read(row)
		q.mu.Lock()
		delete(q.byID, oldest.ID)
		if q.latest[oldest.InvoiceID] == row {
			delete(q.latest, oldest.InvoiceID)
		}
		q.mu.Unlock()
	} else {
		row, _ = q.table.Append()
	}
	q.write(row, c)
	q.mu.Lock()
	q.byID[c.ID], q.latest[c.InvoiceID] = row, row
	q.count++
	q.mu.Unlock()
}

// Payment is one payment that a provider reported.
//
//schema:answer admin Payment
type Payment struct {
	Env        uint32             `wire:"1"`
	Provider   string             `wire:"2" json:"provider" rule:"min=1"`
	EventID    string             `wire:"3" json:"eventId" rule:"min=1"`
	CheckoutID string             `wire:"4" json:"checkoutId,omitzero" rule:"min=1"`
	InvoiceID  [16]byte           `wire:"5"`
	Amount     decimal.Decimal    `wire:"6" json:"amount" if:"Pays()"`
	Currency   string             `wire:"7" json:"currency,omitzero" rule:"min=3,max=3"`
	At         int64              `wire:"8" json:"recordedAt" as:"time"` // log time
	Result     book.PaymentResult `wire:"9" json:"result" as:"text" rule:"oneof=applied|overpaid|mismatch|unexpected|ignored"`
	// Other is what was reported instead of a payment.
	Other string `wire:"10" json:"type,omitzero" rule:"min=1,max=64"`
}

// Pays reports whether it has an amount: a report that is not a payment may have none.
func (p *Payment) Pays() bool { return p.Currency != "" }

// payments are kept forever, like invoices.
type payments struct {
	mu        sync.RWMutex
	table     *page.Table[rows.Text]
	byKey     map[[16]byte]uint32   // no state; only Apply uses it
	byInvoice map[[16]byte][]uint32 // no state
}

func (q *payments) read(row uint32) (p Payment) {
	if err := wire.Decode([]byte(q.table.Read(row).Data), &p); err != nil {
		panic("billing: payment in memory does not decode: " + err.Error())
	}
	return p
}

func (q *payments) keep(keys [][16]byte, p *Payment) {
	data := string(wire.Encode(nil, p))
	q.mu.Lock()
	row, r := q.table.Append()
	r.Data = data
	q.byInvoice[p.InvoiceID] = append(q.byInvoice[p.InvoiceID], row)
	q.mu.Unlock()
	for _, key := range keys {
		q.byKey[key] = row
	}
}

// reports counts the records of an invoice that are not payments.
func (q *payments) reports(invoiceID *[16]byte) (n int) {
	for _, row := range q.byInvoice[*invoiceID] {
		if p := q.read(row); p.Result == book.PaymentIgnored {
			n++
		}
	}
	return n
}

// openPayments makes the tables.
func (s *state) openPayments() {
	s.checkouts.table = page.NewTable(s.Store, accounts.TableCheckouts, rows.TextCodec)
	s.checkouts.byID, s.checkouts.latest = map[[16]byte]uint32{}, map[[16]byte]uint32{}
	s.payments.table = page.NewTable(s.Store, accounts.TablePayments, rows.TextCodec)
	s.payments.byKey = map[[16]byte]uint32{}
	s.payments.byInvoice = map[[16]byte][]uint32{}
}

// paymentsConsistent checks, after a restore, that each record decodes.
func (s *state) paymentsConsistent() bool {
	for row := uint32(1); row <= s.checkouts.table.Len(); row++ {
		if wire.Decode([]byte(s.checkouts.table.Read(row).Data), new(Checkout)) != nil {
			return false
		}
	}
	for row := uint32(1); row <= s.payments.table.Len(); row++ {
		if wire.Decode([]byte(s.payments.table.Read(row).Data), new(Payment)) != nil {
			return false
		}
	}
	return min(s.checkouts.count, MaxCheckouts) == uint64(s.checkouts.table.Len())
}

// reindexPayments rebuilds the indexes, after a restore.
func (s *state) reindexPayments() {
	count := s.checkouts.count
	for n := count - uint64(s.checkouts.table.Len()); n < count; n++ {
		row := uint32(n%MaxCheckouts) + 1
		c := s.checkouts.read(row)
		s.checkouts.byID[c.ID], s.checkouts.latest[c.InvoiceID] = row, row
	}
	for row := uint32(1); row <= s.payments.table.Len(); row++ {
		p := s.payments.read(row)
		command := RecordPayment{
			Env: p.Env, Provider: p.Provider, EventID: p.EventID, CheckoutID: p.CheckoutID, Other: p.Other,
		}
		for _, key := range command.keys() {
			s.payments.byKey[key] = row
		}
		s.payments.byInvoice[p.InvoiceID] = append(s.payments.byInvoice[p.InvoiceID], row)
	}
}

// Checkout finds a checkout by our own id.
func (m *accountReader) Checkout(env uint32, id [16]byte) (Checkout, bool) {
	s := m.state.Load()
	row := s.checkouts.find(id)
	if row == 0 {
		return Checkout{}, false
	}
	c := s.checkouts.read(row)
	return c, c.Env == env && c.ID == id
}

// LatestCheckout finds the newest checkout of an invoice.
func (m *accountReader) LatestCheckout(env uint32, invoice [16]byte) (Checkout, bool) {
	s := m.state.Load()
	s.checkouts.mu.RLock()
	row := s.checkouts.latest[invoice]
	s.checkouts.mu.RUnlock()
	if row == 0 {
		return Checkout{}, false
	}
	c := s.checkouts.read(row)
	return c, c.Env == env && c.InvoiceID == invoice
}

// OpenCheckouts lists the open checkouts of one provider that the provider has named and that were
// requested after from and until to (log time), oldest first. Each comes with its number: checkouts
// are numbered from 0 in the order of the log. It may omit checkouts that open meanwhile.
func (m *accountReader) OpenCheckouts(provider string, from, to int64) iter.Seq2[uint64, Checkout] {
	q := &m.state.Load().checkouts
	return func(yield func(uint64, Checkout) bool) {
		q.mu.RLock()
		count, length := q.count, uint64(q.table.Len())
		q.mu.RUnlock()
		// A checkout that opens meanwhile is in its row before it is counted.
		for n := count - min(count, length); n < count; n++ {
			c := q.read(uint32(n%MaxCheckouts) + 1)
			if c.Provider != provider || c.Closed || c.ProviderID == "" ||
				c.RequestedAt <= from || c.RequestedAt > to {
				continue
			}
			if !yield(n, c) {
				return
			}
		}
	}
}

// Payments lists the payments of an invoice that providers reported, oldest first.
func (m *accountReader) Payments(env uint32, invoiceID [16]byte) []Payment {
	s := m.state.Load()
	q := &s.payments
	q.mu.RLock()
	defer q.mu.RUnlock()
	views := []Payment{}
	for _, row := range q.byInvoice[invoiceID] {
		if p := q.read(row); p.Env == env {
			views = append(views, p)
		}
	}
	return views
}
