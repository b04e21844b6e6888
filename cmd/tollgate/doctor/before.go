package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"tollgate/cluster"
	"tollgate/cmd/tollgate/bucket"
	"tollgate/cmd/tollgate/config"
	"tollgate/cmd/tollgate/devdata"
)

// OwnFiles are the open files that a node may need in addition to those of its clients: logs,
// snapshots, segments, other nodes, and the OpsConnections of its operations listener.
const (
	OpsConnections = 1024
	OwnFiles       = 1024 + OpsConnections
)

// lookupTime bounds the look-up of the members' names, bucketTime that of the backups in a bucket.
const (
	lookupTime = 5 * time.Second
	bucketTime = 10 * time.Second
)

// Before judges a configuration file, and the machine on which a node shall run with it. The node
// need not run; nothing is changed. The machine must be the node's own.
func Before(file string, now time.Time) Report {
	c := &chart{}
	settings, err := config.Load(file)
	if err != nil {
		c.fail(checkConfiguration, err.Error(), readSample)
		return NewReport(c.list)
	}
	settings.Complete()
	c.node = settings.Node
	c.settings(&settings)
	c.advice(&settings)
	if othersMay(file) && settings.SecretsKey != "" {
		c.warn(checkConfiguration, file+" holds secretsKey, and can be read, or changed, by others",
			narrow+file)
	}
	c.names(&settings)
	c.pairs(&settings, now)
	runs := c.folder(&settings)
	if !runs {
		c.ports(&settings)
	}
	if limit, err := FileLimit(); err == nil {
		c.openFiles(OpenFiles{
			Limit: limit, Needed: uint64(settings.Connections.Total) + OwnFiles, Own: OwnFiles,
		})
	}
	c.memory(Memory{LimitBytes: settings.MemoryBytes(), MachineBytes: config.MachineMemory()})
	if ClockUnsynchronised() {
		c.warn("clock", "the kernel reports that no program synchronizes this machine's clock",
			"run chrony or another NTP client: OPERATIONS.md, Clocks")
	}
	return NewReport(c.list)
}

const (
	checkConfiguration = "configuration"
	readSample         = "tollgate serve --sample explains every setting"
)

// FileLimit is how many files this process may have open.
func FileLimit() (uint64, error) {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return 0, fmt.Errorf("limit of open files: %w", err)
	}
	return files.Cur, nil
}

// settings says what serve would refuse.
func (c *chart) settings(s *config.Config) {
	err := s.Validate()
	if err == nil {
		c.ok(checkConfiguration, "every setting is one that serve takes")
		return
	}
	for line := range strings.Lines(err.Error()) {
		c.fail(checkConfiguration, strings.TrimSpace(line), readSample)
	}
}

// advice says what serve takes, and is most likely not meant.
func (c *chart) advice(s *config.Config) {
	if strings.Trim(s.AdminKeyHash, "0") == "" && s.AdminKeyHash != "" {
		c.fail(checkConfiguration, "adminKeyHash is the sample's, which belongs to no key",
			`printf %s "$TOLLGATE_ADMIN_KEY" | sha256sum`)
	}
	for setting, clear := range map[string]bool{
		"http": s.HTTPTLS == (config.Certificate{}) && !config.OnThisMachine(s.HTTP),
		"ops":  s.OpsTLS == (config.Certificate{}) && !config.OnThisMachine(s.Ops),
	} {
		if clear {
			c.warn(checkConfiguration, setting+" is served in the clear, keys included, beyond this "+
				"machine", "set "+setting+"TLS, or let a proxy on this machine end TLS")
		}
	}
	if s.SecretsKey == "" && !config.OnThisMachine(s.Raft) {
		c.warn(checkConfiguration, "secretsKey is empty: what is sealed becomes unreadable with another "+
			"admin key", "set it on every node, to the same 64 hex digits (openssl rand -hex 32)")
	}
	if n := len(s.Members); n > 1 && n%2 == 0 && !s.Join {
		c.warn(checkConfiguration, fmt.Sprintf("members: %d voters bear no more losses than %d", n, n-1),
			"begin with an odd number")
	}
	for _, m := range s.Members {
		if m.Ops == "" && len(s.Members) > 1 {
			c.warn(checkConfiguration, "members: "+m.ID+" has no ops address",
				"name it, so that commands can ask that node")
		}
		if m.ID == s.Node {
			c.reach(s, m)
		}
	}
	here := s.Backups.Node == "" || s.Backups.Node == s.Node
	switch f := s.Backups.Folder; {
	case f == "" || !here:
	case strings.HasPrefix(f, bucket.Scheme):
		c.backupBucket(f)
	default:
		c.backupFolder(f, s.Data)
	}
}

