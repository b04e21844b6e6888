package wal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hashicorp/raft"
)

const (
	segmentHeaderBytes = 64
	segmentMagic       = "TGWALSEG"
	segmentVersion     = 2
	segmentSuffix      = ".seg"

	// zeroAheadBytes is how far the file is filled with zeroes in front of the records. A write
	// into bytes that exist changes no metadata, so its fdatasync needs no journal commit:
	// measured 1.6 to 1.8 times as fast for small writes.
	zeroAheadBytes = 512 << 10

	// endMarkBytes is how many zeroes follow the newest record of a segment at least, as far as the
	// file reaches. Behind them a file that is written over has what it had before.
	endMarkBytes = frameHeaderBytes
	// markedVersion is the version of segments from which that holds. Before, all is zeroes behind
	// the newest record.
	markedVersion = 2
)

var zeroes [zeroAheadBytes]byte

// segmentHeader begins every segment file and never changes.
type segmentHeader struct {
	version    uint32 // set by who makes or reads it
	seq        uint64
	firstIndex uint64 // 0: the log is empty and may begin anywhere
	prev       uint32 // crc of the last record of the segment before
	salt       uint32 // seeds the checksums, so that bytes of another file never pass
}

// segment is one open file of the log and where its records are.
type segment struct {
	segmentHeader
	file  File
	marks []mark // one per record, in order
	end   int64  // where the next record goes
	size  int64  // of the file: records and the zeroes ahead of them
}

// mark is where a record begins and the crc that a read must find there.
type mark struct{ offset, crc uint32 }

func (h segmentHeader) encode() []byte {
	b := make([]byte, segmentHeaderBytes)
	copy(b, segmentMagic)
	le := binary.LittleEndian
	le.PutUint32(b[12:], h.version)
	le.PutUint64(b[16:], h.seq)
	le.PutUint64(b[24:], h.firstIndex)
	le.PutUint32(b[32:], h.prev)
	le.PutUint32(b[36:], h.salt)
	le.PutUint32(b[8:], crc32.Checksum(b[12:], castagnoli))
	return b
}

func decodeSegmentHeader(b []byte) (segmentHeader, error) {
	le := binary.LittleEndian
	if len(b) < segmentHeaderBytes || string(b[:8]) != segmentMagic {
		return segmentHeader{}, errors.New("not a segment")
	}
	if le.Uint32(b[8:]) != crc32.Checksum(b[12:segmentHeaderBytes], castagnoli) {
		return segmentHeader{}, errors.New("the segment header's checksum does not match")
	}
	v := le.Uint32(b[12:])
	if v == 0 || v > segmentVersion {
		return segmentHeader{}, fmt.Errorf("the segment has version %d, this program knows %d",
			v, segmentVersion)
	}
	return segmentHeader{
		version:    v,
		seq:        le.Uint64(b[16:]),
		firstIndex: le.Uint64(b[24:]),
		prev:       le.Uint32(b[32:]),
		salt:       le.Uint32(b[36:]),
	}, nil
}

// segmentName is the file name; it sorts by sequence number.
func segmentName(seq uint64) string { return fmt.Sprintf("%016x%s", seq, segmentSuffix) }

// parseSegmentName is false for a name that is not a segment's.
func parseSegmentName(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok {
		return 0, false
	}
	seq, err := strconv.ParseUint(digits, 16, 64)
	return seq, err == nil && segmentName(seq) == name
}

// createSegment makes an empty segment durable, its name too. It is not part of the log before
// the manifest lists it.
func createSegment(fsys FS, dir string, h segmentHeader) (*segment, error) {
	h.begin(0)
	f, err := fsys.Create(filepath.Join(dir, segmentName(h.seq)))
	if err != nil {
		return nil, err
	}
	_, err = f.WriteAt(h.encode(), 0)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = fsys.SyncDir(dir)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &segment{
		segmentHeader: h,
		file:          f,
		end:           segmentHeaderBytes,
		size:          segmentHeaderBytes,
	}, nil
}

