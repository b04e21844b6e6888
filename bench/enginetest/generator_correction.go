package enginetest

import (
	"fmt"

	"pgregory.net/rapid"

	"tollgate/engine"
	"tollgate/engine/billing"
)

// shadow is a machine that applies the entries that were drawn so far: corrections carry the record
// of the event that they correct, and invoices have ids that follow from what happened.
type shadow struct {
	m     *billing.Machine
	src   *Source
	index uint64
	out   engine.Applied
}

func newShadow() *shadow {
	m := billing.New(billing.Config{})
	return &shadow{m: m, src: &Source{Journal: m.Journal()}}
}

// apply applies the next entry, which is well-formed: anything else is a fault of the generator.
func (s *shadow) apply(entry []byte) {
	s.index++
	if err := s.m.Apply(s.index, entry, &s.out); err != nil {
		panic(fmt.Sprintf("enginetest: %v", err))
	}
	s.src.Keep(&s.out)
}

// settlement pays or voids one of a customer's invoices.
func (g *generator) settlement() engine.Record {
	id := ID("invoice " + g.pick("invoice", "a", "b", "prepaid"))
	if c, ok := g.shadow.m.Customer(Sandbox, g.customerName()); ok {
		if all := g.shadow.m.Invoices(Sandbox, c.Row); len(all) > 0 {
			id = all[rapid.IntRange(0, len(all)-1).Draw(g.t, "which")].ID
		}
	}
	if rapid.Bool().Draw(g.t, "pay") {
		return record(billing.KindMarkInvoicePaid, &billing.MarkInvoicePaid{Env: g.env(), ID: id})
	}
	return record(billing.KindVoidInvoice, &billing.VoidInvoice{Env: g.env(), ID: id})
}

// correction voids or amends an event that an earlier entry recorded; a tick if there is none.
func (g *generator) correction() engine.Record {
	if len(g.keys) == 0 {
		return engine.Record{Kind: engine.KindTick}
	}
	text := rapid.SampledFrom(g.keys).Draw(g.t, "corrected")
	key := billing.UsageKey(Sandbox, []byte(text))
	ref, found, err := g.shadow.m.FindUsage(g.shadow.src, g.shadow.src, Sandbox, key)
	if err != nil {
		panic(fmt.Sprintf("enginetest: %v", err))
	}
	if !found {
		return engine.Record{Kind: engine.KindTick}
	}
	if rapid.IntRange(0, 2).Draw(g.t, "void") == 0 {
		return record(billing.KindVoidUsage, &billing.VoidUsage{
			Env: g.env(), Key: key, Original: ref, Reason: g.pick("reason", "", "mistake"),
		})
	}
	return record(billing.KindAmendUsage, &billing.AmendUsage{
		Env: Sandbox, Key: key, Original: ref, Units: g.amount(),
		ID: ID(fmt.Sprint("amendment ", rapid.IntRange(0, 9).Draw(g.t, "n"))),
	})
}
