package console

import (
	"net/url"

	api "tollgate/sdk/go"
	"tollgate/server"
)

// denialData is the page of denied checks.
type denialData struct {
	Base, Environment string
	Reasons           []string
	Reason, From, To  string
	denialRanking
	CSV string
	// Uncounted says why they are not counted.
	Uncounted string
}

// denialRanking are customers and reasons by denied checks.
type denialRanking struct {
	Customers []api.CustomerDenials `json:"customers"`
	Others    int                   `json:"others"`
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
	found, fault := dataOf[denialRanking](v, v.admin(denialCall(v, "100")))
	switch {
	case fault == nil:
		data.denialRanking, data.CSV = found, csvOf(v, "denied", "reason", "from", "to")
	case fault.Code == "still_counting":
		data.Uncounted = fault.Message
	default:
		v.problem(fault)
	}
	v.show(v.environmentPage("denied", "Denied checks", "Denied checks",
		"Who was refused, and why. Checks are kept for a time, 30 days unless the operator says otherwise.",
		data))
}

// denialCall asks for what the page's address selects, so many at most.
func denialCall(v *visit, limit string) server.Call {
	call := v.adminCall("deniedByCustomer")
	call.Query = url.Values{"limit": {limit}}
	if reason := v.query("reason"); reason != "" {
		call.Query.Set("reason", reason)
	}
	inRange(v, call.Query)
	return call
}
