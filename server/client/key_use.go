package client

import (
	"log/slog"
	"sync"
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
	keyNotingWait = time.Second
	keyNotingSome = 1000
	// keyShards are the locks of the counts.
	keyShards = 16
)

// keyUses counts the uses of API keys on this node, and notes them in the log each minute; the
// first use of a key at once. It holds keys that exist, and so as many at most. nil counts nothing.
// Safe for concurrent use.
type keyUses struct {
	proposer server.Proposer
	log      *slog.Logger
	shards   [keyShards]keyShard
	first    chan struct{} // a key was used for the first time
	stop     chan struct{}
	stopping sync.Once
	running  sync.WaitGroup
}

type keyShard struct {
	mu sync.Mutex
	of map[[16]byte]*billing.NoteKeyUse
	_  [48]byte // a cache line of its own
}

func countKeyUses(proposer server.Proposer, log *slog.Logger) *keyUses {
	u := &keyUses{
		proposer: proposer, log: log, first: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	u.running.Go(u.run)
	return u
}

// request counts a request with a key; never reports that no use of it is known.
func (u *keyUses) request(env uint32, key [16]byte, never bool) {
	if u != nil && u.add(billing.NoteKeyUse{Env: env, ID: key, Requests: 1}) && never {
		signal(u.first)
	}
}

// events counts the usage events that a request of a key recorded. What the consoles do has no key.
func (u *keyUses) events(p *billing.Principal, n int) {
	if u != nil && n > 0 && p.KeyID != ([16]byte{}) {
		u.add(billing.NoteKeyUse{Env: p.Env, ID: p.KeyID, Events: uint64(n)})
	}
}

// add reports whether the key has not been used since its uses were noted.
func (u *keyUses) add(more billing.NoteKeyUse) (fresh bool) {
	s := &u.shards[more.ID[len(more.ID)-1]%keyShards] // random in ids of every version
	s.mu.Lock()
	defer s.mu.Unlock()
	if use := s.of[more.ID]; use != nil {
		use.Requests += more.Requests
		use.Events += more.Events
		return false
	}
	if s.of == nil {
		s.of = map[[16]byte]*billing.NoteKeyUse{}
	}
	s.of[more.ID] = &more
	return true
}

func (u *keyUses) run() {
	ticker := time.NewTicker(keyNoting)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-u.first:
		case <-u.stop:
			u.note()
			return
		}
		u.note()
	}
}

// close notes what is left.
func (u *keyUses) close() {
	if u != nil {
		u.stopping.Do(func() { close(u.stop) })
		u.running.Wait()
	}
}

// note brings all counts into the log.
func (u *keyUses) note() {
	var uses []billing.NoteKeyUse
	for i := range u.shards {
		s := &u.shards[i]
		s.mu.Lock()
		for _, use := range s.of { // any order: they are of different keys
			uses = append(uses, *use)
		}
		clear(s.of)
		s.mu.Unlock()
	}
	for len(uses) > 0 {
		some := uses[:min(len(uses), keyNotingSome)]
		uses = uses[len(some):]
		u.propose(some)
	}
}

// propose brings some counts into the log. Those that certainly are not in it are counted again;
// those of which it cannot be known are lost, and not counted twice.
func (u *keyUses) propose(uses []billing.NoteKeyUse) {
	records, results := make([]engine.Record, len(uses)), make([]engine.Result, len(uses))
	for i := range uses {
		records[i] = engine.Record{
			Kind: billing.KindNoteKeyUse, Payload: wire.Encode(nil, &uses[i]),
		}
	}
	u.proposer.Propose(time.Now().Add(keyNotingWait), records, results)
	for i := range results {
		switch o := results[i].Outcome; {
		case o == engine.OutcomeDone || o == engine.OutcomeKeyUnknown: // or revoked since
		case o.Refused():
			u.add(uses[i])
			fallthrough
		default:
			u.log.Debug("the use of an API key is not noted", "outcome", o)
		}
	}
}
