package billing

import (
	"slices"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/wire"
)

// ApplyCatalog replaces an environment's catalog with Document, completely or not at all. What the
// document does not name stays, unless Prune archives it. The reply (Result.Value) is an encoded
// CatalogReply.
type ApplyCatalog struct {
	Env      uint32                   `wire:"1"`
	Document catalogs.CatalogDocument `wire:"2"`
	Prune    bool                     `wire:"3"`
	// FeatureIDs and PlanIDs are minted for the document's features and plans, in its order;
	// existing ones keep their ids.
	FeatureIDs []byte `wire:"4"`
	PlanIDs    []byte `wire:"5"` // 16 bytes each, concatenated
	Actor      string `wire:"6"`
}

func (c *ApplyCatalog) apply(t *turn, e *accounts.Environment) engine.Outcome {
	if !t.Sweep(e) { // what is due uses the versions and names that were newest then
		return engine.OutcomeDeferred
	}
	t.Spend(e.Catalog.Load().Weight())
	r := catalogs.Revise(e.Catalog.Load(), &c.Document, catalogs.Revision{
		Prune: c.Prune, Minted: true, FeatureIDs: c.FeatureIDs, PlanIDs: c.PlanIDs,
	})
	// The document may archive the whole catalog, so the reply is allocated once.
	t.Reply = wire.Encode(make([]byte, 0, 64*len(r.Reply.Changes)), &r.Reply)
	if r.Outcome != engine.OutcomeDone {
		return r.Outcome
	}
	if o := t.TakesCatalog(e, r.Next); o != engine.OutcomeDone {
		t.Reply = nil
		return o
	}

	t.recordCatalog(c, &r.Reply, e.Catalog.Load(), r.Next)
	e.Catalog.Store(r.Next)
	t.Fold(uint64(len(r.Next.Features)))
	t.Fold(uint64(len(r.Next.Versions)))
	return engine.OutcomeDone
}

// Plans lists an environment's ACTIVE plans in their newest versions, oldest plan first.
func (m *accountReader) Plans(env uint32) []PlanView {
	e := m.state.Load().Environment(env)
	if e == nil {
		return nil
	}
	c := e.Catalog.Load()
	views := []PlanView{}
	for _, p := range c.Plans {
		if p.Document.Status == catalogs.PlanActive {
			views = append(views, planView(c, p.Newest()))
		}
	}
	return views
}

// PlanVersions lists the versions of a plan, newest first. ok is false if the plan does not exist.
func (m *accountReader) PlanVersions(env uint32, plan string) (views []PlanVersionView, ok bool) {
	e := m.state.Load().Environment(env)
	if e == nil {
		return nil, false
	}
	p := e.Catalog.Load().PlanNamed(plan)
	if p == nil {
		return nil, false
	}
	for _, v := range slices.Backward(p.Versions) {
		views = append(views, PlanVersionView{
			Version: v.Version, PriceAmount: v.Price, Currency: v.Currency,
			IntervalMonths: v.Interval, BillingTiming: v.Timing, Subscribers: v.Subscribers.Load(),
		})
	}
	return views, true
}

// SubscriberQuery asks for a page of a plan's subscriptions that have not ended, of the newest
// customers first.
type SubscriberQuery struct {
	Env  uint32
	Plan string // its id (text form) or key
	// Version selects one version; 0 selects every one.
	Version uint32
	// Before is where the page before ended. Limit is how many subscriptions end a page, and Scan
	// bounds the rows of customers that it looks at.
	Before      uint32
	Limit, Scan int
}

// SubscribersOf lists subscriptions to a plan. next is where the next page begins, 0 at the end. ok
// is false if the plan does not exist.
func (m *customerReader) SubscribersOf(
	q *SubscriberQuery,
) (list []SubscriberView, next uint32, ok bool) {
	s := m.state.Load()
	e := s.Environment(q.Env)
	if e == nil {
		return nil, 0, false
	}
	p := e.Catalog.Load().PlanNamed(q.Plan)
	if p == nil {
		return nil, 0, false
	}
	row, list := min(q.Before, s.whole.customers.Load()+1), []SubscriberView{}
	for scan := q.Scan; row > 1 && scan > 0 && len(list) < q.Limit; scan-- {
		row--
		list = subscriptionsTo(s, list, row, p.Number, q)
	}
	if row > 1 {
		next = row
	}
	return list, next, true
}