// reach compares where others look for this node with where it listens.
func (c *chart) reach(s *config.Config, m config.Member) {
	_, listens, err := net.SplitHostPort(s.Raft)
	_, said, err2 := net.SplitHostPort(m.Raft)
	switch {
	case err != nil || err2 != nil: // complained about already
	case config.OnThisMachine(s.Raft) && !config.OnThisMachine(m.Raft):
		c.fail(checkConfiguration, fmt.Sprintf("raft listens at %s, which other machines do not reach; "+
			"members says %s", s.Raft, m.Raft), "listen at an address that they reach")
	case listens != said:
		c.warn(checkConfiguration, fmt.Sprintf("raft listens at port %s, and members says %s", listens,
			said), "make them the same, unless something in between translates")
	}
}

func (c *chart) backupFolder(folder, data string) {
	inside, err := filepath.Rel(data, folder)
	if err == nil && !strings.HasPrefix(inside, "..") {
		c.warn("backups", folder+" is within the data folder: what destroys one destroys the other",
			"make backups on another disk")
	}
	if err := unix.Access(folder, unix.W_OK); err != nil {
		c.fail("backups", fmt.Sprintf("%s: %s", folder, err), "mount or make the folder, for this user")
	}
}

// backupBucket lists the bucket, as the environment says: that of this command, not the node's.
func (c *chart) backupBucket(name string) {
	ctx, cancel := context.WithTimeout(context.Background(), bucketTime)
	defer cancel()
	const do = "give the node, and this command, the variables of OPERATIONS.md, " +
		"Make backups on a schedule"
	b, err := bucket.Open(name, os.Getenv)
	if err != nil { // the node's may be complete
		c.warn("backups", fmt.Sprintf("%s: %s", name, err), do)
		return
	}
	if _, err = b.List(ctx, "tollgate-"); err != nil {
		c.fail("backups", fmt.Sprintf("%s: %s", name, err), do)
		return
	}
	c.ok("backups", "%s can be listed", name)
}

// names looks up the hosts by which other nodes are known.
func (c *chart) names(s *config.Config) {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTime)
	defer cancel()
	for _, m := range s.Members {
		address := m.Raft
		if to := s.Dial[m.ID]; to != "" {
			address = to
		}
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			continue // complained about already
		}
		if _, err = net.DefaultResolver.LookupHost(ctx, host); err != nil {
			c.fail("names", fmt.Sprintf("member %s: %s", m.ID, err), "correct the name, or the resolver")
		}
	}
}

// pairs looks at the certificates that the node would show.
func (c *chart) pairs(s *config.Config, now time.Time) {
	for _, p := range []struct {
		use   string
		files config.Certificate
	}{
		{UsePeers, config.Certificate{Certificate: s.TLS.Certificate, Key: s.TLS.Key}},
		{UseHTTP, s.HTTPTLS},
		{UseOps, s.OpsTLS},
	} {
		if p.files == (config.Certificate{}) {
			continue
		}
		pair, err := tls.LoadX509KeyPair(p.files.Certificate, p.files.Key)
		if err != nil {
			c.fail("certificate "+p.use, fmt.Sprintf("%s, %s: %s", p.files.Certificate, p.files.Key, err),
				"put a certificate and its key there, which this user may read")
			continue
		}
		if othersMay(p.files.Key) {
			c.warn("certificate "+p.use, p.files.Key+" can be read, or changed, by others",
				narrow+p.files.Key)
		}
		if p.use == UsePeers {
			c.peerPair(s, pair, now)
			continue
		}
		c.certificate(Shown(p.use, p.files.Certificate, pair.Leaf, nil), now)
	}
}

// narrow leaves a file to its owner, and to the group by which the node's user may read it.
const narrow = "chmod g-w,o-rwx "

