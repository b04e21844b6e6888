package book

// CancelMode tells when a cancellation takes effect; 0: none is scheduled.
//
//schema:enum
type CancelMode uint8

const (
	CancelImmediate   CancelMode = 1 // IMMEDIATE
	CancelAtPeriodEnd CancelMode = 2 // END_OF_PERIOD
	// CancelByCustomer is CancelAtPeriodEnd, asked for by the customer, who may revert it.
	CancelByCustomer CancelMode = 3 // -
)

// Named returns the mode that the API has a name for.
func (m CancelMode) Named() CancelMode {
	if m == CancelByCustomer {
		return CancelAtPeriodEnd
	}
	return m
}

// AtPeriodEnd reports whether the subscription goes on until its period ends.
func (m CancelMode) AtPeriodEnd() bool { return m.Named() == CancelAtPeriodEnd }

// Subscribed adds a subscription to the counts of its plan and version, or removes it.
func (s *Book) Subscribed(b *Subscription, by int64) {
	if b.EndedAt != 0 {
		return
	}
	c := s.Environment(s.Customers.Read(b.Customer).Env).Catalog.Load()
	v := c.Version(b.Version)
	v.Subscribers.Add(by)
	c.Plans[v.Plan-1].Subscribers.Add(by)
}

// PendingID returns the id of the invoice for the current period, which keeps it when it is issued.
func PendingID(b *Subscription) [16]byte { return DerivedID(b.ID, LabelRegular, b.Period) }

// waitingID returns the id of the invoice that waits for late usage of the period before.
func waitingID(b *Subscription) [16]byte { return DerivedID(b.ID, LabelRegular, b.Period-1) }

// Accruing returns the ids of a subscription's PENDING invoices, oldest first: of the last ended
// period until it is issued, and of the current one.
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
