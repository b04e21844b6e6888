package billing

import (
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/budgets"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/decimal"
)

// The views are what queries hand out: values, independent of the state they were read from.
// Times are milliseconds since 1970 UTC, 0 when absent. IDs are UUIDs, zero when absent.

// Principal is whom an API key speaks for.
type Principal struct {
	Account     string
	Env         uint32
	Environment accounts.EnvironmentKind
	Scope       accounts.Scope
	KeyID       [16]byte
	// CustomerRow is whom a key of ScopeCustomer belongs to; 0 of any other.
	CustomerRow uint32
	// Budget is the node of budgets that the key is bound to; 0: none. Bindings is the environment's
	// number of then, which commands bring along: where it is another one when they are applied, a
	// key may have been bound to another budget. 0: there are no budgets.
	Budget, Bindings uint32
	// UsedAt is the key's newest noted use; see NoteKeyUse.
	UsedAt int64
}

// KeyView is one API key, without the key.
type KeyView struct {
	ID    [16]byte       `json:"id"`
	Hash  [32]byte       // SHA-256 of the whole key
	Scope accounts.Scope `json:"scope" as:"text"`
	Label string         `json:"label" rule:"max=80"`
	Hint  string         `json:"hint" rule:"min=1"`
	// Customer is whose the key is, of ScopeCustomer.
	Customer string `json:"customer,omitzero" rule:"min=1,max=128"`
	// Budget is the key of the budget that it is bound to.
	Budget    string `json:"budget,omitzero" rule:"min=1,max=128"`
	CreatedAt int64  `json:"createdAt" as:"time"`
	CreatedBy string `json:"createdBy,omitzero" rule:"min=1"`
	// UsedAt is its newest noted use: nodes note uses each minute.
	UsedAt int64 `json:"lastUsedAt,omitzero" as:"time"`
	// EndsAt is when it is revoked, since another key has replaced it.
	EndsAt    int64 `json:"endsAt,omitzero" as:"time"`
	RevokedAt int64 `json:"revokedAt,omitzero" as:"time"`
}

// UsedKeyView is one API key, without the key, with how often it was used lately.
//
//schema:answer admin Key
type UsedKeyView struct {
	KeyView
	// DayRequests and DayEvents count its requests in the newest 24 hours of UTC, the present one
	// included, and the usage events that they recorded; the others in the newest 30 days.
	DayRequests   uint64 `json:"requestsDay"`
	DayEvents     uint64 `json:"eventsDay"`
	MonthRequests uint64 `json:"requestsMonth"`
	MonthEvents   uint64 `json:"eventsMonth"`
}

// FeatureView is one feature of the catalog.
type FeatureView struct {
	ID          [16]byte `json:"id"`
	Key         string   `json:"key" rule:"min=1,max=128"`
	Name        string   `json:"name" rule:"max=128"`
	Description string   `json:"description"`
	Labels      []string
	HasCost     bool
	CostPerUnit decimal.Decimal
	Archived    bool
}

// PlanView is one version of a plan.
//
//schema:answer client Plan
type PlanView struct {
	ID             [16]byte        `json:"id"`
	Key            string          `json:"key" rule:"min=1,max=128"`
	Version        uint32          `json:"version"`
	Name           string          `json:"name" rule:"max=128"`
	Description    string          `json:"description"`
	PriceAmount    decimal.Decimal `json:"priceAmount"`
	Currency       string          `json:"currency" rule:"min=3,max=3"`
	IntervalMonths uint32          `json:"intervalMonths"`
	BillingTiming  string          `json:"billingTiming" rule:"oneof=IN_ADVANCE|IN_ARREARS"`
	Status         string          `json:"status" rule:"oneof=ACTIVE|ARCHIVED|DRAFT"`
	// Metadata is nil when absent.
	Metadata []byte            `json:"metadata,omitzero" as:"object"`
	Features []PlanFeatureView `json:"features"`
	// CreditAllocations have their defaults filled in.
	CreditAllocations []catalogs.CreditAllocationDocument `json:"creditAllocations" with:"billingview.WriteCreditAllocation"`
	// InvoiceAbove is the amount of unbilled usage beyond which an interim invoice is made.
	InvoiceAbove decimal.Decimal `json:"invoiceAbove" if:"Interim()"`
}

