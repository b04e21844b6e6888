package peer

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"tollgate/bench/load"
)

// system is a peer: its servers, and the front before them.
type system struct {
	name    string
	program []string // that is this program as a front
	front   Front
	// serve starts the servers in the folder, and notes those that began also when it fails.
	serve func(ctx context.Context, s *system) error
	// tools are the peer's own tools for a scenario, to run against the servers.
	tools func(s *system, scenario load.Scenario) []load.Tool
	// threads are those of Redis for its connections; 0 is its default, one for everything.
	threads int

	key       string // of clients; empty where they need none
	folder    string
	servers   []*process
	frontSide *process
	feeds     []io.WriteCloser
}

// Name implements load.System.
func (s *system) Name() string { return s.name }

// Start implements load.System.
func (s *system) Start(ctx context.Context, answers load.Answers) (t load.Target, err error) {
	if s.folder, err = os.MkdirTemp("", "tollgate-bench-"); err != nil {
		return t, fmt.Errorf("%s: %w", s.name, err)
	}
	s.front.Answers = answers
	if t, err = s.run(ctx); err != nil {
		return t, fmt.Errorf("%s: %w", s.name, errors.Join(err, s.Stop()))
	}
	return t, nil
}

func (s *system) run(ctx context.Context) (t load.Target, err error) {
	if s.serve != nil {
		if err = s.serve(ctx, s); err != nil {
			return t, err
		}
	}
	s.front.Folder = s.folder
	var address string
	if s.frontSide, address, err = s.spawn(ctx, s.front); err != nil {
		return t, err
	}
	t = load.Target{
		System: s.name, Nodes: []string{address}, Key: s.key, Unaudited: true,
		Blank: s.front.Store == "bare" || s.front.Store == "epoll",
	}
	for _, p := range append([]*process{s.frontSide}, s.servers...) {
		t.Processes = append(t.Processes, load.Process{Name: p.name, PID: p.command.Process.Pid})
	}
	if strings.HasPrefix(s.front.Store, "floor") {
		t.Profile = s.profile
	}
	if !t.Blank {
		t.Syncs = func(ctx context.Context) (map[string]uint64, error) { return syncs(ctx, address) }
	}
	return t, nil
}

// spawn runs this program as a front, and returns where it listens, and the process where it began.
func (s *system) spawn(ctx context.Context, front Front) (p *process, address string, err error) {
	text, err := json.Marshal(front)
	if err != nil {
		return nil, "", fmt.Errorf("front: %w", err)
	}
	command := exec.Command(s.program[0], s.program[1:]...)
	in, err := command.StdinPipe()
	if err != nil {
		return nil, "", fmt.Errorf("front: %w", err)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, "", fmt.Errorf("front: %w", err)
	}
	command.Stdout, s.feeds = writer, append(s.feeds, in)
	begin := func() (err error) {
		p, err = start("front", command)
		return err
	}
	if front.Store == "epoll" || strings.HasPrefix(front.Store, "floor") {
		err = withSlack(begin)
	} else {
		err = begin()
	}
	if err = errors.Join(err, writer.Close()); err != nil {
		return p, "", errors.Join(err, reader.Close())
	}
	if _, err = in.Write(text); err != nil {
		return p, "", errors.Join(fmt.Errorf("front: %w", err), reader.Close())
	}
	// It says where it listens, or ends: either way the line ends.
	line, err := bufio.NewReader(reader).ReadString('\n')
	if err = errors.Join(err, reader.Close()); err != nil {
		<-p.done
		return p, "", fmt.Errorf("the front did not start: %s", &p.output)
	}
	address = strings.TrimSpace(line)
	return p, address, p.listening(ctx, address)
}

// Stop implements load.System.
func (s *system) Stop() error {
	var all []error
	for _, feed := range s.feeds {
		if err := feed.Close(); !errors.Is(err, os.ErrClosed) { // it is, when the front has ended
			all = append(all, err)
		}
	}
	if s.frontSide != nil {
		all = append(all, s.frontSide.stop(syscall.SIGTERM))
	}
	for _, p := range s.servers {
		all = append(all, p.stop(syscall.SIGINT)) // to PostgreSQL: end without waiting for clients
	}
	s.frontSide, s.servers, s.feeds = nil, nil, nil
	if s.folder != "" {
		all = append(all, os.RemoveAll(s.folder))
	}
	s.folder = ""
	return errors.Join(all...)
}

// Tools implements load.Native.
func (s *system) Tools(scenario load.Scenario) []load.Tool {
	if s.tools == nil {
		return nil
	}
	return s.tools(s, scenario)
}

// syncs asks a front.
func syncs(ctx context.Context, address string) (counts map[string]uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	status, text, err := get(ctx, "http://"+address+"/syncs")
	if err != nil {
		return nil, fmt.Errorf("fsyncs: %w", err)
	}
	if err = json.Unmarshal(text, &counts); err != nil || status != 200 {
		return nil, errors.Join(fmt.Errorf("fsyncs: %d %.300s", status, text), err)
	}
	return counts, nil
}

// get makes one request, and returns its answer.
func get(ctx context.Context, address string) (status int, text []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	text, err = io.ReadAll(io.LimitReader(response.Body, 1<<20))
	return response.StatusCode, text, errors.Join(err, response.Body.Close())
}

// run carries out a tool, and returns what it printed.
func output(ctx context.Context, program string, args ...string) (string, error) {
	text, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", program, err, text)
	}
	return strings.TrimSpace(string(text)), nil
}

// numberAfter reads the number after the first of the texts that a tool printed.
func numberAfter(printed string, texts ...string) (float64, error) {
	for _, text := range texts {
		if _, rest, found := strings.Cut(printed, text); found {
			digits := len(rest) - len(strings.TrimLeft(rest, "0123456789."))
			return strconv.ParseFloat(rest[:digits], 64)
		}
	}
	return 0, fmt.Errorf("no figure in what the tool printed:\n%s", printed)
}

// New returns the systems of these names; each is one of Names. program is this program and its
// arguments that make it a front.
func New(name string, program ...string) (load.System, error) {
	s := &system{name: name, program: program}
	kind, variant, _ := strings.Cut(name, "-")
	s.front.Store = kind
	switch kind {
	case "bare":
		if variant == "epoll" {
			s.front.Store, variant = "epoll", ""
		}
	case "fdatasync":
	case "floor":
		s.serve = serveFloor
	case "redis":
		s.serve, s.tools = serveRedis, redisTools
		if variant == "io" {
			s.threads, variant = max(2, runtime.NumCPU()), ""
		}
		if variant != "" {
			if _, err := fmt.Sscanf(variant, "%d", &s.front.Depth); err != nil || s.front.Depth < 1 {
				return nil, fmt.Errorf("%s: %q is not a depth of a pipeline", name, variant)
			}
		}
		return s, nil
	case "postgres":
		s.serve, s.tools = servePostgres, postgresTools
	case "etcd":
		s.serve, s.tools = serveEtcd, etcdTools
	default:
		return nil, fmt.Errorf("no system %q: want tollgate, %s", name, strings.Join(Names, ", "))
	}
	if variant != "" {
		return nil, fmt.Errorf("no system %q", name)
	}
	return s, nil
}

// Names are the peers, and the limits: bare is fasthttp, bare-epoll no library, floor three nodes
// that do the least. redis sends a batch as one call of a script, redis-N in pipelines of N calls
// for an event each; redis-io has a thread for connections on each core.
var Names = []string{
	"bare", "bare-epoll", "fdatasync", "floor", "redis", "redis-io", "redis-16", "redis-100",
	"redis-1000", "postgres", "etcd",
}
