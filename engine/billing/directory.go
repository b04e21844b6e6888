package billing

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"unsafe"

	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/machine"
	"tollgate/engine/page"
)

// directory is who there is: accounts with their environments, catalogs and API keys, what falls
// due in them, and the locks over their customers.
type directory struct {
	log machine.Log

	limits atomic.Pointer[Limits]
	// floor is the log time before which idempotency keys may have been dropped: an event that
	// occurred earlier is refused whatever the settings say now.
	floor int64

	accounts     rows.Series[*account]
	environments rows.Series[*environment]
	namesMu      sync.RWMutex
	names        map[string]uint32   // account name → number
	accountIDs   map[[16]byte]uint32 // account id → number
	apiKeys      rows.Series[*keySlot]
	apiKeyByHash *page.Index

	store       *page.Store
	changesMu   sync.RWMutex
	changeMarks *page.Table[changeMark] // where in the journal admin changes stand
	// changes is how many admin changes there have been, changesShown how many of them the journal
	// shows; only Apply and Restore touch the former.
	changes      uint64
	changesShown atomic.Uint64

	// seed is of the indexes, which are not state: their hashes are seeded by the process.
	seed maphash.Seed

	// schedule is for Apply alone, but for what NextDue reads, and no state: it is rebuilt at
	// restore.
	schedule schedule

	stripes [stripes]stripe
}

// newDirectory returns a directory without accounts, and the store that all tables are in.
func newDirectory() *directory {
	s := &directory{
		names:        map[string]uint32{},
		accountIDs:   map[[16]byte]uint32{},
		apiKeyByHash: page.NewIndex(),
		store:        page.NewStore(),
		seed:         maphash.MakeSeed(),
	}
	limits := DefaultLimits()
	s.limits.Store(&limits)
	s.changeMarks = page.NewTable(s.store, tableChangeMarks, changeMarkCodec)
	return s
}

// stripes is the number of locks over customers; a power of two.
const stripes = 1024

// stripe is one lock, alone on its cache lines.
type stripe struct {
	sync.RWMutex
	_ [128 - unsafe.Sizeof(sync.RWMutex{})]byte
}

// stripe returns the lock of everything that belongs to a customer.
func (s *directory) stripe(customer uint32) *stripe { return &s.stripes[customer%stripes] }

// idHash is where an index has an id.
func (s *directory) idHash(id *[16]byte) uint64 { return maphash.Bytes(s.seed, id[:]) }

// externalHash is where an index has a customer by the caller's identifier.
func (s *directory) externalHash(env uint32, external []byte) uint64 {
	return machine.Fold(maphash.Bytes(s.seed, external), uint64(env))
}

// tx is one record's turn in Apply, as far as it notes admin changes and counts work.
type tx struct {
	machine.Turn
	s     *directory
	entry *entry
}

// entry is what the records of one entry have in common. Its memory is used again for the next.
type entry struct {
	// records is how many the entry has.
	records int
	changes changeRecords
	// work is what the entry has done so far: see entryWork.
	work int
}

// Work is counted, so that no entry keeps Apply for long whatever it holds: a unit is about one
// record that is read, changed or encoded, some 0.3 µs. It is a function of the log alone, as time
// would not be. What an entry may not do any more is left for the next one: ticks go on by
// themselves, a command is OutcomeDeferred and proposed again.
const (
	// entryWork is what one entry may do before the rest is deferred. What began is ended: an entry
	// takes as much more as its largest single step.
	entryWork = 4096
	// tickWork is how much of that a tick takes: a usage event that travels in the same entry,
	// behind it, must not be deferred again and again for as long as there is something to sweep,
	// nor wait long: a tick of this size takes about 1 ms of a processor.
	tickWork = entryWork / 4
	// tickBytes is how much of journal a tick writes at the most, in bytes.
	tickBytes = 32 << 10
)

// spend counts work that was done, or is about to be done whole.
func (t *tx) spend(units int) { t.entry.work += units }

// left is what the entry may still do; it may be below zero.
func (t *tx) left() int { return entryWork - t.entry.work }

// spent reports whether the entry has done its share.
func (t *tx) spent() bool { return t.left() <= 0 }
