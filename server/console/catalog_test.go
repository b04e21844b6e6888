package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheCatalogInWords is the page of a catalog.
func TestTheCatalogInWords(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	p := b.get(at+"/catalog").is(200, `id="plans"`, "20.00 USD a month", "0.50 USD a unit; limit 10",
		"Billed in advance", "Preview changes")
	safe(t, p)
	require.Less(t, strings.Index(p.body, `id="features"`), strings.Index(p.body, `id="catalog-form"`))
	require.Regexp(t, `(?s)id="features".*<code>calls</code>.*href="`+at+`/catalog/team">team</a>`, p.body)
	b.submit(at+"/catalog", at+"/catalog", fields("action", "apply", "document",
		strings.Replace(catalog, "features:\n", "features:\n  - {key: idle, name: Idle}\n", 1)))
	require.Regexp(t, `(?s)<code>idle</code></th>.{1,200}its key alone.{1,100}>none<`,
		b.get(at+"/catalog").is(200).body)
	require.Equal(t, at+"/overview", b.get(at).is(303).to, "an environment's address is its overview")
}

// TestThePlansSubscribers: each version counts its own, who keep it, and leads to them.
func TestThePlansSubscribers(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish() // anna is on team
	const at = "/console/accounts/demo/sandbox/catalog"
	b.get(at).is(200, `href="`+at+`/team" aria-label="1 subscriber of Team">1<`)
	b.submit(at, at, fields("document", strings.Replace(catalog, "priceAmount: 20", "priceAmount: 30", 1),
		"action", "apply"))
	p := b.get(at+"/team").is(200, "1 subscribers of version 1", "0 subscribers of version 2",
		"30.00 USD a month", "/customers/anna")
	safe(t, p)
	b.get(at+"/team?version=1").is(200, "Subscribers of version 1", "/customers/anna")
	require.NotContains(t, b.get(at+"/team?version=2").is(200, "None.").body, "/customers/anna")
	b.get(at + "/none").is(404)
	b.get(at + "/team?version=x").is(400)
}

// TestThePriceCalculator says what a period costs with some usage, as its invoice will have it.
func TestThePriceCalculator(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox/catalog"
	b.get(at).is(200, "1 subscriber of Team", "Calculate a price")
	p := b.get(at+"?plan=team&units.calls=1,250").is(200, "What Team costs with this usage", "1,250",
		"625.00 USD", "645.00 USD", `value="1250"`, `id="calculate"`)
	safe(t, p)
	b.submit(at, at, fields("document", strings.NewReplacer("key: team", "key: firm", "maxUsage: 10",
		"maxUsage: 10, limitMode: hard").Replace(catalog), "action", "apply"))
	b.get(at+"?plan=firm&units.calls=11").is(200, "stops at the hard limit", "5.00 USD", "25.00 USD")
	require.NotContains(t, b.get(at+"?plan=firm&units.calls=10").body, "stops at the hard limit")
	b.get(at+"?plan=team").is(200, "<strong>20.00 USD")
	b.get(at+"?plan=team&units.calls=many").is(400, "Enter a number of units", `aria-invalid="true"`)
	b.get(at + "?plan=team&units.calls=-1").is(400)
	require.NotContains(t, b.get(at+"?plan=none").is(200).body, "costs with this usage")
}

// TestAPageOfALargeCatalogIsSmall: of 15 plans of 15 features, and of 50 of 60. What is left out is
// in the document, which is a file then, and can be applied as it is.
func TestAPageOfALargeCatalogIsSmall(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.submit("/console", "/console/accounts", fields("name", "demo"))
	const at = "/console/accounts/demo/sandbox/catalog"
	for _, size := range [][2]int{{15, 15}, {50, 60}} {
		document, of := "features:\n", ""
		for i := range size[1] {
			key := fmt.Sprintf("feature-of-some-kind-%02d", i)
			document += "  - {key: " + key + ", name: Feature of some kind}\n"
			of += "      - {key: " + key + ", pricingType: usage_based, " +
				"pricing: {pricePerUnit: 0.01, includedUnits: 1000, maxUsage: 100000}}\n"
		}
		document += "plans:\n"
		for i := range size[0] {
			document += fmt.Sprintf("  - key: plan-for-somebody-%02d\n    name: Plan for somebody\n"+
				"    priceAmount: 20\n    currency: USD\n    intervalMonths: 1\n    features:\n", i) + of
		}
		b.send(at, b.fill(at, fields("document", document, "action", "apply"))).is(303)
		p := b.get(at).is(200, "more, in the document", "download it")
		b.small(p)
		safe(t, p)
		b.small(b.get(at+"?plan=plan-for-somebody-07").is(200, `id="calculate"`, "All plans"))
		file := b.get(at + ".json").is(200)
		require.Contains(t, file.header.Get("Content-Disposition"), "demo-sandbox-catalog.json")
		if size[0] < 50 { // of more, a form has no room
			b.send(at, b.fill(at, fields("document", file.body, "action", "look"))).
				is(200, "Nothing: the catalog is up to date")
		}
	}
	next := b.get(at).is(200)
	require.Contains(t, next.body, "?cursor=20")
	b.small(b.get(at+"?cursor=40").is(200, "plan-for-somebody-49"))
}