// subscriptionsTo appends those of a customer.
func subscriptionsTo(
	s *state, list []SubscriberView, customer, plan uint32, q *SubscriberQuery,
) []SubscriberView {
	lock := s.ReadLock(customer)
	defer lock.RUnlock()
	c := s.Customers.Read(customer)
	if c.Env != q.Env {
		return list
	}
	// Read under the lock: a subscription's version is in it, whatever was applied just now.
	versions := s.Environment(q.Env).Catalog.Load()
	for row := c.FirstSubscription; row != 0; {
		b := s.Subscriptions.Whole(row)
		row = b.Next
		v := versions.Version(b.Version)
		if b.EndedAt != 0 || v.Plan != plan || q.Version != 0 && v.Version != q.Version {
			continue
		}
		list = append(list, SubscriberView{
			SubscriptionID: b.ID, CustomerReferenceID: string(s.ExternalID(c)),
			Version: v.Version, CreatedAt: b.CreatedAt,
		})
	}
	return list
}

// Features lists an environment's features, archived ones too, oldest first.
func (m *accountReader) Features(env uint32) []FeatureView {
	e := m.state.Load().Environment(env)
	if e == nil {
		return nil
	}
	c := e.Catalog.Load()
	views := make([]FeatureView, len(c.Features))
	for i, f := range c.Features {
		views[i] = featureView(f)
	}
	return views
}

// Catalog returns an environment's catalog as a document with defaults filled in: features that are
// not archived, and all plans in their newest versions. Applying it changes nothing.
func (m *accountReader) Catalog(env uint32) catalogs.CatalogDocument {
	var doc catalogs.CatalogDocument
	e := m.state.Load().Environment(env)
	if e == nil {
		return doc
	}
	c := e.Catalog.Load()
	for _, f := range c.Features {
		if !f.Archived {
			doc.Features = append(doc.Features, f.Document)
		}
	}
	for _, p := range c.Plans {
		doc.Plans = append(doc.Plans, c.PlanDocument(p))
	}
	return doc
}

// DiffCatalog returns what ApplyCatalog would change, or why it would refuse.
func (m *accountReader) DiffCatalog(
	env uint32, doc *catalogs.CatalogDocument, prune bool,
) catalogs.CatalogReply {
	e := m.state.Load().Environment(env)
	if e == nil {
		return catalogs.CatalogReply{Outcome: engine.OutcomeAccountUnknown}
	}
	return catalogs.Revise(e.Catalog.Load(), doc, catalogs.Revision{Prune: prune}).Reply
}

// JudgeCatalog returns what a document would create in an environment without a catalog, or
// everything that is wrong with it.
func JudgeCatalog(doc *catalogs.CatalogDocument) catalogs.CatalogReply {
	return catalogs.Revise(catalogs.NewCatalog(), doc, catalogs.Revision{}).Reply
}

// featureView describes a feature.
func featureView(f *catalogs.Feature) FeatureView {
	d := &f.Document
	return FeatureView{
		ID: f.ID, Key: d.Key, Name: d.Name, Description: d.Description, Labels: d.Labels,
		HasCost: d.HasCost, CostPerUnit: d.CostPerUnit, Archived: f.Archived,
	}
}

// planView describes a plan version.
func planView(c *catalogs.Catalog, v *catalogs.PlanVersion) PlanView {
	p := c.Plans[v.Plan-1]
	view := PlanView{
		ID: p.ID, Version: v.Version, Key: p.Document.Key, Name: p.Document.Name,
		Description: p.Document.Description, PriceAmount: v.Price, Currency: v.Currency,
		IntervalMonths: v.Interval, BillingTiming: v.Timing, Status: p.Document.Status,
		Metadata: p.Document.Metadata, Features: make([]PlanFeatureView, len(v.Features)),
		CreditAllocations: v.Allocations, InvoiceAbove: v.InvoiceAbove,
	}
	for i := range v.Features {
		f := &v.Features[i]
		view.Features[i] = PlanFeatureView{
			FeatureView: featureView(c.Features[f.Feature-1]), PricingType: f.PricingType,
			Pricing: f.Pricing,
		}
	}
	return view
}

// FeatureNumber finds a feature by its key; 0 if there is none.
func (m *accountReader) FeatureNumber(env uint32, key string) uint32 {
	if e := m.state.Load().Environment(env); e != nil {
		return e.Catalog.Load().FeatureByKey[key]
	}
	return 0
}

// CatalogFeatures returns the keys of an environment's features, in the order of the catalog.
func (m *accountReader) CatalogFeatures(env uint32) (keys []string) {
	if e := m.state.Load().Environment(env); e != nil {
		for _, f := range e.Catalog.Load().Features {
			keys = append(keys, f.Document.Key)
		}
	}
	return keys
}

// FeatureOfEvent returns the key of the feature that an eventName counts for; "" if there is none.
func (m *accountReader) FeatureOfEvent(env uint32, name []byte) string {
	e := m.state.Load().Environment(env)
	if e == nil {
		return ""
	}
	c := e.Catalog.Load()
	if number := c.FeatureNamed(name); number != 0 {
		return c.Feature(number).Document.Key
	}
	return ""
}
