package book

import (
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/page"
)

// Subscription is a whole subscription. id, customer and createdAt never change.
//
//schema:row ID CreatedAt Anchor PeriodStart PeriodEnd SuspendedAt EndedAt Due CancelledAt AdjustAt
//schema:row SpanStart IssueAt Customer Next Version BaseVersion FirstCounter FirstBase FirstSpan
//schema:row FirstUnpaid FirstChange LastChange Pending Period Span FirstSequence Months Adjustments
//schema:row Counters Room GraceDays CancelMode -ColdPart
type Subscription struct {
	HotSubscription
	ColdSubscription
}

// HotSubscription is a subscription's row; what a check needs comes first.
type HotSubscription struct {
	Customer     uint32
	Next         uint32 // the customer's next younger subscription
	Version      uint32 // number of the plan version in the environment's catalog
	FirstCounter uint32 // its counters are rows from here on, in the version's order
	// ColdPart is, in a row, the number of its cold part; 0 for DefaultCold.
	ColdPart uint32
	Period   uint32 // number of the current period, from 0
	Due      int64  // when something of it falls due next, on the environment's clock
	ID       [16]byte

	PeriodStart, PeriodEnd int64
	CreatedAt              int64
	// IssueAt is when the invoice of the last ended period is issued; 0: it is issued.
	IssueAt   int64
	Counters  uint16
	GraceDays uint16
	// Months is how many months after the anchor the current period ends.
	Months uint32
	// Rows: closed spans, unpaid invoices.
	FirstSpan, FirstUnpaid uint32
}

// ColdSubscription has the fields that DefaultCold gives for most subscriptions.
type ColdSubscription struct {
	SuspendedAt, EndedAt int64 // 0: it has not ended
	Anchor               int64 // the instant from which all periods are computed
	// CancelledAt is when cancellation was requested, AdjustAt when late usage of an ended
	// subscription will be billed; 0: never.
	CancelledAt, AdjustAt int64
	// SpanStart is where the present span begins: the period's start, or a plan change within it.
	SpanStart int64
	Span      uint32 // numbers the spans from 0
	// FirstSequence is the row of the sequences of left plan versions; 0: none.
	FirstSequence uint32
	// BaseVersion is the plan version at the period's start: a period in arrears bills its price.
	BaseVersion uint32
	// Rows: counters' bases (0: none), plan changes.
	FirstBase, FirstChange, LastChange, Pending uint32
	Adjustments                                 uint32 // adjustment invoices issued
	Room                                        uint16 // counters that fit from firstCounter on
	CancelMode                                  CancelMode
}

// DefaultCold returns the cold part of a subscription that has not ended and never changed its
// plan.
func (b *HotSubscription) DefaultCold() ColdSubscription {
	return ColdSubscription{
		Anchor: b.CreatedAt, SpanStart: b.PeriodStart, Span: b.Period, BaseVersion: b.Version,
		Room: b.Counters,
	}
}

// Active reports whether the subscription gives access.
func (r *ColdSubscription) Active() bool { return r.SuspendedAt == 0 && r.EndedAt == 0 }

// SubscriptionRow is a subscription in memory.
type SubscriptionRow struct{ HotSubscription }

// Subscriptions are all subscriptions.
type Subscriptions struct {
	rows      *page.Table[SubscriptionRow]
	ColdParts *page.Parts[ColdSubscription]
	Details   *page.Sparse
}

// OpenSubscriptions makes the tables.
func OpenSubscriptions(s *page.Store) Subscriptions {
	b := Subscriptions{
		ColdParts: page.NewParts[ColdSubscription](), Details: page.NewSparse(s, accounts.TableDetails),
	}
	b.rows = page.NewTable(s, accounts.TableSubscriptions, page.Codec[SubscriptionRow]{
		Append: func(dst []byte, r *SubscriptionRow) []byte {
			whole := b.of(r)
			return appendSubscription(dst, &whole)
		},
		Read: func(src []byte, r *SubscriptionRow) ([]byte, error) {
			var whole Subscription
			rest, err := readSubscription(src, &whole)
			if err == nil {
				b.put(r, &whole)
			}
			return rest, err
		},
		Apart: func(r *SubscriptionRow) bool { return r.ColdPart != 0 },
	})
	return b
}

func (b *Subscriptions) of(r *SubscriptionRow) Subscription {
	v := Subscription{r.HotSubscription, b.coldOf(r)}
	v.ColdPart = 0
	return v
}

func (b *Subscriptions) coldOf(r *SubscriptionRow) ColdSubscription {
	if r.ColdPart != 0 {
		return *b.ColdParts.Read(r.ColdPart)
	}
	return r.DefaultCold()
}

func (b *Subscriptions) put(r *SubscriptionRow, v *Subscription) {
	rest := r.ColdPart
	r.HotSubscription = v.HotSubscription
	if r.ColdPart = 0; v.ColdSubscription == v.DefaultCold() {
		b.ColdParts.Drop(rest)
		return
	}
	r.ColdPart = b.ColdParts.Put(rest, v.ColdSubscription)
}

// Len is the number of subscriptions.
func (b *Subscriptions) Len() uint32 { return b.rows.Len() }

// Bytes returns the memory of all subscriptions.
func (b *Subscriptions) Bytes() uint64 {
	return b.rows.Bytes() + b.ColdParts.Bytes() + b.Details.Bytes()
}

// Read returns a subscription's row. Readers hold the customer's lock.
func (b *Subscriptions) Read(row uint32) *SubscriptionRow { return b.rows.Read(row) }

// Cold returns the fields that a row lacks.
func (b *Subscriptions) Cold(row uint32) ColdSubscription { return b.coldOf(b.rows.Read(row)) }

// Whole returns a whole subscription.
func (b *Subscriptions) Whole(row uint32) Subscription { return b.of(b.rows.Read(row)) }

// Append adds a subscription. Append, Write and Link are for Apply, under the customer's lock.
func (b *Subscriptions) Append(v *Subscription) (row uint32) {
	row, r := b.rows.Append()
	b.put(r, v)
	return row
}

// Write stores a subscription.
func (b *Subscriptions) Write(row uint32, v *Subscription) { b.put(b.rows.Write(row), v) }

// Link sets the customer's next subscription after one.
func (b *Subscriptions) Link(row, next uint32) { b.rows.Write(row).Next = next }

// Standings of a subscription, in the order in which usage chooses them.
const (
	LifeActive    = 0
	LifeSuspended = 1
	LifeEnded     = 2
)

// Life returns the subscription's standing.
func (r *ColdSubscription) Life() int {
	switch {
	case r.EndedAt != 0:
		return LifeEnded
	case r.SuspendedAt != 0:
		return LifeSuspended
	}
	return LifeActive
}

// SubscriptionWith finds a subscription by its UUID in any environment; 0 if there is none.
func (s *Book) SubscriptionWith(id *[16]byte) uint32 {
	return s.SubscriptionByID.Find(s.IDHash(id), func(row uint32) bool {
		return s.Subscriptions.Read(row).ID == *id
	})
}

// SubscriptionIn finds a subscription of one environment; 0 if there is none.
func (s *Book) SubscriptionIn(env uint32, id *[16]byte) uint32 {
	row := s.SubscriptionWith(id)
	if row == 0 || s.Customers.Read(s.Subscriptions.Read(row).Customer).Env != env {
		return 0
	}
	return row
}
