package billing

import "tollgate/engine/page"

// commit stores what became of a ledger.
func (t *runner) commit(l *ledger) {
	reached := t.reached(l)
	lock := t.s.stripe(l.b.customer)
	lock.Lock()
	t.commitCounters(l)
	t.commitSequences(l)
	t.commitSpans(l)
	t.commitInvoices(l)
	t.commitChanges(l)
	t.setCredit(l.b.customer, l.version().currency, l.credit)
	for _, step := range l.credited {
		if between := t.s.subscriptions.Whole(l.row); between.version != step.version {
			between.version = step.version
			t.s.subscriptions.Write(l.row, &between)
		}
		switch {
		case step.end:
			t.creditsAtPeriodEnd(l.row, step.at)
		case step.start:
			t.creditsAtPeriodStart(l.row, step.at)
		default:
			t.creditsAtUpgrade(l.row, step.from, step.at)
		}
	}
	l.b.next = t.s.subscriptions.Read(l.row).next
	t.s.subscriptions.Write(l.row, &l.b)
	t.s.hint(l.row, &l.b)
	lock.Unlock()

	if l.was.version != l.b.version || l.was.endedAt != l.b.endedAt {
		t.s.subscribed(&l.was, -1)
		t.s.subscribed(&l.b, 1)
	}
	t.s.reindexPending(l)
	for i := range l.drafts {
		t.s.invoiceByID.Insert(t.s.idHash(&l.drafts[i].id), l.drafts[i].row)
	}
	t.keepFacts(l)
	t.tellAll(l)
	for i := range reached {
		reached[i].At = l.env.now(t.Stamp)
		t.tell(l.env, l.b.customer, &reached[i])
	}
	t.s.reschedule(l.env, l.row, l.b.due)
	t.Fold(uint64(l.row)<<32 ^ uint64(l.b.due))
	t.Fold(uint64(l.b.version)<<32 ^ uint64(l.b.period))
}

// commitCounters stores the counters; the customer's lock is held.
func (t *runner) commitCounters(l *ledger) {
	l.b.counters = uint16(len(l.counters))
	if l.b.counters > l.b.room {
		l.b.firstCounter, l.b.firstBase = appendRows(t.s.counters.rows, len(l.counters)), 0
		l.b.room = l.b.counters
	}
	based := l.b.firstBase != 0
	for i := range l.bases {
		based = based || l.bases[i] != (base{})
	}
	if based && l.b.firstBase == 0 {
		l.b.firstBase = appendRows(t.s.bases, int(l.b.room))
	}
	for i := range l.counters {
		t.s.counters.Write(l.b.firstCounter+uint32(i), &l.counters[i])
		t.foldDecimal(l.counters[i].used)
		t.commitCover(l, i)
		if based {
			*t.s.bases.Write(l.b.firstBase + uint32(i)) = l.bases[i]
		}
	}
}

// commitCover stores what of a counter credits have paid; the customer's lock is held.
func (t *runner) commitCover(l *ledger, i int) {
	counter := l.b.firstCounter + uint32(i)
	used, next := t.s.covered(counter)
	paid := l.covers[i]
	t.cover(counter, difference(paid.used, used), false)
	t.cover(counter, difference(paid.next, next), true)
}

// appendRows appends n rows and returns the first one.
func appendRows[T any](table *page.Table[T], n int) (first uint32) {
	for i := range n {
		row, _ := table.Append()
		if i == 0 {
			first = row
		}
	}
	return first
}

// commitSpans stores the closed spans, and gives back the rows of those to which nothing can belong
// any more; the newest stays. The customer's lock is held.
func (t *runner) commitSpans(l *ledger) {
	floor := l.env.now(t.s.floor)
	for len(l.spans) > 1 && l.spans[0].end <= floor && l.spans[0].settled() {
		if l.spans[0].row != 0 {
			t.free(&l.spans[0])
		}
		l.spans = l.spans[1:]
	}
	next := uint32(0)
	for i := len(l.spans) - 1; i >= 0; i-- {
		p := &l.spans[i]
		if p.row == 0 {
			p.row, p.dirty = t.takeSpan(), true
		}
		if p.next != next || p.dirty {
			p.next = next
			t.store(p)
		}
		next = p.row
	}
	l.b.firstSpan = next
}

// commitInvoices numbers and stores the drafts, and what changed of unpaid invoices. The customer's
// lock is held.
func (t *runner) commitInvoices(l *ledger) {
	for i := range l.drafts {
		d := &l.drafts[i]
		d.row = t.append(l.env, d)
	}
	next := uint32(0)
	for i := len(l.unpaid) - 1; i >= 0; i-- {
		v := &l.unpaid[i]
		v.nextUnpaid = next
		next = t.rewrite(l, v)
	}
	l.b.firstUnpaid = next
	for i := range l.finished {
		t.rewrite(l, &l.finished[i])
	}
}

// rewrite stores what may change of an invoice, and returns its row.
func (t *runner) rewrite(l *ledger, v *heldInvoice) (row uint32) {
	if row = v.row; row == 0 {
		row = l.drafts[v.at].row
	}
	r := t.s.invoices.Read(row)
	if r.status == v.status && r.nextUnpaid == v.nextUnpaid && r.graceEnd == v.graceEnd {
		return row
	}
	r.status, r.paidAt, r.graceEnd, r.nextUnpaid = v.status, v.paidAt, v.graceEnd, v.nextUnpaid
	t.s.invoices.Write(row, &r)
	t.Fold(uint64(row)<<8 | uint64(v.status))
	return row
}