// Interim reports whether the plan has invoiceAbove.
func (v *PlanView) Interim() bool { return !v.InvoiceAbove.IsZero() }

// PlanVersionView is one version of a plan, with how many subscriptions to it have not ended.
//
//schema:answer admin PlanVersion
type PlanVersionView struct {
	Version        uint32          `json:"version"`
	PriceAmount    decimal.Decimal `json:"priceAmount"`
	Currency       string          `json:"currency" rule:"min=3,max=3"`
	IntervalMonths uint32          `json:"intervalMonths"`
	BillingTiming  string          `json:"billingTiming" rule:"oneof=IN_ADVANCE|IN_ARREARS"`
	Subscribers    int64           `json:"subscribers"`
}

// SubscriberView is a subscription to a plan that has not ended.
//
//schema:answer admin Subscriber
type SubscriberView struct {
	SubscriptionID      [16]byte `json:"subscriptionId"`
	CustomerReferenceID string   `json:"customerReferenceId" rule:"min=1,max=128"`
	Version             uint32   `json:"version"`
	CreatedAt           int64    `json:"createdAt" as:"time"`
}

// PlanFeatureView is a feature of a plan.
//
//schema:answer client PlanFeature
type PlanFeatureView struct {
	FeatureView
	PricingType string `json:"pricingType" rule:"oneof=included|usage_based|graduated"`
	// Pricing is the price model, as the catalog has it, with defaults filled in.
	Pricing catalogs.PricingDocument `json:"pricing" as:"object" with:"billingview.WritePricing"`
}

// CustomerCore is what answers about other nouns have of a customer.
//
//schema:answer client NestedCustomer
type CustomerCore struct {
	Row         uint32
	ID          [16]byte `json:"id"`
	ExternalID  string   `json:"externalClientCustomerId" rule:"min=1,max=128"`
	FirstName   string   `json:"firstName" rule:"max=128"`
	LastName    string   `json:"lastName" rule:"max=128"`
	Email       string   `json:"email" rule:"max=254"`
	PhoneNumber string   `json:"phoneNumber" rule:"max=64" if:"HasPhoneNumber"`
	// HasPhoneNumber and HasAddress distinguish an empty value from none.
	HasPhoneNumber, HasAddress bool
	CreatedAt                  int64 `json:"createdAt" as:"time"`
	ModifiedAt                 int64 `json:"modifiedAt" as:"time"`
}

// CustomerView is one customer, without subscriptions.
type CustomerView struct {
	CustomerCore
	Address    string `json:"address" rule:"max=500" if:"HasAddress"`
	ArchivedAt int64  `json:"archivedAt,omitzero" as:"time"`
	ErasedAt   int64  `json:"erasedAt,omitzero" as:"time"`
}

// SubscriptionDetails are optional facts that a request states of a subscription: the engine keeps
// them, and answers say them. There is none yet: CONTRIBUTING.md shows how one is added here alone.
// Requests and answers embed it, so its fields have numbers from 32 on, above those of each.
//
//schema:details
type SubscriptionDetails struct{}

// SubscriptionView is one subscription at the instant of the query.
//
//schema:answer client Subscription
type SubscriptionView struct {
	ID             [16]byte     `json:"id"`
	IsActive       bool         `json:"isActive"`
	IntervalMonths uint32       `json:"intervalMonths,string" rule:"min=1"` // the plan's
	Customer       CustomerCore `json:"customer" ref:"NestedCustomer"`
	Plan           PlanView     `json:"plan" ref:"Plan"`
	GraceDays      uint32       `json:"gracePeriodDays" rule:"max=365"`
	CreatedAt      int64        `json:"createdAt" as:"time"`
	PeriodStart    int64        `json:"currentPeriodStart" as:"time"`
	PeriodEnd      int64        `json:"currentPeriodEnd" as:"time"`
	// CancelMode, CancelEffectiveAt and CancelledAt (when it was asked for) stand while a
	// cancellation does; EndedAt once it took effect.
	CancelMode        book.CancelMode `json:"cancelMode,omitzero"`
	CancelEffectiveAt int64           `json:"cancelEffectiveAt,omitzero" as:"time"`
	CancelledAt       int64           `json:"cancelledAt,omitzero" as:"time"`
	EndedAt           int64           `json:"endedAt,omitzero" as:"time"`
	// CancelledByCustomer reports whether the customer has cancelled it, and so may revert that.
	CancelledByCustomer bool
	// ScheduledChange is the pending plan change; nil when there is none.
	ScheduledChange *PlanChangeView `json:"scheduledChange,omitzero" ref:"ScheduledChange"`
	AnchorDay       uint32          `json:"billingAnchorDay" rule:"min=1,max=31"`
	SuspendedAt     int64           `json:"metadata.suspendedAt,omitzero" as:"time"`
	SubscriptionDetails
}

