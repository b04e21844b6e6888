package cluster

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sort"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/faultfs"
	"tollgate/engine"
	"tollgate/wal"
)

var (
	simulationTime = flag.Duration("simulate", 5*time.Second, "how long to simulate")
	simulationSeed = flag.Uint64("seed", 0, "simulate this seed alone; 0: new ones, printed on failure")
)

// Whole nodes, on disks and a network in memory and in a time of their own, are cut off, cut one
// way, killed, robbed of their power in the middle of a write, given disks that fail or whose bits
// flip, connections that break or hold things up, a clock that is a year off, and snapshots, all in
// random order. What was acknowledged stays, what was refused never happened, a key spends once and
// no more than the limit is spent, no linearizable read misses what was acknowledged before it, log
// time stays near the true time, and in the end every node has the same state.
func TestSimulation(t *testing.T) {
	if *simulationSeed != 0 {
		simulate(t, *simulationSeed)
		return
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // a fifth more seeds: memory is short-lived
	begin, limit := time.Now(), *simulationTime
	if testing.Short() { // each lane takes a seed or two
		limit = min(limit, time.Second)
	}
	var lanes sync.WaitGroup
	var seeds atomic.Int64
	for range atOnce {
		lanes.Go(func() {
			for time.Since(begin) < limit && !t.Failed() {
				seed := rand.Uint64() | 1
				t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { simulate(t, seed) })
				seeds.Add(1)
			}
		})
	}
	lanes.Wait()
	t.Logf("%d seeds; one of them alone: go test ./cluster -run TestSimulation -args -seed=…",
		seeds.Load())
}

// atOnce is how many simulations run beside each other: their nodes wait for a real disk at times.
const atOnce = 6

// simulation is one run of a seed.
type simulation struct {
	*nodes
	random *rand.Rand
	disks  map[string]*faultfs.Disk

	at      sync.RWMutex // guards nodes.node against clients
	helpers sync.WaitGroup
	log     memoryLog

	mu      sync.Mutex
	acked   []uint64 // in the order in which clients learned of it
	ackedAt []time.Time
	refused []uint64
	next    uint64
	reads   int
	// failures are snapshots that were not taken.
	failures int
	wrong    error // the first broken promise
	stepped  map[string]time.Duration
	liar     string          // whose clock is stepped
	righted  time.Time       // when it was set right
	robbed   map[string]bool // whose power was cut: its process may say what it wants
	spends   map[uint64]spending
	seen     map[string]int // faults and refusals by what they were
	// replaced is the node that is being replaced by one with an empty folder; gone reports whether
	// its folder is empty by now.
	replaced string
	gone     bool
	copies   map[string]*faultfs.Disk
}

// spending is what clients were told of the attempts to spend a key.
type spending struct {
	done      uint64 // the attempt that did; 0: none
	duplicate bool   // somebody was told that it was spent
	refused   []uint64
}

func simulate(t *testing.T, seed uint64) {
	s := &simulation{
		random: rand.New(rand.NewPCG(seed, 1)), disks: make(map[string]*faultfs.Disk),
		stepped: make(map[string]time.Duration), robbed: make(map[string]bool),
		spends: make(map[uint64]spending), seen: make(map[string]int),
		copies: make(map[string]*faultfs.Disk),
	}
	for _, id := range three {
		s.disks[id] = faultfs.New()
	}
	s.liar = s.node()
	inCluster(t, s.tune, func(c *nodes) {
		s.nodes = c
		defer s.tell()
		s.leader()
		stop := make(chan struct{})
		var clients sync.WaitGroup
		end := sync.OnceFunc(func() {
			close(stop)
			clients.Wait()
			s.helpers.Wait()
		})
		defer end() // also when a requirement fails
		for i := range 6 {
			random := rand.New(rand.NewPCG(seed, uint64(i)+2))
			clients.Go(func() { s.work(three[i%len(three)], random, stop) })
		}
		for range 2 + s.random.IntN(5) {
			s.trouble()
			s.sleep(50, 900)
			s.revive()
		}
		s.heal()
		s.sleep(100, 500)
		end()
		s.lookBack()
	})
}

