package engine

// Outcome is what became of one command. Every refusal has a name, and every refusal has changed
// nothing. Numbers are never reused: they travel between nodes, and idempotency slots keep them.
// The comment behind a number is the outcome's name in logs, metrics and scenarios, the same in
// every version; one without a name is outcome_ and its number.
//
//schema:enum outcome_
type Outcome uint8

const (
	// OutcomeNone is the zero value: nothing was decided. It is never an answer.
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
	// OutcomeDeferred: the entry had done as much as one may, and this record's turn did not come:
	// nothing happened. The cluster proposes it again; callers never see it.
	OutcomeDeferred Outcome = 15 // deferred

	// OutcomeShareFull: not proposed, whoever's command it is has as much under way as it may hold
	// of a queue that others use, too: definitely nothing happened. A Result's Value is one byte,
	// the seconds after which there may be room.
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
	// OutcomeSubscriptionLimit: the customer has as many subscriptions as one may have.
	OutcomeSubscriptionLimit Outcome = 70 // subscription_limit
	// OutcomeInvoiceClosed: an event names an invoice that is not PENDING any more.
	OutcomeInvoiceClosed Outcome = 71 // invoice_closed
	// OutcomeAccountLimit: the group has as many accounts, or an environment as many keys, as one
	// may have.
	OutcomeAccountLimit Outcome = 72 // account_limit

	// OutcomeCancellationScheduled: a downgrade waits for a period that is to be the last one.
	OutcomeCancellationScheduled Outcome = 90 // cancellation_scheduled
	// OutcomeRevertSuspended: a cancellation is scheduled, and the subscription is suspended; the
	// reply says which invoice holds it back.
	OutcomeRevertSuspended Outcome = 91 // revert_suspended

	// OutcomeCustomerLimit, OutcomeKeyLimit, OutcomeCatalogLimit and OutcomeEndpointLimit: the
	// account has as many customers, keys in use, features and plans, or webhook endpoints, in both
	// of its environments together, as the settings allow one.
	OutcomeCustomerLimit Outcome = 84 // customer_limit
	OutcomeKeyLimit      Outcome = 85 // key_limit
	OutcomeCatalogLimit  Outcome = 86 // catalog_limit
	OutcomeEndpointLimit Outcome = 87 // endpoint_limit

	// OutcomePoolUnknown and OutcomeTransactionUnknown: records of credits that do not exist.
	OutcomePoolUnknown        Outcome = 100 // pool_unknown
	OutcomeTransactionUnknown Outcome = 101 // transaction_unknown
	// OutcomeCreditsEmpty: credits do not cover it, and nothing else pays for it.
	OutcomeCreditsEmpty Outcome = 102 // credits_empty
	// OutcomePoolFrozen and OutcomePoolArchived: the pool's state does not allow it.
	OutcomePoolFrozen   Outcome = 103 // pool_frozen
	OutcomePoolArchived Outcome = 104 // pool_archived
	// OutcomeTransactionFinal: the transaction was reversed already, or is none that can be.
	OutcomeTransactionFinal Outcome = 105 // transaction_final
	// OutcomeCreditsInvalid: a value of a command about credits is out of its bounds.
	OutcomeCreditsInvalid Outcome = 106 // credits_invalid
	// OutcomePoolLimit: the customer has as many pools, or the pool as many grants, as one may
	// have.
	OutcomePoolLimit Outcome = 107 // pool_limit

	// OutcomeTransactionLeft: the transaction has left memory, and the command is to bring what the
	// journal has of it.
	OutcomeTransactionLeft Outcome = 108 // transaction_left

	// OutcomeCustomerArchived: the customer is archived or erased, and takes no change.
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
	// OutcomeWebhookLimit: the environment has as many endpoints as one may have, or too much
	// waits.
	OutcomeWebhookLimit Outcome = 131 // webhook_limit
	// OutcomeWebhookDisabled: the endpoint is disabled, and is sent nothing.
	OutcomeWebhookDisabled Outcome = 132 // webhook_disabled

	// OutcomeRecordUnknown: the workspace has no such record; nobody else's is ever seen.
	OutcomeRecordUnknown Outcome = 160 // record_unknown
	// OutcomeSignupOff and OutcomeSignupLimited: no workspace was made.
	OutcomeSignupOff     Outcome = 161 // signup_off
	OutcomeSignupLimited Outcome = 162 // signup_limited
	// OutcomeQuoteChanged: the flow or a price is not what was quoted.
	OutcomeQuoteChanged Outcome = 163 // quote_changed
	// OutcomeExecutionUnavailable: no agent can run the flow; the reply says why.
	OutcomeExecutionUnavailable Outcome = 164 // execution_unavailable
	// OutcomeFlowBusy: the flow has a run that has not finished.
	OutcomeFlowBusy Outcome = 165 // flow_busy
	// OutcomeRunLimit: the workspace's runs of the day are used.
	OutcomeRunLimit Outcome = 166 // run_limit
	// OutcomePaymentRequired: no hosted run is left.
	OutcomePaymentRequired Outcome = 167 // payment_required
	// OutcomeCreditsShort: credits do not cover it; the reply says what would.
	OutcomeCreditsShort Outcome = 168 // credits_short
	// OutcomeFreeCapacity: the free runs that all workspaces have in a day are used.
	OutcomeFreeCapacity Outcome = 169 // free_capacity
	// OutcomeRunnerBusy: as many runs wait for a worker as may.
	OutcomeRunnerBusy Outcome = 170 // runner_busy
	// Runs whose state or kind does not allow it.
	OutcomeCannotCancel      Outcome = 171 // cannot_cancel
	OutcomeCannotResume      Outcome = 172 // cannot_resume
	OutcomeWrongRunType      Outcome = 173 // wrong_run_type
	OutcomeResumeUnavailable Outcome = 174 // resume_unavailable
	// OutcomeFenced: the worker does not hold the run any more.
	OutcomeFenced Outcome = 175 // fenced
	// OutcomeNothingQueued: no run waits for a worker.
	OutcomeNothingQueued Outcome = 176 // nothing_queued
	// Purchases whose state does not allow it.
	OutcomeCheckoutCompleted Outcome = 177 // checkout_completed
	OutcomePurchaseClosed    Outcome = 178 // purchase_closed
	// OutcomeCancelLimit and OutcomeLinkLimit: a key has done it as often as it may.
	OutcomeCancelLimit Outcome = 179 // cancel_limit
	OutcomeLinkLimit   Outcome = 180 // link_limit
	// OutcomePersonRequired: only a person may decide this.
	OutcomePersonRequired Outcome = 181 // person_required
	// OutcomeIssueStatus: only an open issue can be marked ready.
	OutcomeIssueStatus Outcome = 182 // issue_status
	// OutcomeWorkspaceFull: the workspace has as many records of a kind as one may have.
	OutcomeWorkspaceFull Outcome = 183 // workspace_full
	// OutcomeCreditUsed: later invoices have used the credit that this one carried forward.
	OutcomeCreditUsed Outcome = 192 // credit_used
	// OutcomeDeductionLimit: the pool has had as many deductions in a day as it keeps traces.
	OutcomeDeductionLimit Outcome = 193 // deduction_limit
	// OutcomeUpgrading: not every node knows the command yet; the cluster is being upgraded.
	OutcomeUpgrading Outcome = 208 // upgrading
	// OutcomeKeyUnproven: keys have left memory that nobody has looked for; whoever proposed the
	// usage event looks again and proposes it once more.
	OutcomeKeyUnproven Outcome = 219 // key_unproven
	// OutcomeWorkspaceClaimed: only a workspace that nobody has claimed can be removed.
	OutcomeWorkspaceClaimed Outcome = 230 // workspace_claimed
	// OutcomeActorChanged: somebody who has signed in as a person is an agent now.
	OutcomeActorChanged Outcome = 231 // actor_changed
	// OutcomePersonsFull and OutcomeSessionsFull: as many are kept as may be.
	OutcomePersonsFull  Outcome = 232 // persons_full
	OutcomeSessionsFull Outcome = 233 // sessions_full
	// OutcomeSignInLimit: somebody has signed in as often as they may in a day; the reply says when
	// it ends. OutcomeActLimit: they have acted as often.
	OutcomeSignInLimit Outcome = 234 // sign_in_limit
	OutcomeActLimit    Outcome = 235 // act_limit
	// OutcomeSessionUnknown: the session has ended, or never was.
	OutcomeSessionUnknown Outcome = 236 // session_unknown
	// OutcomeOwnedLimit: a person owns as many workspaces as may be opened.
	OutcomeOwnedLimit Outcome = 237 // owned_limit
	// OutcomeLinkAnswered: an agent's request was answered otherwise.
	OutcomeLinkAnswered Outcome = 238 // link_answered
	// OutcomeAlertsUnclaimed: a workspace that nobody has claimed has no alerts.
	OutcomeAlertsUnclaimed Outcome = 239 // alerts_unclaimed
	// OutcomeAlertsOff: the flow's alerts lead nowhere.
	OutcomeAlertsOff Outcome = 240 // alerts_off
	// OutcomeAlertTestLimit: the workspace's test alerts of the day are used.
	OutcomeAlertTestLimit Outcome = 241 // alert_test_limit
	// OutcomeAlertsInvalid: a value of a command about alerts is out of its bounds.
	OutcomeAlertsInvalid Outcome = 242 // alerts_invalid
	// OutcomeScheduleUnavailable: no agent can run the flow now, so it gets no schedule; the reply
	// says why.
	OutcomeScheduleUnavailable Outcome = 246 // schedule_unavailable
	// OutcomeScheduleLimit: as many flows of the workspace have a schedule as may.
	OutcomeScheduleLimit Outcome = 247 // schedule_limit
	// OutcomeFlowOptions: a flow's options do not go together.
	OutcomeFlowOptions Outcome = 248 // flow_options
	// OutcomeTestAccessLimit: the workspace has stored test credentials for as many hosts as it
	// may.
	OutcomeTestAccessLimit Outcome = 249 // test_access_limit
	// OutcomeAddressConfirmed: there is no address to ask for, or alerts may go there already.
	OutcomeAddressConfirmed Outcome = 253 // address_confirmed
	// OutcomeAddressAskLimit: the links of the day that ask for addresses are used.
	OutcomeAddressAskLimit Outcome = 254 // address_ask_limit
	// OutcomeNetworkFull: the workspaces of the caller's network that nobody has claimed, or what
	// is left of those that were removed, take as much room as one network's may.
	OutcomeNetworkFull Outcome = 245 // network_full
)

// Recorded reports whether a usage event with this outcome was counted (and its key used up).
func (o Outcome) Recorded() bool {
	return o == OutcomeDone || o == OutcomeLimitReached || o == OutcomeUnpriced
}

// Refused reports whether the command changed nothing, definitely.
func (o Outcome) Refused() bool { return o >= 10 && o != OutcomeUnknown }

// Result is what a proposer hands back for one record.
type Result struct {
	Outcome Outcome
	// Value is the command's reply, where it has one, encoded by the domain; nil otherwise.
	Value []byte
}
