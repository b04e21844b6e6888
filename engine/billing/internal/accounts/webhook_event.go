package accounts

// Bounds of webhook endpoints.
const (
	// MaxWebhookEndpoints bounds the endpoints of one environment.
	MaxWebhookEndpoints = 16
	MaxWebhookURL       = 2048 // bytes
	MaxWebhookAbout     = 500  // characters
	MaxSealedSecret     = 512  // bytes
)

// WebhookEvent is the type of a webhook message. Numbers are never reused.
//
//schema:enum
type WebhookEvent uint8

const (
	// WebhookInvoiceCreated and WebhookInvoiceDue: an invoice was issued, and awaits payment.
	WebhookInvoiceCreated WebhookEvent = 1 // invoice.created
	WebhookInvoiceDue     WebhookEvent = 2 // invoice.due
	WebhookInvoicePaid    WebhookEvent = 3 // invoice.paid
	WebhookInvoicePastDue WebhookEvent = 4 // invoice.past_due
	WebhookInvoiceVoided  WebhookEvent = 5 // invoice.voided
	// WebhookInvoiceOverpaid: a provider reported a payment that did not fit its invoice, which was
	// PAID already, takes no payment, or has another amount or currency. The provider has the
	// money.
	WebhookInvoiceOverpaid WebhookEvent = 6 // invoice.overpaid

	WebhookSubscriptionCreated WebhookEvent = 7 // subscription.created
	// WebhookSubscriptionActivated: a suspended subscription gives access again.
	WebhookSubscriptionActivated WebhookEvent = 8 // subscription.activated
	WebhookSubscriptionSuspended WebhookEvent = 9 // subscription.suspended
	// WebhookSubscriptionCancelled: it has ended. Scheduling a cancellation is a change.
	WebhookSubscriptionCancelled WebhookEvent = 10 // subscription.cancelled
	// WebhookSubscriptionChanged: its plan, or its scheduled change, changed.
	WebhookSubscriptionChanged WebhookEvent = 11 // subscription.changed

	// WebhookCreditsDepleted: a pool with a hard limit has nothing left.
	WebhookCreditsDepleted WebhookEvent = 12 // credits.depleted
	// WebhookLimitReached: the usage of a feature has reached its limit.
	WebhookLimitReached WebhookEvent = 13 // usage.limit_reached
	// WebhookBudgetThreshold: a limit of a budget has come to one of its thresholds.
	WebhookBudgetThreshold WebhookEvent = 14 // budget.threshold_reached
	// WebhookUsageThreshold: the usage of a feature has come to a threshold of its limit.
	WebhookUsageThreshold WebhookEvent = 15 // usage.threshold_reached
	// WebhookCreditsLow: a pool has come down to the balance at which it is low.
	WebhookCreditsLow WebhookEvent = 16 // credits.low
	// WebhookToppedUp: an automatic purchase was paid, and its credits granted.
	WebhookToppedUp WebhookEvent = 17 // credits.topped_up
	// WebhookTopUpFailed: the payment of one failed, which turned the top-up off.
	WebhookTopUpFailed WebhookEvent = 18 // credits.top_up_failed
	// WebhookTest: somebody tries an endpoint out. Endpoints do not ask for it.
	WebhookTest WebhookEvent = 19 // webhook.test
)

// Wants reports whether any endpoint of the environment subscribes to an event.
func (e *Environment) Wants(w WebhookEvent) bool { return e.Wanted.Load()&(1<<w) != 0 }
