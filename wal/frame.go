package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// MaxRecordBytes is the most that Data and Extensions of one record may hold together.
	MaxRecordBytes = 64 << 20
	// MaxBatchBytes is the most that one StoreLogs call may write, headers included.
	MaxBatchBytes = 1 << 30

	frameHeaderBytes = 64
	frameAlignment   = 8
	frameMarker      = 0x4754 // "TG"
	frameVersion     = 1
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)

	errFrameBad     = errors.New("not a record")
	errFrameTorn    = errors.New("record runs past the end of the file")
	errFrameDamaged = errors.New("record's checksum does not match")
	errFrameVersion = errors.New("record has a version that this program does not know")
)

// frameHeader is the fixed part of a record. FORMAT.md draws it.
type frameHeader struct {
	crc        uint32 // over everything behind it, seeded with the segment's salt
	prev       uint32 // crc of the record before: the chain
	kind       raft.LogType
	dataBytes  uint32
	extBytes   uint32
	index      uint64
	term       uint64
	batch      uint64 // offset in the segment at which the write that holds this record began
	appendedAt time.Time
}

// size is the record's length on disk, header and padding included.
func (h *frameHeader) size() int64 { return frameBytes(int(h.dataBytes), int(h.extBytes)) }

func frameBytes(dataBytes, extBytes int) int64 {
	n := int64(frameHeaderBytes) + int64(dataBytes) + int64(extBytes)
	return (n + frameAlignment - 1) &^ (frameAlignment - 1)
}

// appendFrame encodes one record behind dst and returns its crc, which the next one chains to.
func appendFrame(dst []byte, log *raft.Log, h frameHeader, salt uint32) ([]byte, uint32) {
	start := len(dst)
	end := start + int(frameBytes(len(log.Data), len(log.Extensions)))
	dst = append(dst, make([]byte, frameHeaderBytes)...)
	dst = append(dst, log.Data...)
	dst = append(dst, log.Extensions...)
	for len(dst) < end {
		dst = append(dst, 0)
	}
	b := dst[start:]
	le := binary.LittleEndian
	le.PutUint32(b[8:], h.prev)
	le.PutUint16(b[12:], frameMarker)
	b[14] = frameVersion
	b[15] = byte(log.Type)
	le.PutUint32(b[16:], uint32(len(log.Data)))
	le.PutUint32(b[20:], uint32(len(log.Extensions)))
	le.PutUint64(b[24:], log.Index)
	le.PutUint64(b[32:], log.Term)
	le.PutUint64(b[40:], h.batch)
	le.PutUint64(b[48:], uint64(log.AppendedAt.Unix()))
	le.PutUint32(b[56:], uint32(log.AppendedAt.Nanosecond()))
	le.PutUint32(b[4:], crc32.Update(salt, castagnoli, b[8:frameHeaderBytes]))
	crc := crc32.Update(salt, castagnoli, b[4:])
	le.PutUint32(b, crc)
	return dst, crc
}

// decodeHeader reads the header at the start of b and checks it by itself: its checksum makes
// sure that the lengths may be believed before the payload is touched.
func decodeHeader(b []byte, salt uint32) (frameHeader, error) {
	le := binary.LittleEndian
	if len(b) < frameHeaderBytes || le.Uint16(b[12:]) != frameMarker {
		return frameHeader{}, errFrameBad
	}
	if le.Uint32(b[4:]) != crc32.Update(salt, castagnoli, b[8:frameHeaderBytes]) {
		return frameHeader{}, errFrameBad
	}
	if b[14] != frameVersion {
		return frameHeader{}, fmt.Errorf("%w: %d", errFrameVersion, b[14])
	}
	h := frameHeader{
		crc:       le.Uint32(b),
		prev:      le.Uint32(b[8:]),
		kind:      raft.LogType(b[15]),
		dataBytes: le.Uint32(b[16:]),
		extBytes:  le.Uint32(b[20:]),
		index:     le.Uint64(b[24:]),
		term:      le.Uint64(b[32:]),
		batch:     le.Uint64(b[40:]),
	}
	nanos := le.Uint32(b[56:])
	if uint64(h.dataBytes)+uint64(h.extBytes) > MaxRecordBytes || h.index == 0 ||
		nanos >= uint32(time.Second) || le.Uint32(b[60:]) != 0 {
		return frameHeader{}, errFrameBad
	}
	h.appendedAt = time.Unix(int64(le.Uint64(b[48:])), int64(nanos)).UTC()
	return h, nil
}

// decodeFrame reads the record at the start of b and checks all of it.
func decodeFrame(b []byte, salt uint32) (frameHeader, error) {
	h, err := decodeHeader(b, salt)
	if err != nil {
		return frameHeader{}, err
	}
	if h.size() > int64(len(b)) {
		return h, errFrameTorn
	}
	if h.crc != crc32.Update(salt, castagnoli, b[4:h.size()]) {
		return h, errFrameDamaged
	}
	return h, nil
}

// matches returns an error if this is not the record of that mark.
func (h *frameHeader) matches(m mark, index uint64) error {
	if h.crc != m.crc || h.index != index {
		return fmt.Errorf("record %d stands where record %d was written", h.index, index)
	}
	return nil
}

// log is the record without Data and Extensions.
func (h *frameHeader) log() raft.Log {
	return raft.Log{Index: h.index, Term: h.term, Type: h.kind, AppendedAt: h.appendedAt}
}

// fill copies what the record says into log. Data and Extensions alias b; an empty one is nil.
func (h *frameHeader) fill(log *raft.Log, b []byte) {
	*log = h.log()
	dataEnd := frameHeaderBytes + int(h.dataBytes)
	extEnd := dataEnd + int(h.extBytes)
	if h.dataBytes > 0 {
		log.Data = b[frameHeaderBytes:dataEnd:dataEnd]
	}
	if h.extBytes > 0 {
		log.Extensions = b[dataEnd:extEnd:extEnd]
	}
}
