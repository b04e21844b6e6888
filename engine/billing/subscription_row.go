package billing

import (
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/page"
)

// subscription is all of a subscription. id, customer and createdAt never change.
type subscription struct {
	usualSubscription
	subscriptionRest
}

// usualSubscription is what a row has of a subscription; what a check needs comes first.
type usualSubscription struct {
	customer     uint32
	next         uint32 // the customer's next younger subscription
	version      uint32 // number of the plan version in the environment's catalog
	firstCounter uint32 // its counters are rows from here on, in the version's order
	due          int64  // when something of it falls due next, on the environment's clock
	id           [16]byte

	periodStart, periodEnd int64
	createdAt              int64
	// issueAt is when the invoice of the period that ended last is issued; 0: it is.
	issueAt   int64
	period    uint32 // number of the current period, from 0
	counters  uint16
	graceDays uint16
	// months is how many months after the anchor the current period ends.
	months uint32
	// Rows: closed spans, unpaid invoices.
	firstSpan, firstUnpaid uint32
	// rest is, in a row, the number of the part that is its rest, 0 where that is the usual one.
	rest uint32
}

// subscriptionRest is what is mostly as usual says.
type subscriptionRest struct {
	suspendedAt, endedAt int64 // 0: it is not
	anchor               int64 // the instant from which all periods are computed
	// cancelledAt is when cancellation was asked for, adjustAt when late usage of an ended
	// subscription will be billed; 0: it is not.
	cancelledAt, adjustAt int64
	// spanStart is where the present span begins: the period's start, or a plan change within it.
	spanStart int64
	span      uint32 // numbers the spans from 0
	// firstSequence is the row of the sequences of plan versions that it has left; 0: none.
	firstSequence uint32
	// baseVersion is the plan version at the period's start, whose price a period in arrears bills.
	baseVersion uint32
	// Rows: counters' bases (0: none), plan changes.
	firstBase, firstChange, lastChange, pending uint32
	adjustments                                 uint32 // adjustment invoices issued
	room                                        uint16 // counters that fit from firstCounter on
	cancelMode                                  CancelMode
}

// usual is the rest of a subscription that goes on and whose plan was never changed.
func (b *usualSubscription) usual() subscriptionRest {
	return subscriptionRest{
		anchor: b.createdAt, spanStart: b.periodStart, span: b.period, baseVersion: b.version,
		room: b.counters,
	}
}

// active reports whether the subscription gives access.
func (r *subscriptionRest) active() bool { return r.suspendedAt == 0 && r.endedAt == 0 }

// appendSubscription appends the bytes that stand for it in a snapshot.
func appendSubscription(dst []byte, b *subscription) []byte {
	dst = append(dst, b.id[:]...)
	dst = rows.AppendI64(rows.AppendI64(dst, b.createdAt), b.anchor)
	dst = rows.AppendI64(rows.AppendI64(dst, b.periodStart), b.periodEnd)
	dst = rows.AppendI64(rows.AppendI64(rows.AppendI64(dst, b.suspendedAt), b.endedAt), b.due)
	dst = rows.AppendI64(rows.AppendI64(rows.AppendI64(dst, b.cancelledAt), b.adjustAt), b.spanStart)
	dst = rows.AppendI64(dst, b.issueAt)
	dst = rows.AppendU32(rows.AppendU32(dst, b.customer), b.next)
	dst = rows.AppendU32(rows.AppendU32(dst, b.version), b.baseVersion)
	dst = rows.AppendU32(rows.AppendU32(dst, b.firstCounter), b.firstBase)
	dst = rows.AppendU32(rows.AppendU32(dst, b.firstSpan), b.firstUnpaid)
	dst = rows.AppendU32(rows.AppendU32(rows.AppendU32(dst, b.firstChange), b.lastChange), b.pending)
	dst = rows.AppendU32(rows.AppendU32(rows.AppendU32(dst, b.period), b.span), b.firstSequence)
	dst = rows.AppendU32(rows.AppendU32(dst, b.months), b.adjustments)
	dst = rows.AppendU16(rows.AppendU16(rows.AppendU16(dst, b.counters), b.room), b.graceDays)
	return append(dst, byte(b.cancelMode))
}

