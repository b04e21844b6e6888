package billing

import (
	"tollgate/engine"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// CatalogDocument is the declarative catalog: what an operator writes, and what ApplyCatalog
// carries. The server decodes it from JSON or YAML; numbers may be numbers or strings there.
type CatalogDocument struct {
	Features []FeatureDocument
	Plans    []PlanDocument
}

// Fields states the document's fields.
func (d *CatalogDocument) Fields(w *wire.Codec) {
	wire.List(w, 1, &d.Features)
	wire.List(w, 2, &d.Plans)
}

// FeatureDocument describes one feature.
type FeatureDocument struct {
	Key, Name, Description string
	Labels                 []string
	HasCost                bool
	CostPerUnit            decimal.Decimal
}

// Fields states the document's fields.
func (d *FeatureDocument) Fields(w *wire.Codec) {
	w.String(1, &d.Key)
	w.String(2, &d.Name)
	w.String(3, &d.Description)
	w.Strings(4, &d.Labels)
	w.Bool(5, &d.HasCost)
	w.Decimal(6, &d.CostPerUnit)
}

// PlanDocument describes one plan.
type PlanDocument struct {
	Key, Name, Description string
	PriceAmount            decimal.Decimal
	Currency               string // ISO 4217
	IntervalMonths         uint32 // 1–120
	BillingTiming          string // IN_ADVANCE (default), IN_ARREARS
	Status                 string // ACTIVE (default), ARCHIVED, DRAFT
	Metadata               []byte // compact JSON object, ≤ 8 KiB
	Features               []PlanFeatureDocument
	CreditAllocations      []CreditAllocationDocument
}

// Fields states the document's fields.
func (d *PlanDocument) Fields(w *wire.Codec) {
	w.String(1, &d.Key)
	w.String(2, &d.Name)
	w.String(3, &d.Description)
	w.Decimal(4, &d.PriceAmount)
	w.String(5, &d.Currency)
	wire.Uint(w, 6, &d.IntervalMonths)
	w.String(7, &d.BillingTiming)
	w.String(8, &d.Status)
	w.Blob(9, &d.Metadata)
	wire.List(w, 10, &d.Features)
	wire.List(w, 11, &d.CreditAllocations)
}

// CreditAllocationDocument says what a plan grants in every period, and how the pool is made that
// it is granted to, where the customer has none of this name.
type CreditAllocationDocument struct {
	Pool             string // name of the pool, 1–128 characters
	Denomination     string // what is counted, ≤ 64 characters; default "credits"
	Currency         string // ISO 4217; default: the plan's
	Amount           decimal.Decimal
	Priority         int64  // of the grants and of the pool: lower burns first
	ExpiresAfterDays uint32 // 0: never; at most 3,650
	RolloverPolicy   string // NONE (default), FULL, CAPPED
	HasCap           bool
	RolloverCap      decimal.Decimal // with CAPPED: what stays at most
	HardLimit        bool            // the balance never goes below zero
}

// Fields states the document's fields.
func (d *CreditAllocationDocument) Fields(w *wire.Codec) {
	w.String(1, &d.Pool)
	w.String(2, &d.Denomination)
	w.String(3, &d.Currency)
	w.Decimal(4, &d.Amount)
	w.Int(5, &d.Priority)
	wire.Uint(w, 6, &d.ExpiresAfterDays)
	w.String(7, &d.RolloverPolicy)
	w.Bool(8, &d.HasCap)
	w.Decimal(9, &d.RolloverCap)
	w.Bool(10, &d.HardLimit)
}

// PlanFeatureDocument links a feature to a plan.
type PlanFeatureDocument struct {
	Key         string
	PricingType string // included, usage_based, graduated
	Pricing     PricingDocument
}

// Fields states the document's fields.
func (d *PlanFeatureDocument) Fields(w *wire.Codec) {
	w.String(1, &d.Key)
	w.String(2, &d.PricingType)
	w.Message(3, &d.Pricing)
}

// PricingDocument says how a feature is priced and limited within a plan.
type PricingDocument struct {
	Model           string // within usage_based: per_unit (default), volume, package
	PricePerUnit    decimal.Decimal
	UnitLabel       string
	HasMax          bool
	MaxUsage        decimal.Decimal
	IncludedUnits   decimal.Decimal
	ResetMode       string // reset (default), accumulate
	LimitMode       string // soft (default), hard
	Tiers           []TierDocument
	PackageSize     decimal.Decimal
	PricePerPackage decimal.Decimal
	Credits         CreditsDocument
}

// Fields states the document's fields.
func (d *PricingDocument) Fields(w *wire.Codec) {
	w.String(1, &d.Model)
	w.Decimal(2, &d.PricePerUnit)
	w.String(3, &d.UnitLabel)
	w.Bool(4, &d.HasMax)
	w.Decimal(5, &d.MaxUsage)
	w.Decimal(6, &d.IncludedUnits)
	w.String(7, &d.ResetMode)
	w.String(8, &d.LimitMode)
	wire.List(w, 9, &d.Tiers)
	w.Decimal(10, &d.PackageSize)
	w.Decimal(11, &d.PricePerPackage)
	w.String(12, &d.Credits.Pool)
	w.Decimal(13, &d.Credits.Weight)
}

// CreditsDocument says that usage of a feature burns credits before it costs money.
type CreditsDocument struct {
	Pool   string          // name of the pools that it burns; empty: none
	Weight decimal.Decimal // credits per unit, > 0; default 1
}

// TierDocument is one tier; the last one has Infinite set.
type TierDocument struct {
	Infinite     bool
	UpTo         decimal.Decimal // inclusive
	PricePerUnit decimal.Decimal
	FlatFee      decimal.Decimal // once, if the tier holds any units
}

// Fields states the document's fields.
func (d *TierDocument) Fields(w *wire.Codec) {
	w.Bool(1, &d.Infinite)
	w.Decimal(2, &d.UpTo)
	w.Decimal(3, &d.PricePerUnit)
	w.Decimal(4, &d.FlatFee)
}

// CatalogReply lists what ApplyCatalog changed, or would change.
type CatalogReply struct {
	Changes []CatalogChange
	// Problem says why the document was refused, naming the place; empty when it was not.
	Problem string
	// Outcome is that of the refusal; a dry run has no other.
	Outcome engine.Outcome
}

// Fields states the reply's fields.
func (r *CatalogReply) Fields(w *wire.Codec) {
	wire.List(w, 1, &r.Changes)
	w.String(2, &r.Problem)
	wire.Uint(w, 3, &r.Outcome)
}

// CatalogChange is one change to the catalog.
type CatalogChange struct {
	Kind   string // feature, plan
	Key    string
	Action string // created, updated, archived
}

// Fields states the change's fields.
func (d *CatalogChange) Fields(w *wire.Codec) {
	w.String(1, &d.Kind)
	w.String(2, &d.Key)
	w.String(3, &d.Action)
}
