package billing

import "strconv"

// Reason is why an entitlement decision came out as it did; the numbers travel in audit events and
// are never reused. The order is the order in which reasons are looked for: the first that applies
// is the decision.
type Reason uint8

const (
	ReasonAllowed         Reason = 1
	ReasonCustomerUnknown Reason = 2
	ReasonFeatureUnknown  Reason = 3
	ReasonNoSubscription  Reason = 4
	ReasonSuspended       Reason = 5
	ReasonNotInPlan       Reason = 6
	ReasonCreditsEmpty    Reason = 7
	ReasonLimitReached    Reason = 8
	ReasonWouldExceed     Reason = 9
)

var reasonNames = [...]string{
	ReasonAllowed:         "allowed",
	ReasonCustomerUnknown: "customer_unknown",
	ReasonFeatureUnknown:  "feature_unknown",
	ReasonNoSubscription:  "no_subscription",
	ReasonSuspended:       "suspended",
	ReasonNotInPlan:       "not_in_plan",
	ReasonCreditsEmpty:    "credits_empty",
	ReasonLimitReached:    "limit_reached",
	ReasonWouldExceed:     "would_exceed",
}

// String is the reason's name, the same in every version.
func (r Reason) String() string {
	if int(r) < len(reasonNames) && reasonNames[r] != "" {
		return reasonNames[r]
	}
	return "reason_" + strconv.Itoa(int(r))
}
