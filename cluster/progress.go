package cluster

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// progress is how far the log is applied; goroutines can wait for it.
type progress struct {
	index atomic.Uint64
	// given is the newest entry passed to the machine since this start.
	given atomic.Uint64
	// turn is one of turnNone, turnWanted and turnTaken.
	turn atomic.Uint32

	mu     sync.Mutex
	newest place
	news   broadcast
}

// place is an entry's index and term; the term is 0 if unknown. Logs that have the same entry in a
// place are the same up to it.
type place struct{ index, term uint64 }

// advance records that everything up to an entry of that term is applied.
func (p *progress) advance(index, term uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.newest = place{index, term}
	p.set(index)
}

// at is the newest entry that the machine was given and has applied.
func (p *progress) at() place {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.newest
}

// pass is advance for an entry with nothing to apply, which later ones may have overtaken.
func (p *progress) pass(index uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set(max(index, p.index.Load()))
}

func (p *progress) set(index uint64) {
	p.index.Store(index)
	p.news.send()
}

// await waits until index is applied; false when ctx ends first.
func (p *progress) await(ctx context.Context, late <-chan time.Time, index uint64) bool {
	if p.index.Load() >= index {
		return true
	}
	for {
		p.mu.Lock()
		reached, news := p.index.Load() >= index, p.news.next()
		p.mu.Unlock()
		if reached {
			return true
		}
		select {
		case <-news:
		case <-late:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// broadcast wakes all goroutines that wait for the next change. Its owner's lock guards it.
type broadcast struct{ ch chan struct{} }

// next is closed at the next change.
func (b *broadcast) next() <-chan struct{} {
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *broadcast) send() {
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}

// A member's turn to write a snapshot, as it tells others.
const (
	turnNone   = 0 // no snapshot is due
	turnWanted = 1 // it waits for its turn
	turnTaken  = 2 // it writes a snapshot
)

// turnNow is the answer to callTurn.
func (p *progress) turnNow() []byte { return []byte{byte(p.turn.Load())} }
