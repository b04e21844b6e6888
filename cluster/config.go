package cluster

import (
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"time"

	"tollgate/cluster/keyfiles"
	"tollgate/engine"
	"tollgate/engine/fair"
	"tollgate/engine/journal"
	"tollgate/engine/rollup"
	"tollgate/wal"
)

// Shard numbers of the two groups that every node runs.
const (
	ShardBilling   uint16 = 0
	ShardWorkspace uint16 = 1
)

// Member is one node of the cluster. The list is the same on every node.
type Member struct {
	// ID names the node permanently; a disk belongs to one ID.
	ID string `json:"id"`
	// Raft is the address, host:port, at which the other nodes reach this one.
	Raft string `json:"raft"`
	// HTTP and Ops are the addresses of its public and operations listeners, for display.
	HTTP string `json:"http"`
	Ops  string `json:"ops"`
}

// Shard is what one group replicates.
type Shard struct {
	// Machine is the state machine. It must be new: its state comes from snapshot and log.
	Machine engine.Machine
	// Indexer returns the owners of a journal record; nil for a machine without a journal.
	Indexer journal.Indexer
	// KeyOf is the idempotency key that a journal record used up; nil for a machine whose keys
	// never leave memory.
	KeyOf keyfiles.KeyOf
	// Count returns what a journal record adds to the hourly counts; nil for a machine without them.
	Count rollup.Counter
	// CountVersions changes when Count begins to count a part of the journal differently.
	CountVersions rollup.Versions
}

// SkipEntry names an entry that this node must not apply, so that an operator can get past an entry
// that panics. All nodes must have the same list.
type SkipEntry struct {
	Shard uint16
	Index uint64
	// CRC is the CRC-32C of the entry's bytes, as printed when the node stopped.
	CRC uint32
}

// Config configures a node. The zero value of a field means its default.
type Config struct {
	// NodeID is this node's Member.ID.
	NodeID string
	// Members are the first voters of a new cluster, this node included, in the same order on every
	// node. A node whose folder is not empty uses the replicated list instead.
	Members []Member
	// Join makes a node with an empty folder wait until it is joined to a cluster (see Node.Join)
	// instead of founding one. Only its own entry of Members counts then.
	Join bool
	// Dir is the folder of this node's data. It is created when absent.
	Dir string
	// Cluster is the identity of the cluster, 32 hex digits. Restore gives one to a new cluster, and
	// a node with an empty folder needs it to join. Nodes with another identity are refused. The
	// default is the folder's; a cluster that was never restored has none.
	Cluster string
	// Listen is the address to listen on, host:port; default the member's own Raft address.
	Listen string
	// Dial maps Member.ID to the address at which this node reaches that member, if it is not the
	// member's own: a tunnel, another network, a translated address. TLS still verifies the
	// certificate of the member's own host.
	Dial map[string]string
	// TLS, when set, secures every connection between nodes. It needs Certificates, RootCAs and
	// ClientCAs; both ends are verified.
	TLS *tls.Config

	// Billing and Workspace are the two state machines.
	Billing, Workspace Shard

	Timeouts
	// CheckEntries is how many entries are applied between two comparisons of the replicas' states
	// (1024); at most engine.HashRingEntries.
	CheckEntries uint64

	Limits
	// Grows reports whether a command makes the state grow; nil: none does.
	Grows func(shard uint16, r engine.Record) bool
	// Weight is a flow's share of queues and entries in proportion to others; nil: all have 1. It is
	// called with locks held and must return at once.
	Weight func(shard uint16, f fair.Flow) int

	// Skip lists entries that are not applied.
	Skip []SkipEntry
	// Log receives the node's log messages; default slog.Default().
	Log *slog.Logger
	// Events are the callbacks for metrics; default none.
	Events *Events
	// Fatal is called when this process must end at once; it should not return. The default logs
	// the error and exits with ExitCode(err).
	Fatal func(error)

	// Network opens connections; default TCP. Tests partition it.
	Network Network
	// FS is where the node's files are; default the operating system's. Tests cut its power.
	FS wal.FS
	// logSegment is the size of a log's files in bytes; default the log's own. Tests reduce it.
	logSegment int64
	// live is how many bytes of memory are in use; default the runtime's figure. Tests replace it.
	live func() int64
	// Now is this node's wall clock; default time.Now. Tests let it drift.
	Now func() time.Time
}

