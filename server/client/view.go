package client

import "tollgate/engine/billing"

// The views' tags say how the API shapes them. What is null is left out; empty texts and lists that
// the document requires are sent.

// customerAnswer is a customer with what it has.
//
//schema:answer client Customer
type customerAnswer struct {
	billing.CustomerView
	// Subscriptions are the active ones.
	Subscriptions []billing.SubscriptionView `json:"subscriptions" ref:"Subscription"`
	Pools         []billing.PoolView         `json:"creditPools" ref:"CreditPool" with:"billingview.WriteCreditPool"`
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
