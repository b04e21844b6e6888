package book

// CancelMode says when a cancellation takes effect; 0: none was asked for.
//
//schema:enum
type CancelMode uint8

const (
	CancelImmediate   CancelMode = 1 // IMMEDIATE
	CancelAtPeriodEnd CancelMode = 2 // END_OF_PERIOD
)

// Subscribed counts a subscription in or out of its plan.
func (s *Book) Subscribed(b *Subscription, by int64) {
	if b.EndedAt != 0 {
		return
	}
	c := s.Environment(s.Customers.Read(b.Customer).Env).Catalog.Load()
	c.Plans[c.Version(b.Version).Plan-1].Subscribers.Add(by)
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
