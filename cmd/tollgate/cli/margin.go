package cli

import (
	"io"
	"strconv"

	api "tollgate/sdk/go"
)

type marginFlags struct {
	environmentOutput `embed:""`
	From              string `query:"from" required:"" placeholder:"TIME" help:"Earliest instant, RFC 3339."`
	To                string `query:"to" required:"" placeholder:"TIME" help:"Instants before this, RFC 3339."`
	By                string `query:"by" default:"customer" enum:"customer,feature,plan" help:"customer, feature or plan."`
}

// Help says what is counted.
func (c *marginFlags) Help() string {
	return "Revenue is what invoices of the time amount to, by the instant of their issue; cost is " +
		"what was recorded with usage events, by the instant at which they occurred."
}

type margins struct {
	Rows []api.MarginRow `json:"rows"`
}

func (m *margins) print(out io.Writer) error {
	t := NewTable(out, "KEY", "REVENUE", "COST", "MARGIN", "EVENTS", "OVERRUNS")
	for _, r := range m.Rows {
		t.Row(either(r.Key, "–"), money(r.Revenue, r.Currency), money(r.Cost, r.Currency),
			money(r.Margin, r.Currency), strconv.Itoa(r.Events), strconv.Itoa(r.Overruns))
	}
	return t.End()
}