// Timeouts say how long a node waits. The zero value of a field means its default.
type Timeouts struct {
	// HeartbeatTimeout is how long a follower waits before it stands for election (500 ms); the
	// length of a lease follows from it. It must be the same on every node.
	HeartbeatTimeout time.Duration
	// CommitTimeout is how soon an idle leader sends followers its commit index if none of them
	// asks (50 ms).
	CommitTimeout time.Duration
	// StoreTimeout is how long the disk may take to store entries before the process exits (10 s).
	StoreTimeout time.Duration
	// RPCTimeout bounds one call between nodes, snapshots excepted (5 s).
	RPCTimeout time.Duration
}

// Limits bound what a node takes in and keeps. The zero value of a field means its default.
type Limits struct {
	// MemoryBytes is the memory that the process may use. Near it, client writes that make the state
	// grow (Grows) are refused. 0 means no limit.
	MemoryBytes int64
	// QueueBytes bounds the unanswered proposals of a node, per group: on the leader those that wait
	// for entries, on a follower those that wait for the leader (64 MiB).
	QueueBytes int
	// ForwardBytes bounds the proposals that a follower has sent to the leader, per group (4 MiB).
	ForwardBytes int
	// SnapshotBytes is how much log is written before a snapshot is taken (256 MiB).
	SnapshotBytes int64
	// TrailingBytes is how much log is kept from before a snapshot for followers that lag (64 MiB).
	TrailingBytes int64
	// CacheBytes is how much of the log is kept in memory, per group (32 MiB).
	CacheBytes int64
	// DiskLowBytes is the free space below which a node does not lead if another has room; if none
	// has, client writes are refused (1 GiB).
	DiskLowBytes int64
}

// ErrConfig means that a Config cannot be used.
var ErrConfig = errors.New("cluster: bad configuration")

// ErrRestart is wrapped by fatal errors that a restart of the process repairs.
var ErrRestart = errors.New("cluster: restart this process")

// Exit codes of the default Config.Fatal.
const (
	// ExitFatal: an operator must look.
	ExitFatal = 3
	// ExitRestart: start the process again.
	ExitRestart = 4
)

// ExitCode is the exit code of a process that err stops.
func ExitCode(err error) int {
	if errors.Is(err, ErrRestart) {
		return ExitRestart
	}
	return ExitFatal
}

// NoRoom reports whether a write failed because the disk, or this user's quota, is full.
func NoRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// Unusable reports whether a file or folder has the wrong type or denies this user access.
func Unusable(err error) bool {
	var at *fs.PathError
	return errors.As(err, &at) && (errors.Is(at, syscall.ENOTDIR) || errors.Is(at, syscall.EISDIR) ||
		errors.Is(at, syscall.EROFS) || errors.Is(at, fs.ErrPermission))
}

