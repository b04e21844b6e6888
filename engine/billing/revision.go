package billing

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"tollgate/engine"
	"tollgate/engine/wire"
)

// Bounds of a catalog, so that one environment cannot crowd out the others.
const (
	MaxFeatures     = 10_000
	MaxPlans        = 10_000
	MaxPlanVersions = 100_000
)

// Actions of a CatalogChange.
const (
	actionCreated  = "created"
	actionUpdated  = "updated"
	actionArchived = "archived"
)

// revision says how a document is applied to a catalog.
type revision struct {
	prune bool
	// minted reports whether ids for new features and plans come with it; a mere comparison has
	// none.
	minted              bool
	featureIDs, planIDs []byte
}

// revised is what comes of a document: the next catalog, or why there is none.
type revised struct {
	next    *catalog
	reply   CatalogReply
	outcome engine.Outcome
}

// revise makes the catalog that follows c when doc is applied to it. It is a pure function, which
// ApplyCatalog and DiffCatalog share; c and doc stay as they are.
func revise(c *catalog, doc *CatalogDocument, r revision) revised {
	doc = normalise(doc)
	if problem := c.problems(doc, r); problem != "" {
		return refuse(engine.OutcomeCatalogInvalid, problem)
	}
	w := &reviser{revision: r, next: c.clone(), named: map[string]bool{}}
	for i := range doc.Features {
		w.feature(i, &doc.Features[i])
	}
	for i := range doc.Plans {
		if problem := w.plan(i, &doc.Plans[i]); problem != "" {
			return refuse(engine.OutcomeCurrencyFixed, problem)
		}
	}
	if r.prune {
		w.archive(doc)
	}
	if w.relabel {
		w.next.label()
	}
	if problem := w.next.overfull(); problem != "" {
		return refuse(engine.OutcomeCatalogInvalid, problem)
	}
	return revised{w.next, CatalogReply{Changes: w.changes}, engine.OutcomeDone}
}

func refuse(outcome engine.Outcome, problem string) revised {
	return revised{reply: CatalogReply{Problem: problem, Outcome: outcome}, outcome: outcome}
}

// overfull says which bound the catalog exceeds.
func (c *catalog) overfull() string {
	switch {
	case len(c.features) > MaxFeatures:
		return fmt.Sprintf("features: the catalog would have more than %d", MaxFeatures)
	case len(c.plans) > MaxPlans:
		return fmt.Sprintf("plans: the catalog would have more than %d", MaxPlans)
	case len(c.versions) > MaxPlanVersions:
		return fmt.Sprintf("plans: the catalog would have more than %d versions", MaxPlanVersions)
	}
	return ""
}

// reviser is a revision under way.
type reviser struct {
	revision
	next    *catalog
	changes []CatalogChange
	named   map[string]bool // features that the document's plans use
	// The next catalog's maps are the last one's until there is something to add to them.
	ownsFeatures, ownsPlans bool
	relabel                 bool // a feature was added, changed or archived
}

func (w *reviser) changed(kind, key, action string) {
	w.changes = append(w.changes, CatalogChange{Kind: kind, Key: key, Action: action})
}

// id returns the i-th of the concatenated ids; zero in a comparison.
func (w *reviser) id(ids []byte, i int) (id [16]byte) {
	if w.minted {
		copy(id[:], ids[16*i:])
	}
	return id
}

func (w *reviser) feature(i int, d *FeatureDocument) {
	c := w.next
	number, exists := c.featureByKey[d.Key]
	if !exists {
		if !w.ownsFeatures {
			w.ownsFeatures = true
			c.featureByKey, c.featureByID = maps.Clone(c.featureByKey), maps.Clone(c.featureByID)
		}
		w.relabel = true
		f := &feature{number: uint32(len(c.features)) + 1, id: w.id(w.featureIDs, i), document: *d}
		c.features = append(c.features, f)
		c.featureByKey[d.Key] = f.number
		c.featureByID[f.id] = f.number
		w.changed("feature", d.Key, actionCreated)
		return
	}
	old := c.features[number-1]
	if !old.archived && same(&old.document, d) {
		return
	}
	w.relabel = true
	c.features[number-1] = &feature{number: number, id: old.id, document: *d}
	w.changed("feature", d.Key, actionUpdated)
}

