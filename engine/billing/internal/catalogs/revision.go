package catalogs

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"tollgate/engine"
	"tollgate/engine/billing/internal/rows"
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
	ActionCreated  = "created"
	actionUpdated  = "updated"
	actionArchived = "archived"
)

// Revision says how a document is applied to a catalog.
type Revision struct {
	Prune bool
	// Minted reports whether it has ids for new features and plans; a comparison has none.
	Minted              bool
	FeatureIDs, PlanIDs []byte
}

// revised is the result of a document: the next catalog, or why there is none.
type revised struct {
	Next    *Catalog
	Reply   CatalogReply
	Outcome engine.Outcome
}

// Revise makes the catalog that follows c when doc is applied to it. It is a pure function, shared
// by ApplyCatalog and DiffCatalog; it changes neither c nor doc.
func Revise(c *Catalog, doc *CatalogDocument, r Revision) revised {
	doc = normalise(doc)
	if p := c.problems(doc, r); len(p.found) > 0 {
		refused := refuse(engine.OutcomeCatalogInvalid, p.found...)
		refused.Reply.Omitted = p.omitted
		return refused
	}
	w := &reviser{Revision: r, next: c.clone(), named: map[string]bool{}}
	for i := range doc.Features {
		w.feature(i, &doc.Features[i])
	}
	for i := range doc.Plans {
		if fixed := w.plan(i, &doc.Plans[i]); fixed != "" {
			return refuse(engine.OutcomeCurrencyFixed,
				CatalogProblem{fmt.Sprintf("plans[%d].currency", i), fixed})
		}
	}
	if r.Prune {
		w.archive(doc)
	}
	if w.relabel {
		w.next.Label()
	}
	if place, bound := w.next.overfull(); bound != "" {
		return refuse(engine.OutcomeCatalogInvalid,
			CatalogProblem{place, "the catalog would have more than " + bound})
	}
	return revised{w.next, CatalogReply{Changes: w.changes}, engine.OutcomeDone}
}

func refuse(outcome engine.Outcome, problems ...CatalogProblem) revised {
	return revised{Reply: CatalogReply{Problems: problems, Outcome: outcome}, Outcome: outcome}
}

// overfull returns the bound that the catalog exceeds, and the place of a document where it grows.
func (c *Catalog) overfull() (place, bound string) {
	switch {
	case len(c.Features) > MaxFeatures:
		return "features", strconv.Itoa(MaxFeatures)
	case len(c.Plans) > MaxPlans:
		return "plans", strconv.Itoa(MaxPlans)
	case len(c.Versions) > MaxPlanVersions:
		return "plans", strconv.Itoa(MaxPlanVersions) + " versions"
	}
	return "", ""
}

// reviser is a revision in progress.
type reviser struct {
	Revision
	next    *Catalog
	changes []CatalogChange
	named   map[string]bool // features that the document's plans use
	// The next catalog shares the maps until one changes.
	ownsFeatures, ownsPlans bool
	relabel                 bool // a feature was added, changed or archived
}

func (w *reviser) changed(kind, key, action string) {
	w.changes = append(w.changes, CatalogChange{Kind: kind, Key: key, Action: action})
}

// id returns the i-th of the concatenated ids; zero in a comparison.
func (w *reviser) id(ids []byte, i int) (id [16]byte) {
	if w.Minted {
		copy(id[:], ids[16*i:])
	}
	return id
}

func (w *reviser) feature(i int, d *FeatureDocument) {
	c := w.next
	number, exists := c.FeatureByKey[d.Key]
	if !exists {
		if !w.ownsFeatures {
			w.ownsFeatures = true
			c.FeatureByKey, c.FeatureByID = maps.Clone(c.FeatureByKey), maps.Clone(c.FeatureByID)
		}
		w.relabel = true
		f := &Feature{Number: uint32(len(c.Features)) + 1, ID: w.id(w.FeatureIDs, i), Document: *d}
		c.Features = append(c.Features, f)
		c.FeatureByKey[d.Key] = f.Number
		c.FeatureByID[f.ID] = f.Number
		w.changed("feature", d.Key, ActionCreated)
		return
	}
	old := c.Features[number-1]
	if !old.Archived && Same(&old.Document, d) {
		return
	}
	w.relabel = true
	c.Features[number-1] = &Feature{Number: number, ID: old.ID, Document: *d}
	w.changed("feature", d.Key, actionUpdated)
}

