package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/url"
	"strconv"
)

type marginCommand struct {
	AdminFlags       `embed:""`
	EnvironmentFlags `embed:""`
	OutputFlags      `embed:""`
	From             string `required:"" placeholder:"TIME" help:"Earliest instant, RFC 3339."`
	To               string `required:"" placeholder:"TIME" help:"Instants before this, RFC 3339."`
	By               string `default:"customer" enum:"customer,feature,plan" help:"customer, feature or plan."`
}

// Help says what is counted.
func (c *marginCommand) Help() string {
	return "Revenue is what invoices of the time amount to, by the instant of their issue; cost is " +
		"what was recorded with usage events, by the instant at which they occurred."
}

// Run shows revenue, cost and margin.
func (c *marginCommand) Run(ctx context.Context, out io.Writer) error {
	var report struct {
		Rows []struct {
			Key      string      `json:"key"`
			Currency string      `json:"currency"`
			Revenue  json.Number `json:"revenue"`
			Cost     json.Number `json:"cost"`
			Margin   json.Number `json:"margin"`
			Events   uint64      `json:"events"`
		} `json:"rows"`
	}
	query := url.Values{"from": {c.From}, "to": {c.To}, "by": {c.By}}
	data, err := c.read(ctx, c.path()+"/margin?"+query.Encode(), &report)
	return c.answer(out, data, err, func() error {
		t := NewTable(out, "KEY", "REVENUE", "COST", "MARGIN", "EVENTS")
		for _, r := range report.Rows {
			t.Row(either(r.Key, "–"), money(r.Revenue, r.Currency), money(r.Cost, r.Currency),
				money(r.Margin, r.Currency), strconv.FormatUint(r.Events, 10))
		}
		return t.End()
	})
}
