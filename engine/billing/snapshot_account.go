package billing

import (
	"bytes"
	"fmt"
	"sync/atomic"
)

// accountRecord is an account in a snapshot, with both of its environments.
type accountRecord struct {
	ID           [16]byte            `wire:"1"`
	Name         string              `wire:"2"`
	CreatedAt    int64               `wire:"3"`
	Environments []environmentRecord `wire:"4"` // sandbox, live
}

// environmentRecord is an environment in a snapshot.
type environmentRecord struct {
	Offset   int64           `wire:"1"`
	Invoices uint64          `wire:"2"`
	Keys     []keyRecord     `wire:"3"`
	Features []featureRecord `wire:"4"` // in the order of their numbers
	Plans    []planRecord    `wire:"5"` // in the order of their numbers
	Origins  []string        `wire:"40"`
	Payment  PaymentSettings `wire:"41"`
	Terms    paymentTerms    `wire:"42"`

	Unmatched []UnmatchedName `wire:"56"`
}

// keyRecord is an API key in a snapshot.
type keyRecord struct {
	ID           [16]byte `wire:"1"`
	Hash         [32]byte `wire:"2"`
	Scope        Scope    `wire:"3"`
	Label        string   `wire:"4"`
	Hint         string   `wire:"5"`
	CreatedAt    int64    `wire:"6"`
	RevokedAt    int64    `wire:"7"`
	RevokedIndex uint64   `wire:"8"`
	Customer     uint32   `wire:"9"`
}

// record encodes the environment as it was after the entry at index.
func (e *environmentFixed) record(index uint64) environmentRecord {
	r := environmentRecord{
		Offset: e.offset, Invoices: e.invoices, Origins: e.origins, Unmatched: e.unmatched,
	}
	if e.payment.Revision > 0 {
		r.Payment = e.payment
	}
	if e.terms.Set {
		r.Terms = e.terms
	}
	for _, k := range e.keys {
		key := keyRecord{
			ID: k.id, Hash: k.hash, Scope: k.scope, Label: k.label, Hint: k.hint,
			CreatedAt: k.createdAt, Customer: k.customer,
		}
		if revoked := k.revoked.Load(); revoked != nil && revoked.index <= index {
			key.RevokedAt, key.RevokedIndex = revoked.at, revoked.index
		}
		r.Keys = append(r.Keys, key)
	}
	for _, f := range e.catalog.features {
		r.Features = append(r.Features, featureRecord{f.id, f.document, f.archived})
	}
	for _, p := range e.catalog.plans {
		plan := planRecord{ID: p.id, Document: p.document}
		for _, v := range p.versions {
			plan.Versions = append(plan.Versions, versionRecord{
				v.number, e.catalog.versionDocument(v),
			})
		}
		r.Plans = append(r.Plans, plan)
	}
	return r
}

func (s *state) restoreAccount(r *accountRecord) error {
	if len(r.Environments) != 2 {
		return fmt.Errorf("%w: account %q has %d environments", ErrSnapshot, r.Name,
			len(r.Environments))
	}
	s.addAccount(&account{id: r.ID, name: r.Name, createdAt: r.CreatedAt})
	environments := s.environments.All()
	for i := range r.Environments {
		e := environments[len(environments)-2+i]
		if err := s.restoreEnvironment(e, &r.Environments[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *state) restoreEnvironment(e *environment, r *environmentRecord) error {
	e.offset.Store(r.Offset)
	e.invoices = r.Invoices
	e.restoreUnmatched(r.Unmatched)
	if r.Payment.Revision > 0 {
		e.payment.Store(&r.Payment)
	}
	if r.Terms.Set {
		e.terms.Store(&r.Terms)
	}
	if len(r.Origins) > 0 {
		e.origins.Store(&r.Origins)
	}
	for i := range r.Keys {
		k := &r.Keys[i]
		key := &apiKey{
			id: k.ID, hash: k.Hash, env: e.number, scope: k.Scope,
			label: k.Label, hint: k.Hint, createdAt: k.CreatedAt, customer: k.Customer,
		}
		if k.RevokedIndex != 0 {
			key.revoked.Store(&revocation{at: k.RevokedAt, index: k.RevokedIndex})
		}
		s.addKey(key)
	}
	c, err := restoreCatalog(r)
	if err != nil {
		return err
	}
	e.catalog.Store(c)
	return nil
}

// restoreCatalog rebuilds a catalog with the numbers that it had.
func restoreCatalog(r *environmentRecord) (*catalog, error) {
	c := newCatalog()
	for i := range r.Features {
		f := &r.Features[i]
		number := uint32(i) + 1
		c.features = append(c.features, &feature{number, f.ID, f.Document, f.Archived})
		c.featureByKey[f.Document.Key] = number
		c.featureByID[f.ID] = number
	}
	versions := 0
	for i := range r.Plans {
		versions += len(r.Plans[i].Versions)
	}
	c.versions = make([]*planVersion, versions)
	for i := range r.Plans {
		d := &r.Plans[i]
		p := &plan{
			number: uint32(i) + 1, id: d.ID, document: d.Document, subscribers: new(atomic.Int64),
		}
		p.document.Metadata = bytes.Clone(d.Document.Metadata)
		for j := range d.Versions {
			if err := c.restoreVersion(p, &d.Versions[j]); err != nil {
				return nil, err
			}
		}
		if len(p.versions) == 0 {
			return nil, fmt.Errorf("%w: plan %q has no version", ErrSnapshot, p.document.Key)
		}
		c.plans = append(c.plans, p)
		c.planByKey[p.document.Key] = p.number
		c.planByID[p.id] = p.number
	}
	c.label()
	return c, nil
}

// restoreVersion adds a plan version of a snapshot.
func (c *catalog) restoreVersion(p *plan, r *versionRecord) error {
	for i := range r.Document.Features {
		if c.featureByKey[r.Document.Features[i].Key] == 0 {
			return fmt.Errorf("%w: plan %q has an unknown feature", ErrSnapshot, p.document.Key)
		}
	}
	n := uint64(r.Number)
	if n == 0 || n > uint64(len(c.versions)) || c.versions[n-1] != nil {
		return fmt.Errorf("%w: plan %q has a version with the number %d", ErrSnapshot,
			p.document.Key, r.Number)
	}
	v := c.newVersion(p, &r.Document)
	v.number = r.Number
	p.versions = append(p.versions, v)
	c.versions[n-1] = v
	return nil
}
