package console_test

import (
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
	require.Equal(t, at+"/overview", b.get(at).is(303).to, "an environment's address is its overview")
}

// TestThePriceCalculator says what a period costs with some usage, as its invoice will have it.
func TestThePriceCalculator(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox/catalog"
	b.get(at).is(200, "1 subscriber<", "Calculate a price")
	p := b.get(at+"?plan=team&units.calls=1,250").is(200, "What Team costs with this usage", "1,250",
		"625.00 USD", "645.00 USD", `value="1250"`, "details open")
	safe(t, p)
	b.get(at+"?plan=team").is(200, "<strong>20.00 USD")
	b.get(at+"?plan=team&units.calls=many").is(400, "Enter a number of units", `aria-invalid="true"`)
	b.get(at + "?plan=team&units.calls=-1").is(400)
	require.NotContains(t, b.get(at+"?plan=none").is(200).body, "costs with this usage")
}
