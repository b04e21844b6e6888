// Package billing is the billing state machine: accounts, keys, catalogs, customers,
// subscriptions, usage, entitlements and invoices, as a pure function of their log. See DESIGN.md.
package billing

import (
	"sync"
	"sync/atomic"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/journal"
	"tollgate/engine/machine"
)

// Config says which Raft group a Machine belongs to.
type Config struct {
	// Shard is the number of the group; entries of another are refused.
	Shard uint16
	// Together runs functions concurrently, waits for all, and returns an error of one of them, if
	// any. It makes Restore faster. Nil runs them one after the other.
	Together func(parts ...func() error) error
	// credits is smaller in tests only.
	credits credits.CreditBounds
}

// Machine is the billing state machine; it implements engine.Machine. Apply, Snapshot and Restore
// are for one goroutine at a time; everything else, above all queries, may run concurrently.
type Machine struct {
	journalReader
	kernel  machine.Kernel[*Machine, *turn]
	config  Config
	scratch scratch
	// overruns is not state: see Stats.
	overruns atomic.Uint64
}

var _ engine.Machine = (*Machine)(nil)

// New returns an empty machine.
func New(c Config) *Machine {
	m := &Machine{config: c}
	m.journal = journal.New()
	m.kernel.Shard, m.kernel.Table = c.Shard, table
	m.Asked = machine.Ask(func() *machine.Log { return &m.state.Load().Log })
	m.state.Store(newState())
	return m
}

// core is what queries read. Each kind of query has a reader, which embeds the one below it. So a
// query sees what is below it, and nothing that only Apply uses.
type core struct {
	machine.Asked
	// Restore replaces state whole.
	state   atomic.Pointer[state]
	journal *journal.Journal
	// applying is held by Apply, and by Restore while it replaces the state, for queries that need
	// keys and journal of one instant.
	applying sync.RWMutex
}

// accountReader answers queries about accounts, catalogs, keys, payments and webhooks.
type accountReader struct{ core }

// customerReader answers queries about customers, subscriptions, entitlements, invoices and pools.
type customerReader struct{ accountReader }

// previewReader answers what a command would do.
type previewReader struct{ customerReader }

// journalReader answers queries that read the journal.
type journalReader struct {
	previewReader
	// pricing is held by UsageByPrice, which has so many bytes: 0 is maxRanked, less is for tests.
	// rankings is how many there are, those included that wait for it.
	pricing  sync.Mutex
	rankings atomic.Int32
	ranked   int
}

// scratch is memory that Apply reuses for every entry.
type scratch struct {
	entry  accounts.Entry
	moves  credits.Moves
	usages []RecordUsage
	// reserves and settlements are those of the entry.
	reserves    slab[Reserve]
	settlements slab[SettleReservation]
	usage       usageEntry
	payload     []byte
	// allotment is what the reservation at hand gets, settling the one that is there already, sealed
	// the event that settles it, view what is answered.
	allotment allotment
	settling  settling
	sealed    []byte
	view      ReservationView
	// replies has room for the next replies of the usual length.
	replies []byte
}

const (
	// viewBytes is room for the usual answer about a reservation.
	viewBytes = 256
	// keptReplies is how many of them share an allocation.
	keptReplies = 32
)

// reply returns room for a reply, which no other one gets. What needs more is allocated.
func (s *scratch) reply() []byte {
	if len(s.replies) < viewBytes {
		s.replies = make([]byte, keptReplies*viewBytes)
	}
	return s.replies[:0:viewBytes]
}

// replied keeps what a reply has left of its room for the next one.
func (s *scratch) replied(reply []byte) []byte {
	if len(reply) <= viewBytes {
		s.replies = s.replies[len(reply):]
	}
	return reply[:len(reply):len(reply)]
}

// keptUsages bounds the decoded usage events whose memory is kept for the next entry; only an entry
// of the smallest events has more.
const keptUsages = 8192

func (s *scratch) reset() {
	s.entry.Reset()
	if cap(s.usages) > keptUsages {
		s.usages = nil
	}
	s.usages = s.usages[:0]
	s.reserves.reset()
	s.settlements.reset()
}

// slab is memory for the entry's commands of a kind, which the next entry reuses.
type slab[T any] []T

func (s *slab[T]) reset() {
	if cap(*s) > keptUsages {
		*s = nil
	}
	*s = (*s)[:0]
}

// next returns a command as an earlier entry has left it. It is valid until the next entry.
func (s *slab[T]) next() *T {
	n := len(*s)
	if n == cap(*s) {
		*s, n = make([]T, 0, max(64, 2*n)), 0 // those before stay where they are
	}
	*s = (*s)[:n+1]
	return &(*s)[n]
}

