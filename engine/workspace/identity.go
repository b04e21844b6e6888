package workspace

import (
	"crypto/sha256"
	"encoding/binary"
	"unicode/utf8"

	"tollgate/engine/period"
)

// derivedID is the id of what the state machine makes by itself: time-ordered like those that the
// leader mints (the log time in milliseconds in front), the rest from SHA-256 over the id of what
// it came from, a label and a number.
func derivedID(of [16]byte, label string, number uint64, stamp int64) (id [16]byte) {
	b := append(make([]byte, 0, 64), of[:]...)
	b = append(b, label...)
	sum := sha256.Sum256(binary.LittleEndian.AppendUint64(b, number))
	binary.BigEndian.PutUint64(id[:], uint64(stamp)<<16)
	copy(id[6:], sum[:])
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id
}

// Labels of derived ids.
const (
	labelIssue        = "issue"
	labelNotification = "notification"
	labelTransaction  = "transaction"
	labelLink         = "link"
	labelAlert        = "alert"
	labelScheduled    = "scheduled"
)

const (
	minuteMS = 60 * 1000
	hourMS   = 60 * minuteMS
	dayMS    = 24 * hourMS
)

// dayOf numbers UTC days from 1970-01-01, plus 1, so that 0 is none.
func dayOf(stamp int64) uint32 { return uint32(stamp/dayMS) + 1 }

// monthOf numbers UTC months from January 1970, plus 1, so that 0 is none.
func monthOf(stamp int64) uint32 {
	p, _ := period.Cycle{IntervalMonths: 1}.At(stamp)
	return p.Number + 1
}

// DayEnd is when the UTC day of an instant ends, in milliseconds since 1970.
func DayEnd(stamp int64) int64 { return (stamp/dayMS + 1) * dayMS }

// cutText shortens a text to at most size bytes, between characters.
func cutText(text string, size int) string {
	if len(text) <= size {
		return text
	}
	for size > 0 && !utf8.RuneStart(text[size]) {
		size--
	}
	return text[:size]
}
