package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	api "tollgate/sdk/go"
)

// A line says what it is for, how its tiers make the amount, and in which currency it cost.
func TestInvoiceLinesSayTheirPeriodAndTiers(t *testing.T) {
	may := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	june := may.AddDate(0, 1, 0)
	v := invoice{api.Invoice{Currency: "USD", Amount: "22.93", Items: []api.InvoiceItem{
		{
			Description: "Base price", Quantity: "1", UnitPrice: "20", Amount: "20", PeriodStart: june,
			PeriodEnd: june.AddDate(0, 1, 0),
		},
		{
			Description: "Calls", FeatureKey: "calls", Quantity: "817022", Amount: "2.93",
			PeriodStart: may, PeriodEnd: june, CostAmount: "0.5", Tiers: []byte(
				`[{"upTo":500000,"pricePerUnit":0.000004,"flatFee":0},` +
					`{"upTo":"inf","pricePerUnit":0.000003,"flatFee":1}]`),
		},
		{
			Description: "Tokens", FeatureKey: "tokens", Quantity: "1500", Amount: "6",
			PeriodStart: may, PeriodEnd: june, Parts: []api.InvoicePart{
				{Kind: "included", Units: "500", UnitPrice: "0", Amount: "0"},
				{Kind: "tier", Units: "100", UnitPrice: "0.01", UpTo: "100", Amount: "1"},
				{Kind: "tier", Units: "900", UnitPrice: "0.005", FlatFee: "0.5", Amount: "5"},
			},
		},
	}}}
	var out bytes.Buffer
	require.NoError(t, v.print(&out))
	text := strings.Join(strings.Fields(out.String()), " ")
	require.Contains(t, text, "Base price – 2026-06-01 – 2026-07-01 1 20.00 USD 20.00 USD Calls "+
		"calls 2026-05-01 – 2026-06-01 817,022 2.93 USD 0.50 USD up to 500,000 0.000004 USD "+
		"beyond 0.000003 USD and 1.00 USD Tokens tokens 2026-05-01 – 2026-06-01 1,500 6.00 USD "+
		"included 500 0.00 USD up to 100 100 0.01 USD 1.00 USD "+
		"beyond 900 0.005 USD and 0.50 USD 5.00 USD 22.93 USD")
}

// What is scheduled for a subscription stands behind it.
func TestSubscriptionsSayWhatIsScheduled(t *testing.T) {
	at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for want, s := range map[string]api.Subscription{
		"":                          {IsActive: true},
		"ends 2026-05-01T00:00:00Z": {IsActive: true, CancelEffectiveAt: at},
		"downgrade to small 2026-05-01T00:00:00Z": {IsActive: true, ScheduledChange: &api.ScheduledChange{
			Type: "DOWNGRADE", ToPlan: api.Plan{Key: "small"}, EffectiveAt: at,
		}},
	} {
		require.Equal(t, want, scheduled(&s))
	}
	require.Empty(t, scheduled(&api.Subscription{CancelEffectiveAt: at}), "it has ended")
}
