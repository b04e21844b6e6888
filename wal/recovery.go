package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// recovery reads a folder and leaves it as a log that can be appended to. Every step may be
// interrupted and done again: nothing is removed that the manifest lists, and a tail is cut only
// where the same bytes would be judged the same way the next time.
type recovery struct {
	fs       FS
	dir      string
	manifest manifest
	segments []*segment
	cut      *Cut
	buf      []byte // of the segment that is read, for the next one as well
}

func (r *recovery) run() error {
	names, err := r.fs.List(r.dir)
	if err != nil {
		return err
	}
	r.manifest, err = readManifest(r.fs, r.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return r.begin(names)
	}
	if err != nil {
		return err
	}
	for seq := r.manifest.firstSeq; seq <= r.manifest.lastSeq; seq++ {
		if err := r.load(seq); err != nil {
			return err
		}
	}
	return r.settle(names)
}

// begin makes the first segment and the manifest. A crash in the middle of that leaves a first
// segment without records; anything more means that the manifest was lost.
func (r *recovery) begin(names []string) error {
	for _, name := range names {
		seq, ok := parseSegmentName(name)
		if !ok {
			continue
		}
		path := filepath.Join(r.dir, name)
		f, err := r.fs.OpenRead(path)
		if err != nil {
			return err
		}
		size, err := f.Size()
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		if seq != 1 || size > segmentHeaderBytes {
			return &DamageError{
				File:   filepath.Join(r.dir, manifestName),
				Reason: "there is no manifest, but there is segment " + name,
			}
		}
	}
	s, err := createSegment(r.fs, r.dir, segmentHeader{seq: 1})
	if err != nil {
		return err
	}
	r.segments = []*segment{s}
	r.manifest = manifest{firstSeq: 1, lastSeq: 1}
	return writeManifest(r.fs, r.dir, r.manifest)
}

// sweep removes what the manifest does not list: segments whose deletion or creation a crash
// interrupted, and a half-written manifest.
func (r *recovery) sweep(names []string) error {
	for _, name := range names {
		seq, ok := parseSegmentName(name)
		listed := ok && seq >= r.manifest.firstSeq && seq <= r.manifest.lastSeq
		if listed || (!ok && name != manifestTempName) {
			continue
		}
		if err := r.fs.Remove(filepath.Join(r.dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// load opens one segment, checks that it joins the one before and keeps it.
func (r *recovery) load(seq uint64) error {
	path := filepath.Join(r.dir, segmentName(seq))
	damage := func(offset int64, reason string) error {
		return &DamageError{File: path, Offset: offset, Index: r.nextIndex(), Reason: reason}
	}
	f, err := r.fs.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return damage(0, "the segment is missing")
	}
	if err != nil {
		return err
	}
	s := &segment{file: f}
	r.segments = append(r.segments, s)
	b, err := r.readAll(f)
	if err != nil {
		return fmt.Errorf("wal: %s: %w", path, err)
	}
	found, err := scanSegment(b, nil)
	if err != nil {
		return damage(0, err.Error())
	}
	s.segmentHeader, s.marks = found.header, found.marks
	s.end, s.size = found.end, int64(len(b))
	next := r.nextIndex()
	// All records of the older segments are at or before syncedIndex, so that only the newest
	// segment can have a torn tail.
	if f := found.fault; f != nil &&
		(!f.torn || (next != 0 && next <= r.manifest.syncedIndex)) {
		return damage(found.end, f.reason)
	}
	if reason := joins(r.manifest, r.segments, seq); reason != "" {
		return damage(0, reason)
	}
	if found.fault == nil {
		return nil
	}
	r.cut = &Cut{
		File: path, Offset: found.end, Bytes: found.fault.bytes,
		Index: next, Reason: found.fault.reason,
	}
	return r.rewrite(b)
}

// readAll returns the whole content of f, until the next call.
func (r *recovery) readAll(f File) (b []byte, err error) {
	b, err = readAll(f, r.buf)
	r.buf = b
	return b, err
}

// joins reports why the newest loaded segment does not continue the one before it, "" if it does.
func joins(m manifest, segments []*segment, seq uint64) string {
	n := len(segments)
	s := segments[n-1]
	if s.seq != seq {
		return fmt.Sprintf("the header names segment %d", s.seq)
	}
	if n == 1 {
		first := m.firstIndex
		if first != 0 && (s.firstIndex == 0 || first < s.firstIndex || first > s.lastIndex()) {
			return fmt.Sprintf("the log begins at record %d, which is not in it", first)
		}
		return ""
	}
	before := segments[n-2]
	if s.firstIndex == 0 || s.firstIndex != before.lastIndex()+1 || s.prev != before.lastCRC() {
		return fmt.Sprintf("the segment begins at record %d and does not continue the one "+
			"before, which ends at record %d", s.firstIndex, before.lastIndex())
	}
	return ""
}

// settle makes what was found durable before anything builds on it, and removes what is left over.
func (r *recovery) settle(names []string) error {
	last := r.segments[len(r.segments)-1]
	end := uint64(0)
	if next := r.nextIndex(); next != 0 {
		end = next - 1
	}
	if end < r.manifest.syncedIndex {
		return &DamageError{
			File:   filepath.Join(r.dir, segmentName(last.seq)),
			Offset: last.end,
			Index:  end + 1,
			Reason: fmt.Sprintf("the log ends at record %d, but record %d was acknowledged",
				end, r.manifest.syncedIndex),
		}
	}
	if err := r.sweep(names); err != nil {
		return err
	}
	if r.cut == nil {
		b, err := r.readAll(last.file)
		if err != nil {
			return err
		}
		if err := r.rewrite(b); err != nil {
			return err
		}
	}
	if r.manifest.firstIndex == 0 {
		r.manifest.firstIndex = r.segments[0].firstIndex
	}
	r.manifest.syncedIndex = end
	return writeManifest(r.fs, r.dir, r.manifest)
}

// rewrite writes the records of the newest segment that may not be durable once more and cuts
// what is behind them. Reading them back proves nothing: after an fsync that failed, the kernel
// can hold pages for clean that never reached the disk, and the next fsync would say all is well.
func (r *recovery) rewrite(b []byte) error {
	s := r.segments[len(r.segments)-1]
	from := int64(segmentHeaderBytes)
	if synced := r.manifest.syncedIndex; len(s.marks) > 0 && synced >= s.firstIndex {
		from = s.endOf(int(synced - s.firstIndex))
	}
	if from < s.end {
		if _, err := s.file.WriteAt(b[from:s.end], from); err != nil {
			return err
		}
	}
	return s.cut(s.end)
}

// nextIndex is the index behind the newest loaded record. 0 if it may be any.
func (r *recovery) nextIndex() uint64 {
	for i := len(r.segments) - 1; i >= 0; i-- {
		if s := r.segments[i]; s.firstIndex != 0 {
			return s.lastIndex() + 1
		}
	}
	return 0
}

func (r *recovery) close() error {
	var errs []error
	for _, s := range r.segments {
		errs = append(errs, s.file.Close())
	}
	return errors.Join(errs...)
}
