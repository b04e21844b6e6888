package keyfiles

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/FastFilter/xorfilter"

	"tollgate/engine/idempotency"
	"tollgate/wal"
)

const (
	runSuffix   = ".keys"
	magic       = "TGKF"
	version     = 1
	pageBytes   = 4096
	recordBytes = 28
	pageRecords = (pageBytes - 8) / recordBytes
	footerBytes = 84
	shardBytes  = 28 // bytes of a filter before its fingerprints
	// fingerprintBits is where a record's packed word has the outcome.
	fingerprintBits = 24
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// scope is what a file was made from.
type scope struct {
	first, last   uint64 // segments
	hash          uint64 // of the last one
	from, through uint64 // numbers of the keys that these segments have: from ≤ number < through
}

// name is what the file of a range of segments is called.
func (s *scope) name() string { return fmt.Sprintf("%010d-%010d%s", s.first, s.last, runSuffix) }

// run is one file: the keys of a range of segments, sorted. All but its pages is in memory. Only
// what is atomic, and what Store.change guards, changes once it is in a view.
type run struct {
	scope
	path    string
	file    wal.File
	size    uint64
	records uint64

	dir     []uint64 // the first eight bytes of each page's first key
	filters []xorfilter.BinaryFuse8
	shift   int // a key's filter is its first eight bytes without this many of the lower bits

	// readers counts those that may read the file: the store, as long as a view has it, and each
	// search and rewriting in progress. The last one closes it.
	readers atomic.Int64
	// suspect is a page that could not be read or has a wrong checksum, and one; 0: there is none.
	suspect atomic.Uint64
	// busy reports whether the file is being rewritten; Store.change guards it.
	busy bool
	// looks counts how often in a row the suspect page could not be read, for Rewrite alone.
	looks int
}

// acquire keeps the file open until release; false if it was closed.
func (r *run) acquire() bool {
	for n := r.readers.Load(); n > 0; n = r.readers.Load() {
		if r.readers.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// release gives up what acquire gave.
func (r *run) release() error {
	if r.readers.Add(-1) > 0 {
		return nil
	}
	return r.file.Close()
}

// suspects records a page for Store.Rewrite to read again.
func (r *run) suspects(page uint64) { r.suspect.CompareAndSwap(0, page+1) }

// memory is what the run takes in memory, in bytes.
func (r *run) memory() uint64 {
	n := uint64(8 * cap(r.dir))
	for i := range r.filters {
		n += uint64(cap(r.filters[i].Fingerprints)) + 48
	}
	return n
}

// onePage are buffers of one page.
var onePage = sync.Pool{New: func() any { return new([pageBytes]byte) }}

// find looks for a key in the page where it belongs; where pages begin with the same eight bytes,
// in each of them.
func (r *run) find(
	key [16]byte, prefix uint64, v *idempotency.Verdict,
) (found bool, pages int, err error) {
	n := sort.Search(len(r.dir), func(i int) bool { return r.dir[i] > prefix })
	room := onePage.Get().(*[pageBytes]byte)
	defer onePage.Put(room)
	page := room[:]
	for n--; n >= 0; n-- {
		pages++
		count, err := r.readPage(page, uint64(n))
		if err != nil {
			return false, pages, err
		}
		at := sort.Search(count, func(i int) bool {
			return bytes.Compare(recordOf(page, i)[:16], key[:]) >= 0
		})
		if at < count && bytes.Equal(recordOf(page, at)[:16], key[:]) {
			e := parseRecord(recordOf(page, at))
			v.Found, v.Number = true, r.from+uint64(e.offset)
			v.Slot = idempotency.Slot{
				Attempt: e.attempt, Fingerprint: e.packed & (1<<fingerprintBits - 1),
				Outcome: uint8(e.packed >> fingerprintBits),
			}
			return true, pages, nil
		}
		if r.dir[n] < prefix {
			break
		}
	}
	return false, pages, nil
}

// readPage reads and checks one page. Where that fails, the page is suspected.
func (r *run) readPage(page []byte, number uint64) (records int, err error) {
	if err = r.readPages(page, number); err == nil {
		if records, err = checkPage(page); err == nil {
			return records, nil
		}
	}
	r.suspects(number)
	return 0, fmt.Errorf("%s, page %d: %w", r.path, number, err)
}

// readPages fills dst with pages from a number on.
func (r *run) readPages(dst []byte, page uint64) error {
	if n, err := r.file.ReadAt(dst, int64(page)*pageBytes); n < len(dst) {
		return err
	}
	return nil
}

// checkPage returns how many records a page has, if its checksum is right.
func checkPage(page []byte) (records int, err error) {
	sum := binary.LittleEndian.Uint32(page[pageBytes-4:])
	records = int(binary.LittleEndian.Uint32(page))
	if crc32.Checksum(page[:pageBytes-4], castagnoli) != sum || records > pageRecords {
		return 0, fmt.Errorf("%w: checksum", ErrDamaged)
	}
	return records, nil
}

func recordOf(page []byte, i int) []byte { return page[4+i*recordBytes:][:recordBytes] }

// record is a key as files have it: sorted by high, low.
type record struct {
	high, low               uint64 // the key, big endian
	attempt, packed, offset uint32 // offset: the number, counted from the run's first
}

func parseRecord(b []byte) record {
	return record{
		high: binary.BigEndian.Uint64(b), low: binary.BigEndian.Uint64(b[8:]),
		attempt: binary.LittleEndian.Uint32(b[16:]), packed: binary.LittleEndian.Uint32(b[20:]),
		offset: binary.LittleEndian.Uint32(b[24:]),
	}
}

func (e *record) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, e.high), e.low)
	dst = binary.LittleEndian.AppendUint32(dst, e.attempt)
	dst = binary.LittleEndian.AppendUint32(dst, e.packed)
	return binary.LittleEndian.AppendUint32(dst, e.offset)
}

// compare orders records: by key, and of one key the newest first; both count from one run's first
// key.
func (e *record) compare(f *record) int {
	for _, pair := range [...][2]uint64{
		{e.high, f.high}, {e.low, f.low}, {uint64(f.offset), uint64(e.offset)},
	} {
		if pair[0] != pair[1] {
			if pair[0] < pair[1] {
				return -1
			}
			return 1
		}
	}
	return 0
}

func (e *record) sameKey(f *record) bool { return e.high == f.high && e.low == f.low }
