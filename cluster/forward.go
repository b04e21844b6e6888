package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"tollgate/engine"
)

// A frame carries parsed records from a follower to the leader:
//
//	boot      8 bytes   drawn when the origin's process began
//	sequence  8 bytes   counts the origin's frames of this group
//	remaining 4 bytes   milliseconds until the last caller gives up
//	count     4 bytes   records
//	term      8 bytes   of the leader, as the origin knows it
//	origin    1 + n     length and id of the origin node
//	entry               as engine.ParseEntry reads it, stamp 0
//
// Numbers are little endian. The first 32 bytes have a fixed place, so that they are filled in
// when the frame leaves. The answer is one byte per record, its outcome, each followed by the
// length of its value plus one as a varint, and the value; length 0 means no value. OutcomeNone
// says that the record was definitely not proposed.
const frameHead = 32

// maxOrigin is the length of a node id in a frame.
const maxOrigin = engine.MaxNodeID

var errFrame = errors.New("cluster: malformed frame")

func (g *Group) beginFrame() []byte {
	origin := g.config.NodeID
	head := append(make([]byte, frameHead), byte(len(origin)))
	return engine.AppendHeader(append(head, origin...), g.shard)
}

type frame struct {
	boot, sequence uint64
	remaining      time.Duration
	term           uint64
	origin         string
	sizes          []int // of each record, encoded
	records        []byte
}

// submitFrame sends a batch to the leader. The queue's lock keeps frames in order.
func (g *Group) submitFrame(b *batch) {
	b.id = g.sequence.Add(1)
	data := b.data
	binary.LittleEndian.PutUint64(data[0:], g.boot)
	binary.LittleEndian.PutUint64(data[8:], b.id)
	remaining := max(0, time.Until(b.deadline).Milliseconds())
	binary.LittleEndian.PutUint32(data[16:], uint32(min(remaining, 1<<31)))
	binary.LittleEndian.PutUint32(data[20:], uint32(b.records-b.countWithdrawn()))
	r := g.route.Load()
	binary.LittleEndian.PutUint64(data[24:], r.term)
	err := errPastDeadline
	if remaining > 0 {
		err = g.peers.call(r.leader, callFrame, g.shard, data, func(reply []byte, err error) {
			g.landFrame(b, reply, err)
		})
	}
	if err != nil {
		go g.remote.finish(b, fateNotProposed) // not from here: the queue's lock is held
		return
	}
	if f := g.config.Events.OnForward; f != nil {
		f(g.shard, b.records, len(data))
	}
}

// landFrame takes the leader's answer, or the word that the connection is gone.
func (g *Group) landFrame(b *batch, reply []byte, err error) {
	if err != nil {
		g.remote.finish(b, fateUnknown)
		return
	}
	results, err := parseResults(reply, b.records-b.countWithdrawn())
	if err != nil {
		g.log.Error("unreadable answer of the leader", "error", err)
		g.remote.finish(b, fateUnknown)
		return
	}
	b.applied.Results = results
	g.remote.finish(b, fateDecided)
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

// take says that a frame is newer than every other of its origin, and remembers it. An older one
// was held up on a connection that its origin has given up since: its records have been sent
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

// admitFrame puts a frame's records into the leader's queue, if the frame is meant for this term
// and no newer one of its origin has come. The lock keeps the term from ending meanwhile, and one
// frame from overtaking another between the question and the queue.
func (g *Group) admitFrame(f *frame, deadline time.Time) ([]part, engine.Outcome) {
	g.routeLock.Lock()
	defer g.routeLock.Unlock()
	if r := g.route.Load(); !r.ready || r.term != f.term || !g.arrivals.take(f) {
		return nil, engine.OutcomeNone
	}
	return g.local.addEncoded(f.records, f.sizes, deadline)
}

// serveFrame takes a follower's frame: its records join the next entry. It is called in the order
// in which frames of one connection arrive, and returns at once.
func (g *Group) serveFrame(payload []byte, reply func([]byte)) {
	f, err := parseFrame(payload, g.shard)
	if err != nil {
		g.log.Error("unreadable frame", "error", err)
		reply(nil)
		return
	}
	deadline := time.Now().Add(f.remaining)
	took := engine.OutcomeDiskLow
	var parts []part
	if !g.diskLow.Load() {
		parts, took = g.admitFrame(&f, deadline)
	}
	if took != engine.OutcomeDone {
		reply(appendRefusal(nil, took, len(f.sizes)))
		return
	}
	go func() {
		var answer []byte
		for k := range parts {
			p := &parts[k]
			<-p.batch.done
			for i := range p.count {
				answer = appendResult(answer, p.result(i))
			}
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
	entry := frameHead + 1 + int(src[frameHead])
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
	f.records = src[entry+engine.HeaderSize:]
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
	return f, nil
}
