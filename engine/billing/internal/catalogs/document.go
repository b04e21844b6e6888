package catalogs

import (
	"tollgate/engine"
	"tollgate/engine/decimal"
)

// CatalogDocument is the declarative catalog: what an operator writes, and what ApplyCatalog
// carries. The server decodes it from JSON or YAML; numbers may be numbers or strings there.
//
//schema:answer admin Catalog server
type CatalogDocument struct {
	Features []FeatureDocument `wire:"1" json:"features"`
	Plans    []PlanDocument    `wire:"2" json:"plans"`
}

// FeatureDocument describes one feature.
//
//schema:answer admin Feature server
type FeatureDocument struct {
	Key         string          `wire:"1" json:"key" rule:"required,min=1,max=128"`
	Name        string          `wire:"2" json:"name" rule:"required,min=1,max=128"`
	Description string          `wire:"3" json:"description"`
	Labels      []string        `wire:"4" json:"labels" rule:"min=1,max=128"`
	HasCost     bool            `wire:"5"`
	CostPerUnit decimal.Decimal `wire:"6" json:"costPerUnit" if:"HasCost"`
}

// PlanDocument describes one plan.
//
//schema:answer admin Plan server
type PlanDocument struct {
	Key            string          `wire:"1" json:"key" rule:"required,min=1,max=128"`
	Name           string          `wire:"2" json:"name" rule:"required,min=1,max=128"`
	Description    string          `wire:"3" json:"description"`
	PriceAmount    decimal.Decimal `wire:"4" json:"priceAmount" rule:"required"`
	Currency       string          `wire:"5" json:"currency" rule:"required,min=3,max=3"` // ISO 4217
	IntervalMonths uint32          `wire:"6" json:"intervalMonths" rule:"required,min=1,max=120"`
	// BillingTiming is IN_ADVANCE and Status ACTIVE by default.
	BillingTiming string `wire:"7" json:"billingTiming" rule:"oneof=IN_ADVANCE|IN_ARREARS"`
	Status        string `wire:"8" json:"status" rule:"oneof=ACTIVE|ARCHIVED|DRAFT"`
	// Metadata has at most 8 KiB.
	Metadata          []byte                     `wire:"9" json:"metadata,omitzero" as:"object"`
	Features          []PlanFeatureDocument      `wire:"10" json:"features"`
	CreditAllocations []CreditAllocationDocument `wire:"11" json:"creditAllocations" with:"billingview.WriteCreditAllocation"`
	// InvoiceAbove is the price of unbilled usage beyond which an interim invoice is made at once, at
	// least 1; 0: none.
	InvoiceAbove decimal.Decimal `wire:"12" json:"invoiceAbove" if:"Interim()"`
}

// Interim reports whether the plan has invoiceAbove.
func (d *PlanDocument) Interim() bool { return !d.InvoiceAbove.IsZero() }

// CreditAllocationDocument is credits that a plan grants in every period, and the pool that is made
// for them if the customer has none of this name.
//
//schema:answer billingview CreditAllocation
type CreditAllocationDocument struct {
	Pool string `wire:"1" json:"pool" rule:"required,min=1,max=128"`
	// Denomination is the unit that is counted; default: credits.
	Denomination string `wire:"2" json:"denomination" rule:"min=1,max=64"`
	// Currency is the plan's by default.
	Currency string          `wire:"3" json:"currency" rule:"min=3,max=3"`
	Amount   decimal.Decimal `wire:"4" json:"amount" rule:"required"`
	// Priority is that of the grants and of the pool: the lower one burns first.
	Priority int64 `wire:"5" json:"priority"`
	// ExpiresAfterDays is at most 3,650; 0 is never.
	ExpiresAfterDays uint32          `wire:"6" json:"expiresAfterDays,omitzero"`
	RolloverPolicy   string          `wire:"7" json:"rolloverPolicy" rule:"oneof=NONE|FULL|CAPPED"`
	HasCap           bool            `wire:"8"`
	RolloverCap      decimal.Decimal `wire:"9" json:"rolloverCap" if:"HasCap"` // maximum carried over
	// HardLimit keeps the balance from going below zero.
	HardLimit bool `wire:"10" json:"hardLimit"`
	// LowBalance is the balance at which the pool counts as low; 0: none.
	LowBalance decimal.Decimal `wire:"11" json:"lowBalance" if:"Watched()"`
}

