// Package config is the one place where the settings of a node are stated: each with its
// validation, and its default in the sample file.
package config

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Sample is a complete configuration file with a comment for each setting. It states the defaults.
//
//go:embed sample.yaml
var Sample string

// Config holds the settings of one node.
type Config struct {
	// Node is the node's name within the cluster: 1–32 of a-z, 0-9 and '-'. It never changes.
	Node string `yaml:"node"`
	// Data is the folder for everything that the node keeps. One process at a time.
	Data         string `yaml:"data"`
	Addresses    `yaml:",inline"`
	Membership   `yaml:",inline"`
	Certificates `yaml:",inline"`
	// Connections bounds what the clients of each listener can make it hold.
	Connections Connections `yaml:"connections"`
	// AdminKeyHash is SHA-256 of the admin key, in hex: the node never holds the key itself.
	AdminKeyHash string `yaml:"adminKeyHash" secret:"true"`
	// SandboxHost, when set, is the Host on which sandbox keys are good, and no other.
	SandboxHost string `yaml:"sandboxHost"`
	// Audit says when a check is answered: async (its audit event was handed to replication) or
	// committed (a majority has it on disk).
	Audit  string `yaml:"audit"`
	Limits Limits `yaml:"limits"`
	Room   `yaml:",inline"`
	// Backups are made by one node, on a schedule.
	Backups  Backups `yaml:"backups"`
	Stopping `yaml:",inline"`
	Log      Log `yaml:"log"`
	// PublicURL is where the client API is reached from outside, http(s)://host without a path;
	// empty is HTTP's address. Payment pages are served there.
	PublicURL string `yaml:"publicURL"`
	// SecretsKey seals what must stay secret in the log and in snapshots: 64 hex digits, the same
	// on each node. Empty: AdminKeyHash serves, and another admin key makes them unreadable.
	SecretsKey string `yaml:"secretsKey" secret:"true"`
	// Proxies are the networks (10.0.0.0/8) of proxies in front: only what they say in
	// X-Forwarded-For counts, for limits by address.
	Proxies []string `yaml:"proxies"`
	// Outbound says what may be reached in addition to public addresses on ports 80 and 443.
	Outbound Outbound `yaml:"outbound"`
	// RateLimit bounds the requests of each API key on this node; 0 requests means no bound.
	RateLimit RateLimit `yaml:"rateLimit"`
	// Weights are the parts that accounts get, by name, where several want more of the cluster than
	// there is: one of weight 2 gets twice as much as one of 1, which an account has that is not
	// named. Each node has its own; they should be the same.
	Weights map[string]int `yaml:"weights"`
	// Workspaces are the settings of the workspace API.
	Workspaces Workspaces `yaml:"workspaces"`
	// SignIn says who names the people and agents that sign in.
	SignIn SignIn `yaml:"signIn"`
	// Mail says how mails are sent, of alerts for one.
	Mail Mail `yaml:"mail"`
	// Tracing says where traces of requests go.
	Tracing Tracing `yaml:"tracing"`
	// Skip lists log entries not to be applied: the way past an entry that stops every node.
	Skip []SkipEntry `yaml:"skip"`
}

// Addresses are those that a node listens on.
type Addresses struct {
	// HTTP, Ops and Raft are the addresses to listen on: the client API, the operations listener
	// (admin API, metrics, health), and the port on which nodes speak to each other.
	HTTP string `yaml:"http"`
	Ops  string `yaml:"ops"`
	Raft string `yaml:"raft"`
}

// Membership says which cluster a node belongs to, and where the others are.
type Membership struct {
	// Members are the nodes of a new cluster, this one included; the same list on each. A node
	// whose folder is not empty goes by the list that the cluster has agreed on instead.
	Members []Member `yaml:"members"`
	// Cluster is the identity of a cluster that was restored from a backup, 32 hex digits: what an
	// empty folder needs to belong to it. Empty: what the folder says.
	Cluster string `yaml:"cluster"`
	// Join reports whether this node begins no cluster when its folder is empty: it waits until
	// `tollgate cluster join` brings it into one. Members, if set, is then this node's own entry.
	Join bool `yaml:"join"`
	// Dial is where this node reaches others, by name, when that is not their address in Members: a
	// tunnel, another network, a translated address. Each node has its own.
	Dial map[string]string `yaml:"dial"`
}

// Certificates secure what a node listens on.
type Certificates struct {
	// TLS secures the connections between nodes. Nodes on other machines need it.
	TLS TLS `yaml:"tls"`
	// HTTPTLS and OpsTLS secure the client API and the operations listener; empty is in the clear.
	// Renewed certificates are picked up without a restart.
	HTTPTLS Certificate `yaml:"httpTLS"`
	OpsTLS  Certificate `yaml:"opsTLS"`
}

