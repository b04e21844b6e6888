package engine

import "strconv"

// outcomeNames are for logs, metrics and scenarios.
var outcomeNames = [...]string{
	OutcomeNone:                "none",
	OutcomeDone:                "done",
	OutcomeLimitReached:        "limit_reached",
	OutcomeUnpriced:            "unpriced",
	OutcomeUnavailable:         "unavailable",
	OutcomeOverloaded:          "overloaded",
	OutcomeUnknown:             "unknown",
	OutcomeDiskLow:             "disk_low",
	OutcomeTooLarge:            "too_large",
	OutcomeDeferred:            "deferred",
	OutcomeDuplicate:           "duplicate",
	OutcomeKeyReused:           "key_reused",
	OutcomeKeysFull:            "keys_full",
	OutcomeCustomerUnknown:     "customer_unknown",
	OutcomeSubscriptionUnknown: "subscription_unknown",
	OutcomePlanUnknown:         "plan_unknown",
	OutcomeFeatureUnknown:      "feature_unknown",
	OutcomeInvoiceUnknown:      "invoice_unknown",
	OutcomeEntitlementUnknown:  "entitlement_unknown",
	OutcomeAccountUnknown:      "account_unknown",
	OutcomeKeyUnknown:          "key_unknown",
	OutcomeCustomerExists:      "customer_exists",
	OutcomeAccountExists:       "account_exists",
	OutcomePlanInactive:        "plan_inactive",
	OutcomeInvoiceVoid:         "invoice_void",
	OutcomeInvoicePending:      "invoice_pending",
	OutcomeHardLimit:           "hard_limit",
	OutcomeOccurredTooEarly:    "occurred_too_early",
	OutcomeOccurredTooLate:     "occurred_too_late",
	OutcomeCurrencyFixed:       "currency_fixed",
	OutcomeCatalogInvalid:      "catalog_invalid",
	OutcomeIDsContradict:       "ids_contradict",
	OutcomeOverflow:            "overflow",
	OutcomeSubscriptionLimit:   "subscription_limit",
	OutcomeInvoiceClosed:       "invoice_closed",
	OutcomeAccountLimit:        "account_limit",
	OutcomePoolUnknown:         "pool_unknown",
	OutcomeTransactionUnknown:  "transaction_unknown",
	OutcomeCreditsEmpty:        "credits_empty",
	OutcomePoolFrozen:          "pool_frozen",
	OutcomePoolArchived:        "pool_archived",
	OutcomeTransactionFinal:    "transaction_final",
	OutcomeCreditsInvalid:      "credits_invalid",
	OutcomePoolLimit:           "pool_limit",

	OutcomeCustomerArchived:   "customer_archived",
	OutcomeCustomerSubscribed: "customer_subscribed",
	OutcomeRequestKeyReused:   "request_key_reused",
	OutcomeNoProvider:         "no_provider",
	OutcomeProviderRefused:    "provider_refused",
	OutcomeInvoicePaid:        "invoice_paid",
	OutcomeCheckoutUnknown:    "checkout_unknown",
	OutcomeSubscriptionEnded:  "subscription_ended",
	OutcomeNothingToRevert:    "nothing_to_revert",
	OutcomePlanUnchanged:      "plan_unchanged",
	OutcomeCurrencyDiffers:    "currency_differs",
	OutcomeNoChangePending:    "no_change_pending",
	OutcomeUsageUnknown:       "usage_unknown",
	OutcomeUsageVoided:        "usage_voided",
	OutcomeUsageFinal:         "usage_final",
	OutcomeClockBackwards:     "clock_backwards",
	OutcomeClockTooFar:        "clock_too_far",
	OutcomeClockLive:          "clock_live",

	OutcomeWebhookUnknown:  "webhook_unknown",
	OutcomeDeliveryUnknown: "delivery_unknown",
	OutcomeWebhookInvalid:  "webhook_invalid",
	OutcomeWebhookLimit:    "webhook_limit",
	OutcomeWebhookDisabled: "webhook_disabled",
}

// String is the outcome's name, the same in every version.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) && outcomeNames[o] != "" {
		return outcomeNames[o]
	}
	return "outcome_" + strconv.Itoa(int(o))
}
