package owner

import (
	"net/url"
	"strings"

	"tollgate/server/console/page"
	"tollgate/server/workspaceapi"
)

type searchPage struct {
	Sought   string
	Results  []shownResult
	Complete bool
}

type shownResult struct {
	workspaceapi.Found
	URL string
}

// showSearch lists what a text names in the workspace; the page of a single record is opened.
func showSearch(v *visit) {
	data := searchPage{Sought: strings.TrimSpace(v.query("q"))}
	found, complete := v.config.Workspaces.Search(v.who.Workspace, data.Sought, pageSize)
	data.Complete = complete
	for _, f := range found {
		data.Results = append(data.Results, shownResult{f, foundURL(&f)})
	}
	if len(found) == 1 && complete {
		v.site.Redirect(v.x, data.Results[0].URL)
		return
	}
	v.show(page.View{Page: "search", Title: "Search", Data: data, Sought: data.Sought})
}

func foundURL(f *workspaceapi.Found) string {
	if f.Kind == "issue" {
		return Root + "/issues"
	}
	return Root + "/" + f.Kind + "s/" + url.PathEscape(f.ID)
}
