package replay

import (
	"math/bits"
	"sync"
	"time"
)

// mantissa is how many leading bits of a latency in microseconds a bucket keeps: within 2 %.
const mantissa = 7

// latencies counts how long requests took, from many goroutines.
type latencies struct {
	mu     sync.Mutex
	counts [(64 - mantissa + 2) << (mantissa - 1)]uint64
	total  uint64
}

func (l *latencies) add(d time.Duration) {
	us := uint64(max(d.Microseconds(), 0))
	shift := max(bits.Len64(us)-mantissa, 0)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[shift<<(mantissa-1)+int(us>>shift)]++
	l.total++
}

// quantile is what part of the requests (0 to 1) took at most; 0 without any.
func (l *latencies) quantile(part float64) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	below, rank := uint64(0), part*float64(l.total)
	for i, n := range l.counts {
		if below += n; n > 0 && float64(below) >= rank {
			shift := max(i>>(mantissa-1)-1, 0)
			top := uint64(i-shift<<(mantissa-1))<<shift + 1<<shift - 1
			return time.Duration(top) * time.Microsecond
		}
	}
	return 0
}
