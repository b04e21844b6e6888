package console

import (
	"net/url"
	"time"

	api "tollgate/sdk/go"
)

// denialData is the page of denied checks.
type denialData struct {
	Base, Environment string
	Reasons           []string
	Reason, From, To  string
	Customers         []api.CustomerDenials
	Others            int
	// Uncounted says why they are not counted.
	Uncounted string
}

// ChecksURL lists a customer's denied checks.
func (d denialData) ChecksURL(customer string) string {
	query := url.Values{"kind": {"audit"}, "denied": {"true"}}
	for name, text := range map[string]string{"from": d.From, "to": d.To} {
		if text != "" {
			query.Set(name, text)
		}
	}
	return d.Environment + "/customers/" + url.PathEscape(customer) + "/events?" + query.Encode()
}

// CustomerURL is a customer's page.
func (d denialData) CustomerURL(customer string) string {
	return d.Environment + "/customers/" + url.PathEscape(customer)
}

// showDenials is the page …/denied: to whom checks were denied, and why.
func showDenials(v *visit) {
	data := denialData{
		Environment: v.base(), Base: v.base() + "/denied", Reason: v.query("reason"),
		From: v.query("from"), To: v.query("to"),
	}
	if route, known := v.console.config.Admin.Operation("deniedByCustomer"); known {
		for _, p := range route.Params {
			if p.Name == "reason" {
				data.Reasons = p.Schema.Enum
			}
		}
	}
	call := v.adminCall("deniedByCustomer")
	call.Query = url.Values{"limit": {"100"}}
	for name, text := range map[string]string{
		"reason": data.Reason, "from": data.From, "to": data.To,
	} {
		if text == "" {
			continue
		}
		if at, err := time.Parse(time.DateOnly, text); err == nil && name != "reason" {
			if name == "to" { // the last day
				at = at.AddDate(0, 0, 1)
			}
			text = written(at)
		}
		call.Query.Set(name, text)
	}
	type denials struct {
		Customers []api.CustomerDenials `json:"customers"`
		Others    int                   `json:"others"`
	}
	found, fault := dataOf[denials](v, v.admin(call))
	switch {
	case fault == nil:
		data.Customers, data.Others = found.Customers, found.Others
	case fault.Code == "still_counting":
		data.Uncounted = fault.Message
	default:
		v.problem(fault)
	}
	v.show(v.environmentPage("denied", "Denied checks", "Denied checks",
		"Who was refused, and why. Checks are kept for a time, 30 days unless the operator says otherwise.",
		data))
}
