package admin_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/server/client"
)

// plans is a catalog document with plans that share all but what is said of each.
func plans(each ...string) string {
	document := "features: [{key: tokens, name: Tokens}]\nplans:\n"
	for _, more := range each {
		document += "  - {name: P, priceAmount: 20, intervalMonths: 1, " + more + "}\n"
	}
	return document
}

func (n *node) putCatalog(document, query string) answer {
	n.t.Helper()
	return n.send("PUT", sandbox+"catalog"+query, document, n.key, "application/yaml")
}

func TestTheCatalogComesBackWhole(t *testing.T) {
	n := start(t)
	n.call("POST", "accounts", `{"name":"demo"}`).is(201, "")
	n.putCatalog(plans("key: a, currency: USD", "key: b, currency: USD, status: DRAFT",
		"key: c, currency: USD, status: ARCHIVED, features: [{key: tokens, pricingType: included}]"),
		"").is(200, "")
	n.putCatalog("features: [{key: other, name: Other}]", "").is(200, "")
	n.putCatalog("features: [{key: tokens, name: Tokens}]\nplans: []", "?prune=true").is(200, "")
	back := n.call("GET", sandbox+"catalog", "").is(200, "")
	require.Len(t, back.data()["plans"], 3, "what is archived, and a draft, are there too")
	require.Len(t, back.data()["features"], 1)
	document := strings.TrimSuffix(strings.TrimPrefix(back.raw, `{"success":true,"data":`), "}")
	a := n.call("PUT", sandbox+"catalog?prune=true", document).is(200, "")
	require.Empty(t, a.data()["changes"], document)
}

// TestEveryRefusalOfACatalog: what is refused has changed nothing.
func TestEveryRefusalOfACatalog(t *testing.T) {
	n := start(t)
	key := n.furnish()
	n.putCatalog(plans("key: team, currency: USD"), "").is(200, "")
	n.subscribe(key)
	before := n.call("GET", sandbox+"catalog", "").raw
	feature := "key: p, currency: USD, features: [{key: tokens, pricingType: "
	tiers := func(list string) string {
		return plans(feature + "graduated, pricing: {tiers: [" + list + "]}}]")
	}
	for _, row := range []struct{ document, code, detail string }{
		{plans("key: team, currency: EUR"), "currency_fixed", "team"},
		{tiers("{upTo: 10}, {upTo: 5}, {upTo: inf}"), "catalog_invalid", "tiers[1]"},
		{tiers("{upTo: 10}, {upTo: 10}, {upTo: inf}"), "catalog_invalid", "tiers[1]"},
		{tiers("{upTo: inf}, {upTo: 10}"), "catalog_invalid", "tiers[0]"},
		{tiers("{upTo: 10}"), "catalog_invalid", "tiers"},
		{tiers("{upTo: 0}, {upTo: inf}"), "catalog_invalid", "tiers[0]"},
		{tiers("{upTo: inf, pricePerUnit: -1}"), "catalog_invalid", "pricePerUnit"},
		{plans(feature + "graduated}]"), "catalog_invalid", "tiers"},
		{plans(feature + "flat}]"), "catalog_invalid", "pricingType"},
		{plans(feature + "usage_based, pricing: {model: steps}}]"), "catalog_invalid", "model"},
		{
			plans(feature + "usage_based, pricing: {model: package, pricePerPackage: 1}}]"),
			"catalog_invalid", "packageSize",
		},
		{plans(feature + "included, pricing: {limitMode: hard}}]"), "catalog_invalid", "limitMode"},
		{plans(feature + "included, pricing: {maxUsage: -1}}]"), "catalog_invalid", "maxUsage"},
		{plans(feature + "included, pricing: {resetMode: never}}]"), "catalog_invalid", "resetMode"},
		{plans("key: p, currency: XTS"), "catalog_invalid", "currency"},
		{plans("key: p, currency: USD, billingTiming: LATER"), "catalog_invalid", "billingTiming"},
		{plans("key: p, currency: USD, status: OLD"), "catalog_invalid", "status"},
		{plans("key: p, currency: USD", "key: p, currency: USD"), "catalog_invalid", "more than once"},
		{plans("key: '', currency: USD"), "catalog_invalid", "plans[0].key"},
		{
			strings.Replace(plans("key: p, currency: USD"), "Months: 1", "Months: 0", 1),
			"catalog_invalid", "intervalMonths",
		},
		{strings.Replace(plans("key: p, currency: USD"), "20", "1e25", 1), "validation_failed", "10^24"},
		{strings.Replace(plans("key: p, currency: USD"), "20", "-1", 1), "catalog_invalid", "negative"},
		{
			"features: [{key: a, name: A, labels: [x]}, {key: b, name: B, labels: [x]}]",
			"catalog_invalid", "features[1].labels[0]",
		},
	} {
		for _, query := range []string{"?dryRun=true", ""} {
			a := n.putCatalog(row.document, query).is(400, row.code)
			require.Contains(t, a.raw, row.detail, row.document)
		}
		require.Equal(t, before, n.call("GET", sandbox+"catalog", "").raw, row.document)
	}
	// A text of the document's is not taken for another mistake.
	for _, query := range []string{"?dryRun=true", ""} {
		a := n.putCatalog(plans("key: p, currency: USD, features: [{key: 'a; b: c', pricingType: included}]"),
			query).is(400, "catalog_invalid")
		require.Equal(t, 1, strings.Count(a.raw, `"field":`), a.raw)
	}
	// All mistakes are named, where it is applied as where it is compared.
	var wrong []string
	for i := range 45 {
		wrong = append(wrong, fmt.Sprintf("key: p%d, currency: XTS", i))
	}
	for _, query := range []string{"?dryRun=true", ""} {
		a := n.putCatalog(plans(wrong...), query).is(400, "catalog_invalid")
		require.Equal(t, len(wrong), strings.Count(a.raw, `"field":`), a.raw)
	}
	// A changed price is not an error: it is a new version.
	n.putCatalog(strings.Replace(plans("key: team, currency: USD"), "20", "21", 1), "").is(200, "")
}

