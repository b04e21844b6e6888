package wal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

func frames(salt, prev uint32, at int, logs ...*raft.Log) []byte {
	var b []byte
	for _, log := range logs {
		h := frameHeader{prev: prev, batch: uint64(at + len(b))}
		b, prev = appendFrame(b, log, h, salt)
	}
	return b
}

func sampleLogs() []*raft.Log {
	return []*raft.Log{
		{Index: 1, Term: 1, Type: raft.LogNoop},
		{Index: 2, Term: 1, Data: []byte("data"), AppendedAt: time.Unix(1_700_000_000, 5)},
		{Index: 3, Term: 2, Data: make([]byte, 70), Extensions: []byte("extensions")},
	}
}

// FuzzDecodeFrame: any bytes give an error or a record that encodes to the same bytes.
func FuzzDecodeFrame(f *testing.F) {
	const salt = 7
	f.Add(frames(salt, 1, segmentHeaderBytes, sampleLogs()...))
	for _, log := range sampleLogs() {
		f.Add(frames(salt, 3, segmentHeaderBytes, log))
	}
	f.Add([]byte{})
	f.Add(make([]byte, 200))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeFrame(b, salt)
		if err != nil {
			// Repair the checksums, so that what is behind them is reached as well.
			if len(b) < frameHeaderBytes {
				return
			}
			b = append([]byte(nil), b...)
			binary.LittleEndian.PutUint16(b[12:], frameMarker)
			b[14] = frameVersion
			sum := crc32.Update(salt, castagnoli, b[8:frameHeaderBytes])
			binary.LittleEndian.PutUint32(b[4:], sum)
			if h, err = decodeHeader(b, salt); err != nil || h.size() > int64(len(b)) {
				return
			}
			sum = crc32.Update(salt, castagnoli, b[4:h.size()])
			binary.LittleEndian.PutUint32(b, sum)
			h, err = decodeFrame(b, salt)
			require.NoError(t, err)
		}
		var log raft.Log
		h.fill(&log, b)
		again, crc := appendFrame(nil, &log, h, salt)
		if string(again[frameHeaderBytes:]) == string(b[frameHeaderBytes:h.size()]) {
			require.Equal(t, h.crc, crc) // else the padding was not zero
			require.Equal(t, b[:h.size()], again)
		}
	})
}

// TestScanTellsTornFromDamage goes through what can stand where a record is expected. Bytes behind
// zeroes that are not a record of the segment are those that its file had before; in segments of
// version 1, which are zeroes to their end, they are torn.
func TestScanTellsTornFromDamage(t *testing.T) {
	for version := uint32(1); version <= segmentVersion; version++ {
		scanTellsTornFromDamage(t, version)
	}
}

func scanTellsTornFromDamage(t *testing.T, version uint32) {
	const salt, other = 7, 8
	logs := sampleLogs()
	good := frames(salt, 0, segmentHeaderBytes, logs[0])
	prev := binary.LittleEndian.Uint32(good)
	at := segmentHeaderBytes + len(good)
	later := frames(salt, 1, at+200, logs[2])
	for _, c := range []struct {
		name string
		tail []byte
		torn bool
		over bool // no fault: the file was written over
	}{
		{"garbage", []byte("garbage"), true, false},
		{"fewer zeroes than end a segment", append(make([]byte, 63), 1), true, false},
		{"half a record", frames(salt, prev, at, logs[1])[:70], true, false},
		{"the rest of its write", append(make([]byte, 64), frames(salt, 9, at, logs[2])...), true, false},
		{"a later write", append(make([]byte, 200), later...), false, false},
		{"the header of a later write", append(make([]byte, 200), later[:64]...), false, false},
		{
			"data that looks like a later write of another file",
			append(make([]byte, 200), frames(other, 1, at+200, logs[2])...), true,
			version >= markedVersion,
		},
		{"garbage behind zeroes", append(make([]byte, 64), 1), true, version >= markedVersion},
		{"data that looks like a header", func() []byte {
			b := append(make([]byte, 200), later...)
			b[204] ^= 1 // of its checksum
			return b
		}(), true, version >= markedVersion},
		{"a whole record that does not chain", frames(salt, prev+1, at, logs[1]), false, false},
		{"a whole record that leaves an index out", frames(salt, prev, at, logs[2]), false, false},
		{"a record of another file", frames(other, prev, at, logs[1]), true, false},
	} {
		t.Run(fmt.Sprintf("version %d/%s", version, c.name), func(t *testing.T) {
			b := append(segmentHeader{version: version, seq: 1, salt: salt}.encode(), good...)
			s, err := scanSegment(append(b, c.tail...), nil)
			require.NoError(t, err)
			require.Len(t, s.marks, 1)
			require.Equal(t, int64(at), s.end)
			if c.over {
				require.Nil(t, s.fault)
				return
			}
			require.NotNil(t, s.fault)
			require.Equal(t, c.torn, s.fault.torn, s.fault.reason)
			require.LessOrEqual(t, s.fault.bytes, int64(len(c.tail)))
		})
	}
}

