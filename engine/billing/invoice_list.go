package billing

import (
	"cmp"
	"slices"

	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/lifecycle"
)

// Invoice finds an invoice by its UUID, including a subscription's PENDING one.
func (m *customerReader) Invoice(env uint32, id [16]byte) (book.InvoiceView, bool) {
	s := m.state.Load()
	row := s.InvoiceIn(env, &id)
	if row == 0 {
		return m.pendingInvoice(env, &id)
	}
	customer := s.Invoices.Owner(row)
	for _, view := range m.Invoices(env, customer) {
		if view.ID == id {
			return view, true
		}
	}
	return book.InvoiceView{}, false
}

// InvoiceStatusNamed finds a status by its name.
func InvoiceStatusNamed(name string) (book.InvoiceStatus, bool) {
	at := slices.Index(book.InvoiceStatus(0).Names(), name)
	return book.InvoiceStatus(max(at, 0)), at > 0
}

// InvoiceQuery asks for a page of a customer's invoices, oldest first.
type InvoiceQuery struct {
	Env, CustomerRow uint32
	// Status selects one status; 0 selects every status.
	Status book.InvoiceStatus
	// From and To select by CreatedAt, [From, To), in milliseconds since 1970 UTC; To counts only
	// with HasTo. A PENDING invoice has not been created yet: it is after every From and To.
	From, To int64
	HasTo    bool
	// Pending adds the invoices that are PENDING, behind the others. Status PENDING implies it.
	Pending bool
	// After is the last invoice of the page before; the zero id begins at the oldest.
	After [16]byte
	// Limit bounds the invoices of a page; 0 is no limit.
	Limit int
}

// InvoicePage is a page of invoices. If More is set, the next page begins After the last one.
type InvoicePage struct {
	List []book.InvoiceView
	More bool
}

// ListInvoices lists a customer's invoices. It returns false if After is not an invoice of this
// customer. An invoice that was just issued and has no number yet has number 0.
func (m *customerReader) ListInvoices(q *InvoiceQuery) (page InvoicePage, ok bool) {
	s := m.state.Load()
	l := invoiceListing{state: s, q: q, page: InvoicePage{List: []book.InvoiceView{}}}
	if q.CustomerRow == 0 || q.CustomerRow > s.Customers.Len() {
		return l.page, q.After == [16]byte{}
	}
	lock := s.ReadLock(q.CustomerRow)
	defer lock.RUnlock()
	if s.Customers.Read(q.CustomerRow).Env != q.Env {
		return l.page, q.After == [16]byte{}
	}
	l.found = q.After == [16]byte{}
	l.walk()
	return l.page, l.found
}

// invoiceListing is a listing in progress.
type invoiceListing struct {
	*state
	q    *InvoiceQuery
	page InvoicePage
	// found reports whether After was seen: invoices behind it are listed.
	found bool
}

// walk lists stored invoices, then those issued but not stored yet, then PENDING ones.
func (l *invoiceListing) walk() {
	now := l.Environment(l.q.Env).Now(l.Log.Stamp())
	changed := map[uint32]book.InvoiceView{}
	var issued []book.InvoiceView
	projections := l.Projections(l.q.CustomerRow, now)
	for _, projection := range projections.Due {
		issued = append(issued, l.Foreseen(projection, changed)...)
	}
	for row := l.first(); row != 0 && !l.page.More; row = l.Invoices.Read(row).Next {
		if view, ok := changed[row]; ok {
			l.take(view)
			continue
		}
		// Only listed invoices have their lines decoded.
		if v := l.Invoices.Read(row); l.selects(v.Status, v.CreatedAt) {
			l.take(l.InvoiceView(&v, l.InvoiceItems(row, &v)))
		}
	}
	slices.SortStableFunc(issued, func(a, b book.InvoiceView) int {
		return cmp.Compare(a.CreatedAt, b.CreatedAt)
	})
	for i := 0; i < len(issued) && !l.page.More; i++ {
		l.take(issued[i])
	}
	if l.q.Pending || l.q.Status == book.InvoicePending {
		l.walkPending(projections)
	}
}

// first returns the row of the first stored invoice of the page; 0 if the page begins behind them.
func (l *invoiceListing) first() uint32 {
	c := l.Customers.Read(l.q.CustomerRow)
	if l.found {
		return c.FirstInvoice
	}
	row := l.InvoiceWith(&l.q.After)
	if row == 0 {
		return 0
	}
	v := l.Invoices.Read(row)
	if v.Customer != l.q.CustomerRow {
		return 0
	}
	l.found = true
	return v.Next
}

