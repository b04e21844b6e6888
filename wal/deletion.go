package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// DeleteRange deletes the records from lowest to highest, both included: a prefix (compaction), a
// suffix (a new leader's entries differ) or everything (Reset). Records that the log does not hold
// are skipped. ErrHole, and nothing is deleted, if records would remain on both sides.
//
// When it returns nil the records are gone for good. When a crash interrupts it, a prefix or
// everything is deleted whole or not at all; of a suffix, a shorter one may be left.
func (l *Log) DeleteRange(lowest, highest uint64) error {
	if lowest > highest {
		return fmt.Errorf("wal: delete from %d to %d: the range is reversed", lowest, highest)
	}
	l.write.Lock()
	gone, err := l.delete(lowest, highest)
	l.write.Unlock()
	return l.unlink(gone, err)
}

// Reset empties the log. The next record may have any index: this is how a log continues behind a
// snapshot that came from elsewhere. A crash leaves all of the old log or the empty one.
func (l *Log) Reset() error {
	l.write.Lock()
	err := l.writable()
	var gone []*segment
	if err == nil {
		gone, err = l.deleteAll()
	}
	l.write.Unlock()
	return l.unlink(gone, err)
}

// AlignTo makes sure that a log can go on behind a snapshot, before raft starts on both. A crash
// between installing a snapshot and emptying the log leaves a log that ends before the snapshot:
// it is reset. A log that begins behind the snapshot's next index is a DamageError, since the
// records between are nowhere. index is the snapshot's, 0 if there is none.
func (l *Log) AlignTo(index uint64) error {
	first, err := l.FirstIndex()
	if err != nil {
		return err
	}
	last, err := l.LastIndex()
	switch {
	case err != nil || last == 0:
		return err
	case last < index:
		return l.Reset()
	case first > index+1:
		return &DamageError{
			File:  l.dir,
			Index: index + 1,
			Reason: fmt.Sprintf("the log begins at record %d, but the newest snapshot ends at %d",
				first, index),
		}
	}
	return nil
}

// delete returns the segments that are no longer part of the log.
func (l *Log) delete(lowest, highest uint64) ([]*segment, error) {
	if err := l.writable(); err != nil {
		return nil, err
	}
	lowest, highest = max(lowest, l.first), min(highest, l.last)
	switch {
	case l.last == 0 || lowest > highest:
		return nil, nil
	case lowest == l.first && highest == l.last:
		return l.deleteAll()
	case lowest == l.first:
		return l.deletePrefix(highest + 1)
	case highest == l.last:
		return nil, l.deleteSuffix(lowest - 1)
	}
	return nil, fmt.Errorf("%w: %d to %d of %d to %d", ErrHole, lowest, highest, l.first, l.last)
}

// deletePrefix makes first the oldest record. Only whole segments leave the disk; the manifest
// hides the rest.
func (l *Log) deletePrefix(first uint64) ([]*segment, error) {
	keep := l.holding(first)
	err := writeManifest(l.options.FS, l.dir, manifest{
		firstSeq:    l.segments[keep].seq,
		lastSeq:     l.segments[len(l.segments)-1].seq,
		firstIndex:  first,
		syncedIndex: l.last,
	})
	if err != nil {
		return nil, l.fail(fmt.Errorf("wal: delete before record %d: %w", first, err))
	}
	gone := l.segments[:keep:keep]
	l.state.Lock()
	l.segments, l.first = append([]*segment(nil), l.segments[keep:]...), first
	l.state.Unlock()
	return l.spare(gone), nil
}

// spare keeps segments that left the log, as many as SpareBytes allows, and returns the others.
// Their names stay until they are used: a crash leaves them for the next Open to sweep.
func (l *Log) spare(gone []*segment) (rest []*segment) {
	for _, s := range gone {
		room := l.options.SpareBytes - int64(len(l.spares))*l.options.SegmentBytes
		if s.size != l.options.SegmentBytes || s.size > room {
			rest = append(rest, s)
			continue
		}
		l.bytes.Add(-s.size)
		s.marks = nil
		l.spares = append(l.spares, s)
	}
	return rest
}

// DropSpares removes the files that are kept to be written over: the disk is full.
func (l *Log) DropSpares() error {
	l.write.Lock()
	err := l.writable()
	var spares []*segment
	if err == nil {
		spares, l.spares = l.spares, nil
		for _, s := range spares {
			l.bytes.Add(s.size) // remove takes it off
		}
	}
	l.write.Unlock()
	return l.unlink(spares, err)
}

// deleteAll puts an empty segment behind the others and then, in one step, in their place.
func (l *Log) deleteAll() ([]*segment, error) {
	seq := l.segments[len(l.segments)-1].seq + 1
	s, err := createSegment(l.options.FS, l.dir, segmentHeader{seq: seq})
	if err != nil {
		return nil, l.fail(fmt.Errorf("wal: reset: %w", err))
	}
	m := manifest{firstSeq: seq, lastSeq: seq}
	if err := writeManifest(l.options.FS, l.dir, m); err != nil {
		return nil, l.fail(fmt.Errorf("wal: reset: %w", errors.Join(err, s.file.Close())))
	}
	l.bytes.Add(s.size)
	l.state.Lock()
	gone := l.segments
	l.segments, l.first, l.last = []*segment{s}, 0, 0
	l.state.Unlock()
	return gone, nil
}

// deleteSuffix makes last the newest record. The manifest drops later segments first, then the
// one that holds last is cut. Its number is used again, so the files go before this returns.
func (l *Log) deleteSuffix(last uint64) error {
	keep := l.holding(last)
	s := l.segments[keep]
	i := int(last - s.firstIndex)
	err := writeManifest(l.options.FS, l.dir, manifest{
		firstSeq:    l.segments[0].seq,
		lastSeq:     s.seq,
		firstIndex:  l.first,
		syncedIndex: last,
	})
	if err != nil {
		return l.fail(fmt.Errorf("wal: delete behind record %d: %w", last, err))
	}
	l.state.Lock()
	gone := l.segments[keep+1:]
	l.segments, l.last = l.segments[:keep+1:keep+1], last
	end, size := s.endOf(i), s.size
	s.marks = s.marks[: i+1 : i+1]
	err = s.cut(end)
	l.state.Unlock()
	if err != nil {
		return l.fail(fmt.Errorf("wal: delete behind record %d: %w", last, err))
	}
	l.bytes.Add(s.size - size)
	// No SyncDir: should a crash bring a file back, the next Open sweeps it, and a new segment of
	// that number is durable, name included, before a manifest lists it.
	if err := l.remove(gone); err != nil {
		return l.fail(fmt.Errorf("wal: delete behind record %d: %w", last, err))
	}
	return nil
}

// unlink removes the files of segments that left the log, without the lock that appends need:
// removing one takes about as long as an fsync. A crash leaves them for the next Open to sweep.
func (l *Log) unlink(gone []*segment, err error) error {
	if err == nil && len(gone) > 0 {
		if err = l.remove(gone); err != nil {
			err = l.fail(err)
		}
	}
	l.settle()
	return err
}

// remove closes and removes files. No reader has them: taking them out of segments waited for
// those that did. A file that is gone was swept by an Open after this log's Close.
func (l *Log) remove(gone []*segment) error {
	for _, s := range gone {
		if err := s.file.Close(); err != nil {
			return fmt.Errorf("wal: close an old segment: %w", err)
		}
		err := l.options.FS.Remove(filepath.Join(l.dir, segmentName(s.seq)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("wal: remove an old segment: %w", err)
		}
		l.bytes.Add(-s.size)
	}
	return nil
}
