package bill_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	api "tollgate/sdk/go"
	"tollgate/server/console/bill"
	"tollgate/server/document"
)

// TestALineShowsHowItsAmountIsMade: by parts where the answer has them, else by the tiers' prices;
// money has the places of its currency.
func TestALineShowsHowItsAmountIsMade(t *testing.T) {
	for _, c := range []struct {
		item, price string
		parts       []document.Part
	}{
		{`{"unitPrice":20}`, "20.00", nil},
		{`{"unitPrice":0.000003}`, "0.000003", nil},
		{
			`{"tiers":[{"upTo":"inf","pricePerUnit":2,"flatFee":0}],` +
				`"parts":[{"kind":"tier","units":5,"unitPrice":2,"amount":10}]}`, "2.00", nil,
		},
		{
			`{"unitPrice":0.01,"parts":[{"kind":"included","units":1000,"unitPrice":0,"amount":0},` +
				`{"kind":"units","units":500,"unitPrice":0.01,"amount":5}]}`, "0.01",
			[]document.Part{
				{What: "included", Quantity: "1,000", Amount: "0.00"},
				{What: "priced", Quantity: "500", Price: "0.01", Amount: "5.00"},
			},
		},
		{
			`{"tiers":[{}],"parts":[{"kind":"included","units":10,"unitPrice":0,"amount":0},` +
				`{"kind":"tier","units":100000,"unitPrice":0.000003,"upTo":100000,"amount":0.3},` +
				`{"kind":"tier","units":50000,"unitPrice":0.0000026,"flatFee":1,"amount":1.13}]}`, "by tier",
			[]document.Part{
				{What: "included", Quantity: "10", Amount: "0.00"},
				{What: "up to 100,000", Quantity: "100,000", Price: "0.000003", Amount: "0.30"},
				{What: "beyond", Quantity: "50,000", Price: "0.0000026", Amount: "0.13"},
				{What: "flat fee", Amount: "1.00"},
			},
		},
		{
			`{"parts":[{"kind":"packages","units":3,"unitPrice":2,"amount":6}]}`, "",
			[]document.Part{{What: "packages begun", Quantity: "3", Price: "2.00", Amount: "6.00"}},
		},
		{ // late usage
			`{"tiers":[{"upTo":5,"pricePerUnit":2,"flatFee":1},{"upTo":"inf","pricePerUnit":1,` +
				`"flatFee":0}]}`, "by tier",
			[]document.Part{
				{What: "up to 5", Price: "2.00"},
				{What: "flat fee of this tier", Price: "1.00"},
				{What: "beyond", Price: "1.00"},
			},
		},
	} {
		var item bill.Item
		require.NoError(t, json.Unmarshal([]byte(c.item), &item))
		i := bill.Invoice{Invoice: api.Invoice{Currency: "USD"}, Items: []bill.Item{item}}
		line := i.Document("demo", &api.Seller{}, &api.Customer{}).Lines[0]
		require.Equal(t, c.price, line.Price, c.item)
		require.Equal(t, c.parts, line.Parts, c.item)
	}
}