// Remedied adds advice to a fatal error: what to do about a full disk or an unusable file.
func Remedied(err error) error {
	if NoRoom(err) {
		return fmt.Errorf("%w; nothing that was acknowledged is lost: free 2 MiB or more on the disk, "+
			"and start it again", err)
	}
	if Unusable(err) {
		return fmt.Errorf("%w; nothing was changed there: put back the right file or folder, owned by "+
			"this user, and start it again", err)
	}
	return err
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// withDefaults returns c with every default filled in, or ErrConfig.
func (c Config) withDefaults() (Config, error) {
	setDefault(&c.HeartbeatTimeout, 500*time.Millisecond)
	setDefault(&c.CommitTimeout, 50*time.Millisecond)
	setDefault(&c.StoreTimeout, 10*time.Second)
	setDefault(&c.RPCTimeout, 5*time.Second)
	setDefault(&c.CheckEntries, 1024)
	setDefault(&c.QueueBytes, 64<<20)
	setDefault(&c.ForwardBytes, 4<<20)
	setDefault(&c.SnapshotBytes, 256<<20)
	setDefault(&c.TrailingBytes, 64<<20)
	setDefault(&c.CacheBytes, 32<<20)
	setDefault(&c.DiskLowBytes, 1<<30)
	setDefault(&c.Log, slog.Default())
	setDefault(&c.Events, &Events{})
	setDefault(&c.FS, wal.OS())
	setDefault(&c.Network, Network(tcp{}))
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.live == nil {
		c.live = liveBytes
	}
	if c.Fatal == nil {
		log := c.Log
		c.Fatal = func(err error) {
			log.Error("this process ends", "error", Remedied(err))
			os.Exit(ExitCode(err))
		}
	}
	self, ok := c.member(c.NodeID)
	switch {
	case c.NodeID == "" || len(c.NodeID) > engine.MaxNodeID:
		return c, fmt.Errorf("%w: a node id has 1 to %d bytes", ErrConfig, engine.MaxNodeID)
	case !ok:
		return c, fmt.Errorf("%w: node %q is not among the members", ErrConfig, c.NodeID)
	case c.Dir == "":
		return c, fmt.Errorf("%w: no data folder", ErrConfig)
	case c.Billing.Machine == nil || c.Workspace.Machine == nil:
		return c, fmt.Errorf("%w: a state machine is missing", ErrConfig)
	case c.QueueBytes < engine.MaxEntryBytes || c.ForwardBytes < engine.MaxEntryBytes:
		return c, fmt.Errorf("%w: a queue holds less than one entry", ErrConfig)
	}
	setDefault(&c.Listen, self.Raft)
	if err := errors.Join(c.checkMembers(), checkIdentity(c.Cluster)); err != nil {
		return c, err
	}
	return c, checkTLS(c.TLS)
}

func (c *Config) checkMembers() error {
	seen := make(map[string]bool)
	for _, m := range c.Members {
		if m.ID == "" || m.Raft == "" || seen[m.ID] || seen[m.Raft] ||
			strings.Contains(m.Raft, "?") {
			return fmt.Errorf("%w: member %q needs an id and an address of its own", ErrConfig, m.ID)
		}
		seen[m.ID], seen[m.Raft] = true, true
	}
	for id, address := range c.Dial {
		if id == c.NodeID || id == "" || address == "" {
			return fmt.Errorf("%w: an address to dial names another node, not %q", ErrConfig, id)
		}
	}
	return nil
}

// beginners are the voters with which this node would found a cluster.
func (c *Config) beginners() []Member {
	if c.Join {
		return nil
	}
	return c.Members
}

func checkTLS(t *tls.Config) error {
	if t == nil {
		return nil
	}
	shows := len(t.Certificates) > 0 || t.GetCertificate != nil && t.GetClientCertificate != nil
	if t.InsecureSkipVerify || t.RootCAs == nil || t.ClientCAs == nil || !shows {
		return fmt.Errorf("%w: TLS needs a certificate and the cluster's CA for both ends", ErrConfig)
	}
	return nil
}

func (c *Config) member(id string) (Member, bool) {
	for _, m := range c.Members {
		if m.ID == id {
			return m, true
		}
	}
	return Member{}, false
}

// identityBytes is the length of a cluster's identity.
const identityBytes = 16

// knownVersion is the newest cluster version that this build knows.
func (c *Config) knownVersion() uint32 {
	_, billing := c.Billing.Machine.Version()
	_, workspace := c.Workspace.Machine.Version()
	return max(billing, workspace)
}

// groupNames are the names of the groups, and of their folders, by shard number.
var groupNames = [2]string{ShardBilling: "billing", ShardWorkspace: "workspace"}

func checkIdentity(id string) error {
	if raw, err := hex.DecodeString(id); err != nil || len(raw) != 0 && len(raw) != identityBytes {
		return fmt.Errorf("%w: a cluster's identity has 32 hex digits, not %q", ErrConfig, id)
	}
	return nil
}

// Events are optional callbacks for metrics, read once when the node opens. They run on the node's
// own goroutines and must return at once.
type Events struct {
	// OnBatch: an entry of that many records and bytes was proposed.
	OnBatch func(shard uint16, records, bytes int)
	// OnCommit: an entry was applied, that long after it was proposed.
	OnCommit func(shard uint16, d time.Duration)
	// OnStore: the log stored entries durably, fsync included, in that time.
	OnStore func(shard uint16, bytes int, d time.Duration)
	// OnSync: one fsync of a file or folder (log, vote, snapshots, segments) took that time. Called
	// from many goroutines concurrently.
	OnSync func(shard uint16, d time.Duration)
	// OnApply: that many entries were applied in that time.
	OnApply func(shard uint16, entries int, d time.Duration)
	// OnEntry: one entry was applied in that time; nothing else was applied meanwhile.
	OnEntry func(shard uint16, d time.Duration)
	// OnForward: a frame of that many records and bytes went to the leader.
	OnForward func(shard uint16, records, bytes int)
	// OnSnapshot: a snapshot was written, of that size, in that time.
	OnSnapshot func(shard uint16, bytes int64, d time.Duration)
	// OnSnapshotFailed: no snapshot could be written. Until one is, the log is not shortened.
	OnSnapshotFailed func(shard uint16)
	// OnRestore: a snapshot was loaded into the state machine in that time.
	OnRestore func(shard uint16, d time.Duration)
	// OnLeader: this node learnt who leads; "" means that no node does.
	OnLeader func(shard uint16, leader string, term uint64)
	// OnLease: this node got (true) or lost (false) the read lease.
	OnLease func(shard uint16, held bool)
}
