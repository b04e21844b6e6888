package billing

import (
	"tollgate/engine"
	"tollgate/engine/wire"
)

// ApplyCatalog makes an environment's catalog say what Document says: all or nothing. What the
// document does not name stays, unless Prune is set, which archives it. The reply (Result.Value)
// is an encoded CatalogReply.
type ApplyCatalog struct {
	Env      uint32          `wire:"1"`
	Document CatalogDocument `wire:"2"`
	Prune    bool            `wire:"3"`
	// FeatureIDs and PlanIDs are minted for the document's features and plans, in its order; those
	// that exist keep the ids they have.
	FeatureIDs []byte `wire:"4"`
	PlanIDs    []byte `wire:"5"` // 16 bytes each, concatenated
	Actor      string `wire:"6"`
}

func (c *ApplyCatalog) apply(t *turn) engine.Outcome {
	e := t.environment(c.Env)
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	if !t.sweep(e) { // what is due takes the versions and names that were the newest then
		return engine.OutcomeDeferred
	}
	t.spend(e.catalog.Load().weight())
	r := revise(e.catalog.Load(), &c.Document, revision{
		prune: c.Prune, minted: true, featureIDs: c.FeatureIDs, planIDs: c.PlanIDs,
	})
	// All of a catalog may be archived: the reply is not to grow its way there.
	t.Reply = wire.Encode(make([]byte, 0, 64*len(r.reply.Changes)), &r.reply)
	if r.outcome != engine.OutcomeDone {
		return r.outcome
	}
	if o := t.takesCatalog(e, r.next); o != engine.OutcomeDone {
		t.Reply = nil
		return o
	}

	t.recordCatalog(c, &r.reply, e.catalog.Load(), r.next)
	e.catalog.Store(r.next)
	t.Fold(uint64(len(r.next.features)))
	t.Fold(uint64(len(r.next.versions)))
	return engine.OutcomeDone
}

// catalog is what an environment sells. It never changes: ApplyCatalog publishes a new one that
// shares what stayed. Features, plans and versions are numbered from 1 in the order in which they
// came, and none is ever removed: subscriptions and journal records name them by number.
type catalog struct {
	features []*feature
	plans    []*plan
	versions []*planVersion

	featureByKey   map[string]uint32
	featureByLabel map[string]uint32
	featureByID    map[[16]byte]uint32
	planByKey      map[string]uint32
	planByID       map[[16]byte]uint32
}

// newCatalog returns a catalog without features and plans.
func newCatalog() *catalog {
	return &catalog{
		featureByKey:   map[string]uint32{},
		featureByLabel: map[string]uint32{},
		featureByID:    map[[16]byte]uint32{},
		planByKey:      map[string]uint32{},
		planByID:       map[[16]byte]uint32{},
	}
}

// clone copies the catalog's lists, but not what they hold. Maps are shared: a revision that adds a
// feature or a plan owns them first, so that one that changes a price need not copy them.
func (c *catalog) clone() *catalog {
	next := *c
	next.features = append([]*feature(nil), c.features...)
	next.plans = append([]*plan(nil), c.plans...)
	next.versions = c.versions[:len(c.versions):len(c.versions)]
	return &next
}

// weight is how many units of work it is to revise the catalog.
func (c *catalog) weight() int { return 4 + (len(c.features)+len(c.plans))/2 + len(c.versions)/8 }

// label rebuilds featureByLabel: the labels of archived features go on working, but give way to
// those of live ones.
func (c *catalog) label() {
	c.featureByLabel = map[string]uint32{}
	for _, archived := range [...]bool{true, false} {
		for _, f := range c.features {
			if f.archived != archived {
				continue
			}
			for _, label := range f.document.Labels {
				c.featureByLabel[label] = f.number
			}
		}
	}
}

// feature returns feature number n; nil when there is none.
func (c *catalog) feature(n uint32) *feature {
	if n == 0 || uint64(n) > uint64(len(c.features)) {
		return nil
	}
	return c.features[n-1]
}

// version returns plan version number n, which a subscription names: it is always there.
func (c *catalog) version(n uint32) *planVersion { return c.versions[n-1] }

// planKey is the key of the plan that a version belongs to.
func (c *catalog) planKey(version uint32) string {
	return c.plans[c.version(version).plan-1].document.Key
}

