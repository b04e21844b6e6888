package client

import (
	"slices"
	"time"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/idempotency"
	"tollgate/server"
	"tollgate/server/billinglog"
)

const (
	// probeRounds is how often a usage event is proposed at most because keys left memory in between.
	probeRounds = 5
	// probeWait is how long an event waits between two of them for this node's files to have more, and
	// probeEvery how often it looks.
	probeWait  = 250 * time.Millisecond
	probeEvery = 5 * time.Millisecond
)

// record proposes the usage events of a request. Where idempotency keys have left memory, what the
// files of this node say of an event's key goes with it; where more have left it since, the event
// comes back unchanged and goes again, once the files have more.
func (a *API) record(x *server.Exchange, in *ingest) {
	deadline := a.writeDeadline()
	if a.machine.KeySpan().OnDisk() == 0 {
		billinglog.Propose(x, a.machine, a.proposer, deadline, in.records, in.results)
	} else {
		for i := range in.results {
			in.results[i].Outcome = engine.OutcomeKeyUnproven
		}
	}
	for range probeRounds {
		first := slices.IndexFunc(in.results, unproven)
		if first < 0 {
			return
		}
		through := a.recordProbed(x, in, deadline)
		if first = slices.IndexFunc(in.results, unproven); first < 0 ||
			!a.awaitFiles(in.records[first].Payload, through, deadline) {
			return
		}
	}
}

func unproven(r engine.Result) bool { return r.Outcome == engine.OutcomeKeyUnproven }

// recordProbed proposes those events that need what files say of their keys. One of which this
// node's files say nothing is not proposed. It returns up to where the files had been looked
// through: what is unproven then stays so until they have more.
func (a *API) recordProbed(
	x *server.Exchange, in *ingest, deadline time.Time,
) (through uint64) {
	var again []int
	var records []engine.Record
	for i := range in.results {
		if !unproven(in.results[i]) {
			continue
		}
		v, ok := a.probe(in.records[i].Payload)
		through = max(through, v.Through)
		if ok {
			again = append(again, i)
			records = append(records, engine.Record{
				Kind:    billing.KindRecordProbedUsage,
				Payload: billing.AppendProbedUsage(nil, in.records[i].Payload, &v),
			})
		}
	}
	results := make([]engine.Result, len(records))
	if len(records) > 0 {
		billinglog.Propose(x, a.machine, a.proposer, deadline, records, results)
	}
	for k, i := range again {
		in.results[i] = results[k]
	}
	return through
}

// awaitFiles waits until this node's files have keys beyond through, looking for that of a sealed
// event; false when they do not within probeWait. The same proposal would be answered the same.
func (a *API) awaitFiles(sealed []byte, through uint64, deadline time.Time) bool {
	if a.keys == nil {
		return false
	}
	if end := time.Now().Add(probeWait); end.Before(deadline) {
		deadline = end
	}
	key := billing.SealedKey(sealed)
	for time.Now().Before(deadline) {
		if v, err := a.keys.FindKey(key); err != nil || v.Through > through {
			return err == nil
		}
		time.Sleep(probeEvery)
	}
	return false
}

// probe looks for the key of a sealed event in the files of this node; false when they do not have
// all that have left memory, or cannot be read.
func (a *API) probe(sealed []byte) (v idempotency.Verdict, ok bool) {
	if a.keys == nil {
		return v, false
	}
	v, err := a.keys.FindKey(billing.SealedKey(sealed))
	if err != nil {
		a.log.Error("an idempotency key cannot be looked up", "error", err)
		return v, false
	}
	return v, v.Through >= a.machine.KeySpan().Memory
}
