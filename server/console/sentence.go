package console

import (
	"net/url"
	"strings"
	"time"

	"tollgate/engine/billing"
	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/page"
)

// sentences say what a change did; {name} stands for the value that the change gave a field,
// {-name} for the value before.
var sentences = map[string]string{
	"account.created":                    "created the account {name}",
	"catalog.applied":                    "applied a catalog",
	"checkout.opened":                    "opened a payment page",
	"clock.advanced":                     "moved the test clock to {clock}",
	"credits.deducted":                   "deducted {amount} credits",
	"credits.granted":                    "granted {amount} credits",
	notGranted:                           "could not grant {amount} credits to {pool}: {reason}",
	"budget.changed":                     "changed a budget",
	"budget.created":                     "created the budget {name}",
	"budget.moved":                       "moved a budget",
	"credits.reversed":                   "reversed a transaction of credits",
	"customer.archived":                  "archived a customer",
	"customer.changed":                   "changed a customer's details",
	"customer.created":                   "created the customer {customer}",
	"customer.erased":                    "erased a customer's personal data",
	"invoice.paid":                       "marked an invoice as paid",
	"invoice.voided":                     "voided an invoice",
	"key.bound":                          "changed the budget that a key is bound to",
	"key.created":                        "created the key {label}, scope {scope}",
	"key.ended":                          "ended a key that another one has replaced",
	"key.revoked":                        "revoked a key",
	"key.rolled":                         "replaced the key {-hint}… by {hint}…; it ends at {replacedEnds}",
	"limits.set":                         "set the limits of events and keys",
	"origins.set":                        "set the allowed origins to {origins}",
	"payment-provider.set":               "set the payment provider to {provider}",
	"payment-terms.set":                  "set the payment terms",
	"portal.link-made":                   "created a portal link that is valid for {expires}",
	"portal.links-revoked":               "ended a customer's portal links",
	"portal.set":                         "set the look of the customer portal",
	"pool.changed":                       "set a credit pool to {status}",
	"pool.created":                       "created the credit pool {name} for {customer}",
	"pool.low-balance-set":               "set the balance at which a credit pool is low to {lowBalance}",
	"reservation.extended":               "extended a reservation",
	"reservation.made":                   "reserved {granted} under {reservationKey}",
	"reservation.released":               "released the reservation {reservationKey}",
	"reservation.settled":                "settled the reservation {reservationKey}",
	"seller.set":                         "set who issues the invoices",
	"subscription.cancellation-reverted": "reverted a cancellation",
	"subscription.cancelled":             "cancelled a subscription",
	"subscription.created":               "subscribed {customer} to {plan}",
	"subscription.plan-change-cancelled": "cancelled a plan change",
	"subscription.plan-changed":          "changed a subscription's plan",
	"top-up.asked":                       "asked for {credits} credits for {price}",
	"top-up.ended":                       "ended the purchase {purchase}, which was not paid",
	"top-up.failed":                      "failed to top a pool up, and stopped: {reason}",
	"top-up.paid":                        "topped a pool up with {credits} credits for {price}",
	"top-up.set":                         "set a pool to be topped up below {below}",
	"top-up.stopped":                     "stopped topping a pool up",
	"usage.amended":                      "amended a usage event to {units} units",
	"usage.recorded":                     "recorded {units} units of {feature}",
	"usage.voided":                       "voided a usage event",
	"webhook-endpoint.changed":           "changed a webhook endpoint",
	"webhook-endpoint.created":           "added the webhook endpoint {url}",
	"webhook-endpoint.deleted":           "removed the webhook endpoint {-url}",
	"webhook-endpoint.secret-rotated":    "replaced a webhook endpoint's signing secret",
	"webhook.many-resent":                "sent {messages} webhook messages once more",
	"webhook.resent":                     "sent a webhook message once more",
	"webhook.tested":                     "sent a test message to a webhook endpoint",
}

// notGranted is the change of a subscription whose plan's credits there was no room for.
const notGranted = "credits.not-granted"

