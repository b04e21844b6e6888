package tollgate

import (
	"context"
	"encoding/json"
	"net/url"
)

// Decision is the answer to a check: whether a customer may use a feature.
type Decision struct {
	ReferenceCustomerID string `json:"referenceCustomerId"`
	FeatureKey          string `json:"featureKey"`
	IsAllowed           bool   `json:"isAllowed"`
	Meta                struct {
		Reason Reason `json:"reason"`
	} `json:"meta"`
	FlowID string `json:"flowId,omitzero"`
	// Usage is that of the present period; the zero Counter where none is counted.
	Usage Counter `json:"usage,omitzero"`
	// Simulation says what the units of a check that names some would do; else nil.
	Simulation *Simulation `json:"simulation,omitzero"`
}

// Reason says why a check was decided as it was.
type Reason struct {
	Description    string      `json:"description,omitzero"`
	Code           string      `json:"code"`
	Rule           string      `json:"rule"`
	SubscriptionID string      `json:"subscriptionId,omitzero"`
	Limit          json.Number `json:"limit,omitzero"`
	Used           json.Number `json:"used,omitzero"`
	Held           json.Number `json:"held,omitzero"`
	LogIndex       uint64      `json:"logIndex"`
	// Budget is the limit of a budget that denies it; nil where none does.
	Budget *BudgetRefusal `json:"budget,omitzero"`
}

// Counter is what a customer has used of a feature in the present period. Held is what open
// reservations hold; Limit and Remaining are empty where there is no limit.
type Counter struct {
	Used      json.Number `json:"used"`
	Limit     json.Number `json:"limit,omitzero"`
	Remaining json.Number `json:"remaining,omitzero"`
	Held      json.Number `json:"held"`
}

// Simulation is what units would do that a check names.
type Simulation struct {
	RequestedUsage     json.Number `json:"requestedUsage"`
	ProjectedUsage     json.Number `json:"projectedUsage"`
	ProjectedRemaining json.Number `json:"projectedRemaining,omitzero"`
	WouldExceedLimit   bool        `json:"wouldExceedLimit"`
	ProjectedCost      json.Number `json:"projectedCost,omitzero"`
}

// Entitlement is a feature of a customer's plans, with what the next check would say.
type Entitlement struct {
	EntitlementID  string `json:"entitlementId"`
	SubscriptionID string `json:"subscriptionId"`
	FeatureKey     string `json:"featureKey"`
	IsAllowed      bool   `json:"isAllowed"`
	Code           string `json:"code"`
	Description    string `json:"description,omitzero"`
	// Budget is the key of the budget that denies it, if one does.
	Budget string  `json:"budget,omitzero"`
	Usage  Counter `json:"usage"`
}

// Check decides whether a customer may use a feature.
func (c *Client) Check(ctx context.Context, customer, feature string) (d Decision, err error) {
	return d, c.get(ctx, "/entitlements/"+url.PathEscape(customer)+"/"+url.PathEscape(feature), &d)
}

// Entitlements returns what a customer's plans entitle it to.
func (c *Client) Entitlements(ctx context.Context, customer string) (all []Entitlement, err error) {
	return all, c.get(ctx, "/entitlements/"+url.PathEscape(customer), &all)
}
