package cluster

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"tollgate/engine/idempotency"
)

const (
	// keysLook is how often a node checks whether to write keys into files, and the leader whether
	// keys should leave memory.
	keysLook = time.Second
	// keysRetry is how long it waits after an error, which it logs each time. Each wait is twice as
	// long as the one before it, up to keysRetryMost.
	keysRetry    = 10 * time.Second
	maxKeysRetry = 80 * time.Second
)

// tiering lets a group's oldest idempotency keys leave memory for files.
type tiering struct {
	*core
	electorate *electorate
	router     *router
	proposer   *proposer
	replica    *replica
	keys       *keyTier // nil where no key leaves memory; set before the replica is restored
}

// KeyFinder looks up idempotency keys that have left memory; nil if keys never leave it.
func (t *tiering) KeyFinder() idempotency.Finder {
	if t.keys == nil {
		return nil
	}
	return t.keys
}

// keepKeys writes keys into files before they leave memory, and removes those that were dropped.
// It merges and repairs files at the same time, so that a large merge does not delay a new file.
func (t *tiering) keepKeys() {
	if t.keys == nil {
		return
	}
	m := t.keys.machine
	t.wg.Go(func() {
		t.keepDoing("files of idempotency keys are not merged", func() (bool, error) {
			span := m.KeySpan()
			return t.keys.Rewrite(t.ctx, span.Next-span.Base)
		})
	})
	t.keepDoing("idempotency keys are not in files", func() (bool, error) {
		return t.keys.Step(t.ctx, m.KeySpan().Base, m.KeysWanted())
	})
}

// keepDoing works while there is something to do, and then checks again at intervals.
func (t *tiering) keepDoing(failed string, piece func() (did bool, err error)) {
	retry := keysRetry
	var problem *string // its own: another loop's stays
	for wait := time.Duration(0); t.pause(t.ctx, wait); {
		did, err := piece()
		switch {
		case err != nil && t.ctx.Err() == nil:
			t.keys.failures.Add(1)
			text := err.Error()
			problem = &text
			t.keys.problem.Store(problem)
			t.log.Warn(failed, "error", err, "covered", t.keys.Covered(), "again", retry)
			wait, retry = retry, min(2*retry, maxKeysRetry)
			continue
		case did:
			wait = 0
		default:
			wait = keysLook
		}
		retry = keysRetry
		t.keys.problem.CompareAndSwap(problem, nil)
	}
}

// progressReport is an answer to callProgress.
type progressReport struct {
	applied, missing uint64
	covered          uint64 // the number before which keys are in files
	room             uint64 // bytes that may be written before client writes are refused there
}

// parseProgress reads an answer to callProgress; false if the answer is empty or malformed.
func parseProgress(reply []byte) (p progressReport, ok bool) {
	for _, to := range []*uint64{&p.applied, &p.missing, &p.covered, &p.room} {
		n, size := binary.Uvarint(reply)
		if size <= 0 {
			return p, false
		}
		*to, reply = n, reply[size:]
	}
	return p, true
}

// askProgress asks nodes concurrently how far they are, and returns the answers that came within a
// time.
func (c *core) askProgress(
	within time.Duration, ids []raft.ServerID,
) map[raft.ServerID]progressReport {
	ctx, cancel := context.WithTimeout(c.ctx, within)
	defer cancel()
	answers := make(map[raft.ServerID]progressReport, len(ids))
	var change sync.Mutex
	var asking sync.WaitGroup
	for _, id := range ids {
		asking.Go(func() {
			reply, err := c.request(ctx, string(id), callProgress, nil)
			if said, ok := parseProgress(reply); err == nil && ok {
				change.Lock()
				defer change.Unlock()
				answers[id] = said
			}
		})
	}
	asking.Wait()
	return answers
}

// progressNow is the answer to callProgress: the index applied, the number of journal segments that
// are missing, the number before which keys are in files, and the room on the disk, four varints;
// empty while the group cannot say.
func (t *tiering) progressNow() []byte {
	if t.halted.Load() != nil {
		return nil
	}
	missing, covered := 0, uint64(0)
	select {
	case <-t.replica.restored:
	default:
		return nil
	}
	if t.replica.segments != nil {
		missing = len(t.replica.segments.Missing())
	}
	if t.keys != nil {
		covered = t.keys.Covered()
	}
	reply := binary.AppendUvarint(nil, t.machine.Applied())
	reply = binary.AppendUvarint(binary.AppendUvarint(reply, uint64(missing)), covered)
	return binary.AppendUvarint(reply, t.disk.left())
}

// keepRollups counts the journal's sealed segments. Nothing depends on it: a failure is logged, and
// tried again.
func (t *tiering) keepRollups() {
	counts := t.replica.rollups
	for wait := time.Duration(0); counts != nil && t.pause(t.ctx, wait); {
		did, err := counts.Step(t.ctx)
		switch {
		case err != nil && t.ctx.Err() == nil:
			t.log.Warn("usage is not counted by hour", "error", err, "again", rollupsRetry)
			wait = rollupsRetry
		case did:
			wait = 0
		default:
			wait = rollupsLook
		}
	}
}

const (
	// rollupsLook is how often a node checks for segments to count, rollupsRetry how long it waits
	// after an error.
	rollupsLook  = time.Second
	rollupsRetry = 10 * time.Second
)
