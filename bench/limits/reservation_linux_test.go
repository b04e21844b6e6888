package limits_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"tollgate/engine/idempotency"
	"tollgate/engine/journal"
	"tollgate/engine/page"
	"tollgate/engine/prefetch"
)

// held is what has to be kept of a reservation of one feature: its id, its key, whose it is, units,
// times and links; answered is what its repeats are answered with.
type held struct {
	id, key, _       [16]byte // the last is of the body
	customer, _      uint32   // the last is the customer's next reservation
	units, settled   uint64
	created, expires int64
	_, closed        uint64 // the first is the subject
	state, _         uint64 // the last is what is outstanding
	answered         [150]byte
}

// desk keeps reservations, and nothing else.
type desk struct {
	rows        *page.Table[held]
	byID, byKey *page.Index
	customers   []uint64 // what each holds
	expiring    []uint32 // who expires next: all live as long
	keys        *idempotency.Keys
	records     *journal.Journal
	cut         []journal.Segment
	index       uint64
	answer      []byte
	lines       []prefetch.Address
}

// booking is a reservation or its settlement.
type booking struct {
	id, key  [16]byte
	customer uint32
}

func hashOf(id *[16]byte) uint64 { return binary.LittleEndian.Uint64(id[:]) }

func (d *desk) reserve(list []booking) {
	d.lines = d.lines[:0]
	for i := range list {
		a := &list[i]
		d.lines = append(d.lines, prefetch.Of(d.byID.Near(hashOf(&a.id))),
			prefetch.Of(d.byKey.Near(hashOf(&a.key))), prefetch.Of(&d.customers[a.customer]))
	}
	prefetch.Lines(d.lines)
	for i := range list {
		a := &list[i]
		same := func(row uint32) bool { return d.rows.Read(row).key == a.key }
		if d.byKey.Find(hashOf(&a.key), same) != 0 {
			continue
		}
		row, h := d.rows.Append()
		*h = held{id: a.id, key: a.key, customer: a.customer, units: 3, created: 1, expires: 2, state: 1}
		h.answered[0] = byte(row)
		d.answer = append(d.answer[:0], h.answered[:]...)
		d.byID.Insert(hashOf(&a.id), row)
		d.byKey.Insert(hashOf(&a.key), row)
		d.customers[a.customer] += 3
		d.expiring = append(d.expiring, row)
	}
}

func (d *desk) settle(list []booking) {
	rows := make([]uint32, len(list))
	d.lines = d.lines[:0]
	for i := range list {
		d.lines = append(d.lines, prefetch.Of(d.byID.Near(hashOf(&list[i].id))),
			prefetch.Of(&d.customers[list[i].customer]),
			prefetch.Of(d.keys.Near(d.keys.Hash(list[i].key))))
	}
	prefetch.Lines(d.lines)
	d.lines = d.lines[:0]
	for i := range list {
		rows[i] = d.byID.Guess(hashOf(&list[i].id))
		h := d.rows.Read(rows[i])
		d.lines = append(d.lines, prefetch.Of(&h.id), prefetch.Of(&h.created))
	}
	prefetch.Lines(d.lines)
	d.cut = d.records.EndEntry(d.index, d.cut[:0])
	d.index++
	for i := range list {
		a, h := &list[i], d.rows.Write(rows[i])
		hash := d.keys.Hash(a.key)
		if _, used := d.keys.Find(a.key, hash); used || h.id != a.id {
			continue
		}
		h.settled, h.state, h.closed = 3, 2, d.index
		d.customers[a.customer] -= 3
		d.keys.Add(a.key, hash, idempotency.Slot{Attempt: 7, Outcome: 1}, 1, 0)
		d.records.Append(journal.Record{
			Kind: journal.KindUsage, Index: d.index, Position: uint32(i + 1), Owner: a.customer, At: 1,
			Payload: h.answered[:],
		})
		d.answer = append(d.answer[:0], h.answered[:]...)
	}
}

// BenchmarkReservationFloor is to be set beside BenchmarkReservation of engine/billing.
func BenchmarkReservationFloor(b *testing.B) {
	const together, customers = 64, 10_000
	for _, timed := range []string{"reserve", "settle"} {
		b.Run(timed, func(b *testing.B) {
			d := &desk{
				rows: page.NewTable(page.NewStore(), 0, page.Codec[held]{}),
				byID: page.NewIndex(), byKey: page.NewIndex(), customers: make([]uint64, customers),
				keys: filled(0), records: journal.New(),
			}
			lists := make([][together]booking, b.N)
			for i := range lists {
				for j := range lists[i] {
					a := &lists[i][j]
					for at := 0; at < 16; at += 8 {
						binary.LittleEndian.PutUint64(a.id[at:], rand.Uint64())
						binary.LittleEndian.PutUint64(a.key[at:], rand.Uint64())
					}
					a.customer = rand.Uint32N(customers)
				}
			}
			if timed == "settle" {
				for i := range lists {
					d.reserve(lists[i][:])
				}
			}
			stop := perUnit(b, together)
			for i := range lists {
				if timed == "reserve" {
					d.reserve(lists[i][:])
				} else {
					d.settle(lists[i][:])
				}
			}
			stop()
		})
	}
}
