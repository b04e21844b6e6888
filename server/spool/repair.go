package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/wal"
)

const (
	nameDigits = 20       // of a file's name: the index of its first block
	startExt   = ".START" // a first file that a crash has kept from its name
	tempExt    = ".TEMP"  // one that was being written
	lookAhead  = 1 << 32  // how much later than its neighbour a block can be that still is one
)

// held is the content of a spool.
type held struct {
	first, next  uint64
	bytes, spent int64
}

// walk is one look at the files of a spool, in order.
type walk struct {
	held
	dir string
	// from is the index of the first block that is wanted.
	from uint64
	// block is called for each good block from the first wanted one, bad for each run of other
	// bytes.
	block func(index uint64, block []byte) error
	bad   func(raw []byte) error
	// lost counts the blocks that were damaged or are missing.
	lost uint64
	// crooked reports whether the log could not read the files: all have to be rewritten.
	crooked bool
	// tear is where the last file ends with bytes that are not a block; torn reports whether they
	// are what an interrupted append leaves: less than a record, or zeroes.
	tearName string
	tearAt   int64
	tear     []byte
	torn     bool
}

// repair prepares the files of a spool so that the log opens them and reads every block: it creates
// a missing folder, cuts a torn append, and where bytes in the middle are not a block it writes the
// good blocks into a new folder. Blocks before from are left out.
func repair(dir string, from uint64, rewrite bool, o *Options) (held, error) {
	if err := settle(dir); err != nil {
		return held{}, err
	}
	w := &walk{dir: dir, from: from}
	if err := w.run(); err != nil {
		return held{}, err
	}
	switch {
	case w.crooked || rewrite:
		return salvage(dir, from, o)
	case w.tear != nil:
		if err := w.cut(o); err != nil {
			return held{}, err
		}
	}
	return w.held, nil
}

// settle finishes what a crash interrupted: a new folder that is whole replaces the old one, which
// may be half deleted.
func settle(dir string) error {
	if err := os.RemoveAll(dir + ".new.tmp"); err != nil {
		return err
	}
	_, err := os.Stat(dir + ".new")
	if err == nil {
		return replace(dir)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return create(dir)
	case err != nil:
		return err
	case !info.IsDir():
		return ErrForeign
	}
	text, err := os.ReadFile(filepath.Join(dir, formatName))
	if err == nil && string(text) == format {
		return nil
	}
	entries, listErr := os.ReadDir(dir)
	if listErr == nil && len(entries) == 0 || err == nil && len(text) == 0 && len(entries) == 1 {
		return create(dir) // it was being made
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return ErrForeign
	}
	return err
}

// create makes an empty folder.
func create(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = writeFormat(dir)
	}
	if err == nil {
		err = syncDir(filepath.Dir(dir))
	}
	return err
}

func writeFormat(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, formatName), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(format)
	return errors.Join(err, f.Sync(), f.Close(), syncDir(dir))
}

// replace puts the new folder in place of the old one.
func replace(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil {
		err = os.Rename(dir+".new", dir)
	}
	if err == nil {
		err = syncDir(filepath.Dir(dir))
	}
	return err
}

// run walks through all files.
func (w *walk) run() error {
	names, err := w.list()
	if err != nil {
		return err
	}
	w.first, w.next = max(w.from, 1), 1
	for i, name := range names {
		data, err := os.ReadFile(filepath.Join(w.dir, name))
		if err != nil {
			return err
		}
		index, _ := strconv.ParseUint(name[:nameDigits], 10, 64) // list has looked
		if i == 0 {
			w.next = index
			w.first = max(w.from, index)
		}
		w.crooked = w.crooked || index != w.next || len(name) > nameDigits
		if err := w.file(name, data, i == len(names)-1); err != nil {
			return err
		}
	}
	if w.first > w.next { // the newest blocks are gone, and those before them are not wanted
		w.first, w.crooked = w.next, true
	}
	return nil
}

// list names the files with blocks, by their first block.
func (w *walk) list() (names []string, err error) {
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := e.Name()
		base := strings.TrimSuffix(name, startExt)
		index, err := strconv.ParseUint(base, 10, 64)
		switch {
		case name == formatName:
		case err == nil && len(base) == nameDigits && index > 0 && e.Type().IsRegular():
			names = append(names, name)
		case strings.HasSuffix(name, tempExt):
			if err := os.Remove(filepath.Join(w.dir, name)); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("%s: %w", name, ErrForeign)
		}
	}
	slices.Sort(names)
	return names, nil
}

