// Package accounts has accounts with their environments, API keys, settings and admin changes, the
// locks over customers, and what falls due in an environment. It knows no customer's record.
package accounts

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"unsafe"

	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/machine"
	"tollgate/engine/page"
)

// Directory is who there is: accounts with their environments, catalogs and API keys, what falls
// due in them, and the locks over their customers.
type Directory struct {
	Log machine.Log

	Limits atomic.Pointer[Limits]
	// Floor is the log time before which idempotency keys may have been dropped: an event that
	// occurred earlier is refused whatever the settings say now.
	Floor int64

	Accounts     rows.Series[*Account]
	Environments rows.Series[*Environment]
	namesMu      sync.RWMutex
	names        map[string]uint32   // account name → number
	accountIDs   map[[16]byte]uint32 // account id → number
	APIKeys      rows.Series[*keySlot]
	APIKeyByHash *page.Index

	Store       *page.Store
	changesMu   sync.RWMutex
	ChangeMarks *page.Table[changeMark] // where in the journal admin changes stand
	// Changes is how many admin changes there have been, ChangesShown how many of them the journal
	// shows; only Apply and Restore touch the former.
	Changes      uint64
	ChangesShown atomic.Uint64

	// seed is that of the indexes, which are not state: the process draws it.
	seed maphash.Seed

	// Schedule is for Apply alone, but for what NextDue reads, and no state: it is rebuilt at
	// restore.
	Schedule schedule

	stripes [stripes]stripe
}

// Open makes a directory without accounts, and the store that all tables are in.
func (s *Directory) Open() {
	s.names, s.accountIDs = map[string]uint32{}, map[[16]byte]uint32{}
	s.APIKeyByHash = page.NewIndex()
	s.Store = page.NewStore()
	s.seed = maphash.MakeSeed()
	limits := DefaultLimits()
	s.Limits.Store(&limits)
	s.ChangeMarks = page.NewTable(s.Store, tableChangeMarks, changeMarkCodec)
}

// stripes is the number of locks over customers; a power of two.
const stripes = 1024

// stripe is one lock, alone on its cache lines.
type stripe struct {
	sync.RWMutex
	_ [128 - unsafe.Sizeof(sync.RWMutex{})]byte
}

// Stripe returns the lock of everything that belongs to a customer.
func (s *Directory) Stripe(customer uint32) *stripe { return &s.stripes[customer%stripes] }

// ReadLock takes a customer's lock for reading, and returns it.
func (s *Directory) ReadLock(customer uint32) *stripe {
	lock := s.Stripe(customer)
	lock.RLock()
	return lock
}

// WriteLock takes a customer's lock for writing, and returns it.
func (s *Directory) WriteLock(customer uint32) *stripe {
	lock := s.Stripe(customer)
	lock.Lock()
	return lock
}

// IDHash is where an index has an id.
func (s *Directory) IDHash(id *[16]byte) uint64 { return maphash.Bytes(s.seed, id[:]) }

// ExternalHash is where an index has a customer by the caller's identifier.
func (s *Directory) ExternalHash(env uint32, external []byte) uint64 {
	return machine.Fold(maphash.Bytes(s.seed, external), uint64(env))
}

// Tx is one record's turn in Apply, as far as it notes admin changes and counts work.
type Tx struct {
	machine.Turn
	S     *Directory
	Entry *Entry
}

// Entry is what the records of one entry have in common. Its memory is used again for the next.
type Entry struct {
	// Records is how many the entry has.
	Records int
	Changes ChangeRecords
	// Work is what the entry has done so far: see EntryWork.
	Work int
	// next is the first place in the journal that no record of the entry has, shift is by how many
	// records more than one for each command it has so far: see Place.
	next, shift uint32
}

// Reset begins another entry.
func (e *Entry) Reset() { e.Work, e.next, e.shift = 0, 0, 0 }

// Place is the place within the entry of the next journal record of the command at a position: that
// position, as long as no command makes more than one record.
func (e *Entry) Place(position uint32) (place uint32) {
	if place = position + e.shift; place < e.next {
		place = e.next
		e.shift = place - position
	}
	e.next = place + 1
	return place
}

// Work is counted, so that no entry keeps Apply for long whatever it holds: a unit is about one
// record that is read, changed or encoded, some 0.3 µs. It is a function of the log alone, as time
// would not be. What an entry may not do any more is left for the next one: ticks go on by
// themselves, a command is OutcomeDeferred and proposed again.
const (
	// EntryWork is what one entry may do before the rest is deferred. What began is ended: an entry
	// takes as much more as its largest single step.
	EntryWork = 4096
	// TickWork is how much of that a tick takes: a usage event that travels in the same entry,
	// behind it, must not be deferred again and again for as long as there is something to sweep,
	// nor wait long: a tick of this size takes about 1 ms of a processor.
	TickWork = EntryWork / 4
	// TickBytes is how much of journal a tick writes at most, in bytes.
	TickBytes = 32 << 10
)

// Spend counts work that was done, or is about to be done whole.
func (t *Tx) Spend(units int) { t.Entry.Work += units }

// Left is what the entry may still do; it may be below zero.
func (t *Tx) Left() int { return EntryWork - t.Entry.Work }

// Spent reports whether the entry has done its share.
func (t *Tx) Spent() bool { return t.Left() <= 0 }
