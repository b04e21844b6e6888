package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"tollgate/engine"
	"tollgate/engine/fair"
)

// A frame carries parsed records from a follower to the leader:
//
//	boot      8 bytes   drawn when the origin's process began
//	sequence  8 bytes   counts the origin's frames of this group
//	remaining 4 bytes   milliseconds until the last caller gives up
//	count     4 bytes   records
//	term      8 bytes   of the leader, as the origin knows it
//	length    4 bytes   of the runs
//	origin    1 + n     length and id of the origin node
//	entry               as engine.ParseEntry reads it, stamp 0
//	runs                for each: how many records in a row are of one flow, and that flow, varints
//
// Numbers are little endian. The first 36 bytes have a fixed place, so that they are filled in
// when the frame leaves. The answer is one byte per record, its outcome, each followed by the
// length of its value plus one as a varint, and the value; length 0 means no value. OutcomeNone
// says that the record was definitely not proposed.
const frameHead = 36

// maxOrigin is the length of a node id in a frame.
const maxOrigin = engine.MaxNodeID

var errFrame = errors.New("cluster: malformed frame")

func (p *proposer) frameHeader() []byte {
	origin := p.config.NodeID
	head := append(make([]byte, frameHead), byte(len(origin)))
	return engine.AppendHeader(append(head, origin...), p.shard)
}

type frame struct {
	boot, sequence uint64
	remaining      time.Duration
	term           uint64
	origin         string
	sizes          []int // of each record, encoded
	records        []byte
	entry          []byte // the same, with their header
	runs           []flowRun
}

// flowRun is some records in a row that are of one flow.
type flowRun struct {
	count int
	flow  fair.Flow
}

// appendRuns appends the runs of a batch.
func appendRuns(dst []byte, parts []part) []byte {
	for i := 0; i < len(parts); {
		flow, count := parts[i].ticket.flow, 0
		for ; i < len(parts) && parts[i].ticket.flow == flow; i++ {
			count += parts[i].count
		}
		dst = binary.AppendUvarint(dst, uint64(count))
		dst = binary.AppendUvarint(dst, uint64(flow))
	}
	return dst
}