// file walks through one file.
func (w *walk) file(name string, data []byte, last bool) error {
	for at := 0; at < len(data); {
		index, record, n := w.record(data[at:])
		if n > 0 {
			if err := w.take(index, record, n); err != nil {
				return err
			}
			at += n
			continue
		}
		next := at + 1
		for next < len(data) {
			if _, _, n = w.record(data[next:]); n > 0 {
				break
			}
			next++
		}
		raw := data[at:next]
		if next == len(data) && last {
			w.tearName, w.tearAt, w.tear, w.torn = name, int64(at), raw, torn(raw)
			if !w.torn {
				w.lost++
			}
			return nil
		}
		w.crooked = true
		if next == len(data) {
			w.lost++ // take counts the others, by their index
			w.next++
		}
		if w.bad != nil {
			if err := w.bad(raw); err != nil {
				return err
			}
		}
		at = next
	}
	return nil
}

// record reads the record at the beginning of data; n is 0 if there is none.
func (w *walk) record(data []byte) (index uint64, record []byte, n int) {
	size, n := binary.Uvarint(data)
	if n <= 0 || size < frameBytes || size > uint64(len(data)-n) {
		return 0, nil, 0
	}
	record = data[n : n+int(size)]
	if index = binary.LittleEndian.Uint64(record[4:]); index == 0 || index >= w.next+lookAhead {
		return 0, nil, 0
	}
	if _, ok := parse(record); !ok {
		return 0, nil, 0
	}
	return index, record, n + int(size)
}

// take counts a good block.
func (w *walk) take(index uint64, record []byte, n int) error {
	if index < w.next { // a file that was cut, and the one that it was made from
		w.crooked = true
		return nil
	}
	if index > w.next {
		w.crooked = true
		w.lost += index - w.next
	}
	w.next = index + 1
	if index < w.from {
		w.spent += int64(n)
		return nil
	}
	w.bytes += int64(n)
	if w.block == nil {
		return nil
	}
	return w.block(index, record[frameBytes:])
}

// torn reports whether an append that was interrupted leaves these bytes.
func torn(raw []byte) bool {
	size, n := binary.Uvarint(raw)
	return n <= 0 || size > uint64(len(raw)-n) || len(strings.Trim(string(raw), "\x00")) == 0
}

// cut takes off the last bytes of the last file, which are not a block.
func (w *walk) cut(o *Options) error {
	if !w.torn {
		kept, err := setAside(w.dir, w.tear, o)
		if err != nil {
			return err
		}
		reportLoss(w.dir, w.lost, len(w.tear), kept, o)
	}
	f, err := os.OpenFile(filepath.Join(w.dir, w.tearName), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(w.tearAt), f.Sync(), f.Close())
}

// salvage writes all good blocks into a new folder, and the others' bytes to the file for damage.
func salvage(dir string, from uint64, o *Options) (held, error) {
	temp := dir + ".new.tmp"
	log, err := wal.Open(temp, o.wal())
	if err != nil {
		return held{}, err
	}
	into, raw, kept := held{first: 1, next: 1}, 0, 0
	w := &walk{dir: dir, from: from}
	w.block = func(_ uint64, block []byte) error {
		into.bytes += recordBytes(len(block))
		into.next++
		return log.Write(into.next-1, frame(into.next-1, block))
	}
	w.bad = func(b []byte) error {
		n, err := setAside(dir, b, o)
		raw, kept = raw+len(b), kept+n
		return err
	}
	err = w.run()
	if err == nil && w.tear != nil && !w.torn {
		err = w.bad(w.tear)
	}
	if err = errors.Join(err, log.Close()); err == nil {
		err = writeFormat(temp)
	}
	if err == nil {
		err = os.Rename(temp, dir+".new")
	}
	if err == nil {
		err = syncDir(filepath.Dir(dir))
	}
	if err != nil {
		return held{}, err
	}
	if w.lost > 0 || raw > 0 {
		reportLoss(dir, w.lost, raw, kept, o)
	}
	return into, replace(dir)
}

// reportLoss says how many bytes were damaged, and how many of them the file for damage has.
func reportLoss(dir string, lost uint64, raw, kept int, o *Options) {
	o.Log.Error("audit events are lost: blocks of the spool are damaged",
		"blocks", lost, "bytes", raw, "kept_bytes", kept, "file", aside(dir))
}

// setAside appends bytes to the file for damage. Of what makes it larger than a spool, it keeps
// none; kept is how many bytes it has kept.
func setAside(dir string, raw []byte, o *Options) (kept int, err error) {
	f, err := os.OpenFile(aside(dir), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err == nil && info.Size()+int64(len(raw)) <= max(o.Limit, segmentBytes) {
		kept, err = f.Write(raw)
	}
	return kept, errors.Join(err, f.Sync(), f.Close())
}
