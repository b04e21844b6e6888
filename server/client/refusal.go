package client

import (
	"net/http"
	"slices"

	"tollgate/server"
	"tollgate/server/audit"
	"tollgate/server/billingview"
	"tollgate/server/payments"
)

// declaredRefusals are the codes with which the operations are refused: see sharedCodes for those
// of all their kind.
var declaredRefusals = server.Refusals{
	Shared: sharedCodes,
	Faults: slices.Concat([]*server.Fault{faultJournal}, audit.Faults(), billingview.Faults(),
		payments.Faults()),
	Own: map[string]string{
		"createCustomer":            "customer_exists customer_limit memory_low",
		"getCustomer":               noCustomer,
		"updateCustomer":            noCustomer + "customer_archived",
		"archiveCustomer":           noCustomer + "customer_subscribed",
		"listCustomerSubscriptions": noCustomer,
		"listEntitlements":          noCustomer,
		"listCustomerEvents":        noCustomer + "journal_unavailable",
		"listEvents":                "journal_unavailable",
		"createPortalLink":          noCustomer + "customer_archived portal_unavailable",
		"revokePortalLinks":         noCustomer,
		"createSubscription": noCustomer + "customer_archived plan_not_found plan_inactive " +
			"subscription_limit pool_limit overflow memory_low",
		"getSubscription":    noSubscription,
		"listPlanChanges":    noSubscription,
		"getUpcomingInvoice": noSubscription,
		"cancelSubscription": noSubscription + "subscription_ended",
		"revertScheduledCancellation": noSubscription +
			"nothing_to_revert subscription_suspended",
		"changeSubscriptionPlan": noSubscription + "subscription_ended plan_not_found plan_inactive " +
			"plan_unchanged currency_differs cancellation_scheduled pool_limit overflow memory_low",
		"cancelScheduledPlanChange": noSubscription + "no_change_pending",
		"checkEntitlement":          checkCodes,
		"evaluateEntitlement":       checkCodes,
		"evaluateEntitlements":      checkCodes,
		"ingestEvent": noCustomer + budgetCodes + "customer_archived duplicate_key key_reused keys_full " +
			"key_unproven key_rebound event_key_reserved occurred_too_early occurred_too_late " +
			"ids_contradict feature_not_found entitlement_not_found subscription_not_found " +
			"invoice_not_found invoice_closed limit_exceeded credits_empty overflow memory_low",
		"voidEvent": correctionCodes,
		"amendEvent": correctionCodes + budgetCodes + "usage_voided limit_exceeded credits_empty " +
			"reservation_short",
		"previewCorrection": "usage_not_found usage_final usage_voided limit_exceeded credits_empty " +
			"reservation_short budget_exceeded budget_frozen budget_archived overflow journal_unavailable",
		"getUsage": noCustomer + "feature_not_found journal_unavailable still_counting",

		"listCustomerInvoices": noCustomer,
		"getCustomerInvoice":   noCustomer + "invoice_not_found",
		"markInvoicePaid":      "invoice_not_found invoice_pending invoice_void",
		"createCheckoutSession": "invoice_not_found invoice_pending invoice_void " +
			"no_payment_provider payment_provider_credentials payment_provider_refused " +
			"payment_provider_unavailable memory_low",
		"setTopUp": "pool_not_found pool_archived customer_archived no_payment_provider " +
			"top_up_currency credits_invalid memory_low",
		"getTopUp":  "pool_not_found top_up_not_found",
		"stopTopUp": "pool_not_found",

		"putBudget": "budget_not_found budget_archived budget_changed budget_conflict budget_invalid " +
			"budget_limit customer_not_found feature_not_found memory_low",
		"getBudget":         "budget_not_found",
		"listBudgets":       "budget_not_found customer_not_found",
		"listBudgetWindows": "budget_not_found",
		"moveBudget": "budget_not_found budget_archived budget_conflict budget_exceeded budget_limit " +
			"overflow",
		"freezeBudget":   "budget_not_found budget_archived",
		"unfreezeBudget": "budget_not_found budget_archived",
		"archiveBudget":  "budget_not_found",

		"reserve": noCustomer + budgetCodes + "customer_archived feature_not_found ids_contradict " +
			"not_entitled reservation_short reservation_limit reservations_full reservation_key_reused " +
			"reservation_invalid key_rebound overflow memory_low",
		"listReservations": "customer_not_found budget_not_found",
		"getReservation":   noReservation,
		"settleReservation": noReservation + budgetCodes + "reservation_closed reservation_short " +
			"reservation_invalid reservation_billed reservation_period settled_more usage_voided " +
			"usage_final feature_not_found event_key_reserved duplicate_key key_reused keys_full " +
			"key_unproven key_rebound occurred_too_early occurred_too_late customer_archived overflow " +
			"journal_unavailable",
		"extendReservation": noReservation + budgetCodes + "reservation_closed reservation_short " +
			"reservation_invalid not_entitled key_rebound overflow",
		"releaseReservation": noReservation + "budget_not_found reservation_closed key_rebound",
	},
}

const (
	noCustomer     = "customer_not_found "
	noSubscription = "subscription_not_found "
	noReservation  = "reservation_not_found "
	budgetCodes    = "budget_not_found budget_exceeded budget_frozen budget_archived "
	checkCodes     = "audit_full audit_uncommitted"
	// correctionCodes are those of commands about a usage event that was recorded.
	correctionCodes = "usage_not_found usage_final budget_not_found key_rebound overflow " +
		"journal_unavailable "
)

// sharedCodes are the codes of all routes of a kind.
func sharedCodes(r *server.Route) string {
	codes := "validation_failed internal_error overloaded"
	if r.Access == server.AccessOpen {
		return codes
	}
	codes += " invalid_key access_denied rate_limited share_full unavailable"
	if r.Method == http.MethodGet {
		return codes
	}
	codes += " malformed_json malformed_encoding body_too_large unsupported_media_type"
	writes := r.Operation != "ingestEventBatch" // which answers each event by itself
	for i := range r.Params {
		switch r.Params[i].Name {
		case server.ConsistencyParam().Name:
			writes = false
		case server.RequestKey.Name:
			codes += " idempotency_key_reused keys_full"
		}
	}
	if writes {
		codes += " outcome_unknown disk_low upgrading too_large"
	}
	return codes
}
