// Package catalogs has what an environment offers: features, plans with their versions, and how a
// document becomes the next catalog. A catalog never changes. It knows no account and no customer.
package catalogs

import "tollgate/engine/billing/internal/rows"

// Size counts what a catalog holds.
func (c *Catalog) Size() uint64 {
	return uint64(len(c.Features) + len(c.Plans) + len(c.Versions))
}

// Catalog is what an environment sells. It never changes: ApplyCatalog publishes a new one that
// shares what stayed. Features, plans and versions are numbered from 1 in the order in which they
// came, and none is ever removed: subscriptions and journal records name them by number.
type Catalog struct {
	Features []*Feature
	Plans    []*Plan
	Versions []*PlanVersion

	FeatureByKey   map[string]uint32
	featureByLabel map[string]uint32
	FeatureByID    map[[16]byte]uint32
	PlanByKey      map[string]uint32
	PlanByID       map[[16]byte]uint32
}

// NewCatalog returns a catalog without features and plans.
func NewCatalog() *Catalog {
	return &Catalog{
		FeatureByKey:   map[string]uint32{},
		featureByLabel: map[string]uint32{},
		FeatureByID:    map[[16]byte]uint32{},
		PlanByKey:      map[string]uint32{},
		PlanByID:       map[[16]byte]uint32{},
	}
}

// clone copies the catalog's lists, but not what they hold. Maps are shared: a revision that adds a
// feature or a plan owns them first, so that one that changes a price need not copy them.
func (c *Catalog) clone() *Catalog {
	next := *c
	next.Features = append([]*Feature(nil), c.Features...)
	next.Plans = append([]*Plan(nil), c.Plans...)
	next.Versions = c.Versions[:len(c.Versions):len(c.Versions)]
	return &next
}

// Weight is how many units of work it is to revise the catalog.
func (c *Catalog) Weight() int { return 4 + (len(c.Features)+len(c.Plans))/2 + len(c.Versions)/8 }

// Label rebuilds featureByLabel: the labels of archived features go on working, but give way to
// those of live ones.
func (c *Catalog) Label() {
	c.featureByLabel = map[string]uint32{}
	for _, archived := range [...]bool{true, false} {
		for _, f := range c.Features {
			if f.Archived != archived {
				continue
			}
			for _, label := range f.Document.Labels {
				c.featureByLabel[label] = f.Number
			}
		}
	}
}

// Feature returns feature number n; nil when there is none.
func (c *Catalog) Feature(n uint32) *Feature {
	if n == 0 || uint64(n) > uint64(len(c.Features)) {
		return nil
	}
	return c.Features[n-1]
}

// Version returns plan version number n, which a subscription names: it is always there. The newest
// one has a branch of its own: the processor guesses it, and goes on while it waits for n.
func (c *Catalog) Version(n uint32) *PlanVersion {
	if newest := len(c.Versions); n == uint32(newest) {
		return c.Versions[newest-1]
	}
	return c.Versions[n-1]
}

// PlanKey is the key of the plan that a version belongs to.
func (c *Catalog) PlanKey(version uint32) string {
	return c.Plans[c.Version(version).Plan-1].Document.Key
}

// FeatureNamed resolves an eventName: a feature's key, else one of its labels; 0 when neither.
func (c *Catalog) FeatureNamed(name []byte) uint32 {
	if n, ok := c.FeatureByKey[string(name)]; ok {
		return n
	}
	return c.featureByLabel[string(name)]
}

// PlanNamed finds a plan by its id in text form, else by its key; nil when there is none.
func (c *Catalog) PlanNamed(name string) *Plan {
	number, ok := uint32(0), false
	if id, isID := rows.ParseUUID(name); isID {
		number, ok = c.PlanByID[id]
	}
	if !ok {
		number, ok = c.PlanByKey[name]
	}
	if !ok {
		return nil
	}
	return c.Plans[number-1]
}

// PlanDocument is a plan in its newest version.
func (c *Catalog) PlanDocument(p *Plan) PlanDocument {
	d := c.VersionDocument(p.Newest())
	d.Key, d.Name, d.Description = p.Document.Key, p.Document.Name, p.Document.Description
	d.Status, d.Metadata = p.Document.Status, p.Document.Metadata
	return d
}

// Feature is one feature of a catalog. It never changes: a new document replaces it under the same
// number.
type Feature struct {
	Number   uint32
	ID       [16]byte
	Document FeatureDocument
	Archived bool
}

// FeatureRecord is a feature in a snapshot.
type FeatureRecord struct {
	ID       [16]byte        `wire:"1"`
	Document FeatureDocument `wire:"2"`
	Archived bool            `wire:"3"`
}

// HasVersion reports whether a plan version has that number.
func (c *Catalog) HasVersion(n uint32) bool {
	return n != 0 && uint64(n) <= uint64(len(c.Versions))
}
