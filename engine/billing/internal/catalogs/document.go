package catalogs

import (
	"tollgate/engine"
	"tollgate/engine/decimal"
)

// CatalogDocument is the declarative catalog: what an operator writes, and what ApplyCatalog
// carries. The server decodes it from JSON or YAML; numbers may be numbers or strings there.
type CatalogDocument struct {
	Features []FeatureDocument `wire:"1"`
	Plans    []PlanDocument    `wire:"2"`
}

// FeatureDocument describes one feature.
type FeatureDocument struct {
	Key         string          `wire:"1"`
	Name        string          `wire:"2"`
	Description string          `wire:"3"`
	Labels      []string        `wire:"4"`
	HasCost     bool            `wire:"5"`
	CostPerUnit decimal.Decimal `wire:"6"`
}

// PlanDocument describes one plan.
type PlanDocument struct {
	Key               string                     `wire:"1"`
	Name              string                     `wire:"2"`
	Description       string                     `wire:"3"`
	PriceAmount       decimal.Decimal            `wire:"4"`
	Currency          string                     `wire:"5"` // ISO 4217
	IntervalMonths    uint32                     `wire:"6"` // 1–120
	BillingTiming     string                     `wire:"7"` // IN_ADVANCE (default), IN_ARREARS
	Status            string                     `wire:"8"` // ACTIVE (default), ARCHIVED, DRAFT
	Metadata          []byte                     `wire:"9"` // compact JSON object, ≤ 8 KiB
	Features          []PlanFeatureDocument      `wire:"10"`
	CreditAllocations []CreditAllocationDocument `wire:"11"`
}

// CreditAllocationDocument says what a plan grants in every period, and how the pool is made that
// it is granted to, where the customer has none of this name.
type CreditAllocationDocument struct {
	Pool             string          `wire:"1"` // name of the pool, 1–128 characters
	Denomination     string          `wire:"2"` // what is counted, ≤ 64 characters; default "credits"
	Currency         string          `wire:"3"` // ISO 4217; default: the plan's
	Amount           decimal.Decimal `wire:"4"`
	Priority         int64           `wire:"5"` // of the grants and of the pool: lower burns first
	ExpiresAfterDays uint32          `wire:"6"` // 0: never; at most 3,650
	RolloverPolicy   string          `wire:"7"` // NONE (default), FULL, CAPPED
	HasCap           bool            `wire:"8"`
	RolloverCap      decimal.Decimal `wire:"9"`  // maximum carried over
	HardLimit        bool            `wire:"10"` // the balance never goes below zero
}

// PlanFeatureDocument links a feature to a plan.
type PlanFeatureDocument struct {
	Key         string          `wire:"1"`
	PricingType string          `wire:"2"` // included, usage_based, graduated
	Pricing     PricingDocument `wire:"3"`
}

// PricingDocument says how a feature is priced and limited within a plan.
type PricingDocument struct {
	// Model is, within usage_based, per_unit (default), volume or package.
	Model           string          `wire:"1"`
	PricePerUnit    decimal.Decimal `wire:"2"`
	UnitLabel       string          `wire:"3"`
	HasMax          bool            `wire:"4"`
	MaxUsage        decimal.Decimal `wire:"5"`
	IncludedUnits   decimal.Decimal `wire:"6"`
	ResetMode       string          `wire:"7"` // reset (default), accumulate
	LimitMode       string          `wire:"8"` // soft (default), hard
	Tiers           []TierDocument  `wire:"9"`
	PackageSize     decimal.Decimal `wire:"10"`
	PricePerPackage decimal.Decimal `wire:"11"`
	Credits         CreditsDocument `wire:",inline"`
}

// CreditsDocument reports whether usage of a feature burns credits before it costs money.
//
//schema:part
type CreditsDocument struct {
	Pool   string          `wire:"12"` // name of the pools that it burns; empty: none
	Weight decimal.Decimal `wire:"13"` // credits per unit, > 0; default 1
}

// TierDocument is one tier; the last one has Infinite set.
type TierDocument struct {
	Infinite     bool            `wire:"1"`
	UpTo         decimal.Decimal `wire:"2"` // inclusive
	PricePerUnit decimal.Decimal `wire:"3"`
	FlatFee      decimal.Decimal `wire:"4"` // once, if the tier holds any units
}

// CatalogReply lists what ApplyCatalog changed, or would change.
type CatalogReply struct {
	Changes []CatalogChange `wire:"1"`
	// Problem says why the document was refused, naming the place; empty when it was not.
	Problem string `wire:"2"`
	// Outcome is that of the refusal; a dry run has no other.
	Outcome engine.Outcome `wire:"3"`
}

// CatalogChange is one change to the catalog.
type CatalogChange struct {
	Kind   string `wire:"1"` // feature, plan
	Key    string `wire:"2"`
	Action string `wire:"3"` // created, updated, archived
}
