package workspace

import (
	"slices"

	"tollgate/engine"
	"tollgate/engine/machine"
	"tollgate/engine/wire"
)

// NoteSurplus keeps a second payment of a purchase that another payment has paid already, or that
// was paid after its end. It brings nothing and is sent back. Repeating the command succeeds and
// changes nothing.
type NoteSurplus struct {
	ID [16]byte `wire:"1"`
	// Payment is the provider's id of it, 1 to 255 bytes.
	Payment string `wire:"2"`
}

func (c *NoteSurplus) bounds(w *wire.Codec) {
	if w.Decoding() && (c.Payment == "" || len(c.Payment) > 255) {
		w.Fail("a payment of %d bytes", len(c.Payment))
	}
}

func (c *NoteSurplus) apply(x *money, t *machine.Turn, row uint32) engine.Outcome {
	p := x.purchases.Read(row)
	switch {
	case p.Payment == "":
		return engine.OutcomePurchaseClosed // nothing else was paid
	case p.Payment == c.Payment ||
		slices.ContainsFunc(p.Surplus, func(r Return) bool { return r.Payment == c.Payment }):
		return engine.OutcomeDone
	case len(p.Surplus) >= MaxSurplus:
		return engine.OutcomeWorkspaceFull
	}
	p = x.purchaseWrite(row, func(p *purchase) {
		p.Surplus = append(slices.Clone(p.Surplus), Return{Payment: c.Payment})
	})
	x.workspaces.Write(p.Workspace).Ledger.RefundCents += uint64(p.Cents)
	t.Fold(uint64(row))
	return engine.OutcomeDone
}

// NoteRefund records that a payment was sent back, or that its provider refuses to. Repeating it
// succeeds and changes nothing.
type NoteRefund struct {
	ID [16]byte `wire:"1"`
	// Refund is the provider's id of the refund.
	Refund string `wire:"2"`
	// Payment is which one; empty is the purchase's own.
	Payment string `wire:"3"`
	// Refused is the provider's word where it does not send it back, at most MaxRefused bytes.
	Refused string `wire:"4"`
}

func (c *NoteRefund) bounds(w *wire.Codec) {
	if w.Decoding() && len(c.Refused) > MaxRefused {
		w.Fail("a refusal of %d bytes", len(c.Refused))
	}
}

func (c *NoteRefund) apply(x *money, t *machine.Turn, row uint32) engine.Outcome {
	p := x.purchases.Read(row)
	all := p.returns()
	at := slices.IndexFunc(all, func(r Return) bool { return r.Payment == c.Payment })
	if c.Payment == "" && p.Refund {
		at = 0
	}
	switch {
	case at < 0:
		return engine.OutcomePurchaseClosed
	case all[at].At != 0 || c.Refused != "" && all[at].Refused != "":
		return engine.OutcomeDone
	}
	all[at].Refused = c.Refused
	if c.Refused == "" {
		all[at].Refund, all[at].At = c.Refund, t.Stamp
	}
	p = x.purchaseWrite(row, func(p *purchase) { p.change(at, all[at]) })
	if c.Refused == "" {
		w := *x.workspaces.Read(p.Workspace)
		w.Ledger.RefundedCents += uint64(p.Cents)
		x.notify(t, &w, notice{kind: NoticePurchase, purchase: p})
		*x.workspaces.Write(p.Workspace) = w
	}
	t.Fold(uint64(row))
	return engine.OutcomeDone
}

// RetryRefund has a purchase's provider asked again for what it refused to send back.
type RetryRefund struct {
	ID [16]byte `wire:"1"`
}

func (c *RetryRefund) apply(x *money, t *machine.Turn, row uint32) engine.Outcome {
	x.purchaseWrite(row, func(p *purchase) {
		for at, r := range p.returns() {
			if r.Refused != "" {
				r.Refused = ""
				p.change(at, r)
			}
		}
	})
	t.Fold(uint64(row))
	return engine.OutcomeDone
}
