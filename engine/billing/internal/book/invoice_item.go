package book

import (
	"strconv"

	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/decimal"
)

// LineKind says what an invoice line is for. Numbers are never reused.
type LineKind uint8

const (
	// LineBase is a plan's base price, or a part of it.
	LineBase LineKind = 1
	// LineUsage is what a feature counted in a period, or in the part of it before a plan change.
	LineUsage LineKind = 2
	// LineLate is usage that came, or was corrected, after its period was invoiced.
	LineLate LineKind = 3
	// LineUnused gives back what is left of the old plan's price, LineRemaining charges the new
	// plan's for it.
	LineUnused    LineKind = 4
	LineRemaining LineKind = 5
	// LineCarried lifts a total below zero to zero; LineCredit takes it off the next invoice.
	LineCarried LineKind = 6
	LineCredit  LineKind = 7
)

// OfUsage reports whether a line bills what a feature counted in a span.
func (k LineKind) OfUsage() bool { return k == LineUsage || k == LineLate }

// lineKinds are the kinds of lines as both APIs write them.
var lineKinds = [...]string{
	LineBase: "base", LineUsage: "usage", LineLate: "late_usage",
	LineUnused: "proration_credit", LineRemaining: "proration_charge",
	LineCarried: "credit_carried_over", LineCredit: "carried_credit",
}

// String is the kind as both APIs write it; of one that does not exist its number.
func (k LineKind) String() string {
	if k == 0 || int(k) >= len(lineKinds) {
		return strconv.Itoa(int(k))
	}
	return lineKinds[k]
}

// Open reports whether the invoice waits to be paid.
func (v InvoiceStatus) Open() bool { return v == InvoiceDue || v == InvoicePastDue }

// InvoiceStatus is the state of an invoice.
type InvoiceStatus uint8

const (
	InvoicePending InvoiceStatus = 1
	InvoiceDue     InvoiceStatus = 2
	InvoicePastDue InvoiceStatus = 3
	InvoicePaid    InvoiceStatus = 4
	InvoiceVoid    InvoiceStatus = 5
)

var InvoiceStatuses = [...]string{
	InvoicePending: "PENDING", InvoiceDue: "DUE", InvoicePastDue: "PAST_DUE", InvoicePaid: "PAID",
	InvoiceVoid: "VOID",
}

// String is the status as both APIs write it; of one that does not exist its number.
func (v InvoiceStatus) String() string {
	if v == 0 || int(v) >= len(InvoiceStatuses) {
		return strconv.Itoa(int(v))
	}
	return InvoiceStatuses[v]
}

// InvoiceType says why an invoice exists.
type InvoiceType uint8

const (
	InvoiceInitial    InvoiceType = 1
	InvoiceRegular    InvoiceType = 2
	InvoiceAdjustment InvoiceType = 3
	InvoiceCredit     InvoiceType = 4
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

// InvoiceItem is one line of an invoice. A stored line leaves out a period that is the invoice's.
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
