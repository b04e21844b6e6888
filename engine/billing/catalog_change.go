package billing

import (
	"encoding/json"
	"strconv"
	"strings"

	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/decimal"
)

// Bounds of the record of a catalog change.
const (
	// maxCatalogChanges bounds the features and plans that it names.
	maxCatalogChanges = 100
	// maxCatalogFields bounds their fields, before and after.
	maxCatalogFields = 100
	// maxCatalogLooks bounds the fields and features of plans that are compared.
	maxCatalogLooks = 1000
)

// recordCatalog records the changes of a catalog document: first the features and plans, then their
// fields before and after.
func (t *turn) recordCatalog(
	c *ApplyCatalog, r *catalogs.CatalogReply, before, after *catalogs.Catalog,
) {
	if len(r.Changes) == 0 {
		return
	}
	named := r.Changes[:min(len(r.Changes), maxCatalogChanges)]
	d := catalogDifference{before: before, after: after}
	for _, changed := range named {
		was := "there"
		if changed.Action == catalogs.ActionCreated {
			was = ""
		}
		d.summary = append(d.summary, accounts.FieldChange{
			Name: changed.Kind + " " + changed.Key, Before: was, After: changed.Action,
		})
	}
	if more := len(r.Changes) - len(named); more > 0 {
		d.summary = append(d.summary, accounts.FieldChange{
			Name: "more", After: strconv.Itoa(more) + " more changes",
		})
	}
	whole := 0
	for i := range named {
		if d.full() {
			break
		}
		if d.one(&named[i]); !d.cut {
			whole++
		}
	}
	if more := len(r.Changes) - whole; more > 0 {
		d.fields = append(d.fields, accounts.FieldChange{
			Name:  "more fields",
			After: "of " + strconv.Itoa(more) + " more changes are not, or not all, recorded",
		})
	}
	t.Spend(d.looks)
	t.NoteChange(c.Env, c.Actor, "catalog.applied", "", append(d.summary, d.fields...)...)
}

// catalogDifference collects the fields in which two catalogs differ.
type catalogDifference struct {
	before, after   *catalogs.Catalog
	summary, fields []accounts.FieldChange
	looks           int
	cut             bool // something is omitted
}

func (d *catalogDifference) full() bool {
	return d.looks >= maxCatalogLooks || len(d.fields) >= maxCatalogFields
}

// field adds one field if it changed.
func (d *catalogDifference) field(name, before, after string) {
	d.looks++
	switch {
	case before == after:
	case d.full():
		d.cut = true
	default:
		d.fields = append(d.fields, accounts.FieldChange{Name: name, Before: before, After: after})
	}
}

// one compares a feature or a plan. A new one had empty fields before.
func (d *catalogDifference) one(c *catalogs.CatalogChange) {
	place := c.Kind + " " + c.Key + " "
	if c.Kind == "feature" {
		d.feature(place, d.before.FeatureByKey[c.Key], d.after.FeatureByKey[c.Key])
		return
	}
	var was catalogs.PlanDocument
	if n, ok := d.before.PlanByKey[c.Key]; ok {
		was = d.before.PlanDocument(d.before.Plans[n-1])
	}
	is := d.after.PlanDocument(d.after.Plans[d.after.PlanByKey[c.Key]-1])
	d.plan(place, &was, &is)
}

func (d *catalogDifference) feature(place string, before, after uint32) {
	was, is := new(catalogs.Feature), d.after.Feature(after)
	archived := ""
	if before != 0 {
		was = d.before.Feature(before)
		archived = strconv.FormatBool(was.Archived)
	}
	a, b := &was.Document, &is.Document
	d.field(place+"name", a.Name, b.Name)
	d.field(place+"description", a.Description, b.Description)
	d.field(place+"labels", strings.Join(a.Labels, ", "), strings.Join(b.Labels, ", "))
	d.field(place+"costPerUnit", given(a.HasCost, a.CostPerUnit), given(b.HasCost, b.CostPerUnit))
	if before != 0 {
		d.field(place+"archived", archived, strconv.FormatBool(is.Archived))
	}
}

// given formats a number that may be absent.
func given(has bool, v decimal.Decimal) string {
	if !has {
		return ""
	}
	return v.String()
}