// Watched reports whether it has a balance at which it is low.
func (a *CreditAllocationDocument) Watched() bool { return !a.LowBalance.IsZero() }

// PlanFeatureDocument links a feature to a plan.
//
//schema:answer admin PlanFeature server
type PlanFeatureDocument struct {
	Key string `wire:"1" json:"key" rule:"required,min=1,max=128"`

	PricingType string `wire:"2" json:"pricingType" rule:"required,oneof=included|usage_based|graduated"`

	Pricing PricingDocument `wire:"3" json:"pricing" with:"billingview.WritePricing"`
}

// PricingDocument is the price and limit of a feature within a plan.
//
//schema:answer billingview Pricing server
type PricingDocument struct {
	// Model is per_unit (default), volume or package, within usage_based.
	Model           string          `wire:"1" json:"model,omitzero" rule:"oneof=per_unit|volume|package"`
	PricePerUnit    decimal.Decimal `wire:"2" json:"pricePerUnit"`
	UnitLabel       string          `wire:"3" json:"unitLabel"`
	HasMax          bool            `wire:"4"`
	MaxUsage        decimal.Decimal `wire:"5" json:"maxUsage" if:"HasMax"`
	IncludedUnits   decimal.Decimal `wire:"6" json:"includedUnits"`
	ResetMode       string          `wire:"7" json:"resetMode,omitzero" rule:"oneof=reset|accumulate"`
	LimitMode       string          `wire:"8" json:"limitMode,omitzero" rule:"oneof=soft|hard"`
	Tiers           []TierDocument  `wire:"9" json:"tiers,omitzero" with:"WriteTier"`
	PackageSize     decimal.Decimal `wire:"10" json:"packageSize" if:"Packs()"`
	PricePerPackage decimal.Decimal `wire:"11" json:"pricePerPackage" if:"Packs()"`
	// Thresholds are percents of maxUsage at which usage is told, ascending.
	Thresholds []byte `wire:"14" json:"thresholds,omitzero" rule:"min=1,max=100" as:"list"`

	Credits CreditsDocument `wire:",inline"`
}

// Packs reports whether units are sold in packages.
func (p *PricingDocument) Packs() bool { return p.PackageSize.Sign() > 0 }

// CreditsDocument makes usage of a feature burn credits before it costs money.
//
//schema:part
type CreditsDocument struct {
	// Pool is the name of the pools that it burns; empty: none.
	Pool string `wire:"12" json:"credits.pool" in:"whole" rule:"required,min=1,max=128"`
	// Weight is credits per unit, above 0; default 1.
	Weight decimal.Decimal `wire:"13" json:"credits.weight"`
}

// TierDocument is one tier; the last one has Infinite set.
type TierDocument struct {
	Infinite     bool            `wire:"1"`
	UpTo         decimal.Decimal `wire:"2" json:"upTo" rule:"required"` // inclusive
	PricePerUnit decimal.Decimal `wire:"3" json:"pricePerUnit"`
	FlatFee      decimal.Decimal `wire:"4" json:"flatFee"` // once, if the tier has any units
}

// CatalogReply lists what ApplyCatalog changed, or would change.
type CatalogReply struct {
	Changes []CatalogChange `wire:"1"`
	// Outcome is the refusal's; a dry run has no other.
	Outcome engine.Outcome `wire:"3"`
	// Problems are why the document was refused; none if it was not. Omitted is how many others there
	// are. (Number 2 was a text.)
	Problems []CatalogProblem `wire:"4"`
	Omitted  uint32           `wire:"5"`
}

// CatalogProblem is something wrong with a document.
type CatalogProblem struct {
	// Place is where, such as plans[0].key.
	Place string `wire:"1"`
	Text  string `wire:"2"`
}

// CatalogChange is one change to the catalog.
//
//schema:answer admin CatalogChange
type CatalogChange struct {
	Kind   string `wire:"1" json:"kind" rule:"oneof=feature|plan"`
	Key    string `wire:"2" json:"key" rule:"min=1,max=128"`
	Action string `wire:"3" json:"action" rule:"oneof=created|updated|archived"`
}
