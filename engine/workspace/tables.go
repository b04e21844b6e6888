package workspace

import (
	"encoding/binary"
	"hash/maphash"

	"tollgate/engine"
	"tollgate/engine/machine"
	"tollgate/engine/page"
)

// tables are the rows that more than one owner reads, and how they are found. Each owner embeds the
// one before it (tables, spaces, notices, money, flowStore, runner, people, state), so a method
// sees what is below its owner and nothing above it.
type tables struct {
	log   machine.Log
	store *page.Store
	// seed is of the indexes, which are not state: their hashes differ between processes.
	seed maphash.Seed

	workspaces  records[workspace]
	claimByHash *page.Index
	flows       records[flow]
	flowTexts   *page.Table[page.Blob] // row = flow row
	schedules   *page.Table[schedule]
	runs        *runs
	purchases   records[purchase]
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
	x.claimByHash = page.NewIndex()
	x.agentBy, x.inspectionBy = map[string]uint32{}, map[uint32]uint32{}
	x.workspaces = openRecords(x.store, x.seed, tableWorkspaces, func(w *workspace) head {
		return head{id: &w.ID}
	})
	x.flows = openRecords(x.store, x.seed, tableFlows, func(f *flow) head {
		return head{&f.ID, f.Workspace, f.Before}
	})
	x.flowTexts = page.NewBlobTable(x.store, tableFlowTexts)
	x.schedules = page.NewTable(x.store, tableSchedules, machine.RecordCodec[schedule]())
	x.runs = openRuns(x.store, x.flows.Table, x.workspaces.Table, x.idHash)
	x.purchases = openRecords(x.store, x.seed, tablePurchases, func(p *purchase) head {
		return head{&p.ID, p.Workspace, p.Before}
	})
	x.agents = page.NewBlobTable(x.store, tableAgents)
	x.actRows = page.NewTable(x.store, tableActs, machine.RecordCodec[actRow]())
	x.openRequests()
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

// workspace copies a workspace by row; false when there is none, or none any more.
func (x *tables) workspace(row uint32) (w workspace, ok bool) {
	if !x.owned(row) || x.workspaces.Read(row).GoneAt != 0 {
		return w, false
	}
	return *x.workspaces.Read(row), true
}

// living is the row of a workspace that exists and was not removed, else 0.
func (x *tables) living(workspace uint32, _ [16]byte) uint32 {
	if _, ok := x.workspace(workspace); !ok {
		return 0
	}
	return workspace
}

func (x *tables) owned(workspace uint32) bool {
	return workspace != 0 && workspace <= x.workspaces.Len()
}

func (x *tables) claimRow(code *[32]byte) uint32 {
	return x.claimByHash.Find(secretHash(code), func(row uint32) bool {
		return x.workspaces.Read(row).Claim == *code
	})
}

// flowRow finds a flow of a workspace that is not archived; 0 when there is none.
func (x *tables) flowRow(workspace uint32, id [16]byte) uint32 {
	row := x.flows.of(workspace, id)
	if row == 0 || x.flows.Read(row).ArchivedAt != 0 {
		return 0
	}
	return row
}

// document decodes a flow's document.
func (x *tables) document(row uint32) (d FlowDocument) {
	decodeBlob(x.flowTexts.Read(row).Bytes, &d)
	return d
}

// neverWhole reports whether a run is an inspection's, or an assessment's, that has failed: it was
// given back, and who sends the request again means another one.
func (x *tables) neverWhole(row uint32) bool {
	r := x.runs.Read(row)
	return x.inspectionBy[row] != 0 && r.Status.Final() && r.Status != RunCompleted
}

// RequestRetentionMS is how long an Idempotency-Key is kept, in log time: 30 days.
const RequestRetentionMS = 30 * dayMS

const (
	// MaxRequests is how many Idempotency-Keys one group keeps at most: beyond it new ones are
	// refused until older ones have expired.
	MaxRequests = 6_000_000
	// spareRequests are those of MaxRequests that only purchases use which their owners have paid.
	spareRequests = 10_000
)

// request is a request that was carried out, and what its answer is given again from.
type request struct {
	Key  [16]byte `wire:"1"`
	Body [16]byte `wire:"2"`
	Made [16]byte `wire:"3"`
	At   int64    `wire:"4"`
}

// requestRow is what is in memory of a request: there are as many as runs in 30 days. What it made
// is a row of the table that kind says; its instant has 48 bits, enough until the year 10,889.
type requestRow struct {
	Key, Body [16]byte
	made      uint32
	atLow     uint32
	atHigh    uint16
	kind      madeKind
}

// madeKind says what a request made.
type madeKind uint8

const (
	madeRun      madeKind = 1
	madePurchase madeKind = 2
	madeAct      madeKind = 3
)

func (r *requestRow) at() int64 { return int64(r.atHigh)<<32 | int64(r.atLow) }

func (r *requestRow) set(at int64) { r.atHigh, r.atLow = uint16(at>>32), uint32(at) }

// openRequests makes the table of requests, after those of what they make.
func (x *tables) openRequests() {
	record := machine.RecordCodec[request]()
	x.requests = machine.Ring[requestRow]{
		Max: MaxRequests, Spare: spareRequests, By: page.NewIndex(), Hash: x.idHash,
		Key: func(r *requestRow) [16]byte { return r.Key }, At: (*requestRow).at,
	}
	x.requests.Table = page.NewTable(x.store, tableRequests, page.Codec[requestRow]{
		Append: func(dst []byte, r *requestRow) []byte {
			return record.Append(dst, &request{
				Key: r.Key, Body: r.Body, Made: x.madeID(r), At: r.at(),
			})
		},
		ReadRow: func(row uint32, src []byte, to *requestRow) ([]byte, error) {
			var r request
			rest, err := record.Read(src, &r)
			to.Key, to.Body = r.Key, r.Body
			to.set(r.At)
			if to.made = x.runs.restored(&r.Made); to.made != 0 {
				to.kind = madeRun
			} else {
				x.unresolved = append(x.unresolved, unresolved{row, r.Made})
			}
			return rest, err
		},
	})
}

// madeID is the id of what a request made, which never changes. It takes no lock.
func (x *tables) madeID(r *requestRow) [16]byte {
	switch r.kind {
	case madeRun:
		return x.runs.Row(r.made).ID
	case madePurchase:
		return x.purchases.Read(r.made).ID
	}
	return x.actRows.Read(r.made).ID
}

// unresolved is a request that was restored before what it made.
type unresolved struct {
	row  uint32
	made [16]byte
}

// resolve finds what requests made that were restored before it, of removed workspaces, too, whose
// records no index has; false reports whether one made nothing.
func (x *tables) resolve() bool {
	var rest map[[16]byte]requestRow // purchases and acts: few have a key
	for _, u := range x.unresolved {
		r := x.requests.Table.Write(u.row)
		if r.made, r.kind = x.runs.Find(&u.made), madeRun; r.made != 0 {
			continue
		}
		if rest == nil {
			rest = x.madeByOthers()
		}
		other, ok := rest[u.made]
		if !ok {
			return false
		}
		r.made, r.kind = other.made, other.kind
	}
	x.unresolved = nil
	return true
}

// madeByOthers are all purchases and acts, by id.
func (x *tables) madeByOthers() map[[16]byte]requestRow {
	others := make(map[[16]byte]requestRow, x.purchases.Len()+x.actRows.Len())
	for row, a := range x.actRows.All() {
		others[a.ID] = requestRow{kind: madeAct, made: row}
	}
	for row, p := range x.purchases.All() {
		others[p.ID] = requestRow{kind: madePurchase, made: row}
	}
	return others
}

// replay says what a request's key was used for: OutcomeNone for nothing yet, Done with the record
// that was made, or OutcomeRequestKeyReused. The zero key is none; nor is one used up by an
// inspection whose document was never whole.
func (x *tables) replay(key, body [16]byte) (made [16]byte, o engine.Outcome) {
	if key == ([16]byte{}) {
		return made, engine.OutcomeNone
	}
	row := x.requests.Find(key, x.log.Stamp()-RequestRetentionMS)
	if row == 0 {
		return made, engine.OutcomeNone
	}
	r := x.requests.Table.Read(row)
	if r.kind == madeRun && x.neverWhole(r.made) {
		return made, engine.OutcomeNone
	}
	if r.Body != body {
		return made, engine.OutcomeRequestKeyReused
	}
	return x.madeID(r), engine.OutcomeDone
}

// keepRequest keeps the key of a request that made a row.
func (x *tables) keepRequest(t *machine.Turn, key, body [16]byte, kind madeKind, made uint32) {
	if key != ([16]byte{}) && x.requests.To-x.requests.From < x.requests.Max {
		r := requestRow{Key: key, Body: body, kind: kind, made: made}
		r.set(t.Stamp)
		x.requests.Keep(r)
	}
}
