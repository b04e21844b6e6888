// Package budgets has the budgets of environments: trees of nodes with limits that usage counts
// against, at each level above it. It knows no price and no customer's record.
package budgets

import (
	"hash/maphash"
	"sync"

	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/decimal"
	"tollgate/engine/machine"
	"tollgate/engine/page"
	"tollgate/engine/wire"
	"tollgate/engine/zone"
)

// Forest is the budgets of all environments. Apply is the only writer of its tables; readers, and
// Apply where it writes, hold the environment's Lock, which comes after a customer's. What queries
// keep for each other (see expiring) they write under that lock.
type Forest struct {
	nodes   *page.Table[Node]
	keys    *page.Table[rows.Text] // row = node row: the caller's key
	names   *page.Table[rows.Text] // row = node row
	limits  *page.Table[Limit]
	windows *page.Table[Closed]
	zones   *page.Table[rows.Text] // zoneText
	tallies *page.Table[Tally]
	items   heldItems
	Lists
	// Wanted reports whether an endpoint of an environment wants to be told of thresholds; nil: one
	// does.
	Wanted func(env uint32) bool

	// What follows is rebuilt at restore.
	seed  maphash.Seed
	byKey *page.Index
	// owned leads from customers to their own nodes.
	owned rows.Links
	// of are the nodes and zones of environments, by number.
	of rows.Series[*environment]
	// places are those of held items in the due of their environments, which share them: placing
	// guards them. It comes after an environment's lock.
	places  rows.Chunks[uint32]
	placing sync.Mutex
	// decoded are the zones, by their rows, which readers of all environments share.
	decoded rows.Series[*zone.Zone]
	locks   [locks]lock

	// first leads from nodes to the first limit at a node or above it, whatever it counts, and its
	// shortcut to the next; shut: a node on the way there is frozen or archived.
	first rows.Links
	// takings are the limits that take of the charge that Apply is at: so many are taken, of those
	// that were visited.
	takings        [MaxLevels * MaxLimits]uint32
	taken, visited int
	// at is the instant of the charge before, as Counted.At has it.
	at struct {
		now  int64
		text brief
	}
}

// Lists are heads of lists of free rows, and how many limits there have been.
type Lists struct {
	FreeLimit  uint32 `wire:"82"`
	FreeWindow uint32 `wire:"83"`
	FreeTally  uint32 `wire:"84"`
	Born       uint64 `wire:"85"`
	FreeItem   uint32 `wire:"86"`
}

// environment is what an environment has of the forest; its lock guards it.
type environment struct {
	nodes []uint32 // in order
	zones []uint32
	expiring
}

// expiring has the held items of an environment whose reservations expire into nothing. Those that
// are over, and that no tick has ended yet, hold nothing for queries: it keeps what limits hold of
// them, so that a query need not visit them, however many there are. Queries themselves bring it up
// to their instant (see Current). It is not state; the environment's lock guards it.
type expiring struct {
	// due has the items that no query has found to be over, by the instant.
	due rows.Dues
	// over are the others, at their places; the first summed of them are in held. None was over later
	// than at latest.
	over   []rows.Due
	places map[uint32]int
	summed int
	latest int64
	// back is the place at which putBack goes on, 0 where it is done: from there on, none was over
	// later than at behindBack.
	back       int
	behindBack int64
	// held is what limits, by their rows, hold of items that are over.
	held map[uint32]decimal.Exact
}

const locks = 64

// lock is one lock, alone on its cache lines.
type lock struct {
	sync.RWMutex
	_ [128 - 24]byte
}

// Open makes the tables.
func (f *Forest) Open(store *page.Store) {
	f.seed = maphash.MakeSeed()
	f.byKey = page.NewIndex()
	f.nodes = page.NewTable(store, accounts.TableBudgets, NodeCodec)
	f.keys = page.NewTable(store, accounts.TableBudgetKeys, rows.TextCodec)
	f.names = page.NewTable(store, accounts.TableBudgetNames, rows.TextCodec)
	f.limits = page.NewTable(store, accounts.TableBudgetLimits, LimitCodec)
	f.windows = page.NewTable(store, accounts.TableBudgetWindows, ClosedCodec)
	f.zones = page.NewTable(store, accounts.TableBudgetZones, rows.TextCodec)
	f.tallies = page.NewTable(store, accounts.TableBudgetTallies, TallyCodec)
	f.items.Table = page.NewTable(store, accounts.TableBudgetHeld, ItemCodec)
}

