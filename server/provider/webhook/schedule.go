package webhook

import (
	"hash/fnv"
	"math/bits"
	"strconv"
	"time"
)

// Schedule is the waits between attempts: the first attempt is made at once, the nth wait follows
// the nth attempt that failed.
type Schedule []time.Duration

var (
	// Patient is the schedule that the standard recommends: 10 attempts in three days and a bit.
	Patient = Schedule{
		5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
		10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
	}
	// Brief is for alerts, which are worth little tomorrow: 5 attempts in two and a half hours.
	Brief = Schedule{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour}
)

// maxRetryAfter bounds what a receiver may ask for.
const maxRetryAfter = 24 * time.Hour

// Attempts is how many attempts the schedule makes in all.
func (s Schedule) Attempts() int { return len(s) + 1 }

// Next is the wait after a failed attempt, counted from 1, and whether there is another attempt.
// Up to a tenth is added, so that what failed together is not repeated together; it is a function
// of id and attempt alone, so that every node computes the same. A receiver's Retry-After
// (0: none) lengthens a wait, up to a day, and never shortens it.
func (s Schedule) Next(attempt int, id string, retryAfter time.Duration) (time.Duration, bool) {
	if attempt < 1 || attempt > len(s) {
		return 0, false
	}
	wait := s[attempt-1]
	h := fnv.New64a()
	h.Write([]byte(id + "#" + strconv.Itoa(attempt)))
	// The high word of hash × range is evenly spread over the range.
	extra, _ := bits.Mul64(h.Sum64(), uint64(wait/10))
	wait += time.Duration(extra)
	return max(wait, min(retryAfter, maxRetryAfter)), true
}
