package billing

import (
	"errors"
	"fmt"

	"tollgate/engine/decimal"
	"tollgate/engine/journal"
)

// ErrExplain means that an invoice cannot be worked out from the journal: records are missing.
var ErrExplain = errors.New("billing: the journal does not explain the invoice")

// Explanation is an invoice as it is stored, beside what the journal's records alone make of it.
type Explanation struct {
	Invoice    InvoiceView
	Recomputed []InvoiceItem
	// Counted is how many events and corrections each recomputed line counts, and no line before
	// it; 0 for a price.
	Counted []uint64
	// Costs are what those events cost: as it was stored with them, and as the corrections among
	// them have changed it.
	Costs []decimal.Decimal
	// FirstIndex and LastIndex bound the log entries of those.
	FirstIndex, LastIndex uint64
	// Equal reports whether nothing differs, of the lines no byte. Problem says what does.
	Equal   bool
	Problem string
}

// Explain works an invoice out again from journal records: usage events, voids, amendments, and the
// facts of spans and invoices; never from counters or stored lines. False: there is no such invoice
// (a PENDING one has nothing to explain yet). It reads the customer's records once, and holds none
// of them.
func (m *Machine) Explain(src journal.Source, env uint32, id [16]byte) (Explanation, bool, error) {
	s := m.state.Load()
	row := s.invoiceIn(env, &id)
	if row == 0 {
		return Explanation{}, false, nil
	}
	customer := s.invoices.Owner(row)
	p := newPass(m.state.Load(), env, []uint32{customer})
	p.wanted = &id
	if err := p.read(src); err != nil {
		return Explanation{}, true, err
	}
	err := m.settled(p, src, func() error {
		r := p.accounts[customer]
		if r.broken != "" {
			return fmt.Errorf("%w: %s", ErrEvent, r.broken)
		}
		if p.explained == nil {
			return fmt.Errorf("%w: nothing about it", ErrExplain)
		}
		r.compareStatus(p, r.invoiceWith(&id), row)
		return nil
	})
	if err != nil {
		return Explanation{}, true, err
	}
	x := *p.explained
	x.Problem = p.accounts[customer].invoiceWith(&id).problem
	x.Equal = x.Problem == ""
	x.Invoice, _ = m.Invoice(env, id)
	return x, true, nil
}
