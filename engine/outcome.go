package engine

// Outcome is the result of one command. Every refusal has a name, and every refusal has changed
// nothing. Numbers are never reused: they travel between nodes, and idempotency slots keep them.
// The comment after a number is the outcome's name in logs, metrics and scenarios, the same in
// every version; one without a name is outcome_ and its number.
//
//schema:enum outcome_
type Outcome uint8

const (
	// OutcomeNone is the zero value: undecided. It is never an answer.
	OutcomeNone Outcome = 0 // none
	// OutcomeDone: carried out.
	OutcomeDone Outcome = 1 // done
	// OutcomeLimitReached: the usage event was recorded, and the feature's limit is now reached or
	// exceeded.
	OutcomeLimitReached Outcome = 2 // limit_reached
	// OutcomeUnpriced: the usage event was recorded; no subscription of the customer carries the
	// feature, so nothing is billed for it.
	OutcomeUnpriced Outcome = 3 // unpriced

	// OutcomeUnavailable: not proposed (no leader, no quorum, draining): definitely nothing
	// happened.
	OutcomeUnavailable Outcome = 10 // unavailable
	// OutcomeOverloaded: not proposed, a queue is full: definitely nothing happened.
	OutcomeOverloaded Outcome = 11 // overloaded
	// OutcomeUnknown: proposed, and this node cannot learn what became of it. Repeating it with the
	// same key is safe.
	OutcomeUnknown Outcome = 12 // unknown
	// OutcomeDiskLow: not proposed, the log's disk is nearly full: definitely nothing happened.
	OutcomeDiskLow Outcome = 13 // disk_low
	// OutcomeTooLarge: not proposed, the record does not fit an entry: nothing happened.
	OutcomeTooLarge Outcome = 14 // too_large
	// OutcomeDeferred: the entry reached its work limit before this record: nothing happened. The
	// cluster proposes it again; callers never see it.
	OutcomeDeferred Outcome = 15 // deferred

	// OutcomeShareFull: not proposed, the command's flow holds its share of a queue already:
	// definitely nothing happened. A Result's Value is one byte, the seconds after which to retry.
	OutcomeShareFull Outcome = 16 // share_full

	// OutcomeMemoryLow: not proposed, the node's memory is nearly spent and the command would make
	// the state grow: definitely nothing happened.
	OutcomeMemoryLow Outcome = 17 // memory_low

	// OutcomeDuplicate: the idempotency key was already processed, with the same body.
	OutcomeDuplicate Outcome = 20 // duplicate
	// OutcomeKeyReused: the idempotency key was already processed, with another body.
	OutcomeKeyReused Outcome = 21 // key_reused
	// OutcomeKeysFull: the memory budget for idempotency keys is spent.
	OutcomeKeysFull Outcome = 22 // keys_full

	// Records that the command names and that do not exist.
	OutcomeCustomerUnknown     Outcome = 30 // customer_unknown
	OutcomeSubscriptionUnknown Outcome = 31 // subscription_unknown
	OutcomePlanUnknown         Outcome = 32 // plan_unknown
	OutcomeFeatureUnknown      Outcome = 33 // feature_unknown
	OutcomeInvoiceUnknown      Outcome = 34 // invoice_unknown
	OutcomeEntitlementUnknown  Outcome = 35 // entitlement_unknown
	OutcomeAccountUnknown      Outcome = 36 // account_unknown
	OutcomeKeyUnknown          Outcome = 37 // key_unknown

	// OutcomeCustomerExists and OutcomeAccountExists: the caller's own identifier is taken.
	OutcomeCustomerExists Outcome = 50 // customer_exists
	OutcomeAccountExists  Outcome = 51 // account_exists

	// States that do not allow the command.
	OutcomePlanInactive   Outcome = 60 // plan_inactive
	OutcomeInvoiceVoid    Outcome = 61 // invoice_void
	OutcomeInvoicePending Outcome = 62 // invoice_pending
	// OutcomeHardLimit: the event would exceed a hard limit.
	OutcomeHardLimit Outcome = 63 // hard_limit
	// OutcomeOccurredTooEarly: occurredAt is older than the window in which events are accepted.
	OutcomeOccurredTooEarly Outcome = 64 // occurred_too_early
	// OutcomeOccurredTooLate: occurredAt is more than 5 minutes ahead.
	OutcomeOccurredTooLate Outcome = 65 // occurred_too_late
	// OutcomeCurrencyFixed: the plan has subscribers, so its currency cannot change.
	OutcomeCurrencyFixed Outcome = 66 // currency_fixed
	// OutcomeCatalogInvalid: the catalog document is refused; the reply names the place.
	OutcomeCatalogInvalid Outcome = 67 // catalog_invalid
	// OutcomeIDsContradict: two ids that the command names do not belong together.
	OutcomeIDsContradict Outcome = 68 // ids_contradict
	// OutcomeOverflow: a sum or product leaves the range of exact numbers.
	OutcomeOverflow Outcome = 69 // overflow
	// OutcomeSubscriptionLimit: the customer's subscription limit is reached.
	OutcomeSubscriptionLimit Outcome = 70 // subscription_limit
	// OutcomeInvoiceClosed: an event names an invoice that is no longer PENDING.
	OutcomeInvoiceClosed Outcome = 71 // invoice_closed
	// OutcomeAccountLimit: the account limit of the group, or the key limit of the environment, is
	// reached.
	OutcomeAccountLimit Outcome = 72 // account_limit

	// OutcomeCancellationScheduled: a downgrade waits for the end of a period that is the last one.
	OutcomeCancellationScheduled Outcome = 90 // cancellation_scheduled
	// OutcomeRevertSuspended: a cancellation is scheduled, and the subscription is suspended; the
	// reply names the invoice that blocks it.
	OutcomeRevertSuspended Outcome = 91 // revert_suspended

	// OutcomeCustomerLimit, OutcomeKeyLimit, OutcomeCatalogLimit and OutcomeEndpointLimit: the
	// account has reached the limit of the settings for customers, keys in use, features and plans,
	// or webhook endpoints, in both of its environments together.
	OutcomeCustomerLimit Outcome = 84 // customer_limit
	OutcomeKeyLimit      Outcome = 85 // key_limit
	OutcomeCatalogLimit  Outcome = 86 // catalog_limit
	OutcomeEndpointLimit Outcome = 87 // endpoint_limit

	// OutcomePoolUnknown and OutcomeTransactionUnknown: records of credits that do not exist.
	OutcomePoolUnknown        Outcome = 100 // pool_unknown
	OutcomeTransactionUnknown Outcome = 101 // transaction_unknown
	// OutcomeCreditsEmpty: credits do not cover it, and there is no other means of payment.
	OutcomeCreditsEmpty Outcome = 102 // credits_empty
	// OutcomePoolFrozen and OutcomePoolArchived: the pool's state does not allow it.
	OutcomePoolFrozen   Outcome = 103 // pool_frozen
	OutcomePoolArchived Outcome = 104 // pool_archived
	// OutcomeTransactionFinal: the transaction was reversed already, or is none that can be.
	OutcomeTransactionFinal Outcome = 105 // transaction_final
	// OutcomeCreditsInvalid: a value of a command about credits is out of its bounds.
	OutcomeCreditsInvalid Outcome = 106 // credits_invalid
	// OutcomePoolLimit: the customer's limit of pools, or the pool's limit of grants, is reached.
	OutcomePoolLimit Outcome = 107 // pool_limit

	// OutcomeTransactionLeft: the transaction has left memory, and the command must bring its
	// journal record.
	OutcomeTransactionLeft Outcome = 108 // transaction_left

	// OutcomeCustomerArchived: the customer is archived or erased, and cannot be changed.
	OutcomeCustomerArchived Outcome = 110 // customer_archived
	// OutcomeCustomerSubscribed: a customer with a subscription that is not cancelled stays.
	OutcomeCustomerSubscribed Outcome = 111 // customer_subscribed
	// OutcomeRequestKeyReused: the Idempotency-Key belongs to another request.
	OutcomeRequestKeyReused Outcome = 112 // request_key_reused
	// OutcomeNoProvider: the environment has no payment provider.
	OutcomeNoProvider Outcome = 113 // no_provider
	// OutcomeProviderRefused: the sandbox provider is for the sandbox alone.
	OutcomeProviderRefused Outcome = 114 // provider_refused
	// OutcomeInvoicePaid: there is nothing left to pay.
	OutcomeInvoicePaid Outcome = 115 // invoice_paid
	// OutcomeCheckoutUnknown: there is no such checkout, or it is forgotten.
	OutcomeCheckoutUnknown Outcome = 116 // checkout_unknown

	// OutcomeReservationPeriod: the reservation was billed when it expired, in another period, or
	// under another plan, than that of the command's occurredAt.
	OutcomeReservationPeriod Outcome = 117 // reservation_period
	// OutcomeReservationUnknown: there is no such reservation, or it is forgotten.
	OutcomeReservationUnknown Outcome = 118 // reservation_unknown
	// OutcomeReservationKeyReused: the reservationKey belongs to another request.
	OutcomeReservationKeyReused Outcome = 119 // reservation_key_reused
	// OutcomeReservationShort: a limit or a pool does not have what was asked for; the reply names it.
	OutcomeReservationShort Outcome = 120 // reservation_short
	// OutcomeReservationClosed: the reservation is not open; the reply has its state.
	OutcomeReservationClosed Outcome = 121 // reservation_closed
	// OutcomeHoldLimit: the customer's or the environment's limit of open reservations is reached.
	OutcomeHoldLimit Outcome = 122 // hold_limit
	// OutcomeNotEntitled: no subscription gives the customer the feature; the reply says why.
	OutcomeNotEntitled Outcome = 123 // not_entitled
	// OutcomeReservationBilled: the reservation was billed when it expired, and the command must
	// bring the journal record of that event.
	OutcomeReservationBilled Outcome = 124 // reservation_billed
	// OutcomeSettledMore: more is settled already than the running total says.
	OutcomeSettledMore Outcome = 125 // settled_more
	// OutcomeReservationInvalid: a value of a command about reservations is out of its bounds.
	OutcomeReservationInvalid Outcome = 126 // reservation_invalid
	// OutcomeEventKeyReserved: the event key is one of those under which a reservation's own events
	// are recorded.
	OutcomeEventKeyReserved Outcome = 127 // event_key_reserved

	// OutcomeSubscriptionEnded: the subscription is cancelled.
	OutcomeSubscriptionEnded Outcome = 73 // subscription_ended
	// OutcomeNothingToRevert: no cancellation is scheduled, or it has taken effect.
	OutcomeNothingToRevert Outcome = 74 // nothing_to_revert
	// OutcomePlanUnchanged: the subscription is on the plan's newest version already.
	OutcomePlanUnchanged Outcome = 75 // plan_unchanged
	// OutcomeCurrencyDiffers: a plan change cannot change the currency.
	OutcomeCurrencyDiffers Outcome = 76 // currency_differs
	// OutcomeNoChangePending: there is no scheduled plan change to cancel.
	OutcomeNoChangePending Outcome = 77 // no_change_pending
	// OutcomeUsageUnknown: no usage event was recorded under this key.
	OutcomeUsageUnknown Outcome = 78 // usage_unknown
	// OutcomeUsageVoided: a voided usage event cannot be amended.
	OutcomeUsageVoided Outcome = 79 // usage_voided
	// OutcomeUsageFinal: the usage event is too old to be corrected.
	OutcomeUsageFinal Outcome = 80 // usage_final
	// OutcomeClockBackwards: a test clock moves only forward.
	OutcomeClockBackwards Outcome = 81 // clock_backwards
	// OutcomeClockTooFar: a test clock moves at most five years at a time.
	OutcomeClockTooFar Outcome = 82 // clock_too_far
	// OutcomeClockLive: a live environment has no test clock.
	OutcomeClockLive Outcome = 83 // clock_live

	// OutcomeWebhookUnknown and OutcomeDeliveryUnknown: records of webhooks that do not exist.
	OutcomeWebhookUnknown  Outcome = 128 // webhook_unknown
	OutcomeDeliveryUnknown Outcome = 129 // delivery_unknown
	// OutcomeWebhookInvalid: a value of a command about webhooks is out of its bounds.
	OutcomeWebhookInvalid Outcome = 130 // webhook_invalid
	// OutcomeWebhookLimit: the environment's limit of endpoints or of pending deliveries is
	// reached.
	OutcomeWebhookLimit Outcome = 131 // webhook_limit
	// OutcomeWebhookDisabled: the endpoint is disabled and receives nothing.
	OutcomeWebhookDisabled Outcome = 132 // webhook_disabled

	// OutcomeBudgetUnknown: there is no such budget, or it is not the customer's nor below it.
	OutcomeBudgetUnknown Outcome = 133 // budget_unknown
	// OutcomeBudgetExceeded: a limit of the budget, or of one above it, refuses; the reply names it.
	OutcomeBudgetExceeded Outcome = 134 // budget_exceeded
	// OutcomeBudgetFrozen and OutcomeBudgetArchived: the budget, or one above it, takes no usage;
	// the reply names it.
	OutcomeBudgetFrozen   Outcome = 135 // budget_frozen
	OutcomeBudgetArchived Outcome = 136 // budget_archived
	// OutcomeBudgetInvalid: a value of a command about budgets is out of its bounds.
	OutcomeBudgetInvalid Outcome = 137 // budget_invalid
	// OutcomeBudgetLimit: the limit of levels, or the environment's of budgets or time zones, is
	// reached.
	OutcomeBudgetLimit Outcome = 138 // budget_limit
	// OutcomeBudgetConflict: the customer has another budget, the budget has another parent, or it
	// would come below itself.
	OutcomeBudgetConflict Outcome = 139 // budget_conflict

	// OutcomeTopUpCurrency: this month's purchases of the pool were in another currency.
	OutcomeTopUpCurrency Outcome = 140 // top_up_currency
	// OutcomeTopUpOver: the pool has no such purchase on its way.
	OutcomeTopUpOver Outcome = 141 // top_up_over
	// OutcomeTopUpCharging: the provider may still be asked to charge for the purchase.
	OutcomeTopUpCharging Outcome = 142 // top_up_charging

	// OutcomeKeyRebound: an API key of the environment was bound to another budget after the request's
	// key was looked up. The request may be sent again.
	OutcomeKeyRebound Outcome = 143 // key_rebound
	// OutcomeReservationsFull: the account has its share of the reservations that are kept; the reply
	// says how many.
	OutcomeReservationsFull Outcome = 144 // reservations_full

	// OutcomeBudgetChanged: the budget was created or changed since the request's sender read it.
	OutcomeBudgetChanged Outcome = 145 // budget_changed

	// OutcomeRecordUnknown: the workspace has no such record; those of others are never visible.
	OutcomeRecordUnknown Outcome = 160 // record_unknown
	// OutcomeSignupOff and OutcomeSignupLimited: no workspace was made.
	OutcomeSignupOff     Outcome = 161 // signup_off
	OutcomeSignupLimited Outcome = 162 // signup_limited
	// OutcomeQuoteChanged: the flow or a price differs from the quote.
	OutcomeQuoteChanged Outcome = 163 // quote_changed
	// OutcomeExecutionUnavailable: no agent can run the flow; the reply has the reason.
	OutcomeExecutionUnavailable Outcome = 164 // execution_unavailable
	// OutcomeFlowBusy: the flow has a run that has not finished.
	OutcomeFlowBusy Outcome = 165 // flow_busy
	// OutcomeRunLimit: the workspace's runs of the day are used.
	OutcomeRunLimit Outcome = 166 // run_limit
	// OutcomePaymentRequired: no hosted run is left.
	OutcomePaymentRequired Outcome = 167 // payment_required
	// OutcomeCreditsShort: credits do not cover it; the reply has the amount needed.
	OutcomeCreditsShort Outcome = 168 // credits_short
	// OutcomeFreeCapacity: the daily free runs of all workspaces together are used.
	OutcomeFreeCapacity Outcome = 169 // free_capacity
	// OutcomeRunnerBusy: the limit of runs that wait for a worker is reached.
	OutcomeRunnerBusy Outcome = 170 // runner_busy
	// Runs whose state or kind does not allow it.
	OutcomeCannotCancel      Outcome = 171 // cannot_cancel
	OutcomeCannotResume      Outcome = 172 // cannot_resume
	OutcomeWrongRunType      Outcome = 173 // wrong_run_type
	OutcomeResumeUnavailable Outcome = 174 // resume_unavailable
	// OutcomeFenced: the worker no longer holds the run.
	OutcomeFenced Outcome = 175 // fenced
	// OutcomeNothingQueued: no run waits for a worker.
	OutcomeNothingQueued Outcome = 176 // nothing_queued
	// Purchases whose state does not allow it.
	OutcomeCheckoutCompleted Outcome = 177 // checkout_completed
	OutcomePurchaseClosed    Outcome = 178 // purchase_closed
	// OutcomeCancelLimit and OutcomeLinkLimit: the limit of the key is reached.
	OutcomeCancelLimit Outcome = 179 // cancel_limit
	OutcomeLinkLimit   Outcome = 180 // link_limit
	// OutcomePersonRequired: only a person may decide this.
	OutcomePersonRequired Outcome = 181 // person_required
	// OutcomeIssueStatus: only an open issue can be marked ready.
	OutcomeIssueStatus Outcome = 182 // issue_status
	// OutcomeWorkspaceFull: the workspace's limit of records of a kind is reached.
	OutcomeWorkspaceFull Outcome = 183 // workspace_full
	// OutcomeCreditUsed: later invoices have used the credit that this one carried forward.
	OutcomeCreditUsed Outcome = 192 // credit_used
	// OutcomeDeductionLimit: the pool's daily limit of deductions, of which it keeps traces, is
	// reached.
	OutcomeDeductionLimit Outcome = 193 // deduction_limit
	// OutcomeUpgrading: not every node knows the command yet; the cluster is being upgraded.
	OutcomeUpgrading Outcome = 208 // upgrading
	// OutcomeKeyUnproven: keys left memory after the files were searched; the proposer searches
	// again and proposes the usage event again.
	OutcomeKeyUnproven Outcome = 219 // key_unproven
	// OutcomeWorkspaceClaimed: only an unclaimed workspace can be removed.
	OutcomeWorkspaceClaimed Outcome = 230 // workspace_claimed
	// OutcomeActorChanged: a caller who signed in as a person is an agent now.
	OutcomeActorChanged Outcome = 231 // actor_changed
	// OutcomePersonsFull and OutcomeSessionsFull: the limit of persons or sessions is reached.
	OutcomePersonsFull  Outcome = 232 // persons_full
	OutcomeSessionsFull Outcome = 233 // sessions_full
	// OutcomeSignInLimit: the person's daily limit of sign-ins is reached; the reply has the time
	// at which it ends. OutcomeActLimit: the same for actions.
	OutcomeSignInLimit Outcome = 234 // sign_in_limit
	OutcomeActLimit    Outcome = 235 // act_limit
	// OutcomeSessionUnknown: the session has ended, or never was.
	OutcomeSessionUnknown Outcome = 236 // session_unknown
	// OutcomeOwnedLimit: a person's limit of workspaces is reached.
	OutcomeOwnedLimit Outcome = 237 // owned_limit
	// OutcomeLinkAnswered: an agent's request was answered otherwise.
	OutcomeLinkAnswered Outcome = 238 // link_answered
	// OutcomeAlertsUnclaimed: an unclaimed workspace has no alerts.
	OutcomeAlertsUnclaimed Outcome = 239 // alerts_unclaimed
	// OutcomeAlertsOff: no alert destination is set for the flow.
	OutcomeAlertsOff Outcome = 240 // alerts_off
	// OutcomeAlertTestLimit: the workspace's test alerts of the day are used.
	OutcomeAlertTestLimit Outcome = 241 // alert_test_limit
	// OutcomeAlertsInvalid: a value of a command about alerts is out of its bounds.
	OutcomeAlertsInvalid Outcome = 242 // alerts_invalid
	// OutcomeScheduleUnavailable: no agent can run the flow now, so it gets no schedule; the reply
	// has the reason.
	OutcomeScheduleUnavailable Outcome = 246 // schedule_unavailable
	// OutcomeScheduleLimit: the workspace's limit of flows with a schedule is reached.
	OutcomeScheduleLimit Outcome = 247 // schedule_limit
	// OutcomeFlowOptions: a flow's options do not go together.
	OutcomeFlowOptions Outcome = 248 // flow_options
	// OutcomeTestAccessLimit: the workspace's limit of hosts with stored test credentials is
	// reached.
	OutcomeTestAccessLimit Outcome = 249 // test_access_limit
	// OutcomeAddressConfirmed: there is no address to confirm, or it is confirmed already.
	OutcomeAddressConfirmed Outcome = 253 // address_confirmed
	// OutcomeAddressAskLimit: the daily limit of confirmation links is reached.
	OutcomeAddressAskLimit Outcome = 254 // address_ask_limit
	// OutcomeNetworkFull: the unclaimed workspaces of the caller's network, with the remains of
	// removed ones, have reached the limit of one network.
	OutcomeNetworkFull Outcome = 245 // network_full
)

// Recorded reports whether a usage event with this outcome was counted (and its key used up).
func (o Outcome) Recorded() bool {
	return o == OutcomeDone || o == OutcomeLimitReached || o == OutcomeUnpriced
}

// Refused reports whether the command definitely changed nothing.
func (o Outcome) Refused() bool { return o >= 10 && o != OutcomeUnknown }

// Result is a proposer's answer for one record.
type Result struct {
	Outcome Outcome
	// Value is the command's reply, where it has one, encoded by the domain; nil otherwise.
	Value []byte
}
