package backup

import (
	"errors"
	"fmt"
	"io"
)

// Reader reads a backup and checks it on the way. It holds one frame in memory. What it hands out
// counts only once Next has returned io.EOF: then, and not before, is every byte proven.
type Reader struct {
	frameReader
	manifest *Manifest
	group    int
	segment  int // -1: its state
	item     *item
	files    Files
	open     io.ReadCloser // the file of the segment that was handed out
	err      error
}

// Item is a state or a segment, with its bytes.
type Item struct {
	// Group is whose it is; Segment is nil for the state.
	Group   *Group
	Segment *Segment
	io.Reader
}

// Files opens a file next to a backup. One that it returns as nil is passed over.
type Files func(file string) (io.ReadCloser, error)

// ErrApart means that the segments of a backup are files next to it, and that it was read as a
// stream.
var ErrApart = errors.New(
	"backup: its segments are separate files next to it: give its path, not a stream")

// NewReader reads the beginning of a backup, to its manifest. It is ErrDamaged, ErrVersion, or
// ErrApart: files may be nil for a backup that has its segments in it.
func NewReader(src io.Reader, files Files) (*Reader, error) {
	r := &Reader{segment: -1, files: files}
	text, err := r.begin(src, magic, "backup", FormatVersion)
	if err != nil {
		return nil, err
	}
	r.manifest, err = parseManifest(text)
	if err == nil && r.manifest.Apart && files == nil {
		return nil, ErrApart
	}
	return r, err
}

// Manifest is the backup's own description of its content.
func (r *Reader) Manifest() *Manifest { return r.manifest }

// Close closes the segment's file that was handed out last, if it is one. It does not close what
// is read from.
func (r *Reader) Close() error {
	if r.open == nil {
		return nil
	}
	err := r.open.Close()
	if r.open = nil; err != nil {
		return fmt.Errorf("backup: read: %w", err)
	}
	return nil
}

// Next returns the next state or segment; it reads and checks the rest of the one before.
// At the end of a whole backup it is io.EOF, which no other error is; a damaged one is ErrDamaged.
func (r *Reader) Next() (Item, error) {
	if err := r.Close(); err != nil {
		return Item{}, err
	}
	if r.item != nil {
		if _, err := io.Copy(io.Discard, r.item); err != nil {
			return Item{}, err
		}
		r.item = nil
	}
	if r.err != nil {
		return Item{}, r.err
	}
	if r.group == len(r.manifest.Groups) {
		r.err = r.end()
		return Item{}, r.err
	}
	g := &r.manifest.Groups[r.group]
	if r.manifest.Apart && r.segment >= 0 {
		return r.apart(g)
	}
	next := Item{Group: g}
	r.item = &item{r: r, kind: frameState, left: g.StateBytes}
	if r.segment >= 0 {
		next.Segment = &g.Segments[r.segment]
		r.item.kind, r.item.left = frameSegment, int64(next.Segment.Length)
	}
	next.Reader = r.item
	if r.segment++; r.segment >= len(g.Segments) {
		r.group, r.segment = r.group+1, -1
	}
	return next, nil
}

// apart hands out the segment whose turn it is, which is a file.
func (r *Reader) apart(g *Group) (Item, error) {
	s := &g.Segments[r.segment]
	if r.segment++; r.segment >= len(g.Segments) {
		r.group, r.segment = r.group+1, -1
	}
	file, err := r.files(s.File(g.Shard))
	if err != nil {
		// A request's error may be io.EOF, which would say here that all was read.
		if r.err = fmt.Errorf("backup: %s: %w", s, err); errors.Is(err, io.EOF) {
			r.err = fmt.Errorf("backup: %s: %v", s, err)
		}
		return Item{}, r.err
	}
	if file == nil {
		return r.Next()
	}
	r.open = file
	return Item{Group: g, Segment: s, Reader: file}, nil
}

// item reads the frames of one state or segment.
type item struct {
	r     *Reader
	kind  byte
	left  int64
	chunk []byte // rest of the frame
}

// Read reads on; io.EOF when all of the announced bytes were read.
func (i *item) Read(p []byte) (int, error) {
	if i.r.err != nil {
		return 0, i.r.err
	}
	if i.r.item != i {
		return 0, errors.New("backup: read after the next item was asked for")
	}
	if len(i.chunk) == 0 && i.left > 0 {
		want := min(i.left, chunkBytes)
		chunk, err := i.r.next(i.kind, chunkBytes)
		if err == nil && int64(len(chunk)) != want {
			err = fmt.Errorf("%w: frame %d has %d of %d bytes", ErrDamaged,
				i.r.frames-1, len(chunk), want)
		}
		if err != nil {
			i.r.err = err
			return 0, err
		}
		i.chunk, i.left = chunk, i.left-want
	}
	if len(i.chunk) == 0 {
		return 0, io.EOF
	}
	n := copy(p, i.chunk)
	i.chunk = i.chunk[n:]
	return n, nil
}
