package budgets

import (
	"slices"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/decimal"
	"tollgate/engine/zone"
)

const (
	maxKey  = 128 // characters
	maxName = 128
)

// PutBudget makes a budget, or replaces what an existing one is but for its place in the tree. A
// limit that the one before had, too, goes on counting.
//
//schema:described client BudgetRequest
type PutBudget struct {
	Env uint32 `wire:"1"`
	Key string `wire:"2"`
	// Parent is the key of the budget above; empty: none, or of an existing one, where it is.
	Parent string `wire:"3" json:"parent" rule:"min=1,max=128"`
	Name   string `wire:"4" json:"name" rule:"required,min=1,max=128"`
	// Customer is the ExternalID of the customer whose own budget it is; empty: of none.
	Customer string          `wire:"5" json:"customerReferenceId" rule:"min=1,max=128"`
	Limits   []LimitDocument `wire:"6" json:"limits"`
	// Zones are the time zones that limits name, but for UTC.
	Zones []zone.Zone `wire:"7"`
	Actor string      `wire:"8"`
	// Expects is the modifiedAt of the budget that is replaced, or "none" where there is to be no such
	// budget: the request changes nothing where this is not so.
	Expects int64 `wire:"9" json:"expects" as:"text"`
}

// ExpectsNone is the Expects of a PutBudget that replaces no budget; 0 expects nothing.
const ExpectsNone = -1

// Known is what a PutBudget needs to know of the records that it names.
type Known struct {
	Customer uint32
	Feature  func(key string) uint32
	Now      int64
}

// Put carries out a PutBudget. before is the customer whose own budget it was; 0: none's.
func (f *Forest) Put(t *accounts.Tx, c *PutBudget, w Known) (before uint32, o engine.Outcome) {
	p, o := f.planPut(c, w)
	if o != engine.OutcomeDone {
		return 0, o
	}

	lock := f.Lock(c.Env)
	lock.Lock()
	defer lock.Unlock()
	for i := range c.Zones {
		z := c.Zones[i]
		if slices.ContainsFunc(c.Limits, func(d LimitDocument) bool {
			return d.zoned() && d.TimeZone == z.Name
		}) {
			f.setZone(c.Env, &z)
		}
	}
	if p.row == 0 {
		p.row = f.addNode(c.Env, c.Key, p.parent, w.Now)
	} else {
		f.nodes.Write(p.row).changed(w.Now)
	}
	if p.left != 0 {
		f.owned.Set(w.Customer, 0)
		f.nodes.Write(p.left).Customer = 0
	}
	n := f.nodes.Write(p.row)
	if before = n.Customer; before != w.Customer {
		if before != 0 {
			f.owned.Set(before, 0)
		}
		n.Customer = w.Customer
		if n.Customer != 0 {
			f.owned.Set(n.Customer, p.row)
		}
	}
	f.names.Write(p.row).Data = c.Name
	f.replaceLimits(t, c, p, w.Now)
	relink(f, t, p.row)
	f.in(c.Env).again()
	t.Fold(uint64(p.row)<<32 ^ uint64(n.Customer))
	t.Spend(4 + 2*len(c.Limits))
	return before, engine.OutcomeDone
}

// putting is a PutBudget that was found good.
type putting struct {
	row, parent uint32
	// left is the archived budget that the customer leaves for this one; 0: none.
	left uint32
	keys []limitKey // of the document's limits; their zones are set once they are kept
}

