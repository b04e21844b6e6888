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
