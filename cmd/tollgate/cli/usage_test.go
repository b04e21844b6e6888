package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	api "tollgate/sdk/go"
)

// What is unpaid and suspended stands behind what was used, checked and billed.
func TestUsageShowsWhatIsDueNow(t *testing.T) {
	day := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	v := usageTotals{
		By: "day", ChecksFrom: day, SuspendedSubscriptions: 4,
		Checks: []api.ChecksSeries{{Reason: "allowed", Points: []api.ChecksPoint{{Start: day, Checks: 9}}}},
		Revenue: []api.RevenueSeries{
			{Currency: "USD", Due: "1012.5", DueInvoices: 2, PastDue: "3", PastDueInvoices: 1},
			{Currency: "EUR", MonthlyRecurring: "16.67", Subscriptions: 3},
		},
		Customers: 7,
	}
	var out bytes.Buffer
	require.NoError(t, v.print(&out))
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	require.Equal(t, []string{
		"TIME WHAT COUNT UNITS OR AMOUNT",
		"2026-05-01 checks are counted from here",
		"2026-05-01 check: allowed 9",
		"now due, USD 2 1,012.5",
		"now past due, USD 1 3",
		"now recurring in a month, EUR 3 16.67",
		"now suspended subscriptions 4",
		"now customers 7",
	}, lines)
}
