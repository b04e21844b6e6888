package book

import (
	"crypto/sha256"
	"encoding/binary"
)

// DerivedID returns the UUID (version 8) of something that the state machine makes by itself: the
// first bytes of SHA-256 over a record's id, a label and a number. So the id is known before the
// thing exists, and an invoice keeps the id that it had while PENDING.
func DerivedID(of [16]byte, label string, number uint32) (id [16]byte) {
	var room [64]byte
	b := append(room[:0], of[:]...)
	b = append(b, label...)
	sum := sha256.Sum256(binary.LittleEndian.AppendUint32(b, number))
	copy(id[:], sum[:])
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id
}

// Labels of derived ids.
const (
	LabelRegular    = "regular invoice"
	LabelAdjustment = "adjustment invoice"
	LabelInterim    = "interim invoice"
)