// tell shows how a run that failed got there: real disks make a seed's runs differ.
func (s *simulation) tell() {
	t := s.nodes.t
	if !t.Failed() {
		return
	}
	s.mu.Lock()
	t.Logf("%v, %s is replaced, %s has a wrong clock", s.seen, s.replaced, s.liar)
	s.mu.Unlock()
	for _, id := range three {
		if g := s.group(id); g != nil {
			t.Logf("%s: %+v, failed: %v", id, g.Status(), s.fatals(id))
		}
	}
	t.Logf("the last of what nodes logged:\n%s", s.log.tail(60<<10))
}

// memoryLog keeps what nodes log.
type memoryLog struct {
	mu   sync.Mutex
	text []byte
}

func (l *memoryLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	return len(p), nil
}

func (l *memoryLog) tail(maximum int) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text[max(0, len(l.text)-maximum):]
}

func (s *simulation) tune(id string, c *Config) {
	c.Log = slog.New(slog.NewTextHandler(&s.log, nil)).With("node", id)
	c.FS = s.disks[id]
	withTier(c)
	c.TrailingBytes = 1
	c.logSegment = 32 << 10
	c.CommitTimeout = 150 * time.Millisecond
	c.Now = func() time.Time {
		s.mu.Lock()
		defer s.mu.Unlock()
		return time.Now().Add(s.stepped[id])
	}
}

func (s *simulation) sleep(minimum, maximum int) {
	time.Sleep(time.Duration(minimum+s.random.IntN(maximum-minimum)) * time.Millisecond)
}

func (s *simulation) node() string { return three[s.random.IntN(len(three))] }

// trouble does one harm.
func (s *simulation) trouble() {
	id := s.node()
	if s.random.IntN(3) == 0 {
		s.keepDisk(s.node())
	}
	switch s.random.IntN(15) {
	case 0:
		s.net.isolate(addressOf(id))
	case 1:
		other := s.others(id)[s.random.IntN(2)]
		s.net.cutLink(addressOf(id), addressOf(other))
	case 2:
		for _, other := range s.others(id) {
			s.net.cutLink(addressOf(other), addressOf(id))
		}
	case 3:
		s.net.mend()
	case 4, 5:
		s.cutPower(id)
	case 6:
		for _, id := range three {
			s.cutPower(id)
		}
	case 7:
		s.stepClock()
	case 8:
		s.breakDisk(id)
	case 9:
		s.flipBits(id)
	case 10:
		s.breakConnections(id)
	case 11:
		s.replace(id)
	case 12:
		s.transfer(s.node(), id)
	case 13, 14:
		s.putBack(id)
	}
	if g := s.group(s.node()); g != nil && s.random.IntN(3) == 0 {
		s.snapshot(g)
	}
}

// snapshot takes one in the background: it may wait for a disk that is gone.
func (s *simulation) snapshot(g *Group) {
	s.helpers.Go(func() {
		if err := g.TakeSnapshot(); err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.failures++
		}
	})
}

// stepClock puts a clock a year off, either way, or right again. Another one only when what this
// one said counts no more: two of three that are wrong within that time are a majority.
func (s *simulation) stepClock() {
	const year = 365 * 24 * time.Hour
	next := s.node()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.stepped) > 0 {
		s.rightClock()
		return
	}
	if next != s.liar && time.Since(s.righted) > clockRecent+clockTrip {
		s.liar = next
		s.seen["another clock"]++
	}
	s.stepped[s.liar] = []time.Duration{year, -year}[s.random.IntN(2)]
}

func (s *simulation) rightClock() {
	if len(s.stepped) > 0 {
		clear(s.stepped)
		s.righted = time.Now()
	}
}

// cutPower ends a node in the middle of an operation of its disk, one of the next few.
func (s *simulation) cutPower(id string) {
	if s.group(id) == nil {
		return
	}
	disk, left := s.disks[id], 1+s.random.IntN(20)
	var mu sync.Mutex
	s.mu.Lock()
	s.robbed[id] = true
	s.mu.Unlock()
	disk.Inject(func(op faultfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if left--; left > 0 || op.Kind == faultfs.KindRead {
			return nil // raft panics when it cannot read: here, that would end all three
		}
		return faultfs.ErrPowerOff
	})
	s.sleep(5, 300)
	if err := s.turnOff(id); err != nil {
		require.ErrorIs(s.nodes.t, err, faultfs.ErrPowerOff)
	}
	disk.Crash(s.random.IntN)
}

