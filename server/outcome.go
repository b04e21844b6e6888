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

// RetryOperator is Retry-After where only the operator can change anything, in seconds.
const RetryOperator = 3600

// What several outcomes are answered with.
var (
	workspaceBusy = NewFault(503, "workspace_busy", "Nothing happened. Repeat the request.")
	fieldInvalid  = NewFault(400, "invalid_field",
		"A field is missing, empty, of the wrong type or too long.")
	recordNotFound = NewFault(404, "not_found", "There is no such route or record in this workspace.")
	tooManySignIns = NewFault(429, "signup_rate_limited",
		"There were too many sign-ins of this identity, or from this address. You are not signed in. "+
			"Try again later.").Retry(RetryOperator)
	peopleFull = NewFault(503, "workspace_busy",
		"You are not signed in: the limit of people or sessions of this deployment is reached. "+
			"Retrying soon does not help; contact its operator.").Retry(RetryOperator)
)

// answers are what an outcome is answered with; nil where nothing comes to it.
type answers struct {
	// billing is the answer of the client and the admin API, workspace that of the workspace API.
	billing, workspace *Fault
	// page is the answer of a page whose visitor signs in, or confirms an address.
	page *Fault
}

// outcomes is the one table that maps outcomes to HTTP. A new outcome is one row here.
var outcomes = [256]answers{
	engine.OutcomeUnavailable: {
		billing:   NewFault(503, "unavailable", "No quorum can be reached").With(repeatSafely).Retry(1),
		workspace: workspaceBusy,
	},
	engine.OutcomeOverloaded: {
		billing:   NewFault(503, "overloaded", "The service is overloaded").With(repeatSafely).Retry(1),
		workspace: workspaceBusy,
	},
	engine.OutcomeShareFull: {
		billing: NewFault(429, "share_full", "The account has too many writes under way").With(
			"Nothing was changed. The service is busy, and other accounts need their share of it. Repeat " +
				"the request with the same key after Retry-After seconds; send fewer at a time.").Retry(1),
		workspace: workspaceBusy,
	},
	engine.OutcomeUnknown: {
		billing: NewFault(503, "outcome_unknown",
			"It is not known whether the request was carried out").With(
			"Repeat it with the same key: it cannot take effect twice.").Retry(1),
		workspace: NewFault(503, "outcome_unknown",
			"It is not known whether this was carried out. Repeat it with the same key: it "+
				"cannot take effect twice."),
	},
	engine.OutcomeDiskLow: {
		billing: NewFault(503, "disk_low", "The service cannot store more at the moment").With(
			repeatSafely).Retry(30),
		workspace: workspaceBusy,
	},
	engine.OutcomeTooLarge: {
		billing: NewFault(413, "too_large", "The request does not fit one log entry").With(
			"Nothing was changed. Send less in one request."),
		workspace: fieldInvalid,
	},
	engine.OutcomeDuplicate: {billing: NewFault(409, "duplicate_key", "This idempotency key was already processed").With(
		"The repeat was ignored: the usage event counts once.")},
	engine.OutcomeKeyReused: {billing: NewFault(409, "key_reused",
		"This idempotency key was already processed with another body").With(
		"Nothing was changed. The body differs from the one that was recorded under this key: a new " +
			"usage event needs a key of its own.")},
	engine.OutcomeKeysFull: {
		billing: NewFault(503, "keys_full", "No room is left for new idempotency keys").With(
			repeatSafely).Retry(60),
		workspace: workspaceBusy,
	},
	engine.OutcomeKeyUnproven: {billing: NewFault(503, "key_unproven",
		"This node cannot tell yet whether the idempotency key was used").With(repeatSafely).Retry(1)},
	engine.OutcomeKeyRebound: {billing: NewFault(503, "key_rebound",
		"An API key was bound to another budget while the request was on its way").With(
		repeatSafely).Retry(1)},
	engine.OutcomeCustomerUnknown:     {billing: refused(404, "customer_not_found", "Customer not found")},
	engine.OutcomeSubscriptionUnknown: {billing: refused(404, "subscription_not_found", "Subscription not found")},
	engine.OutcomePlanUnknown:         {billing: refused(404, "plan_not_found", "Plan not found")},
	engine.OutcomeFeatureUnknown:      {billing: refused(404, "feature_not_found", "Feature not found")},
	engine.OutcomeInvoiceUnknown:      {billing: refused(404, "invoice_not_found", "Invoice not found")},
	engine.OutcomeEntitlementUnknown:  {billing: refused(404, "entitlement_not_found", "Entitlement not found")},
	engine.OutcomeAccountUnknown:      {billing: refused(404, "account_not_found", "Account not found")},
	engine.OutcomeKeyUnknown:          {billing: refused(404, "key_not_found", "API key not found")},
	engine.OutcomeCustomerExists: {billing: refused(409, "customer_exists",
		"A customer with this externalClientCustomerId exists already")},
	engine.OutcomeAccountExists: {billing: refused(409, "account_exists", "An account of this name exists already")},
	engine.OutcomePlanInactive: {billing: NewFault(400, "plan_inactive", "This plan cannot be subscribed to").With(
		"Nothing was changed. Only plans with the status ACTIVE can be: see GET /plans.")},
	engine.OutcomeInvoiceVoid:    {billing: refused(400, "invoice_void", "A void invoice cannot be paid")},
	engine.OutcomeInvoicePending: {billing: refused(400, "invoice_pending", "A pending invoice cannot be paid yet")},
	engine.OutcomeHardLimit: {billing: NewFault(402, "limit_exceeded",
		"The usage event would exceed the feature's hard limit").With(
		"Nothing was recorded, and its key may be used again.")},
	engine.OutcomeOccurredTooEarly: {billing: NewFault(400, "occurred_too_early", "occurredAt is too far in the past").With(
		"Nothing was recorded. An event is taken for 7 days after it occurred, unless the operator says otherwise.")},
	engine.OutcomeOccurredTooLate: {billing: NewFault(400, "occurred_too_late", "occurredAt is more than 5 minutes ahead").With(
		"Nothing was recorded. Check the sender's clock.")},
	engine.OutcomeCurrencyFixed:  {billing: refused(400, "currency_fixed", "The currency of a plan with subscribers cannot change")},
	engine.OutcomeCatalogInvalid: {billing: refused(400, "catalog_invalid", "The catalog document is invalid")},
	engine.OutcomeIDsContradict: {
		billing: NewFault(400, "ids_contradict", "The ids in the request contradict each other").With(
			"Nothing was recorded. Name each thing once."),
		workspace: recordNotFound,
	},
	engine.OutcomeBudgetUnknown: {billing: NewFault(404, "budget_not_found", "Budget not found").With(
		"Nothing was changed. A request names the customer's own budget, or one below it.")},
	engine.OutcomeBudgetExceeded: {billing: NewFault(402, "budget_exceeded", "A budget does not allow it").With(
		"Nothing was recorded, and its key may be used again.")},
	engine.OutcomeBudgetFrozen: {billing: NewFault(402, "budget_frozen", "The budget, or one above it, is frozen").With(
		"Nothing was recorded, and its key may be used again.")},
	engine.OutcomeBudgetArchived: {billing: refused(400, "budget_archived", "The budget, or one above it, is archived")},
	engine.OutcomeBudgetInvalid:  {billing: refused(400, "budget_invalid", "A value of the budget is out of its bounds")},
	engine.OutcomeBudgetLimit: {billing: NewFault(400, "budget_limit",
		"The limit of levels, budgets or time zones is reached").With(
		"Nothing was changed. A tree has at most 8 levels, an environment 10,000 budgets, archived ones " +
			"included, and 100 time zones.")},
	engine.OutcomeBudgetConflict: {billing: NewFault(409, "budget_conflict", "The budget contradicts another one").With(
		"Nothing was changed. A customer has one budget of its own; an existing budget gets another " +
			"parent by a move, and never comes below itself.")},
	engine.OutcomeBudgetChanged: {billing: NewFault(409, "budget_changed", "The budget is not as expected").With(
		"Nothing was changed. It was created or changed since it was read: read it again.")},
	engine.OutcomeOverflow: {billing: refused(400, "overflow", "The result lies outside of the range of exact numbers (10^24)")},
	engine.OutcomeInvoiceClosed: {billing: NewFault(400, "invoice_closed", "The invoice does not take usage events any more").With(
		"Nothing was recorded. Only a PENDING invoice does.")},
	engine.OutcomeAccountLimit: {billing: refused(400, "account_limit", "The limit of accounts or keys is reached")},
	engine.OutcomeMemoryLow: {
		billing: NewFault(503, "memory_low", "The memory of the service is nearly spent").With(
			"Nothing was changed. Reads, and writes that free memory, go on; repeat the request with the " +
				"same key after Retry-After seconds.").Retry(30),
		workspace: workspaceBusy,
	},
	engine.OutcomeCustomerLimit: {billing: NewFault(400, "customer_limit", "The account's limit of customers is reached").With(
		"Nothing was changed. The operator sets how many: limits.customersPerAccount.")},
	engine.OutcomeKeyLimit: {billing: NewFault(400, "key_limit", "The account's limit of API keys is reached").With(
		"Nothing was changed. Revoke one, or have the operator raise limits.keysPerAccount.")},
	engine.OutcomeCatalogLimit: {billing: NewFault(400, "catalog_limit",
		"The account's catalogs would exceed their limit").With(
		"Nothing was changed. Features, plans and versions of plans of both environments count, and " +
			"archived ones, too; the operator sets how many: limits.catalogPerAccount.")},
	engine.OutcomeEndpointLimit: {billing: NewFault(400, "webhook_endpoint_limit",
		"The account's limit of webhook endpoints is reached").With(
		"Nothing was changed. Delete one, or have the operator raise limits.webhooksPerAccount.")},
	engine.OutcomeCustomerArchived: {billing: NewFault(400, "customer_archived", "The customer is archived or erased").With(
		"Nothing was changed. It stays readable, and takes no usage events, changes or subscriptions.")},
	engine.OutcomeCustomerSubscribed: {billing: NewFault(400, "customer_subscribed",
		"The customer has a subscription that is not cancelled").With(
		"Nothing was changed. Cancel it with cancelMode=IMMEDIATE before.")},
	engine.OutcomeRequestKeyReused: {
		billing: NewFault(409, "idempotency_key_reused",
			"This Idempotency-Key belongs to another request").With(
			"Nothing was changed. Another request needs a key of its own; one is kept for 24 hours."),
		workspace: NewFault(409, "idempotency_conflict",
			"This Idempotency-Key was used for another request."),
	},
	engine.OutcomeNoProvider: {billing: NewFault(400, "no_payment_provider", "No payment provider is enabled on the account").With(
		"Nothing was changed. Enable one in the account's settings, or mark the invoice paid.")},
	engine.OutcomeProviderRefused: {billing: refused(400, "provider_refused",
		"The sandbox provider cannot collect in the live environment")},
	engine.OutcomeInvoicePaid:        {billing: refused(400, "invoice_paid", "The invoice is paid already")},
	engine.OutcomeCheckoutUnknown:    {billing: refused(404, "checkout_not_found", "Checkout not found")},
	engine.OutcomePoolUnknown:        {billing: refused(404, "pool_not_found", "Credit pool not found")},
	engine.OutcomeTransactionUnknown: {billing: refused(404, "transaction_not_found", "Transaction not found")},
	engine.OutcomeCreditsEmpty: {billing: NewFault(402, "credits_empty", "The customer's credits do not cover it").With(
		"Nothing was recorded. Grant credits, and send it again; its key may be used again.")},
	engine.OutcomePoolFrozen:   {billing: refused(400, "pool_frozen", "The credit pool is frozen")},
	engine.OutcomePoolArchived: {billing: refused(400, "pool_archived", "The credit pool is archived")},
	engine.OutcomeTransactionFinal: {billing: NewFault(400, "transaction_final", "This transaction cannot be reversed").With(
		"Nothing was changed. Grants with something left and deductions can be, once; usage is " +
			"corrected by voiding its event.")},
	engine.OutcomeCreditsInvalid: {
		billing:   refused(400, "credits_invalid", "A value is out of its bounds"),
		workspace: fieldInvalid,
	},
	engine.OutcomeTopUpCurrency: {billing: NewFault(400, "top_up_currency",
		"This month's top-ups of the pool were in another currency").With(
		"Nothing was changed. The monthly cap adds them up: keep the currency until the UTC month is over.")},
	engine.OutcomeTopUpOver: {billing: refused(400, "top_up_over", "The pool has no such purchase on its way")},
	engine.OutcomeTopUpCharging: {billing: NewFault(409, "top_up_charging",
		"The payment provider may still be asked to charge for this purchase").With(
		"Nothing was changed. It can be ended 24 hours after it was asked for, or once no settings " +
			"of its provider are left.")},
	engine.OutcomeCreditUsed: {billing: NewFault(400, "credit_used",
		"Later invoices have used the credit that this one carried forward").With(
		"Nothing was changed. Void those first; what is paid stays.")},
	engine.OutcomeDeductionLimit: {billing: NewFault(400, "deduction_limit",
		"The pool's daily limit of deductions is reached").With(
		"Nothing was changed. A pool takes 2,000,000 deductions and reversals a day. Try again later, " +
			"or meter usage with events, which have no such limit.")},
	engine.OutcomeTransactionLeft: {billing: NewFault(503, "transaction_left",
		"The journal of this node could not tell what the transaction was").With(
		"Nothing was changed. Repeat the request; it is safe under the same Idempotency-Key.").Retry(1)},
	engine.OutcomePoolLimit:         {billing: refused(400, "pool_limit", "The limit of pools or grants is reached")},
	engine.OutcomeSubscriptionEnded: {billing: refused(400, "subscription_ended", "The subscription is cancelled")},
	engine.OutcomeNothingToRevert:   {billing: refused(400, "nothing_to_revert", "No cancellation is scheduled")},
	engine.OutcomeCancellationScheduled: {billing: NewFault(400, "cancellation_scheduled",
		"A cancellation of the subscription is scheduled").With(
		"Nothing was changed. Revert the cancellation first, then downgrade.")},
	engine.OutcomeRevertSuspended: {billing: NewFault(400, "subscription_suspended", "The subscription is suspended").With(
		"Nothing was changed. Pay its oldest invoice that is PAST_DUE: the payment makes it active. " +
			"Then revert the cancellation.")},
	engine.OutcomePlanUnchanged: {billing: refused(400, "plan_unchanged",
		"The subscription is on the plan's newest version already")},
	engine.OutcomeCurrencyDiffers: {billing: refused(400, "currency_differs", "A plan change cannot change the currency")},
	engine.OutcomeNoChangePending: {billing: refused(400, "no_change_pending", "No plan change is scheduled")},
	engine.OutcomeUsageUnknown:    {billing: refused(404, "usage_not_found", "Usage event not found")},
	engine.OutcomeUsageVoided:     {billing: refused(400, "usage_voided", "A voided usage event cannot be amended")},
	engine.OutcomeUsageFinal: {billing: NewFault(400, "usage_final", "The usage event is too old to be corrected").With(
		"Nothing was changed. Events can be corrected for as long as their keys are kept.")},
	engine.OutcomeClockBackwards: {billing: NewFault(400, "clock_backwards", "A test clock moves only forward").With(
		"Nothing was changed. advanceTo must be later than the environment's present time.")},
	engine.OutcomeClockTooFar: {billing: refused(400, "clock_too_far", "A test clock moves at most five years at a time")},
	engine.OutcomeClockLive:   {billing: refused(400, "clock_live", "A live environment has no test clock")},
	engine.OutcomeSubscriptionLimit: {billing: refused(400, "subscription_limit",
		"The customer's limit of subscriptions is reached")},
	engine.OutcomeWebhookUnknown: {billing: refused(404, "webhook_endpoint_not_found", "Webhook endpoint not found")},
	engine.OutcomeDeliveryUnknown: {billing: NewFault(404, "delivery_not_found", "Delivery not found").With(
		"Nothing was changed. Deliveries are kept for 7 days after they are done.")},
	engine.OutcomeWebhookInvalid: {billing: refused(400, "webhook_invalid", "A value is out of its bounds")},
	engine.OutcomeWebhookLimit:   {billing: refused(400, "webhook_limit", "The limit of endpoints or waiting messages is reached")},
	engine.OutcomeUpgrading: {
		billing: NewFault(503, "upgrading", "Not every node knows this command yet").With(
			"Nothing was changed. Repeat it once all nodes run the same version.").Retry(5),
		workspace: NewFault(503, "workspace_busy",
			"Not every node knows this command yet: the cluster is being upgraded. Nothing was "+
				"changed. Repeat it once all nodes run the same version.").Retry(5),
	},
	engine.OutcomeReservationUnknown: {billing: refused(404, "reservation_not_found", "Reservation not found")},
	engine.OutcomeReservationKeyReused: {billing: NewFault(409, "reservation_key_reused",
		"This reservationKey belongs to another request").With(
		"Nothing was changed. Another reservation needs a key of its own.")},
	engine.OutcomeReservationShort: {billing: NewFault(402, "reservation_short", "There is not enough left").With(
		"Nothing was changed, and nothing more is held.")},
	engine.OutcomeReservationClosed: {billing: NewFault(409, "reservation_closed", "The reservation is not open any more").With(
		"Nothing was changed.")},
	engine.OutcomeHoldLimit: {billing: NewFault(429, "reservation_limit", "The limit of open reservations is reached").With(
		"Nothing was changed. Settle or release some, or wait until they expire.").Retry(1)},
	engine.OutcomeReservationsFull: {billing: NewFault(503, "reservations_full",
		"No room is left for more reservations of this account").With(
		"Nothing is held. Closed reservations count until their idempotency keys expire. Retry once older " +
			"ones have expired, reserve more units at a time, or ask the operator to shorten " +
			"limits.keyRetention.").
		Retry(60)},
	engine.OutcomeNotEntitled: {billing: NewFault(402, "not_entitled", "The customer may not use the feature").With(
		"Nothing is held.")},
	engine.OutcomeReservationBilled: {billing: NewFault(503, "reservation_billed",
		"The journal of this node could not tell what the expired reservation was billed as").With(
		"Nothing was changed. Repeat the request; it is safe.").Retry(1)},
	engine.OutcomeReservationPeriod: {billing: NewFault(400, "reservation_period",
		"The expired reservation was billed in another period than that of occurredAt").With(
		"Nothing was changed. Leave out occurredAt to amend what was billed, or void that event and send " +
			"another one.")},
	engine.OutcomeSettledMore: {billing: NewFault(400, "settled_more", "More than this total is settled already").With(
		"Nothing was changed. usageUnits is the running total of the reservation: it never falls. Amend " +
			"an event to take something back.")},
	engine.OutcomeReservationInvalid: {billing: refused(400, "reservation_invalid", "A value is out of its bounds")},
	engine.OutcomeEventKeyReserved: {billing: NewFault(400, "event_key_reserved",
		"This eventIdempotencyKey belongs to a reservation").With(
		"Nothing was changed. Events that settle a reservation have the keys reservation:ID:1 and so on; " +
			"any other key is free.")},
	engine.OutcomeWorkspaceClaimed: {billing: refused(409, "workspace_claimed", "A workspace that has an owner is not removed")},
	engine.OutcomeWebhookDisabled: {billing: NewFault(400, "webhook_endpoint_disabled", "The webhook endpoint is disabled").With(
		"Nothing was changed. Enable it before.")},
	engine.OutcomeRecordUnknown: {workspace: recordNotFound},
	engine.OutcomeSignupOff: {
		workspace: NewFault(503, "signup_unavailable",
			"Agents cannot sign up on this deployment.").Retry(RetryOperator),
		page: NewFault(503, "signup_unavailable",
			"Agents cannot get a workspace on this deployment at the moment. You are not signed "+
				"in.").Retry(RetryOperator),
	},
	engine.OutcomeSignupLimited: {
		workspace: NewFault(429, "signup_rate_limited",
			"Too many workspaces were made from this address or its network in an hour."),
		page: tooManySignIns,
	},
	engine.OutcomeQuoteChanged: {workspace: NewFault(409, "quote_changed",
		"The flow or a price has changed. Read a fresh quote.")},
	engine.OutcomeExecutionUnavailable: {workspace: NewFault(409, "execution_unavailable",
		"No agent can run this flow now. The quote says why.")},
	engine.OutcomeFlowBusy: {workspace: NewFault(409, "flow_busy", "The flow has a run that has not finished.")},
	engine.OutcomeRunLimit: {workspace: NewFault(429, "run_limit_reached",
		"The runs of the day are used. Nothing was started.")},
	engine.OutcomePaymentRequired: {workspace: NewFault(402, "payment_required",
		"No hosted run is left, or the purchase needs its owner. Nothing was started.")},
	engine.OutcomeCreditsShort: {workspace: NewFault(402, "insufficient_credits",
		"The credits do not cover it. Nothing was started; the setup is saved.")},
	engine.OutcomeFreeCapacity: {workspace: NewFault(503, "free_capacity_exhausted",
		"Today's free runs of all workspaces are used. Retry after midnight UTC.")},
	engine.OutcomeRunnerBusy: {workspace: NewFault(503, "runner_busy",
		"The limit of waiting runs and preflights is reached. The flow is saved.")},
	engine.OutcomeCannotCancel:      {workspace: NewFault(409, "cannot_cancel", "The run has finished, or cannot be cancelled.")},
	engine.OutcomeCannotResume:      {workspace: NewFault(409, "cannot_resume", "Only a run that waits for a person can go on.")},
	engine.OutcomeWrongRunType:      {workspace: NewFault(409, "wrong_run_type", "This route is not for this kind of run.")},
	engine.OutcomeResumeUnavailable: {workspace: NewFault(409, "resume_unavailable", "The flow cannot go on in its present setup.")},
	engine.OutcomeCheckoutCompleted: {workspace: NewFault(409, "checkout_completed",
		"The purchase is paid, or its payment is under way. Nothing was changed.")},
	engine.OutcomePurchaseClosed: {workspace: NewFault(409, "purchase_closed", "The purchase awaits no approval any more.")},
	engine.OutcomeCancelLimit:    {workspace: NewFault(429, "cancel_limit", "At most 10 purchases are cancelled in a UTC day.")},
	engine.OutcomeLinkLimit: {workspace: NewFault(429, "approval_link_limit",
		"A purchase gets 5 new links. The newest one works.")},
	engine.OutcomePersonRequired: {workspace: NewFault(403, "person_required", "Only a person may decide this.")},
	engine.OutcomeIssueStatus:    {workspace: NewFault(409, "invalid_issue_status", "Only an open issue can be marked ready.")},
	engine.OutcomeWorkspaceFull: {workspace: NewFault(400, "workspace_full",
		"The workspace's storage limit is reached. Nothing was saved. Archive flows, or "+
			"let a person claim the workspace: then it may hold more.")},
	engine.OutcomeActorChanged: {page: NewFault(401, "sign_in_required",
		"This identity signed in as a person before, and the identity provider calls it an agent "+
			"now. You are not signed in. Ask the identity provider for an identity of the agent.")},
	engine.OutcomePersonsFull:    {page: peopleFull},
	engine.OutcomeSessionsFull:   {page: peopleFull},
	engine.OutcomeSignInLimit:    {page: tooManySignIns},
	engine.OutcomeActLimit:       {workspace: NewFault(429, "act_limit", "Daily change limit reached. Nothing was changed.")},
	engine.OutcomeSessionUnknown: {workspace: NewFault(401, "sign_in_required", "Sign in again.")},
	engine.OutcomeOwnedLimit: {workspace: NewFault(409, "workspace_limit",
		"Your limit of workspaces is reached. Nothing was changed.")},
	engine.OutcomeLinkAnswered: {workspace: NewFault(409, "link_answered",
		"This request was answered otherwise already. Nothing was changed.")},
	engine.OutcomeAlertsUnclaimed: {workspace: NewFault(409, "alerts_claim_required", "An unclaimed workspace cannot have alerts.")},
	engine.OutcomeAlertsOff: {workspace: NewFault(409, "alerts_off",
		"No alert destination is set. Set an email, or a webhookUrl, or on: false; where "+
			"the webhook was gone, on: true tries it again. Nothing was changed.")},
	engine.OutcomeAlertTestLimit: {workspace: NewFault(429, "alert_test_limit",
		"The test alerts of this workspace and UTC day are used. Nothing was sent.")},
	engine.OutcomeAlertsInvalid: {workspace: fieldInvalid},
	engine.OutcomeScheduleUnavailable: {workspace: NewFault(409, "schedule_unavailable",
		"No agent can run this flow now, so it cannot have a schedule. The quote says why. "+
			"Nothing was changed.")},
	engine.OutcomeScheduleLimit: {workspace: NewFault(409, "schedule_limit",
		"The limit of flows with a schedule is reached (100). Take one away (schedule: "+
			"null), or archive its flow. Nothing was changed.")},
	engine.OutcomeFlowOptions: {workspace: NewFault(400, "invalid_flow_options", "These options do not go together.")},
	engine.OutcomeTestAccessLimit: {workspace: NewFault(409, "test_access_limit",
		"The limit of hosts with test credentials is reached (50). Remove those of one "+
			"(DELETE /v1/test-access/{host}). Nothing was changed.")},
	engine.OutcomeAddressConfirmed: {page: NewFault(409, "address_confirmed", "There is no address to ask for").With(
		"None is set, or alerts go there already. No link was sent.")},
	engine.OutcomeAddressAskLimit: {page: NewFault(429, "address_ask_limit", "The links of this day are used").With(
		"No link was sent. The newest one works for 24 hours; more can be sent after midnight UTC.")},
	engine.OutcomeNetworkFull: {
		workspace: NewFault(429, "signup_rate_limited",
			"The unclaimed workspaces made from this network, with the remains of removed ones, have "+
				"reached the limit of one network. Nothing was made. Let a person claim one, or ask "+
				"the operator.").Retry(RetryOperator),
		page: NewFault(429, "signup_rate_limited",
			"You are not signed in, and no workspace was made for you: the unclaimed workspaces made "+
				"from this network, with the remains of removed ones, have reached the limit of one "+
				"network. Let a person claim one, or ask the operator.").Retry(RetryOperator),
	},
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
func FaultOf(o engine.Outcome) *Fault {
	return cmp.Or(outcomes[o].billing, outcomes[engine.OutcomeUnknown].billing)
}

// WorkspaceFault is the workspace API's answer to a refused command; nil where none comes to it.
func WorkspaceFault(o engine.Outcome) *Fault { return outcomes[o].workspace }

// PageFault is a page's answer to a refused command, where its outcome has one of its own.
func PageFault(o engine.Outcome) *Fault { return outcomes[o].page }
