package page

import (
	"sync"
	"sync/atomic"
)

// copied is a pageCopy of any record.
type copied interface {
	encode(dst []byte) []byte
	following() *copied
}

// handed is the queue of page copies on their way from the writer to the persister. It is a list of
// the copies themselves: capacity costs nothing until it is used, so a disk that stalls for a while
// blocks no one.
type handed struct {
	limit int // of copies that wait
	// stop is closed when no more copies are needed.
	stop chan struct{}

	mu          sync.Mutex
	first, last copied
	count       atomic.Int64 // changed under mu

	// Each holds at most one signal, which is for the one goroutine at that end.
	news, room chan struct{}
}

func newHanded(limit int) *handed {
	return &handed{
		limit: limit, stop: make(chan struct{}),
		news: make(chan struct{}, 1), room: make(chan struct{}, 1),
	}
}

// put adds a copy, for the writer. It waits while there are limit of them, until it is stopped: the
// copy is not wanted then.
func (h *handed) put(cp copied) {
	h.mu.Lock()
	for h.count.Load() >= int64(h.limit) {
		h.mu.Unlock()
		select {
		case <-h.room:
		case <-h.stop:
			return
		}
		h.mu.Lock()
	}
	if h.first == nil {
		h.first = cp
	} else {
		*h.last.following() = cp
	}
	h.last = cp
	h.count.Add(1)
	h.mu.Unlock()
	signal(h.news)
}

// next removes the oldest copy, for the persister; nil when there is none.
func (h *handed) next() copied {
	if h.count.Load() == 0 {
		return nil // without the lock: the persister asks before each page
	}
	h.mu.Lock()
	cp := h.first
	link := cp.following()
	h.first, *link = *link, nil
	h.count.Add(-1)
	h.mu.Unlock()
	signal(h.room)
	return cp
}

// await is next, but waits for a copy; nil when it is stopped.
func (h *handed) await() copied {
	for {
		if cp := h.next(); cp != nil {
			return cp
		}
		select {
		case <-h.news:
		case <-h.stop:
			return nil
		}
	}
}

func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}
