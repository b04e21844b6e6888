package server

import (
	"cmp"

	"tollgate/engine"
)

const repeatSafely = "Nothing was changed. Repeat the request with the same key."

// refused is a fault that changed nothing, which is all that there is to say.
func refused(status int, code, message string) *Fault {
	return NewFault(status, code, message).With("Nothing was changed.")
}

// faults is the one table that maps outcomes to HTTP. A new outcome is one row here.
var faults = [256]*Fault{
	engine.OutcomeUnavailable: NewFault(503, "unavailable", "No quorum can be reached").With(repeatSafely).Retry(1),
	engine.OutcomeOverloaded:  NewFault(503, "overloaded", "The service is overloaded").With(repeatSafely).Retry(1),
	engine.OutcomeShareFull: NewFault(429, "share_full", "The account has too many writes under way").With(
		"Nothing was changed. The service is busy, and other accounts need their share of it. Repeat " +
			"the request with the same key after Retry-After seconds; send fewer at a time.").Retry(1),
	engine.OutcomeUnknown: NewFault(503, "outcome_unknown", "It is not known whether the request was carried out").With(
		"Repeat it with the same key: it cannot take effect twice.").Retry(1),
	engine.OutcomeDiskLow: NewFault(503, "disk_low", "The service cannot store more at the moment").With(
		repeatSafely).Retry(30),
	engine.OutcomeTooLarge: NewFault(413, "too_large", "The request does not fit one log entry").With(
		"Nothing was changed. Send less in one request."),
	engine.OutcomeDuplicate: NewFault(409, "duplicate_key", "This idempotency key was already processed").With(
		"The repeat was ignored: the usage event counts once."),
	engine.OutcomeKeyReused: NewFault(409, "key_reused",
		"This idempotency key was already processed with another body").With(
		"Nothing was changed. The body differs from the one that was recorded under this key: a new " +
			"usage event needs a key of its own."),
	engine.OutcomeKeysFull: NewFault(503, "keys_full", "No room is left for new idempotency keys").With(
		repeatSafely).Retry(60),
	engine.OutcomeKeyUnproven: NewFault(503, "key_unproven",
		"This node cannot tell yet whether the idempotency key was used").With(repeatSafely).Retry(1),
	engine.OutcomeKeyRebound: NewFault(503, "key_rebound",
		"An API key was bound to another budget while the request was on its way").With(
		repeatSafely).Retry(1),
	engine.OutcomeCustomerUnknown:     refused(404, "customer_not_found", "Customer not found"),
	engine.OutcomeSubscriptionUnknown: refused(404, "subscription_not_found", "Subscription not found"),
	engine.OutcomePlanUnknown:         refused(404, "plan_not_found", "Plan not found"),
	engine.OutcomeFeatureUnknown:      refused(404, "feature_not_found", "Feature not found"),
	engine.OutcomeInvoiceUnknown:      refused(404, "invoice_not_found", "Invoice not found"),
	engine.OutcomeEntitlementUnknown:  refused(404, "entitlement_not_found", "Entitlement not found"),
	engine.OutcomeAccountUnknown:      refused(404, "account_not_found", "Account not found"),
	engine.OutcomeKeyUnknown:          refused(404, "key_not_found", "API key not found"),
	engine.OutcomeCustomerExists: refused(409, "customer_exists",
		"A customer with this externalClientCustomerId exists already"),
	engine.OutcomeAccountExists: refused(409, "account_exists", "An account of this name exists already"),
	engine.OutcomePlanInactive: NewFault(400, "plan_inactive", "This plan cannot be subscribed to").With(
		"Nothing was changed. Only plans with the status ACTIVE can be: see GET /plans."),
	engine.OutcomeInvoiceVoid:    refused(400, "invoice_void", "A void invoice cannot be paid"),
	engine.OutcomeInvoicePending: refused(400, "invoice_pending", "A pending invoice cannot be paid yet"),
	engine.OutcomeHardLimit: NewFault(402, "limit_exceeded",
		"The usage event would exceed the feature's hard limit").With(
		"Nothing was recorded, and its key may be used again."),
	engine.OutcomeOccurredTooEarly: NewFault(400, "occurred_too_early", "occurredAt is too far in the past").With(
		"Nothing was recorded. Events are accepted for as long as duplicates are recognised."),
	engine.OutcomeOccurredTooLate: NewFault(400, "occurred_too_late", "occurredAt is more than 5 minutes ahead").With(
		"Nothing was recorded. Check the sender's clock."),
	engine.OutcomeCurrencyFixed:  refused(400, "currency_fixed", "The currency of a plan with subscribers cannot change"),
	engine.OutcomeCatalogInvalid: refused(400, "catalog_invalid", "The catalog document is invalid"),
	engine.OutcomeIDsContradict: NewFault(400, "ids_contradict", "The ids in the request contradict each other").With(
		"Nothing was recorded. Name each thing once."),
	engine.OutcomeBudgetUnknown: NewFault(404, "budget_not_found", "Budget not found").With(
		"Nothing was changed. A request names the customer's own budget, or one below it."),
	engine.OutcomeBudgetExceeded: NewFault(402, "budget_exceeded", "A budget does not allow it").With(
		"Nothing was recorded, and its key may be used again."),
	engine.OutcomeBudgetFrozen: NewFault(402, "budget_frozen", "The budget, or one above it, is frozen").With(
		"Nothing was recorded, and its key may be used again."),
	engine.OutcomeBudgetArchived: refused(400, "budget_archived", "The budget, or one above it, is archived"),
	engine.OutcomeBudgetInvalid:  refused(400, "budget_invalid", "A value of the budget is out of its bounds"),
	engine.OutcomeBudgetLimit: NewFault(400, "budget_limit",
		"The limit of levels, budgets or time zones is reached").With(
		"Nothing was changed. A tree has at most 8 levels, an environment 10,000 budgets, archived ones " +
			"included, and 100 time zones."),
	engine.OutcomeBudgetConflict: NewFault(409, "budget_conflict", "The budget contradicts another one").With(
		"Nothing was changed. A customer has one budget of its own; an existing budget gets another " +
			"parent by a move, and never comes below itself."),
	engine.OutcomeBudgetChanged: NewFault(409, "budget_changed", "The budget is not as expected").With(
		"Nothing was changed. It was created or changed since it was read: read it again."),
	engine.OutcomeOverflow: refused(400, "overflow", "The result lies outside of the range of exact numbers (10^24)"),
	engine.OutcomeInvoiceClosed: NewFault(400, "invoice_closed", "The invoice does not take usage events any more").With(
		"Nothing was recorded. Only a PENDING invoice does."),
	engine.OutcomeAccountLimit: refused(400, "account_limit", "The limit of accounts or keys is reached"),
	engine.OutcomeMemoryLow: NewFault(503, "memory_low", "The memory of the service is nearly spent").With(
		"Nothing was changed. Reads, and writes that free memory, go on; repeat the request with the " +
			"same key after Retry-After seconds.").Retry(30),
	engine.OutcomeCustomerLimit: NewFault(400, "customer_limit", "The account's limit of customers is reached").With(
		"Nothing was changed. The operator sets how many: limits.customersPerAccount."),
	engine.OutcomeKeyLimit: NewFault(400, "key_limit", "The account's limit of API keys is reached").With(
		"Nothing was changed. Revoke one, or have the operator raise limits.keysPerAccount."),
	engine.OutcomeCatalogLimit: NewFault(400, "catalog_limit",
		"The account's catalogs would exceed their limit").With(
		"Nothing was changed. Features, plans and versions of plans of both environments count, and " +
			"archived ones, too; the operator sets how many: limits.catalogPerAccount."),
	engine.OutcomeEndpointLimit: NewFault(400, "webhook_endpoint_limit",
		"The account's limit of webhook endpoints is reached").With(
		"Nothing was changed. Delete one, or have the operator raise limits.webhooksPerAccount."),
	engine.OutcomeCustomerArchived: NewFault(400, "customer_archived", "The customer is archived or erased").With(
		"Nothing was changed. It stays readable, and takes no usage events, changes or subscriptions."),
	engine.OutcomeCustomerSubscribed: NewFault(400, "customer_subscribed",
		"The customer has a subscription that is not cancelled").With(
		"Nothing was changed. Cancel it with cancelMode=IMMEDIATE before."),
	engine.OutcomeRequestKeyReused: NewFault(409, "idempotency_key_reused",
		"This Idempotency-Key belongs to another request").With(
		"Nothing was changed. Another request needs a key of its own; one is kept for 24 hours."),
	engine.OutcomeNoProvider: NewFault(400, "no_payment_provider", "No payment provider is enabled on the account").With(
		"Nothing was changed. Enable one in the account's settings, or mark the invoice paid."),
	engine.OutcomeProviderRefused: refused(400, "provider_refused",
		"The sandbox provider cannot collect in the live environment"),
	engine.OutcomeInvoicePaid:        refused(400, "invoice_paid", "The invoice is paid already"),
	engine.OutcomeCheckoutUnknown:    refused(404, "checkout_not_found", "Checkout not found"),
	engine.OutcomePoolUnknown:        refused(404, "pool_not_found", "Credit pool not found"),
	engine.OutcomeTransactionUnknown: refused(404, "transaction_not_found", "Transaction not found"),
	engine.OutcomeCreditsEmpty: NewFault(402, "credits_empty", "The customer's credits do not cover it").With(
		"Nothing was recorded. Grant credits, and send it again; its key may be used again."),
	engine.OutcomePoolFrozen:   refused(400, "pool_frozen", "The credit pool is frozen"),
	engine.OutcomePoolArchived: refused(400, "pool_archived", "The credit pool is archived"),
	engine.OutcomeTransactionFinal: NewFault(400, "transaction_final", "This transaction cannot be reversed").With(
		"Nothing was changed. Grants with something left and deductions can be, once; usage is " +
			"corrected by voiding its event."),
	engine.OutcomeCreditsInvalid: refused(400, "credits_invalid", "A value is out of its bounds"),
	engine.OutcomeTopUpCurrency: NewFault(400, "top_up_currency",
		"This month's top-ups of the pool were in another currency").With(
		"Nothing was changed. The monthly cap adds them up: keep the currency until the UTC month is over."),
	engine.OutcomeTopUpOver: refused(400, "top_up_over", "The pool has no such purchase on its way"),
	engine.OutcomeTopUpCharging: NewFault(409, "top_up_charging",
		"The payment provider may still be asked to charge for this purchase").With(
		"Nothing was changed. It can be ended 24 hours after it was asked for, or once no settings " +
			"of its provider are left."),
	engine.OutcomeCreditUsed: NewFault(400, "credit_used",
		"Later invoices have used the credit that this one carried forward").With(
		"Nothing was changed. Void those first; what is paid stays."),
	engine.OutcomeDeductionLimit: NewFault(400, "deduction_limit",
		"The pool's daily limit of deductions is reached").With(
		"Nothing was changed. A pool takes 2,000,000 deductions and reversals a day. Try again later, " +
			"or meter usage with events, which have no such limit."),
	engine.OutcomeTransactionLeft: NewFault(503, "transaction_left",
		"The journal of this node could not tell what the transaction was").With(
		"Nothing was changed. Repeat the request; it is safe under the same Idempotency-Key.").Retry(1),
	engine.OutcomePoolLimit:         refused(400, "pool_limit", "The limit of pools or grants is reached"),
	engine.OutcomeSubscriptionEnded: refused(400, "subscription_ended", "The subscription is cancelled"),
	engine.OutcomeNothingToRevert:   refused(400, "nothing_to_revert", "No cancellation is scheduled"),
	engine.OutcomeCancellationScheduled: NewFault(400, "cancellation_scheduled",
		"A cancellation of the subscription is scheduled").With(
		"Nothing was changed. Revert the cancellation first, then downgrade."),
	engine.OutcomeRevertSuspended: NewFault(400, "subscription_suspended", "The subscription is suspended").With(
		"Nothing was changed. Pay its oldest invoice that is PAST_DUE: the payment makes it active. " +
			"Then revert the cancellation."),
	engine.OutcomePlanUnchanged: refused(400, "plan_unchanged",
		"The subscription is on the plan's newest version already"),
	engine.OutcomeCurrencyDiffers: refused(400, "currency_differs", "A plan change cannot change the currency"),
	engine.OutcomeNoChangePending: refused(400, "no_change_pending", "No plan change is scheduled"),
	engine.OutcomeUsageUnknown:    refused(404, "usage_not_found", "Usage event not found"),
	engine.OutcomeUsageVoided:     refused(400, "usage_voided", "A voided usage event cannot be amended"),
	engine.OutcomeUsageFinal: NewFault(400, "usage_final", "The usage event is too old to be corrected").With(
		"Nothing was changed. Events can be corrected for as long as their keys are kept."),
	engine.OutcomeClockBackwards: NewFault(400, "clock_backwards", "A test clock moves only forward").With(
		"Nothing was changed. advanceTo must be later than the environment's present time."),
	engine.OutcomeClockTooFar: refused(400, "clock_too_far", "A test clock moves at most five years at a time"),
	engine.OutcomeClockLive:   refused(400, "clock_live", "A live environment has no test clock"),
	engine.OutcomeSubscriptionLimit: refused(400, "subscription_limit",
		"The customer's limit of subscriptions is reached"),
	engine.OutcomeWebhookUnknown: refused(404, "webhook_endpoint_not_found", "Webhook endpoint not found"),
	engine.OutcomeDeliveryUnknown: NewFault(404, "delivery_not_found", "Delivery not found").With(
		"Nothing was changed. Deliveries are kept for 7 days after they are done."),
	engine.OutcomeWebhookInvalid: refused(400, "webhook_invalid", "A value is out of its bounds"),
	engine.OutcomeWebhookLimit:   refused(400, "webhook_limit", "The limit of endpoints or waiting messages is reached"),
	engine.OutcomeUpgrading: NewFault(503, "upgrading", "Not every node knows this command yet").With(
		"Nothing was changed. Repeat it once all nodes run the same version.").Retry(5),
	engine.OutcomeReservationUnknown: refused(404, "reservation_not_found", "Reservation not found"),
	engine.OutcomeReservationKeyReused: NewFault(409, "reservation_key_reused",
		"This reservationKey belongs to another request").With(
		"Nothing was changed. Another reservation needs a key of its own."),
	engine.OutcomeReservationShort: NewFault(402, "reservation_short", "There is not enough left").With(
		"Nothing was changed, and nothing more is held."),
	engine.OutcomeReservationClosed: NewFault(409, "reservation_closed", "The reservation is not open any more").With(
		"Nothing was changed."),
	engine.OutcomeHoldLimit: NewFault(429, "reservation_limit", "The limit of open reservations is reached").With(
		"Nothing was changed. Settle or release some, or wait until they expire.").Retry(1),
	engine.OutcomeReservationsFull: NewFault(503, "reservations_full",
		"No room is left for more reservations of this account").With(
		"Nothing is held. Closed reservations count until their idempotency keys expire. Retry once older " +
			"ones have expired, reserve more units at a time, or ask the operator to shorten " +
			"limits.keyRetention.").
		Retry(60),
	engine.OutcomeNotEntitled: NewFault(402, "not_entitled", "The customer may not use the feature").With(
		"Nothing is held."),
	engine.OutcomeReservationBilled: NewFault(503, "reservation_billed",
		"The journal of this node could not tell what the expired reservation was billed as").With(
		"Nothing was changed. Repeat the request; it is safe.").Retry(1),
	engine.OutcomeSettledMore: NewFault(400, "settled_more", "More than this total is settled already").With(
		"Nothing was changed. usageUnits is the running total of the reservation: it never falls. Amend " +
			"an event to take something back."),
	engine.OutcomeReservationInvalid: refused(400, "reservation_invalid", "A value is out of its bounds"),
	engine.OutcomeEventKeyReserved: NewFault(400, "event_key_reserved",
		"This eventIdempotencyKey belongs to a reservation").With(
		"Nothing was changed. Events that settle a reservation have the keys reservation:ID:1 and so on; " +
			"any other key is free."),
	engine.OutcomeWorkspaceClaimed: refused(409, "workspace_claimed", "A workspace that has an owner is not removed"),
	engine.OutcomeWebhookDisabled: NewFault(400, "webhook_endpoint_disabled", "The webhook endpoint is disabled").With(
		"Nothing was changed. Enable it before."),
}

// FaultOfResult is FaultOf with what else the result says: when to come again.
func FaultOfResult(r engine.Result) *Fault {
	if r.Outcome != engine.OutcomeShareFull || len(r.Value) != 1 {
		return FaultOf(r.Outcome)
	}
	return FaultOf(r.Outcome).Retry(max(1, int(r.Value[0])))
}

// FaultOf is the answer to a refused command. An outcome without a row, which no command should
// return, is answered as unknown: the caller may repeat, and nothing is claimed.
func FaultOf(o engine.Outcome) *Fault { return cmp.Or(faults[o], faults[engine.OutcomeUnknown]) }