// Room is what a node may take of its machine.
type Room struct {
	// Memory is how much the process may use, in MiB; 0 takes three quarters of the machine's (or
	// of its cgroup's).
	Memory int `yaml:"memoryMiB"`
	// DiskReserve is the free space below which client writes are refused, in MiB.
	DiskReserve int       `yaml:"diskReserveMiB"`
	Snapshots   Snapshots `yaml:"snapshots"`
}

// Stopping says how a node stops.
type Stopping struct {
	// Drain is how long a node that stops goes on answering and tells clients to go elsewhere: at most
	// half of StopTimeout, which bounds a graceful stop.
	Drain       time.Duration `yaml:"drain"`
	StopTimeout time.Duration `yaml:"stopTimeout"`
}

// Member is one node of the cluster, as the others reach it.
type Member struct {
	ID   string `yaml:"id"`
	Raft string `yaml:"raft"`
	HTTP string `yaml:"http"`
	Ops  string `yaml:"ops"`
}

// TLS names the PEM files of mutual TLS between nodes: all three or none.
type TLS struct {
	Authority   string `yaml:"authority"`
	Certificate string `yaml:"certificate"`
	Key         string `yaml:"key"`
}

// Certificate names the PEM files of a listener's certificate, with those that lead to its
// authority, and of its key: both or none.
type Certificate struct {
	Certificate string `yaml:"certificate"`
	Key         string `yaml:"key"`
}

// Connections bounds the client API's listener; that of operations has 1,024 connections at most.
type Connections struct {
	// Total is the number of open connections, PerAddress that of one client address: 1 to 1
	// million, PerAddress up to Total. A node holds no more than its limit of open files allows.
	Total      int `yaml:"total"`
	PerAddress int `yaml:"perAddress"`
	// Requests is how many requests are carried out at a time, BodiesMiB what their bodies may take
	// together; beyond, the answer is 503 with Retry-After.
	Requests  int `yaml:"requests"`
	BodiesMiB int `yaml:"bodiesMiB"`
}

// Limits decide results, so they are agreed on through the log: the leader proposes its own.
type Limits struct {
	// KeyRetention is how long idempotency keys are kept, EventWindow how old an event's
	// occurredAt may be; the window never exceeds the retention. 1 h to 90 days.
	KeyRetention time.Duration `yaml:"keyRetention"`
	EventWindow  time.Duration `yaml:"eventWindow"`
	// KeyMemory is the budget for idempotency keys in MiB; 0 takes half of Memory. A quarter of it
	// holds the newest keys, the rest the filters of those on disk.
	KeyMemory int `yaml:"keyMemoryMiB"`
	// AuditRetention is how long audit events are kept, from their recording. 1 h to 10 years.
	AuditRetention time.Duration `yaml:"auditRetention"`
	// CustomersPerAccount, KeysPerAccount, CatalogPerAccount (features, plans and versions of
	// plans) and WebhooksPerAccount (endpoints) bound what one account holds, in both environments
	// together.
	CustomersPerAccount int `yaml:"customersPerAccount"`
	KeysPerAccount      int `yaml:"keysPerAccount"`
	CatalogPerAccount   int `yaml:"catalogPerAccount"`
	WebhooksPerAccount  int `yaml:"webhooksPerAccount"`
	// ReservationsPerCustomer and ReservationsPerEnvironment bound what is open, MaxReservation
	// how long one may live in all, whatever extends it: 1 s to 7 days.
	ReservationsPerCustomer    int           `yaml:"reservationsPerCustomer"`
	ReservationsPerEnvironment int           `yaml:"reservationsPerEnvironment"`
	MaxReservation             time.Duration `yaml:"longestReservation"`
	// ReservationMemory is the budget for reservations in MiB, open and closed; 0 takes a quarter of
	// Memory, at most 8 GiB.
	ReservationMemory int `yaml:"reservationMemoryMiB"`
}

// Outbound names exceptions for requests that leave the machine.
type Outbound struct {
	// AllowNetworks are private networks that may be dialled, AllowHosts other ports: host:port, or
	// host:* for all of a host.
	AllowNetworks []string `yaml:"allowNetworks"`
	AllowHosts    []string `yaml:"allowHosts"`
}

// RateLimit allows Requests, Items (usage events and checks) and Bytes of bodies in each Window:
// 1 s to 1 h. 0 means no bound.
type RateLimit struct {
	Requests int           `yaml:"requests"`
	Items    int           `yaml:"items"`
	Bytes    int           `yaml:"bytes"`
	Window   time.Duration `yaml:"window"`
}

// Snapshots say how much log a node keeps, in MiB.
type Snapshots struct {
	// LogMiB is how much log is written before a snapshot is taken, TrailingMiB how much is kept
	// behind it for nodes that lag; one that lags further gets the snapshot.
	LogMiB      int `yaml:"logMiB"`
	TrailingMiB int `yaml:"trailingMiB"`
}