// othersMay reports whether a file can be read by everyone, or written by others than its owner.
// Its group may read it: it is root's, and the node runs as a user of its own.
func othersMay(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().Perm()&0o027 != 0
}

// peerPair looks at the certificate that other nodes see: it is checked against an authority, and
// by the host at which they reach this node.
func (c *chart) peerPair(s *config.Config, pair tls.Certificate, now time.Time) {
	authorities, err := Authorities(s.TLS.Authority)
	if err != nil {
		c.fail("certificate "+useAuthority, err.Error(), "put the cluster's ca.pem there")
		return
	}
	c.certificate(Authority(s.TLS.Authority, authorities), now)
	c.certificate(Shown(UsePeers, s.TLS.Certificate, pair.Leaf, authorities), now)
	for _, m := range s.Members {
		host, _, err := net.SplitHostPort(m.Raft)
		if m.ID != s.Node || err != nil {
			continue
		}
		if err = pair.Leaf.VerifyHostname(host); err != nil {
			c.fail("certificate "+UsePeers, fmt.Sprintf("%s: %s", s.TLS.Certificate, err),
				fmt.Sprintf("tollgate certs --host %s %s", host, s.Node))
		}
	}
}

// folder looks at the data folder, and reports whether a node runs there.
func (c *chart) folder(s *config.Config) (runs bool) {
	const check = "data folder"
	folder, err := filepath.Abs(s.Data)
	if err != nil {
		c.fail(check, err.Error(), "name it by a whole path")
		return false
	}
	begun, err := cluster.LookAtFolder(folder, s.Node, s.Cluster, s.Join)
	switch {
	case err != nil:
		c.fail(check, err.Error(), "OPERATIONS.md, A node that does not start")
	case begun:
		c.ok(check, "%s is that of %s; members in the file are not read any more", folder, s.Node)
	case s.Join:
		c.ok(check, "%s is empty: the node waits until it is joined to a cluster", folder)
	default:
		var ids []string
		for _, m := range s.Members {
			ids = append(ids, m.ID)
		}
		c.ok(check, "%s is empty: the node begins a new cluster of %s", folder, strings.Join(ids, ", "))
	}
	if _, err := os.Stat(devdata.NodeLock(folder)); err == nil {
		if pid, err := devdata.Holder(devdata.NodeLock(folder)); err == nil && pid != 0 {
			c.ok("process", "a node runs there, process %d: ask it with --ops", pid)
			runs = true
		}
	}
	c.owned(folder, os.Geteuid())
	c.disk(LookAtDisk(existing(folder), int64(s.DiskReserve)<<20))
	return runs
}

// owned compares whose the data folder is with who looks, which is to be the user that the node
// runs as: root reads what another cannot, and what root restores another cannot open.
func (c *chart) owned(folder string, looks int) {
	var s unix.Stat_t
	if unix.Stat(folder, &s) != nil || int(s.Uid) == looks {
		return
	}
	owner := strconv.Itoa(int(s.Uid))
	if u, err := user.LookupId(owner); err == nil {
		owner = u.Username
	}
	c.warn("data folder", fmt.Sprintf("%s belongs to %s, and this was asked by another user (%d): "+
		"what is found may not be what the node finds", folder, owner, looks), "run doctor as the node's "+
		"user: runuser -u tollgate -- …; is the folder not that user's, stop the node and chown it")
}

// existing is the folder, or the nearest one above it that exists.
func existing(folder string) string {
	for {
		if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) || folder == filepath.Dir(folder) {
			return folder
		}
		folder = filepath.Dir(folder)
	}
}

// ports tries to listen where the node will.
func (c *chart) ports(s *config.Config) {
	free := true
	for _, at := range [][2]string{{"http", s.HTTP}, {"ops", s.Ops}, {"raft", s.Raft}} {
		listener, err := net.Listen("tcp", at[1])
		if err == nil {
			err = listener.Close()
		}
		if err != nil {
			free = false
			c.fail("ports", fmt.Sprintf("%s: %s", at[0], err), "end what listens there, or choose an "+
				"address of this machine that is free")
		}
	}
	if free {
		c.ok("ports", "%s, %s and %s are free", s.HTTP, s.Ops, s.Raft)
	}
}
