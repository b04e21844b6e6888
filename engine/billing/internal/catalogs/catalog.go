// Package catalogs has what an environment sells: features, plans with their versions, and how a
// document becomes the next catalog. A catalog never changes. The package knows neither accounts
// nor customers.
package catalogs

import "tollgate/engine/uuid"

// Size counts what a catalog holds.
func (c *Catalog) Size() uint64 {
	return uint64(len(c.Features) + len(c.Plans) + len(c.Versions))
}

// Catalog is what an environment sells. It never changes: ApplyCatalog publishes a new one, which
// shares the unchanged parts. Features, plans and versions are numbered from 1 in the order in
// which they came and are never removed, because subscriptions and journal records name them by
// number.
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

// clone copies the catalog's lists, but not their elements. Maps are shared: a revision copies one
// before it adds a feature or a plan, so that changing a price copies none.
func (c *Catalog) clone() *Catalog {
	next := *c
	next.Features = append([]*Feature(nil), c.Features...)
	next.Plans = append([]*Plan(nil), c.Plans...)
	next.Versions = c.Versions[:len(c.Versions):len(c.Versions)]
	return &next
}

// Weight returns the units of work for revising the catalog.
func (c *Catalog) Weight() int { return 4 + (len(c.Features)+len(c.Plans))/2 + len(c.Versions)/8 }

// Label rebuilds featureByLabel. Labels of archived features keep working until a live feature
// takes them.
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

// Feature returns feature number n; nil if there is none.
func (c *Catalog) Feature(n uint32) *Feature {
	if n == 0 || uint64(n) > uint64(len(c.Features)) {
		return nil
	}
	return c.Features[n-1]
}

// Version returns plan version number n, which a subscription names, so it exists. The newest
// version has its own branch, so that the processor predicts it and continues while it waits for n.
func (c *Catalog) Version(n uint32) *PlanVersion {
	if newest := len(c.Versions); n == uint32(newest) {
		return c.Versions[newest-1]
	}
	return c.Versions[n-1]
}

// PlanKey returns the key of a version's plan.
func (c *Catalog) PlanKey(version uint32) string {
	return c.Plans[c.Version(version).Plan-1].Document.Key
}

// FeatureNamed resolves an eventName to a feature with this key, else this label; 0 if there is
// none.
func (c *Catalog) FeatureNamed(name []byte) uint32 {
	if n, ok := c.FeatureByKey[string(name)]; ok {
		return n
	}
	return c.featureByLabel[string(name)]
}

// PlanNamed finds a plan by its id in text form, else by its key; nil if there is none.
func (c *Catalog) PlanNamed(name string) *Plan {
	number, ok := uint32(0), false
	if id, isID := uuid.Parse(name); isID {
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

// PlanDocument returns a plan in its newest version.
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

// HasVersion reports whether plan version n exists.
func (c *Catalog) HasVersion(n uint32) bool {
	return n != 0 && uint64(n) <= uint64(len(c.Versions))
}
