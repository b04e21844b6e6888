package cluster

import (
	"sync/atomic"

	"tollgate/cluster/keyfiles"
	"tollgate/engine"
	"tollgate/engine/idempotency"
)

// demoter is a machine whose oldest idempotency keys may leave memory; *billing.Machine is one.
type demoter interface {
	engine.Machine
	// KeySpan returns which keys are kept, and which of them are in memory.
	KeySpan() idempotency.Span
	// KeysWanted is the number before which keys should be in files.
	KeysWanted() uint64
	// KeysToDemote is the number before which keys should leave memory; 0 while none should. Demotion
	// is the command that removes them.
	KeysToDemote() uint64
	Demotion(through uint64) engine.Record
}

// keyTier is the files of a group's keys, and the machine that they are for.
type keyTier struct {
	*keyfiles.Store
	machine demoter
	// failures counts the errors of Step; heldUp are the voters whose files the leader last found to
	// be behind.
	failures atomic.Uint64
	problem  atomic.Pointer[string] // of the last try; nil where it did not fail
	heldUp   atomic.Pointer[[]string]
}

// behind is how many keys have left memory and are not in this node's files yet.
func (k *keyTier) behind() uint64 { return k.lacks(k.Covered()) }

// lacks is how many keys have left memory and are not in files that have those before covered.
func (k *keyTier) lacks(covered uint64) uint64 {
	span := k.machine.KeySpan()
	if span.OnDisk() == 0 || covered >= span.Memory {
		return 0
	}
	return span.Memory - covered
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
