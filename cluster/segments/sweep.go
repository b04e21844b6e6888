package segments

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"

	"tollgate/engine/journal"
)

// clean removes, at Open, what a crash left behind: files half made, and those of segments that
// were dropped already. It makes the rest durable, since a crash may have come between a rename and
// its fsync.
func (s *Store) clean() error {
	names, err := s.opts.FS.List(s.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".tmp") {
			if err := s.opts.FS.Remove(filepath.Join(s.dir, name)); err != nil {
				return err
			}
		}
	}
	if err := s.Sweep(); err != nil {
		return err
	}
	return s.opts.FS.SyncDir(s.dir)
}

// Sweep deletes the files of segments that the journal has dropped since the last call, wakes
// the goroutines that wait for one of them, and forgets their states. It costs nothing when there
// are none.
// Nothing of it must last: what a crash brings back is deleted at Open, and what a replay of the
// log writes again is dropped again. After an error the next call goes on.
func (s *Store) Sweep() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	first := s.journal.First(journal.PartAudit)
	if first == s.swept {
		return nil
	}
	s.forget(first)
	if s.holds > 0 {
		return nil
	}
	names, err := s.opts.FS.List(s.dir)
	if err != nil {
		return err
	}
	var failed []error
	for _, name := range names {
		if !outlived(name, first) {
			continue
		}
		err := s.opts.FS.Remove(filepath.Join(s.dir, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			failed = append(failed, err)
		}
	}
	if failed == nil {
		s.swept = first
	}
	return errors.Join(failed...)
}

// Hold keeps the files of segments that are dropped from now on, so that Copy finds what a snapshot
// lists that is taken after it. What ends it lets Sweep go on, and must be called.
func (s *Store) Hold() (end func()) {
	s.hold(1)
	return sync.OnceFunc(func() { s.hold(-1) })
}

func (s *Store) hold(change int) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.holds += change
}

// Copy reads the file of a segment, checked, whether it was dropped meanwhile or not: see Hold.
func (s *Store) Copy(info journal.SegmentInfo) ([]byte, error) {
	data, err := s.readFile(info, s.opts.FS.OpenReadUncached, nil)
	if err == nil && xxhash.Sum64(data) != info.Hash {
		err = fmt.Errorf("%w: %s", ErrDamaged, info)
	}
	return data, err
}

// forget drops the states of dropped segments.
func (s *Store) forget(first uint64) {
	var gone []*segment
	s.lock.Lock()
	for k, seg := range s.segments {
		if k.part == journal.PartAudit && k.number < first {
			delete(s.segments, k)
			gone = append(gone, seg)
		}
	}
	s.lock.Unlock()
	for _, seg := range gone {
		s.cache.forget(seg)
	}
	s.wake()
}

// outlived reports whether a file is one of an audit segment before the first that is kept.
func outlived(name string, first uint64) bool {
	var number uint64
	var suffix string
	n, err := fmt.Sscanf(name, journal.PartAudit.String()+"-%d.%s", &number, &suffix)
	return n == 2 && err == nil && (suffix == "seg" || suffix == "idx") && number < first
}