// turnOff takes a node away in the middle of whatever it says.
func (s *simulation) turnOff(id string) error {
	s.net.isolate(addressOf(id)) // nothing more is said
	s.at.Lock()
	n := s.nodes.node[id]
	s.nodes.node[id] = nil
	s.at.Unlock()
	return n.Close()
}

// breakDisk lets one of the next operations of a node's disk fail: reads, writes, fsyncs. The node
// must end by itself, or have made do without the file, and it may lose its power right after.
func (s *simulation) breakDisk(id string) {
	if s.group(id) == nil {
		return
	}
	disk, left := s.disks[id], 1+s.random.IntN(20)
	full := s.random.IntN(2) == 0
	var mu sync.Mutex
	var met *faultfs.Op
	disk.Inject(func(op faultfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if left--; left != 0 {
			return nil
		}
		met = &op
		if full && op.Kind == faultfs.KindWrite {
			return &faultfs.ShortWrite{Keep: op.Bytes / 3, Err: errIO}
		}
		return errIO
	})
	s.sleep(300, 900)
	disk.Inject(nil)
	mu.Lock()
	defer mu.Unlock()
	if met == nil {
		return
	}
	s.saw("disk failed")
	fatal := s.fatals(id)
	kind := fileKind(met.Name)
	if len(fatal) == 0 && (kind == "vote" || kind == "log" && met.Kind == faultfs.KindSync) {
		s.note(fmt.Errorf("%s: %s of %s failed, and the node goes on", id, met.Kind, met.Name))
	}
	if len(fatal) == 0 {
		return
	}
	s.saw("node ended itself")
	if err := s.turnOff(id); err != nil {
		testLog().Info("closed", "node", id, "error", err)
	}
	if disk.Kill(); s.random.IntN(2) == 0 {
		disk.Crash(s.random.IntN)
	}
	s.forget(id)
}

// flipBits stops a node, flips a bit of one of its files, and starts it again: it refuses, and gets
// its file back, or it goes on as if nothing had been.
func (s *simulation) flipBits(id string) {
	if s.group(id) == nil || len(s.fatals(id)) > 0 {
		return
	}
	require.NoError(s.nodes.t, s.turnOff(id))
	whole := s.disks[id]
	var files []string
	for _, name := range whole.Files() {
		if fileKind(name) != "" {
			files = append(files, name)
		}
	}
	damaged := whole.Clone()
	flip := func(b []byte) []byte {
		if len(b) > 0 {
			b[s.random.IntN(min(len(b), 20_000))] ^= 1 << s.random.IntN(8)
		}
		return b
	}
	name := files[s.random.IntN(len(files))]
	require.NoError(s.nodes.t, damaged.Corrupt(name, flip))
	s.disks[id] = damaged
	s.net.mend()
	s.saw("bit flipped")
	s.at.Lock()
	defer s.at.Unlock()
	n, err := Open(s.nodes.config(id))
	if err == nil {
		s.nodes.node[id] = n
		return
	}
	if !errors.Is(err, ErrDamaged) && !errors.Is(err, wal.ErrDamaged) {
		s.note(fmt.Errorf("%s: a flipped bit in %s: %w", id, name, err))
	}
	s.saw("start refused")
	s.disks[id] = whole
}

// breakConnections holds what a node has sent up for a while, and then lets it arrive, after what
// it has sent over new connections meanwhile.
func (s *simulation) breakConnections(id string) {
	for _, other := range s.others(id) {
		release := s.net.hold(addressOf(id), addressOf(other))
		s.helpers.Go(func() {
			time.Sleep(2 * time.Second)
			release()
		})
	}
	s.saw("connections held")
}

// saw counts a fault or a refusal.
func (s *simulation) saw(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[what]++
}

