package holds

import (
	"strconv"

	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/uuid"
)

// EventPrefix begins the keys of events that settle a reservation; its id and a number follow.
const EventPrefix = "reservation:"

// AppendEventKey appends the text of the key of the n-th event that settles a reservation.
func AppendEventKey(dst []byte, id *[16]byte, n uint32) []byte {
	dst = append(uuid.Append(append(dst, EventPrefix...), id), ':')
	return strconv.AppendUint(dst, uint64(n), 10)
}

// EventKey is that key as the log has it. It is a hash like those of all events: key files rely on
// first bytes that are uniform, and no caller may find a text with the key of another reservation.
func EventKey(env uint32, id *[16]byte, n uint32) [16]byte {
	var room [64]byte
	return rows.UsageKey(env, AppendEventKey(room[:0], id, n))
}
