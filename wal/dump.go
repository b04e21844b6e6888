package wal

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"time"
)

// DumpOptions configure Dump.
type DumpOptions struct {
	// FS is where the files are; nil: OS().
	FS FS
	// SummaryOnly leaves out the line per record.
	SummaryOnly bool
	// Read is called after each segment, with its bytes; it may be nil.
	Read func(bytes int64)
}

// Dump prints the log in dir: a line for the manifest, one per segment, one per record, and a
// summary. It only reads and takes no lock, so it may run while a node does; it may then see the
// write in progress as a torn tail.
//
// Every record is checked. The error is a DamageError (errors.Is ErrDamaged) for the first damage,
// after everything was printed; a torn tail is printed and is not an error.
func Dump(w io.Writer, dir string, o DumpOptions) error {
	o.FS = cmp.Or(o.FS, OS())
	names, err := o.FS.List(dir)
	if err != nil {
		return fmt.Errorf("wal: dump: %w", err)
	}
	if !slices.ContainsFunc(names, func(name string) bool {
		_, segment := parseSegmentName(name)
		return segment || name == manifestName
	}) {
		return fmt.Errorf("wal: dump: there is no log in %s", dir)
	}
	d := dump{options: o, dir: dir, w: bufio.NewWriter(w)}
	d.manifest, err = readManifest(o.FS, dir)
	switch {
	case errors.Is(err, ErrDamaged):
		d.damage = err
		d.printf("%s DAMAGED: %v\n", manifestName, err)
	case errors.Is(err, fs.ErrNotExist):
		d.printf("%s is missing: a log that was never opened to the end, or damage\n",
			manifestName)
	case err != nil:
		return fmt.Errorf("wal: dump: %w", err)
	default:
		m := d.manifest
		d.printf("%s segments %d to %d, first record %d, durable up to record %d at least\n",
			manifestName, m.firstSeq, m.lastSeq, m.firstIndex, m.syncedIndex)
	}
	present := map[uint64]bool{}
	for _, name := range names {
		seq, ok := parseSegmentName(name)
		if !ok {
			continue
		}
		present[seq] = true
		if err := d.segment(seq); err != nil {
			return fmt.Errorf("wal: dump: %w", err)
		}
	}
	d.missing(present)
	d.summary()
	return errors.Join(d.err, d.w.Flush(), d.damage)
}

type dump struct {
	options  DumpOptions
	dir      string
	manifest manifest
	w        *bufio.Writer
	err      error
	damage   error
	read     []*segment // listed ones, without files
	records  int
	first    uint64
	last     uint64
	bytes    int64
}

func (d *dump) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(d.w, format, args...); err != nil && d.err == nil {
		d.err = err
	}
}

func (d *dump) segment(seq uint64) error {
	name := segmentName(seq)
	f, err := d.options.FS.OpenRead(filepath.Join(d.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // deleted by the running node after it was listed
	}
	if err != nil {
		return err
	}
	b, err := readAll(f, nil)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	d.bytes += int64(len(b))
	if d.options.Read != nil {
		d.options.Read(int64(len(b)))
	}
	m := d.manifest
	if m.firstSeq != 0 && (seq < m.firstSeq || seq > m.lastSeq) {
		d.printf("%s %d bytes, not listed: left over, removed at the next start\n", name, len(b))
		return nil
	}
	header, err := decodeSegmentHeader(b)
	if err != nil {
		d.damaged(name, 0, 0, err.Error())
		return nil
	}
	d.printf("%s %d bytes, from record %d, chained to %08x\n",
		name, len(b), header.firstIndex, header.prev)
	found, err := scanSegment(b, d.record(name))
	if err != nil {
		return err
	}
	s := &segment{segmentHeader: found.header, marks: found.marks, end: found.end}
	d.read = append(d.read, s)
	if reason := joins(d.manifest, d.read, seq); reason != "" {
		d.damaged(name, 0, s.firstIndex, reason)
	}
	next := s.firstIndex + uint64(len(s.marks))
	switch f := found.fault; {
	case f == nil:
	case f.torn && (next == 0 || next > d.manifest.syncedIndex):
		d.printf("%s %10d TORN TAIL of %d bytes: %s\n", name, found.end, f.bytes, f.reason)
	default:
		d.damaged(name, found.end, next, f.reason)
	}
	return nil
}

// record returns a function that prints the records of one segment.
func (d *dump) record(name string) func(int64, frameHeader) {
	return func(offset int64, h frameHeader) {
		note := ""
		if h.index < d.manifest.firstIndex {
			note = " deleted"
		} else {
			d.records++
			d.last = h.index
			d.first = cmp.Or(d.first, h.index)
		}
		if d.options.SummaryOnly {
			return
		}
		d.printf("%s %10d index=%d term=%d type=%s data=%d ext=%d appended=%s crc=%08x ok%s\n",
			name, offset, h.index, h.term, h.kind, h.dataBytes, h.extBytes,
			h.appendedAt.Format(time.RFC3339Nano), h.crc, note)
	}
}

func (d *dump) damaged(name string, offset int64, index uint64, reason string) {
	d.printf("%s %10d DAMAGED at record %d: %s\n", name, offset, index, reason)
	if d.damage == nil {
		d.damage = &DamageError{
			File: filepath.Join(d.dir, name), Offset: offset, Index: index, Reason: reason,
		}
	}
}

// missing names the segments that the manifest lists and the folder does not hold. Without a
// manifest every segment there is was printed.
func (d *dump) missing(present map[uint64]bool) {
	if d.manifest.firstSeq == 0 {
		if d.records > 0 && d.damage == nil {
			d.damaged(manifestName, 0, d.first, "there are records, but no manifest")
		}
		return
	}
	for seq := d.manifest.firstSeq; seq <= d.manifest.lastSeq; seq++ {
		if !present[seq] {
			d.damaged(segmentName(seq), 0, 0, "the segment is missing")
		}
	}
	if d.damage == nil && d.last < d.manifest.syncedIndex {
		d.damaged(segmentName(d.manifest.lastSeq), 0, d.last+1, fmt.Sprintf(
			"the log ends at record %d, but record %d was acknowledged",
			d.last, d.manifest.syncedIndex))
	}
}

func (d *dump) summary() {
	state := "no damage"
	if d.damage != nil {
		state = "DAMAGED"
	}
	d.printf("%d records, index %d to %d, %d segments, %d bytes: %s\n",
		d.records, d.first, d.last, len(d.read), d.bytes, state)
}