// event returns a zeroed record, which is valid until the next entry.
func (s *scratch) event() *RecordUsage {
	if len(s.usages) == cap(s.usages) {
		s.usages = make([]RecordUsage, 0, max(256, 2*cap(s.usages)))
	}
	s.usages = append(s.usages, RecordUsage{})
	return &s.usages[len(s.usages)-1]
}

// Apply applies one entry.
func (m *Machine) Apply(index uint64, entry []byte, out *engine.Applied) error {
	out.Reset()
	s := m.state.Load()
	m.scratch.reset()
	begun, records, err := m.kernel.Decode(m, &s.Log, index, entry)
	if err != nil {
		return err
	}
	m.applying.Lock()
	defer m.applying.Unlock()
	m.scratch.entry.Records = len(records)
	t := m.turn(begun, s)
	t.Holds = &t
	retention := s.Limits.Load().KeyRetentionMS
	s.Floor = max(s.Floor, t.Stamp-retention)
	s.keys.Expire(t.Stamp)
	s.requests.Forget(t.Stamp - accounts.RequestRetentionMS)
	t.endKeys()
	m.expireAudits(&t, out)
	ahead, reserves, settlements := m.scratch.usages, m.scratch.reserves, m.scratch.settlements
	for i := range records {
		r := &records[i]
		if len(ahead) > 0 && r.Op == op(&ahead[0]) {
			n := min(prefetched, len(ahead))
			s.prefetch(ahead[:n])
			ahead = ahead[n:]
		}
		if len(reserves) > 0 && r.Op == op(&reserves[0]) {
			n := min(prefetched, len(reserves))
			prefetchReserves(s, reserves[:n])
			reserves = reserves[n:]
		}
		if len(settlements) > 0 && r.Op == op(&settlements[0]) {
			n := min(prefetched, len(settlements))
			prefetchSettlements(s, settlements[:n])
			settlements = settlements[n:]
		}
		if r.Carries != nil { // what it carries may stand among the others
			if c, ok := r.Op.(interface{ carries() op }); ok {
				ahead, settlements = behind(ahead, c.carries()), behind(settlements, c.carries())
				reserves = behind(reserves, c.carries())
			}
		}
		t.Position, t.Payload, t.Reply, t.Told = uint32(i), r.Payload, nil, 0
		outcome := engine.OutcomeDeferred
		if r.Always || !t.Spent() {
			outcome = r.Op.Apply(&t)
		}
		t.BillAbove()
		t.EmitPools()
		t.Conclude(outcome, out)
	}
	m.journalFacts(index, uint32(len(records)))
	m.journalChanges(&t, uint32(len(records))+1)
	m.endJournal(&t, out)
	s.usageEvents.Add(t.recorded)
	s.keys.Show()
	s.ChangesShown.Store(s.Changes)
	s.whole.show(s)
	m.kernel.Close(&t.Turn, s.Store.HashNext)
	return nil
}

// behind is what stands in a list behind a command, if that is its first one.
func behind[T any, P interface {
	*T
	op
}](list []T, first op) []T {
	if len(list) > 0 && first == op(P(&list[0])) {
		return list[1:]
	}
	return list
}

// turn returns a turn over a state, with the state of each layer.
func (m *Machine) turn(begun machine.Turn, s *state) (t turn) {
	t.Turn, t.state, t.m = begun, s, m
	t.Tx.S, t.Keeper.S, t.Emitter.S, t.Burner.S, t.Runner.S =
		&s.Directory, &s.Book, &s.Book, &s.Vault, &s.Projector
	t.Entry, t.Moves = &m.scratch.entry, &m.scratch.moves
	t.Emitter.Outbox, t.Bounds = &s.outbox, m.config.credits
	return t
}

// NextDue returns the next due instant, in log time; 0 if there is none.
func (m *Machine) NextDue() int64 {
	s := m.state.Load()
	next := s.Schedule.Next.Load()
	for _, due := range [...]int64{s.auditDue.Load(), s.KeyDue.Load()} {
		if next == 0 || due != 0 && due < next {
			next = due
		}
	}
	return next
}

// Journal returns the journal of usage and audit events.
func (m *core) Journal() *journal.Journal { return m.journal }

// EnvironmentNow returns Clock on the environment's own clock, which may be ahead of log time.
func (m *core) EnvironmentNow(env uint32, nowMS int64) int64 {
	now := m.Clock(nowMS)
	if e := m.state.Load().Environment(env); e != nil {
		return e.Now(now)
	}
	return now
}
