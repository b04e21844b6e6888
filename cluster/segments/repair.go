package segments

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"tollgate/engine/journal"
)

// Fetch gets the bytes of a segment from another node.
type Fetch func(ctx context.Context, info journal.SegmentInfo) ([]byte, error)

// Repair fetches every segment that is Missing, checks its hash, and stores it. It goes on after
// a segment that cannot be had, and returns all errors. ErrDropped from fetch is none: another node
// has applied more of the log, and this one's own manifest will lose the segment with it.
func (s *Store) Repair(ctx context.Context, fetch Fetch) error {
	var failed []error
	for _, info := range s.Missing() {
		if err := errors.Join(ctx.Err(), context.Cause(s.quit)); err != nil {
			return errors.Join(append(failed, err)...)
		}
		err := s.repairOne(ctx, info, fetch)
		if err != nil && !errors.Is(err, ErrDropped) {
			failed = append(failed, fmt.Errorf("repair of %s: %w", info, err))
		}
	}
	return errors.Join(failed...)
}

func (s *Store) repairOne(ctx context.Context, info journal.SegmentInfo, fetch Fetch) error {
	data, err := fetch(ctx, info)
	if err != nil {
		return err
	}
	if uint64(len(data)) != info.Length || xxhash.Sum64(data) != info.Hash {
		return fmt.Errorf("%w: the bytes that came are not it", ErrDamaged)
	}
	if err := s.store(s.lookup(info), data); err != nil {
		s.fail(err)
		return err
	}
	return nil
}

// scrub is the goroutine that reads every file from time to time: disks lose data silently.
func (s *Store) scrub() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.quit.Done():
			return
		}
		for _, info := range s.journal.Manifest() {
			if !s.scrubOne(info) {
				return
			}
		}
		timer.Reset(scrubEvery)
	}
}

// scrubOne reads one file, and then pauses for the pace; false when the store closes.
func (s *Store) scrubOne(info journal.SegmentInfo) bool {
	if s.journal.Dropped(info) {
		return true
	}
	seg := s.lookup(info)
	seg.lock.Lock()
	if seg.state == stored || seg.state == unchecked {
		buf := readBuffers.Get().(*readBuffer)
		// Damage is kept in the segment's state and reported to Options.Damaged.
		_, err := s.loadLocked(seg, s.opts.FS.OpenReadUncached, buf)
		if err != nil && !errors.Is(err, ErrDropped) {
			seg.state = damaged
		}
		readBuffers.Put(buf)
	}
	seg.lock.Unlock()
	pace := time.Duration(float64(info.Length) / scrubPace * 1e9)
	select {
	case <-time.After(pace):
		return true
	case <-s.quit.Done():
		return false
	}
}