// CheckQuery asks for an entitlement decision. The byte slices are only read during the call.
type CheckQuery struct {
	Env      uint32 `wire:"1"`
	Customer []byte `wire:"2"`
	Feature  []byte `wire:"3"`
	// Now is the log time of the question, in milliseconds; see Machine.Clock.
	Now int64 `wire:"4"`
	// Track asks whether Units more would be allowed.
	Track bool            `wire:"5"`
	Units decimal.Decimal `wire:"6"`
	// Budget and KeyBudget are those of RecordUsage.
	Budget    []byte `wire:"20"`
	KeyBudget uint32 `wire:"21"`
}

// Decision answers a CheckQuery. It is filled in place, so that a check allocates nothing.
type Decision struct {
	Ruling
	// Refused is the limit of a budget that denies it; set for reasons of budgets alone.
	Refused budgets.Refusal `wire:",inline"`
}

// Ruling is what every decision has.
//
//schema:part
type Ruling struct {
	Reason         Reason   `wire:"1"`
	SubscriptionID [16]byte `wire:"2"`
	// HasUsage reports whether a subscription carries the feature: Used stands then; Limit and
	// Remaining only when HasLimit is set.
	HasUsage  bool            `wire:"3"`
	HasLimit  bool            `wire:"4"`
	HardLimit bool            `wire:"5"`
	Used      decimal.Decimal `wire:"6"`
	Limit     decimal.Decimal `wire:"7"`
	Remaining decimal.Decimal `wire:"8"`
	// Projected and what follows stand when the query asked to Track.
	Projected          decimal.Decimal `wire:"9"`
	ProjectedRemaining decimal.Decimal `wire:"10"`
	WouldExceed        bool            `wire:"11"`
	HasCost            bool            `wire:"12"`
	ProjectedCost      decimal.Decimal `wire:"13"` // rated(projected) − rated(used), unrounded
	// LogIndex is the last entry that the decision saw.
	LogIndex uint64 `wire:"14"`
	// CustomerRow and FeatureNumber name both in the audit event; 0 when unknown (rows and numbers
	// are counted from 1 there).
	CustomerRow   uint32 `wire:"15"`
	FeatureNumber uint32 `wire:"16"`
	// EnvironmentTime is Now on the environment's clock.
	EnvironmentTime int64 `wire:"17"`
	// Held is what open reservations hold; Remaining and the decision leave it out.
	Held decimal.Decimal `wire:"18"`
}

// Allowed reports whether the customer may use the feature.
func (d *Decision) Allowed() bool { return d.Reason == ReasonAllowed }

// EventKind is the kind of a listed event.
//
//schema:enum
type EventKind uint8

const (
	EventUsage EventKind = 1 // usage
	EventAudit EventKind = 2 // audit
	EventVoid  EventKind = 3 // void
	EventAmend EventKind = 4 // amend
)

// EventView is one event as the journal keeps it.
type EventView struct {
	Index    uint64 // log index, with Position the event's identity
	Position uint32
	Ordinal  uint32    // place within an audit block
	Kind     EventKind `json:"kind"`
	// Customer is whose it is, in the list of an environment's events.
	Customer       string          `json:"customerReferenceId,omitzero" rule:"min=1,max=128"`
	Key            string          `json:"eventIdempotencyKey,omitzero" rule:"min=1,max=255"`
	EventName      string          `json:"eventName,omitzero" rule:"min=1,max=128"`
	FeatureKey     string          `json:"featureKey,omitzero" rule:"min=1,max=128"`
	Units          decimal.Decimal `json:"usageUnits"`
	HasCost        bool
	Cost           decimal.Decimal `json:"costAmount" if:"HasCost"`
	CostChange     decimal.Decimal // of a void or an amendment: how much more the event costs
	OccurredAt     int64           `json:"occurredAt" as:"time"`
	RecordedAt     int64           `json:"recordedAt" as:"time"`
	SubscriptionID [16]byte        `json:"subscriptionId,omitzero"`
	Unbilled       bool            `json:"unbilled,omitzero"` // a usage event that nothing bills
	FlowID         string          `json:"flowId,omitzero" rule:"max=128"`
	Meta           []byte          `json:"meta,omitzero" as:"object"`
	VoidedAt       int64           `json:"voidedAt,omitzero" as:"time"` // of a usage event
	// Credits is what a usage event burnt, where HasCredits is set.
	HasCredits bool
	Credits    decimal.Decimal `json:"creditsUsed" if:"Burnt()"`
	Reason     Reason          // of an audit event
	ReasonText string          // of a void or an amendment
	// CheckFigures are the limit that denied a check.
	CheckFigures
	EventSettlement
}

