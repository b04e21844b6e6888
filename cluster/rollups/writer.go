package rollups

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"

	"tollgate/engine/rollup"
	"tollgate/wal"
)

// writer writes a run. The first error stays, until end returns it.
type writer struct {
	*run
	file   wal.File
	files  wal.FS
	folder string
	tmp    string
	offset uint64 // of the next block
	at     int64  // end of what is written
	block  []byte
	start  rollup.Key
	last   rollup.Cell // of the block
	open   rollup.Cell // what merge collects
	opened bool
	err    error

	blockBytes int
	counted    *rollup.Versions
}

// merge adds a cell whose key may repeat.
func (w *writer) merge(c *rollup.Cell) {
	if w.opened && w.open.Key == c.Key {
		w.open.Add(c.Events, c.Units)
		return
	}
	w.flush()
	w.open, w.opened = *c, true
}

func (w *writer) flush() {
	if w.opened && !w.open.Empty() {
		w.add(&w.open)
	}
	w.opened = false
}

// add appends a cell; keys ascend.
func (w *writer) add(c *rollup.Cell) {
	if len(w.block) == 0 {
		w.start, w.last = c.Key, rollup.Cell{}
	}
	w.block = rollup.AppendCell(w.block, &w.last, c)
	w.last = *c
	w.cells++
	w.from, w.to = min(w.from, c.Hour), max(w.to, c.Hour)
	if len(w.block) >= w.blockBytes {
		w.cut()
	}
}

func (w *writer) cut() {
	if len(w.block) == 0 {
		return
	}
	w.dir = append(w.dir, line{
		Key: w.start, offset: w.offset, length: uint32(len(w.block)),
		sum: crc32.Checksum(w.block, castagnoli),
	})
	w.offset += uint64(len(w.block))
	w.write(w.block)
	w.block = w.block[:0]
}

func (w *writer) write(data []byte) {
	if w.err == nil {
		_, w.err = w.file.WriteAt(data, w.at)
		w.at += int64(len(data))
	}
}

// end writes the part behind the blocks and gives the file its name. After a crash the file may be
// incomplete: its checksums fail then, and it is made again.
func (w *writer) end() (*run, error) {
	w.flush()
	w.cut()
	var directory []byte
	for i := range w.dir {
		l := &w.dir[i]
		directory = binary.LittleEndian.AppendUint64(directory, l.Owner)
		directory = binary.LittleEndian.AppendUint32(directory, l.Item)
		directory = binary.LittleEndian.AppendUint32(directory, uint32(l.Hour))
		directory = binary.LittleEndian.AppendUint64(directory, l.offset)
		directory = binary.LittleEndian.AppendUint32(directory, l.length)
		directory = binary.LittleEndian.AppendUint32(directory, l.sum)
	}
	w.write(directory)
	w.write(w.footer(directory, w.counted))
	if w.err != nil {
		return nil, errors.Join(fmt.Errorf("rollups: %w", w.err), w.remove())
	}
	if err := w.file.Close(); err != nil {
		return nil, fmt.Errorf("rollups: %w", err)
	}
	if err := w.files.Rename(w.tmp, filepath.Join(w.folder, w.name())); err != nil {
		return nil, fmt.Errorf("rollups: %w", err)
	}
	return readRun(w.files, w.folder, w.name(), w.counted)
}

func (w *writer) remove() error {
	return errors.Join(w.file.Close(), w.files.Remove(w.tmp))
}

// merging is a merge that is under way.
type merging struct {
	*writer
	from    []*run
	cursors []cursor
	heap    []*cursor // those with cells left: a binary heap, with the least key first
}

func (m *merging) close() (err error) {
	for i := range m.cursors {
		err = errors.Join(err, m.cursors[i].file.Close())
	}
	return err
}

// begin reads the first cells. With an error it returns the run that cannot be read.
func (m *merging) begin() (unread *run, err error) {
	for i := range m.cursors {
		if err := m.cursors[i].fill(); err != nil {
			return m.cursors[i].run, err
		}
		if m.cursors[i].left() {
			m.heap = append(m.heap, &m.cursors[i])
		}
	}
	for at := len(m.heap)/2 - 1; at >= 0; at-- {
		m.sink(at)
	}
	return nil, nil
}

// take takes the cell of the least key.
func (m *merging) take() (unread *run, err error) {
	c := m.heap[0]
	m.merge(&c.cells[c.next])
	c.next++
	if err := c.fill(); err != nil {
		return c.run, err
	}
	if !c.left() {
		last := len(m.heap) - 1
		m.heap[0] = m.heap[last]
		m.heap = m.heap[:last]
	}
	m.sink(0)
	return nil, nil
}

// sink moves a cursor behind those with lesser keys.
func (m *merging) sink(at int) {
	for {
		least := at
		for child := 2*at + 1; child <= 2*at+2 && child < len(m.heap); child++ {
			if m.heap[child].key().Compare(*m.heap[least].key()) < 0 {
				least = child
			}
		}
		if least == at {
			return
		}
		m.heap[at], m.heap[least] = m.heap[least], m.heap[at]
		at = least
	}
}

// cursor reads a run in order, a block at a time.
type cursor struct {
	run   *run
	file  wal.File
	at    int
	cells []rollup.Cell
	next  int
}

// left reports whether there is a cell at next.
func (c *cursor) left() bool { return c.next < len(c.cells) }

func (c *cursor) key() *rollup.Key { return &c.cells[c.next].Key }

// fill has a cell at next, or none are left.
func (c *cursor) fill() error {
	for c.next == len(c.cells) && c.at < len(c.run.dir) {
		c.cells, c.next = c.cells[:0], 0
		err := c.run.block(c.file, c.at, func(cell rollup.Cell) error {
			c.cells = append(c.cells, cell)
			return nil
		})
		if err != nil {
			return err
		}
		c.at++
	}
	return nil
}
