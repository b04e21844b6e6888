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
			"usage_based", `{"maxUsage":5,"limitMode":"hard","thresholds":[80,100]}`,
			"limit 5, hard, told at 80 %, 100 %",
		},
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

// TestPlansInWords: what a plan does besides its features' prices has its words, too.
func TestPlansInWords(t *testing.T) {
	require.Equal(t, []string{
		"An interim invoice is made when unbilled usage passes 100.00 USD",
		"Grants 500 tokens to the pool prepaid each period, which is low at 50",
		"Grants 7 credits to the pool gifts each period",
	}, bill.InWords([]api.Plan{{
		Currency: "USD", InvoiceAbove: "100", CreditAllocations: []api.CreditAllocation{
			{Pool: "prepaid", Denomination: "tokens", Amount: "500", LowBalance: "50"},
			{Pool: "gifts", Denomination: "credits", Amount: "7"},
		},
	}})[0].Notes)
	require.Empty(t, bill.InWords(make([]api.Plan, 1))[0].Notes)
}

// TestInterimInvoicesAreCalledSo: in lists, and as documents.
func TestInterimInvoicesAreCalledSo(t *testing.T) {
	i := bill.Invoice{Invoice: api.Invoice{Number: 12, Type: "INTERIM", Currency: "USD", Amount: "5"}}
	require.Equal(t, "Interim invoice 12", i.Title())
	require.Equal(t, "Interim invoice 12", i.Document("demo", new(api.Seller), new(api.Customer)).Title)
	i.Type = "END_OF_PERIOD"
	require.Equal(t, "Invoice 12", i.Title())
	i.Number = 0
	require.Equal(t, "Pending invoice", i.Title())
}
