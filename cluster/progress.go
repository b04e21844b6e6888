package cluster

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// progress is how far the log is applied, and who waits for more.
type progress struct {
	index atomic.Uint64
	// given is the newest entry that the machine was given since this start.
	given atomic.Uint64

	mu      sync.Mutex
	newest  place
	waiting int
	news    chan struct{}
}

// place is an entry's: its index and its term, 0 where that is not known. Logs that have the same
// entry in a place are the same up to there.
type place struct{ index, term uint64 }

// advance notes that everything up to an entry of that term is applied.
func (p *progress) advance(index, term uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.newest = place{index, term}
	p.set(index)
}

// at is the newest entry applied that the machine was shown.
func (p *progress) at() place {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.newest
}

// pass is advance for an entry that is nothing to apply, and that later ones may have overtaken.
func (p *progress) pass(index uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set(max(index, p.index.Load()))
}

func (p *progress) set(index uint64) {
	p.index.Store(index)
	if p.waiting > 0 && p.news != nil {
		close(p.news)
		p.news = nil
	}
}

// await waits until index is applied; false when ctx ends first.
func (p *progress) await(ctx context.Context, late <-chan time.Time, index uint64) bool {
	if p.index.Load() >= index {
		return true
	}
	p.mu.Lock()
	p.waiting++
	defer func() {
		p.waiting--
		p.mu.Unlock()
	}()
	for p.index.Load() < index {
		if p.news == nil {
			p.news = make(chan struct{})
		}
		news := p.news
		p.mu.Unlock()
		ok := true
		select {
		case <-news:
		case <-late:
			ok = false
		case <-ctx.Done():
			ok = false
		}
		p.mu.Lock()
		if !ok {
			return false
		}
	}
	return true
}
