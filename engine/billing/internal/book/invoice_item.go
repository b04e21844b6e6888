package book

import (
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/decimal"
)

// LineKind is the subject of an invoice line. Numbers are never reused.
//
//schema:enum
type LineKind uint8

const (
	// LineBase is a plan's base price, or a part of it.
	LineBase LineKind = 1 // base
	// LineUsage is a feature's usage in a period, or in the part of it before a plan change.
	LineUsage LineKind = 2 // usage
	// LineLate is usage that arrived, or was corrected, after its period was invoiced.
	LineLate LineKind = 3 // late_usage
	// LineUnused returns the rest of the old plan's price, LineRemaining charges the new plan's
	// price for it.
	LineUnused    LineKind = 4 // proration_credit
	LineRemaining LineKind = 5 // proration_charge
	// LineCarried raises a negative total to zero; LineCredit deducts it from the next invoice.
	LineCarried LineKind = 6 // credit_carried_over
	LineCredit  LineKind = 7 // carried_credit
)

// OfUsage reports whether a line bills a feature's usage in a span.
func (k LineKind) OfUsage() bool { return k == LineUsage || k == LineLate }

// Open reports whether the invoice is unpaid.
func (v InvoiceStatus) Open() bool { return v == InvoiceDue || v == InvoicePastDue }

// InvoiceStatus is the state of an invoice.
//
//schema:enum
type InvoiceStatus uint8

const (
	InvoicePending InvoiceStatus = 1 // PENDING
	InvoiceDue     InvoiceStatus = 2 // DUE
	InvoicePastDue InvoiceStatus = 3 // PAST_DUE
	InvoicePaid    InvoiceStatus = 4 // PAID
	InvoiceVoid    InvoiceStatus = 5 // VOID
)

// InvoiceStatuses is how many there are, 0 among them.
const InvoiceStatuses = 6

// InvoiceType is the reason for an invoice.
//
//schema:enum
type InvoiceType uint8

const (
	InvoiceInitial    InvoiceType = 1 // IN_ADVANCE_INITIAL
	InvoiceRegular    InvoiceType = 2 // REGULAR
	InvoiceAdjustment InvoiceType = 3 // ADJUSTMENT
	InvoiceCredit     InvoiceType = 4 // CREDIT
	InvoiceInterim    InvoiceType = 5 // INTERIM
)

// InvoiceView is an invoice with its lines. One that is PENDING has no number yet.
//
//schema:answer billingview Invoice
type InvoiceView struct {
	ID             [16]byte        `json:"id"`
	Number         uint64          `json:"number,omitzero"` // per environment, from 1, without gaps
	Type           InvoiceType     `json:"type" rule:"oneof=REGULAR|IN_ADVANCE_INITIAL|ADJUSTMENT|CREDIT|INTERIM"`
	Status         InvoiceStatus   `json:"status"`
	Amount         decimal.Decimal `json:"amount"`
	Currency       string          `json:"currency" rule:"min=3,max=3"`
	SubscriptionID [16]byte        `json:"subscriptionId,omitzero"`
	Customer       string          `json:"customerReferenceId" rule:"min=1,max=128"`
	CreatedAt      int64           `json:"createdAt,omitzero" as:"time"`
	DueDate        int64           `json:"dueDate,omitzero" as:"time"`
	PaidAt         int64           `json:"paidAt,omitzero" as:"time"`
	PeriodStart    int64           `json:"periodStart,omitzero" as:"time"`
	PeriodEnd      int64           `json:"periodEnd,omitzero" as:"time"`
	Items          []InvoiceItem   `json:"items"`
}

// InvoiceItem is one line of an invoice. A stored line omits a period that equals the invoice's.
//
//schema:answer billingview InvoiceItem
type InvoiceItem struct {
	Kind         LineKind                `wire:"10" json:"kind"`
	Description  string                  `wire:"1" json:"description"`
	FeatureKey   string                  `wire:"2" json:"featureKey,omitzero" rule:"min=1,max=128"`
	Quantity     decimal.Decimal         `wire:"3" json:"quantity"`
	UnitPrice    decimal.Decimal         `wire:"4" json:"unitPrice" if:"HasUnitPrice"`
	HasUnitPrice bool                    `wire:"5"`
	Tiers        []catalogs.TierDocument `wire:"6" json:"tiers,omitzero" as:"object" with:"WriteTier"`
	PeriodStart  int64                   `wire:"7" json:"periodStart,omitzero" as:"time"`
	PeriodEnd    int64                   `wire:"8" json:"periodEnd,omitzero" as:"time"`
	// Amount is in the currency's minor units, rounded once.
	Amount decimal.Decimal `wire:"9" json:"amount"`
	// Parts are the units that make the amount, by price, where there are tiers, packages or included
	// units, and the line begins at the first unit of its period.
	Parts []InvoicePart `json:"parts,omitzero"`
	// Cost is what the line's events cost, Events how many they are, in the answers that say so.
	Cost               decimal.Decimal `json:"costAmount" if:"HasCost"`
	Events             uint64          `json:"eventsCounted" if:"HasEvents"`
	HasCost, HasEvents bool
}
