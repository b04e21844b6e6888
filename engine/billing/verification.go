package billing

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tollgate/engine/billing/internal/auditor"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
	"tollgate/engine/journal"
)

// Difference is a stored invoice or pool, or a customer's stored credit, that differs from the
// journal's.
//
//schema:answer admin Difference
type Difference struct {
	CustomerRow uint32   `json:"customerRow"`
	Customer    string   `json:"customerReferenceId,omitzero" rule:"min=1,max=128"`
	InvoiceID   [16]byte `json:"invoiceId,omitzero"`
	Number      uint64   `json:"number" if:"OfInvoice()"`
	PoolID      [16]byte `json:"poolId,omitzero"`
	Problem     string   `json:"problem" rule:"min=1"`
}

// OfInvoice reports whether an invoice differs.
func (d *Difference) OfInvoice() bool { return d.InvoiceID != [16]byte{} }

// Verification is the result of VerifyInvoices.
type Verification struct {
	Customers, Invoices uint64
	// Records counts the usage events and corrections.
	Records uint64
	// Different counts the differences; MaxDifferences of them are listed.
	Different   uint64
	Differences []Difference
}

// MaxDifferences bounds the listed differences.
const MaxDifferences = 1000

// comparedAtOnce is how many customers are compared while no entry is applied.
const comparedAtOnce = 500

// VerifyInvoices computes all invoices of some customers again, in one pass over the journal. It
// compares each stored invoice with the computed one, each computed one with the stored one, and
// the customers' credit. Apply waits only while the end is compared, some hundred customers at a
// time. It skips PENDING invoices, and those just issued that have no number yet.
func (m *journalReader) VerifyInvoices(
	src journal.Source, env uint32, rows []uint32,
) (Verification, error) {
	v := Verification{Customers: uint64(len(rows))}
	if m.state.Load().Environment(env) == nil || len(rows) == 0 {
		return v, nil
	}
	p := newPass(m.state.Load(), env, rows)
	if err := p.read(src); err != nil {
		return v, err
	}
	for some := range slices.Chunk(p.rows, comparedAtOnce) {
		err := m.settled(p, src, func() error {
			for _, row := range some {
				p.compare(&v, row)
				delete(p.accounts, row)
			}
			return nil
		})
		if err != nil {
			return v, err
		}
	}
	v.Records = p.records
	return v, nil
}

func (v *Verification) note(d Difference) {
	v.Different++
	if len(v.Differences) < MaxDifferences {
		v.Differences = append(v.Differences, d)
	}
}

// compare looks for what the state has of a customer, and for what it lacks.
func (p *pass) compare(v *Verification, row uint32) {
	a, c := p.accounts[row], p.s.Customers.Read(row)
	about := Difference{CustomerRow: row, Customer: string(p.s.ExternalID(c))}
	if about.Problem = a.Broken; a.Broken != "" {
		v.note(about)
		return
	}
	left := p.s.Invoices.Len() // a damaged list may have no end
	for at := c.FirstInvoice; at != 0 && at <= p.s.Invoices.Len() && left > 0; left-- {
		stored := p.s.Invoices.Read(at)
		v.Invoices++
		made := a.Invoice(stored.ID)
		switch {
		case made == nil:
			d := about
			d.InvoiceID, d.Number = stored.ID, stored.Number
			d.Problem = ErrExplain.Error()
			v.note(d)
		default:
			p.compareStatus(made, at)
		}
		at = stored.Next
	}
	for i := range a.Issued {
		made, d := &a.Issued[i], about
		d.InvoiceID, d.Number, d.Problem = made.ID, made.Number, made.Problem
		if !made.Listed && made.Problem == "" {
			d.Problem = "the journal has made this invoice, and the customer's list lacks it"
		}
		if d.Problem != "" {
			v.note(d)
		}
	}
	if about.Problem = p.creditProblem(a, row); about.Problem != "" {
		v.note(about)
	}
}

// creditProblem compares a customer's credit, currency by currency.
func (p *pass) creditProblem(a *auditor.Auditor, customer uint32) string {
	currencies := slices.Collect(maps.Keys(a.Credit))
	for at := p.s.Customers.Cold(customer).FirstBalance; at != 0; at = p.s.Balances.Read(at).Next {
		code := p.s.Balances.Read(at).Currency
		currencies = append(currencies, strings.TrimRight(string(code[:]), "\x00"))
	}
	slices.Sort(currencies)
	var d differences
	for _, currency := range slices.Compact(currencies) {
		differ(&d, "credit in "+currency, p.s.Credit(customer, currency), a.Credit[currency])
	}
	return d.String()
}

// compareStatus compares the fields of a stored invoice that may change. It is called while no
// entry is applied.
func (p *pass) compareStatus(made *auditor.Invoice, row uint32) {
	made.Listed = true
	if made.Problem != "" {
		return
	}
	var d differences
	v := p.s.Invoices.Read(row)
	now := p.env.Now(p.s.Log.Stamp())
	lags := p.s.Subscriptions.Read(v.Subscription).Due <= now
	want := book.InvoiceDue
	switch {
	case made.Void:
		want = book.InvoiceVoid
	case made.PaidAt != 0:
		want = book.InvoicePaid
	case made.DueAt > now:
	case v.Status == book.InvoiceDue && lags: // it falls due with the subscription's next tick
	default:
		want = book.InvoicePastDue
	}
	differ(&d, "status", v.Status, want)
	differ(&d, "paidAt", v.PaidAt, made.PaidAt)
	made.Problem = d.String()
}

// differences lists, field by field, the stored value and the journal's; instants are in
// milliseconds since 1970 UTC.
type differences []string

