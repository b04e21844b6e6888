package admin

import (
	"net/http"
	"slices"
	"strings"

	"tollgate/server"
	"tollgate/server/billingview"
)

// declaredRefusals are the codes with which the operations are refused: see sharedCodes for those
// of all their kind.
var declaredRefusals = server.Refusals{
	Shared: sharedCodes,
	Faults: slices.Concat([]*server.Fault{
		faultJournal, faultUnexplained, faultKeyLost, faultSecretLost, faultBackup, faultMembers,
		faultSettling, faultYAML,
	}, billingview.Faults()),
	Own: map[string]string{
		"createAccount": "account_exists account_limit memory_low",
		"showAccount":   "account_not_found",
		"createKey": noCustomer + "customer_archived key_limit account_limit key_not_shown " +
			"ids_contradict memory_low",
		"rollKey":      "key_not_found customer_archived key_limit account_limit key_not_shown memory_low",
		"revokeKey":    "key_not_found",
		"bindKey":      "key_not_found budget_not_found",
		"applyCatalog": "malformed_yaml catalog_invalid catalog_limit currency_fixed memory_low",

		"listPlanVersions": "plan_not_found",
		"listSubscribers":  "plan_not_found",
		"previewInvoices": noCustomer + "customer_archived plan_not_found plan_inactive overflow " +
			"subscription_limit subscription_not_found subscription_ended plan_unchanged " +
			"currency_differs cancellation_scheduled",
		"removeCustomer":     noCustomer + "customer_subscribed",
		"createPortalLink":   noCustomer + "customer_archived portal_unavailable",
		"revokePortalLinks":  noCustomer,
		"setOrigins":         "account_limit",
		"showMargin":         "overflow",
		"showUsage":          noCustomer + usageCodes,
		"usageByCustomer":    usageCodes,
		"deniedByCustomer":   usageCodes,
		"listChanges":        noCustomer + "account_not_found",
		"setPaymentProvider": "no_payment_provider provider_refused",

		"listInvoices":   noCustomer,
		"showInvoice":    noInvoice,
		"listPayments":   noInvoice,
		"explainInvoice": noInvoice + "invoice_pending invoice_unexplained journal_unavailable",
		"previewVoid":    noInvoice + "invoice_pending invoice_paid invoice_void credit_used",
		"voidInvoice":    noInvoice + "invoice_pending invoice_paid credit_used",
		"verifyInvoices": noCustomer + "invoice_unexplained journal_unavailable",
		"advanceClock":   "clock_backwards clock_live clock_too_far clock_settling memory_low",

		"createPool":    noCustomer + "customer_archived pool_limit memory_low",
		"listPools":     noCustomer,
		"showPool":      noPool,
		"freezePool":    noPool + "pool_archived",
		"unfreezePool":  noPool + "pool_archived",
		"archivePool":   noPool,
		"setLowBalance": noPool + "pool_archived credits_invalid",
		"setTopUp": noPool + "pool_archived customer_archived no_payment_provider top_up_currency " +
			"credits_invalid memory_low",
		"showTopUp":  noPool + "top_up_not_found",
		"stopTopUp":  noPool,
		"endTopUp":   noPool + "top_up_over top_up_charging",
		"listGrants": noPool,
		"grantCredits": noPool + "pool_archived pool_limit overflow transaction_left " +
			"journal_unavailable memory_low",
		"deductCredits": noPool + "pool_archived pool_frozen credits_empty deduction_limit overflow " +
			"transaction_left journal_unavailable memory_low",
		"listTransactions": noPool,
		"reverseTransaction": "transaction_not_found transaction_final transaction_left pool_archived " +
			"pool_frozen credits_empty deduction_limit journal_unavailable",

		"createWebhookEndpoint": noEndpoint + "webhook_invalid webhook_limit webhook_endpoint_limit " +
			"secret_not_shown memory_low",
		"showWebhookEndpoint":   noEndpoint,
		"updateWebhookEndpoint": noEndpoint + "webhook_invalid",
		"rotateWebhookSecret":   noEndpoint + "webhook_invalid secret_not_shown",
		"deleteWebhookEndpoint": noEndpoint,
		"listWebhookDeliveries": noEndpoint + noCustomer,
		"showWebhookDelivery":   noEndpoint + "delivery_not_found",
		"resendWebhook": noEndpoint + "delivery_not_found webhook_endpoint_disabled " +
			"webhook_limit",
		"resendWebhooks": noEndpoint + "webhook_endpoint_disabled webhook_limit",
		"testWebhook": noEndpoint + "delivery_not_found webhook_endpoint_disabled webhook_limit " +
			"memory_low",

		"listReservations":       noCustomer + "budget_not_found",
		"listBudgets":            noCustomer,
		"showBudget":             "budget_not_found",
		"listBudgetReservations": "budget_not_found",
		"showReservation":        noReservation,
		"settleReservation": noReservation + budgetCodes + "reservation_closed reservation_short " +
			"reservation_invalid reservation_billed reservation_period settled_more usage_voided " +
			"usage_final feature_not_found duplicate_key key_reused keys_full key_unproven occurred_too_early " +
			"occurred_too_late customer_archived overflow journal_unavailable",
		"extendReservation": noReservation + budgetCodes + "reservation_closed reservation_short " +
			"reservation_invalid not_entitled overflow",
		"releaseReservation": noReservation + "reservation_closed",

		"makeBackup":         "backup_running",
		"joinMember":         "members_unchanged",
		"promoteMember":      "members_unchanged",
		"transferLeadership": "members_unchanged",
		"removeMember":       "members_unchanged",
	},
}

const (
	noCustomer    = "customer_not_found "
	noInvoice     = "invoice_not_found "
	noPool        = "pool_not_found "
	noEndpoint    = "webhook_endpoint_not_found "
	noReservation = "reservation_not_found "
	budgetCodes   = "budget_exceeded budget_frozen budget_archived "
	usageCodes    = "feature_not_found journal_unavailable still_counting"
)

// sharedCodes are the codes of all routes of a kind.
func sharedCodes(r *server.Route) string {
	codes := "validation_failed internal_error overloaded"
	if r.Access == server.AccessOpen {
		return codes
	}
	codes += " invalid_key unavailable"
	if strings.Contains(r.Path, "{environment}") {
		codes += " account_not_found not_found"
	}
	if r.Method == http.MethodGet {
		return codes
	}
	codes += " malformed_json malformed_encoding body_too_large unsupported_media_type " +
		"outcome_unknown disk_low upgrading too_large share_full"
	for i := range r.Params {
		if r.Params[i].Name == server.RequestKey.Name {
			codes += " idempotency_key_reused keys_full"
		}
	}
	return codes
}
