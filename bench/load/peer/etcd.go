package peer

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"tollgate/bench/load"
)

// etcdStore counts in etcd. A transaction compares that the keys are new and that the counters are
// as they were read last, which the front remembers; else it reads both, and another one follows.
type etcdStore struct {
	client  *clientv3.Client
	servers []string

	mu    sync.Mutex
	known map[string]counter

	batch sync.Mutex
}

// counter is a customer's count and the revision of etcd at which it was written.
type counter struct{ units, revision int64 }

// etcdTries bounds how often a transaction is repeated that met others.
const etcdTries = 1000

func openEtcd(servers []string) (Store, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: servers, DialTimeout: startTimeout, Logger: zap.NewNop(),
		MaxCallSendMsgSize: maxEtcdRequest, MaxCallRecvMsgSize: maxEtcdRequest,
	})
	if err != nil {
		return nil, err
	}
	return &etcdStore{client: client, servers: servers, known: map[string]counter{}}, nil
}

// Create implements Store.
func (s *etcdStore) Create(ctx context.Context, customer string) error {
	answer, err := s.client.Put(ctx, "c/"+customer, "0")
	if err != nil {
		return err
	}
	s.remember(customer, counter{0, answer.Header.Revision})
	return nil
}

// remember keeps the newest of what is known of a customer.
func (s *etcdStore) remember(customer string, c counter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.revision > s.known[customer].revision {
		s.known[customer] = c
	}
}

func (s *etcdStore) last(customer string) counter {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[customer]
}

// Add implements Store. Batches are sent one after the other: two at a time touch the same
// customers, and one of them would have no effect.
func (s *etcdStore) Add(ctx context.Context, events []Event, fresh []bool) error {
	if len(events) > 1 {
		s.batch.Lock()
		defer s.batch.Unlock()
	}
	seen := make(map[string]bool, len(events))
	for i, e := range events {
		fresh[i] = !seen[e.Key]
		seen[e.Key] = true
	}
	for range etcdTries {
		done, err := s.try(ctx, events, fresh)
		if done || err != nil {
			return err
		}
	}
	return fmt.Errorf("%d transactions met others", etcdTries)
}

// Spend implements Store. Counts only grow: one that was read at its limit is there for good, and
// nothing needs to be asked.
func (s *etcdStore) Spend(ctx context.Context, e Event, limit int64) (Outcome, error) {
	fresh := []bool{true}
	for range etcdTries {
		if s.last(e.Customer).units+e.Units > limit {
			return OutcomeRefused, nil
		}
		done, err := s.try(ctx, []Event{e}, fresh)
		switch {
		case err != nil:
			return 0, err
		case done && fresh[0]:
			return OutcomeCounted, nil
		case done:
			return OutcomeRepeated, nil
		}
	}
	return 0, fmt.Errorf("%d transactions met others", etcdTries)
}

// try sends one transaction of the events that are fresh so far. When it was refused, what it read
// tells which keys are not, and how the counters are.
func (s *etcdStore) try(ctx context.Context, events []Event, fresh []bool) (done bool, err error) {
	var when []clientv3.Cmp
	var then, otherwise []clientv3.Op
	sums := map[string]int64{}
	for i, e := range events {
		if fresh[i] {
			when = append(when, clientv3.Compare(clientv3.CreateRevision("k/"+e.Key), "=", 0))
			then = append(then, clientv3.OpPut("k/"+e.Key, ""))
			otherwise = append(otherwise, clientv3.OpGet("k/"+e.Key, clientv3.WithKeysOnly()))
			sums[e.Customer] += e.Units
		}
	}
	if len(when) == 0 {
		return true, nil
	}
	keys := len(otherwise)
	before := make(map[string]counter, len(sums))
	for customer := range sums {
		c := s.last(customer)
		before[customer] = c
		when = append(when, clientv3.Compare(clientv3.ModRevision("c/"+customer), "=", c.revision))
		then = append(then, clientv3.OpPut("c/"+customer,
			strconv.FormatInt(c.units+sums[customer], 10)))
		otherwise = append(otherwise, clientv3.OpGet("c/"+customer))
	}
	answer, err := s.client.Txn(ctx).If(when...).Then(then...).Else(otherwise...).Commit()
	if err != nil {
		return false, err
	}
	if answer.Succeeded {
		for customer, units := range sums {
			s.remember(customer, counter{before[customer].units + units, answer.Header.Revision})
		}
		return true, nil
	}
	at := 0
	for i := range events {
		if fresh[i] {
			fresh[i] = len(answer.Responses[at].GetResponseRange().Kvs) == 0
			at++
		}
	}
	for _, response := range answer.Responses[keys:] {
		for _, pair := range response.GetResponseRange().Kvs {
			units, err := strconv.ParseInt(string(pair.Value), 10, 64)
			if err != nil {
				return false, err
			}
			s.remember(strings.TrimPrefix(string(pair.Key), "c/"), counter{units, pair.ModRevision})
		}
	}
	return false, nil
}

