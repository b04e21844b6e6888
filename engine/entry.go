package engine

import (
	"encoding/binary"
	"errors"
	"fmt"

	"tollgate/engine/fair"
)

// FormatVersion is the version of the entry format that this build writes.
const FormatVersion = 1

// HeaderSize is the number of bytes before the first record of an entry:
// version (1), shard (2, little endian), stamp (8, little endian).
const HeaderSize = 11

// MaxEntryBytes is the size that an entry of the billing group does not exceed (256 KiB): larger
// entries make Apply turns that every reader and every later write waits for.
const MaxEntryBytes = 256 << 10

// MaxRecordBytes is the largest record that fits an entry.
const MaxRecordBytes = MaxEntryBytes - HeaderSize - 2*binary.MaxVarintLen64

// Kind numbers a command. Numbers are never reused; each state machine has its own registry.
type Kind uint16

// Kinds below FirstDomainKind mean the same in every state machine.
const (
	// KindTick has no payload: its stamp moves log time, and timers due by then fire.
	KindTick Kind = 1
	// KindCheckState carries the index and state hash of an entry that the leader has applied; a
	// replica that had another hash there stops.
	KindCheckState Kind = 2
	// KindHandOver carries a term and the node to which its leader gives its leadership.
	KindHandOver Kind = 3
	// KindSetVersion carries the cluster version that every member supports; a replica that does
	// not support it stops.
	KindSetVersion Kind = 4
	// FirstDomainKind is the first number that a domain may give.
	FirstDomainKind Kind = 16
)

// Record is one command, encoded: proposers collect them into entries.
type Record struct {
	Kind Kind
	// Flow is the owner of the command, for fair sharing (package fair); it is not encoded.
	Flow    fair.Flow
	Payload []byte
}

// Header begins every entry.
type Header struct {
	// Shard is the number of the Raft group that the entry belongs to.
	Shard uint16
	// Stamp is the entry's time, in milliseconds since 1970 UTC. The leader gives it; stamps of a
	// group never go backwards. It is the only clock that a state machine has.
	Stamp int64
}

// ErrEntry means that bytes are not an entry of this format version.
var ErrEntry = errors.New("engine: malformed entry")

// AppendHeader begins an entry in dst. Its stamp is set later, by SetStamp.
func AppendHeader(dst []byte, shard uint16) []byte {
	dst = append(dst, FormatVersion)
	dst = binary.LittleEndian.AppendUint16(dst, shard)
	return binary.LittleEndian.AppendUint64(dst, 0)
}

// SetStamp writes the stamp into an entry that AppendHeader began.
func SetStamp(entry []byte, stamp int64) {
	binary.LittleEndian.PutUint64(entry[3:], uint64(stamp))
}

// AppendRecord appends one record to an entry: kind, length, payload.
func AppendRecord(dst []byte, r Record) []byte {
	dst = binary.AppendUvarint(dst, uint64(r.Kind))
	dst = binary.AppendUvarint(dst, uint64(len(r.Payload)))
	return append(dst, r.Payload...)
}

// RecordSize is the number of bytes that AppendRecord adds for r.
func RecordSize(r Record) int {
	return uvarintSize(uint64(r.Kind)) + uvarintSize(uint64(len(r.Payload))) + len(r.Payload)
}

func uvarintSize(v uint64) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}

// Records walks the records of an entry.
type Records struct {
	rest []byte
	err  error
}

// ParseEntry reads an entry's header and returns its records, whose payloads alias entry.
func ParseEntry(entry []byte) (Header, Records, error) {
	if len(entry) < HeaderSize {
		return Header{}, Records{}, fmt.Errorf("%w: %d bytes", ErrEntry, len(entry))
	}
	if entry[0] != FormatVersion {
		return Header{}, Records{}, fmt.Errorf("%w: version %d, this build reads %d",
			ErrEntry, entry[0], FormatVersion)
	}
	h := Header{
		Shard: binary.LittleEndian.Uint16(entry[1:]),
		Stamp: int64(binary.LittleEndian.Uint64(entry[3:])),
	}
	return h, Records{rest: entry[HeaderSize:]}, nil
}

// ParseNext is ParseEntry for a machine of a shard that has applied the entry of an index last. Its
// errors wrap ErrHalt: this is not the entry that comes next.
func ParseNext(index uint64, entry []byte, shard uint16, applied uint64) (Header, Records, error) {
	h, records, err := ParseEntry(entry)
	switch {
	case err != nil:
		err = fmt.Errorf("%w: entry %d: %w", ErrHalt, index, err)
	case h.Shard != shard:
		err = fmt.Errorf("%w: entry %d is of shard %d, this is shard %d", ErrHalt, index, h.Shard, shard)
	case index <= applied:
		err = fmt.Errorf("%w: entry %d after entry %d", ErrHalt, index, applied)
	}
	return h, records, err
}

// Next returns the next record; false at the end, or when Err is set.
func (r *Records) Next() (Record, bool) {
	if len(r.rest) == 0 || r.err != nil {
		return Record{}, false
	}
	kind, n := binary.Uvarint(r.rest)
	if n <= 0 || kind > 0xffff {
		r.err = fmt.Errorf("%w: kind", ErrEntry)
		return Record{}, false
	}
	size, m := binary.Uvarint(r.rest[n:])
	if m <= 0 || size > uint64(len(r.rest)-n-m) {
		r.err = fmt.Errorf("%w: length of a record of kind %d", ErrEntry, kind)
		return Record{}, false
	}
	payload := r.rest[n+m : n+m+int(size)]
	r.rest = r.rest[n+m+int(size):]
	return Record{Kind: Kind(kind), Payload: payload}, true
}

// Err reports whether the walk ended because the entry is malformed.
func (r *Records) Err() error { return r.err }