// begin gives a new segment its version and its salt, which is not the one before in its file.
func (h *segmentHeader) begin(before uint32) {
	h.version, h.salt = segmentVersion, before
	for h.salt == before {
		var salt [4]byte
		rand.Read(salt[:]) // never fails
		h.salt = binary.LittleEndian.Uint32(salt[:])
	}
}

// again is createSegment in the file of a segment that the manifest no longer lists. What the file
// holds was written with another salt, so none of it is a record here. Until the name is the new
// one, and the manifest lists it, the file is left over.
func (s *segment) again(fsys FS, dir string, h segmentHeader) (*segment, error) {
	h.begin(s.salt)
	start := append(h.encode(), zeroes[:endMarkBytes]...)
	if _, err := s.file.WriteAt(start, 0); err != nil {
		return nil, err
	}
	if err := s.file.Sync(); err != nil {
		return nil, err
	}
	name := func(seq uint64) string { return filepath.Join(dir, segmentName(seq)) }
	if err := fsys.Rename(name(s.seq), name(h.seq)); err != nil {
		return nil, err
	}
	if err := fsys.SyncDir(dir); err != nil {
		return nil, err
	}
	return &segment{
		segmentHeader: h, file: s.file, end: segmentHeaderBytes, size: s.size,
	}, nil
}

// endMark is the zeroes that go behind records that end at an offset of the file as it is now.
func (s *segment) endMark(end int64) []byte {
	return zeroes[:max(0, min(endMarkBytes, s.size-end))]
}

// lastIndex is firstIndex-1 while the segment holds no record.
func (s *segment) lastIndex() uint64 { return s.firstIndex + uint64(len(s.marks)) - 1 }

// lastCRC is what the next record chains to.
func (s *segment) lastCRC() uint32 {
	if len(s.marks) == 0 {
		return s.prev
	}
	return s.marks[len(s.marks)-1].crc
}

// endOf returns the offset behind the i-th record.
func (s *segment) endOf(i int) int64 {
	if i+1 < len(s.marks) {
		return int64(s.marks[i+1].offset)
	}
	return s.end
}

// write puts b, records and their end mark, at the end of the segment, zeroes ahead of it, and
// makes it durable. The records do not count before the caller adds their marks.
func (s *segment) write(b []byte, limit int64) error {
	if _, err := s.file.WriteAt(b, s.end); err != nil {
		return err
	}
	if end := s.end + int64(len(b)); end > s.size {
		size := min(end+zeroAheadBytes, max(limit, end))
		if _, err := s.file.WriteAt(zeroes[:size-end], end); err != nil {
			return err
		}
		s.size = size
	}
	return s.file.SyncData()
}

// readFrame returns the bytes of the record at index, the first limit of them at most.
func (s *segment) readFrame(index uint64, limit int64) ([]byte, mark, error) {
	i := int(index - s.firstIndex)
	m := s.marks[i]
	b := make([]byte, min(s.endOf(i)-int64(m.offset), limit))
	n, err := s.file.ReadAt(b, int64(m.offset))
	if n < len(b) {
		return nil, m, err
	}
	return b, m, nil
}

// check compares what was read with what was written there, chain included, and fills log.
func (s *segment) check(b []byte, m mark, index uint64, log *raft.Log) error {
	h, err := decodeFrame(b, s.salt)
	if err == nil {
		err = h.matches(m, index)
	}
	if err == nil && h.size() != int64(len(b)) {
		err = fmt.Errorf("record %d has %d bytes, written were %d", index, h.size(), len(b))
	}
	if err == nil {
		h.fill(log, b)
	}
	return err
}

// checkHeader is check of a record's header alone.
func (s *segment) checkHeader(b []byte, m mark, index uint64, log *raft.Log) error {
	h, err := decodeHeader(b, s.salt)
	if err == nil {
		err = h.matches(m, index)
	}
	if err == nil {
		*log = h.log()
	}
	return err
}

// cut makes end the end of the file, durably. The caller drops the marks behind it.
func (s *segment) cut(end int64) error {
	if err := s.file.Truncate(end); err != nil {
		return err
	}
	s.end, s.size = end, end
	return s.file.Sync()
}
