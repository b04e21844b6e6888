package budgets

import (
	"fmt"

	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// Outside is what a check of the forest needs to know of records beyond it.
type Outside struct {
	// Customer is the environment of a customer's row; false where there is none.
	Customer func(row uint32) (env uint32, ok bool)
	// Environment reports whether there is such an environment.
	Environment func(env uint32) bool
	// Feature reports whether an environment has a feature of this number.
	Feature func(env, number uint32) bool
}

// Check checks a forest that was restored, before Reindex builds on it.
func (f *Forest) Check(o *Outside) error {
	for _, check := range [...]func(*Outside) error{
		f.checkNodes, f.checkZones, f.checkLimits, f.checkHeld,
	} {
		if err := check(o); err != nil {
			return fmt.Errorf("%w: %w", rows.ErrSnapshot, err)
		}
	}
	return nil
}

func (f *Forest) checkNodes(o *Outside) error {
	if f.keys.Len() != f.nodes.Len() || f.names.Len() != f.nodes.Len() {
		return fmt.Errorf("budgets: tables of different length")
	}
	children := make([]uint32, f.nodes.Len()+1)
	keys, customers := map[string]bool{}, map[uint32]bool{}
	for row, n := range f.nodes.All() {
		key := fmt.Sprint(n.Env, " ", f.Key(row))
		if !o.Environment(n.Env) || keys[key] || !rows.Plain(f.Key(row), 1, maxKey) ||
			n.Parent > f.nodes.Len() || n.Parent != 0 && f.nodes.Read(n.Parent).Env != n.Env {
			return fmt.Errorf("budgets: node %d leads nowhere", row)
		}
		keys[key] = true
		children[n.Parent]++
		if n.Customer != 0 {
			env, ok := o.Customer(n.Customer)
			if !ok || env != n.Env || customers[n.Customer] {
				return fmt.Errorf("budgets: node %d is of no customer", row)
			}
			customers[n.Customer] = true
		}
	}
	for row, n := range f.nodes.All() {
		levels := 0
		for at := row; at != 0 && levels <= MaxLevels; at = f.nodes.Read(at).Parent {
			levels++
		}
		if levels > MaxLevels || children[row] != n.Children {
			return fmt.Errorf("budgets: node %d is in no tree", row)
		}
	}
	return nil
}

func (f *Forest) checkZones(o *Outside) error {
	for row, text := range f.zones.All() {
		var z zoneText
		if wire.Decode([]byte(text.Data), &z) != nil || !z.Zone.Valid() || !o.Environment(z.Env) {
			return fmt.Errorf("budgets: zone %d", row)
		}
	}
	return nil
}

// checkLimits walks the limits of each node with their windows, and the free rows of both.
func (f *Forest) checkLimits(o *Outside) error {
	limits := make([]bool, f.limits.Len()+1)
	windows := make([]bool, f.windows.Len()+1)
	meet := func(met []bool, row uint32) bool {
		if int(row) >= len(met) || met[row] {
			return false
		}
		met[row] = true
		return true
	}
	for node, n := range f.nodes.All() {
		for row := n.FirstLimit; row != 0; row = f.limits.Read(row).Next {
			if !meet(limits, row) {
				return fmt.Errorf("budgets: the limits of node %d", node)
			}
			l := f.limits.Read(row)
			if l.Node != node || l.Born == 0 || l.Born > f.Born || l.Zone > f.zones.Len() ||
				l.Of < MeasureUnits || l.Of > MeasureCost || l.Window < WindowHour ||
				l.Window > WindowLifetime || l.Start > l.End || !l.Max.InRange() ||
				l.Feature != 0 && !o.Feature(n.Env, l.Feature) {
				return fmt.Errorf("budgets: limit %d", row)
			}
			count, last := uint32(0), uint32(0)
			for at := l.FirstClosed; at != 0; at = f.windows.Read(at).Next {
				if !meet(windows, at) || f.windows.Read(at).Limit != row {
					return fmt.Errorf("budgets: the windows of limit %d", row)
				}
				count, last = count+1, at
			}
			if count != l.Count || last != l.LastClosed || count > MaxWindows {
				return fmt.Errorf("budgets: the windows of limit %d do not end", row)
			}
		}
	}
	for row := f.FreeLimit; row != 0; row = f.limits.Read(row).Next {
		if !meet(limits, row) || f.limits.Read(row).Born != 0 {
			return fmt.Errorf("budgets: the list of free limits")
		}
	}
	for row := f.FreeWindow; row != 0; row = f.windows.Read(row).Next {
		if !meet(windows, row) {
			return fmt.Errorf("budgets: the list of free windows")
		}
	}
	for _, met := range [...][]bool{limits, windows} {
		for row := 1; row < len(met); row++ {
			if !met[row] {
				return fmt.Errorf("budgets: row %d is in no list", row)
			}
		}
	}
	return nil
}

// checkHeld adds up what items hold by node, and compares it with the tallies, and those with what
// limits hold.
func (f *Forest) checkHeld(*Outside) error {
	type place struct {
		node, feature uint32
		currency      [3]byte
	}
	sums := map[place]Charge{}
	items, free := map[uint32]bool{}, 0
	for row, x := range f.items.All() {
		if x.Node > f.nodes.Len() || x.Node != 0 && items[x.Of] {
			return fmt.Errorf("budgets: item %d leads nowhere", row)
		}
		if x.Node == 0 {
			free++
		} else {
			items[x.Of] = true
			at := place{x.Node, x.Feature, x.Currency}
			sum := sums[at]
			sum.Feature, sum.Currency = x.Feature, x.Currency
			sum.add(&x.Charge)
			sums[at] = sum
		}
	}
	for row := f.FreeItem; row != 0; row = f.items.Read(row).Of {
		if free--; row > f.items.Len() || f.items.Read(row).Node != 0 || free < 0 {
			break
		}
	}
	if free != 0 {
		return fmt.Errorf("budgets: the list of free items")
	}
	held := map[uint32]decimal.Exact{}
	met := 0
	for node, n := range f.nodes.All() {
		for row := n.FirstHeld; row != 0; row = f.tallies.Read(row).Next {
			if row > f.tallies.Len() {
				return fmt.Errorf("budgets: the tallies of node %d", node)
			}
			y := f.tallies.Read(row)
			at := place{node, y.Feature, y.Currency}
			if met++; y.Node != node || sums[at] != y.Charge {
				return fmt.Errorf("budgets: tally %d does not add up", row)
			}
			delete(sums, at)
			for up := node; up != 0; up = f.nodes.Read(up).Parent {
				for limit := f.nodes.Read(up).FirstLimit; limit != 0; limit = f.limits.Read(limit).Next {
					if amount, takes := f.limits.Read(limit).takes(&y.Charge); takes {
						held[limit], _ = held[limit].Add(amount)
					}
				}
			}
		}
	}
	for row := f.FreeTally; row != 0; row = f.tallies.Read(row).Next {
		if row > f.tallies.Len() || f.tallies.Read(row).Node != 0 || met > int(f.tallies.Len()) {
			return fmt.Errorf("budgets: the list of free tallies")
		}
		met++
	}
	for at, sum := range sums { // any order: which of several is named does not matter
		if sum != (Charge{Feature: at.feature, Currency: at.currency}) {
			return fmt.Errorf("budgets: node %d has no tally", at.node)
		}
	}
	if met != int(f.tallies.Len()) {
		return fmt.Errorf("budgets: a tally is of no node")
	}
	for row, l := range f.limits.All() {
		if l.Born != 0 && l.Held != held[row] {
			return fmt.Errorf("budgets: limit %d does not hold what is held below it", row)
		}
	}
	return nil
}
