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
// means that the record was definitely not proposed.
const frameHead = 36

var errFrame = errors.New("cluster: malformed frame")

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

// flowRun is a run of records of one flow.
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

// parseRuns reads the runs of count records.
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

// arrivals are the newest frames of each origin in this leader's term.
type arrivals struct {
	term   uint64
	newest map[string]arrival
}

// arrival is one origin: its process, that process's newest frame, and its earlier processes.
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
// one was delayed on a connection that its origin has given up: its records have been sent again,
// and their callers may have been told that they were refused.
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