// featureNamed resolves an eventName: a feature's key, else one of its labels; 0 when neither.
func (c *catalog) featureNamed(name []byte) uint32 {
	if n, ok := c.featureByKey[string(name)]; ok {
		return n
	}
	return c.featureByLabel[string(name)]
}

// planNamed finds a plan by its id in text form, else by its key; nil when there is none.
func (c *catalog) planNamed(name string) *plan {
	number, ok := uint32(0), false
	if id, isID := parseUUID(name); isID {
		number, ok = c.planByID[id]
	}
	if !ok {
		number, ok = c.planByKey[name]
	}
	if !ok {
		return nil
	}
	return c.plans[number-1]
}

// Plans lists an environment's ACTIVE plans in their newest versions, oldest plan first.
func (m *Machine) Plans(env uint32) []PlanView {
	e := m.state.Load().environment(env)
	if e == nil {
		return nil
	}
	c := e.catalog.Load()
	views := []PlanView{}
	for _, p := range c.plans {
		if p.document.Status == planActive {
			views = append(views, planView(c, p.newest()))
		}
	}
	return views
}

// Features lists an environment's features, archived ones too, oldest first.
func (m *Machine) Features(env uint32) []FeatureView {
	e := m.state.Load().environment(env)
	if e == nil {
		return nil
	}
	c := e.catalog.Load()
	views := make([]FeatureView, len(c.features))
	for i, f := range c.features {
		views[i] = featureView(f)
	}
	return views
}

// Catalog returns an environment's catalog as a document: features that are not archived, and all
// plans in their newest versions, with defaults filled in. Applying it changes nothing.
func (m *Machine) Catalog(env uint32) CatalogDocument {
	var doc CatalogDocument
	e := m.state.Load().environment(env)
	if e == nil {
		return doc
	}
	c := e.catalog.Load()
	for _, f := range c.features {
		if !f.archived {
			doc.Features = append(doc.Features, f.document)
		}
	}
	for _, p := range c.plans {
		doc.Plans = append(doc.Plans, c.planDocument(p))
	}
	return doc
}

// planDocument is a plan in its newest version.
func (c *catalog) planDocument(p *plan) PlanDocument {
	d := c.versionDocument(p.newest())
	d.Key, d.Name, d.Description = p.document.Key, p.document.Name, p.document.Description
	d.Status, d.Metadata = p.document.Status, p.document.Metadata
	return d
}

// DiffCatalog says what ApplyCatalog would change, or why it would refuse.
func (m *Machine) DiffCatalog(env uint32, doc *CatalogDocument, prune bool) CatalogReply {
	e := m.state.Load().environment(env)
	if e == nil {
		return CatalogReply{
			Problem: "there is no such environment", Outcome: engine.OutcomeAccountUnknown,
		}
	}
	return revise(e.catalog.Load(), doc, revision{prune: prune}).reply
}

// parseUUID reads a UUID's text form, 8-4-4-4-12 hexadecimal digits in either case.
func parseUUID(text string) (id [16]byte, ok bool) {
	if len(text) != 36 {
		return id, false
	}
	n := 0
	for i := 0; i < len(text); i++ {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if text[i] != '-' {
				return id, false
			}
			continue
		}
		v, isHex := hexDigit(text[i])
		if !isHex {
			return id, false
		}
		id[n/2] = id[n/2]<<4 | v
		n++
	}
	return id, true
}

func hexDigit(b byte) (v byte, ok bool) {
	switch {
	case '0' <= b && b <= '9':
		return b - '0', true
	case 'a' <= b && b <= 'f':
		return b - 'a' + 10, true
	case 'A' <= b && b <= 'F':
		return b - 'A' + 10, true
	}
	return 0, false
}

// feature is one feature of a catalog. It never changes: a new document replaces it under the same
// number.
type feature struct {
	number   uint32
	id       [16]byte
	document FeatureDocument
	archived bool
}

// featureView describes a feature.
func featureView(f *feature) FeatureView {
	d := &f.document
	return FeatureView{
		ID: f.id, Key: d.Key, Name: d.Name, Description: d.Description, Labels: d.Labels,
		HasCost: d.HasCost, CostPerUnit: d.CostPerUnit, Archived: f.archived,
	}
}

// featureRecord is a feature in a snapshot.
type featureRecord struct {
	ID       [16]byte        `wire:"1"`
	Document FeatureDocument `wire:"2"`
	Archived bool            `wire:"3"`
}
