package console

import (
	"bytes"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/bill"
	"tollgate/server/console/page"
)

// catalogLimit bounds a catalog's form in bytes: percent-encoding makes of one byte three.
const catalogLimit = 3 << 20

func (s *Console) catalogRows() []row {
	const catalog = "/accounts/{account}/{environment}/catalog"
	apply := form(catalog, "apply catalog", applyCatalog)
	apply.limit = catalogLimit
	return []row{look(catalog, "catalog", func(v *visit) { showCatalog(v, nil) }), apply}
}

type catalogData struct {
	Base     string
	Manage   bool
	Plans    []bill.Plan
	Document string
	Prune    bool
	// Changed is what applying would change, of a document that was looked at.
	Looked  bool
	Changed []api.CatalogChange
	Empty   bool
	Example string
}

// firstCatalog is a whole, small catalog to begin with.
const firstCatalog = `features:
  - key: api_calls
    name: API calls
    labels: [api.call]
plans:
  - key: starter
    name: Starter
    priceAmount: 20
    currency: USD
    intervalMonths: 1
    features:
      - key: api_calls
        pricingType: usage_based
        pricing: {pricePerUnit: 0.01, includedUnits: 1000, maxUsage: 100000}
`

// showCatalog is the catalog as a document, or the one that the operator is writing.
func showCatalog(v *visit, looked *catalogData) {
	document := need[jsontext.Value](v, v.admin, v.adminCall("showCatalog"))
	plans := need[[]api.Plan](v, v.client, server.Call{Operation: "listPlans"})
	if v.fails() {
		return
	}
	data := catalogData{Example: firstCatalog}
	if looked != nil {
		data = *looked
	}
	data.Base, data.Manage, data.Plans = v.base()+"/catalog", v.manage, bill.InWords(plans)
	data.Empty = bytes.Equal(document, []byte(`{"features":[],"plans":[]}`))
	if data.Document == "" {
		data.Document = firstCatalog
		if !data.Empty {
			if err := document.Indent(jsontext.WithIndent("  ")); err != nil {
				v.x.Refuse(server.FaultInternal)
				return
			}
			data.Document = string(document)
		}
	}
	v.show(v.environmentPage("catalog", "Catalog", "Catalog", "", data))
}

// applyCatalog previews or applies a document.
func applyCatalog(v *visit) {
	data := catalogData{Document: v.fields.Get("document"), Prune: v.fields.Get("prune") == "true"}
	apply := v.fields.Get("action") == "apply"
	call := v.adminCall("applyCatalog")
	call.Query = url.Values{"dryRun": {"true"}}
	if apply {
		call.Query.Set("dryRun", "false")
	}
	if data.Prune {
		call.Query.Set("prune", "true")
	}
	call.Body, call.Media = []byte(data.Document), "application/yaml"
	if strings.HasPrefix(strings.TrimSpace(data.Document), "{") {
		call.Media = "application/json"
	}
	type changes struct {
		Changes []api.CatalogChange `json:"changes"`
	}
	made, fault := dataOf[changes](v, v.admin(call))
	if apply {
		v.finish(fault, func() { showCatalog(v, &data) }, v.base()+"/catalog", "catalog")
		return
	}
	if fault != nil {
		v.problem(fault)
	} else {
		data.Looked, data.Changed = true, made.Changes
		v.notice = &page.Notice{
			Tone: page.Hint, Title: "Nothing has changed yet",
			Detail: "Below is what applying the document would change.",
		}
	}
	showCatalog(v, &data)
}
