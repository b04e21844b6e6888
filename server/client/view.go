package client

import (
	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/billingview"
)

// The views' tags say how the API shapes them. What is null is left out; empty texts and lists that
// the document requires are sent.

// customerAnswer is a customer with what it has.
//
//schema:answer client Customer
type customerAnswer struct {
	billing.CustomerView
	// Subscriptions are the active ones.
	Subscriptions []billing.SubscriptionView `json:"subscriptions" ref:"Subscription"`
	Pools         []billing.PoolView         `json:"creditPools" ref:"CreditPool" with:"billingview.WritePool"`
}

func answerOf(m *billing.Machine, customer *billing.CustomerView) *customerAnswer {
	answer := customerAnswer{CustomerView: *customer, Pools: m.Pools(customer.Row)}
	for _, s := range m.Subscriptions(customer.Row) {
		if s.IsActive {
			answer.Subscriptions = append(answer.Subscriptions, s)
		}
	}
	return &answer
}

func writePlanFeature(data *server.JSON, f *billing.PlanFeatureView) {
	data.Open('{')
	data.UUID("id", f.Feature.ID)
	data.Text("key", f.Feature.Key)
	data.Text("name", f.Feature.Name)
	data.Text("description", f.Feature.Description)
	data.Text("pricingType", f.PricingType)
	data.Object("pricing")
	billingview.WritePricing(data, &f.Pricing)
	data.Close('}')
	data.Close('}')
}

func planFeatureSchema() *server.Schema {
	return server.Object(
		server.Must("id", server.UUIDSchema),
		server.Must("key", text(1, longestID)),
		server.Must("name", text(0, longestName)),
		server.Must("description", text(0, 0)),
		server.Must("pricingType", server.EnumSchema("included", "usage_based", "graduated")),
		server.Must("pricing", billingview.PricingSchema()),
	)
}
