package console

import (
	"bytes"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
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
	return []row{
		look(catalog, "catalog", func(v *visit) { showCatalog(v, nil) }), apply,
		live(look(catalog+".json", "catalog as a file", downloadCatalog)),
		look(catalog+"/{plan}", "plan", showPlan),
	}
}

type catalogData struct {
	Base   string
	Manage bool
	// Plans are a page of the catalog's, or the one whose price is calculated.
	Plans []bill.Plan
	Pager page.Pager
	// Document is empty where it is Large: there is a file then.
	Document string
	Large    bool
	Prune    bool
	// Changed is what applying would change, of a document that was looked at.
	Looked  bool
	Changed []api.CatalogChange
	Empty   bool
	Example string
	// Subscribers counts those of each plan. Priced is what the usage that was typed in costs.
	Subscribers map[string]int64
	Priced      *pricedPlan
	// Features are those of the catalog with their plans, and MoreFeatures how many it leaves out.
	Features     []plannedFeature
	MoreFeatures int
}

// plannedFeature is a feature with the keys of the plans that have it.
type plannedFeature struct {
	billing.FeatureView
	Plans []string
}

// A page of any catalog is small: it has so many plans, features of a plan, features, plans of a
// feature, and bytes of the document.
const (
	catalogPlans     = 20
	catalogOfPlan    = 8
	catalogFeatures  = 50
	catalogOfFeature = 5
	catalogBytes     = 16 << 10
)

// Calculates reports whether it is the plan whose price is calculated.
func (d catalogData) Calculates(plan string) bool {
	return d.Priced != nil && d.Priced.Key == plan
}

// First are the first features of a plan, and More is how many others it has.
func (catalogData) First(p bill.Plan) []bill.Feature {
	return p.Features[:min(len(p.Features), catalogOfPlan)]
}

// More is how many features First leaves out.
func (catalogData) More(p bill.Plan) int { return max(len(p.Features)-catalogOfPlan, 0) }

// First are the first plans that have a feature, and More is how many others do.
func (f plannedFeature) First() []string { return f.Plans[:min(len(f.Plans), catalogOfFeature)] }

// More is how many plans First leaves out.
func (f plannedFeature) More() int { return max(len(f.Plans)-catalogOfFeature, 0) }

// planned are the features of a catalog, and the plans that have each.
func planned(features []billing.FeatureView, plans []api.Plan) (list []plannedFeature) {
	has := map[string][]string{}
	for i := range plans {
		for _, f := range plans[i].Features {
			has[f.Key] = append(has[f.Key], plans[i].Key)
		}
	}
	for _, f := range features {
		if !f.Archived {
			list = append(list, plannedFeature{f, has[f.Key]})
		}
	}
	return list
}

// pricedPlan is what a period of a plan costs with some usage.
type pricedPlan struct {
	Key, Name string
	billing.PricePreview
	// Typed is what each feature's field has.
	Typed map[string]string
}

// unitsField is how the names of the calculator's fields begin.
const unitsField = "units."

// price calculates what the page's address asks for; nil where it asks for nothing.
func (v *visit) price(plans []api.Plan) *pricedPlan {
	at := slices.IndexFunc(plans, func(p api.Plan) bool { return p.Key == v.query("plan") })
	if at < 0 {
		return nil
	}
	p := &pricedPlan{Key: plans[at].Key, Name: plans[at].Name, Typed: map[string]string{}}
	units := map[string]decimal.Decimal{}
	for _, f := range plans[at].Features {
		text := strings.ReplaceAll(strings.TrimSpace(v.query(unitsField+f.Key)), ",", "")
		p.Typed[f.Key] = text
		if text == "" {
			continue
		}
		n, err := decimal.Parse(text)
		if err != nil || n.Sign() < 0 {
			v.wrong(unitsField+f.Key, "Enter a number of units, such as 1200")
			continue
		}
		units[f.Key] = n
	}
	if v.wrongs != nil {
		return p
	}
	var outcome engine.Outcome
	p.PricePreview, outcome = v.console.config.Machine.PreviewPrice(v.env, p.Key, units)
	if outcome != engine.OutcomeDone {
		v.problem(server.FaultOf(outcome))
	}
	return p
}

type planData struct {
	Base, Environment string
	Versions          []api.PlanVersion
	// Version is the one whose subscribers are listed; 0: all are.
	Version     int
	Subscribers []api.Subscriber
	CSV         string
	Pager       page.Pager
}

// showPlan is a plan's versions, with how many are subscribed to each, and who they are.
func showPlan(v *visit) {
	key := string(v.x.Param(2))
	data := planData{
		Base: v.base() + "/catalog/" + url.PathEscape(key), Environment: v.base(),
		Versions: need[[]api.PlanVersion](v, v.admin, v.adminCall("listPlanVersions", key)),
	}
	call, keep := v.paged(v.adminCall("listSubscribers", key), "50"), url.Values{}
	if version := v.query("version"); version != "" {
		call.Query.Set("version", version)
		keep.Set("version", version)
		data.Version, _ = strconv.Atoi(version)
	}
	list := need[api.SubscriberPage](v, v.admin, call)
	data.CSV = data.Base + "/subscribers.csv?" + keep.Encode()
	data.Subscribers = list.Subscribers
	data.Pager = v.pages(data.Base, list.NextCursor, keep).Of(len(list.Subscribers), "subscriber")
	v.show(v.below(v.environmentPage("plan", "Catalog", "Plan "+key, "", data),
		"Catalog", v.base()+"/catalog"))
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
	data.Base, data.Manage = v.base()+"/catalog", v.manage
	data.Subscribers = v.console.config.Machine.Subscribers(v.env)
	data.Priced = v.price(plans)
	if data.Priced != nil {
		data.Plans = bill.InWords(slices.DeleteFunc(plans, func(p api.Plan) bool {
			return p.Key != data.Priced.Key
		}))
	} else {
		from, _ := strconv.Atoi(v.query("cursor"))
		from = min(max(from, 0), len(plans))
		to, next := min(from+catalogPlans, len(plans)), ""
		if to < len(plans) {
			next = strconv.Itoa(to)
		}
		data.Plans = bill.InWords(plans[from:to])
		data.Pager = v.pages(data.Base, next, nil).Within(from, to-from, len(plans), "plan")
		data.Features = planned(v.console.config.Machine.Features(v.env), plans)
	}
	if more := len(data.Features) - catalogFeatures; more > 0 {
		data.Features, data.MoreFeatures = data.Features[:catalogFeatures], more
	}
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
		if data.Large = len(data.Document) > catalogBytes; data.Large {
			data.Document = ""
		}
	}
	v.show(v.environmentPage("catalog", "Catalog", "Catalog", "", data))
}

// downloadCatalog is the catalog's document as a file.
func downloadCatalog(v *visit) {
	document := need[jsontext.Value](v, v.admin, v.adminCall("showCatalog"))
	if v.fails() {
		return
	}
	if err := document.Indent(jsontext.WithIndent("  ")); err != nil {
		v.x.Refuse(server.FaultInternal)
		return
	}
	v.x.Ctx.Response.Header.Set("Content-Disposition",
		`attachment; filename="`+v.account+`-`+v.environment+`-catalog.json"`)
	v.console.site.Guard(v.x)
	v.x.Bare(200, "application/json", document)
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
		v.finish(fault, func(v *visit) { showCatalog(v, &data) }, v.base()+"/catalog", "catalog")
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
