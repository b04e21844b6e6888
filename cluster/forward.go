package cluster

import (
	"encoding/binary"
	"time"

	"tollgate/engine"
)

func (p *proposer) frameHeader() []byte {
	origin := p.config.NodeID
	head := append(make([]byte, frameHead), byte(len(origin)))
	return engine.AppendHeader(append(head, origin...), p.shard)
}

// submitFrame sends a batch to the leader. The queue's lock keeps frames in order.
func (p *proposer) submitFrame(b *batch) {
	b.id = p.sequence.Add(1)
	entry := len(b.data)
	b.data = appendRuns(b.data, b.parts)
	data := b.data
	binary.LittleEndian.PutUint64(data[0:], p.boot)
	binary.LittleEndian.PutUint64(data[8:], b.id)
	remaining := max(0, time.Until(b.deadline).Milliseconds())
	binary.LittleEndian.PutUint32(data[16:], uint32(min(remaining, 1<<31)))
	binary.LittleEndian.PutUint32(data[20:], uint32(b.records))
	r := p.router.route.Load()
	binary.LittleEndian.PutUint64(data[24:], r.term)
	binary.LittleEndian.PutUint32(data[32:], uint32(len(data)-entry))
	err := errPastDeadline
	if remaining > 0 {
		err = p.peers.call(r.leader, callFrame, p.shard, data, func(reply []byte, err error) {
			p.landFrame(b, reply, err)
		})
	}
	if err != nil {
		go p.remote.finish(b, fateNotProposed) // not from here: the queue's lock is held
		return
	}
	if f := p.config.Events.OnForward; f != nil {
		f(p.shard, b.records, len(data))
	}
}

// landFrame takes the leader's answer, or the loss of the connection.
func (p *proposer) landFrame(b *batch, reply []byte, err error) {
	if err != nil {
		p.remote.finish(b, fateUnknown)
		return
	}
	results, err := parseResults(reply, b.records)
	if err != nil {
		p.log.Error("unreadable answer of the leader", "error", err)
		p.remote.finish(b, fateUnknown)
		return
	}
	b.applied.Results = results
	p.remote.finish(b, fateDecided)
}

// admitFrame puts a frame's runs into the leader's queue. It returns false for a frame of another
// term, or older than its origin's newest. Runs that the queue refuses have their outcome in
// results. The lock keeps the term from ending, and frames in order, until they are queued.
func (p *proposer) admitFrame(
	f *frame, deadline time.Time, results []engine.Result,
) (taken []*ticket, admitted bool) {
	if !p.router.hold(f.term) {
		return nil, false
	}
	defer p.router.release()
	if !p.arrivals.take(f) {
		return nil, false
	}
	taken = make([]*ticket, 0, len(f.runs))
	data, at := f.records, 0
	runs, grows := p.growth(f)
	for i, run := range runs {
		t := p.tickets.take()
		sizes, bytes := f.sizes[at:at+run.count], 0
		for _, size := range sizes {
			bytes += size
		}
		t.flow, t.deadline = run.flow, deadline
		t.data, t.sizes, t.results = data[:bytes], sizes, results[at:at+run.count]
		data, at = data[bytes:], at+run.count
		took, wait := engine.OutcomeMemoryLow, time.Duration(0)
		if grows == nil || !grows[i] {
			took, wait = p.local.add(t)
		}
		if took == engine.OutcomeDone {
			taken = append(taken, t)
			continue
		}
		refuse(t.results, took, wait)
		p.tickets.release(t)
	}
	return taken, true
}

// serveFrame takes a follower's frame, whose records join the next entries. It is called in the
// order of arrival on a connection and returns at once.
func (p *proposer) serveFrame(payload []byte, reply func([]byte)) {
	f, err := parseFrame(payload, p.shard)
	if err != nil {
		p.log.Error("unreadable frame", "error", err)
		reply(nil)
		return
	}
	if p.full() {
		reply(appendRefusal(nil, engine.OutcomeDiskLow, len(f.sizes)))
		return
	}
	results := make([]engine.Result, len(f.sizes))
	taken, admitted := p.admitFrame(&f, time.Now().Add(f.remaining), results)
	if !admitted {
		reply(appendRefusal(nil, engine.OutcomeNone, len(f.sizes)))
		return
	}
	go func() {
		for _, t := range taken {
			<-t.done
			p.tickets.release(t)
		}
		answer := make([]byte, 0, 2*len(results))
		for i := range results {
			answer = appendResult(answer, results[i])
		}
		reply(answer)
	}()
}
