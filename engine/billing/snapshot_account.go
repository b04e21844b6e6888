package billing

import (
	"bytes"
	"fmt"
	"sync/atomic"

	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/rows"
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
	Offset   int64                    `wire:"1"`
	Invoices uint64                   `wire:"2"`
	Keys     []keyRecord              `wire:"3"`
	Features []catalogs.FeatureRecord `wire:"4"` // in the order of their numbers
	Plans    []catalogs.PlanRecord    `wire:"5"` // in the order of their numbers
	Origins  []string                 `wire:"40"`
	Payment  accounts.PaymentSettings `wire:"41"`
	Terms    accounts.PaymentTerms    `wire:"42"`
	Seller   []accounts.Seller        `wire:"43"` // none or one: a snapshot without is unchanged
	Portal   []accounts.Portal        `wire:"44"` // the same
	LinkEnds []accounts.LinksEnd      `wire:"45"`
	Sellers  []accounts.FormerSeller  `wire:"46"`

	Unmatched []accounts.UnmatchedName `wire:"56"`
}

// keyRecord is an API key in a snapshot.
type keyRecord struct {
	accounts.KeyFacts
	RevokedAt    int64  `wire:"7"`
	RevokedIndex uint64 `wire:"8"`
}

// record encodes the environment as of the entry at index.
func (e *environmentFixed) record(index uint64) environmentRecord {
	r := environmentRecord{
		Offset: e.offset, Invoices: e.invoices, Origins: e.origins, Unmatched: e.unmatched,
		LinkEnds: e.linkEnds, Sellers: e.sellers,
	}
	if e.portal.Colour != "" || e.portal.LogoMedia != "" {
		r.Portal = []accounts.Portal{e.portal}
	}
	if e.seller != (accounts.Seller{}) {
		r.Seller = []accounts.Seller{e.seller}
	}
	if e.payment.Revision > 0 {
		r.Payment = e.payment
	}
	if e.terms.Set {
		r.Terms = e.terms
	}
	for _, k := range e.keys {
		key := keyRecord{KeyFacts: k.KeyFacts}
		if revoked := k.Revoked.Load(); revoked != nil && revoked.Index <= index {
			key.RevokedAt, key.RevokedIndex = revoked.At, revoked.Index
		}
		r.Keys = append(r.Keys, key)
	}
	for _, f := range e.catalog.Features {
		r.Features = append(
			r.Features, catalogs.FeatureRecord{ID: f.ID, Document: f.Document, Archived: f.Archived},
		)
	}
	for _, p := range e.catalog.Plans {
		plan := catalogs.PlanRecord{ID: p.ID, Document: p.Document}
		for _, v := range p.Versions {
			plan.Versions = append(plan.Versions, catalogs.VersionRecord{
				Number: v.Number, Document: e.catalog.VersionDocument(v),
			})
		}
		r.Plans = append(r.Plans, plan)
	}
	return r
}

func (s *state) restoreAccount(r *accountRecord) error {
	if len(r.Environments) != 2 {
		return fmt.Errorf("%w: account %q has %d environments", rows.ErrSnapshot, r.Name,
			len(r.Environments))
	}
	s.AddAccount(&accounts.Account{ID: r.ID, Name: r.Name, CreatedAt: r.CreatedAt})
	environments := s.Environments.All()
	for i := range r.Environments {
		e := environments[len(environments)-2+i]
		if err := s.restoreEnvironment(e, &r.Environments[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *state) restoreEnvironment(e *accounts.Environment, r *environmentRecord) error {
	e.Offset.Store(r.Offset)
	e.Invoices = r.Invoices
	e.RestoreUnmatched(r.Unmatched)
	if r.Payment.Revision > 0 {
		e.Payment.Store(&r.Payment)
	}
	if r.Terms.Set {
		e.Terms.Store(&r.Terms)
	}
	if len(r.Seller) > 0 {
		e.Seller.Store(&r.Seller[0])
	}
	if len(r.Sellers) > 0 {
		e.Sellers.Store(&r.Sellers)
	}
	if len(r.Portal) > 0 {
		e.Portal.Store(&r.Portal[0])
	}
	if len(r.LinkEnds) > 0 {
		e.LinkEnds.Store(&r.LinkEnds)
	}
	if len(r.Origins) > 0 {
		e.Origins.Store(&r.Origins)
	}
	for i := range r.Keys {
		k := &r.Keys[i]
		key := &accounts.APIKey{KeyFacts: k.KeyFacts, Env: e.Number}
		if k.RevokedIndex != 0 {
			key.Revoked.Store(&accounts.Revocation{At: k.RevokedAt, Index: k.RevokedIndex})
		}
		s.AddKey(key)
	}
	c, err := restoreCatalog(r)
	if err != nil {
		return err
	}
	e.Catalog.Store(c)
	return nil
}

// restoreCatalog rebuilds a catalog with its original numbers.
func restoreCatalog(r *environmentRecord) (*catalogs.Catalog, error) {
	c := catalogs.NewCatalog()
	for i := range r.Features {
		f := &r.Features[i]
		number := uint32(i) + 1
		c.Features = append(c.Features, &catalogs.Feature{
			Number: number, ID: f.ID, Document: f.Document, Archived: f.Archived,
		})
		c.FeatureByKey[f.Document.Key] = number
		c.FeatureByID[f.ID] = number
	}
	versions := 0
	for i := range r.Plans {
		versions += len(r.Plans[i].Versions)
	}
	c.Versions = make([]*catalogs.PlanVersion, versions)
	for i := range r.Plans {
		d := &r.Plans[i]
		p := &catalogs.Plan{
			Number: uint32(i) + 1, ID: d.ID, Document: d.Document, Subscribers: new(atomic.Int64),
		}
		p.Document.Metadata = bytes.Clone(d.Document.Metadata)
		for j := range d.Versions {
			if err := c.RestoreVersion(p, &d.Versions[j]); err != nil {
				return nil, err
			}
		}
		if len(p.Versions) == 0 {
			return nil, fmt.Errorf("%w: plan %q has no version", rows.ErrSnapshot, p.Document.Key)
		}
		c.Plans = append(c.Plans, p)
		c.PlanByKey[p.Document.Key] = p.Number
		c.PlanByID[p.ID] = p.Number
	}
	c.Label()
	return c, nil
}
