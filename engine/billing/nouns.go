package billing

import (
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/outbox"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/fair"
)

// Nouns of the packages below that users of the machine name.
type (
	AccountView     = accounts.AccountView
	Bounds          = accounts.Bounds
	ChangeView      = accounts.ChangeView
	EnvironmentKind = accounts.EnvironmentKind
	FieldChange     = accounts.FieldChange
	Limits          = accounts.Limits
	PaymentSettings = accounts.PaymentSettings
	Scope           = accounts.Scope
	UnmatchedName   = accounts.UnmatchedName

	CancelMode    = book.CancelMode
	ChangeStatus  = book.ChangeStatus
	ChangeType    = book.ChangeType
	InvoiceItem   = book.InvoiceItem
	InvoiceStatus = book.InvoiceStatus
	InvoiceType   = book.InvoiceType
	InvoiceView   = book.InvoiceView
	LineKind      = book.LineKind
	PaymentResult = book.PaymentResult

	CatalogChange            = catalogs.CatalogChange
	CatalogDocument          = catalogs.CatalogDocument
	CatalogReply             = catalogs.CatalogReply
	CreditAllocationDocument = catalogs.CreditAllocationDocument
	CreditsDocument          = catalogs.CreditsDocument
	FeatureDocument          = catalogs.FeatureDocument
	PlanDocument             = catalogs.PlanDocument
	PlanFeatureDocument      = catalogs.PlanFeatureDocument
	PricingDocument          = catalogs.PricingDocument
	TierDocument             = catalogs.TierDocument

	LeftTransaction  = credits.LeftTransaction
	TransactionReply = credits.TransactionReply
	TransactionView  = credits.TransactionView

	Attempt             = outbox.Attempt
	AttemptOutcome      = outbox.AttemptOutcome
	WebhookEndpointView = outbox.WebhookEndpointView
	WebhookEvents       = outbox.WebhookEvents
	WebhookMessage      = outbox.WebhookMessage
	ToldInvoice         = outbox.ToldInvoice
	ToldPayment         = outbox.ToldPayment
	ToldSubscription    = outbox.ToldSubscription
	ToldPool            = outbox.ToldPool
	ToldLimit           = outbox.ToldLimit
)

// Their values and bounds.
const (
	CheckoutPatienceMS         = accounts.CheckoutPatienceMS
	EnvironmentLive            = accounts.EnvironmentLive
	EnvironmentSandbox         = accounts.EnvironmentSandbox
	MaxAPIKeys                 = accounts.MaxAPIKeys
	MaxListedKeys              = accounts.MaxListedKeys
	MaxOrigins                 = accounts.MaxOrigins
	MaxPaymentTermDays         = accounts.MaxPaymentTermDays
	MaxSettleMinutes           = accounts.MaxSettleMinutes
	MaxUnmatched               = accounts.MaxUnmatched
	MaxWebhookEndpoints        = accounts.MaxWebhookEndpoints
	ProviderNone               = accounts.ProviderNone
	ProviderSandbox            = accounts.ProviderSandbox
	ProviderStripe             = accounts.ProviderStripe
	RequestRetentionMS         = accounts.RequestRetentionMS
	ScopeCustomer              = accounts.ScopeCustomer
	ScopeFull                  = accounts.ScopeFull
	ScopeRead                  = accounts.ScopeRead
	WebhookCreditsDepleted     = accounts.WebhookCreditsDepleted
	WebhookInvoiceOverpaid     = accounts.WebhookInvoiceOverpaid
	WebhookInvoicePaid         = accounts.WebhookInvoicePaid
	WebhookLimitReached        = accounts.WebhookLimitReached
	WebhookSubscriptionCreated = accounts.WebhookSubscriptionCreated

	CancelAtPeriodEnd = book.CancelAtPeriodEnd
	CancelImmediate   = book.CancelImmediate
	ChangeCancelled   = book.ChangeCancelled
	ChangeCompleted   = book.ChangeCompleted
	ChangeDowngrade   = book.ChangeDowngrade
	ChangeFailed      = book.ChangeFailed
	ChangePending     = book.ChangePending
	ChangeUpgrade     = book.ChangeUpgrade
	InvoiceAdjustment = book.InvoiceAdjustment
	InvoiceCredit     = book.InvoiceCredit
	InvoiceDue        = book.InvoiceDue
	InvoiceInitial    = book.InvoiceInitial
	InvoicePaid       = book.InvoicePaid
	InvoicePastDue    = book.InvoicePastDue
	InvoicePending    = book.InvoicePending
	InvoiceRegular    = book.InvoiceRegular
	InvoiceVoid       = book.InvoiceVoid
	LineBase          = book.LineBase
	LineCarried       = book.LineCarried
	LineCredit        = book.LineCredit
	LineLate          = book.LineLate
	LineRemaining     = book.LineRemaining
	LineUnused        = book.LineUnused
	LineUsage         = book.LineUsage
	PaymentApplied    = book.PaymentApplied
	PaymentIgnored    = book.PaymentIgnored
	PaymentMismatch   = book.PaymentMismatch
	PaymentOver       = book.PaymentOver
	PaymentUnexpected = book.PaymentUnexpected

	MaxPoolRows     = catalogs.MaxPoolRows
	MaxPools        = catalogs.MaxPools
	MaxTransactions = catalogs.MaxTransactions

	MaxTraces  = credits.MaxTraces
	ReversalMS = credits.ReversalMS

	AttemptBlocked        = outbox.AttemptBlocked
	AttemptDelivered      = outbox.AttemptDelivered
	AttemptExpired        = outbox.AttemptExpired
	AttemptGone           = outbox.AttemptGone
	AttemptRetry          = outbox.AttemptRetry
	MaxFinishedDeliveries = outbox.MaxFinishedDeliveries
	MaxPending            = outbox.MaxPending
	MaxPendingDeliveries  = outbox.MaxPendingDeliveries
	WebhookAbout          = outbox.WebhookAbout
	WebhookEnabled        = outbox.WebhookEnabled
	WebhookEventSet       = outbox.WebhookEventSet
	WebhookOffGone        = outbox.WebhookOffGone
	WebhookOn             = outbox.WebhookOn
	WebhookOverlapMS      = outbox.WebhookOverlapMS
	WebhookRetentionMS    = outbox.WebhookRetentionMS
	WebhookURL            = outbox.WebhookURL
)

// Errors and defaults.
var (
	DefaultBounds      = accounts.DefaultBounds
	ErrChanges         = accounts.ErrChanges
	ErrEvent           = rows.ErrEvent
	ErrSnapshot        = rows.ErrSnapshot
	ErrSnapshotRunning = rows.ErrSnapshotRunning
)

// FlowOf is whose work an environment's is: its account's. 0 means no account.
func FlowOf(env uint32) fair.Flow { return accounts.FlowOf(env) }

// WebhookEventNames are the names of all events, in the order of their numbers.
func WebhookEventNames() []string { return outbox.WebhookEventNames() }

// WebhookEventsOf is the set of events of these names; false when there is no such event.
func WebhookEventsOf(names []string) (set WebhookEvents, ok bool) {
	return outbox.WebhookEventsOf(names)
}
