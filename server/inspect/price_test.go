package inspect_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/server/inspect/document"
)

// TestPricesAreRead: in every currency that products sell in, however a page marks them up, and
// quoted as they stand in it.
func TestPricesAreRead(t *testing.T) {
	for markup, want := range map[string]struct{ price, quote string }{
		"$29 per month":                          {"$29 per month", "$29 per month"},
		"<span>$</span>29":                       {"$29", "$</span>29"},
		"<sup>$</sup><b>29</b><sup>.99</sup>/mo": {"$29.99/mo", "$</sup><b>29</b><sup>.99</sup>/mo"},
		"$<!-- -->29":                            {"$29", "$<!-- -->29"},
		"&#36;29":                                {"$29", "&#36;29"},
		"&euro;&nbsp;29":                         {"€ 29", "&euro;&nbsp;29"},
		"<b>29</b>\n<small>EUR</small> / month":  {"29 EUR / month", "29</b>\n<small>EUR</small> / month"},
		"29,99 €":                                {"29,99 €", "29,99 €"},
		"1.299,00&nbsp;€":                        {"1.299,00 €", "1.299,00&nbsp;€"},
		"£9 each":                                {"£9 each", "£9 each"},
		"&pound;9":                               {"£9", "&pound;9"},
		"¥3,000":                                 {"¥3,000", "¥3,000"},
		"3,000円":                                 {"3,000円", "3,000円"},
		"CHF 1'290.50":                           {"CHF 1'290.50", "CHF 1'290.50"},
		"A$15":                                   {"A$15", "A$15"},
		"R$ 49,90":                               {"R$ 49,90", "R$ 49,90"},
		"US$5":                                   {"US$5", "US$5"},
		"₹499":                                   {"₹499", "₹499"},
		"12 USD per 1,000 calls":                 {"12 USD per 1,000 calls", "12 USD per 1,000 calls"},
		"<div>$</div><div>29</div>":              {"", ""},
		"5 things, $x, 12 EURO":                  {"", ""},
		"<script>$29</script><style>$30</style>$ off": {"", ""},
	} {
		t.Run(markup, func(t *testing.T) {
			d := played(t, at+"pricing\n200 text/html\n\n<html><body><p>Plans.</p><p>"+markup+"</p></body></html>\n")
			if want.price == "" {
				require.Empty(t, d.Pricing.ObservedPrices)
				require.NotEqual(t, document.Yes, d.Pricing.Determinable.Verdict)
				return
			}
			require.Len(t, d.Pricing.ObservedPrices, 1)
			price := d.Pricing.ObservedPrices[0]
			require.Equal(t, want.price, price.Value)
			require.Equal(t, want.quote, price.Evidence[0].Quote)
			require.Equal(t, document.Yes, d.Pricing.Determinable.Verdict)
		})
	}
	d := played(t, at+"pricing.md\n404\n\n"+at+"llms.txt\n200 text/plain\n\n# Acme\n\nIt costs **$7** per month.\n")
	require.Equal(t, "$7 per month", d.Pricing.ObservedPrices[0].Value)
	require.Equal(t, "$7** per month", d.Pricing.ObservedPrices[0].Evidence[0].Quote)
}

// TestAPriceIsDeniedOnlyWhereItWasLookedFor: a page about prices that shows little without scripts,
// or is longer than is searched, denies nothing; nor does "on request" where not all was read.
func TestAPriceIsDeniedOnlyWhereItWasLookedFor(t *testing.T) {
	page := func(body string) string {
		return at + "pricing\n200 text/html\n\n<html><body>" + body + "</body></html>\n"
	}
	for name, c := range map[string]struct{ text, rule string }{
		"no price":       {page("<p>Fair prices.</p>"), "cost_not_stated"},
		"needs scripts":  {page("<p>Plans</p><script src=/app.js></script>"), "cost_page_unread"},
		"too long":       {page(strings.Repeat("<p>All of this is about nothing at all.</p>", 10_000)), "cost_page_unread"},
		"on request":     {page("<p>Contact sales for pricing.</p>"), "cost_on_request"},
		"partly read":    {page("<p>Contact sales for pricing.</p>") + at + "pricing.json\n503\n\nx", "cost_not_observed"},
		"elsewhere, too": {page("<p>Fair prices.</p>") + at + "pricing.json\n302\nLocation: https://other.example/\n\n", "cost_not_observed"},
		"a long tag":     {page(`<b class="` + strings.Repeat("x", 300) + `">$</b><b class="` + strings.Repeat("x", 300) + `">9</b>`), "cost_in_text"},
	} {
		d := played(t, c.text)
		require.Equal(t, c.rule, d.Pricing.Determinable.Rule, name)
	}
}
