package bill_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	api "tollgate/sdk/go"
	"tollgate/server/console/bill"
)

// TestPricesInWords: each way to price a feature has its words.
func TestPricesInWords(t *testing.T) {
	for _, c := range []struct{ kind, pricing, says string }{
		{"included", `{}`, "included"},
		{
			"usage_based", `{"model":"per_unit","pricePerUnit":0.000003,"unitLabel":"token",` +
				`"includedUnits":1000,"maxUsage":100000,"limitMode":"hard"}`,
			"1,000 included; 0.000003 USD a token; limit 100,000, hard",
		},
		{"usage_based", `{"pricePerUnit":0,"includedUnits":0,"maxUsage":5}`, "limit 5"},
		{
			"graduated", `{"tiers":[{"upTo":100,"pricePerUnit":2},` +
				`{"upTo":"inf","pricePerUnit":1,"flatFee":5}]}`,
			"2.00 USD a unit up to 100; 1.00 USD a unit beyond, plus 5.00 USD",
		},
		{
			"usage_based", `{"model":"volume","tiers":[{"upTo":"inf","pricePerUnit":1}]}`,
			"1.00 USD a unit; the tier reached prices all units",
		},
		{
			"usage_based", `{"model":"package","packageSize":1000,"pricePerPackage":3}`,
			"3.00 USD for each 1,000",
		},
		{"usage_based", `nonsense`, "usage based"},
	} {
		require.Equal(t, c.says, strings.Join(bill.PricePhrases(api.PlanFeature{
			PricingType: c.kind, Pricing: []byte(c.pricing),
		}, "USD"), "; "))
	}
}