// readSubscription reads what appendSubscription wrote.
func readSubscription(src []byte, b *subscription) ([]byte, error) {
	r := rows.Reader{Rest: src}
	b.id = r.ID()
	b.createdAt, b.anchor = r.I64(), r.I64()
	b.periodStart, b.periodEnd = r.I64(), r.I64()
	b.suspendedAt, b.endedAt, b.due = r.I64(), r.I64(), r.I64()
	b.cancelledAt, b.adjustAt, b.spanStart = r.I64(), r.I64(), r.I64()
	b.issueAt = r.I64()
	b.customer, b.next = r.U32(), r.U32()
	b.version, b.baseVersion = r.U32(), r.U32()
	b.firstCounter, b.firstBase = r.U32(), r.U32()
	b.firstSpan, b.firstUnpaid = r.U32(), r.U32()
	b.firstChange, b.lastChange, b.pending = r.U32(), r.U32(), r.U32()
	b.period, b.span, b.firstSequence = r.U32(), r.U32(), r.U32()
	b.months, b.adjustments = r.U32(), r.U32()
	b.counters, b.room, b.graceDays = r.U16(), r.U16(), r.U16()
	b.cancelMode = CancelMode(r.U8())
	return r.Rest, r.Err
}

// subscriptionRow is a subscription in memory.
type subscriptionRow struct{ usualSubscription }

// subscriptions are all subscriptions.
type subscriptions struct {
	rows    *page.Table[subscriptionRow]
	rests   *page.Parts[subscriptionRest]
	details *page.Sparse
}

// openSubscriptions makes the tables.
func openSubscriptions(s *page.Store) subscriptions {
	b := subscriptions{
		rests: page.NewParts[subscriptionRest](), details: page.NewSparse(s, tableDetails),
	}
	b.rows = page.NewTable(s, tableSubscriptions, page.Codec[subscriptionRow]{
		Append: func(dst []byte, r *subscriptionRow) []byte {
			whole := b.of(r)
			return appendSubscription(dst, &whole)
		},
		Read: func(src []byte, r *subscriptionRow) ([]byte, error) {
			var whole subscription
			rest, err := readSubscription(src, &whole)
			if err == nil {
				b.put(r, &whole)
			}
			return rest, err
		},
		Apart: func(r *subscriptionRow) bool { return r.rest != 0 },
	})
	return b
}

func (b *subscriptions) of(r *subscriptionRow) subscription {
	v := subscription{r.usualSubscription, b.restOf(r)}
	v.rest = 0
	return v
}

func (b *subscriptions) restOf(r *subscriptionRow) subscriptionRest {
	if r.rest != 0 {
		return *b.rests.Read(r.rest)
	}
	return r.usual()
}

func (b *subscriptions) put(r *subscriptionRow, v *subscription) {
	rest := r.rest
	r.usualSubscription = v.usualSubscription
	if r.rest = 0; v.subscriptionRest == v.usual() {
		b.rests.Drop(rest)
		return
	}
	r.rest = b.rests.Put(rest, v.subscriptionRest)
}

// Len is the number of subscriptions.
func (b *subscriptions) Len() uint32 { return b.rows.Len() }

// Bytes is the memory of all subscriptions.
func (b *subscriptions) Bytes() uint64 {
	return b.rows.Bytes() + b.rests.Bytes() + b.details.Bytes()
}

// Details returns the encoded SubscriptionDetails of a subscription; empty where it has none.
func (b *subscriptions) Details(row uint32) string { return b.details.Get(row) }

// SetDetails sets the encoded SubscriptionDetails of a subscription.
func (b *subscriptions) SetDetails(row uint32, text []byte) { b.details.Put(row, text) }

// CheckDetails checks the details after a restore.
func (b *subscriptions) CheckDetails(check func(data string) error) error {
	return b.details.Check(b.Len(), check)
}

// Read returns a subscription's row. Readers hold the customer's lock.
func (b *subscriptions) Read(row uint32) *subscriptionRow { return b.rows.Read(row) }

// Rest returns what a row has not.
func (b *subscriptions) Rest(row uint32) subscriptionRest { return b.restOf(b.rows.Read(row)) }

// Whole returns all of a subscription.
func (b *subscriptions) Whole(row uint32) subscription { return b.of(b.rows.Read(row)) }

// Append adds a subscription. For Apply, under the customer's lock, as are Write and Link.
func (b *subscriptions) Append(v *subscription) (row uint32) {
	row, r := b.rows.Append()
	b.put(r, v)
	return row
}

// Write stores a subscription.
func (b *subscriptions) Write(row uint32, v *subscription) { b.put(b.rows.Write(row), v) }

// Link says which subscription of the customer comes after one.
func (b *subscriptions) Link(row, next uint32) { b.rows.Write(row).next = next }
