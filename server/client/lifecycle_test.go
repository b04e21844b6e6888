package client_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

// secondPlan adds a plan that subscribers of team may change to.
func (n *node) secondPlan() {
	n.catalog(&billing.CatalogDocument{Plans: []billing.PlanDocument{
		{
			Key: "scale", Name: "Scale", PriceAmount: decimal.MustParse("50"), Currency: "USD",
			IntervalMonths: 1, Features: []billing.PlanFeatureDocument{
				{Key: "seats", PricingType: "included"},
			},
		},
		{
			Key: "euro", Name: "Euro", PriceAmount: decimal.MustParse("5"), Currency: "EUR",
			IntervalMonths: 1,
		},
	}})
}

func TestCancellationOverHTTP(t *testing.T) {
	n := start(t)
	id := n.customer("acme")
	cancel := "subscriptions/cancellation/" + id
	show := func() answer { return n.call("GET", "subscriptions/"+id, "").is(200, "") }
	n.call("DELETE", cancel+"/scheduled", "").is(400, "nothing_to_revert")
	n.call("POST", cancel+"?cancelMode=LATER", "").is(400, "validation_failed")
	n.call("POST", "subscriptions/cancellation/x", "").is(400, "validation_failed")
	n.call("POST", "subscriptions/cancellation/"+uuidUnknown, "").is(404, "subscription_not_found")
	n.call("POST", cancel, "").is(200, "")
	a := show()
	require.Equal(t, true, a.data("isActive"))
	require.Equal(t, "END_OF_PERIOD", a.data("cancelMode"))
	require.Equal(t, a.data("currentPeriodEnd"), a.data("cancelEffectiveAt"))
	require.NotEmpty(t, a.data("cancelledAt"))
	require.Nil(t, a.data("endedAt"))
	n.call("DELETE", cancel+"/scheduled", "").is(200, "")
	a = show()
	for _, name := range []string{"cancelMode", "cancelEffectiveAt", "cancelledAt"} {
		require.Nil(t, a.data(name), name)
	}
	n.call("POST", cancel+"?cancelMode=IMMEDIATE", "").is(200, "")
	a = show()
	require.Equal(t, false, a.data("isActive"))
	require.Equal(t, a.data("cancelEffectiveAt"), a.data("endedAt"))
	n.call("POST", cancel+"?cancelMode=IMMEDIATE", "").is(200, "")
	n.call("POST", cancel+"?cancelMode=END_OF_PERIOD", "").is(400, "subscription_ended")
	n.call("DELETE", cancel+"/scheduled", "").is(400, "nothing_to_revert")
	require.Empty(t, n.call("GET", "customers/acme", "").data("subscriptions"))
	n.send("POST", cancel, "", n.read, nil).is(403, "access_denied")
}

func TestPlanChangesOverHTTP(t *testing.T) {
	n := start(t)
	n.secondPlan()
	id := n.customer("acme")
	change := "subscriptions/" + id + "/plan-change"
	to := func(plan, kind string) answer {
		return n.call("POST", change, `{"changeToPlanId":"`+plan+`","changeType":"`+kind+`"}`)
	}
	n.call("POST", change, `{}`).is(400, "validation_failed")
	to("scale", "SIDEWAYS").is(400, "validation_failed")
	to("none", "UPGRADE").is(404, "plan_not_found")
	to("draft", "UPGRADE").is(400, "plan_inactive")
	to("euro", "UPGRADE").is(400, "currency_differs")
	to("team", "UPGRADE").is(400, "plan_unchanged")
	n.call("POST", "subscriptions/"+uuidUnknown+"/plan-change",
		`{"changeToPlanId":"scale","changeType":"UPGRADE"}`).is(404, "subscription_not_found")
	n.call("DELETE", change+"/scheduled", "").is(400, "no_change_pending")

	to("scale", "DOWNGRADE").is(200, "")
	a := n.call("GET", "subscriptions/"+id, "").is(200, "")
	require.Equal(t, "PENDING", a.data("scheduledChange", "status"))
	require.Equal(t, "scale", a.data("scheduledChange", "toPlan", "key"))
	require.Equal(t, a.data("currentPeriodEnd"), a.data("scheduledChange", "effectiveAt"))
	n.call("DELETE", change+"/scheduled", "").is(200, "")
	require.Nil(t, n.call("GET", "subscriptions/"+id, "").data("scheduledChange"))
	to("scale", "UPGRADE").is(200, "")
	require.Equal(t, "scale", n.call("GET", "subscriptions/"+id, "").data("plan", "key"))
	changes := n.call("GET", change+"s", "").is(200, "").body["data"].([]any)
	require.Len(t, changes, 2)
	require.Equal(t, "CANCELLED", changes[0].(map[string]any)["status"])
	require.Equal(t, "COMPLETED", changes[1].(map[string]any)["status"])
	invoices := n.call("GET", "billing/invoices/acme", "").body["data"].([]any)
	require.Len(t, invoices, 2)
	require.Equal(t, "ADJUSTMENT", invoices[1].(map[string]any)["type"])
	n.call("GET", "subscriptions/"+uuidUnknown+"/plan-changes", "").is(404, "subscription_not_found")

	a = n.call("GET", "subscriptions/"+id+"/upcoming-invoice", "").is(200, "")
	require.Equal(t, "PENDING", a.data("status"))
	pending := n.call("GET", "billing/invoices/acme?include=pending", "").body["data"].([]any)
	require.Len(t, pending, 3)
	require.Equal(t, a.data("id"), pending[2].(map[string]any)["id"])
	n.call("GET", "subscriptions/"+uuidUnknown+"/upcoming-invoice", "").
		is(404, "subscription_not_found")
	n.call("POST", "subscriptions/cancellation/"+id+"?cancelMode=IMMEDIATE", "").is(200, "")
	to("team", "UPGRADE").is(400, "subscription_ended")
}