func TestWorstAppendedAtSurvives(t *testing.T) {
	for _, at := range []time.Time{{}, time.Unix(-1<<40, 999_999_999), time.Unix(1<<40, 0)} {
		b := frames(1, 2, 64, &raft.Log{Index: 1, AppendedAt: at})
		h, err := decodeFrame(b, 1)
		require.NoError(t, err)
		require.True(t, at.Equal(h.appendedAt))
		require.Equal(t, at.IsZero(), h.appendedAt.IsZero())
	}
}

// The bytes of a record and of the two headers never change: an old log must stay readable.
func TestGoldenBytes(t *testing.T) {
	log := &raft.Log{
		Index: 0x0102030405060708, Term: 9, Type: raft.LogBarrier,
		Data: []byte("data"), Extensions: []byte("ext"), AppendedAt: time.Unix(1_700_000_000, 5),
	}
	b, _ := appendFrame(nil, log, frameHeader{prev: 0xaabbccdd, batch: 64}, 0x11223344)
	require.Equal(t, goldenFrame, hexLines(b))
	s := segmentHeader{version: 1, seq: 2, firstIndex: 3, prev: 4, salt: 5}
	require.Equal(t, goldenSegment, hexLines(s.encode()))
	marked := s
	marked.version = markedVersion
	require.Equal(t, goldenMarkedSegment, hexLines(marked.encode()))
	m := manifest{firstSeq: 1, lastSeq: 2, firstIndex: 3, syncedIndex: 4}
	require.Equal(t, goldenManifest, hexLines(m.encode()))
	gotSegment, err := decodeSegmentHeader(s.encode())
	require.NoError(t, err)
	require.Equal(t, s, gotSegment)
	gotManifest, err := decodeManifest(m.encode())
	require.NoError(t, err)
	require.Equal(t, m, gotManifest)
}

func hexLines(b []byte) string {
	var s strings.Builder
	for i := 0; i < len(b); i += 8 {
		fmt.Fprintf(&s, "% x\n", b[i:min(i+8, len(b))])
	}
	return s.String()
}

// Written once; a change that needs them edited needs a new version number instead.
const (
	goldenFrame = `54 e7 31 08 20 4a b2 98
dd cc bb aa 54 47 01 04
04 00 00 00 03 00 00 00
08 07 06 05 04 03 02 01
09 00 00 00 00 00 00 00
40 00 00 00 00 00 00 00
00 f1 53 65 00 00 00 00
05 00 00 00 00 00 00 00
64 61 74 61 65 78 74 00
`
	goldenSegment = `54 47 57 41 4c 53 45 47
ce 04 f6 43 01 00 00 00
02 00 00 00 00 00 00 00
03 00 00 00 00 00 00 00
04 00 00 00 05 00 00 00
00 00 00 00 00 00 00 00
00 00 00 00 00 00 00 00
00 00 00 00 00 00 00 00
`
	goldenMarkedSegment = `54 47 57 41 4c 53 45 47
c1 6f a9 aa 02 00 00 00
02 00 00 00 00 00 00 00
03 00 00 00 00 00 00 00
04 00 00 00 05 00 00 00
00 00 00 00 00 00 00 00
00 00 00 00 00 00 00 00
00 00 00 00 00 00 00 00
`
	goldenManifest = `54 47 57 41 4c 4d 41 4e
44 a9 41 c9 01 00 00 00
01 00 00 00 00 00 00 00
02 00 00 00 00 00 00 00
03 00 00 00 00 00 00 00
04 00 00 00 00 00 00 00
00 00 00 00 00 00 00 00
00 00 00 00 00 00 00 00
`
)
