package billingview

import (
	"tollgate/engine/billing"
	"tollgate/server"
)

// WriteWebhook writes the body of a webhook message: {type, timestamp, data}, as Standard Webhooks
// recommends. It is a function of the message alone, so every attempt has the same bytes.
func WriteWebhook(data *server.JSON, m *billing.WebhookMessage) {
	data.Open('{')
	data.Text("type", m.Type.String())
	data.Time("timestamp", m.At)
	data.Object("data")
	switch m.Type {
	case billing.WebhookCreditsDepleted, billing.WebhookCreditsLow:
		data.UUID("poolId", m.PoolID)
		data.Text("name", m.PoolName)
		data.Text("customerReferenceId", m.Customer)
		data.Decimal("balance", m.Balance)
		if m.Type == billing.WebhookCreditsLow {
			data.Decimal("lowBalance", m.LowBalance)
		}
	case billing.WebhookToppedUp, billing.WebhookTopUpFailed:
		data.UUID("poolId", m.PoolID)
		data.Text("name", m.PoolName)
		data.Text("customerReferenceId", m.Customer)
		data.Decimal("balance", m.Balance)
		data.Decimal("credits", m.Credits)
		data.Decimal("price", m.Amount)
		data.Text("currency", m.Currency)
		data.TextIf("paymentId", m.PaymentID)
		data.TextIf("reason", m.Code)
	case billing.WebhookLimitReached, billing.WebhookUsageThreshold:
		data.Text("featureKey", m.FeatureKey)
		data.UUID("subscriptionId", m.SubscriptionID)
		data.Text("customerReferenceId", m.Customer)
		data.Decimal("used", m.Used)
		data.Decimal("limit", m.Limit)
		data.Bool("hardLimit", m.HardLimit)
		data.Time("currentPeriodStart", m.PeriodStart)
		data.Time("currentPeriodEnd", m.PeriodEnd)
		if m.Type == billing.WebhookUsageThreshold {
			data.Uint("percent", uint64(m.Percent))
		}
	case billing.WebhookBudgetThreshold:
		data.Text("budget", m.BudgetKey)
		data.Text("name", m.BudgetName)
		data.Text("customerReferenceId", m.Customer)
		data.Text("of", m.LimitOf)
		data.TextIf("featureKey", m.FeatureKey)
		data.TextIf("currency", m.LimitIn)
		data.Text("window", m.Window)
		data.Time("windowStart", m.PeriodStart)
		data.Time("windowEnd", m.PeriodEnd)
		data.Decimal("used", m.Used)
		data.Decimal("held", m.Held)
		data.Decimal("limit", m.Limit)
		data.Bool("hardLimit", m.HardLimit)
		data.Uint("percent", uint64(m.Percent))
	case billing.WebhookTest:
		data.Text("message", "This is a test.")
	default:
		if m.InvoiceID != ([16]byte{}) {
			writeWebhookInvoice(data, m)
		} else {
			writeWebhookSubscription(data, m)
		}
	}
	data.Close('}')
	data.Close('}')
}

func writeWebhookInvoice(data *server.JSON, m *billing.WebhookMessage) {
	data.UUID("id", m.InvoiceID)
	data.Uint("number", m.Number)
	data.Text("type", m.InvoiceType.String())
	data.Text("status", m.Status.String())
	data.Decimal("amount", m.Amount)
	data.Text("currency", m.Currency)
	data.UUID("subscriptionId", m.SubscriptionID)
	data.Text("customerReferenceId", m.Customer)
	data.Time("createdAt", m.CreatedAt)
	data.Time("dueDate", m.DueAt)
	data.Time("paidAt", m.PaidAt)
	data.Time("periodStart", m.PeriodStart)
	data.Time("periodEnd", m.PeriodEnd)
	if m.Type == billing.WebhookInvoiceOverpaid {
		data.Object("payment")
		data.Text("provider", m.Provider)
		data.Text("eventId", m.ProviderEvent)
		data.Decimal("amount", m.Paid)
		data.Text("currency", m.PaidCurrency)
		data.Text("result", m.PaidResult.String())
		data.Close('}')
	}
}

func writeWebhookSubscription(data *server.JSON, m *billing.WebhookMessage) {
	data.UUID("id", m.SubscriptionID)
	data.Text("customerReferenceId", m.Customer)
	data.UUID("planId", m.PlanID)
	data.Text("planKey", m.PlanKey)
	data.Uint("planVersion", uint64(m.PlanVersion))
	data.Bool("isActive", m.Active)
	data.Time("createdAt", m.CreatedAt)
	data.Time("currentPeriodStart", m.PeriodStart)
	data.Time("currentPeriodEnd", m.PeriodEnd)
	data.Time("suspendedAt", m.SuspendedAt)
	if m.CancelMode != 0 {
		data.Text("cancelMode", m.CancelMode.String())
	}
	data.Time("cancelledAt", m.CancelledAt)
	if m.EndedAt != 0 {
		data.Time("cancelEffectiveAt", m.EndedAt)
	} else if m.CancelMode != 0 {
		data.Time("cancelEffectiveAt", m.PeriodEnd)
	}
	if m.ScheduledPlan != "" {
		data.Object("scheduledChange")
		data.Text("planKey", m.ScheduledPlan)
		data.Time("effectiveAt", m.ScheduledAt)
		data.Close('}')
	}
}