// plan applies one plan of the document. fixed states why its currency cannot change, if it should.
func (w *reviser) plan(i int, d *PlanDocument) (fixed string) {
	c := w.next
	for j := range d.Features {
		w.named[d.Features[j].Key] = true
	}
	own, versioned := split(d)
	number, exists := c.PlanByKey[d.Key]
	if !exists {
		if !w.ownsPlans {
			w.ownsPlans = true
			c.PlanByKey, c.PlanByID = maps.Clone(c.PlanByKey), maps.Clone(c.PlanByID)
		}
		p := &Plan{
			Number: uint32(len(c.Plans)) + 1, ID: w.id(w.PlanIDs, i), Document: own,
			Subscribers: new(atomic.Int64),
		}
		c.Plans = append(c.Plans, p)
		c.PlanByKey[d.Key] = p.Number
		c.PlanByID[p.ID] = p.Number
		c.addVersion(p, &versioned)
		w.changed("plan", d.Key, ActionCreated)
		return ""
	}
	old := c.Plans[number-1]
	newest := c.VersionDocument(old.Newest())
	if newest.Currency != d.Currency && old.Subscribers.Load() > 0 {
		return fmt.Sprintf("plan %q has subscribers, so its currency stays %s", d.Key,
			newest.Currency)
	}
	sameVersion, sameOwn := Same(&newest, &versioned), Same(&old.Document, &own)
	if sameVersion && sameOwn {
		return ""
	}
	p := *old
	p.Document = own
	c.Plans[number-1] = &p
	if !sameVersion {
		c.addVersion(&p, &versioned)
	}
	action := actionUpdated
	if own.Status == planArchived && old.Document.Status != planArchived {
		action = actionArchived
	}
	w.changed("plan", d.Key, action)
	return ""
}

// addVersion appends a version to a plan that this revision owns.
func (c *Catalog) addVersion(p *Plan, d *PlanDocument) {
	v := c.newVersion(p, d)
	p.Versions = append(p.Versions[:len(p.Versions):len(p.Versions)], v)
	c.Versions = append(c.Versions, v)
}

// archive archives what the document does not name. A feature that one of its plans uses counts as
// named.
func (w *reviser) archive(doc *CatalogDocument) {
	features, plans := map[string]bool{}, map[string]bool{}
	for i := range doc.Features {
		features[doc.Features[i].Key] = true
	}
	for i := range doc.Plans {
		plans[doc.Plans[i].Key] = true
	}
	c := w.next
	w.changes = slices.Grow(w.changes, len(c.Features)+len(c.Plans))
	for i, f := range c.Features {
		if !f.Archived && !features[f.Document.Key] && !w.named[f.Document.Key] {
			archived := *f
			archived.Archived, w.relabel = true, true
			c.Features[i] = &archived
			w.changed("feature", f.Document.Key, actionArchived)
		}
	}
	for i, p := range c.Plans {
		if p.Document.Status != planArchived && !plans[p.Document.Key] {
			archived := *p
			archived.Document.Status = planArchived
			c.Plans[i] = &archived
			w.changed("plan", p.Document.Key, actionArchived)
		}
	}
}

// split separates the plan's fields from its version's.
func split(d *PlanDocument) (own, versioned PlanDocument) {
	own = PlanDocument{
		Key: d.Key, Name: d.Name, Description: d.Description, Status: d.Status,
		Metadata: d.Metadata,
	}
	versioned = PlanDocument{
		PriceAmount: d.PriceAmount, Currency: d.Currency, IntervalMonths: d.IntervalMonths,
		BillingTiming: d.BillingTiming, Features: d.Features,
		CreditAllocations: d.CreditAllocations, InvoiceAbove: d.InvoiceAbove,
	}
	return own, versioned
}

// Same compares two values by their encoding.
func Same(a, b wire.Fielder) bool {
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
		d.BillingTiming = Either(d.BillingTiming, TimingInAdvance)
		d.Status = Either(d.Status, PlanActive)
		d.Features = append([]PlanFeatureDocument(nil), d.Features...)
		for j := range d.Features {
			d.Features[j].Pricing = d.Features[j].Pricing.normalised(d.Features[j].PricingType)
		}
		d.CreditAllocations = normalisedAllocations(d)
	}
	return n
}

// Either returns v, or the default where the document leaves it out.
func Either(v, otherwise string) string {
	if v == "" {
		return otherwise
	}
	return v
}

// RestoreVersion adds a plan version of a snapshot.
func (c *Catalog) RestoreVersion(p *Plan, r *VersionRecord) error {
	for i := range r.Document.Features {
		if c.FeatureByKey[r.Document.Features[i].Key] == 0 {
			return fmt.Errorf("%w: plan %q has an unknown feature", rows.ErrSnapshot, p.Document.Key)
		}
	}
	n := uint64(r.Number)
	if n == 0 || n > uint64(len(c.Versions)) || c.Versions[n-1] != nil {
		return fmt.Errorf("%w: plan %q has a version with the number %d", rows.ErrSnapshot,
			p.Document.Key, r.Number)
	}
	v := c.newVersion(p, &r.Document)
	v.Number = r.Number
	p.Versions = append(p.Versions, v)
	c.Versions[n-1] = v
	return nil
}
