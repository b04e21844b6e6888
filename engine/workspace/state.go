package workspace

import (
	"encoding/binary"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"tollgate/engine/machine"
	"tollgate/engine/page"
)

// Numbers of the tables in the snapshot format. They are never reused.
const (
	tableWorkspaces    = 1
	tableKeys          = 2
	tableFlows         = 3
	tableFlowTexts     = 4
	tableRuns          = 5
	tableRunTexts      = 6
	tablePurchases     = 7
	tableIssues        = 8
	tableNotifications = 9
	tableTransactions  = 10
	tableRequests      = 11
	tableSignups       = 12
	tableAgents        = 13
	tableActs          = 24
	tableInspections   = 40
	tableDocuments     = 41
	tablePersons       = 50
	tableSessions      = 51
	tableLinks         = 52
	tableAlerts        = 130
	tableSchedules     = 141
	tableAccess        = 142
)

// MaxSources is how many addresses that signed up in an hour one group keeps at most; beyond it
// nobody signs up from another.
const MaxSources = 200_000

// state is everything that a snapshot holds, and the indexes that are rebuilt from it. Apply is its
// only writer, and holds mu for one record at a time; queries hold it to read.
type state struct {
	log machine.Log

	mu     sync.RWMutex
	policy SetPolicy
	// expireFrom is since when the policy says how long workspaces without an owner are kept.
	expireFrom int64
	// offered are the configured agents, "name kind version", the default one first.
	offered []string
	// day and freeToday count the free runs of all workspaces in one UTC day.
	day, freeToday uint32
	// firstQueued and lastQueued are the runs that wait for a worker, oldest first; queued is their
	// number, running that of runs with a worker.
	firstQueued, lastQueued uint32
	queued, running         uint32

	store         *page.Store
	workspaces    *page.Table[workspace]
	keys          *page.Table[key]
	flows         *page.Table[flow]
	flowTexts     *page.Table[page.Blob] // row = flow row
	runs          *runs
	purchases     *page.Table[purchase]
	issues        *page.Table[issue]
	notifications *page.Table[notification]
	transactions  *page.Table[transaction]
	agents        *page.Table[page.Blob] // names of agents, numbered from 1
	actRows       *page.Table[actRow]
	inspections   *page.Table[inspection]
	documents     *page.Table[page.SummedBlob] // row = inspection row
	alerts        *page.Table[alert]
	schedules     *page.Table[schedule]
	access        *page.Table[access]
	requests      machine.Ring[requestRow]
	unresolved    []unresolved // of a restore
	sources       machine.Ring[signups]
	persons       *page.Table[person]
	sessions      machine.Ring[session]
	links         *page.Table[link]

	// The indexes are not state: their hashes are seeded by the process.
	seed         maphash.Seed
	keyByHash    *page.Index // of API keys and of claim codes
	claimByHash  *page.Index
	workspaceBy  *page.Index
	flowBy       *page.Index
	purchaseBy   *page.Index
	issueBy      *page.Index
	notification *page.Index
	linkBy       *page.Index
	agentBy      map[string]uint32
	inspectionBy map[uint32]uint32  // run row → inspection row
	inspectedBy  map[hostKey]uint32 // the newest
	personBy     *page.Index
	emailBy      map[string]uint32   // a person's verified address → row
	promised     map[string][]uint32 // of nobody who has signed in yet → workspaces

	// due is what will happen by itself, earliest first, and errands what providers are to be
	// asked; no state. nextDue is what NextDue answers.
	due     dues
	errands errands
	// alerting are the alerts of which something waits to be sent; no state.
	alerting waiting
	// asking are the schedules whose runs begin once a preflight is noted; no state.
	asking waiting
	// rooms are what workspaces hold; no state.
	rooms   rooms
	nextDue atomic.Int64
}

