package accounts

// Bounds of webhook endpoints.
const (
	// MaxWebhookEndpoints is how many endpoints one environment has.
	MaxWebhookEndpoints = 16
	MaxWebhookURL       = 2048 // bytes
	MaxWebhookAbout     = 500  // characters
	MaxSealedSecret     = 512  // bytes
)

// WebhookEvent is what a webhook message tells. Numbers are never reused.
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
	// WebhookInvoiceOverpaid: a provider reported a payment that did not fit its invoice: it was
	// PAID already, takes no payment, or is of another amount or currency. Somebody has the money.
	WebhookInvoiceOverpaid WebhookEvent = 6 // invoice.overpaid

	WebhookSubscriptionCreated WebhookEvent = 7 // subscription.created
	// WebhookSubscriptionActivated: what was suspended gives access again.
	WebhookSubscriptionActivated WebhookEvent = 8 // subscription.activated
	WebhookSubscriptionSuspended WebhookEvent = 9 // subscription.suspended
	// WebhookSubscriptionCancelled: it has ended. A cancellation that is only scheduled is a
	// change.
	WebhookSubscriptionCancelled WebhookEvent = 10 // subscription.cancelled
	// WebhookSubscriptionChanged: its plan changed, or what is scheduled for it.
	WebhookSubscriptionChanged WebhookEvent = 11 // subscription.changed

	// WebhookCreditsDepleted: a pool with a hard limit has nothing left.
	WebhookCreditsDepleted WebhookEvent = 12 // credits.depleted
	// WebhookLimitReached: the usage of a feature has reached its limit.
	WebhookLimitReached WebhookEvent = 13 // usage.limit_reached
)

// Wants reports whether any endpoint of the environment wants to hear of an event.
func (e *Environment) Wants(w WebhookEvent) bool { return e.Wanted.Load()&(1<<w) != 0 }