// plan applies one plan of the document; the problem is a currency that cannot change.
func (w *reviser) plan(i int, d *PlanDocument) (problem string) {
	c := w.next
	for j := range d.Features {
		w.named[d.Features[j].Key] = true
	}
	own, versioned := split(d)
	number, exists := c.planByKey[d.Key]
	if !exists {
		if !w.ownsPlans {
			w.ownsPlans = true
			c.planByKey, c.planByID = maps.Clone(c.planByKey), maps.Clone(c.planByID)
		}
		p := &plan{
			number: uint32(len(c.plans)) + 1, id: w.id(w.planIDs, i), document: own,
			subscribers: new(atomic.Int64),
		}
		c.plans = append(c.plans, p)
		c.planByKey[d.Key] = p.number
		c.planByID[p.id] = p.number
		c.addVersion(p, &versioned)
		w.changed("plan", d.Key, actionCreated)
		return ""
	}
	old := c.plans[number-1]
	newest := c.versionDocument(old.newest())
	if newest.Currency != d.Currency && old.subscribers.Load() > 0 {
		return fmt.Sprintf("plans[%d].currency: plan %q has subscribers, so its currency stays %s",
			i, d.Key, newest.Currency)
	}
	sameVersion, sameOwn := same(&newest, &versioned), same(&old.document, &own)
	if sameVersion && sameOwn {
		return ""
	}
	p := *old
	p.document = own
	c.plans[number-1] = &p
	if !sameVersion {
		c.addVersion(&p, &versioned)
	}
	action := actionUpdated
	if own.Status == planArchived && old.document.Status != planArchived {
		action = actionArchived
	}
	w.changed("plan", d.Key, action)
	return ""
}

// addVersion appends a version to a plan that this revision owns.
func (c *catalog) addVersion(p *plan, d *PlanDocument) {
	v := c.newVersion(p, d)
	p.versions = append(p.versions[:len(p.versions):len(p.versions)], v)
	c.versions = append(c.versions, v)
}

// archive ends what the document does not name. A feature that one of its plans uses is named.
func (w *reviser) archive(doc *CatalogDocument) {
	features, plans := map[string]bool{}, map[string]bool{}
	for i := range doc.Features {
		features[doc.Features[i].Key] = true
	}
	for i := range doc.Plans {
		plans[doc.Plans[i].Key] = true
	}
	c := w.next
	w.changes = slices.Grow(w.changes, len(c.features)+len(c.plans))
	for i, f := range c.features {
		if !f.archived && !features[f.document.Key] && !w.named[f.document.Key] {
			archived := *f
			archived.archived, w.relabel = true, true
			c.features[i] = &archived
			w.changed("feature", f.document.Key, actionArchived)
		}
	}
	for i, p := range c.plans {
		if p.document.Status != planArchived && !plans[p.document.Key] {
			archived := *p
			archived.document.Status = planArchived
			c.plans[i] = &archived
			w.changed("plan", p.document.Key, actionArchived)
		}
	}
}

// split tells what belongs to the plan from what belongs to its version.
func split(d *PlanDocument) (own, versioned PlanDocument) {
	own = PlanDocument{
		Key: d.Key, Name: d.Name, Description: d.Description, Status: d.Status,
		Metadata: d.Metadata,
	}
	versioned = PlanDocument{
		PriceAmount: d.PriceAmount, Currency: d.Currency, IntervalMonths: d.IntervalMonths,
		BillingTiming: d.BillingTiming, Features: d.Features,
		CreditAllocations: d.CreditAllocations,
	}
	return own, versioned
}

// same compares two values by their encoding.
func same(a, b wire.Fielder) bool {
	return bytes.Equal(wire.Encode(nil, a), wire.Encode(nil, b))
}

// normalise copies a document, fills in the defaults, and shares no memory that may change.
func normalise(doc *CatalogDocument) *CatalogDocument {
	n := &CatalogDocument{
		Features: append([]FeatureDocument(nil), doc.Features...),
		Plans:    append([]PlanDocument(nil), doc.Plans...),
	}
	for i := range n.Features {
		n.Features[i].Labels = append([]string(nil), n.Features[i].Labels...)
	}
	for i := range n.Plans {
		d := &n.Plans[i]
		d.Metadata = bytes.Clone(d.Metadata)
		d.Currency = strings.ToUpper(d.Currency)
		d.BillingTiming = either(d.BillingTiming, timingInAdvance)
		d.Status = either(d.Status, planActive)
		d.Features = append([]PlanFeatureDocument(nil), d.Features...)
		for j := range d.Features {
			d.Features[j].Pricing = d.Features[j].Pricing.normalised(d.Features[j].PricingType)
		}
		d.CreditAllocations = normalisedAllocations(d)
	}
	return n
}

// either returns v, or the default where the document leaves it out.
func either(v, otherwise string) string {
	if v == "" {
		return otherwise
	}
	return v
}
