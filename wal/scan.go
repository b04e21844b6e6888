package wal

import (
	"bytes"
	"fmt"
)

// scan is what the bytes of one segment hold.
type scan struct {
	header segmentHeader
	marks  []mark
	end    int64  // behind the last good record
	fault  *fault // what stopped the scan, nil at the end of the file or before zeroes only
}

// fault is the first place of a segment that is not a good record.
type fault struct {
	reason string
	bytes  int64 // up to the last byte that is not zero
	// torn is true if an interrupted write explains it: nothing behind it was written after a
	// later write began. A later write begins only when the one before is durable.
	torn bool
}

// scanSegment reads records until the first that is not good. visit, if not nil, sees each one.
// The error is about the header: without it nothing else can be read.
func scanSegment(b []byte, visit func(offset int64, h frameHeader)) (scan, error) {
	header, err := decodeSegmentHeader(b)
	if err != nil {
		return scan{}, err
	}
	s := scan{header: header, end: segmentHeaderBytes}
	prev := header.prev
	for s.end < int64(len(b)) {
		h, err := decodeFrame(b[s.end:], header.salt)
		if err != nil {
			s.fault = findFault(b, s.end, header, err)
			return s, nil
		}
		want := s.header.firstIndex + uint64(len(s.marks))
		if s.header.firstIndex == 0 {
			want = h.index
			s.header.firstIndex = h.index
		}
		if h.prev != prev || h.index != want || h.batch > uint64(s.end) {
			// Whole, but not the record that was written here: no interrupted write does that.
			reason := fmt.Sprintf("record %d does not continue the chain, expected record %d",
				h.index, want)
			s.fault = &fault{reason: reason, bytes: int64(len(b)) - s.end}
			return s, nil
		}
		if visit != nil {
			visit(s.end, h)
		}
		s.marks = append(s.marks, mark{offset: uint32(s.end), crc: h.crc})
		s.end += h.size()
		prev = h.crc
	}
	return s, nil
}

// findFault tells a torn write from damage at offset. It is nil if only zeroes follow, which is
// how the file looks in front of the records; or an end mark and, behind it, no record of this
// segment: a file that was written over.
//
// Within one write the disk may keep any sectors and lose others, so a good record behind a bad
// one proves nothing by itself. Each record names the offset at which its write began: if that is
// behind the bad place, the bad place was durable and acknowledged before.
func findFault(b []byte, offset int64, header segmentHeader, cause error) *fault {
	salt := header.salt
	rest := bytes.TrimRight(b[offset:], "\x00")
	if len(rest) == 0 {
		return nil
	}
	f := &fault{reason: cause.Error(), bytes: int64(len(rest)), torn: true}
	if _, err := decodeHeader(b[offset:], salt); err != nil && err != errFrameBad {
		f.torn = false // a version from the future: whole, only not ours to read
		return f
	}
	mark := b[offset:min(offset+endMarkBytes, int64(len(b)))]
	ends := header.version >= markedVersion && bytes.Equal(mark, zeroes[:len(mark)])
	for o := offset; o+frameHeaderBytes <= int64(len(b)); o += frameAlignment {
		h, err := decodeHeader(b[o:], salt)
		ends = ends && err != nil
		if err == nil && h.batch > uint64(offset) && h.batch <= uint64(o) {
			f.torn = false
			f.reason += fmt.Sprintf(", but record %d of a later write is intact", h.index)
			return f
		}
	}
	if ends {
		return nil
	}
	return f
}
