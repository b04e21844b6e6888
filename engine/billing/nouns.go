package billing

import (
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/outbox"
	"tollgate/engine/fair"
)

// Types of the packages below that users of the machine need.
//
//schema:nouns accounts AccountView Bounds ChangeView EnvironmentKind FieldChange Limits
//schema:nouns accounts MaxPortalLinkMS MaxPortalLogo PaymentSettings Portal Scope Seller
//schema:nouns accounts UnmatchedName CheckoutPatienceMS
//schema:nouns accounts EnvironmentLive EnvironmentSandbox MaxAPIKeys MaxListedKeys
//schema:nouns accounts MaxOrigins
//schema:nouns accounts MaxPaymentTermDays
//schema:nouns accounts MaxSettleMinutes MaxUnmatched MaxWebhookEndpoints ProviderNone
//schema:nouns accounts ProviderSandbox ProviderStripe RequestRetentionMS ScopeCustomer ScopeFull
//schema:nouns accounts ScopeRead WebhookCreditsDepleted WebhookInvoiceOverpaid WebhookInvoicePaid
//schema:nouns accounts WebhookBudgetThreshold WebhookLimitReached WebhookSubscriptionCreated
//schema:nouns accounts WebhookCreditsLow WebhookUsageThreshold WebhookToppedUp WebhookTopUpFailed
//schema:nouns accounts WebhookTest
//schema:nouns accounts DefaultBounds ErrChanges
//schema:nouns book CancelMode ChangeStatus ChangeType InvoiceItem InvoiceStatus InvoiceType
//schema:nouns book InvoiceView LineKind PaymentResult CancelAtPeriodEnd CancelByCustomer
//schema:nouns book CancelImmediate
//schema:nouns book ChangeCancelled ChangeCompleted ChangeDowngrade ChangeFailed ChangePending
//schema:nouns book InvoiceInterim InvoicePart PartKind
//schema:nouns book ChangeUpgrade InvoiceAdjustment InvoiceCredit InvoiceDue InvoiceInitial
//schema:nouns book InvoicePaid InvoicePastDue InvoicePending InvoiceRegular InvoiceVoid LineBase
//schema:nouns book LineCarried LineCredit LineLate LineRemaining LineUnused LineUsage
//schema:nouns book PaymentApplied PaymentIgnored PaymentMismatch PaymentOver PaymentUnexpected
//schema:nouns budgets BudgetView BudgetLimitView BudgetWindowView BindingLimitView
//schema:nouns budgets ClosedBudgetView ExpectsNone MaxLimits
//schema:nouns budgets MaxThresholds ArchiveBudget FreezeBudget LimitDocument LimitIdentity
//schema:nouns budgets MoveBudget PutBudget
//schema:nouns budgets Measure MeasureCost MeasurePrice MeasureUnits Refusal Window WindowDay
//schema:nouns budgets WindowHour WindowLifetime WindowMonth WindowWeek WindowYear
//schema:nouns catalogs CatalogChange CatalogDocument CatalogProblem CatalogReply
//schema:nouns catalogs CreditAllocationDocument CreditsDocument FeatureDocument PlanDocument
//schema:nouns catalogs PlanFeatureDocument PricingDocument TierDocument
//schema:nouns catalogs MaxPoolRows MaxPools MaxTransactions
//schema:nouns credits AskedTopUp TopUpState TopUpView TopUpFailed TopUpOff TopUpOn
//schema:nouns credits LeftTransaction TransactionReply TransactionView MaxTraces ReversalMS
//schema:nouns holds ReservationState ReservationOpen ReservationSettled ReservationReleased
//schema:nouns holds ReservationExpired ReservationBilled
//schema:nouns outbox Attempt AttemptOutcome WebhookEndpointView WebhookEvents WebhookMessage
//schema:nouns outbox ToldInvoice ToldPayment ToldSubscription ToldPool ToldLimit AttemptBlocked
//schema:nouns outbox AttemptDelivered AttemptExpired AttemptGone AttemptRetry MaxFinishedDeliveries
//schema:nouns outbox KeptAnswers
//schema:nouns outbox MaxPending MaxPendingDeliveries WebhookAbout WebhookEnabled WebhookEventSet
//schema:nouns outbox WebhookOffGone WebhookOn WebhookOverlapMS WebhookRetentionMS WebhookURL
//schema:nouns rows ErrEvent ErrSnapshot ErrSnapshotRunning

// FlowOf returns the flow of an environment's work: its account. 0 means no account.
func FlowOf(env uint32) fair.Flow { return accounts.FlowOf(env) }

// WebhookEventNames are the names of all events, in the order of their numbers.
func WebhookEventNames() []string { return outbox.WebhookEventNames() }

// WebhookEventsOf returns the set of events with these names; false if one is unknown.
func WebhookEventsOf(names []string) (set WebhookEvents, ok bool) {
	return outbox.WebhookEventsOf(names)
}
