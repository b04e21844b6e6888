package tollgate

// The pages of lists. NextCursor is empty on the last one.

// AdminChangePage is a page of the record of changes.
type AdminChangePage struct {
	Changes    []AdminChange `json:"changes"`
	NextCursor string        `json:"nextCursor"`
}

// BudgetPage is a page of budgets.
type BudgetPage struct {
	Budgets    []Budget `json:"budgets"`
	NextCursor string   `json:"nextCursor"`
}

// EventPage is a page of events.
type EventPage struct {
	Events     []Event `json:"events"`
	NextCursor string  `json:"nextCursor"`
}

// PoolTransactionPage is a page of what moved a pool.
type PoolTransactionPage struct {
	Transactions []PoolTransaction `json:"transactions"`
	NextCursor   string            `json:"nextCursor"`
}

// ReservationPage is a page of reservations.
type ReservationPage struct {
	Reservations []Reservation `json:"reservations"`
	NextCursor   string        `json:"nextCursor"`
}

// SubscriberPage is a page of a plan's subscribers.
type SubscriberPage struct {
	Subscribers []Subscriber `json:"subscribers"`
	NextCursor  string       `json:"nextCursor"`
}

// WebhookDeliveryPage is a page of an endpoint's deliveries.
type WebhookDeliveryPage struct {
	Deliveries []WebhookDelivery `json:"deliveries"`
	NextCursor string            `json:"nextCursor"`
}