// Read implements Store: a linearizable read.
func (s *etcdStore) Read(ctx context.Context, customer string) (int64, error) {
	answer, err := s.client.Get(ctx, "c/"+customer)
	if err != nil {
		return 0, err
	}
	if len(answer.Kvs) != 1 {
		return 0, fmt.Errorf("no customer %q", customer)
	}
	count, err := strconv.ParseInt(string(answer.Kvs[0].Value), 10, 64)
	return count, err
}

// Syncs implements Store, from each server's metrics.
func (s *etcdStore) Syncs(ctx context.Context) (map[string]uint64, error) {
	syncs := map[string]uint64{}
	for _, server := range s.servers {
		count, err := etcdSyncs(ctx, server)
		if err != nil {
			return nil, err
		}
		syncs["etcd at "+server] = count
	}
	return syncs, nil
}

func etcdSyncs(ctx context.Context, server string) (count uint64, err error) {
	_, metrics, err := get(ctx, "http://"+server+"/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(metrics)) {
		if text, ok := strings.CutPrefix(line, "etcd_disk_wal_fsync_duration_seconds_count "); ok {
			return strconv.ParseUint(strings.TrimSpace(text), 10, 64)
		}
	}
	return 0, errors.New("no fsyncs in the metrics")
}

// Close implements Store.
func (s *etcdStore) Close() error {
	return s.client.Close()
}

const (
	etcdNodes = 3
	// maxEtcdRequest bounds a transaction, in bytes; a batch of 1,000 events takes 200 KB.
	maxEtcdRequest = 16 << 20
)

// serveEtcd starts three servers that form a cluster.
func serveEtcd(ctx context.Context, s *system) error {
	program, err := find("etcd")
	if err != nil {
		return err
	}
	var clients, peers, members []string
	for i := range 2 * etcdNodes {
		address, err := freeAddress()
		if err != nil {
			return err
		}
		if i%2 == 0 {
			clients = append(clients, address)
			continue
		}
		peers = append(peers, address)
		members = append(members, fmt.Sprintf("etcd%d=http://%s", len(peers), address))
	}
	for i := range etcdNodes {
		name := fmt.Sprintf("etcd%d", i+1)
		client, peer := "http://"+clients[i], "http://"+peers[i]
		p, err := start(name, exec.Command(program, "--name", name,
			"--data-dir", filepath.Join(s.folder, name),
			"--listen-client-urls", client, "--advertise-client-urls", client,
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
			"--initial-cluster", strings.Join(members, ","), "--initial-cluster-state", "new",
			"--max-txn-ops", "4096", "--max-request-bytes", strconv.Itoa(maxEtcdRequest),
			"--quota-backend-bytes", "8589934592", "--snapshot-count", "1000000",
			"--logger", "zap", "--log-level", "error"))
		if err != nil {
			return err
		}
		s.servers = append(s.servers, p)
	}
	s.front.Servers = clients
	for i, p := range s.servers {
		if err = p.listening(ctx, clients[i]); err != nil {
			return err
		}
	}
	return nil
}

// etcdTools are etcd's own check of its speed, which offers 8,000 writes a second for a minute.
func etcdTools(s *system, scenario load.Scenario) []load.Tool {
	if scenario != load.ScenarioIngest {
		return nil
	}
	return []load.Tool{{Name: "etcdctl check perf --load l", Run: s.etcdCheck}}
}

func (s *system) etcdCheck(ctx context.Context) (operations, rate float64, err error) {
	program, err := find("etcdctl")
	if err != nil {
		return 0, 0, err
	}
	command := exec.CommandContext(ctx, program, "--endpoints", strings.Join(s.front.Servers, ","),
		"check", "perf", "--load", "l")
	command.Env = append(command.Environ(), "ETCDCTL_API=3")
	begin := time.Now()
	// A check that it does not pass is a result, too: what it says counts.
	text, _ := command.CombinedOutput()
	if rate, err = numberAfter(string(text), "hroughput is ", "hroughput too low: "); err != nil {
		return 0, 0, err
	}
	return rate * time.Since(begin).Seconds(), rate, nil
}
