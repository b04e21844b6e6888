package idempotency

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync/atomic"
)

const (
	magic         = "TGIK"
	formatVersion = 1  // of a set of which all is in memory
	demotedFormat = 2  // of others; the header counts the records that are not in the snapshot
	ownedFormat   = 3  // as demotedFormat, and each generation is followed by its owners
	headerFixed   = 26 // bytes of the header before its generations
	demotedBytes  = 8  // bytes that follow them in demotedFormat
	ageBytes      = 24 // bytes of a generation: records (8), first stamp (8), last stamp (8)
	ownerBytes    = 8  // bytes of an owner in a generation: owner (4), records (4)
	recordBytes   = 24
	// blockKeys is the number of records in a block (1 MiB).
	blockKeys = (1 << 20) / recordBytes
	// maxAges bounds the generations that a header may list, maxOwner the numbers of owners.
	maxAges  = 1 << 16
	maxOwner = 1<<16 - 1
)

// ErrSnapshot means that bytes are not a complete snapshot of this format.
var ErrSnapshot = errors.New("idempotency: malformed snapshot")

// ErrReleased means that a snapshot was released before it was written.
var ErrReleased = errors.New("idempotency: snapshot was released")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Snapshot is the set of keys at Begin; of those that are not in memory it has the number. Records
// never change, so it is a range of them, and any number of snapshots may exist.
type Snapshot struct {
	retention int64
	ages      []generation
	base      uint64
	memory    uint64
	next      uint64
	chunkBase uint64
	chunks    []*chunk
	released  atomic.Bool
}

// spoil is nil but in a program with a planted bug (see planted_key.go): it changes a block of
// records before it is written.
var spoil func(block []byte)

// Begin fixes the present set, whatever its size. For the goroutine that adds.
func (k *Keys) Begin() *Snapshot {
	ages := append([]generation(nil), k.ages...)
	if n := len(ages); n > 0 { // the open one goes on counting
		ages[n-1].owned = append([]uint32(nil), ages[n-1].owned...)
	}
	return &Snapshot{
		retention: k.retention,
		ages:      ages,
		base:      k.base, memory: k.memory, next: k.next, chunkBase: k.chunkBase,
		chunks: k.chunks[:len(k.chunks):len(k.chunks)],
	}
}

// Release ends the snapshot: a WriteTo that runs stops at its next block. Any goroutine.
func (sn *Snapshot) Release() { sn.released.Store(true) }

// WriteTo writes the snapshot: a header, and the records in the order of Add in blocks of 1 MiB,
// each followed by its CRC32C. The same keys give the same bytes. It runs concurrently with Find
// and Add.
func (sn *Snapshot) WriteTo(w io.Writer) (int64, error) {
	var written int64
	emit := func(b []byte) error {
		b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
		n, err := w.Write(b)
		written += int64(n)
		return err
	}
	buf := make([]byte, 0, min(blockKeys, sn.next-sn.memory)*recordBytes+4)
	owners := sn.owners()
	if err := emit(sn.header(buf, owners != nil)); err != nil {
		return written, err
	}
	if owners != nil {
		if err := emit(owners); err != nil {
			return written, err
		}
	}
	for at := sn.memory; at < sn.next; {
		if sn.released.Load() {
			return written, ErrReleased
		}
		end := min(at+blockKeys, sn.next)
		b := buf
		for ; at < end; at++ {
			n := at - sn.chunkBase
			b = sn.chunks[n/chunkKeys][n%chunkKeys].append(b)
		}
		if spoil != nil {
			spoil(b)
		}
		if err := emit(b); err != nil {
			return written, err
		}
	}
	return written, nil
}

func (sn *Snapshot) header(b []byte, owned bool) []byte {
	b = append(b, magic...)
	format, demoted := uint16(formatVersion), sn.memory-sn.base
	switch {
	case owned:
		format = ownedFormat
	case demoted > 0:
		format = demotedFormat
	}
	b = binary.LittleEndian.AppendUint16(b, format)
	b = binary.LittleEndian.AppendUint64(b, uint64(sn.retention))
	b = binary.LittleEndian.AppendUint64(b, sn.next-sn.base)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(sn.ages)))
	if format != formatVersion {
		b = binary.LittleEndian.AppendUint64(b, demoted)
	}
	for i, g := range sn.ages {
		end := sn.next
		if i+1 < len(sn.ages) {
			end = sn.ages[i+1].first
		}
		b = binary.LittleEndian.AppendUint64(b, end-g.first)
		b = binary.LittleEndian.AppendUint64(b, uint64(g.opened))
		b = binary.LittleEndian.AppendUint64(b, uint64(g.newest))
	}
	return b
}