func (f *Forest) planPut(c *PutBudget, w Known) (p putting, o engine.Outcome) {
	if !rows.Plain(c.Key, 1, maxKey) || !rows.Plain(c.Name, 1, maxName) || len(c.Limits) > MaxLimits {
		return p, engine.OutcomeBudgetInvalid
	}
	if c.Parent != "" {
		if p.parent = f.Named(c.Env, []byte(c.Parent)); p.parent == 0 {
			return p, engine.OutcomeBudgetUnknown
		}
	}
	if p.row = f.Named(c.Env, []byte(c.Key)); p.row != 0 {
		n := f.nodes.Read(p.row)
		switch {
		case n.Archived:
			return p, engine.OutcomeBudgetArchived
		case c.Expects != 0 && c.Expects != n.ModifiedAt:
			return p, engine.OutcomeBudgetChanged
		case c.Parent != "" && p.parent != n.Parent:
			return p, engine.OutcomeBudgetConflict
		}
		p.parent = n.Parent
	} else if c.Expects > 0 {
		return p, engine.OutcomeBudgetUnknown
	} else if o = f.takesChild(c.Env, p.parent); o != engine.OutcomeDone {
		return p, o
	}
	if w.Customer != 0 {
		if own := f.Own(w.Customer); own != p.row {
			if p.left = own; own != 0 && f.open(own) == engine.OutcomeDone {
				return p, engine.OutcomeBudgetConflict
			}
		}
	}
	return p, f.planLimits(c, w, &p)
}

// takesChild reports whether an environment takes one more node below another.
func (f *Forest) takesChild(env, parent uint32) engine.Outcome {
	if e := f.in(env); e != nil && len(e.nodes) >= MaxNodes || level(f, parent) >= MaxLevels {
		return engine.OutcomeBudgetLimit
	}
	return f.open(parent)
}

// open reports whether neither a node nor one above it is archived.
func (f *Forest) open(row uint32) engine.Outcome {
	for ; row != 0; row = f.nodes.Read(row).Parent {
		if f.nodes.Read(row).Archived {
			return engine.OutcomeBudgetArchived
		}
	}
	return engine.OutcomeDone
}

// level is how many nodes there are from a root to a node, both included; of 0 none.
func level(f *Forest, row uint32) (level int) {
	for ; row != 0; row = f.nodes.Read(row).Parent {
		level++
	}
	return level
}

func (f *Forest) planLimits(c *PutBudget, w Known, p *putting) engine.Outcome {
	for i := range c.Zones {
		if !c.Zones[i].Valid() {
			return engine.OutcomeBudgetInvalid
		}
	}
	e := f.in(c.Env)
	added := 0
	for i := range c.Limits {
		d := &c.Limits[i]
		if !d.valid() {
			return engine.OutcomeBudgetInvalid
		}
		id := d.Identity()
		k := limitKey{Of: id.Of, Window: id.Window}
		copy(k.Currency[:], id.Currency)
		if d.Feature != "" {
			if k.Feature = w.Feature(d.Feature); k.Feature == 0 {
				return engine.OutcomeFeatureUnknown
			}
		}
		known := !d.zoned() || e != nil && f.zoneNamed(e, d.TimeZone) != 0
		brought := slices.ContainsFunc(c.Zones, func(z zone.Zone) bool { return z.Name == d.TimeZone })
		switch {
		case !known && !brought:
			return engine.OutcomeBudgetInvalid
		case !known:
			added++
		}
		for j := range p.keys {
			if p.keys[j] == k && c.Limits[j].Identity().Zone == id.Zone {
				return engine.OutcomeBudgetInvalid // twice the same
			}
		}
		p.keys = append(p.keys, k)
	}
	if e != nil {
		added += len(e.zones)
	}
	if added > MaxZones {
		return engine.OutcomeBudgetLimit
	}
	return engine.OutcomeDone
}

// zoneNamed is the row of a zone of an environment; 0: it has none of this name.
func (f *Forest) zoneNamed(e *environment, name string) uint32 {
	for _, row := range e.zones {
		if f.zone(row).Name == name {
			return row
		}
	}
	return 0
}

// addNode appends a node without limits.
func (f *Forest) addNode(env uint32, key string, parent uint32, now int64) uint32 {
	row, n := f.nodes.Append()
	*n = Node{Env: env, Parent: parent, CreatedAt: now, ModifiedAt: now}
	_, text := f.keys.Append()
	text.Data = key
	f.names.Append()
	if parent != 0 {
		f.nodes.Write(parent).Children++
	}
	e := f.have(env)
	e.nodes = append(e.nodes, row)
	f.byKey.Insert(f.keyHash(env, []byte(key)), row)
	return row
}

