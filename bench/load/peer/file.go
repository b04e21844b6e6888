package peer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// fileStore is the limit of what a disk allows: events are appended to a file, and answered after
// an fdatasync, all that wait together with one. It tells no repeats, and counts in memory.
type fileStore struct {
	file *os.File

	mu      sync.Mutex
	counts  map[string]int64
	pending group
	syncs   uint64
	failed  error

	wake   chan struct{}
	closed chan struct{}
	ended  chan struct{}
}

// group are requests that are written together.
type group struct {
	bytes  []byte
	events []Event
	done   chan struct{} // closed when they are durable
}

func openFile(folder string) (Store, error) {
	file, err := os.OpenFile(filepath.Join(folder, "log"), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	s := &fileStore{
		file: file, counts: map[string]int64{}, wake: make(chan struct{}, 1),
		closed: make(chan struct{}), ended: make(chan struct{}),
	}
	s.pending.done = make(chan struct{})
	go s.write()
	return s, nil
}

// write makes groups durable, one after the other.
func (s *fileStore) write() {
	defer close(s.ended)
	var spare []byte
	for {
		select {
		case <-s.closed:
			return
		case <-s.wake:
		}
		s.mu.Lock()
		g := s.pending
		s.pending = group{bytes: spare[:0], done: make(chan struct{})}
		s.mu.Unlock()
		_, err := s.file.Write(g.bytes)
		if err == nil {
			err = syncData(s.file)
		}
		spare = g.bytes
		s.mu.Lock()
		if s.failed = errors.Join(s.failed, err); s.failed == nil {
			s.syncs++
			for _, e := range g.events {
				s.counts[e.Customer] += e.Units
			}
		}
		s.mu.Unlock()
		close(g.done)
	}
}

// Create implements Store.
func (s *fileStore) Create(context.Context, string) error { return nil }

// Add implements Store.
func (s *fileStore) Add(ctx context.Context, events []Event, fresh []bool) error {
	s.mu.Lock()
	for i, e := range events {
		s.pending.bytes = fmt.Appendf(s.pending.bytes, "%s %s %d\n", e.Key, e.Customer, e.Units)
		fresh[i] = true
	}
	s.pending.events = append(s.pending.events, events...)
	done := s.pending.done
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	select {
	case <-done:
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// Spend implements Store.
func (s *fileStore) Spend(context.Context, Event, int64) (Outcome, error) {
	return 0, ErrNoLimits
}

// Read implements Store.
func (s *fileStore) Read(_ context.Context, customer string) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[customer], nil
}

// Syncs implements Store.
func (s *fileStore) Syncs(context.Context) (map[string]uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return map[string]uint64{"fdatasync": s.syncs}, nil
}

// Close implements Store.
func (s *fileStore) Close() error {
	close(s.closed)
	<-s.ended
	return s.file.Close()
}
