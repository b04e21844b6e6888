package billing

// Authenticate finds whom the API key with this SHA-256 speaks for; false when there is no such
// key or it was revoked.
func (m *Machine) Authenticate(hash [32]byte) (Principal, bool) { return Principal{}, false }

// Account finds an account by name.
func (m *Machine) Account(name string) (AccountView, bool) { return AccountView{}, false }

// Accounts lists all accounts, oldest first.
func (m *Machine) Accounts() []AccountView { return nil }

// Environment finds the number of one of an account's environments.
func (m *Machine) Environment(account string, kind EnvironmentKind) (env uint32, ok bool) {
	return 0, false
}

// Keys lists an environment's API keys, revoked ones too, oldest first.
func (m *Machine) Keys(env uint32) []KeyView { return nil }

// Plans lists an environment's ACTIVE plans in their newest versions, oldest plan first.
func (m *Machine) Plans(env uint32) []PlanView { return nil }

// Features lists an environment's features, archived ones too, oldest first.
func (m *Machine) Features(env uint32) []FeatureView { return nil }

// DiffCatalog says what ApplyCatalog would change, or why it would refuse.
func (m *Machine) DiffCatalog(env uint32, doc *CatalogDocument, prune bool) CatalogReply {
	return CatalogReply{}
}

// Customer finds a customer by the caller's own identifier.
func (m *Machine) Customer(env uint32, externalID string) (CustomerView, bool) {
	return CustomerView{}, false
}

// CustomerByID finds a customer by its UUID.
func (m *Machine) CustomerByID(env uint32, id [16]byte) (CustomerView, bool) {
	return CustomerView{}, false
}

// Subscriptions lists all subscriptions of a customer, oldest first, in any state.
func (m *Machine) Subscriptions(customerRow uint32) []SubscriptionView { return nil }

// Subscription finds a subscription by its UUID, in any state.
func (m *Machine) Subscription(env uint32, id [16]byte) (SubscriptionView, bool) {
	return SubscriptionView{}, false
}

// Invoices lists a customer's invoices, oldest first.
func (m *Machine) Invoices(env, customerRow uint32) []InvoiceView { return nil }

// Invoice finds an invoice by its UUID.
func (m *Machine) Invoice(env uint32, id [16]byte) (InvoiceView, bool) { return InvoiceView{}, false }

// Check decides whether a customer may use a feature. It fills d, and allocates nothing.
func (m *Machine) Check(q *CheckQuery, d *Decision) { *d = Decision{} }

// Clock is the log time of a query: the newest stamp, or the node's own clock where that is ahead.
func (m *Machine) Clock(nowMS int64) int64 { return nowMS }

// EnvironmentNow is Clock on the environment's own clock, which may run ahead of log time.
func (m *Machine) EnvironmentNow(env uint32, nowMS int64) int64 { return nowMS }

// Limits are the settings that decide results, as SetLimits left them.
type Limits struct {
	// KeyRetentionMS is how long idempotency keys are kept, WindowMS how old an event may be.
	KeyRetentionMS, WindowMS int64
	// MaxKeys is the number of idempotency keys that fit the budget.
	MaxKeys uint64
}

// Limits returns the settings in force.
func (m *Machine) Limits() Limits { return Limits{} }

// Stats counts what the state holds, for metrics.
type Stats struct {
	Accounts, APIKeys, Customers, Subscriptions, Counters, Invoices uint64
	// IdempotencyKeys is the number of keys held, against Limits.MaxKeys.
	IdempotencyKeys uint64
	// UsageEvents and AuditEvents were recorded since the beginning of the log.
	UsageEvents, AuditEvents uint64
	// Bytes is the memory of each part; the names are fixed.
	Bytes []PartBytes
}

// PartBytes is the memory that one part of the state holds.
type PartBytes struct {
	Part  string
	Bytes uint64
}

// Stats returns the present counts.
func (m *Machine) Stats() Stats { return Stats{} }
