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

// tables are the rows that more than one owner reads, and how they are found. Each owner embeds the
// one before it (tables, spaces, notices, money, flowStore, runner, people, state), so a method sees
// what is below its owner and nothing above it.
type tables struct {
	log   machine.Log
	store *page.Store
	// seed is of the indexes, which are not state: their hashes differ between processes.
	seed maphash.Seed

	workspaces  *page.Table[workspace]
	workspaceBy *page.Index
	claimByHash *page.Index
	flows       *page.Table[flow]
	flowTexts   *page.Table[page.Blob] // row = flow row
	flowBy      *page.Index
	schedules   *page.Table[schedule]
	runs        *runs
	purchases   *page.Table[purchase]
	actRows     *page.Table[actRow]
	agents      *page.Table[page.Blob] // names of agents, numbered from 1
	agentBy     map[string]uint32
	// inspectionBy is run row → inspection row.
	inspectionBy map[uint32]uint32

	requests   machine.Ring[requestRow]
	unresolved []unresolved // of a restore
}

func (x *tables) open() {
	x.store, x.seed = page.NewStore(), maphash.MakeSeed()
	x.workspaceBy, x.claimByHash, x.flowBy = page.NewIndex(), page.NewIndex(), page.NewIndex()
	x.agentBy, x.inspectionBy = map[string]uint32{}, map[uint32]uint32{}
	x.workspaces = page.NewTable(x.store, tableWorkspaces, machine.RecordCodec[workspace]())
	x.flows = page.NewTable(x.store, tableFlows, machine.RecordCodec[flow]())
	x.flowTexts = page.NewBlobTable(x.store, tableFlowTexts)
	x.schedules = page.NewTable(x.store, tableSchedules, machine.RecordCodec[schedule]())
	x.runs = openRuns(x)
	x.purchases = page.NewTable(x.store, tablePurchases, machine.RecordCodec[purchase]())
	x.agents = page.NewBlobTable(x.store, tableAgents)
	x.actRows = page.NewTable(x.store, tableActs, machine.RecordCodec[actRow]())
	x.openRequests()
}

// spaces are workspaces: who has them, their keys, and what they hold and may hold.
type spaces struct {
	tables
	policy SetPolicy
	// expireFrom is since when the policy says how long workspaces without an owner are kept.
	expireFrom int64
	keys       *page.Table[key]
	keyByHash  *page.Index // of API keys
	sources    machine.Ring[signups]
	// due is what will happen by itself, earliest first; no state.
	due dues
	// rooms are what workspaces hold; no state: they follow from the tables.
	rooms         rooms
	issues        *page.Table[issue]
	notifications *page.Table[notification]
	inspections   *page.Table[inspection]
	alerts        *page.Table[alert]
	access        *page.Table[access]
	persons       *page.Table[person]
	emailBy       map[string]uint32   // a person's verified address → row
	promised      map[string][]uint32 // an address that has not signed in yet → workspaces
}

// MaxSources is how many addresses that signed up in an hour one group keeps at most; beyond it
// nobody signs up from another.
const MaxSources = 200_000

func (x *spaces) open() {
	x.tables.open()
	x.policy, x.keyByHash = DefaultPolicy(), page.NewIndex()
	x.emailBy, x.promised = map[string]uint32{}, map[string][]uint32{}
	x.keys = page.NewTable(x.store, tableKeys, machine.RecordCodec[key]())
	x.issues = page.NewTable(x.store, tableIssues, machine.RecordCodec[issue]())
	x.notifications = page.NewTable(x.store, tableNotifications, machine.RecordCodec[notification]())
	x.inspections = page.NewTable(x.store, tableInspections, machine.RecordCodec[inspection]())
	x.alerts = page.NewTable(x.store, tableAlerts, machine.RecordCodec[alert]())
	x.access = page.NewTable(x.store, tableAccess, machine.RecordCodec[access]())
	x.persons = page.NewTable(x.store, tablePersons, machine.RecordCodec[person]())
	x.sources = machine.Ring[signups]{
		Table: page.NewTable(x.store, tableSignups, machine.RecordCodec[signups]()), Max: MaxSources,
		By: page.NewIndex(), Hash: x.idHash, Key: func(r *signups) [16]byte { return r.Source },
		At: func(r *signups) int64 { return r.At },
	}
}

// notices are issues, notifications and alerts.
type notices struct {
	spaces
	issueBy      *page.Index
	notification *page.Index
	// alerting are the alerts of which something waits to be sent; no state.
	alerting waiting
}

func (x *notices) open() {
	x.spaces.open()
	x.issueBy, x.notification = page.NewIndex(), page.NewIndex()
}

// money is ledgers and purchases.
type money struct {
	notices
	// day and freeToday count the free runs of all workspaces in one UTC day.
	day, freeToday uint32
	transactions   *page.Table[transaction]
	purchaseBy     *page.Index
	linkBy         *page.Index
	// errands are what providers are to be asked; no state.
	errands errands
}

func (x *money) open() {
	x.notices.open()
	x.purchaseBy, x.linkBy = page.NewIndex(), page.NewIndex()
	x.transactions = page.NewTable(x.store, tableTransactions, machine.RecordCodec[transaction]())
}

// flowStore is saved tests, and what their runs sign in with.
type flowStore struct{ money }

