package book

// CancelMode says when a cancellation takes effect; 0: none was asked for.
//
//schema:enum
type CancelMode uint8

const (
	CancelImmediate   CancelMode = 1 // IMMEDIATE
	CancelAtPeriodEnd CancelMode = 2 // END_OF_PERIOD
)

// Standings in life of a subscription, in the order in which they are chosen.
const (
	LifeActive    = 0
	LifeSuspended = 1
	LifeEnded     = 2
)

// Life is the subscription's standing.
func (r *SubscriptionRest) Life() int {
	switch {
	case r.EndedAt != 0:
		return LifeEnded
	case r.SuspendedAt != 0:
		return LifeSuspended
	}
	return LifeActive
}

// Subscribed counts a subscription in or out of its plan.
func (s *Book) Subscribed(b *Subscription, by int64) {
	if b.EndedAt != 0 {
		return
	}
	c := s.Environment(s.Customers.Read(b.Customer).Env).Catalog.Load()
	c.Plans[c.Version(b.Version).Plan-1].Subscribers.Add(by)
}

// SubscriptionWith finds a subscription by its UUID in any environment; 0 when there is none.
func (s *Book) SubscriptionWith(id *[16]byte) uint32 {
	return s.SubscriptionByID.Find(s.IDHash(id), func(row uint32) bool {
		return s.Subscriptions.Read(row).ID == *id
	})
}

// SubscriptionIn finds a subscription of one environment; 0 when there is none.
func (s *Book) SubscriptionIn(env uint32, id *[16]byte) uint32 {
	row := s.SubscriptionWith(id)
	if row == 0 || s.Customers.Read(s.Subscriptions.Read(row).Customer).Env != env {
		return 0
	}
	return row
}

// PendingID is the id of the invoice that accrues for the current period. It keeps it.
func PendingID(b *Subscription) [16]byte { return DerivedID(b.ID, LabelRegular, b.Period) }

// waitingID is the id of the invoice that waits for late usage of the period before.
func waitingID(b *Subscription) [16]byte { return DerivedID(b.ID, LabelRegular, b.Period-1) }

// Accruing are the ids of a subscription's PENDING invoices, oldest first: of the period that ended
// last until it is issued, and of the current one.
func (b *Subscription) Accruing() (ids [][16]byte) {
	if b.IssueAt != 0 {
		ids = append(ids, waitingID(b))
	}
	if b.EndedAt == 0 {
		ids = append(ids, PendingID(b))
	}
	return ids
}

// Accrues reports whether an id is that of a PENDING invoice.
func (b *Subscription) Accrues(id *[16]byte) bool {
	return b.IssueAt != 0 && waitingID(b) == *id || b.EndedAt == 0 && PendingID(b) == *id
}