// note notes a broken promise.
func (s *simulation) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blame(err)
}

// revive starts nodes that are off, now and then, and those that ask for a restart.
func (s *simulation) revive() {
	for _, id := range three {
		if fatal := s.fatals(id); len(fatal) > 0 && errors.Is(fatal[0], ErrRestart) {
			s.at.Lock()
			n := s.nodes.node[id]
			s.nodes.node[id] = nil
			s.at.Unlock()
			if n != nil {
				require.NoError(s.nodes.t, n.Close())
			}
			s.forget(id)
		}
		if s.group(id) == nil && s.random.IntN(3) > 0 && !s.isOut(id) {
			s.turnOn(id)
		}
	}
	s.goOnReplacing(2 * time.Second)
}

// forget drops what a process that has ended said.
func (s *simulation) forget(id string) {
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	delete(s.fatal, id)
}

func (s *simulation) turnOn(id string) {
	s.mu.Lock()
	if s.robbed[id] {
		s.robbed[id] = false
		s.forget(id)
	}
	s.mu.Unlock()
	s.net.mend()
	s.at.Lock()
	defer s.at.Unlock()
	s.start(id)
}

// heal ends all trouble.
func (s *simulation) heal() {
	s.net.mend()
	s.mu.Lock()
	s.rightClock()
	s.mu.Unlock()
	for _, id := range three {
		if s.group(id) == nil && !s.isOut(id) {
			s.turnOn(id)
		}
	}
	s.leader()
	s.eventually("the replacement has come to its end", func() bool {
		return s.goOnReplacing(10 * time.Second)
	})
	s.leader()
}

// group is a node's billing group; nil while it is off.
func (s *simulation) group(id string) *Group {
	s.at.RLock()
	defer s.at.RUnlock()
	if n := s.nodes.node[id]; n != nil {
		return n.Billing()
	}
	return nil
}

// work is a client of one node.
func (s *simulation) work(id string, random *rand.Rand, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(5+random.IntN(60)) * time.Millisecond):
		}
		g := s.group(id)
		if g == nil {
			continue
		}
		deadline := time.Now().Add(time.Duration(50+random.IntN(2000)) * time.Millisecond)
		switch random.IntN(5) {
		case 0, 1:
			s.write(g, deadline)
		case 4:
			s.spend(g, deadline, random)
		case 2:
			s.read(g, deadline)
		case 3:
			s.readStale(g)
		}
	}
}

