package holds

import (
	"bytes"
	"encoding/binary"
	"strconv"

	"tollgate/engine/uuid"
)

// EventPrefix begins the keys of events that settle a reservation; its id and a number follow.
const EventPrefix = "reservation:"

// eventID is where the number begins in such a key, behind the id and a colon.
const eventID = len(EventPrefix) + 36 + 1

// AppendEventKey appends the text of the key of the n-th event that settles a reservation.
func AppendEventKey(dst []byte, id *[16]byte, n uint32) []byte {
	dst = append(uuid.Append(append(dst, EventPrefix...), id), ':')
	return strconv.AppendUint(dst, uint64(n), 10)
}

// EventKey is that key as the log has it. No hash is needed, since ids are drawn at random: keys
// of two reservations differ as their ids do, and the hashes of other texts do not meet them.
func EventKey(env uint32, id *[16]byte, n uint32) (key [16]byte) {
	high, low := binary.LittleEndian.Uint64(id[:]), binary.LittleEndian.Uint64(id[8:])
	binary.LittleEndian.PutUint64(key[:], high^uint64(n)<<32)
	binary.LittleEndian.PutUint64(key[8:], low^uint64(env)<<32)
	return key
}

// EventKeyOf is EventKey of a text; false where it is not that of such a key, as AppendEventKey
// writes it.
func EventKeyOf(env uint32, text []byte) (key [16]byte, ok bool) {
	if len(text) <= eventID || string(text[:len(EventPrefix)]) != EventPrefix {
		return key, false
	}
	id, ok := uuid.Parse(text[len(EventPrefix) : eventID-1])
	n, err := strconv.ParseUint(string(text[eventID:]), 10, 32)
	var room [64]byte
	if !ok || err != nil || !bytes.Equal(AppendEventKey(room[:0], &id, uint32(n)), text) {
		return key, false
	}
	return EventKey(env, &id, uint32(n)), true
}
