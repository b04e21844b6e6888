package console

import (
	"net/url"
	"strings"

	api "tollgate/sdk/go"
)

type searchData struct {
	Sought   string
	Results  []shownResult
	Complete bool
}

type shownResult struct {
	api.SearchResult
	URL string
}

// showSearch lists what a text names in the environment; the page of a single result is opened.
func showSearch(v *visit) {
	data := searchData{Sought: strings.TrimSpace(v.query("q")), Complete: true}
	if data.Sought != "" {
		call := v.adminCall("search")
		call.Query = url.Values{"q": {data.Sought}, "limit": {"50"}}
		found := need[api.SearchAnswer](v, v.admin, call)
		data.Complete = found.Complete
		for _, r := range found.Results {
			data.Results = append(data.Results, shownResult{r, v.resultURL(&r)})
		}
	}
	if len(data.Results) == 1 && data.Complete {
		v.console.site.Redirect(v.x, data.Results[0].URL)
		return
	}
	p := v.environmentPage("search", "", "Search", "", data)
	p.Sought = data.Sought
	v.show(p)
}

func (v *visit) resultURL(r *api.SearchResult) string {
	switch r.Kind {
	case "invoice":
		return v.base() + "/invoices/" + r.ID
	case "key":
		return v.base() + "/keys?" + url.Values{"key": {r.ID}}.Encode()
	case "event":
		return v.customerURL(r.CustomerReferenceID) + "/events?" + url.Values{
			"key": {r.ID}, "at": {written(r.OccurredAt)},
		}.Encode()
	}
	return v.customerURL(r.CustomerReferenceID)
}