func (l *invoiceListing) walkPending(projections *lifecycle.Projections) {
	row := l.Customers.Read(l.q.CustomerRow).FirstSubscription
	for ; row != 0 && !l.page.More; row = l.Subscriptions.Read(row).Next {
		views := l.Upcoming(projections.Of(row))
		for i := 0; i < len(views) && !l.page.More; i++ {
			l.take(views[i])
		}
	}
}

// selects reports whether the query selects an invoice with this status and instant of issue.
func (l *invoiceListing) selects(status book.InvoiceStatus, createdAt int64) bool {
	q := l.q
	if q.Status != 0 && q.Status != status {
		return false
	}
	if status == book.InvoicePending {
		return !q.HasTo
	}
	return createdAt >= q.From && (!q.HasTo || createdAt < q.To)
}

// take adds an invoice to the page if it belongs there.
func (l *invoiceListing) take(view book.InvoiceView) {
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
func (m *customerReader) Invoices(env, customerRow uint32) []book.InvoiceView {
	page, _ := m.ListInvoices(&InvoiceQuery{Env: env, CustomerRow: customerRow})
	return page.List
}

// InvoicesBefore lists an environment's stored invoices with rows before one, newest first, of one
// status or, with 0, of all. It lists at most limit invoices and examines at most scan rows. next
// continues the list; 0 ends it. PENDING invoices, and those issued but not stored yet, are left
// out.
func (m *customerReader) InvoicesBefore(
	env, before uint32, status book.InvoiceStatus, limit, scan int,
) (list []book.InvoiceView, next uint32) {
	s := m.state.Load()
	row := uint32(min(uint64(before), uint64(s.whole.invoices.Load())+1))
	for ; row > 1 && scan > 0 && len(list) < limit; scan-- {
		row--
		if owner := s.Invoices.Owner(row); s.Customers.Read(owner).Env == env {
			if view, ok := storedInvoice(s, row, owner, status); ok {
				list = append(list, view)
			}
		}
	}
	if row > 1 {
		next = row
	}
	return list, next
}

// DueQuery asks for a page of an environment's stored invoices by when they are due, the oldest
// first.
type DueQuery struct {
	Env    uint32
	Status book.InvoiceStatus
	// After is the place of the last invoice of the page before; the zero place begins.
	After DuePlace
	Limit int
	// Max bounds how many invoices of the status are sorted, Scan the rows of all environments.
	Max, Scan int
}

// DuePlace is an invoice's place among those sorted by when they are due.
type DuePlace struct {
	DueAt  int64
	Number uint64
}

func (p DuePlace) compare(q DuePlace) int {
	return cmp.Or(cmp.Compare(p.DueAt, q.DueAt), cmp.Compare(p.Number, q.Number))
}

// InvoicesByDue lists the page that q asks for; more reports whether another follows. all is false,
// and the page empty, where there are more invoices than Most, or where Scan rows do not reach the
// oldest.
func (m *customerReader) InvoicesByDue(q *DueQuery) (list []book.InvoiceView, more, all bool) {
	s := m.state.Load()
	type found struct {
		DuePlace
		row uint32
	}
	var sorted []found
	count, row := 0, uint32(s.whole.invoices.Load())
	for scan := q.Scan; row > 0; row, scan = row-1, scan-1 {
		if scan <= 0 || count > q.Max {
			return nil, false, false
		}
		owner := s.Invoices.Owner(row)
		if s.Customers.Read(owner).Env != q.Env {
			continue
		}
		lock := s.ReadLock(owner)
		v := s.Invoices.Read(row)
		at := found{DuePlace{v.DueAt, v.Number}, row}
		selected := v.Status == q.Status
		lock.RUnlock()
		if selected {
			count++
			if q.After.compare(at.DuePlace) < 0 {
				sorted = append(sorted, at)
			}
		}
	}
	if count > q.Max {
		return nil, false, false
	}
	slices.SortFunc(sorted, func(a, b found) int { return a.compare(b.DuePlace) })
	for i := range sorted {
		if len(list) == q.Limit {
			return list, true, true
		}
		// One that was paid meanwhile is left out.
		view, ok := storedInvoice(s, sorted[i].row, s.Invoices.Owner(sorted[i].row), q.Status)
		if ok {
			list = append(list, view)
		}
	}
	return list, false, true
}

// InvoiceNumber is the number of a stored invoice, and its row.
type InvoiceNumber struct {
	Row    uint32
	Number uint64
}

// InvoiceNumbers lists those of an environment's stored invoices among the scan rows behind one:
// numbers rise with rows. through is the last row that was looked at, and more reports whether
// there are others.
func (m *customerReader) InvoiceNumbers(env, after uint32, scan int) (
	list []InvoiceNumber, through uint32, more bool,
) {
	s := m.state.Load()
	last := s.whole.invoices.Load()
	through = uint32(min(uint64(after)+uint64(scan), uint64(max(after, last))))
	for row := uint64(after) + 1; row <= uint64(min(through, last)); row++ {
		row := uint32(row)
		if owner := s.Invoices.Owner(row); s.Customers.Read(owner).Env == env {
			lock := s.ReadLock(owner)
			list = append(list, InvoiceNumber{row, s.Invoices.Read(row).Number})
			lock.RUnlock()
		}
	}
	return list, through, through < last
}

// InvoiceAt reads the stored invoice of a row; false where it is of another environment, or none.
func (m *customerReader) InvoiceAt(env, row uint32) (view book.InvoiceView, ok bool) {
	s := m.state.Load()
	if row == 0 || row > s.whole.invoices.Load() {
		return view, false
	}
	owner := s.Invoices.Owner(row)
	if s.Customers.Read(owner).Env != env {
		return view, false
	}
	return storedInvoice(s, row, owner, 0)
}

// storedInvoice reads an invoice of a status; 0 is every status.
func storedInvoice(s *state, row, owner uint32, status book.InvoiceStatus) (
	view book.InvoiceView, ok bool,
) {
	lock := s.ReadLock(owner)
	defer lock.RUnlock()
	v := s.Invoices.Read(row)
	if status != 0 && v.Status != status {
		return view, false
	}
	return s.InvoiceView(&v, s.InvoiceItems(row, &v)), true
}

// Upcoming previews the next invoice of a subscription under its final id. It returns false if the
// subscription does not exist, or has ended and has no PENDING invoice.
func (m *customerReader) Upcoming(env uint32, subscriptionID [16]byte) (book.InvoiceView, bool) {
	views := m.pendingOf(env, &subscriptionID)
	if len(views) == 0 {
		return book.InvoiceView{}, false
	}
	return views[0], true
}

// pendingOf previews the PENDING invoices of one subscription.
func (m *customerReader) pendingOf(env uint32, subscriptionID *[16]byte) []book.InvoiceView {
	s := m.state.Load()
	row := s.SubscriptionIn(env, subscriptionID)
	if row == 0 {
		return nil
	}
	lock := s.ReadLock(s.Subscriptions.Read(row).Customer)
	defer lock.RUnlock()
	return s.Upcoming(s.ProjectionsNow(s.Subscriptions.Read(row).Customer).Of(row))
}

// PendingInvoices previews the PENDING invoices of a customer's subscriptions, oldest first.
func (m *customerReader) PendingInvoices(env, customerRow uint32) []book.InvoiceView {
	s := m.state.Load()
	views := []book.InvoiceView{}
	if customerRow == 0 || customerRow > s.Customers.Len() {
		return views
	}
	lock := s.ReadLock(customerRow)
	defer lock.RUnlock()
	c := s.Customers.Read(customerRow)
	if c.Env != env {
		return views
	}
	projections := s.ProjectionsNow(customerRow)
	for row := c.FirstSubscription; row != 0; row = s.Subscriptions.Read(row).Next {
		views = append(views, s.Upcoming(projections.Of(row))...)
	}
	return views
}

func (m *customerReader) pendingInvoice(env uint32, id *[16]byte) (book.InvoiceView, bool) {
	s := m.state.Load()
	row := s.PendingWith(env, id)
	if row == 0 {
		return book.InvoiceView{}, false
	}
	b := s.Subscriptions.Read(row)
	for _, view := range m.pendingOf(env, new(b.ID)) {
		if view.ID == *id {
			return view, true
		}
	}
	// It was just issued and is not stored yet.
	for _, issued := range m.Invoices(env, b.Customer) {
		if issued.ID == *id {
			return issued, true
		}
	}
	return book.InvoiceView{}, false
}
