package segments

import (
	"errors"

	"tollgate/engine/journal"
)

// Back yields the records of the parts that may have wanted ones, the newest first. It holds one
// segment of each part that it reads, and returns ErrMissing or ErrDamaged when it needs a segment
// that is not here. It ends where audit segments were dropped meanwhile.
func (s *Store) Back(q journal.BackQuery, yield func(journal.Record) (bool, error)) error {
	view := s.journal.View()
	var parts []*backward
	for _, part := range journal.Parts() {
		if !q.Reads(part) {
			continue
		}
		b := &backward{store: s, query: &q, view: &view[part], left: len(view[part].Segments)}
		if err := b.read(b.view.Tail); err != nil {
			return err
		}
		parts = append(parts, b)
	}
	for {
		var newest *backward
		for _, b := range parts {
			if err := b.fill(); err != nil {
				return err
			}
			if !b.done() && (newest == nil || newest.last.older(&b.last)) {
				newest = b
			}
		}
		if newest == nil {
			return nil
		}
		r := newest.last.Record
		if err := newest.drop(); err != nil {
			return err
		}
		if more, err := yield(r); err != nil || !more {
			return err
		}
	}
}

// backward reads a part of the journal backwards, a segment at a time.
type backward struct {
	store *Store
	query *journal.BackQuery
	view  *journal.PartView
	// left is how many segments come before the data.
	left    int
	data    []byte
	reader  journal.Reader
	offsets []uint32
	last    place // the record at the last offset
}

// place is a record in the order of the log.
type place struct{ journal.Record }

func (p *place) older(q *place) bool {
	return p.Index < q.Index || p.Index == q.Index && p.Position < q.Position
}

func (b *backward) done() bool { return len(b.offsets) == 0 }

// fill reads the segments before until one has a record that the query reaches.
func (b *backward) fill() error {
	for b.done() && b.left > 0 {
		b.left--
		info := b.view.Segments[b.left]
		if b.query.Skips(&info) {
			continue
		}
		data, err := b.store.load(b.store.find(info))
		if errors.Is(err, ErrDropped) {
			b.left = 0
			return nil
		}
		if err == nil {
			err = b.read(data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// read finds the records of a segment, or of the tail, that the query reaches.
func (b *backward) read(data []byte) error {
	b.data, b.offsets = data, b.offsets[:0]
	if len(data) == 0 {
		return nil
	}
	var err error
	if b.reader, err = journal.NewReader(data); err != nil {
		return err
	}
	err = journal.ScanFrom(data, 0, func(r journal.Record, offset int) error {
		if b.query.Reaches(&r) {
			b.offsets = append(b.offsets, uint32(offset))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return b.load()
}

// drop goes to the record before.
func (b *backward) drop() error {
	b.offsets = b.offsets[:len(b.offsets)-1]
	return b.load()
}

// load reads the record at the last offset.
func (b *backward) load() (err error) {
	if !b.done() {
		b.last.Record, _, err = b.reader.Record(b.data[b.offsets[len(b.offsets)-1]:])
	}
	return err
}