// TestEveryRefusalOfAState goes through what the state of a record does not allow.
func TestEveryRefusalOfAState(t *testing.T) {
	n := start(t)
	key := n.furnish()
	n.putCatalog(plans("key: team, currency: USD, features: [{key: tokens, pricingType: usage_based, "+
		"pricing: {pricePerUnit: 1e12}}]", "key: old, currency: USD"), "").is(200, "")
	n.subscribe(key)
	n.putCatalog(plans("key: old, currency: USD, status: ARCHIVED"), "").is(200, "")
	subscriptions := n.send("GET", client.Prefix+"/customers/ada/subscriptions", "", key, "").list()
	id := subscriptions[0].(map[string]any)["id"].(string)
	change := "/subscriptions/" + id + "/plan-change"
	for _, kind := range []string{"UPGRADE", "DOWNGRADE"} {
		n.post(key, change, `{"changeToPlanId":"old","changeType":"`+kind+`"}`).
			is(400, "plan_inactive")
	}
	n.post(key, "/subscriptions", `{"planId":"old","customerReferenceId":"ada"}`).
		is(400, "plan_inactive")
	pending := n.call("GET", sandbox+"invoices?customer=ada", "").list()[1].(map[string]any)["id"]
	n.post(key, "/billing/invoices/"+pending.(string)+"/mark-paid", "").is(400, "invoice_pending")
	n.send("DELETE", client.Prefix+"/subscriptions/cancellation/"+id+"/scheduled", "", key, "").
		is(400, "nothing_to_revert")
	n.send("DELETE", client.Prefix+change+"/scheduled", "", key, "").is(400, "no_change_pending")
	n.use(key, "k1", `,"usageUnits":1e13`).is(400, "overflow")
	n.use(key, "k1", `,"usageUnits":1`).is(201, "")
	n.post(key, "/events/k1/amend", `{"usageUnits":1e13}`).is(400, "overflow")
	n.post(key, "/events/k1/amend", `{"usageUnits":1e25}`).is(400, "validation_failed")
	require.Len(t, n.invoices(key), 1, "nothing was changed")

	n.advance(5*365).is(200, "")
	n.post(key, "/events/k1/void", "").is(400, "usage_final")
	n.post(key, "/events/k1/amend", `{"usageUnits":2}`).is(400, "usage_final")
	issued := n.invoices(key)[1].(map[string]any)["id"].(string)
	n.use(key, "k2", `,"invoiceId":"`+issued+`"`).is(400, "invoice_closed")
	a := n.call("GET", sandbox+"invoices/verify", "").is(200, "")
	require.Empty(t, a.data()["differences"])
	n.send("DELETE", client.Prefix+"/customers/ada", "", key, "").is(400, "customer_subscribed")
	n.post(key, "/subscriptions/cancellation/"+id+"?cancelMode=IMMEDIATE", "").is(200, "")
	n.send("DELETE", client.Prefix+"/customers/ada", "", key, "").is(200, "")
	n.call("POST", sandbox+"customers/ada/pools", `{"name":"x"}`).is(400, "customer_archived")
}