// EventSettlement is the reservation that a usage event settled, if any, and the units beyond it
// that did not fit.
type EventSettlement struct {
	Reservation [16]byte        `json:"reservationId,omitzero"`
	Overrun     decimal.Decimal `json:"overrunUnits" if:"Settled()"`
	// OverrunsChange is, of a void or an amendment, 1 where the event has an overrun only now, and
	// −1 where it had one.
	OverrunsChange int
}

// Burnt reports whether it is a usage event that burnt credits.
func (v *EventView) Burnt() bool { return v.Kind == EventUsage && v.HasCredits }

// Settled reports whether it settled a reservation.
func (v *EventSettlement) Settled() bool { return v.Reservation != [16]byte{} }

// Budget is a node of an environment, at the instant nowMS of this node's clock or the newest
// stamp, whichever is later: so a window ends without an entry. False where there is none.
func (m *customerReader) Budget(env uint32, key string, nowMS int64) (v BudgetView, ok bool) {
	s, now, unlock := m.budgets(env, nowMS)
	defer unlock()
	return s.budgets.Forest.View(env, []byte(key), now, s.budgets.Names(env))
}

// BudgetsOf lists the budgets that are a customer's own: one or none, at the instant of Budget. It
// reports false if the customer does not exist.
func (m *customerReader) BudgetsOf(
	env uint32, customer string, nowMS int64,
) (views []BudgetView, ok bool) {
	row := m.CustomerRow(env, []byte(customer))
	if row == 0 {
		return nil, false
	}
	s, now, unlock := m.budgets(env, nowMS)
	defer unlock()
	if v, ok := s.budgets.Forest.OwnView(row, now, s.budgets.Names(env)); ok {
		views = append(views, v)
	}
	return views, true
}

// Budgets lists at most limit children of a parent, or roots if parent is empty, at the instant of
// Budget. The page begins after the key after; next is its last key if there are more. ok is false
// if the parent does not exist.
func (m *customerReader) Budgets(env uint32, parent, after string, limit int, nowMS int64) (
	views []BudgetView, next string, ok bool,
) {
	s, now, unlock := m.budgets(env, nowMS)
	defer unlock()
	return s.budgets.Forest.List(env, parent, after, limit, now, s.budgets.Names(env))
}

// BudgetsRunningOut finds the limits of an environment of which so many percent are used or held,
// at the instant of Budget: the keys of the budgets with the fullest of them, so many limits at
// most, and how many there are.
func (m *customerReader) BudgetsRunningOut(env uint32, percent int64, maximum int, nowMS int64) (
	keys []string, count int,
) {
	s, now, unlock := m.budgets(env, nowMS)
	defer unlock()
	return s.budgets.Forest.RunningOut(env, percent, maximum, now)
}

// BudgetWindows returns the kept closed windows of each limit of a node, newest first, at the
// instant of Budget. It returns false if the node does not exist.
func (m *customerReader) BudgetWindows(
	env uint32, key string, nowMS int64,
) ([][]BudgetWindowView, bool) {
	s, now, unlock := m.budgets(env, nowMS)
	defer unlock()
	return s.budgets.Forest.Windows(env, []byte(key), now)
}

// budgets locks the budgets of an environment for a query.
func (m *customerReader) budgets(
	env uint32, nowMS int64,
) (s *state, now int64, unlock func()) {
	s = m.state.Load()
	now = max(s.Log.Stamp(), nowMS)
	if e := s.Environment(env); e != nil {
		now = e.Now(now)
	}
	return s, now, s.budgets.Current(env, now).RUnlock
}
