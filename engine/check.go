package engine

import "encoding/binary"

// CheckStateBytes is the length of the payload of a KindCheckState record.
const CheckStateBytes = 16

// CheckState is the payload of a KindCheckState record: the leader's rolling hash after it applied
// the entry at Index. A replica with another hash there stops; one without (it was restored from a
// later snapshot) compares nothing.
type CheckState struct {
	Index, Hash uint64
}

// AppendCheckState appends the payload: index and hash, 8 bytes each, little endian.
func AppendCheckState(dst []byte, c CheckState) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, c.Index)
	return binary.LittleEndian.AppendUint64(dst, c.Hash)
}

// ParseCheckState reads a payload that AppendCheckState wrote; false when it is none.
func ParseCheckState(payload []byte) (CheckState, bool) {
	if len(payload) != CheckStateBytes {
		return CheckState{}, false
	}
	return CheckState{
		Index: binary.LittleEndian.Uint64(payload),
		Hash:  binary.LittleEndian.Uint64(payload[8:]),
	}, true
}

// HashRing remembers the rolling hash of the last HashRingEntries entries. It is not state: it only
// serves to compare. One goroutine uses it.
type HashRing struct {
	seen [HashRingEntries]CheckState
}

// HashRingEntries is how many entries a CheckState may lie behind the entry that carries it.
const HashRingEntries = 4096

// Note remembers the hash after an entry.
func (r *HashRing) Note(c CheckState) { r.seen[c.Index%HashRingEntries] = c }

// Agrees reports whether a hash equals the one remembered for its index. An index that is not
// remembered agrees.
func (r *HashRing) Agrees(c CheckState) bool {
	own := r.seen[c.Index%HashRingEntries]
	return own.Index != c.Index || own.Hash == c.Hash
}

// Forget empties the ring, after a restore.
func (r *HashRing) Forget() { clear(r.seen[:]) }