// replaceLimits gives a node the limits of a document: those that it has go on counting, what it
// had besides ends. A window that is over keeps the limit that it had.
func (f *Forest) replaceLimits(t *accounts.Tx, c *PutBudget, p putting, now int64) {
	e := f.have(c.Env)
	had := map[limitKey]uint32{}
	for row := f.nodes.Read(p.row).FirstLimit; row != 0; row = f.limits.Read(row).Next {
		had[f.limits.Read(row).limitKey] = row
	}
	kept := make([]uint32, len(c.Limits))
	for i := range c.Limits {
		k := &p.keys[i]
		k.Zone = f.zoneNamed(e, c.Limits[i].Identity().Zone)
		kept[i] = had[*k]
		delete(had, *k)
	}
	for row := f.nodes.Read(p.row).FirstLimit; row != 0; {
		next := f.limits.Read(row).Next
		if had[f.limits.Read(row).limitKey] == row {
			f.dropLimit(row)
		}
		row = next
	}
	var held []Charge
	last, walked := uint32(0), false
	for i := range c.Limits {
		d := &c.Limits[i]
		row := kept[i]
		if row == 0 {
			row = f.takeLimit()
			f.Born++
			*f.limits.Write(row) = Limit{limitKey: p.keys[i], Node: p.row, Born: f.Born}
			if !walked {
				held, walked = f.tallied(p.row), true
				t.Spend(len(e.nodes) / 16)
			}
			f.limits.Write(row).Held = p.keys[i].sum(held)
		}
		l := f.limits.Write(row)
		if now >= l.End && kept[i] != 0 {
			f.roll(row, l, now)
		}
		l.Max, l.Soft, l.Next = d.Limit, d.Soft, 0
		l.Thresholds = [MaxThresholds]byte{}
		copy(l.Thresholds[:], d.Thresholds)
		l.Told = min(l.Told, l.reached()) // of a higher limit, what it has not reached is told again
		if last == 0 {
			f.nodes.Write(p.row).FirstLimit = row
		} else {
			f.limits.Write(last).Next = row
		}
		last = row
		l.shorten(row)
	}
	if last == 0 {
		f.nodes.Write(p.row).FirstLimit = 0
	}
}

// MoveBudget puts a budget with all below it under another one. Its usage stays where it has
// counted; what is held below it moves along.
type MoveBudget struct {
	Env    uint32 `wire:"1"`
	Key    string `wire:"2"`
	Parent string `wire:"3"` // empty: it becomes a root
	Actor  string `wire:"4"`
}

// Move carries out a MoveBudget. before is the key of the parent that it had.
func (f *Forest) Move(t *accounts.Tx, c *MoveBudget, now int64) (before string, o engine.Outcome) {
	row, parent := f.Named(c.Env, []byte(c.Key)), uint32(0)
	if c.Parent != "" {
		parent = f.Named(c.Env, []byte(c.Parent))
	}
	if row == 0 || c.Parent != "" && parent == 0 {
		return "", engine.OutcomeBudgetUnknown
	}
	n := f.nodes.Read(row)
	if n.Parent != 0 {
		before = f.Key(n.Parent)
	}
	if n.Parent == parent {
		return before, engine.OutcomeDone
	}
	if f.Within(parent, row) {
		return before, engine.OutcomeBudgetConflict
	}
	if o = f.open(row); o != engine.OutcomeDone {
		return before, o
	}
	if o = f.open(parent); o != engine.OutcomeDone {
		return before, o
	}
	t.Spend(len(f.in(c.Env).nodes) / 16)
	if level(f, parent)+height(f, row) > MaxLevels {
		return before, engine.OutcomeBudgetLimit
	}
	held := f.tallied(row)
	if _, o = f.planHeld(n.Parent, parent, held, now); o != engine.OutcomeDone {
		return before, o
	}

	lock := f.Lock(c.Env)
	lock.Lock()
	defer lock.Unlock()
	for i := range held {
		f.addHeld(t, n.Parent, held[i].Neg())
		f.addHeld(t, parent, held[i])
	}
	if n.Parent != 0 {
		f.nodes.Write(n.Parent).Children--
	}
	if parent != 0 {
		f.nodes.Write(parent).Children++
	}
	n = f.nodes.Write(row)
	n.Parent = parent
	relink(f, t, row)
	f.in(c.Env).again()
	n.changed(now)
	t.Fold(uint64(row)<<32 ^ uint64(parent))
	return before, engine.OutcomeDone
}