// runner is runs, inspections and schedules.
type runner struct {
	flowStore
	// offered are the configured agents, "name kind version", the default one first.
	offered []string
	// firstQueued and lastQueued are the runs that wait for a worker, oldest first; queued is their
	// number, running that of runs with a worker.
	firstQueued, lastQueued uint32
	queued, running         uint32
	documents               *page.Table[page.SummedBlob] // row = inspection row
	inspectedBy             map[hostKey]uint32           // the newest
	// asking are the schedules whose runs begin once a preflight is noted; no state.
	asking waiting
}

func (x *runner) open() {
	x.money.open()
	x.documents = page.NewSummedBlobTable(x.store, tableDocuments)
	x.inspectedBy = map[hostKey]uint32{}
}

// people are who signs in: persons, sessions, and agents that ask to work for their owner.
type people struct {
	runner
	personBy *page.Index
	sessions machine.Ring[session]
	links    *page.Table[link]
}

func (x *people) open() {
	x.runner.open()
	x.personBy = page.NewIndex()
	x.links = page.NewTable(x.store, tableLinks, machine.RecordCodec[link]())
	x.sessions = machine.Ring[session]{
		Table: page.NewTable(x.store, tableSessions, machine.RecordCodec[session]()), Max: MaxSessions,
		By: page.NewIndex(), Hash: x.idHash, Key: func(r *session) [16]byte { return sessionKey(&r.Hash) },
		At: func(r *session) int64 { return r.CreatedAt },
	}
}

// state is everything that a snapshot holds, and what is rebuilt from it. Apply is its only writer,
// and holds mu for one record at a time; queries hold it to read.
type state struct {
	people
	mu      sync.RWMutex
	nextDue atomic.Int64 // what NextDue answers
}

// newState returns the state before the first entry.
func newState() *state {
	s := new(state)
	s.open()
	return s
}

// reindex rebuilds the indexes and what is due from the tables, after a restore.
func (x *state) reindex() {
	x.rooms = x.countRooms()
	gone := func(workspace uint32) bool { return x.rooms.of[workspace].gone }
	for row := uint32(1); row <= x.workspaces.Len(); row++ {
		w := x.workspaces.Read(row)
		x.workspaceBy.Insert(x.idHash(&w.ID), row)
		if w.Claim != ([32]byte{}) {
			x.claimByHash.Insert(secretHash(&w.Claim), row)
		}
		x.due.add(x.unusedEnd(w), dueWorkspace, row)
	}
	for row := uint32(1); row <= x.keys.Len(); row++ {
		x.keyByHash.Insert(secretHash(&x.keys.Read(row).Hash), row)
	}
	for row := uint32(1); row <= x.flows.Len(); row++ {
		if f := x.flows.Read(row); !gone(f.Workspace) {
			x.flowBy.Insert(x.idHash(&f.ID), row)
		}
	}
	for row := uint32(1); row <= x.runs.Len(); row++ {
		x.due.add(x.runs.Read(row).Due, dueRun, row)
	}
	for row := uint32(1); row <= x.purchases.Len(); row++ {
		p := x.purchases.Read(row)
		if !gone(p.Workspace) {
			x.purchaseBy.Insert(x.idHash(&p.ID), row)
		}
		if p.waits() {
			x.linkBy.Insert(secretHash(&p.Link), row)
		}
		x.errands.move(row, ErrandNone, p.errand())
		x.due.add(p.Due, duePurchase, row)
	}
	for row := uint32(1); row <= x.issues.Len(); row++ {
		if i := x.issues.Read(row); !gone(i.Workspace) {
			x.issueBy.Insert(x.idHash(&i.ID), row)
		}
	}
	for row := uint32(1); row <= x.notifications.Len(); row++ {
		if n := x.notifications.Read(row); !gone(n.Workspace) {
			x.notification.Insert(x.idHash(&n.ID), row)
		}
	}
	for row := uint32(1); row <= x.agents.Len(); row++ {
		x.agentBy[string(x.agents.Read(row).Bytes)] = row
	}
	for row := uint32(1); row <= x.alerts.Len(); row++ {
		x.alerting.note(row, x.alerts.Read(row).sendable())
	}
	for row := uint32(1); row <= x.schedules.Len(); row++ {
		x.asking.note(row, x.schedules.Read(row).Asked)
		x.due.add(x.schedules.Read(row).Due, dueSchedule, row)
	}
	x.indexInspections()
	x.runs.packAll()
	x.requests.Reindex()
	x.sources.Reindex()
	x.indexPersons()
	x.publishDue()
}

func (x *tables) idHash(id *[16]byte) uint64 { return maphash.Bytes(x.seed, id[:]) }

// secretHash needs no seed: the bytes are those of a SHA-256.
func secretHash(hash *[32]byte) uint64 { return binary.LittleEndian.Uint64(hash[:]) }

// maxAgents bounds the names of agents; later ones are written as the last.
const maxAgents = 10_000

// agent numbers an agent's name.
func (x *tables) agent(name string) uint32 {
	if row := x.agentBy[name]; row != 0 || name == "" {
		return row
	}
	if x.agents.Len() >= maxAgents {
		return maxAgents
	}
	row, blob := x.agents.Append()
	blob.Bytes = []byte(name)
	x.agentBy[name] = row
	return row
}

func (x *tables) agentName(number uint32) string {
	if number == 0 || number > x.agents.Len() {
		return ""
	}
	return string(x.agents.Read(number).Bytes)
}
