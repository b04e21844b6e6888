package cluster

import (
	"encoding/binary"
	"path/filepath"
	"sync/atomic"
	"time"

	"tollgate/cluster/keyfiles"
	"tollgate/engine"
	"tollgate/engine/idempotency"
)

// demoter is a machine whose oldest idempotency keys may leave memory; *billing.Machine is one.
type demoter interface {
	engine.Machine
	// KeySpan says which keys are kept, and which of them are in memory.
	KeySpan() idempotency.Span
	// KeysWanted is the number before which keys should be in files.
	KeysWanted() uint64
	// KeysToDemote is the number before which keys are to leave memory; 0 while none are. Demotion is
	// the command that lets them.
	KeysToDemote() uint64
	Demotion(through uint64) engine.Record
}

// keyTier is the files of a group's keys, and the machine that they are for.
type keyTier struct {
	*keyfiles.Store
	machine demoter
	// failures counts what Step could not do; heldUp are the voters that the leader last found to be
	// behind with their files.
	failures atomic.Uint64
	problem  atomic.Pointer[string] // of the last try; nil where it did not fail
	heldUp   atomic.Pointer[[]string]
}

const (
	// keysLook is how often a node looks whether keys are to be put into files, and the leader
	// whether some are to leave memory.
	keysLook = time.Second
	// keysRetry is how long it waits after an error, which it says each time, and keysRetryMost after
	// several in a row: each wait is twice as long as the one before it.
	keysRetry     = 10 * time.Second
	keysRetryMost = 80 * time.Second
)

// openKeys has the files of the keys of a machine whose journal is open; nil where a shard keeps
// none. They are read later, beside what else begins.
func (s *stores) openKeys(shard Shard, from Segments, on *disk) *keyTier {
	machine, ok := shard.Machine.(demoter)
	if !ok || shard.KeyOf == nil {
		return nil
	}
	s.keys = keyfiles.Open(filepath.Join(s.dir, "keys"), keyfiles.Options{
		FS: segmentFS{s.files}, Journal: machine.Journal(), Read: from.Read, KeyOf: shard.KeyOf,
		Room: on.room,
	})
	return &keyTier{Store: s.keys, machine: machine}
}

// tiering lets a group's oldest idempotency keys leave memory for files.
type tiering struct {
	*core
	electorate *electorate
	router     *router
	proposer   *proposer
	replica    *replica
	keys       *keyTier // nil where no key leaves memory; set before the replica is restored
}

// behind is how many keys have left memory that files of this node do not have yet.
func (k *keyTier) behind() uint64 { return k.lacks(k.Covered()) }

// lacks is how many keys have left memory that files do not have which have those before covered.
func (k *keyTier) lacks(covered uint64) uint64 {
	span := k.machine.KeySpan()
	if span.OnDisk() == 0 || covered >= span.Memory {
		return 0
	}
	return span.Memory - covered
}

// KeyFinder looks for idempotency keys that have left memory; nil where none ever does.
func (t *tiering) KeyFinder() idempotency.Finder {
	if t.keys == nil {
		return nil
	}
	return t.keys
}

// keepKeys brings keys into files before they leave memory, and removes those that were dropped.
// Beside that, so that a large one holds up no new file, it merges and repairs them.
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

// keepDoing does pieces of work as long as there are some, and looks for more later.
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
			wait, retry = retry, min(2*retry, keysRetryMost)
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

func (k *keyTier) status() *KeyStatus {
	span, st := k.machine.KeySpan(), k.Stats()
	status := &KeyStatus{
		InMemory: span.InMemory(), OnDisk: span.OnDisk(), Uncovered: k.behind(),
		Failures: k.failures.Load(),
		Files:    st.Files, FileKeys: st.Keys, FileBytes: st.Bytes, FilterBytes: st.Memory,
		Probes: st.Probes, FilterHits: st.Hits, PageReads: st.Reads, Damages: st.Damages,
	}
	if problem := k.problem.Load(); problem != nil {
		status.Problem = *problem
	}
	if held := k.heldUp.Load(); held != nil {
		status.HeldUpBy = *held
	}
	return status
}

// standing is an answer to callProgress.
type standing struct {
	applied, missing uint64
	covered          uint64 // the number before which keys are in files
	room             uint64 // bytes that may be written before client writes are refused there
}

// standingOf reads an answer to callProgress; false for one that does not say how far the node is.
func standingOf(reply []byte) (p standing, ok bool) {
	for _, to := range []*uint64{&p.applied, &p.missing, &p.covered, &p.room} {
		n, size := binary.Uvarint(reply)
		if size <= 0 {
			return p, false
		}
		*to, reply = n, reply[size:]
	}
	return p, true
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