// newState returns the state before the first entry.
func newState() *state {
	s := &state{
		store: page.NewStore(), seed: maphash.MakeSeed(), policy: DefaultPolicy(),
		keyByHash: page.NewIndex(), claimByHash: page.NewIndex(), workspaceBy: page.NewIndex(),
		flowBy: page.NewIndex(), purchaseBy: page.NewIndex(),
		issueBy: page.NewIndex(), notification: page.NewIndex(), linkBy: page.NewIndex(),
		agentBy: map[string]uint32{}, inspectionBy: map[uint32]uint32{},
		inspectedBy: map[hostKey]uint32{}, personBy: page.NewIndex(),
		emailBy: map[string]uint32{}, promised: map[string][]uint32{},
	}
	s.workspaces = page.NewTable(s.store, tableWorkspaces, machine.RecordCodec[workspace]())
	s.keys = page.NewTable(s.store, tableKeys, machine.RecordCodec[key]())
	s.flows = page.NewTable(s.store, tableFlows, machine.RecordCodec[flow]())
	s.flowTexts = page.NewBlobTable(s.store, tableFlowTexts)
	s.runs = openRuns(s)
	s.purchases = page.NewTable(s.store, tablePurchases, machine.RecordCodec[purchase]())
	s.issues = page.NewTable(s.store, tableIssues, machine.RecordCodec[issue]())
	s.notifications = page.NewTable(s.store, tableNotifications, machine.RecordCodec[notification]())
	s.transactions = page.NewTable(s.store, tableTransactions, machine.RecordCodec[transaction]())
	s.agents = page.NewBlobTable(s.store, tableAgents)
	s.actRows = page.NewTable(s.store, tableActs, machine.RecordCodec[actRow]())
	s.inspections = page.NewTable(s.store, tableInspections, machine.RecordCodec[inspection]())
	s.documents = page.NewSummedBlobTable(s.store, tableDocuments)
	s.alerts = page.NewTable(s.store, tableAlerts, machine.RecordCodec[alert]())
	s.schedules = page.NewTable(s.store, tableSchedules, machine.RecordCodec[schedule]())
	s.access = page.NewTable(s.store, tableAccess, machine.RecordCodec[access]())
	s.openRequests()
	s.sources = machine.Ring[signups]{
		Table: page.NewTable(s.store, tableSignups, machine.RecordCodec[signups]()), Max: MaxSources,
		By: page.NewIndex(), Hash: s.idHash,
		Key: func(r *signups) [16]byte { return r.Source },
		At:  func(r *signups) int64 { return r.At },
	}
	s.persons = page.NewTable(s.store, tablePersons, machine.RecordCodec[person]())
	s.links = page.NewTable(s.store, tableLinks, machine.RecordCodec[link]())
	s.sessions = machine.Ring[session]{
		Table: page.NewTable(s.store, tableSessions, machine.RecordCodec[session]()), Max: MaxSessions,
		By: page.NewIndex(), Hash: s.idHash,
		Key: func(r *session) [16]byte { return sessionKey(&r.Hash) },
		At:  func(r *session) int64 { return r.CreatedAt },
	}
	return s
}

// reindex rebuilds the indexes and what is due from the tables, after a restore.
func (s *state) reindex() {
	s.rooms = s.countRooms()
	gone := func(workspace uint32) bool { return s.rooms.of[workspace].gone }
	for row := uint32(1); row <= s.workspaces.Len(); row++ {
		w := s.workspaces.Read(row)
		s.workspaceBy.Insert(s.idHash(&w.ID), row)
		if w.Claim != ([32]byte{}) {
			s.claimByHash.Insert(secretHash(&w.Claim), row)
		}
		s.due.add(s.unusedEnd(w), dueWorkspace, row)
	}
	for row := uint32(1); row <= s.keys.Len(); row++ {
		s.keyByHash.Insert(secretHash(&s.keys.Read(row).Hash), row)
	}
	for row := uint32(1); row <= s.flows.Len(); row++ {
		if f := s.flows.Read(row); !gone(f.Workspace) {
			s.flowBy.Insert(s.idHash(&f.ID), row)
		}
	}
	for row := uint32(1); row <= s.runs.Len(); row++ {
		s.due.add(s.runs.Read(row).Due, dueRun, row)
	}
	for row := uint32(1); row <= s.purchases.Len(); row++ {
		p := s.purchases.Read(row)
		if !gone(p.Workspace) {
			s.purchaseBy.Insert(s.idHash(&p.ID), row)
		}
		if p.waits() {
			s.linkBy.Insert(secretHash(&p.Link), row)
		}
		s.errands.move(row, ErrandNone, p.errand())
		s.due.add(p.Due, duePurchase, row)
	}
	for row := uint32(1); row <= s.issues.Len(); row++ {
		if i := s.issues.Read(row); !gone(i.Workspace) {
			s.issueBy.Insert(s.idHash(&i.ID), row)
		}
	}
	for row := uint32(1); row <= s.notifications.Len(); row++ {
		if n := s.notifications.Read(row); !gone(n.Workspace) {
			s.notification.Insert(s.idHash(&n.ID), row)
		}
	}
	for row := uint32(1); row <= s.agents.Len(); row++ {
		s.agentBy[string(s.agents.Read(row).Bytes)] = row
	}
	for row := uint32(1); row <= s.alerts.Len(); row++ {
		s.alerting.note(row, s.alerts.Read(row).sendable())
	}
	for row := uint32(1); row <= s.schedules.Len(); row++ {
		s.asking.note(row, s.schedules.Read(row).Asked)
		s.due.add(s.schedules.Read(row).Due, dueSchedule, row)
	}
	s.indexInspections()
	s.runs.packAll()
	s.requests.Reindex()
	s.sources.Reindex()
	s.indexPersons()
	s.publishDue()
}

func (s *state) idHash(id *[16]byte) uint64 { return maphash.Bytes(s.seed, id[:]) }

// secretHash needs no seed: the bytes are those of a SHA-256.
func secretHash(hash *[32]byte) uint64 { return binary.LittleEndian.Uint64(hash[:]) }

// maxAgents bounds the names of agents; later ones are written as the last.
const maxAgents = 10_000

// agent numbers an agent's name.
func (s *state) agent(name string) uint32 {
	if row := s.agentBy[name]; row != 0 || name == "" {
		return row
	}
	if s.agents.Len() >= maxAgents {
		return maxAgents
	}
	row, blob := s.agents.Append()
	blob.Bytes = []byte(name)
	s.agentBy[name] = row
	return row
}

func (s *state) agentName(number uint32) string {
	if number == 0 || number > s.agents.Len() {
		return ""
	}
	return string(s.agents.Read(number).Bytes)
}
