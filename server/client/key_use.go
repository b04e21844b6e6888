package client

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
)

const (
	// keyNoting is how often a node notes the uses of API keys in the log: what a killed node loses of
	// their counts.
	keyNoting = time.Minute
	// keyNotingWait is how long that may take, and keyNotingSome how many keys go together.
	// keyResting is the pause after first uses of keys, of which a node that applies the log late
	// learns late. keyClosing is how long a node that stops begins to note more.
	keyNotingWait = time.Second
	keyNotingSome = 250
	keyResting    = time.Second
	keyClosing    = time.Second
	// keyShards are the locks of the counts.
	keyShards = 16
)

// keyUses counts the uses of API keys on this node, and notes them in the log each minute; the
// first use of a key within a second. It holds keys that exist, and so as many at most. nil counts
// nothing. Safe for concurrent use.
type keyUses struct {
	proposer server.Proposer
	log      *slog.Logger
	// source and number name notes, so that one that is proposed again counts once; run alone counts
	// them.
	source, number uint64
	// The last shard is of the keys of which no use is known: they are noted soon, alone.
	shards   [keyShards + 1]keyShard
	first    chan struct{} // a key came into the last shard
	stop     chan struct{}
	over     chan struct{} // nothing more is to be noted
	stopping sync.Once
	running  sync.WaitGroup
}

type keyShard struct {
	mu sync.RWMutex // read to count a key that is in of
	of map[[16]byte]*keyCount
	_  [32]byte // a cache line of its own
}

type keyCount struct {
	env              uint32
	requests, events atomic.Uint64
}

func countKeyUses(proposer server.Proposer, log *slog.Logger) *keyUses {
	u := &keyUses{
		proposer: proposer, log: log, first: make(chan struct{}, 1), stop: make(chan struct{}),
		over: make(chan struct{}), source: rand.Uint64() | 1,
	}
	u.running.Go(u.run)
	return u
}

// request counts a request with a key; never reports that no use of it is known.
func (u *keyUses) request(env uint32, key [16]byte, never bool) {
	if u == nil {
		return
	}
	if !never {
		u.known().of(key).add(env, key, 1, 0)
	} else if u.unknown().of(key).add(env, key, 1, 0) {
		select {
		case u.first <- struct{}{}:
		default:
		}
	}
}

// events counts the usage events that a request of a key recorded. What the consoles do has no key.
func (u *keyUses) events(p *billing.Principal, n int) {
	if u != nil && n > 0 && p.KeyID != ([16]byte{}) {
		u.known().of(p.KeyID).add(p.Env, p.KeyID, 0, uint64(n))
	}
}

// keyCounts are some of the shards.
type keyCounts []keyShard

func (u *keyUses) known() keyCounts   { return u.shards[:keyShards] }
func (u *keyUses) unknown() keyCounts { return u.shards[keyShards:] }

// of is the shard of a key, whose last byte is random in ids of every version.
func (c keyCounts) of(key [16]byte) *keyShard { return &c[uint(key[15])%uint(len(c))] }

// again counts once more what was taken out and not noted.
func (c keyCounts) again(use *billing.NoteKeyUse) {
	c.of(use.ID).add(use.Env, use.ID, use.Requests, use.Events)
}

// add reports whether the key has not been used since its uses were noted.
func (s *keyShard) add(env uint32, key [16]byte, requests, events uint64) (fresh bool) {
	s.mu.RLock()
	count := s.of[key]
	if count != nil {
		count.add(requests, events)
	}
	s.mu.RUnlock()
	if count != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if count = s.of[key]; count == nil {
		count, fresh = &keyCount{env: env}, true
		if s.of == nil {
			s.of = map[[16]byte]*keyCount{}
		}
		s.of[key] = count
	}
	count.add(requests, events)
	return fresh
}

func (c *keyCount) add(requests, events uint64) {
	if requests > 0 {
		c.requests.Add(requests)
	}
	if events > 0 {
		c.events.Add(events)
	}
}

// take takes the counts out. They do not change any more: whoever adds to one holds the lock.
func (s *keyShard) take() map[[16]byte]*keyCount {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.of
	s.of = nil
	if len(taken) > 0 {
		s.of = make(map[[16]byte]*keyCount, len(taken))
	}
	return taken
}

func (u *keyUses) run() {
	ticker := time.NewTicker(keyNoting)
	defer ticker.Stop()
	first, rested := u.first, (<-chan time.Time)(nil)
	for {
		select {
		case <-ticker.C:
			if first = nil; u.noteAll() {
				first = u.first
			}
		case <-first:
			first = nil
			if u.note(u.unknown()) { // else the minute tries again
				rested = time.After(keyResting)
			}
		case <-rested:
			first = u.first
		case <-u.stop:
			if !u.noteAll() {
				u.log.Warn("the last uses of API keys are not noted: the log does not take them")
			}
			return
		}
	}
}

// close notes what is left, within some two seconds.
func (u *keyUses) close() {
	if u != nil {
		u.stopping.Do(func() {
			close(u.stop)
			time.AfterFunc(keyClosing, func() { close(u.over) })
		})
		u.running.Wait()
	}
}

func (u *keyUses) noteAll() bool { return u.note(u.unknown()) && u.note(u.known()) }

// note brings counts into the log, and reports whether it takes them. What was not proposed because
// it does not is counted again, for the next time.
func (u *keyUses) note(counts keyCounts) (taken bool) {
	var uses []billing.NoteKeyUse
	for i := range counts {
		for key, count := range counts[i].take() { // any order: they are of different keys
			u.number++
			uses = append(uses, billing.NoteKeyUse{
				Env: count.env, ID: key,
				Requests: count.requests.Load(), Events: count.events.Load(),
				Source: u.source, Number: u.number,
			})
		}
	}
	taken = true
	for some := range slices.Chunk(uses, keyNotingSome) {
		if taken = taken && !u.isOver(); taken {
			taken = u.propose(counts, some)
			continue
		}
		for i := range some {
			counts.again(&some[i])
		}
	}
	return taken
}

func (u *keyUses) isOver() bool {
	select {
	case <-u.over:
		return true
	default:
		return false
	}
}

// propose brings some counts into the log, and reports whether it took them. Those that certainly
// are not in it are counted again; those of which it cannot be known are lost, not counted twice.
func (u *keyUses) propose(counts keyCounts, uses []billing.NoteKeyUse) (taken bool) {
	records, results := make([]engine.Record, len(uses)), make([]engine.Result, len(uses))
	for i := range uses {
		records[i] = engine.Record{
			Kind: billing.KindNoteKeyUse, Payload: wire.Encode(nil, &uses[i]),
		}
	}
	u.proposer.Propose(time.Now().Add(keyNotingWait), records, results)
	refused, lost := 0, 0
	for i := range results {
		switch o := results[i].Outcome; {
		case o == engine.OutcomeDone || o == engine.OutcomeKeyUnknown: // or revoked since
		case o.Refused():
			counts.again(&uses[i])
			refused++
		default:
			lost++
		}
	}
	if refused+lost > 0 {
		u.log.Debug("uses of API keys are not noted", "later", refused, "lost", lost)
	}
	return refused+lost == 0
}