// Log says what is logged, and how.
type Log struct {
	Level  string `yaml:"level"`  // debug, info, warn, error
	Format string `yaml:"format"` // text, json
}

// SkipEntry names one log entry by its place and its content.
type SkipEntry struct {
	Group string `yaml:"group"` // billing, workspace
	Index uint64 `yaml:"index"`
	CRC   uint32 `yaml:"crc"`
}

// Default returns the settings of Sample without its admin key, which is only an example.
func Default() (c Config) {
	if err := c.read([]byte(Sample)); err != nil {
		panic(err) // a test reads it
	}
	c.AdminKeyHash = ""
	return c
}

// Load reads a configuration file over the defaults. A setting that does not exist is an error.
func Load(file string) (Config, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return Config{}, fmt.Errorf("configuration: %w", err)
	}
	c, err := Parse(text)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

// Parse reads a configuration over the defaults, without validating it.
func Parse(text []byte) (Config, error) {
	c := Default()
	if err := c.read(text); err != nil {
		return Config{}, fmt.Errorf("configuration: %w", err)
	}
	return c, nil
}

// read replaces what a document names.
func (c *Config) read(text []byte) error {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(c); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := decoder.Decode(&struct{}{}); !errors.Is(err, io.EOF) {
		return errors.New("more than one document")
	}
	return nil
}

// Complete fills in what follows from other settings: a node without members is a cluster of its
// own.
func (c *Config) Complete() {
	if len(c.Members) == 0 {
		c.Members = []Member{{ID: c.Node, Raft: c.Raft, HTTP: c.HTTP, Ops: c.Ops}}
	}
}

// KeyBytes is what an idempotency key takes in memory, on the average of its table's fill.
const KeyBytes = 40

// DiskKeyBytes is what a key that has left memory takes there, in hundredths of a byte: filter and
// directory of its file, with room for a merge.
const DiskKeyBytes = 150

// MaxKeys is the number of idempotency keys that fit their budget: a quarter of it is for those in
// memory, the rest for what memory has of those on disk.
func (c *Config) MaxKeys() uint64 {
	return c.MaxKeysInMemory() + (c.keyBudget()-c.keyBudget()/4)*100/DiskKeyBytes
}

// MaxKeysInMemory is how many of them stay in memory.
func (c *Config) MaxKeysInMemory() uint64 { return c.keyBudget() / 4 / KeyBytes }

func (c *Config) keyBudget() uint64 {
	if budget := uint64(c.Limits.KeyMemory) << 20; budget > 0 {
		return budget
	}
	return c.MemoryBytes() / 2
}

// ReservationBytes is what a reservation of one feature takes in memory where it counts in a
// budget, with a key and meta of usual length.
const ReservationBytes = 512

// MaxReservations is the number of reservations that fit their budget.
func (c *Config) MaxReservations() uint64 {
	const maximum = 8 << 30
	budget := uint64(c.Limits.ReservationMemory) << 20
	return cmp.Or(budget, min(c.MemoryBytes()/4, maximum)) / ReservationBytes
}

// MemoryBytes is what the process may use.
func (c *Config) MemoryBytes() uint64 {
	if c.Memory > 0 {
		return uint64(c.Memory) << 20
	}
	return MachineMemory() / 4 * 3
}

// LimitMemory tells Go's runtime about the memory limit: it collects at twice the live data, and
// more often when the limit comes near. GOMEMLIMIT and GOGC in the environment stand instead.
func (c *Config) LimitMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(c.MemoryBytes()))
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(100)
	}
}

var nodeName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

// BaseURL is where the client API is reached from outside, without a slash at its end.
func (c *Config) BaseURL() string {
	switch {
	case c.PublicURL != "":
		return strings.TrimSuffix(c.PublicURL, "/")
	case c.HTTPTLS != (Certificate{}):
		return "https://" + c.HTTP
	}
	return "http://" + c.HTTP
}

// YAML writes the settings as a file that Load reads.
func (c *Config) YAML() ([]byte, error) {
	text, err := yaml.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return text, nil
}

// MachineMemory is the memory of the machine, or of the cgroup where that is less; 2 GiB where
// neither can be read.
func MachineMemory() uint64 {
	const unknown = 2 << 30
	memory := uint64(0)
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		if fields := strings.Fields(string(text)); len(fields) > 1 && fields[0] == "MemTotal:" {
			if kib, err := strconv.ParseUint(fields[1], 10, 52); err == nil {
				memory = kib << 10
			}
		}
	}
	text, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", "memory.max"))
	if err == nil {
		limit, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 63)
		if err == nil && (memory == 0 || limit < memory) {
			memory = limit
		}
	}
	if memory == 0 {
		return unknown
	}
	return memory
}