// Bytes is the memory of all budgets, without the bytes of texts.
func Bytes(f *Forest) uint64 {
	return f.nodes.Bytes() + f.keys.Bytes() + f.names.Bytes() + f.limits.Bytes() + f.windows.Bytes() +
		f.zones.Bytes() + f.tallies.Bytes() + f.items.Bytes() + f.items.by.Bytes() +
		f.byKey.Bytes() + f.owned.Bytes() + f.first.Bytes()
}

// Lock guards the budgets of an environment.
func (f *Forest) Lock(env uint32) *sync.RWMutex { return &f.locks[env%locks].RWMutex }

// Any reports whether an environment has a budget. Any goroutine may ask, without a lock.
func (f *Forest) Any(env uint32) bool { return f.in(env) != nil }

// in is what an environment has of the forest; nil: nothing.
func (f *Forest) in(env uint32) *environment {
	e, _ := f.of.At(env)
	return e
}

// have is in, which it makes where there is nothing.
func (f *Forest) have(env uint32) *environment {
	for uint32(len(f.of.All())) < env {
		f.of.Append(nil)
	}
	if e := f.in(env); e != nil {
		return e
	}
	e := new(environment)
	f.of.Replace(env, e)
	return e
}

// zoneText is a zone in the state.
type zoneText struct {
	Env  uint32    `wire:"1"`
	Zone zone.Zone `wire:"2"`
}

func (f *Forest) keyHash(env uint32, key []byte) uint64 {
	return machine.Fold(maphash.Bytes(f.seed, key), uint64(env))
}

// Named finds a node by the caller's key; 0 when there is none. It allocates nothing.
func (f *Forest) Named(env uint32, key []byte) uint32 {
	return f.byKey.Find(f.keyHash(env, key), func(row uint32) bool {
		return f.nodes.Read(row).Env == env && f.keys.Read(row).Data == string(key)
	})
}

// Own is the node of a customer; 0 when it has none. It allocates nothing.
func (f *Forest) Own(customer uint32) uint32 { return f.owned.At(customer) }

// Key is the caller's key of a node.
func (f *Forest) Key(row uint32) string { return f.keys.Read(row).Data }

// zone is the zone of a row; nil is UTC.
func (f *Forest) zone(row uint32) *zone.Zone {
	if row == 0 {
		return nil
	}
	z, _ := f.decoded.At(row)
	return z
}

// Reindex rebuilds what is not state, after a restore that Check has found good. It names each
// customer that has a budget of its own.
func (f *Forest) Reindex(owns func(customer uint32)) {
	for _, text := range f.zones.All() {
		var z zoneText
		rows.DecodeText(text.Data, &z)
		e := f.have(z.Env)
		e.zones = append(e.zones, f.decoded.Append(&z.Zone))
	}
	for row, n := range f.nodes.All() {
		e := f.have(n.Env)
		e.nodes = append(e.nodes, row)
		f.byKey.Insert(f.keyHash(n.Env, []byte(f.Key(row))), row)
		if n.Customer != 0 {
			f.owned.Set(n.Customer, row)
			owns(n.Customer)
		}
	}
	for row := range f.limits.All() {
		f.limits.Write(row).shorten(row)
	}
	for row := range f.nodes.All() {
		link(f, row)
	}
	for row, x := range f.items.All() {
		if x.Node != 0 {
			f.items.by.Set(x.Of, row)
		}
	}
}

// setZone keeps a zone of an environment, and returns its row; 0 where there is no room.
func (f *Forest) setZone(env uint32, z *zone.Zone) uint32 {
	e := f.have(env)
	data := string(wire.Encode(nil, &zoneText{env, *z}))
	for _, row := range e.zones {
		if f.zone(row).Name == z.Name {
			if f.zones.Read(row).Data != data {
				f.zones.Write(row).Data = data
				f.decoded.Replace(row, z)
			}
			return row
		}
	}
	row, text := f.zones.Append()
	text.Data = data
	f.decoded.Append(z)
	e.zones = append(e.zones, row)
	return row
}

// Has reports whether an environment has a node, or there is none to have: 0.
func (f *Forest) Has(env, row uint32) bool {
	return row == 0 || row <= f.nodes.Len() && f.nodes.Read(row).Env == env
}
