package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"tollgate/engine"
)

// A frame carries parsed records from a follower to the leader:
//
//	boot      8 bytes   drawn when the origin's process began
//	sequence  8 bytes   counts the origin's frames of this group
//	remaining 4 bytes   milliseconds until the last caller gives up
//	count     4 bytes   records
//	origin    1 + n     length and id of the origin node
//	entry               as engine.ParseEntry reads it, stamp 0
//
// Numbers are little endian. The first 24 bytes have a fixed place, so that they are filled in
// when the frame leaves. The answer is one byte per record, its outcome, each followed by the
// length of its value plus one as a varint, and the value; length 0 means no value. OutcomeNone
// says that the record was definitely not proposed.
const frameHead = 24

// maxOrigin is the length of a node id in a frame.
const maxOrigin = 255

var errFrame = errors.New("cluster: malformed frame")

func (g *Group) beginFrame() []byte {
	origin := g.config.NodeID
	head := append(make([]byte, frameHead), byte(len(origin)))
	return engine.AppendHeader(append(head, origin...), g.shard)
}

type frame struct {
	boot, sequence uint64
	remaining      time.Duration
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
	leader := g.route.Load().leader
	err := errPastDeadline
	if remaining > 0 {
		err = g.peers.call(leader, callFrame, g.shard, data, func(reply []byte, err error) {
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

// serveFrame takes a follower's frame: its records join the next entry. It is called in the order
// in which frames arrive, and returns at once.
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
		parts, took = g.local.addEncoded(f.records, f.sizes, deadline)
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