// write proposes a key of its own.
func (s *simulation) write(g *Group, deadline time.Time) {
	s.mu.Lock()
	s.next++
	key := s.next
	s.mu.Unlock()
	var results [1]engine.Result
	g.Propose(deadline, []engine.Record{countRecord(key)}, results[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	switch o := results[0].Outcome; o {
	case engine.OutcomeDone:
		s.acked = append(s.acked, key)
		s.ackedAt = append(s.ackedAt, time.Now())
	case engine.OutcomeUnavailable, engine.OutcomeOverloaded:
		s.refused = append(s.refused, key)
	case engine.OutcomeUnknown:
	default:
		s.blame(fmt.Errorf("key %d through %s: outcome %d", key, g.config.NodeID, o))
	}
}

// spend tries to spend a key, which others try as well.
func (s *simulation) spend(g *Group, deadline time.Time, random *rand.Rand) {
	key, attempt := uint64(random.IntN(3*spendLimit/2)), random.Uint64()|1
	outcome := spendThrough(g, deadline, key, attempt)
	s.mu.Lock()
	defer s.mu.Unlock()
	told := s.spends[key]
	switch o := outcome; o {
	case engine.OutcomeDone:
		if told.done != 0 {
			s.blame(fmt.Errorf("key %d was spent twice", key))
		}
		told.done = attempt
	case engine.OutcomeDuplicate:
		told.duplicate = true
		told.refused = append(told.refused, attempt)
	case engine.OutcomeHardLimit:
		s.seen["limit reached"]++
		told.refused = append(told.refused, attempt)
	case engine.OutcomeUnavailable, engine.OutcomeOverloaded:
		told.refused = append(told.refused, attempt)
	case engine.OutcomeKeyUnproven:
		s.seen["unproven"]++
		told.refused = append(told.refused, attempt)
	case engine.OutcomeUnknown:
	default:
		s.blame(fmt.Errorf("spending %d through %s: outcome %d", key, g.config.NodeID, o))
	}
	s.spends[key] = told
}

// lookAtSpending compares what was told about spending with a state.
func (s *simulation) lookAtSpending(id string, m *ledger) {
	t, spent := s.nodes.t, m.spent()
	require.LessOrEqual(t, len(spent), spendLimit, id)
	if s.seen["limit reached"] > 0 {
		require.Len(t, spent, spendLimit, "%s: a refusal at the limit", id)
	}
	for key, told := range s.spends {
		by, found := spent[key]
		if told.done != 0 {
			require.Equal(t, told.done, by, "%s: key %d", id, key)
		}
		require.True(t, found || !told.duplicate, "%s: key %d is not a duplicate", id, key)
		require.NotContains(t, told.refused, by, "%s: key %d, refused and spent", id, key)
	}
}

// blame notes the first broken promise; the caller holds the lock.
func (s *simulation) blame(err error) {
	if s.wrong == nil {
		s.wrong = err
	}
}

// read looks, linearizably, for everything that was acknowledged before it began.
func (s *simulation) read(g *Group, deadline time.Time) {
	s.mu.Lock()
	before := s.acked[:len(s.acked):len(s.acked)]
	s.mu.Unlock()
	ticket, outcome := g.BeginRead(deadline)
	if outcome != engine.OutcomeDone {
		return
	}
	m := g.machine.(*ledger)
	var missing []uint64
	m.mu.RLock()
	for _, key := range before {
		if m.state.Counts[key] == 0 {
			missing = append(missing, key)
		}
	}
	stamp := m.state.Stamp
	m.mu.RUnlock()
	if !g.ReadStands(ticket) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	if len(missing) > 0 {
		s.blame(fmt.Errorf("a read at %s misses %v, acknowledged before", g.config.NodeID, missing))
	}
	if early := stamp - time.Now().UnixMilli(); early > (clockLead + clockTrip).Milliseconds() {
		s.blame(fmt.Errorf("log time at %s is %d ms ahead", g.config.NodeID, early))
	}
}

// readStale looks for everything that was acknowledged longer ago than the node says its memory may
// be old.
func (s *simulation) readStale(g *Group) {
	lies := func() bool { return len(s.stepped) > 0 && g.contact.Load() == nil }
	s.mu.Lock()
	lied := lies()
	s.mu.Unlock()
	fresh := time.Now().Add(-g.Staleness())
	s.mu.Lock()
	if lied || lies() {
		s.mu.Unlock()
		return // by a clock that is a year off, it cannot know
	}
	n := sort.Search(len(s.acked), func(i int) bool { return !s.ackedAt[i].Before(fresh) })
	before := s.acked[:n:n]
	s.mu.Unlock()
	m := g.machine.(*ledger)
	for _, key := range before {
		if !m.has(key) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.blame(fmt.Errorf("a stale read at %s, %s old, misses %d", g.config.NodeID,
				time.Since(fresh), key))
			return
		}
	}
}

// lookBack sees what is left.
func (s *simulation) lookBack() {
	t := s.nodes.t
	require.NoError(t, s.wrong)
	s.converge()
	for _, id := range three {
		m := s.ledgers[id]
		for _, key := range s.acked {
			require.True(t, m.has(key), "%s has lost %d, which was acknowledged", id, key)
		}
		for _, key := range s.refused {
			require.False(t, m.has(key), "%s has %d, which was refused", id, key)
		}
		s.lookAtSpending(id, m)
		s.seen["demoted"] += int(m.KeySpan().OnDisk())
		for _, err := range s.fatals(id) {
			require.ErrorIs(t, err, ErrRestart, "%s", id)
		}
	}
	t.Logf("%v", s.seen)
	t.Logf("%d acknowledged, %d refused, %d of unknown fate, %d reads", len(s.acked),
		len(s.refused), int(s.next)-len(s.acked)-len(s.refused), s.reads)
}
