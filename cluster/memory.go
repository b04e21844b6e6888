package cluster

import (
	"log/slog"
	"runtime/metrics"
	"sync/atomic"
)

// memory watches how much of what the process may use is live: what is left after a collection.
// Near the limit the collector would take all of the cores, and beyond it the kernel ends the
// process, on every node at about the same entry, since all hold the same state.
type memory struct {
	limit   int64 // 0 is no limit
	low     atomic.Bool
	live    atomic.Int64
	measure func() int64
}

// Memory is low from memoryLow percent of the limit on, and no longer below memoryFine percent.
const (
	memoryLow  = 90
	memoryFine = 85
)

const liveMetric = "/gc/heap/live:bytes"

func liveBytes() int64 {
	sample := []metrics.Sample{{Name: liveMetric}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return int64(sample[0].Value.Uint64())
}

func (m *memory) look(log *slog.Logger) {
	if m.limit == 0 {
		return
	}
	live := m.measure()
	m.live.Store(live)
	switch was := m.low.Load(); {
	case !was && live >= m.limit/100*memoryLow:
		m.low.Store(true)
		log.Warn("memory is nearly spent: what would make the state grow is refused",
			"live", live, "limit", m.limit, "remedy", "raise memoryMiB, or free state")
	case was && live < m.limit/100*memoryFine:
		m.low.Store(false)
		log.Info("memory is no longer short", "live", live, "limit", m.limit)
	}
}
