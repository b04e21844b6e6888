package console_test

import (
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
		"625.00 USD", "645.00 USD", `value="1250"`, "details open")
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
