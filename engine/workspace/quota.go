package workspace

// What workspaces may hold, in bytes as rowBytes and texts count them; runs that have ended take
// about a third of it in memory, see runs. Beyond it nothing new is saved; a run that has begun may
// still say what it has to say (about 30 KB).
const (
	// MaxUnclaimedBytes is for an unclaimed workspace, MaxClaimedBytes for one that has an owner.
	MaxUnclaimedBytes = 256 << 10
	MaxClaimedBytes   = 64 << 20
	// BoughtRunBytes is added to a workspace's limit for each run ever bought for it. It is more
	// than a run can use, so a workspace never reaches the limit because of what it paid for.
	BoughtRunBytes = 32 << 10
	// MaxStrangersBytes is for all unclaimed workspaces together: beyond it, signups are refused and
	// these workspaces save nothing. MaxNetworkBytes is for those of one network (/48, /24).
	MaxStrangersBytes = 1 << 30
	MaxNetworkBytes   = MaxStrangersBytes / 16
	// MaxGoneBytes is for the rows that removed workspaces leave: beyond it, signups are refused.
	// MaxNetworkGoneBytes is for those of one network: beyond it, signups from that network are
	// refused.
	MaxGoneBytes        = 1 << 30
	MaxNetworkGoneBytes = MaxGoneBytes / 64
)

// How many records an unclaimed workspace may have. Rows are never used again, so these are what it
// leaves when it is removed.
const (
	// MaxUnclaimedFlows counts archived flows, too.
	MaxUnclaimedFlows = 50
	// MaxUnclaimedRecords is for flows, runs of any kind and purchases together.
	MaxUnclaimedRecords = 250
)

// What a row takes, its part of the indexes included, without its texts; of a workspace with its
// key, and with its first purchase: who has no room left can still ask for the one that claims it.
const (
	workspaceRowBytes = 600 + purchaseRowBytes
	flowRowBytes      = 200
	runRowBytes       = 200
	purchaseRowBytes  = 450
	issueRowBytes     = 300
	noticeRowBytes    = 160
)

// room is what one workspace holds. It is not state: it follows from the tables.
type room struct {
	bytes   uint64
	flows   uint32 // archived ones included
	records uint32 // flows, runs and purchases
	// schedules are the flows whose runs begin by themselves.
	schedules uint32
	network   uint32 // by number; 0 is not known
	claimed   bool
	gone      bool
}

// rooms are those of all workspaces, by row; strangers is the sum of those without an owner, gone
// of what those leave that were removed.
type rooms struct {
	of              []room
	strangers, gone uint64
	// networks number those that workspaces were signed up from, from 1; held is, by number, what
	// those without an owner hold, left what those take that were removed.
	networks   map[[16]byte]uint32
	held, left []uint64
}

// open adds the room of a workspace, the next one by row.
func (r *rooms) open(w *workspace) {
	if r.of == nil {
		r.of = make([]room, 1, 64) // rows count from 1
		r.networks = map[[16]byte]uint32{}
		r.held, r.left = make([]uint64, 1, 64), make([]uint64, 1, 64)
	}
	number := r.networks[w.Network]
	if number == 0 && w.Network != ([16]byte{}) {
		number = uint32(len(r.held))
		r.networks[w.Network] = number
		r.held, r.left = append(r.held, 0), append(r.left, 0)
	}
	r.of = append(r.of, room{claimed: w.claimed(), gone: w.GoneAt != 0, network: number})
	r.hold(uint32(len(r.of)-1), workspaceRowBytes)
}

// network returns what the unclaimed workspaces of a network hold, and what the removed ones left.
func (r *rooms) network(network [16]byte) (held, left uint64) {
	number := r.networks[network]
	if number == 0 {
		return 0, 0
	}
	return r.held[number], r.left[number]
}

// add counts another flow, run or purchase in, with its bytes.
func (r *rooms) add(workspace uint32, bytes int) {
	r.of[workspace].records++
	r.hold(workspace, bytes)
}

// hold counts bytes in, or out where they are negative.
func (r *rooms) hold(workspace uint32, bytes int) {
	w := &r.of[workspace]
	w.bytes += uint64(bytes)
	r.share(w, uint64(bytes))
}

// share adds to the sum that a workspace belongs to; what is negative wraps.
func (r *rooms) share(w *room, bytes uint64) {
	switch {
	case w.gone:
		r.gone += bytes
		if w.network != 0 {
			r.left[w.network] += bytes
		}
	case !w.claimed:
		r.strangers += bytes
		if w.network != 0 {
			r.held[w.network] += bytes
		}
	}
}

// adopt notes that a workspace has an owner now.
func (r *rooms) adopt(workspace uint32) {
	w := &r.of[workspace]
	r.share(w, -w.bytes)
	w.claimed = true
}

// bury notes that a workspace was removed.
func (r *rooms) bury(workspace uint32) {
	w := &r.of[workspace]
	r.share(w, -w.bytes)
	w.gone = true
	r.share(w, w.bytes)
}

// limit is what a workspace may hold now, without the room of its bought runs.
func (r *rooms) limit(workspace uint32) uint64 {
	w := &r.of[workspace]
	if w.claimed {
		return MaxClaimedBytes
	}
	free := MaxStrangersBytes - min(r.strangers, MaxStrangersBytes)
	if w.network != 0 {
		free = min(free, MaxNetworkBytes-min(r.held[w.network], MaxNetworkBytes))
	}
	return min(MaxUnclaimedBytes, w.bytes+free)
}

// FullReply is the reply of OutcomeWorkspaceFull: what the workspace holds, and what it may hold,
// in bytes, or how many records it has, and may have.
type FullReply struct {
	Used       uint64 `wire:"1"`
	Limit      uint64 `wire:"2"`
	Records    uint32 `wire:"3"`
	MaxRecords uint32 `wire:"4"`
}
