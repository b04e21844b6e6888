package measure

import (
	"sync"
	"time"
)

// maximum is the largest of the values of the last five to ten seconds.
type maximum struct {
	mu           sync.Mutex
	since        time.Time // when recent began
	past, recent time.Duration
}

// maximumSpan is how long a value counts at least.
const maximumSpan = 5 * time.Second

// turn forgets what is too old.
func (m *maximum) turn(now time.Time) {
	switch age := now.Sub(m.since); {
	case age >= 2*maximumSpan:
		m.since, m.past, m.recent = now, 0, 0
	case age >= maximumSpan:
		m.since, m.past, m.recent = now, m.recent, 0
	}
}

func (m *maximum) observe(d time.Duration, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn(now)
	m.recent = max(m.recent, d)
}

func (m *maximum) value(now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn(now)
	return max(m.past, m.recent)
}
