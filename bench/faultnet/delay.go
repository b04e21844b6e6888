package faultnet

import (
	"io"
	"time"
)

// OpenSlow is Open for a network on which data takes at least delay one way. However much is under
// way, nothing waits for what was sent before it.
func OpenSlow(nodes map[string]string, delay time.Duration) (*Net, error) {
	n, err := Open(nodes)
	if err == nil {
		n.mu.Lock() // the lock is held while the connecting peer is looked up
		n.delay = delay
		n.mu.Unlock()
	}
	return n, err
}

// late is what a reader gives, a while after it gave it.
type late struct {
	chunks chan chunk
	done   chan struct{}
	rest   []byte
}

type chunk struct {
	due   time.Time
	bytes []byte
	err   error
}

// maxChunks bounds what is under way, in reads.
const maxChunks = 4096

// delayed reads from a reader until it fails, or until close.
func (n *Net) delayed(from io.Reader, delay time.Duration) *late {
	l := &late{chunks: make(chan chunk, maxChunks), done: make(chan struct{})}
	n.wg.Go(func() {
		for {
			buffer := make([]byte, 64<<10)
			k, err := from.Read(buffer)
			select {
			case l.chunks <- chunk{time.Now().Add(delay), buffer[:k], err}:
			case <-l.done:
				return
			}
			if err != nil {
				return
			}
		}
	})
	return l
}

// Read implements io.Reader.
func (l *late) Read(p []byte) (int, error) {
	var err error
	if len(l.rest) == 0 {
		next := <-l.chunks
		time.Sleep(time.Until(next.due))
		l.rest, err = next.bytes, next.err
	}
	k := copy(p, l.rest)
	l.rest = l.rest[k:]
	return k, err
}

// close stops reading answers that no caller waits for.
func (l *late) close() { close(l.done) }
