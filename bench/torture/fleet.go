package torture

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"tollgate/cluster"
	"tollgate/cmd/tollgate/certs"
	"tollgate/cmd/tollgate/config"
	api "tollgate/sdk/go"
)

// fleetSize is the number of nodes.
const fleetSize = 3

// fleet is a cluster of node processes on this machine with faults between them.
type fleet struct {
	dir, program string
	adminKey     string
	nodes        []*process
	guest        *process // a fourth node, which is a member for some seconds now and then
	links        network
	inbox        *inbox
	report       *report

	leader atomic.Pointer[string] // the node that was last seen to lead
	grown  atomic.Bool            // the guest is a member
	mu     sync.Mutex
	terms  map[uint64]bool // in which somebody led
}

// process is one node: its settings, and the process that runs it now, if one does.
type process struct {
	id       string
	file     string
	log      string
	settings config.Config

	mu      sync.Mutex
	pid     int           // 0: does not run
	done    chan struct{} // closed when the process has ended
	ending  bool          // we are ending it
	starts  int
	stopped bool // by SIGSTOP
}

// newFleet writes configurations and certificates of a new cluster; nothing runs yet.
func newFleet(r *report) (f *fleet, err error) {
	o := r.Options
	f = &fleet{
		dir: o.Dir, program: o.Program, report: r, terms: make(map[uint64]bool),
		adminKey: "the admin key of a tortured cluster",
	}
	open := openProxies
	if o.Namespaces {
		open = openNamespaces
	}
	links, members, err := open()
	if err != nil {
		return nil, err
	}
	f.links = links
	if f.inbox, err = openInbox(links.Host(), o.Seed, r.violate); err != nil {
		return nil, errors.Join(err, links.Close())
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.inbox.close(), links.Close())
		}
	}()
	authority, err := certs.OpenAuthority(filepath.Join(o.Dir, "certs"))
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		p, err := f.prepare(m, members, authority)
		if err != nil {
			return nil, err
		}
		f.nodes = append(f.nodes, p)
	}
	f.nodes, f.guest = f.nodes[:guest], f.nodes[guest]
	return f, nil
}

// prepare writes one node's files. Little log is kept, so that a node that was away for some
// seconds needs a snapshot.
func (f *fleet) prepare(m config.Member, members []config.Member, authority *certs.Authority,
) (*process, error) {
	folder := filepath.Join(f.dir, m.ID)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("torture: %w", err)
	}
	host, _, err := net.SplitHostPort(m.Raft)
	if err != nil {
		return nil, fmt.Errorf("torture: %w", err)
	}
	secrets := filepath.Join(f.dir, "certs")
	if err := authority.Issue(secrets, m.ID, []string{host}); err != nil {
		return nil, err
	}
	hash := sha256.Sum256([]byte(f.adminKey))
	c := config.Default()
	c.Node, c.Data, c.HTTP, c.Ops, c.Raft = m.ID, folder, m.HTTP, m.Ops, m.Raft
	c.Members, c.Dial = members[:guest], f.links.Dial(m.ID)
	if m == members[guest] {
		c.Members, c.Join = members, true
	}
	c.AdminKeyHash = hex.EncodeToString(hash[:])
	c.Memory, c.DiskReserve, c.Limits.KeyMemory = 512, 64, keyMemory
	c.Outbound = f.inbox.allowed()
	c.Snapshots = config.Snapshots{LogMiB: 1, TrailingMiB: 1}
	c.TLS = config.TLS{
		Authority:   filepath.Join(secrets, certs.AuthorityFile),
		Certificate: filepath.Join(secrets, certs.CertificateFile(m.ID)),
		Key:         filepath.Join(secrets, certs.KeyFile(m.ID)),
	}
	p := &process{
		id: m.ID, file: filepath.Join(f.dir, m.ID+".yaml"), settings: c,
		log: filepath.Join(f.dir, m.ID+".log"),
	}
	return p, p.configure()
}

// configure writes the node's configuration file.
func (p *process) configure() error {
	text, err := p.settings.YAML()
	if err != nil {
		return err
	}
	return os.WriteFile(p.file, text, 0o600)
}

// start runs a node that does not run.
func (f *fleet) start(p *process) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pid != 0 {
		return nil
	}
	output, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("torture: %w", err)
	}
	command := exec.Command(f.program, "serve", "--config", p.file)
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = childAttributes()
	started, done := make(chan error, 1), make(chan struct{})
	go func() {
		// The signal at the parent's death comes when the thread dies that started the child. It is
		// of no use to others afterwards: it may be in the node's namespace.
		runtime.LockOSThread()
		err := f.links.Enter(p.id)
		if err == nil {
			err = command.Start()
		}
		started <- errors.Join(err, output.Close())
		if err == nil {
			f.watch(p, command, done)
		}
	}()
	if err = <-started; err != nil {
		return fmt.Errorf("torture: start %s: %w", p.id, err)
	}
	p.pid, p.done, p.ending, p.stopped = command.Process.Pid, done, false, false
	p.starts++
	return nil
}

