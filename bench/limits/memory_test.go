package limits_test

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"testing"

	"tollgate/engine/uuid"
)

// shelf keeps reservations of one feature in as few bytes as all that is asked of them later takes:
// records without gaps, whose numbers are as long as they have to be, in memory that was known to
// be needed, and two tables of their places that are nine tenths full. Nothing of a record is
// atomic, aligned, versioned for snapshots or free to grow.
type shelf struct {
	records     []byte
	byID, byKey []uint32 // places of records, plus one
	expiring    []uint32 // in the order in which they expire
}

// kept is what a reservation's first answer, the answers to come, and its end need.
type kept struct {
	id, key          [16]byte // a key that is a UUID: its text takes 20 bytes more
	body             uint64   // the same key with another body is refused
	customer, older  uint32   // whose it is, and the customer's one that was made before it
	subscription     uint32
	feature          uint16
	created, index   uint64 // 6 bytes each: milliseconds, and the log entry that made it
	lives, closed    uint32 // milliseconds, and seconds since it was made
	state, events    uint8
	granted, settled uint64
	limit, remaining uint64 // what there was, as the first answer says
}

const fixedBytes = 16 + 16 + 1 + 8 + 4 + 4 + 4 + 2 + 6 + 6 + 4 + 4 + 1 + 1

// append appends a record: what may change later has its room.
func (k *kept) append(dst []byte) []byte {
	six := func(n uint64) {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
		dst = binary.LittleEndian.AppendUint16(dst, uint16(n>>32))
	}
	dst = append(dst, k.id[:]...)
	dst = append(append(dst, 0), k.key[:]...) // 0: a UUID, else a text's length
	dst = binary.LittleEndian.AppendUint64(dst, k.body)
	for _, n := range [...]uint32{k.customer, k.older, k.subscription, k.lives, k.closed} {
		dst = binary.LittleEndian.AppendUint32(dst, n)
	}
	dst = binary.LittleEndian.AppendUint16(dst, k.feature)
	six(k.created)
	six(k.index)
	dst = append(dst, k.state, k.events)
	dst = scaled(dst, k.granted)
	settled := len(dst)
	dst = scaled(dst, k.granted) // room for settled, which is no longer, mostly
	scaled(dst[:settled:len(dst)], k.settled)
	return scaled(scaled(dst, k.limit), k.remaining)
}

// scaled appends a whole number, with two bits that say so.
func scaled(dst []byte, n uint64) []byte { return binary.AppendUvarint(dst, n<<2) }

// read is the record at a place.
func (s *shelf) read(at uint32) (k kept) {
	b := s.records[at:]
	copy(k.id[:], b)
	copy(k.key[:], b[17:])
	k.body = binary.LittleEndian.Uint64(b[33:])
	for i, n := range [...]*uint32{&k.customer, &k.older, &k.subscription, &k.lives, &k.closed} {
		*n = binary.LittleEndian.Uint32(b[41+4*i:])
	}
	k.feature = binary.LittleEndian.Uint16(b[61:])
	six := func(b []byte) uint64 {
		return uint64(binary.LittleEndian.Uint32(b)) | uint64(binary.LittleEndian.Uint16(b[4:]))<<32
	}
	k.created, k.index = six(b[63:]), six(b[69:])
	k.state, k.events = b[75], b[76]
	n := fixedBytes
	next := func() uint64 {
		v, size := binary.Uvarint(b[n:])
		n += size
		return v >> 2
	}
	k.granted = next()
	end := n + n - fixedBytes
	k.settled = next()
	n = end
	k.limit, k.remaining = next(), next()
	return k
}

// place is where a table has a record's place, or where it is to have it.
func place(table []uint32, hash uint64, is func(at uint32) bool) *uint32 {
	i := int(hash >> 32 * uint64(len(table)) >> 32)
	for table[i] != 0 && !is(table[i]-1) {
		i = (i + 1) % len(table)
	}
	return &table[i]
}

func (s *shelf) add(k *kept) {
	never := func(uint32) bool { return false }
	at := uint32(len(s.records))
	s.records = k.append(s.records)
	*place(s.byID, binary.LittleEndian.Uint64(k.id[:]), never) = at + 1
	*place(s.byKey, binary.LittleEndian.Uint64(k.key[:]), never) = at + 1
	s.expiring = append(s.expiring, at)
}

// BenchmarkReservationMemoryFloor is to be compared with BenchmarkReservationMemory of
// engine/billing: bytes of a reservation of one feature with its item.
func BenchmarkReservationMemoryFloor(b *testing.B) {
	const many = 200_000
	random := func(to []byte) {
		for i := range to {
			to[i] = byte(rand.Uint32())
		}
	}
	list := make([]kept, many)
	size := 0
	for i := range list {
		k := &list[i]
		random(k.id[:])
		random(k.key[:])
		k.body, k.customer, k.older = rand.Uint64(), uint32(i%10_000), uint32(max(0, i-10_000))
		k.subscription, k.feature, k.created = k.customer, 3, 1_770_000_000_000+uint64(i)
		k.index, k.lives, k.state = 1<<40, 600_000, 1
		k.granted, k.limit, k.remaining = 1200, 5000, 3800
		size += len(k.append(nil))
	}
	before := heapBytes()
	s := &shelf{
		records: make([]byte, 0, size), expiring: make([]uint32, 0, many),
		byID: make([]uint32, many*10/9), byKey: make([]uint32, many*10/9),
	}
	for i := range list {
		s.add(&list[i])
	}
	used := heapBytes() - before
	for i := range list { // nothing is lost
		want := &list[i]
		at := *place(s.byID, binary.LittleEndian.Uint64(want.id[:]),
			func(at uint32) bool { return s.read(at).id == want.id })
		same := *place(s.byKey, binary.LittleEndian.Uint64(want.key[:]),
			func(at uint32) bool { return s.read(at).key == want.key })
		if at != same || s.read(at-1) != *want {
			b.Fatalf("%d is kept as %+v, and was %+v", i, s.read(at-1), want)
		}
	}
	for b.Loop() {
		continue
	}
	b.ReportMetric(float64(used)/many, "B/reservation")
	b.ReportMetric(float64(used)/many+float64(len(uuid.Text(list[0].key))-16), "B/text-key")
	b.ReportMetric(0, "ns/op")
	runtime.KeepAlive(s)
}

// heapBytes is what is in use of the heap.
func heapBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