// owners counts the records of each generation by owner; nil when no record has an owner.
func (sn *Snapshot) owners() []byte {
	b, some := make([]byte, 4), false
	for i := range sn.ages {
		at := len(b)
		b = append(b, 0, 0, 0, 0)
		for owner, n := range sn.ages[i].owned {
			if n > 0 {
				b = binary.LittleEndian.AppendUint32(b, uint32(owner))
				b = binary.LittleEndian.AppendUint32(b, n)
				some = true
			}
		}
		binary.LittleEndian.PutUint32(b[at:], uint32(len(b)-at-4)/ownerBytes)
	}
	if !some {
		return nil
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// Restore replaces the set by that of a Snapshot, and builds the index. added is the number of keys
// ever added when it was taken, which numbers them. It reads the snapshot's bytes and no more.
// After an error the set is empty.
func (k *Keys) Restore(r io.Reader, added uint64) error {
	err := k.restore(r, added)
	if err != nil {
		k.clear()
	}
	k.Show()
	return err
}

func (k *Keys) clear() {
	k.ages, k.held, k.chunks, k.index = nil, nil, nil, index{}
	k.base, k.memory, k.next, k.chunkBase, k.dead = 0, 0, 0, 0, false
}

func (k *Keys) restore(r io.Reader, added uint64) error {
	k.clear()
	if err := k.restoreHeader(r, added); err != nil {
		return err
	}
	buf := make([]byte, min(blockKeys, added-k.next)*recordBytes+4)
	indexed := k.next
	for k.next < added {
		count := min(blockKeys, added-k.next)
		b, err := readChecked(r, buf[:count*recordBytes+4])
		if err != nil {
			return err
		}
		for ; len(b) > 0; b = b[recordBytes:] {
			k.restoreRecord(b)
		}
		if k.next-indexed >= indexKeys || k.next == added {
			k.reindex(indexed)
			indexed = k.next
		}
	}
	return nil
}

func (k *Keys) restoreRecord(b []byte) {
	n := k.next - k.chunkBase
	if n%chunkKeys == 0 {
		k.chunks = append(k.chunks, new(chunk))
	}
	rec := &k.chunks[n/chunkKeys][n%chunkKeys]
	copy(rec.key[:], b)
	rec.attempt = binary.LittleEndian.Uint32(b[16:])
	rec.packed = binary.LittleEndian.Uint32(b[20:])
	k.next++
}

// indexKeys is how many records a restore reads before it puts them into the index: so many that a
// sub-table gets some hundred of them at a time.
const indexKeys = 1 << 20

// reindex puts the records from a number on into the index, ordered by sub-table: in the order of
// Add, each would wait for memory of its own.
func (k *Keys) reindex(from uint64) {
	ends := make([]uint32, subTables)
	for n := from; n < k.next; n++ {
		ends[k.Hash(k.numbered(n).key)>>(64-subTableBits)]++
	}
	sum := uint32(0)
	for i, count := range ends {
		ends[i], sum = sum, sum+count // where it begins, until it is filled
	}
	ordered := make([]uint64, sum)
	for n := from; n < k.next; n++ {
		hash := k.Hash(k.numbered(n).key)
		end := &ends[hash>>(64-subTableBits)]
		ordered[*end] = slotWith(hash, uint32(n))
		*end++
	}
	begin := uint32(0)
	for i, end := range ends {
		k.index.fill(i, ordered[begin:end])
		begin = end
	}
}

// numbered returns the record of a number that is in memory.
func (k *Keys) numbered(n uint64) *record {
	n -= k.chunkBase
	return &k.chunks[n/chunkKeys][n%chunkKeys]
}

// restoreHeader reads the header, and numbers the records that follow: the last one is the one that
// was added last.
func (k *Keys) restoreHeader(r io.Reader, added uint64) error {
	head, demoted, err := readHead(r)
	if err != nil {
		return err
	}
	format := binary.LittleEndian.Uint16(head[4:])
	count := binary.LittleEndian.Uint32(head[22:])
	ages := make([]byte, count*ageBytes+4)
	if _, err := io.ReadFull(r, ages); err != nil {
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	sum := crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, ages[:count*ageBytes])
	if sum != binary.LittleEndian.Uint32(ages[count*ageBytes:]) {
		return fmt.Errorf("%w: checksum of the header", ErrSnapshot)
	}
	k.retention = int64(binary.LittleEndian.Uint64(head[6:]))
	total := binary.LittleEndian.Uint64(head[14:])
	if total > added || demoted > total || k.retention < 1 {
		return fmt.Errorf("%w: %d records, %d of them demoted, of %d that were added",
			ErrSnapshot, total, demoted, added)
	}
	first := added - total
	for b := ages[:count*ageBytes]; len(b) > 0; b = b[ageBytes:] {
		k.ages = append(k.ages, generation{
			first:  first,
			opened: int64(binary.LittleEndian.Uint64(b[8:])),
			newest: int64(binary.LittleEndian.Uint64(b[16:])),
		})
		first += binary.LittleEndian.Uint64(b)
	}
	if first != added {
		return fmt.Errorf("%w: generations end at record %d of %d", ErrSnapshot, first, added)
	}
	k.base, k.memory = added-total, added-total+demoted
	k.next, k.chunkBase = k.memory, k.memory
	if format == ownedFormat {
		return k.restoreOwners(r, added)
	}
	return nil
}

// restoreOwners reads what follows the header in ownedFormat.
func (k *Keys) restoreOwners(r io.Reader, added uint64) error {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	block := bytes.NewBuffer(size[:])
	// It grows with what is there, whatever the size says.
	if _, err := io.CopyN(block, r, int64(binary.LittleEndian.Uint32(size[:]))+4); err != nil {
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	b, err := readChecked(block, make([]byte, block.Len()))
	if err != nil {
		return err
	}
	b = b[4:]
	for i := range k.ages {
		end := added
		if i+1 < len(k.ages) {
			end = k.ages[i+1].first
		}
		if b, err = k.restoreOwned(&k.ages[i], end-k.ages[i].first, b); err != nil {
			return err
		}
	}
	if len(b) > 0 {
		return fmt.Errorf("%w: %d bytes after the owners", ErrSnapshot, len(b))
	}
	return nil
}

// restoreOwned reads who owns a generation's records, in ascending order, and returns what follows.
func (k *Keys) restoreOwned(g *generation, records uint64, b []byte) (rest []byte, err error) {
	if len(b) < 4 || uint64(len(b)-4) < uint64(binary.LittleEndian.Uint32(b))*ownerBytes {
		return nil, fmt.Errorf("%w: truncated owners", ErrSnapshot)
	}
	n := int(binary.LittleEndian.Uint32(b)) * ownerBytes
	for o := b[4 : 4+n]; len(o) > 0; o = o[ownerBytes:] {
		owner, owned := binary.LittleEndian.Uint32(o), binary.LittleEndian.Uint32(o[4:])
		if int(owner) < max(1, len(g.owned)) || owner > maxOwner || owned == 0 ||
			uint64(owned) > records {
			return nil, fmt.Errorf("%w: owner %d of %d records", ErrSnapshot, owner, owned)
		}
		records -= uint64(owned)
		k.own(g, owner, owned)
	}
	return b[4+n:], nil
}

// readHead reads the header up to the generations, and how many records are demoted.
func readHead(r io.Reader) (head []byte, demoted uint64, err error) {
	head = make([]byte, headerFixed, headerFixed+demotedBytes)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	format := binary.LittleEndian.Uint16(head[4:])
	if string(head[:4]) != magic || format < formatVersion || format > ownedFormat {
		return nil, 0, fmt.Errorf("%w: want a header of version %d to %d", ErrSnapshot, formatVersion,
			ownedFormat)
	}
	if count := binary.LittleEndian.Uint32(head[22:]); count > maxAges {
		return nil, 0, fmt.Errorf("%w: %d generations", ErrSnapshot, count)
	}
	if format == formatVersion {
		return head, 0, nil
	}
	head = head[:headerFixed+demotedBytes]
	if _, err := io.ReadFull(r, head[headerFixed:]); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	return head, binary.LittleEndian.Uint64(head[headerFixed:]), nil
}

// readChecked fills b, and returns it without the CRC32C that it ends with.
func readChecked(r io.Reader, b []byte) ([]byte, error) {
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	body := b[:len(b)-4]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(b[len(body):]) {
		return nil, fmt.Errorf("%w: checksum of a block", ErrSnapshot)
	}
	return body, nil
}