// watch waits for a process to end. One that asks for a plain restart gets it.
func (f *fleet) watch(p *process, command *exec.Cmd, done chan struct{}) {
	err := command.Wait()
	p.mu.Lock()
	expected := p.ending
	p.pid = 0
	close(done)
	p.mu.Unlock()
	if expected {
		return
	}
	how := "it ended without being asked to"
	if err != nil {
		how = err.Error()
	}
	if command.ProcessState.ExitCode() == cluster.ExitRestart {
		if err = f.start(p); err == nil {
			return
		}
		how = err.Error()
	}
	f.ended(p.id, how)
}

// logTail is how much of the log of a node that ended is told.
const logTail = 1500

// ended is told about a node that ended by itself.
func (f *fleet) ended(id, how string) {
	text, err := os.ReadFile(f.node(id).log)
	if err != nil {
		text = []byte(err.Error())
	}
	f.report.violate(byProcesses, "%s ended by itself: %s\n%s", id, how,
		text[max(0, len(text)-logTail):])
}

// kill ends a node at once, and returns when it has ended.
func (f *fleet) kill(p *process) error { return f.end(p, syscall.SIGKILL) }

// end ends a node by a signal, and returns when it has ended.
func (f *fleet) end(p *process, signal syscall.Signal) error {
	p.mu.Lock()
	pid, done := p.pid, p.done
	p.ending = true
	p.mu.Unlock()
	if pid == 0 {
		return nil
	}
	if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("torture: end %s: %w", p.id, err)
	}
	<-done
	return nil
}

// pause stops a node where it is, resume lets it go on.
func (f *fleet) pause(p *process) error { return f.signal(p, syscall.SIGSTOP, true) }

func (f *fleet) resume(p *process) error { return f.signal(p, syscall.SIGCONT, false) }

func (f *fleet) signal(p *process, signal syscall.Signal, stopped bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pid == 0 {
		return nil
	}
	if err := syscall.Kill(p.pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("torture: signal to %s: %w", p.id, err)
	}
	p.stopped = stopped
	return nil
}

// heal mends the links, resumes who is paused and starts who does not run.
func (f *fleet) heal() error {
	f.links.Mend()
	var problems []error
	for _, p := range f.nodes {
		problems = append(problems, f.resume(p), f.start(p))
	}
	return errors.Join(problems...)
}

// close ends everything.
func (f *fleet) close() error {
	var problems []error
	for _, p := range f.everyone() {
		problems = append(problems, f.kill(p))
	}
	return errors.Join(append(problems, f.inbox.close(), f.links.Close())...)
}

// node finds a node by its name.
func (f *fleet) node(id string) *process {
	for _, p := range f.everyone() {
		if p.id == id {
			return p
		}
	}
	return nil
}

// statusTimeout bounds one question for a node's status.
const statusTimeout = 400 * time.Millisecond

// status asks a node what it knows of the cluster.
func (f *fleet) status(ctx context.Context, p *process) (cluster.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	var s cluster.Status
	answer, err := f.try(ctx, p, api.Request{Method: "GET", Path: "/api/v1/admin/cluster"})
	if err != nil {
		return s, err
	}
	return s, answer.Data(&s)
}

// try sends one request to a node's admin API, once.
func (f *fleet) try(ctx context.Context, p *process, r api.Request) (api.Answer, error) {
	admin, err := api.New([]string{p.settings.Ops}, f.adminKey, 1)
	if err != nil {
		return api.Answer{}, err
	}
	defer admin.Close()
	return admin.Try(ctx, r)
}

// followEvery is how often a node is asked whether it leads.
const followEvery = 100 * time.Millisecond

// follow watches who leads.
func (f *fleet) follow(ctx context.Context, p *process) {
	for pause(ctx, followEvery) {
		s, err := f.status(ctx, p)
		if err != nil || len(s.Groups) == 0 {
			continue
		}
		g := s.Groups[cluster.ShardBilling]
		if g.Role != "leader" || !g.Lease {
			continue
		}
		f.mu.Lock()
		f.terms[g.Term] = true
		f.mu.Unlock()
		f.leader.Store(&s.NodeID)
	}
}

// leaderChanges is how often another term had a leader.
func (f *fleet) leaderChanges() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(0, len(f.terms)-1)
}

// awaitReady waits until every node serves.
func (f *fleet) awaitReady(ctx context.Context) error {
	told := time.Now()
	for {
		ready, why := 0, ""
		for _, p := range f.nodes {
			s, err := f.status(ctx, p)
			switch {
			case err != nil:
				why += p.id + ": " + err.Error() + "; "
			case !s.Ready:
				why += p.id + ": " + cluster.Words(s.Reasons) + "; "
			default:
				ready++
			}
		}
		if ready == len(f.nodes) {
			return nil
		}
		if time.Since(told) > 10*time.Second { // so that a run that ends well shows it, too
			told = time.Now()
			f.report.Say("not every node is ready: %s", why)
		}
		if !pause(ctx, 50*time.Millisecond) {
			return fmt.Errorf("torture: not every node is ready: %s", why)
		}
	}
}

// pause waits; false when ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// count adds up how often a text stands in the nodes' logs.
func (f *fleet) count(text string) int {
	n := 0
	for _, p := range f.everyone() {
		written, err := os.ReadFile(p.log)
		if err == nil {
			n += strings.Count(string(written), text)
		}
	}
	return n
}