// sentence says a change in words: who did what. A change that has no sentence is its action's
// name, so that new ones are told, too.
func sentence(c *api.AdminChange) string {
	text, known := sentences[c.Action]
	if !known {
		text = strings.NewReplacer(".", " ", "-", " ", "_", " ").Replace(c.Action)
	}
	if at, err := time.Parse(time.RFC3339, c.After["expires"]); err == nil {
		text = strings.ReplaceAll(text, "{expires}", lasting(at.Sub(c.At)))
	}
	for _, side := range []struct {
		mark   string
		values map[string]string
	}{{"{-", c.Before}, {"{", c.After}} {
		for name, value := range side.values {
			text = strings.ReplaceAll(text, side.mark+name+"}", plainValue(name, value))
		}
	}
	// A mark that is left stands for a value that the change does not have.
	for {
		from := strings.IndexByte(text, '{')
		to := strings.IndexByte(text, '}')
		if from < 0 || to < from {
			break
		}
		text = strings.TrimRight(text[:from], " ") + text[to+1:]
	}
	return actorName(c.Actor) + " " + text
}

// actorName names an actor as people say it.
func actorName(actor string) string {
	switch actor {
	case server.AdminKey:
		return "The admin key"
	case "configuration":
		return "The configuration"
	}
	return actor
}

// plainValue is a value within a sentence. It has no braces, which stand for names there.
func plainValue(name, value string) string {
	value = strings.NewReplacer("{", "(", "}", ")").Replace(value)
	if at, err := time.Parse(time.RFC3339, value); err == nil {
		return page.When(at)
	}
	switch name {
	case "amount", "units":
		return page.Amount(value)
	case "status":
		return page.Words(value)
	}
	return value
}

// shownChange is a change as the page tells it.
type shownChange struct {
	api.AdminChange
	Sentence string
	// URL is the page of what the change is about; empty where there is none.
	URL string
}

func (v *visit) shownChange(c api.AdminChange) shownChange {
	return shownChange{c, sentence(&c), v.subjectURL(&c)}
}

// subjectURL is the page of a change's subject.
func (v *visit) subjectURL(c *api.AdminChange) string {
	if c.Action == "account.created" {
		return Root + "/accounts/" + url.PathEscape(c.Subject)
	}
	if c.Account == "" {
		return ""
	}
	if c.Environment == "" {
		return Root + "/accounts/" + url.PathEscape(c.Account)
	}
	base := Root + "/accounts/" + url.PathEscape(c.Account) + "/" + c.Environment
	subject := url.PathEscape(c.Subject)
	switch kind, _, _ := strings.Cut(c.Action, "."); kind {
	case "catalog", "clock":
		return base + "/" + kind
	case "invoice", "checkout":
		return base + "/invoices/" + subject
	case "credits", "pool", "top-up":
		if c.Action == notGranted {
			return v.customerOf(c, base)
		}
		return base + "/pools/" + subject
	case "budget":
		return base + "/budgets/" + subject
	case "key":
		return base + "/keys"
	case "limits", "origins", "payment-provider", "payment-terms", "seller":
		return base + "/settings"
	case "webhook", "webhook-endpoint":
		if c.Action == "webhook-endpoint.deleted" {
			return base + "/webhooks"
		}
		return base + "/webhooks/" + subject
	case "portal":
		if c.Action == "portal.set" {
			return base + "/settings"
		}
		return base + "/customers/" + subject
	case "reservation":
		return base + "/reservations/" + subject
	case "customer", "subscription", "usage":
		return v.customerOf(c, base)
	}
	return base
}

// customerOf is the page of the customer that a change is about.
func (v *visit) customerOf(c *api.AdminChange, base string) string {
	name := c.After["customer"]
	env, known := v.console.config.Machine.Environment(c.Account, environments[c.Environment])
	id, ok := server.ParseUUID([]byte(c.Subject))
	if name == "" && known && ok {
		var found billing.CustomerView
		if strings.HasPrefix(c.Action, "subscription.") || c.Action == notGranted {
			if s, there := v.console.config.Machine.Subscription(env, id); there {
				name = s.Customer.ExternalID
			}
		} else if found, ok = v.console.config.Machine.CustomerByID(env, id); ok {
			name = found.ExternalID
		}
	}
	if name == "" {
		return base
	}
	return base + "/customers/" + url.PathEscape(name)
}
