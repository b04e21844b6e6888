package budgets

import (
	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/decimal"
	"tollgate/engine/page"
)

// Hold makes an item of a hold hold a charge at a node, whatever limits say: Plan has asked them.
// What it held before is given back first. over is when the hold expires into nothing; Never: into
// usage.
func (f *Forest) Hold(t *accounts.Tx, item, node uint32, c *Charge, over int64) {
	f.Release(t, item)
	if node == 0 || (*c == Charge{Feature: c.Feature, Currency: c.Currency}) {
		return
	}
	env := f.nodes.Read(node).Env
	lock := f.Lock(env)
	lock.Lock()
	defer lock.Unlock()
	row := f.FreeItem
	if row != 0 {
		f.FreeItem = f.items.Read(row).Of
	} else {
		row, _ = f.items.Append()
	}
	*f.items.Write(row) = Item{Charge: *c, Node: node, Of: item}
	f.items.by.Set(item, row)
	f.in(env).expiring.set(f, row, over)
	f.tally(node, c)
	t.Spend(f.addHeld(t, node, *c) / limitsPerUnit)
}

// Release ends what an item of a hold holds, if it does.
func (f *Forest) Release(t *accounts.Tx, item uint32) {
	row := f.items.row(item)
	if row == 0 {
		return
	}
	held := *f.items.Read(row)
	env := f.nodes.Read(held.Node).Env
	lock := f.Lock(env)
	lock.Lock()
	defer lock.Unlock()
	f.items.by.Set(item, 0)
	f.in(env).expiring.set(f, row, rows.Never)
	*f.items.Write(row) = Item{Of: f.FreeItem}
	f.FreeItem = row
	back := held.Neg()
	f.tally(held.Node, &back)
	// Whether queries have added it up is not state: each limit counts as visited for them, too.
	t.Spend(2 * f.addHeld(t, held.Node, back) / limitsPerUnit)
}

// Expires says when the hold of an item expires into nothing; Never: into usage. It is for holds
// that stay as they are.
func Expires(f *Forest, item uint32, over int64) {
	row := f.items.row(item)
	if row == 0 {
		return
	}
	env := f.nodes.Read(f.items.Read(row).Node).Env
	lock := f.Lock(env)
	lock.Lock()
	defer lock.Unlock()
	f.in(env).expiring.set(f, row, over)
}

// HolderOf is the node at which an item of a hold holds something; 0: at none.
func HolderOf(f *Forest, item uint32) (node uint32) {
	if row := f.items.row(item); row != 0 {
		node = f.items.Read(row).Node
	}
	return node
}

// HeldBy is what an item of a hold holds, and the node at which; 0: nothing.
func (f *Forest) HeldBy(item uint32) (node uint32, c Charge) {
	row := f.items.row(item)
	if row == 0 {
		return 0, c
	}
	held := f.items.Read(row)
	return held.Node, held.Charge
}

// heldItems are what holds' items hold, found by the items' own rows.
type heldItems struct {
	*page.Table[Item]
	by rows.Links
}

// row finds what an item of a hold holds; 0: nothing.
func (x *heldItems) row(item uint32) uint32 { return x.by.At(item) }

// tally adds a charge to what is held at a node. A tally of nothing has no row.
func (f *Forest) tally(node uint32, c *Charge) {
	before, row := uint32(0), f.nodes.Read(node).FirstHeld
	for row != 0 {
		if y := f.tallies.Read(row); y.Feature == c.Feature && y.Currency == c.Currency {
			break
		}
		before, row = row, f.tallies.Read(row).Next
	}
	if row == 0 {
		if row = f.FreeTally; row != 0 {
			f.FreeTally = f.tallies.Read(row).Next
		} else {
			row, _ = f.tallies.Append()
		}
		*f.tallies.Write(row) = Tally{
			Charge: Charge{Feature: c.Feature, Currency: c.Currency},
			Node:   node, Next: f.nodes.Read(node).FirstHeld,
		}
		f.nodes.Write(node).FirstHeld, before = row, 0
	}
	y := f.tallies.Write(row)
	y.add(c)
	if y.Charge != (Charge{Feature: c.Feature, Currency: c.Currency}) {
		return
	}
	if before == 0 {
		f.nodes.Write(node).FirstHeld = y.Next
	} else {
		f.tallies.Write(before).Next = y.Next
	}
	*y = Tally{Next: f.FreeTally}
	f.FreeTally = row
}

// Holdable reports whether a node can hold charges in addition to what it holds: the sums are in
// the range of numbers.
func (f *Forest) Holdable(node uint32, charges []Charge) bool {
	for i := range charges {
		sum := Charge{Feature: charges[i].Feature, Currency: charges[i].Currency}
		same := func(c *Charge) bool { return c.Feature == sum.Feature && c.Currency == sum.Currency }
		for row := f.nodes.Read(node).FirstHeld; row != 0; row = f.tallies.Read(row).Next {
			if y := f.tallies.Read(row); same(&y.Charge) {
				sum = y.Charge
			}
		}
		for j := range charges {
			if same(&charges[j]) && !sum.add(&charges[j]) {
				return false
			}
		}
	}
	return true
}

// planHeld decides whether what is held below a node that moves from one parent to another may be
// held there. The nodes above both hold it already.
func (f *Forest) planHeld(from, to uint32, held []Charge, now int64) (
	r Refusal, o engine.Outcome,
) {
	if len(held) == 0 {
		return r, engine.OutcomeDone
	}
	for node := to; node != 0 && !f.Within(from, node); node = f.nodes.Read(node).Parent {
		for row := f.nodes.Read(node).FirstLimit; row != 0; {
			l := f.limits.Read(row)
			if o = l.admits(held, l.Held, now, false); o != engine.OutcomeDone {
				return f.refusal(row, l.Held, now), o
			}
			row = l.Next
		}
	}
	return r, engine.OutcomeDone
}

// addHeld adds a charge to what the limits of a node and of those above it hold. It returns how
// many there are.
func (f *Forest) addHeld(t *accounts.Tx, node uint32, c Charge) (visited int) {
	for ; node != 0; node = f.nodes.Read(node).Parent {
		for row := f.nodes.Read(node).FirstLimit; row != 0; {
			visited++
			amount, takes := f.limits.Read(row).takes(&c)
			if takes && amount != (decimal.Exact{}) {
				l := f.limits.Write(row)
				l.Held, _ = l.Held.Add(amount)
				l.take(&amount)
				t.Hash = l.fold(t.Hash, row)
			}
			row = f.limits.Read(row).Next
		}
	}
	return visited
}