// height is how many levels there are from a node down, itself included.
func height(f *Forest, row uint32) (height int) {
	if f.nodes.Read(row).Children == 0 {
		return 1
	}
	for _, at := range f.in(f.nodes.Read(row).Env).nodes {
		levels := 1
		for up := at; up != 0 && up != row; up = f.nodes.Read(up).Parent {
			levels++
			if f.nodes.Read(up).Parent == 0 {
				levels = 0
			}
		}
		height = max(height, levels)
	}
	return height
}

// tallied is what is held at a node and below, one charge for each feature and currency; more only
// where a sum would leave the range of numbers. So a limit is touched a few times, however many
// nodes hold.
func (f *Forest) tallied(row uint32) (held []Charge) {
	type kind struct {
		feature  uint32
		currency [3]byte
	}
	latest := make(map[kind]int) // places in held
	for _, at := range f.in(f.nodes.Read(row).Env).nodes {
		if f.nodes.Read(at).FirstHeld == 0 || !f.Within(at, row) {
			continue
		}
		for tally := f.nodes.Read(at).FirstHeld; tally != 0; tally = f.tallies.Read(tally).Next {
			c := f.tallies.Read(tally).Charge
			of := kind{c.Feature, c.Currency}
			if i, met := latest[of]; met {
				if sum := held[i]; sum.add(&c) {
					held[i] = sum
					continue
				}
			}
			latest[of] = len(held)
			held = append(held, c)
		}
	}
	return held
}

// sum is what a limit takes of charges together.
func (k *limitKey) sum(held []Charge) (sum decimal.Exact) {
	for i := range held {
		if amount, takes := k.takes(&held[i]); takes {
			sum, _ = sum.Add(amount)
		}
	}
	return sum
}

// ArchiveBudget ends a budget for good: it and all below it take no usage and no hold any more.
// Again is the same success.
type ArchiveBudget struct {
	Env   uint32 `wire:"1"`
	Key   string `wire:"2"`
	Actor string `wire:"3"`
}

// FreezeBudget makes a budget and all below it refuse usage and holds, or ends that. Up to the
// units and the money that are held, reservations are settled all the same.
type FreezeBudget struct {
	Env    uint32 `wire:"1"`
	Key    string `wire:"2"`
	Frozen bool   `wire:"3"`
	Actor  string `wire:"4"`
}

// Set freezes, unfreezes or archives a budget. before and after are its states; an archived one
// stays what it is.
func (f *Forest) Set(t *accounts.Tx, env uint32, key string, now int64, set func(n *Node)) (
	before, after string, o engine.Outcome,
) {
	row := f.Named(env, []byte(key))
	if row == 0 {
		return "", "", engine.OutcomeBudgetUnknown
	}
	n := *f.nodes.Read(row)
	before = n.Status()
	if set(&n); n.Archived && before != n.Status() {
		n.Frozen = false
	}
	if after = n.Status(); n == *f.nodes.Read(row) {
		return before, after, engine.OutcomeDone
	}
	if before == "ARCHIVED" {
		return before, before, engine.OutcomeBudgetArchived
	}
	n.changed(now)
	lock := f.Lock(env)
	lock.Lock()
	*f.nodes.Write(row) = n
	relink(f, t, row)
	lock.Unlock()
	t.Fold(uint64(row)<<8 ^ uint64(rows.Flags(n.Frozen, n.Archived)))
	return before, after, engine.OutcomeDone
}
