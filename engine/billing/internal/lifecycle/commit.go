package lifecycle

import (
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/page"
)

// keepFacts adds the facts of a committed projection to the entry's record.
func (t *Runner) keepFacts(l *Projection) {
	oldest, drafts := l.Sub.Span, l.Drafts
	if len(l.Spans) > 0 {
		oldest = l.Spans[0].Number
	}
	for i := range l.Facts {
		f := &l.Facts[i]
		f.Customer, f.Subscription = l.Sub.Customer, l.Row
		f.Oldest = oldest
		if f.Kind == credits.FactInvoice { // each draft has one
			f.Invoice.Number, drafts = drafts[0].Number, drafts[1:]
		}
		t.KeepFact(f)
	}
}

// Commit stores a projection.
func (t *Runner) Commit(l *Projection) {
	reached := t.reached(l)
	lock := t.S.WriteLock(l.Sub.Customer)
	t.commitCounters(l)
	t.commitInterims(l)
	t.commitSequences(l)
	t.commitSpans(l)
	t.commitInvoices(l)
	t.commitChanges(l)
	t.SetCredit(l.Sub.Customer, l.Version().Currency, l.Credit)
	for _, step := range l.credited {
		if between := t.S.Subscriptions.Whole(l.Row); between.Version != step.version {
			between.Version = step.version
			t.S.Subscriptions.Write(l.Row, &between)
		}
		switch {
		case step.end:
			t.CreditsAtPeriodEnd(l.Row, step.at)
		case step.start:
			t.CreditsAtPeriodStart(l.Row, step.at)
		default:
			t.CreditsAtUpgrade(l.Row, step.from, step.at)
		}
	}
	l.Sub.Next = t.S.Subscriptions.Read(l.Row).Next
	t.S.Subscriptions.Write(l.Row, &l.Sub)
	if l.was.FirstCounter != l.Sub.FirstCounter {
		t.S.Hint(l.Sub.Customer)
	}
	lock.Unlock()

	if l.was.Version != l.Sub.Version || l.was.EndedAt != l.Sub.EndedAt {
		t.S.Subscribed(&l.was, -1)
		t.S.Subscribed(&l.Sub, 1)
	}
	t.S.Standing(&l.was, -1)
	t.S.Standing(&l.Sub, 1)
	t.S.reindexPending(l)
	for i := range l.Drafts {
		t.S.InvoiceByID.Insert(t.S.IDHash(&l.Drafts[i].ID), l.Drafts[i].row)
	}
	t.keepFacts(l)
	t.emitAll(l)
	for i := range reached {
		r := &reached[i]
		r.At = l.Env.Now(t.Stamp)
		counter := l.Sub.FirstCounter + uint32(r.slot)
		t.EmitLimit(l.Env, &l.Sub.HotSubscription, counter, &r.WebhookMessage)
	}
	t.S.Reschedule(l.Env, l.Row, l.Sub.Due)
	t.Fold(uint64(l.Row)<<32 ^ uint64(l.Sub.Due))
	t.Fold(uint64(l.Sub.Version)<<32 ^ uint64(l.Sub.Period))
}

// commitCounters stores the counters. Callers hold the customer's lock.
func (t *Runner) commitCounters(l *Projection) {
	l.Sub.Counters = uint16(len(l.Counters))
	if l.Sub.Counters > l.Sub.Room {
		l.Sub.FirstCounter, l.Sub.FirstBase = AppendRows(t.S.Counters.Rows, len(l.Counters)), 0
		l.Sub.Room = l.Sub.Counters
	}
	based := l.Sub.FirstBase != 0
	for i := range l.bases {
		based = based || l.bases[i] != (book.Base{})
	}
	if based && l.Sub.FirstBase == 0 {
		l.Sub.FirstBase = AppendRows(t.S.Bases, int(l.Sub.Room))
	}
	for i := range l.Counters {
		t.S.Counters.Write(l.Sub.FirstCounter+uint32(i), &l.Counters[i])
		t.FoldDecimal(l.Counters[i].Used)
		t.commitCover(l, i)
		if based {
			*t.S.Bases.Write(l.Sub.FirstBase + uint32(i)) = l.bases[i]
		}
	}
}

// commitCover stores how much of a counter credits have paid. Callers hold the customer's lock.
func (t *Runner) commitCover(l *Projection, i int) {
	counter := l.Sub.FirstCounter + uint32(i)
	used, next := t.S.Covered(counter)
	paid := l.covers[i]
	t.Cover(counter, sums.Difference(paid.Used, used), false)
	t.Cover(counter, sums.Difference(paid.Next, next), true)
}

// AppendRows appends n rows and returns the first one.
func AppendRows[T any](table *page.Table[T], n int) (first uint32) {
	for i := range n {
		row, _ := table.Append()
		if i == 0 {
			first = row
		}
	}
	return first
}

// commitSpans stores the closed spans and frees those to which nothing can belong any more; the
// newest stays, and so do those of a period whose invoice is to come, although an interim invoice
// may have billed them. Callers hold the customer's lock.
func (t *Runner) commitSpans(l *Projection) {
	floor, period := l.Env.Now(t.S.Floor), l.Sub.Period
	if l.Sub.IssueAt != 0 {
		period--
	}
	for len(l.Spans) > 1 && l.Spans[0].Period < period && l.Spans[0].End <= floor &&
		l.Spans[0].Settled() {
		if l.Spans[0].Row != 0 {
			t.Free(&l.Spans[0])
		}
		l.Spans = l.Spans[1:]
	}
	next := uint32(0)
	for i := len(l.Spans) - 1; i >= 0; i-- {
		p := &l.Spans[i]
		if p.Row == 0 {
			p.Row, p.Dirty = t.TakeSpan(), true
		}
		if p.Next != next || p.Dirty {
			p.Next = next
			t.Store(p)
		}
		next = p.Row
	}
	l.Sub.FirstSpan = next
}

// commitInvoices numbers and stores the drafts and the changed unpaid invoices. Callers hold the
// customer's lock.
func (t *Runner) commitInvoices(l *Projection) {
	for i := range l.Drafts {
		d := &l.Drafts[i]
		d.row = t.append(l.Env, d)
	}
	next := uint32(0)
	for i := len(l.Unpaid) - 1; i >= 0; i-- {
		v := &l.Unpaid[i]
		v.NextUnpaid = next
		next = t.rewrite(l, v)
	}
	l.Sub.FirstUnpaid = next
	for i := range l.finished {
		t.rewrite(l, &l.finished[i])
	}
}

// rewrite stores the fields of an invoice that may change, and returns its row.
func (t *Runner) rewrite(l *Projection, v *HeldInvoice) (row uint32) {
	if row = v.Row; row == 0 {
		row = l.Drafts[v.at].row
	}
	r := t.S.Invoices.Read(row)
	if r.Status == v.Status && r.NextUnpaid == v.NextUnpaid && r.GraceEnd == v.GraceEnd {
		return row
	}
	r.Status, r.PaidAt, r.GraceEnd, r.NextUnpaid = v.Status, v.PaidAt, v.GraceEnd, v.NextUnpaid
	t.S.RewriteInvoice(row, &r)
	t.Fold(uint64(row)<<8 | uint64(v.Status))
	return row
}
