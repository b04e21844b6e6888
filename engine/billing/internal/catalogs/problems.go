package catalogs

import (
	"fmt"
	"slices"

	"tollgate/engine/decimal"
	"tollgate/engine/price"
	"tollgate/engine/schema"
)

// Bounds of a catalog document.
const (
	maxKeyCharacters         = 128
	MaxNameCharacters        = 128
	maxDescriptionCharacters = 1000
	maxUnitLabelCharacters   = 64
	maxLabels                = 50
	maxDocumentFeatures      = 1000
	maxDocumentPlans         = 1000
	maxPlanFeatures          = 500
	maxThresholds            = 8
	maxIntervalMonths        = 120
	MaxMetadataBytes         = 8 << 10
	// maxProblems is how many mistakes the reply to a command names, maxCompared a comparison's: that
	// is no part of the state machine.
	maxProblems = 20
	maxCompared = 200
)

// problems validates a normalised document against the catalog that it would change.
func (c *Catalog) problems(doc *CatalogDocument, r Revision) *problems {
	p := &problems{
		c: c, features: map[string]bool{}, labels: map[string]string{}, most: maxCompared,
	}
	if r.Minted {
		p.most = maxProblems
	}
	p.document(doc, r)
	return p
}

// problems collects the mistakes of a document, worded as those of other requests.
type problems struct {
	c       *Catalog
	found   []CatalogProblem
	most    int // that are named
	omitted uint32
	// features are the keys that the document defines; labels map its labels to the feature's key.
	features map[string]bool
	labels   map[string]string
}

func (p *problems) add(place, format string, args ...any) {
	if len(p.found) >= p.most {
		p.omitted++
		return
	}
	p.found = append(p.found, CatalogProblem{place, fmt.Sprintf(format, args...)})
}

// when adds a mistake where something is so.
func (p *problems) when(is bool, place, format string, args ...any) {
	if is {
		p.add(place, format, args...)
	}
}

func (p *problems) document(doc *CatalogDocument, r Revision) {
	if len(doc.Features) > maxDocumentFeatures {
		p.add("features", "%s in one document", schema.TooMany(maxDocumentFeatures))
		return
	}
	if len(doc.Plans) > maxDocumentPlans {
		p.add("plans", "%s in one document", schema.TooMany(maxDocumentPlans))
		return
	}
	p.when(r.Minted && len(r.FeatureIDs) != 16*len(doc.Features), "features",
		"the command carries no id for each")
	p.when(r.Minted && len(r.PlanIDs) != 16*len(doc.Plans), "plans",
		"the command carries no id for each")
	for i := range doc.Features {
		p.feature(fmt.Sprintf("features[%d]", i), &doc.Features[i])
	}
	p.takenLabels(doc)
	keys := map[string]bool{}
	for i := range doc.Plans {
		place := fmt.Sprintf("plans[%d]", i)
		p.when(keys[doc.Plans[i].Key], place+".key", "%q appears more than once", doc.Plans[i].Key)
		keys[doc.Plans[i].Key] = true
		p.plan(place, &doc.Plans[i])
	}
}

func (p *problems) feature(place string, d *FeatureDocument) {
	p.text(place+".key", d.Key, 1, maxKeyCharacters)
	p.text(place+".name", d.Name, 0, MaxNameCharacters)
	p.text(place+".description", d.Description, 0, maxDescriptionCharacters)
	p.when(p.features[d.Key], place+".key", "%q appears more than once", d.Key)
	p.features[d.Key] = true
	p.amount(place+".costPerUnit", d.CostPerUnit)
	if len(d.Labels) > maxLabels {
		p.add(place+".labels", "%s", schema.TooMany(maxLabels))
		return
	}
	for i, label := range d.Labels {
		at := fmt.Sprintf("%s.labels[%d]", place, i)
		p.text(at, label, 1, maxKeyCharacters)
		of, taken := p.labels[label]
		p.when(taken, at, "%q is a label of feature %q already", label, of)
		p.labels[label] = d.Key
	}
}

// takenLabels refuses labels of other features: an eventName must name one feature.
func (p *problems) takenLabels(doc *CatalogDocument) {
	for i := range doc.Features {
		d := &doc.Features[i]
		for j, label := range d.Labels {
			at := fmt.Sprintf("features[%d].labels[%d]", i, j)
			_, isKey := p.c.FeatureByKey[label]
			p.when((isKey || p.features[label]) && label != d.Key, at, "%q is the key of another feature",
				label)
			f := p.c.Feature(p.c.featureByLabel[label])
			if f != nil && !f.Archived && !p.features[f.Document.Key] {
				p.add(at, "%q is a label of feature %q already", label, f.Document.Key)
			}
		}
		f := p.c.Feature(p.c.featureByLabel[d.Key])
		if f != nil && !f.Archived && f.Document.Key != d.Key && !p.features[f.Document.Key] {
			p.add(fmt.Sprintf("features[%d].key", i), "%q is a label of feature %q", d.Key,
				f.Document.Key)
		}
	}
}