func (d *catalogDifference) plan(place string, a, b *catalogs.PlanDocument) {
	existed := a.Currency != ""
	number := func(n uint32) string { return strconv.FormatUint(uint64(n), 10) }
	interval := ""
	if existed {
		interval = number(a.IntervalMonths)
	}
	d.field(place+"name", a.Name, b.Name)
	d.field(place+"description", a.Description, b.Description)
	d.field(place+"price", given(existed, a.PriceAmount), b.PriceAmount.String())
	d.field(place+"currency", a.Currency, b.Currency)
	d.field(place+"interval", interval, number(b.IntervalMonths))
	d.field(place+"timing", a.BillingTiming, b.BillingTiming)
	if a.Interim() || b.Interim() {
		d.field(place+"invoiceAbove",
			given(a.Interim(), a.InvoiceAbove), given(b.Interim(), b.InvoiceAbove))
	}
	d.field(place+"status", a.Status, b.Status)
	d.field(place+"metadata", string(a.Metadata), string(b.Metadata))
	d.planFeatures(place+"feature ", a.Features, b.Features)
	d.looks += len(a.CreditAllocations) + len(b.CreditAllocations)
	d.field(place+"credits",
		allocationsText(a.CreditAllocations), allocationsText(b.CreditAllocations))
}

// planFeatures compares the pricing of a plan's features: first the present ones, then those
// removed.
func (d *catalogDifference) planFeatures(
	place string, before, after []catalogs.PlanFeatureDocument,
) {
	was := make(map[string]*catalogs.PlanFeatureDocument, len(before))
	for i := range before {
		was[before[i].Key] = &before[i]
	}
	for i := range after {
		if d.full() {
			d.cut = true
			return
		}
		f := &after[i]
		old := was[f.Key]
		delete(was, f.Key)
		switch {
		case old == nil:
			d.field(place+f.Key, "", pricingText(f))
		case catalogs.Same(old, f):
			d.looks++
		default:
			d.field(place+f.Key, pricingText(old), pricingText(f))
		}
	}
	for i := range before {
		if _, gone := was[before[i].Key]; gone {
			d.field(place+before[i].Key, pricingText(&before[i]), "")
		}
	}
}

// pricingText formats the pricing of a feature as compact JSON in the order of the keys, without
// empty values and zeros. note cuts values that are too long.
func pricingText(f *catalogs.PlanFeatureDocument) string {
	p := &f.Pricing
	fields := map[string]any{"pricingType": f.PricingType}
	texts := map[string]string{
		"model": p.Model, "unitLabel": p.UnitLabel, "resetMode": p.ResetMode,
		"limitMode": p.LimitMode, "creditPool": p.Credits.Pool,
	}
	for name, v := range texts { // any order: each has its own place
		if v != "" {
			fields[name] = v
		}
	}
	numbers := map[string]decimal.Decimal{
		"pricePerUnit": p.PricePerUnit, "includedUnits": p.IncludedUnits,
		"packageSize": p.PackageSize, "pricePerPackage": p.PricePerPackage,
		"creditWeight": p.Credits.Weight,
	}
	for name, v := range numbers { // any order: each has its own place
		if !v.IsZero() {
			fields[name] = v
		}
	}
	if p.HasMax {
		fields["maxUsage"] = p.MaxUsage
	}
	if len(p.Thresholds) > 0 {
		fields["thresholds"] = percents(p.Thresholds)
	}
	if len(p.Tiers) > 0 {
		tiers := make([]map[string]any, len(p.Tiers))
		for i, t := range p.Tiers {
			tiers[i] = map[string]any{"pricePerUnit": t.PricePerUnit, "flatFee": t.FlatFee}
			if !t.Infinite {
				tiers[i]["upTo"] = t.UpTo
			}
		}
		fields["tiers"] = tiers
	}
	return compactJSON(fields)
}

// percents are thresholds as JSON has them: bytes would be base64.
func percents(thresholds []byte) (all []int) {
	for _, percent := range thresholds {
		all = append(all, int(percent))
	}
	return all
}

// allocationsText formats the credits that a plan grants as compact JSON; empty if there are none.
func allocationsText(all []catalogs.CreditAllocationDocument) string {
	if len(all) == 0 {
		return ""
	}
	list := make([]map[string]any, len(all))
	for i := range all {
		a := &all[i]
		list[i] = map[string]any{
			"pool": a.Pool, "denomination": a.Denomination, "currency": a.Currency,
			"amount": a.Amount, "priority": a.Priority, "expiresAfterDays": a.ExpiresAfterDays,
			"rolloverPolicy": a.RolloverPolicy, "hardLimit": a.HardLimit,
		}
		if a.HasCap {
			list[i]["rolloverCap"] = a.RolloverCap
		}
		if a.Watched() {
			list[i]["lowBalance"] = a.LowBalance
		}
	}
	return compactJSON(list)
}

// compactJSON encodes maps, lists, texts and decimals, which cannot fail.
func compactJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic("billing: the record of a catalog change does not encode: " + err.Error())
	}
	return string(text)
}
