package idempotency

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync/atomic"
)

const (
	magic         = "TGIK"
	formatVersion = 1
	headerFixed   = 26 // bytes of the header before its generations
	ageBytes      = 24 // bytes of a generation: records (8), first stamp (8), last stamp (8)
	recordBytes   = 24
	// blockKeys is the number of records in a block (1 MiB).
	blockKeys = (1 << 20) / recordBytes
	// maxAges bounds the generations that a header may list.
	maxAges = 1 << 16
)

// ErrSnapshot says that bytes are no complete snapshot of this format.
var ErrSnapshot = errors.New("idempotency: malformed snapshot")

// ErrReleased says that a snapshot was released before it was written.
var ErrReleased = errors.New("idempotency: snapshot was released")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Snapshot is the set of keys at Begin. Records never change, so it is a range of them, and any
// number of snapshots may exist.
type Snapshot struct {
	retention int64
	ages      []generation
	base      uint64
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
	return &Snapshot{
		retention: k.retention,
		ages:      append([]generation(nil), k.ages...),
		base:      k.base, next: k.next, chunkBase: k.chunkBase,
		chunks: k.chunks[:len(k.chunks):len(k.chunks)],
	}
}

// Release ends the snapshot: a WriteTo that runs stops at its next block. Any goroutine.
func (sn *Snapshot) Release() { sn.released.Store(true) }

// WriteTo writes the snapshot: a header, and the records in the order of Add in blocks of 1 MiB,
// each followed by its CRC32C. The same keys give the same bytes. It runs beside Find and Add.
func (sn *Snapshot) WriteTo(w io.Writer) (int64, error) {
	var written int64
	emit := func(b []byte) error {
		b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
		n, err := w.Write(b)
		written += int64(n)
		return err
	}
	buf := make([]byte, 0, blockKeys*recordBytes+4)
	if err := emit(sn.header(buf)); err != nil {
		return written, err
	}
	for at := sn.base; at < sn.next; {
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

func (sn *Snapshot) header(b []byte) []byte {
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint16(b, formatVersion)
	b = binary.LittleEndian.AppendUint64(b, uint64(sn.retention))
	b = binary.LittleEndian.AppendUint64(b, sn.next-sn.base)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(sn.ages)))
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

// Restore replaces the set by what a Snapshot wrote, and builds the index. It reads the
// snapshot's bytes and no more. After an error the set is empty.
func (k *Keys) Restore(r io.Reader) error {
	err := k.restore(r)
	if err != nil {
		k.clear()
	}
	k.account()
	return err
}

func (k *Keys) clear() {
	k.ages, k.chunks, k.index = nil, nil, index{}
	k.base, k.next, k.chunkBase = 0, 0, 0
}

func (k *Keys) restore(r io.Reader) error {
	k.clear()
	total, err := k.restoreHeader(r)
	if err != nil {
		return err
	}
	buf := make([]byte, blockKeys*recordBytes+4)
	for k.next < total {
		count := min(blockKeys, total-k.next)
		b, err := readChecked(r, buf[:count*recordBytes+4])
		if err != nil {
			return err
		}
		for ; len(b) > 0; b = b[recordBytes:] {
			k.restoreRecord(b)
		}
	}
	return nil
}

func (k *Keys) restoreRecord(b []byte) {
	if k.next%chunkKeys == 0 {
		k.chunks = append(k.chunks, new(chunk))
	}
	rec := &k.chunks[k.next/chunkKeys][k.next%chunkKeys]
	copy(rec.key[:], b)
	rec.attempt = binary.LittleEndian.Uint32(b[16:])
	rec.packed = binary.LittleEndian.Uint32(b[20:])
	k.index.insert(k.hash(rec.key), uint32(k.next), k.dropped)
	k.next++
}

// restoreHeader reads the header and returns the number of records that follow.
func (k *Keys) restoreHeader(r io.Reader) (uint64, error) {
	fixed := make([]byte, headerFixed)
	if _, err := io.ReadFull(r, fixed); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	if string(fixed[:4]) != magic || binary.LittleEndian.Uint16(fixed[4:]) != formatVersion {
		return 0, fmt.Errorf("%w: no header of version %d", ErrSnapshot, formatVersion)
	}
	count := binary.LittleEndian.Uint32(fixed[22:])
	if count > maxAges {
		return 0, fmt.Errorf("%w: %d generations", ErrSnapshot, count)
	}
	ages := make([]byte, count*ageBytes+4)
	if _, err := io.ReadFull(r, ages); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	sum := crc32.Update(crc32.Checksum(fixed, castagnoli), castagnoli, ages[:count*ageBytes])
	if sum != binary.LittleEndian.Uint32(ages[count*ageBytes:]) {
		return 0, fmt.Errorf("%w: checksum of the header", ErrSnapshot)
	}
	k.retention = int64(binary.LittleEndian.Uint64(fixed[6:]))
	total, first := binary.LittleEndian.Uint64(fixed[14:]), uint64(0)
	for b := ages[:count*ageBytes]; len(b) > 0; b = b[ageBytes:] {
		k.ages = append(k.ages, generation{
			first:  first,
			opened: int64(binary.LittleEndian.Uint64(b[8:])),
			newest: int64(binary.LittleEndian.Uint64(b[16:])),
		})
		first += binary.LittleEndian.Uint64(b)
	}
	if first != total || k.retention < 1 {
		return 0, fmt.Errorf("%w: %d records in generations, %d in all", ErrSnapshot, first, total)
	}
	return total, nil
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