// listedFields bounds the fields listed for one invoice.
const listedFields = 8

// String joins them; empty if there are none.
func (d differences) String() string { return strings.Join(d, "; ") }

func differ[T comparable](d *differences, field string, stored, made T) {
	if stored != made && len(*d) < listedFields {
		*d = append(*d, fmt.Sprintf("%s is %v, the journal makes %v", field, stored, made))
	}
}

// differing compares an invoice of the journal with the stored one in all fields that never change;
// empty if they agree.
func (s *state) differing(f *credits.Fact, items []book.InvoiceItem) string {
	lock := s.ReadLock(f.Customer)
	defer lock.RUnlock()
	made := &f.Invoice
	row := s.InvoiceWith(&made.ID)
	if row == 0 {
		return "the journal has made this invoice, and the state has none of its id"
	}
	v := s.Invoices.Read(row)
	var d differences
	differ(&d, "number", v.Number, made.Number)
	differ(&d, "customer", v.Customer, f.Customer)
	differ(&d, "subscription", v.Subscription, f.Subscription)
	differ(&d, "type", v.Kind, made.Type)
	differ(&d, "createdAt", v.CreatedAt, f.At)
	differ(&d, "dueDate", v.DueAt, made.DueAt)
	differ(&d, "periodStart", v.PeriodStart, made.PeriodStart)
	differ(&d, "periodEnd", v.PeriodEnd, made.PeriodEnd)
	if catalog := s.Environment(s.Customers.Read(f.Customer).Env).Catalog.Load(); v.Version !=
		made.Version {
		differ(&d, "plan version", v.Version, made.Version)
		if catalog.HasVersion(v.Version) {
			differ(&d, "currency", catalog.Version(v.Version).Currency,
				catalog.Version(made.Version).Currency)
		}
	}
	total := decimal.Decimal{}
	for i := range items {
		total = sums.Of(total, items[i].Amount)
	}
	differ(&d, "amount", v.Amount, total)
	if stored, err := s.StoredItems(row, &v); err != nil {
		d = append(d, "the stored lines do not decode")
	} else {
		differLines(&d, stored, items)
	}
	return d.String()
}

// differLines compares an invoice's lines, byte for byte.
func differLines(d *differences, stored, made []book.InvoiceItem) {
	if len(stored) != len(made) { // it is unknown which one is missing
		differ(d, "the number of lines", len(stored), len(made))
		return
	}
	for i := range stored {
		a, b := &stored[i], &made[i]
		if catalogs.Same(a, b) {
			continue
		}
		at, known := fmt.Sprintf("line %d: ", i+1), len(*d)
		differ(d, at+"kind", a.Kind, b.Kind)
		differ(d, at+"description", a.Description, b.Description)
		differ(d, at+"featureKey", a.FeatureKey, b.FeatureKey)
		differ(d, at+"quantity", a.Quantity, b.Quantity)
		differ(d, at+"unitPrice", a.UnitPrice, b.UnitPrice)
		differ(d, at+"has a unitPrice", a.HasUnitPrice, b.HasUnitPrice)
		differ(d, at+"tiers", fmt.Sprint(a.Tiers), fmt.Sprint(b.Tiers))
		differ(d, at+"periodStart", a.PeriodStart, b.PeriodStart)
		differ(d, at+"periodEnd", a.PeriodEnd, b.PeriodEnd)
		differ(d, at+"amount", a.Amount, b.Amount)
		if len(*d) == known && known < listedFields {
			*d = append(*d, at+"its bytes differ")
		}
	}
}

// ErrExplain means that an invoice cannot be computed from the journal: records are missing.
var ErrExplain = errors.New("billing: the journal does not explain the invoice")

// Explanation is an invoice as stored, and as computed from the journal alone.
//
//schema:answer admin Explanation server
type Explanation struct {
	// Equal reports whether both agree in every byte of the lines. Problem describes the
	// difference.
	Equal   bool             `json:"equal"`
	Problem string           `json:"problem,omitzero" rule:"min=1"`
	Invoice book.InvoiceView `json:"invoice" ref:"Invoice" with:"billingview.WriteInvoice"`
	auditor.Lines
}

// Explain computes an invoice again from journal records: usage events, voids, amendments, and
// facts of spans and invoices; never from counters or stored lines. It returns false for an unknown
// invoice (a PENDING one has nothing to explain yet). It reads the customer's records once, and
// holds none of them.
func (m *journalReader) Explain(
	src journal.Source, env uint32, id [16]byte,
) (Explanation, bool, error) {
	s := m.state.Load()
	row := s.InvoiceIn(env, &id)
	if row == 0 {
		return Explanation{}, false, nil
	}
	customer := s.Invoices.Owner(row)
	p := newPass(m.state.Load(), env, []uint32{customer})
	p.wanted = &id
	if err := p.read(src); err != nil {
		return Explanation{}, true, err
	}
	err := m.settled(p, src, func() error {
		a := p.accounts[customer]
		if a.Broken != "" {
			return fmt.Errorf("%w: %s", rows.ErrEvent, a.Broken)
		}
		if p.explained == nil {
			return fmt.Errorf("%w: nothing about it", ErrExplain)
		}
		p.compareStatus(a.Invoice(id), row)
		return nil
	})
	if err != nil {
		return Explanation{}, true, err
	}
	x := Explanation{Lines: *p.explained}
	x.Problem = p.accounts[customer].Invoice(id).Problem
	x.Equal = x.Problem == ""
	x.Invoice, _ = m.Invoice(env, id)
	return x, true, nil
}
