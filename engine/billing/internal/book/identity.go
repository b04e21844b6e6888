package book

import (
	"crypto/sha256"
	"encoding/binary"
)

// DerivedID is the UUID (version 8) of what the state machine makes by itself: the first bytes of
// SHA-256 over a record's id, a label and a number. So it is known before the thing exists, and
// the PENDING invoice has the id that it keeps.
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
)
