package client

import (
	"encoding/binary"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
)

// noting is a log that keeps the uses that are noted in it.
type noting struct {
	mu      sync.Mutex
	noted   []billing.NoteKeyUse
	outcome engine.Outcome
	takes   time.Duration
	asked   int
	number  map[[16]byte]uint64 // of each key's last note
}

func (n *noting) Propose(deadline time.Time, records []engine.Record, results []engine.Result) {
	n.mu.Lock()
	takes := n.takes
	n.mu.Unlock()
	time.Sleep(min(takes, time.Until(deadline)))
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked++
	for i := range records {
		var use billing.NoteKeyUse
		if err := wire.Decode(records[i].Payload, &use); err != nil {
			panic(err)
		}
		if use.Source == 0 || use.Number == 0 || use.Number <= n.number[use.ID] {
			panic("a note is named as one before")
		}
		n.number[use.ID] = use.Number
		use.Source, use.Number = 0, 0
		if results[i].Outcome = n.outcome; n.outcome == engine.OutcomeDone {
			n.noted = append(n.noted, use)
		}
	}
}

// answers sets what the log answers from now on, and after what time.
func (n *noting) answers(outcome engine.Outcome, takes time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.outcome, n.takes, n.asked = outcome, takes, 0
}

// times is how often the log was asked since it got its answer.
func (n *noting) times() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked
}

// take returns what was noted since.
func (n *noting) take() []billing.NoteKeyUse {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	noted := n.noted
	n.noted = nil
	return noted
}

// TestUsesAreNotedEachMinute: the first use of a key at once, and the rest together; those that
// were refused once more, and those of which it is not known never.
func TestUsesAreNotedEachMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &noting{outcome: engine.OutcomeDone, number: map[[16]byte]uint64{}}
		u := countKeyUses(log, slog.New(slog.DiscardHandler))
		defer u.close()
		key := [16]byte{15: 7}
		p := &billing.Principal{Env: 3, KeyID: key}
		want := func(requests, events uint64) []billing.NoteKeyUse {
			return []billing.NoteKeyUse{{Env: 3, ID: key, Requests: requests, Events: events}}
		}
		u.request(3, key, true)
		require.Equal(t, want(1, 0), log.take())
		for range 20 {
			u.request(3, key, false)
			u.events(p, 5)
		}
		u.events(p, 0)
		u.events(&billing.Principal{Env: 3}, 9) // without a key
		require.Empty(t, log.take())
		time.Sleep(keyNoting)
		require.Equal(t, want(20, 100), log.take())
		time.Sleep(keyNoting)
		require.Empty(t, log.take())

		log.answers(engine.OutcomeUnavailable, 0)
		u.request(3, key, true)
		require.Empty(t, log.take())
		u.request(3, key, true) // which waits for the minute
		log.answers(engine.OutcomeDone, 0)
		require.Empty(t, log.take())
		time.Sleep(keyNoting)
		require.Equal(t, want(2, 0), log.take())
		log.answers(engine.OutcomeUnknown, 0)
		u.request(3, key, false)
		time.Sleep(keyNoting)
		require.Empty(t, log.take())
		log.answers(engine.OutcomeDone, 0)
		time.Sleep(keyNoting)
		require.Empty(t, log.take())

		for i := range 3 * keyNotingSome {
			binary.LittleEndian.PutUint32(key[12:], uint32(i))
			u.request(3, key, false)
		}
		u.close()
		require.Len(t, log.take(), 3*keyNotingSome)
	})
	var none *keyUses
	none.request(1, [16]byte{}, true)
	none.events(&billing.Principal{KeyID: [16]byte{1}}, 1)
	none.close()
}

// TestAFirstUseIsNotedAlone: keys in use wait for their minute, and first uses come together once a
// second, even if it takes long until they are known. While the log takes none, they wait, too.
func TestAFirstUseIsNotedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &noting{outcome: engine.OutcomeDone, number: map[[16]byte]uint64{}}
		u := countKeyUses(log, slog.New(slog.DiscardHandler))
		defer u.close()
		for i := range byte(100) {
			u.request(3, [16]byte{15: i}, false)
		}
		u.request(3, [16]byte{1}, true)
		require.Equal(t, []billing.NoteKeyUse{{Env: 3, ID: [16]byte{1}, Requests: 1}}, log.take())

		log.answers(engine.OutcomeDone, 0)
		for range 100 {
			u.request(3, [16]byte{1}, true)
			time.Sleep(keyResting / 50)
		}
		require.Len(t, log.take(), 2)
		require.Equal(t, 2, log.times())

		log.answers(engine.OutcomeUnavailable, 0)
		for i := range byte(100) {
			u.request(3, [16]byte{2, i}, true)
			time.Sleep(keyResting / 10)
		}
		require.Equal(t, 1, log.times())
		log.answers(engine.OutcomeDone, 0)
		time.Sleep(keyNoting)
		require.Len(t, log.take(), 200)
		u.request(3, [16]byte{3}, true)
		require.Len(t, log.take(), 1, "the log takes them again")
	})
}

// TestCountingStopsSoon: whether the log takes nothing or is slow, however many keys are in use.
// What it does not take in a minute it is asked about once, and gets in the next.
func TestCountingStopsSoon(t *testing.T) {
	for outcome, takes := range map[engine.Outcome]time.Duration{
		engine.OutcomeUnknown: time.Hour, engine.OutcomeDone: keyNotingWait * 9 / 10,
	} {
		synctest.Test(t, func(t *testing.T) {
			log := &noting{outcome: outcome, takes: takes, number: map[[16]byte]uint64{}}
			u := countKeyUses(log, slog.New(slog.DiscardHandler))
			key := [16]byte{}
			use := func() {
				for i := range 50 * keyNotingSome {
					binary.LittleEndian.PutUint32(key[12:], uint32(i))
					u.request(3, key, false)
				}
			}
			use()
			if outcome == engine.OutcomeUnknown {
				time.Sleep(keyNoting + 2*keyNotingWait)
				require.Equal(t, 1, log.times())
				log.answers(engine.OutcomeDone, 0)
				time.Sleep(keyNoting)
				require.Len(t, log.take(), 49*keyNotingSome)
				log.answers(outcome, takes)
				use()
			}
			time.Sleep(keyNoting / 2)
			began := time.Now()
			u.close()
			require.LessOrEqual(t, time.Since(began), keyClosing+keyNotingWait)
		})
	}
}

// TestCountingAKeyAllocatesNothing, whose uses are known and were counted since the last minute.
func TestCountingAKeyAllocatesNothing(t *testing.T) {
	u := &keyUses{first: make(chan struct{}, 1)}
	p := &billing.Principal{Env: 3, KeyID: [16]byte{15: 7}}
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		u.request(3, p.KeyID, false)
		u.request(3, p.KeyID, true)
		u.events(p, 2)
	}))
}

// BenchmarkKeyUse counts requests with one key on all processors.
func BenchmarkKeyUse(b *testing.B) {
	u := &keyUses{}
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			u.request(3, [16]byte{15: 7}, false)
		}
	})
}
