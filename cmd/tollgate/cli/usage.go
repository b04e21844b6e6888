package cli

import (
	"encoding/json"
	"io"
	"strconv"
	"time"

	api "tollgate/sdk/go"
)

type usageFlags struct {
	environmentOutput `embed:""`
	Customer          string `query:"customer,omitempty" placeholder:"ID" help:"Of this customer; of all if absent."`
	Feature           string `query:"feature,omitempty" placeholder:"KEY" help:"Of this feature; of all if absent."`
	By                string `query:"by" default:"day" enum:"hour,day,month" help:"hour, day or month."`
	From              string `query:"from,omitempty" placeholder:"TIME" help:"Earliest instant, RFC 3339."`
	To                string `query:"to,omitempty" placeholder:"TIME" help:"Instants before this, RFC 3339."`
}

// Help says what is shown.
func (c *usageFlags) Help() string {
	return "Without a time it shows 48 hours, 30 days or 12 months, up to the environment's clock. " +
		"Of an environment it also shows how checks came out, and revenue; what is due, " +
		"past due and suspended is as of now."
}

type usageTotals api.UsageTotals

func (v *usageTotals) print(out io.Writer) error {
	layout := map[string]string{
		"hour": "2006-01-02 15:04", "day": time.DateOnly, "month": "2006-01",
	}[v.By]
	t := NewTable(out, "TIME", "WHAT", "COUNT", "UNITS OR AMOUNT")
	row := func(at time.Time, what string, count int, amount json.Number) {
		t.Row(at.UTC().Format(layout), what, strconv.Itoa(count), quantity(amount))
	}
	uncounted := func(at time.Time, what string, amount json.Number) {
		t.Row(at.UTC().Format(layout), what, "", quantity(amount))
	}
	for _, s := range v.Series {
		for _, p := range s.Points {
			row(p.Start, either(s.FeatureKey, "(no feature)"), p.Events, p.UsageUnits)
		}
	}
	if !v.ChecksFrom.IsZero() {
		uncounted(v.ChecksFrom, "checks are counted from here", "")
	}
	for _, c := range v.Checks {
		for _, p := range c.Points {
			row(p.Start, "check: "+c.Reason, p.Checks, "")
		}
	}
	for _, r := range v.Revenue {
		for _, p := range r.Points {
			row(p.Start, "billed, "+r.Currency, p.Invoices, p.Billed)
			uncounted(p.Start, "collected, "+r.Currency, p.Collected)
		}
	}
	now := func(what string, count int, amount json.Number) {
		if count > 0 {
			t.Row("now", what, strconv.Itoa(count), quantity(amount))
		}
	}
	for _, r := range v.Revenue {
		now("due, "+r.Currency, r.DueInvoices, r.Due)
		now("past due, "+r.Currency, r.PastDueInvoices, r.PastDue)
		now("paid, "+r.Currency, r.PaidInvoices, r.Paid)
		now("void, "+r.Currency, r.VoidInvoices, r.Void)
		now("recurring in a month, "+r.Currency, r.Subscriptions, r.MonthlyRecurring)
	}
	now("suspended subscriptions", v.SuspendedSubscriptions, "")
	now("customers", v.Customers, "")
	return t.End()
}
