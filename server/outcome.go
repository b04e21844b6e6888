package server

import "tollgate/engine"

const (
	nothingChanged = "Nothing was changed."
	repeatSafely   = "Nothing was changed. Repeat the request with the same key."
)

// row is a row of faults: what Fault says of a refused command.
type row struct {
	Status                int
	Code, Message, Detail string
	RetryAfter            int
}

// faults is the one table that maps outcomes to HTTP. A new outcome is one row here.
var faults = [256]row{
	engine.OutcomeUnavailable: {
		503, "unavailable", "No quorum can be reached", repeatSafely, 1,
	},
	engine.OutcomeOverloaded: {
		503, "overloaded", "The service is overloaded", repeatSafely, 1,
	},
	engine.OutcomeShareFull: {
		429, "share_full", "The account has too many writes under way",
		"Nothing was changed. The service is busy, and other accounts need their share of it. " +
			"Repeat the request with the same key after Retry-After seconds; send fewer at a time.", 1,
	},
	engine.OutcomeUnknown: {
		503, "outcome_unknown", "It is not known whether the request was carried out",
		"Repeat it with the same key: it cannot take effect twice.", 1,
	},
	engine.OutcomeDiskLow: {
		503, "disk_low", "The service cannot store more at the moment", repeatSafely, 30,
	},
	engine.OutcomeTooLarge: {
		413, "too_large", "The request does not fit one log entry",
		"Nothing was changed. Send less in one request.", 0,
	},
	engine.OutcomeDuplicate: {
		409, "duplicate_key", "This idempotency key was already processed",
		"The repeat was ignored: the usage event counts once.", 0,
	},
	engine.OutcomeKeyReused: {
		409, "key_reused", "This idempotency key was already processed with another body",
		"Nothing was changed. The body differs from the one that was recorded under this key: " +
			"a new usage event needs a key of its own.", 0,
	},
	engine.OutcomeKeysFull: {
		503, "keys_full", "No room is left for new idempotency keys", repeatSafely, 60,
	},
	engine.OutcomeKeyUnproven: {
		503, "key_unproven", "This node cannot tell yet whether the idempotency key was used",
		repeatSafely, 1,
	},
	engine.OutcomeCustomerUnknown: {
		404, "customer_not_found", "Customer not found", nothingChanged, 0,
	},
	engine.OutcomeSubscriptionUnknown: {
		404, "subscription_not_found", "Subscription not found", nothingChanged, 0,
	},
	engine.OutcomePlanUnknown:    {404, "plan_not_found", "Plan not found", nothingChanged, 0},
	engine.OutcomeFeatureUnknown: {404, "feature_not_found", "Feature not found", nothingChanged, 0},
	engine.OutcomeInvoiceUnknown: {404, "invoice_not_found", "Invoice not found", nothingChanged, 0},
	engine.OutcomeEntitlementUnknown: {
		404, "entitlement_not_found", "Entitlement not found", nothingChanged, 0,
	},
	engine.OutcomeAccountUnknown: {404, "account_not_found", "Account not found", nothingChanged, 0},
	engine.OutcomeKeyUnknown:     {404, "key_not_found", "API key not found", nothingChanged, 0},
	engine.OutcomeCustomerExists: {
		409, "customer_exists", "A customer with this externalClientCustomerId exists already",
		nothingChanged, 0,
	},
	engine.OutcomeAccountExists: {
		409, "account_exists", "An account of this name exists already", nothingChanged, 0,
	},
	engine.OutcomePlanInactive: {
		400, "plan_inactive", "This plan cannot be subscribed to",
		"Nothing was changed. Only plans with the status ACTIVE can be: see GET /plans.", 0,
	},
	engine.OutcomeInvoiceVoid: {
		400, "invoice_void", "A void invoice cannot be paid", nothingChanged, 0,
	},
	engine.OutcomeInvoicePending: {
		400, "invoice_pending", "A pending invoice cannot be paid yet", nothingChanged, 0,
	},
	engine.OutcomeHardLimit: {
		402, "limit_exceeded", "The usage event would exceed the feature's hard limit",
		"Nothing was recorded, and its key may be used again.", 0,
	},
	engine.OutcomeOccurredTooEarly: {
		400, "occurred_too_early", "occurredAt is too far in the past",
		"Nothing was recorded. Events are accepted for as long as duplicates are recognised.", 0,
	},
	engine.OutcomeOccurredTooLate: {
		400, "occurred_too_late", "occurredAt is more than 5 minutes ahead",
		"Nothing was recorded. Check the sender's clock.", 0,
	},
	engine.OutcomeCurrencyFixed: {
		400, "currency_fixed", "The currency of a plan with subscribers cannot change",
		nothingChanged, 0,
	},
	engine.OutcomeCatalogInvalid: {
		400, "catalog_invalid", "The catalog document is invalid", nothingChanged, 0,
	},
	engine.OutcomeIDsContradict: {
		400, "ids_contradict", "The ids in the request contradict each other",
		"Nothing was recorded. Name each thing once.", 0,
	},
	engine.OutcomeOverflow: {
		400, "overflow", "The result lies outside of the range of exact numbers (10^24)",
		nothingChanged, 0,
	},
	engine.OutcomeInvoiceClosed: {
		400, "invoice_closed", "The invoice does not take usage events any more",
		"Nothing was recorded. Only a PENDING invoice does.", 0,
	},
	engine.OutcomeAccountLimit: {
		400, "account_limit", "The limit of accounts or keys is reached",
		nothingChanged, 0,
	},
	engine.OutcomeMemoryLow: {
		503, "memory_low", "The memory of the service is nearly spent",
		"Nothing was changed. Reads, and writes that free memory, go on; repeat the request with the " +
			"same key after Retry-After seconds.", 30,
	},
	engine.OutcomeCustomerLimit: {
		400, "customer_limit", "The account has as many customers as it may",
		"Nothing was changed. The operator sets how many: limits.customersPerAccount.", 0,
	},
	engine.OutcomeKeyLimit: {
		400, "key_limit", "The account has as many API keys in use as it may",
		"Nothing was changed. Revoke one, or have the operator raise limits.keysPerAccount.", 0,
	},
	engine.OutcomeCatalogLimit: {
		400, "catalog_limit", "The account's catalogs would hold more than they may",
		"Nothing was changed. Features, plans and versions of plans of both environments count, and " +
			"archived ones, too; the operator sets how many: limits.catalogPerAccount.", 0,
	},
	engine.OutcomeEndpointLimit: {
		400, "webhook_endpoint_limit", "The account has as many webhook endpoints as it may",
		"Nothing was changed. Delete one, or have the operator raise limits.webhooksPerAccount.", 0,
	},
	engine.OutcomeCustomerArchived: {
		400, "customer_archived", "The customer is archived or erased",
		"Nothing was changed. It stays readable, and takes no usage events, changes or subscriptions.",
		0,
	},
	engine.OutcomeCustomerSubscribed: {
		400, "customer_subscribed", "The customer has a subscription that is not cancelled",
		"Nothing was changed. Cancel it with cancelMode=IMMEDIATE before.", 0,
	},
	engine.OutcomeRequestKeyReused: {
		409, "idempotency_key_reused", "This Idempotency-Key belongs to another request",
		"Nothing was changed. Another request needs a key of its own; one is kept for 24 hours.", 0,
	},
	engine.OutcomeNoProvider: {
		400, "no_payment_provider", "No payment provider is enabled on the account",
		"Nothing was changed. Enable one in the account's settings, or mark the invoice paid.", 0,
	},
	engine.OutcomeProviderRefused: {
		400, "provider_refused", "The sandbox provider cannot collect in the live environment",
		nothingChanged, 0,
	},
	engine.OutcomeInvoicePaid: {
		400, "invoice_paid", "The invoice is paid already", nothingChanged, 0,
	},
	engine.OutcomeCheckoutUnknown: {404, "checkout_not_found", "Checkout not found", nothingChanged, 0},
	engine.OutcomePoolUnknown:     {404, "pool_not_found", "Credit pool not found", nothingChanged, 0},
	engine.OutcomeTransactionUnknown: {
		404, "transaction_not_found", "Transaction not found", nothingChanged, 0,
	},
	engine.OutcomeCreditsEmpty: {
		402, "credits_empty", "The customer's credits do not cover it",
		"Nothing was recorded. Grant credits, and send it again; its key may be used again.", 0,
	},
	engine.OutcomePoolFrozen:   {400, "pool_frozen", "The credit pool is frozen", nothingChanged, 0},
	engine.OutcomePoolArchived: {400, "pool_archived", "The credit pool is archived", nothingChanged, 0},
	engine.OutcomeTransactionFinal: {
		400, "transaction_final", "This transaction cannot be reversed",
		"Nothing was changed. Grants with something left and deductions can be, once; usage is " +
			"corrected by voiding its event.", 0,
	},
	engine.OutcomeCreditsInvalid: {
		400, "credits_invalid", "A value is out of its bounds", nothingChanged, 0,
	},
	engine.OutcomeCreditUsed: {
		400, "credit_used", "Later invoices have used the credit that this one carried forward",
		"Nothing was changed. Void those first; what is paid stays.", 0,
	},
	engine.OutcomeDeductionLimit: {
		400, "deduction_limit", "The pool has had as many deductions as one may have in a day",
		"Nothing was changed. A pool takes 2,000,000 deductions and reversals a day. Try again " +
			"later, or meter usage with events, which have no such limit.", 0,
	},
	engine.OutcomeTransactionLeft: {
		503, "transaction_left", "The journal of this node could not tell what the transaction was",
		"Nothing was changed. Repeat the request; it is safe under the same Idempotency-Key.", 1,
	},
	engine.OutcomePoolLimit: {
		400, "pool_limit", "The limit of pools or grants is reached", nothingChanged, 0,
	},
	engine.OutcomeSubscriptionEnded: {
		400, "subscription_ended", "The subscription is cancelled", nothingChanged, 0,
	},
	engine.OutcomeNothingToRevert: {
		400, "nothing_to_revert", "No cancellation is scheduled", nothingChanged, 0,
	},
	engine.OutcomeCancellationScheduled: {
		400, "cancellation_scheduled", "A cancellation of the subscription is scheduled",
		"Nothing was changed. Revert the cancellation first, then downgrade.", 0,
	},
	engine.OutcomeRevertSuspended: {
		400, "subscription_suspended", "The subscription is suspended",
		"Nothing was changed. Pay its oldest invoice that is PAST_DUE: the payment makes it active. " +
			"Then revert the cancellation.", 0,
	},
	engine.OutcomePlanUnchanged: {
		400, "plan_unchanged", "The subscription is on the plan's newest version already",
		nothingChanged, 0,
	},
	engine.OutcomeCurrencyDiffers: {
		400, "currency_differs", "A plan change cannot change the currency", nothingChanged, 0,
	},
	engine.OutcomeNoChangePending: {
		400, "no_change_pending", "No plan change is scheduled", nothingChanged, 0,
	},
	engine.OutcomeUsageUnknown: {
		404, "usage_not_found", "Usage event not found", nothingChanged, 0,
	},
	engine.OutcomeUsageVoided: {
		400, "usage_voided", "A voided usage event cannot be amended", nothingChanged, 0,
	},
	engine.OutcomeUsageFinal: {
		400, "usage_final", "The usage event is too old to be corrected",
		"Nothing was changed. Events can be corrected for as long as their keys are kept.", 0,
	},
	engine.OutcomeClockBackwards: {
		400, "clock_backwards", "A test clock moves only forward",
		"Nothing was changed. advanceTo must be later than the environment's present time.", 0,
	},
	engine.OutcomeClockTooFar: {
		400, "clock_too_far", "A test clock moves at most five years at a time", nothingChanged, 0,
	},
	engine.OutcomeClockLive: {
		400, "clock_live", "A live environment has no test clock", nothingChanged, 0,
	},
	engine.OutcomeSubscriptionLimit: {
		400, "subscription_limit", "The customer's limit of subscriptions is reached",
		nothingChanged, 0,
	},
	engine.OutcomeWebhookUnknown: {
		404, "webhook_endpoint_not_found", "Webhook endpoint not found", nothingChanged, 0,
	},
	engine.OutcomeDeliveryUnknown: {
		404, "delivery_not_found", "Delivery not found",
		"Nothing was changed. Deliveries are kept for 7 days after they are done.", 0,
	},
	engine.OutcomeWebhookInvalid: {
		400, "webhook_invalid", "A value is out of its bounds", nothingChanged, 0,
	},
	engine.OutcomeWebhookLimit: {
		400, "webhook_limit", "The limit of endpoints or waiting messages is reached",
		nothingChanged, 0,
	},
	engine.OutcomeUpgrading: {
		503, "upgrading", "Not every node knows this command yet",
		"Nothing was changed. Repeat it once all nodes run the same version.", 5,
	},
	engine.OutcomeWorkspaceClaimed: {
		409, "workspace_claimed", "A workspace that has an owner is not removed", nothingChanged, 0,
	},
	engine.OutcomeWebhookDisabled: {
		400, "webhook_endpoint_disabled", "The webhook endpoint is disabled",
		"Nothing was changed. Enable it before.", 0,
	},
}

// outcomeFaults are the rows as faults.
var outcomeFaults = func() (all [256]*Fault) {
	for o, r := range faults {
		if r.Status == 0 {
			r = faults[engine.OutcomeUnknown]
		}
		all[o] = &Fault{
			Status: r.Status, Code: r.Code, Message: r.Message, Detail: r.Detail,
			RetryAfter: r.RetryAfter,
		}
	}
	return all
}()

// FaultOfResult is FaultOf with what else the result says: when to come again.
func FaultOfResult(r engine.Result) *Fault {
	if r.Outcome != engine.OutcomeShareFull || len(r.Value) != 1 {
		return FaultOf(r.Outcome)
	}
	f := *FaultOf(r.Outcome)
	f.RetryAfter = max(1, int(r.Value[0]))
	return &f
}

// FaultOf is the answer to a refused command. An outcome without a row, which no command should
// return, is answered as unknown: the caller may repeat, and nothing is claimed.
func FaultOf(o engine.Outcome) *Fault { return outcomeFaults[o] }