// parseRuns reads the runs of so many records.
func parseRuns(src []byte, count int) (runs []flowRun, err error) {
	for len(src) > 0 {
		n, size := binary.Uvarint(src)
		flow, more := binary.Uvarint(src[max(size, 0):])
		if size <= 0 || more <= 0 || n == 0 || n > uint64(count) || flow > math.MaxUint32 {
			return nil, fmt.Errorf("%w: runs", errFrame)
		}
		runs, src = append(runs, flowRun{int(n), fair.Flow(flow)}), src[size+more:]
		count -= int(n)
	}
	if count != 0 {
		return nil, fmt.Errorf("%w: %d records are in no run", errFrame, count)
	}
	return runs, nil
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

// landFrame takes the leader's answer, or the word that the connection is gone.
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

// arrivals are the newest frames of each origin in one term of this leader's.
type arrivals struct {
	term   uint64
	newest map[string]arrival
}

// arrival is what the leader knows of one origin: its process, that process's newest frame, and the
// processes before it.
type arrival struct {
	boot, sequence uint64
	ended          []uint64
}

// maxEnded is how many earlier processes of an origin are remembered within one term, maxOrigins
// how many origins.
const (
	maxEnded   = 64
	maxOrigins = 64
)

// take reports whether a frame is newer than every other of its origin, and remembers it. An older
// one was held up on a connection that its origin has given up since: its records have been sent
// again, and whoever sent them may have been told that they are refused.
func (a *arrivals) take(f *frame) bool {
	if a.newest == nil || a.term != f.term {
		a.term, a.newest = f.term, make(map[string]arrival)
	}
	last, known := a.newest[f.origin]
	switch {
	case !known && len(a.newest) >= maxOrigins:
		return false
	case last.boot == f.boot && f.sequence <= last.sequence, slices.Contains(last.ended, f.boot):
		return false
	case known && last.boot != f.boot:
		last.ended = append(last.ended, last.boot)
		last.ended = last.ended[max(0, len(last.ended)-maxEnded):]
	}
	last.boot, last.sequence = f.boot, f.sequence
	a.newest[f.origin] = last
	return true
}

// admitFrame puts a frame's runs into the leader's queue, if the frame is meant for this term and
// no newer one of its origin has come; false when not. What the queue refuses of it has its
// outcome in results. The lock keeps the term from ending meanwhile, and one frame from overtaking
// another between the question and the queue.
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

// serveFrame takes a follower's frame: its records join the next entries. It is called in the order
// in which frames of one connection arrive, and returns at once.
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

func appendRefusal(dst []byte, o engine.Outcome, n int) []byte {
	for range n {
		dst = appendResult(dst, engine.Result{Outcome: o})
	}
	return dst
}

func appendResult(dst []byte, r engine.Result) []byte {
	dst = append(dst, byte(r.Outcome))
	if r.Value == nil {
		return append(dst, 0)
	}
	dst = binary.AppendUvarint(dst, uint64(len(r.Value))+1)
	return append(dst, r.Value...)
}

func parseResults(src []byte, count int) ([]engine.Result, error) {
	results := make([]engine.Result, count)
	for i := range results {
		if len(src) < 2 {
			return nil, fmt.Errorf("%w: %d of %d results", errFrame, i, count)
		}
		results[i].Outcome = engine.Outcome(src[0])
		size, n := binary.Uvarint(src[1:])
		if n <= 0 || size > uint64(len(src)-1-n)+1 {
			return nil, fmt.Errorf("%w: value of result %d", errFrame, i)
		}
		src = src[1+n:]
		if size > 0 {
			results[i].Value, src = src[:size-1:size-1], src[size-1:]
		}
	}
	if len(src) > 0 {
		return nil, fmt.Errorf("%w: %d bytes after the last result", errFrame, len(src))
	}
	return results, nil
}

func parseFrame(src []byte, shard uint16) (frame, error) {
	if len(src) <= frameHead || len(src) < frameHead+1+int(src[frameHead]) {
		return frame{}, fmt.Errorf("%w: %d bytes", errFrame, len(src))
	}
	count := binary.LittleEndian.Uint32(src[20:])
	ms := binary.LittleEndian.Uint32(src[16:])
	entry, runs := frameHead+1+int(src[frameHead]), binary.LittleEndian.Uint32(src[32:])
	if uint64(runs) > uint64(len(src)-entry) {
		return frame{}, fmt.Errorf("%w: runs of %d bytes", errFrame, runs)
	}
	src, tail := src[:len(src)-int(runs)], src[len(src)-int(runs):]
	f := frame{
		boot:      binary.LittleEndian.Uint64(src[0:]),
		sequence:  binary.LittleEndian.Uint64(src[8:]),
		remaining: time.Duration(ms) * time.Millisecond,
		term:      binary.LittleEndian.Uint64(src[24:]),
		origin:    string(src[frameHead+1 : entry]),
	}
	h, walk, err := engine.ParseEntry(src[entry:])
	if err != nil || h.Shard != shard {
		return frame{}, fmt.Errorf("%w: shard %d: %v", errFrame, h.Shard, err)
	}
	f.entry, f.records = src[entry:], src[entry+engine.HeaderSize:]
	total := 0
	for r, ok := walk.Next(); ok; r, ok = walk.Next() {
		size := engine.RecordSize(r)
		if size > engine.MaxEntryBytes-engine.HeaderSize {
			return frame{}, fmt.Errorf("%w: a record of %d bytes", errFrame, size)
		}
		f.sizes = append(f.sizes, size)
		total += size
	}
	if err := walk.Err(); err != nil {
		return frame{}, fmt.Errorf("%w: %w", errFrame, err)
	}
	if len(f.sizes) != int(count) || total != len(f.records) {
		return frame{}, fmt.Errorf("%w: %d records, not %d", errFrame, len(f.sizes), count)
	}
	f.runs, err = parseRuns(tail, len(f.sizes))
	return f, err
}
