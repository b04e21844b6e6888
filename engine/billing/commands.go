package billing

import (
	"tollgate/engine"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// Kinds of the billing group's commands. Numbers are never reused.
const (
	KindRecordAudits       engine.Kind = 16
	KindRecordUsage        engine.Kind = 17
	KindCreateAccount      engine.Kind = 18
	KindCreateKey          engine.Kind = 19
	KindRevokeKey          engine.Kind = 20
	KindApplyCatalog       engine.Kind = 21
	KindCreateCustomer     engine.Kind = 22
	KindCreateSubscription engine.Kind = 23
	KindMarkInvoicePaid    engine.Kind = 24
	KindSetLimits          engine.Kind = 25
)

// EnvironmentKind tells the two environments of an account apart. They share nothing.
type EnvironmentKind uint8

const (
	EnvironmentSandbox EnvironmentKind = 1
	EnvironmentLive    EnvironmentKind = 2
)

// Scope is what an API key may do.
type Scope uint8

const (
	// ScopeFull may do everything in its environment.
	ScopeFull Scope = 1
	// ScopeRead may GET, and evaluate entitlements.
	ScopeRead Scope = 2
)

// CreateAccount makes an account with its two environments. An account of that name that was made
// with the same ID is the same success again; another is OutcomeAccountExists.
type CreateAccount struct {
	ID   [16]byte
	Name string // 1–64 of a-z, 0-9, '-', beginning with a letter or digit
}

// Fields states the command's fields.
func (c *CreateAccount) Fields(w *wire.Codec) {
	w.ID(1, &c.ID)
	w.String(2, &c.Name)
}

// CreateKey adds an API key to an environment. Only the key's hash is known here.
type CreateKey struct {
	Env   uint32
	ID    [16]byte
	Hash  [32]byte // SHA-256 of the whole key
	Scope Scope
	Label string // ≤ 80 characters
	Hint  string // the key's prefix and first characters, for listings
	// Actor is who asked for it, for the audit record of admin changes (later issues).
	Actor string
}

// Fields states the command's fields.
func (c *CreateKey) Fields(w *wire.Codec) {
	wire.Uint(w, 1, &c.Env)
	w.ID(2, &c.ID)
	w.Hash(3, &c.Hash)
	wire.Uint(w, 4, &c.Scope)
	w.String(5, &c.Label)
	w.String(6, &c.Hint)
	w.String(7, &c.Actor)
}

// RevokeKey ends an API key for good. Revoking a revoked key is the same success again.
type RevokeKey struct {
	Env   uint32
	ID    [16]byte
	Actor string
}

// Fields states the command's fields.
func (c *RevokeKey) Fields(w *wire.Codec) {
	wire.Uint(w, 1, &c.Env)
	w.ID(2, &c.ID)
	w.String(3, &c.Actor)
}

// ApplyCatalog makes an environment's catalog say what Document says: all or nothing. What the
// document does not name stays, unless Prune is set, which archives it. The reply (Result.Value)
// is an encoded CatalogReply.
type ApplyCatalog struct {
	Env      uint32
	Document CatalogDocument
	Prune    bool
	// FeatureIDs and PlanIDs are minted for the document's features and plans, in its order; those
	// that exist keep the ids they have.
	FeatureIDs, PlanIDs []byte // 16 bytes each, concatenated
	Actor               string
}

// Fields states the command's fields.
func (c *ApplyCatalog) Fields(w *wire.Codec) {
	wire.Uint(w, 1, &c.Env)
	w.Message(2, &c.Document)
	w.Bool(3, &c.Prune)
	w.Blob(4, &c.FeatureIDs)
	w.Blob(5, &c.PlanIDs)
	w.String(6, &c.Actor)
}

// CreateCustomer adds a customer. A customer with this ExternalID and another ID is
// OutcomeCustomerExists; with the same ID it is the same success again (a re-sent command).
type CreateCustomer struct {
	Env         uint32
	ID          [16]byte
	ExternalID  string // 1–128 characters; the server mints a UUID when the caller gave none
	FirstName   string
	LastName    string
	Email       string
	PhoneNumber string
	Address     string
}

// Fields states the command's fields.
func (c *CreateCustomer) Fields(w *wire.Codec) {
	wire.Uint(w, 1, &c.Env)
	w.ID(2, &c.ID)
	w.String(3, &c.ExternalID)
	w.String(4, &c.FirstName)
	w.String(5, &c.LastName)
	w.String(6, &c.Email)
	w.String(7, &c.PhoneNumber)
	w.String(8, &c.Address)
}

// CreateSubscription subscribes a customer to the newest version of a plan and issues the initial
// invoice. A subscription of this ID is the same success again (a re-sent command).
type CreateSubscription struct {
	Env       uint32
	ID        [16]byte
	InvoiceID [16]byte
	Customer  string // the customer's ExternalID
	Plan      string // the plan's id (text form) or key
	GraceDays uint32 // 0–365
}

// Fields states the command's fields.
func (c *CreateSubscription) Fields(w *wire.Codec) {
	wire.Uint(w, 1, &c.Env)
	w.ID(2, &c.ID)
	w.ID(3, &c.InvoiceID)
	w.String(4, &c.Customer)
	w.String(5, &c.Plan)
	wire.Uint(w, 6, &c.GraceDays)
}

// MarkInvoicePaid makes an invoice PAID and its subscription active. Of a PAID invoice it changes
// nothing and is the same success again.
type MarkInvoicePaid struct {
	Env uint32
	ID  [16]byte
}

// Fields states the command's fields.
func (c *MarkInvoicePaid) Fields(w *wire.Codec) {
	wire.Uint(w, 1, &c.Env)
	w.ID(2, &c.ID)
}

// SetLimits changes the settings that decide results, for the whole group. They are log entries
// because a replica that read them from its own configuration would diverge.
type SetLimits struct {
	// KeyRetentionMS is how long idempotency keys are kept, WindowMS how old an event's occurredAt
	// may be (≤ KeyRetentionMS), both in milliseconds of log time. 0 leaves a value as it is.
	KeyRetentionMS, WindowMS int64
	// MaxKeys is the number of idempotency keys that fit the memory budget. 0 leaves it as it is.
	MaxKeys uint64
}

// Fields states the command's fields.
func (c *SetLimits) Fields(w *wire.Codec) {
	w.Int(1, &c.KeyRetentionMS)
	w.Int(2, &c.WindowMS)
	wire.Uint(w, 3, &c.MaxKeys)
}

// RecordUsage records one usage event, exactly once per Key. Byte slices alias the request or the
// entry, so that the hot path copies nothing.
type RecordUsage struct {
	Env uint32
	// Key is the first 128 bits of SHA-256 over (environment number, idempotency key).
	Key [16]byte
	// Attempt tells a re-sent record (same tag: the first outcome again) from a repeated request
	// (another tag: OutcomeDuplicate). Never 0.
	Attempt uint32
	// Fingerprint is 24 bits of a hash of the body: another body under the same key is
	// OutcomeKeyReused. Set by Seal.
	Fingerprint uint32
	// KeyText is the idempotency key itself, 1–255 characters, for listings.
	KeyText []byte
	// Exactly one of Customer (the caller's id) and CustomerID is set.
	Customer   []byte
	CustomerID [16]byte
	EventName  []byte
	FeatureKey []byte
	FeatureID  [16]byte
	// Units is usageUnits; the server fills in 1 where the body has none.
	Units      decimal.Decimal
	OccurredAt int64 // milliseconds since 1970 UTC
	// Cost counts only when HasCost is set; otherwise it is computed from the feature.
	Cost           decimal.Decimal
	HasCost        bool
	SubscriptionID [16]byte
	EntitlementID  [16]byte
	InvoiceID      [16]byte
	FlowID         []byte
	Meta           []byte // compact JSON object, ≤ 8 KiB
}

// Fields states the command's fields. Key, Attempt and Fingerprint come first: what follows them
// is the body that Fingerprint covers.
func (c *RecordUsage) Fields(w *wire.Codec) {
	wire.Uint(w, 1, &c.Env)
	w.ID(2, &c.Key)
	wire.Uint(w, 3, &c.Attempt)
	wire.Uint(w, 4, &c.Fingerprint)
	w.Blob(5, &c.KeyText)
	w.Blob(6, &c.Customer)
	w.ID(7, &c.CustomerID)
	w.Blob(8, &c.EventName)
	w.Blob(9, &c.FeatureKey)
	w.ID(10, &c.FeatureID)
	w.Decimal(11, &c.Units)
	w.Int(12, &c.OccurredAt)
	w.Decimal(13, &c.Cost)
	w.Bool(14, &c.HasCost)
	w.ID(15, &c.SubscriptionID)
	w.ID(16, &c.EntitlementID)
	w.ID(17, &c.InvoiceID)
	w.Blob(18, &c.FlowID)
	w.Blob(19, &c.Meta)
}