func (p *problems) plan(place string, d *PlanDocument) {
	p.text(place+".key", d.Key, 1, maxKeyCharacters)
	p.text(place+".name", d.Name, 0, MaxNameCharacters)
	p.text(place+".description", d.Description, 0, maxDescriptionCharacters)
	p.amount(place+".priceAmount", d.PriceAmount)
	p.amount(place+".invoiceAbove", d.InvoiceAbove)
	p.when(d.InvoiceAbove.Sign() > 0 && d.InvoiceAbove.Less(decimal.FromInt(1)),
		place+".invoiceAbove", "must be 0 or at least 1 %s", d.Currency)
	_, known := decimal.MinorUnits(d.Currency)
	p.when(!known, place+".currency", "%q is not an ISO 4217 code", d.Currency)
	p.when(d.IntervalMonths < 1 || d.IntervalMonths > maxIntervalMonths, place+".intervalMonths",
		"%s", schema.Outside(1, maxIntervalMonths))
	p.word(place+".billingTiming", d.BillingTiming, TimingInAdvance, TimingInArrears)
	p.word(place+".status", d.Status, PlanActive, planArchived, planDraft)
	p.when(len(d.Metadata) > MaxMetadataBytes, place+".metadata", "must have at most %d bytes",
		MaxMetadataBytes)
	if len(d.Features) > maxPlanFeatures {
		p.add(place+".features", "%s", schema.TooMany(maxPlanFeatures))
		return
	}
	keys := map[string]bool{}
	for i := range d.Features {
		at := fmt.Sprintf("%s.features[%d]", place, i)
		f := &d.Features[i]
		_, exists := p.c.FeatureByKey[f.Key]
		p.when(!exists && !p.features[f.Key], at+".key", "there is no feature %q", f.Key)
		p.when(keys[f.Key], at+".key", "%q appears more than once", f.Key)
		keys[f.Key] = true
		p.pricing(at, f)
	}
	p.allocations(place+".creditAllocations", d)
}

func (p *problems) pricing(place string, f *PlanFeatureDocument) {
	d, at := &f.Pricing, place+".pricing"
	p.text(at+".unitLabel", d.UnitLabel, 0, maxUnitLabelCharacters)
	p.word(at+".resetMode", d.ResetMode, resetModeReset, resetModeAccumulate)
	p.word(at+".limitMode", d.LimitMode, limitModeSoft, limitModeHard)
	p.amount(at+".maxUsage", d.MaxUsage)
	p.when(d.LimitMode == limitModeHard && !d.HasMax, at+".limitMode", "hard needs a maxUsage")
	p.thresholds(at+".thresholds", d)
	p.credits(at+".credits", &d.Credits)
	types := [...]string{pricingIncluded, pricingUsageBased, pricingGraduated}
	if !p.word(place+".pricingType", f.PricingType, types[:]...) {
		return
	}
	m, ok := priceModel(f)
	if !ok {
		p.add(at+".model", "%q does not belong to %s", d.Model, f.PricingType)
		return
	}
	for _, problem := range price.Problems(&m) {
		p.add(at+"."+problem.Place, "%s", problem.Text)
	}
}

// thresholds checks the percents of a limit: ascending, and only where there is one.
func (p *problems) thresholds(place string, d *PricingDocument) {
	switch {
	case len(d.Thresholds) > maxThresholds:
		p.add(place, "%s", schema.TooMany(maxThresholds))
	case len(d.Thresholds) > 0 && d.MaxUsage.Sign() <= 0:
		p.add(place, "need a maxUsage above 0")
	}
	before := byte(0)
	for i, percent := range d.Thresholds {
		if percent <= before || percent > 100 {
			p.add(fmt.Sprintf("%s[%d]", place, i), "must be 1 to 100 percent, ascending")
			return
		}
		before = percent
	}
}

// text checks a text's length in characters, and that it holds no control characters.
func (p *problems) text(place, text string, minimum, maximum int) {
	switch wrong := schema.CheckText(text, minimum, maximum); wrong {
	case "":
	case schema.Empty:
		p.add(place, schema.Required)
	default:
		p.add(place, "%s", wrong)
	}
}

// word checks that a value is one of a list.
func (p *problems) word(place, value string, allowed ...string) bool {
	known := slices.Contains(allowed, value)
	if !known {
		p.add(place, "%s", schema.NotAllowed(allowed...))
	}
	return known
}

// amount checks that a number is neither negative nor out of range.
func (p *problems) amount(place string, d decimal.Decimal) {
	if d.Sign() < 0 {
		p.add(place, schema.Negative)
	} else if !d.InRange() {
		p.add(place, "is out of range")
	}
}
