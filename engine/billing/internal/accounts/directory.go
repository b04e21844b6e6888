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

// Directory has accounts with their environments, catalogs and API keys, what falls due in them,
// and the locks of their customers.
type Directory struct {
	Log machine.Log

	Limits atomic.Pointer[Limits]
	// Floor is the log time before which idempotency keys may have been dropped: an earlier event
	// is refused, whatever the settings say now.
	Floor int64

	Accounts     rows.Series[*Account]
	Environments rows.Series[*Environment]
	namesMu      sync.RWMutex
	names        map[string]uint32   // account name → number
	accountIDs   map[[16]byte]uint32 // account id → number
	APIKeys      rows.Series[*KeySlot]
	APIKeyByHash *page.Index
	APIKeyByID   *page.Index
	// keyEnds are the keys that will end, by when, for Apply alone; KeyDue is when the first does, in
	// log time, 0 where none does. They are not state: they follow from the keys.
	keyEnds []keyEnd
	KeyDue  atomic.Int64

	Store       *page.Store
	changesMu   sync.RWMutex
	ChangeMarks *page.Table[changeMark] // places of admin changes in the journal
	// Changes is how many admin changes there have been, ChangesShown how many of them the journal
	// shows. Only Apply and Restore touch Changes.
	Changes      uint64
	ChangesShown atomic.Uint64

	// seed is that of the indexes. It is not state: each process draws its own.
	seed maphash.Seed

	// Schedule is for Apply alone, except for NextDue's field. It is not state: restore rebuilds
	// it.
	Schedule schedule

	stripes [stripes]stripe
}

// Open makes a directory without accounts, and the store of all tables.
func (s *Directory) Open() {
	s.names, s.accountIDs = map[string]uint32{}, map[[16]byte]uint32{}
	s.APIKeyByHash, s.APIKeyByID = page.NewIndex(), page.NewIndex()
	s.Store = page.NewStore()
	s.seed = maphash.MakeSeed()
	limits := DefaultLimits()
	s.Limits.Store(&limits)
	s.ChangeMarks = page.NewTable(s.Store, tableChangeMarks, changeMarkCodec)
}

// stripes is the number of locks of customers; a power of two.
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

// IDHash returns an id's hash in an index.
func (s *Directory) IDHash(id *[16]byte) uint64 { return maphash.Bytes(s.seed, id[:]) }

// ExternalHash returns the hash of a customer's external id in an index.
func (s *Directory) ExternalHash(env uint32, external []byte) uint64 {
	return machine.Fold(maphash.Bytes(s.seed, external), uint64(env))
}

// Tx is one record's turn in Apply, for recording admin changes and counting work.
type Tx struct {
	machine.Turn
	S     *Directory
	Entry *Entry
}

// Entry is what the records of one entry share. Its memory is reused for the next.
type Entry struct {
	// Records is how many the entry has.
	Records int
	Changes ChangeRecords
	// Work is the entry's work so far: see EntryWork.
	Work int
	// next is the first place in the journal after the entry's records. shift is how many more
	// records than commands it has so far: see Place.
	next, shift uint32
}

// Reset begins another entry.
func (e *Entry) Reset() { e.Work, e.next, e.shift = 0, 0, 0 }

// Place returns the place, within the entry, of the next journal record of the command at a
// position. It is that position until a command makes more than one record.
func (e *Entry) Place(position uint32) (place uint32) {
	if place = position + e.shift; place < e.next {
		place = e.next
		e.shift = place - position
	}
	e.next = place + 1
	return place
}

// Next returns the first place behind the entry's journal records so far.
func (e *Entry) Next() uint32 { return e.next }

// Upcoming returns the place that the next journal record of the command at a position will have.
func (e *Entry) Upcoming(position uint32) uint32 { return max(position+e.shift, e.next) }

// Work is counted, so that no entry keeps Apply for long, whatever it holds. A unit is about one
// record that is read, changed or encoded, some 0.3 µs. It is a function of the log alone, as time
// would not be. What exceeds an entry's work is left to the next one: ticks continue by themselves,
// and a command is OutcomeDeferred and proposed again.
const (
	// EntryWork is how much one entry may do before the rest is deferred. A step that began is
	// completed, so an entry exceeds it by at most its largest step.
	EntryWork = 4096
	// TickWork is a tick's part of that. A usage event behind it in the same entry must not be
	// deferred again and again during a long sweep, nor wait long: a tick of this size takes about
	// 1 ms of processor time.
	TickWork = EntryWork / 4
	// TickBytes bounds the journal bytes of a tick.
	TickBytes = 32 << 10
)

// Spend counts work that was done, or will be completed.
func (t *Tx) Spend(units int) { t.Entry.Work += units }

// Left returns the entry's remaining work; it may be below zero.
func (t *Tx) Left() int { return EntryWork - t.Entry.Work }

// Spent reports whether the entry has no work left.
func (t *Tx) Spent() bool { return t.Left() <= 0 }
