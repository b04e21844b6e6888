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
}

func (n *noting) Propose(_ time.Time, records []engine.Record, results []engine.Result) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range records {
		var use billing.NoteKeyUse
		if err := wire.Decode(records[i].Payload, &use); err != nil {
			panic(err)
		}
		if results[i].Outcome = n.outcome; n.outcome == engine.OutcomeDone {
			n.noted = append(n.noted, use)
		}
	}
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
		log := &noting{outcome: engine.OutcomeDone}
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

		log.outcome = engine.OutcomeUnavailable
		u.request(3, key, true)
		require.Empty(t, log.take())
		u.request(3, key, true) // which waits for the minute
		log.outcome = engine.OutcomeDone
		require.Empty(t, log.take())
		time.Sleep(keyNoting)
		require.Equal(t, want(2, 0), log.take())
		log.outcome = engine.OutcomeUnknown
		u.request(3, key, false)
		time.Sleep(keyNoting)
		require.Empty(t, log.take())
		log.outcome = engine.OutcomeDone
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
