package billing

import (
	"cmp"
	"slices"
	"strconv"
)

// lineKinds are the kinds of lines as both APIs write them.
var lineKinds = [...]string{
	LineBase: "base", LineUsage: "usage", LineLate: "late_usage",
	LineUnused: "proration_credit", LineRemaining: "proration_charge",
	LineCarried: "credit_carried_over", LineCredit: "carried_credit",
}

// String is the kind as both APIs write it; of one that does not exist its number.
func (k LineKind) String() string {
	if k == 0 || int(k) >= len(lineKinds) {
		return strconv.Itoa(int(k))
	}
	return lineKinds[k]
}

// InvoiceStatusNamed finds a status by its name; false when there is none of that name.
func InvoiceStatusNamed(name string) (InvoiceStatus, bool) {
	at := slices.Index(invoiceStatuses[1:], name)
	return InvoiceStatus(at + 1), at >= 0
}

// InvoiceQuery asks for a page of a customer's invoices, oldest first.
type InvoiceQuery struct {
	Env, CustomerRow uint32
	// Status selects one status; 0 selects every status.
	Status InvoiceStatus
	// From and To select by CreatedAt, [From, To), in milliseconds since 1970 UTC; To counts only
	// with HasTo. A PENDING invoice has not been created yet: it is after every From and To.
	From, To int64
	HasTo    bool
	// Pending adds the invoices that are PENDING, behind the others. Status PENDING implies it.
	Pending bool
	// After is the last invoice of the page before; the zero id begins at the oldest.
	After [16]byte
	// Limit is the most invoices of a page; 0 has no limit.
	Limit int
}

// InvoicePage is a page of invoices. The next page begins After the last one, where there is More.
type InvoicePage struct {
	List []InvoiceView
	More bool
}

// ListInvoices lists a customer's invoices. False: After is not an invoice of this customer. An
// invoice that was issued a moment ago, and has no number yet, says 0.
func (m *Machine) ListInvoices(q *InvoiceQuery) (page InvoicePage, ok bool) {
	s := m.state.Load()
	l := invoiceListing{state: s, q: q, page: InvoicePage{List: []InvoiceView{}}}
	if q.CustomerRow == 0 || q.CustomerRow > s.customers.Len() {
		return l.page, q.After == [16]byte{}
	}
	lock := s.stripe(q.CustomerRow)
	lock.RLock()
	defer lock.RUnlock()
	if s.customers.Read(q.CustomerRow).env != q.Env {
		return l.page, q.After == [16]byte{}
	}
	l.found = q.After == [16]byte{}
	l.walk()
	return l.page, l.found
}

// invoiceListing is a listing of invoices on its way.
type invoiceListing struct {
	*state
	q    *InvoiceQuery
	page InvoicePage
	// found reports whether After was seen: what follows it is listed.
	found bool
}

// walk lists what is stored, then what was issued and is not stored yet, then what is PENDING.
func (l *invoiceListing) walk() {
	now := l.environment(l.q.Env).now(l.log.Stamp())
	changed := map[uint32]InvoiceView{}
	var issued []InvoiceView
	ledgers, _ := l.ledgersOf(l.q.CustomerRow, now)
	for _, ledger := range ledgers {
		issued = append(issued, l.foreseen(ledger, changed)...)
	}
	for row := l.first(); row != 0 && !l.page.More; row = l.invoices.Read(row).next {
		if view, ok := changed[row]; ok {
			l.take(view)
			continue
		}
		// Lines are decoded only of those that are listed.
		if v := l.invoices.Read(row); l.selects(v.status, v.createdAt) {
			l.take(l.invoiceView(&v, l.invoiceItems(row, &v)))
		}
	}
	slices.SortStableFunc(issued, func(a, b InvoiceView) int {
		return cmp.Compare(a.CreatedAt, b.CreatedAt)
	})
	for i := 0; i < len(issued) && !l.page.More; i++ {
		l.take(issued[i])
	}
	if l.q.Pending || l.q.Status == InvoicePending {
		l.walkPending(now)
	}
}

// first is the row of the first stored invoice of the page; 0 where the page begins behind them.
func (l *invoiceListing) first() uint32 {
	c := l.customers.Read(l.q.CustomerRow)
	if l.found {
		return c.firstInvoice
	}
	row := l.invoiceWith(&l.q.After)
	if row == 0 {
		return 0
	}
	v := l.invoices.Read(row)
	if v.customer != l.q.CustomerRow {
		return 0
	}
	l.found = true
	return v.next
}

func (l *invoiceListing) walkPending(now int64) {
	row := l.customers.Read(l.q.CustomerRow).firstSubscription
	for ; row != 0 && !l.page.More; row = l.subscriptions.Read(row).next {
		views := l.upcoming(l.ledgerAmong(row, now))
		for i := 0; i < len(views) && !l.page.More; i++ {
			l.take(views[i])
		}
	}
}

// selects reports whether an invoice of this status and instant of issue is asked for.
func (l *invoiceListing) selects(status InvoiceStatus, createdAt int64) bool {
	q := l.q
	if q.Status != 0 && q.Status != status {
		return false
	}
	if status == InvoicePending {
		return !q.HasTo
	}
	return createdAt >= q.From && (!q.HasTo || createdAt < q.To)
}

// take adds an invoice to the page where it belongs there.
func (l *invoiceListing) take(view InvoiceView) {
	switch {
	case !l.found:
		l.found = view.ID == l.q.After
	case !l.selects(view.Status, view.CreatedAt):
	case l.q.Limit > 0 && len(l.page.List) == l.q.Limit:
		l.page.More = true
	default:
		l.page.List = append(l.page.List, view)
	}
}

// Invoices lists all of a customer's invoices, oldest first, without those that are PENDING.
func (m *Machine) Invoices(env, customerRow uint32) []InvoiceView {
	page, _ := m.ListInvoices(&InvoiceQuery{Env: env, CustomerRow: customerRow})
	return page.List
}
