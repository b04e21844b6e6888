package backup

import (
	"errors"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"

	"tollgate/engine"
	"tollgate/engine/journal"
)

// Check reads a whole backup, and only reads: every checksum, every segment that the manifest
// lists, nothing missing, nothing more. With machine, which makes the empty state machine of a
// shard (nil for one that it does not know), each state is decoded, too, has the hash that the log
// knows, and lists the segments that follow; and each segment's records are whole and in order.
// Without, it needs a few MiB of memory. A damaged backup is ErrDamaged.
func Check(
	src io.Reader, files Files, machine func(shard uint16) engine.Machine,
) (m *Manifest, err error) {
	r, err := NewReader(src, files)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for {
		item, err := r.Next()
		if err == io.EOF {
			return r.Manifest(), nil
		}
		if err == nil {
			err = checkItem(item, machine)
		}
		if err != nil {
			return nil, err
		}
	}
}

func checkItem(i Item, machine func(shard uint16) engine.Machine) error {
	switch {
	case i.Segment != nil:
		data, err := i.SegmentBytes()
		if err == nil && machine != nil {
			if err = journal.Scan(data, func(journal.Record) error { return nil }); err != nil {
				err = fmt.Errorf("%w: %s: %w", ErrDamaged, i.Segment, err)
			}
		}
		return err
	case machine == nil:
		return nil // Next reads it
	}
	m := machine(i.Group.Shard)
	if m == nil {
		return fmt.Errorf("%w: group %d (%s), which this build does not know",
			ErrVersion, i.Group.Shard, i.Group.Name)
	}
	return i.Decode(m)
}

// SegmentBytes reads a segment whole and checks its hash.
func (i Item) SegmentBytes() ([]byte, error) {
	data := make([]byte, 0, min(i.Segment.Length, chunkBytes))
	for uint64(len(data)) < i.Segment.Length {
		at := len(data)
		step := min(i.Segment.Length-uint64(at), chunkBytes)
		data = append(data, make([]byte, step)...)
		err := readFull(i, data[at:])
		if errors.Is(err, errEnds) { // of a file
			return nil, fmt.Errorf("%w: %s ends early", ErrDamaged, i.Segment)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", i.Segment, err)
		}
	}
	if xxhash.Sum64(data) != i.Segment.Hash {
		return nil, fmt.Errorf("%w: hash of %s", ErrDamaged, i.Segment)
	}
	return data, nil
}

// Decode restores a state into m, which must be new, and checks that it is the one that the
// manifest names and lists the segments that follow.
func (i Item) Decode(m engine.Machine) error {
	g := i.Group
	if err := m.Restore(i); err != nil {
		if errors.Is(err, ErrDamaged) {
			return err
		}
		if from, ok := i.Reader.(*item); ok && from.r.err != nil {
			return from.r.err // it was not read whole
		}
		return fmt.Errorf("%w: state of group %s: %w", ErrDamaged, g.Name, err)
	}
	index, hash := m.StateHash()
	if index != g.Applied || hash != g.Hash || m.Stamp() != g.Stamp {
		return fmt.Errorf("%w: the state of group %s is that of entry %d (hash %016x), not %d (%016x)",
			ErrDamaged, g.Name, index, hash, g.Applied, g.Hash)
	}
	n, err := io.Copy(io.Discard, i)
	if err != nil {
		return err
	}
	if n > 0 {
		return fmt.Errorf("%w: %d bytes behind the state of group %s", ErrDamaged, n, g.Name)
	}
	var listed []journal.SegmentInfo
	if j := m.Journal(); j != nil {
		listed = j.Begin().Segments()
	}
	if !g.Lists(listed) {
		return fmt.Errorf("%w: the journal of group %s lists other segments", ErrDamaged, g.Name)
	}
	return nil
}
