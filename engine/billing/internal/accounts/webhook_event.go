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
type WebhookEvent uint8

const (
	// WebhookInvoiceCreated and WebhookInvoiceDue: an invoice was issued, and awaits payment.
	WebhookInvoiceCreated WebhookEvent = 1
	WebhookInvoiceDue     WebhookEvent = 2
	WebhookInvoicePaid    WebhookEvent = 3
	WebhookInvoicePastDue WebhookEvent = 4
	WebhookInvoiceVoided  WebhookEvent = 5
	// WebhookInvoiceOverpaid: a provider reported a payment that did not fit its invoice: it was
	// PAID already, takes no payment, or is of another amount or currency. Somebody has the money.
	WebhookInvoiceOverpaid WebhookEvent = 6

	WebhookSubscriptionCreated WebhookEvent = 7
	// WebhookSubscriptionActivated: what was suspended gives access again.
	WebhookSubscriptionActivated WebhookEvent = 8
	WebhookSubscriptionSuspended WebhookEvent = 9
	// WebhookSubscriptionCancelled: it has ended. A cancellation that is only scheduled is a
	// change.
	WebhookSubscriptionCancelled WebhookEvent = 10
	// WebhookSubscriptionChanged: its plan changed, or what is scheduled for it.
	WebhookSubscriptionChanged WebhookEvent = 11

	// WebhookCreditsDepleted: a pool with a hard limit has nothing left.
	WebhookCreditsDepleted WebhookEvent = 12
	// WebhookLimitReached: the usage of a feature has reached its limit.
	WebhookLimitReached WebhookEvent = 13
)

// WebhookNames are the names that payloads and the admin API use.
var WebhookNames = [...]string{
	WebhookInvoiceCreated:        "invoice.created",
	WebhookInvoiceDue:            "invoice.due",
	WebhookInvoicePaid:           "invoice.paid",
	WebhookInvoicePastDue:        "invoice.past_due",
	WebhookInvoiceVoided:         "invoice.voided",
	WebhookInvoiceOverpaid:       "invoice.overpaid",
	WebhookSubscriptionCreated:   "subscription.created",
	WebhookSubscriptionActivated: "subscription.activated",
	WebhookSubscriptionSuspended: "subscription.suspended",
	WebhookSubscriptionCancelled: "subscription.cancelled",
	WebhookSubscriptionChanged:   "subscription.changed",
	WebhookCreditsDepleted:       "credits.depleted",
	WebhookLimitReached:          "usage.limit_reached",
}

// String is the event's name.
func (w WebhookEvent) String() string {
	if int(w) < len(WebhookNames) {
		return WebhookNames[w]
	}
	return ""
}

// Wants reports whether any endpoint of the environment wants to hear of an event.
func (e *Environment) Wants(w WebhookEvent) bool { return e.Wanted.Load()&(1<<w) != 0 }
