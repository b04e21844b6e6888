package billing

import (
	"errors"
	"fmt"
	"slices"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/auditor"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/journal"
	"tollgate/engine/wire"
)

// ErrReplaced means that a snapshot was restored while invoices were verified, so the result would
// describe neither state. Repeat it.
var ErrReplaced = errors.New("billing: the state was replaced while invoices were verified")

// pass reads the journal once, in the order of the log, and recounts the usage of some customers.
// It holds one entry and the recounts, and no record beyond its entry.
type pass struct {
	s        *state
	env      *accounts.Environment
	rows     []uint32 // ascending
	accounts map[uint32]*auditor.Auditor
	// index is the entry that is being read; usage and facts are its records for the customers.
	index uint64
	usage []auditor.Usage
	facts []credits.Fact
	// records counts the usage records.
	records uint64
	// wanted is the one invoice whose explanation is kept, if any.
	wanted    *[16]byte
	explained *auditor.Lines
}

func newPass(s *state, env uint32, rows []uint32) *pass {
	p := &pass{s: s, env: s.Environment(env), accounts: map[uint32]*auditor.Auditor{}}
	p.rows = slices.Compact(slices.Sorted(slices.Values(rows)))
	for _, row := range p.rows {
		p.accounts[row] = auditor.New()
	}
	return p
}

// read continues from the pass's place.
func (p *pass) read(src journal.Source) error {
	if err := src.Walk(p.rows, p.index+1, p.take); err != nil {
		return fmt.Errorf("billing: read what invoices rest on: %w", err)
	}
	p.flush()
	return nil
}

// settled reads new entries and then calls compare while no entry is applied: then journal and
// state agree.
func (m *journalReader) settled(p *pass, src journal.Source, compare func() error) error {
	m.applying.RLock()
	defer m.applying.RUnlock()
	if m.state.Load() != p.s {
		return ErrReplaced
	}
	if err := p.read(src); err != nil {
		return err
	}
	return compare()
}

// take adds a record of any customer.
func (p *pass) take(r journal.Record) error {
	if r.Index != p.index {
		p.flush()
		p.index = r.Index
	}
	if r.Kind == journal.KindBilling {
		return p.takeFacts(r)
	}
	account := p.accounts[r.Owner]
	if account == nil || account.Broken != "" {
		return nil
	}
	u, counts, err := p.s.countedUsage(r)
	if err != nil {
		account.Broken = err.Error()
		return nil
	}
	if counts {
		p.usage = append(p.usage, u)
		p.records++
	}
	return nil
}

func (p *pass) takeFacts(r journal.Record) error {
	var record credits.FactRecord
	if err := wire.Decode(r.Payload, &record); err != nil {
		return fmt.Errorf("%w: %d.%d: %w", rows.ErrEvent, r.Index, r.Position, err)
	}
	for i := range record.Facts {
		f := &record.Facts[i]
		if f.Kind < credits.FactCredits && p.accounts[f.Customer] != nil { // pools: VerifyPools
			p.facts = append(p.facts, *f)
		}
	}
	return nil
}

// flush processes an entry's records in the order in which they happened: each fact names the usage
// record that came after it. The journal has an entry's facts behind its usage, in ascending order.
func (p *pass) flush() {
	catalog := p.env.Catalog.Load()
	facts := p.facts
	due := func(position uint32, all bool) {
		for ; len(facts) > 0 && (all || facts[0].Position <= position); facts = facts[1:] {
			p.happen(catalog, &facts[0])
		}
	}
	for i := range p.usage {
		u := &p.usage[i]
		due(u.Position, false)
		p.accounts[u.Customer].Count(catalog, u)
	}
	due(0, true)
	clear(p.facts)
	p.usage, p.facts = p.usage[:0], p.facts[:0]
}

// happen adds a fact, and compares its invoice, if it is one, with the stored one.
func (p *pass) happen(c *catalogs.Catalog, f *credits.Fact) {
	a := p.accounts[f.Customer]
	x := a.Take(c, f)
	if x == nil {
		return
	}
	v := a.Invoice(f.Invoice.ID)
	v.Problem = p.s.differing(f, x.Recomputed)
	if p.wanted != nil && *p.wanted == v.ID {
		p.explained = x
	}
}

// countedUsage decodes one record; counts is false for usage that nothing counted.
func (s *state) countedUsage(r journal.Record) (u auditor.Usage, counts bool, err error) {
	if r.Kind == journal.KindUsage {
		u, counts, err = countedEvent(r.Payload)
	} else {
		u, counts, err = s.countedCorrection(r)
	}
	if err != nil {
		return u, false, fmt.Errorf("%w: %d.%d: %w", rows.ErrEvent, r.Index, r.Position, err)
	}
	u.Index, u.Position, u.Customer = r.Index, r.Position, r.Owner
	return u, counts, nil
}

func countedEvent(payload []byte) (u auditor.Usage, counts bool, err error) {
	var e usageEntry
	if err = wire.Decode(payload, &e); err != nil {
		return u, false, err
	}
	var c RecordUsage
	err = wire.Decode(e.Record, &c)
	u = auditor.Usage{
		Subscription: e.Subscription, Feature: e.Feature, Span: e.Span, Ahead: e.Ahead,
		Units: c.Units, Covered: e.Covered, Cost: e.Cost,
	}
	// No subscription counted unpriced usage.
	counts = e.Outcome != 0 && e.Outcome.Recorded() && e.Outcome != engine.OutcomeUnpriced &&
		e.Subscription != 0
	return u, counts, err
}

func (s *state) countedCorrection(r journal.Record) (u auditor.Usage, counts bool, err error) {
	var k correctionEntry
	if err = wire.Decode(r.Payload, &k); err != nil {
		return u, false, err
	}
	cost, err := s.correctedCost(r.Kind, &k)
	return auditor.Usage{
		Subscription: k.Original.Subscription, Feature: k.Original.Feature,
		Span: k.Span, Ahead: k.Ahead, Units: k.Delta, Covered: k.Covered, Cost: cost,
	}, k.Counted, err
}
