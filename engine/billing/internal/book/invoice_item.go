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

// InvoiceType is the reason for an invoice.
type InvoiceType uint8

const (
	InvoiceInitial    InvoiceType = 1
	InvoiceRegular    InvoiceType = 2
	InvoiceAdjustment InvoiceType = 3
	InvoiceCredit     InvoiceType = 4
	InvoiceInterim    InvoiceType = 5
)

// InvoiceView is one invoice.
type InvoiceView struct {
	ID, SubscriptionID         [16]byte
	Number                     uint64 // per environment, from 1, without gaps
	Type                       InvoiceType
	Status                     InvoiceStatus
	Customer                   string
	Amount                     decimal.Decimal
	Currency                   string
	CreatedAt, DueDate, PaidAt int64
	PeriodStart, PeriodEnd     int64
	Items                      []InvoiceItem
}

// InvoiceItem is one line of an invoice. A stored line omits a period that equals the invoice's.
type InvoiceItem struct {
	Kind         LineKind                `wire:"10"`
	Description  string                  `wire:"1"`
	FeatureKey   string                  `wire:"2"`
	Quantity     decimal.Decimal         `wire:"3"`
	UnitPrice    decimal.Decimal         `wire:"4"`
	HasUnitPrice bool                    `wire:"5"`
	Tiers        []catalogs.TierDocument `wire:"6"`
	PeriodStart  int64                   `wire:"7"`
	PeriodEnd    int64                   `wire:"8"`
	Amount       decimal.Decimal         `wire:"9"` // in the currency's minor units, rounded once
}
