package limits_test

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"testing"

	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/idempotency"
	"tollgate/engine/journal"
	"tollgate/engine/machine"
	"tollgate/engine/page"
	"tollgate/engine/prefetch"
	"tollgate/engine/wire"
)

// held is what has to be kept of a reservation of one feature: id, key, whose it is, units, times,
// the customer's one before, and what its repeats are answered with.
type held struct {
	id, key, body, _    [16]byte // of the body 8 are used; the last are of budget, pool and flags
	customer, older     uint32
	units, settled      uint64
	created, expires    int64
	closed, _           uint64 // the last is the subject
	state, answerLength uint32
	answered            [180]byte
}

// due is when a reservation expires.
type due struct {
	at  int64
	row uint32
}

// book is what is known of a customer.
type book struct {
	counter        decimal.Short
	held           uint64
	newest, number uint32 // of its reservations
}

// desk keeps reservations, and nothing else.
type desk struct {
	seed     maphash.Seed
	rows     *page.Table[held]
	byID     *page.Index
	books    []book
	expiring []due // the next one first: all live as long
	keys     *idempotency.Keys
	records  *journal.Journal
	cut      []journal.Segment
	index    uint64
	hash     uint64
	lines    []prefetch.Address
	list     [desked]booking
	record   []byte
}

// desked is how many commands an entry has.
const desked = 64

// booking is a reservation or its settlement.
type booking struct {
	id, key        [16]byte
	keyHash        uint64
	customer, row  uint32
	name, keyText  []byte
	body           uint64
	feature, units []byte
	ttl            uint64
	text           [64]byte
}

// read takes a command from the front of bytes, behind its length. Its fields have a byte for the
// tag and one for the length.
func (c *booking) read(seed maphash.Seed, customers uint64, all []byte) (rest []byte) {
	b, rest := all[1:1+all[0]], all[1+all[0]:]
	for len(b) > 0 {
		tag, n := b[0], 0
		var data []byte
		var v uint64
		if tag&7 == 2 {
			data, n = b[2:2+b[1]], 2+int(b[1])
		} else {
			var size int
			v, size = binary.Uvarint(b[1:])
			n = 1 + size
		}
		switch tag >> 3 {
		case 2:
			copy(c.id[:], data)
		case 3:
			copy(c.key[:], data)
		case 4:
			c.keyText = data
		case 5:
			c.body = v
		case 6:
			c.name, c.customer = data, uint32(maphash.Bytes(seed, data)%customers)
		case 8:
			c.feature, c.units = data[2:2+data[1]], data[2+data[1]:]
		case 9:
			c.ttl = v
		}
		b = b[n:]
	}
	return rest
}

func hashOf(id *[16]byte) uint64 { return binary.LittleEndian.Uint64(id[:]) }

// answer appends what a client is told about a reservation.
func (h *held) answer(dst []byte, c *booking, index uint64) []byte {
	dst = append(append(dst, 0x0a, 16), h.id[:]...)
	dst = append(append(dst, 0x12, byte(len(c.keyText))), c.keyText...)
	dst = append(append(dst, 0x1a, byte(len(c.name))), c.name...)
	dst = binary.AppendUvarint(append(dst, 0x20), uint64(h.state))
	dst = binary.AppendUvarint(append(dst, 0x30), uint64(h.created))
	dst = binary.AppendUvarint(append(dst, 0x38), uint64(h.expires))
	dst = append(append(dst, 0x4a, 60, 0x0a, byte(len(c.feature))), c.feature...)
	dst = append(append(dst, 0x12, 16), h.id[:]...) // as long as that of the subscription
	dst = binary.AppendUvarint(append(dst, 0x1a), h.units)
	dst = binary.AppendUvarint(append(dst, 0x22), h.settled)
	dst = append(dst, 0x4a, 5, 'l', 'i', 'm', 'i', 't')
	return binary.AppendUvarint(append(dst, 0x68), index)
}

// reserve applies an entry of reservations.
func (d *desk) reserve(commands []byte) (rest []byte) {
	answers := make([]byte, 0, desked*256)
	d.lines = d.lines[:0]
	for i := range d.list {
		c := &d.list[i]
		commands = c.read(d.seed, uint64(len(d.books)), commands)
		c.keyHash = d.keys.Hash(c.key)
		d.lines = append(d.lines, prefetch.Of(d.byID.Near(hashOf(&c.id))),
			prefetch.Of(d.keys.Near(c.keyHash)), prefetch.Of(&d.books[c.customer]))
	}
	prefetch.Lines(d.lines)
	d.index++
	for i := range d.list {
		c := &d.list[i]
		if _, used := d.keys.Find(c.key, c.keyHash); used {
			continue
		}
		k := &d.books[c.customer]
		if used, _ := k.counter.Decimal().Add(decimal.FromInt(int64(k.held + 3))); used.Sign() <= 0 {
			continue
		}
		row, h := d.rows.Append()
		h.id, h.key, h.customer, h.older = c.id, c.key, c.customer, k.newest
		binary.LittleEndian.PutUint64(h.body[:], c.body)
		h.units, h.created, h.expires, h.state = 3, 1, 1+int64(c.ttl), 1
		k.newest, k.held, k.number = row, k.held+3, k.number+1
		d.byID.Insert(hashOf(&c.id), row)
		d.keys.Add(c.key, c.keyHash, idempotency.Slot{Attempt: row, Outcome: 1}, 1, 0)
		d.expiring = append(d.expiring, due{h.expires, row})
		begin := len(answers)
		answers = h.answer(answers, c, d.index)
		h.answerLength = uint32(copy(h.answered[:], answers[begin:]))
		d.hash = machine.Fold(machine.Fold(d.hash, uint64(row)), uint64(h.expires)^h.units)
	}
	return commands
}

// settle applies an entry of settlements: each records an event, under a key of its own.
func (d *desk) settle(commands []byte) (rest []byte) {
	answers := make([]byte, 0, desked*256)
	d.lines = d.lines[:0]
	for i := range d.list {
		c := &d.list[i]
		commands = c.read(d.seed, uint64(len(d.books)), commands)
		d.lines = append(d.lines, prefetch.Of(d.byID.Near(hashOf(&c.id))))
	}
	prefetch.Lines(d.lines)
	d.lines = d.lines[:0]
	for i := range d.list {
		c := &d.list[i]
		c.row = d.byID.Guess(hashOf(&c.id))
		h := d.rows.Read(c.row)
		d.lines = append(d.lines, prefetch.Of(&h.id), prefetch.Of(&h.created), prefetch.Of(&h.answered))
		text := append(c.text[:0], "\x01\x00\x00\x00reservation:"...)
		c.keyText = append(append(append(text, c.id[:]...), c.id[:]...), "0000:1"...)
		sum := sha256.Sum256(c.keyText)
		c.key = [16]byte(sum[:16])
		c.keyHash = d.keys.Hash(c.key)
		d.lines = append(d.lines, prefetch.Of(d.keys.Near(c.keyHash)))
	}
	prefetch.Lines(d.lines)
	d.lines = d.lines[:0]
	for i := range d.list {
		d.lines = append(d.lines, prefetch.Of(&d.books[d.rows.Read(d.list[i].row).customer]))
	}
	prefetch.Lines(d.lines)
	d.cut = d.records.EndEntry(d.index, d.cut[:0])
	d.index++
	for i := range d.list {
		c := &d.list[i]
		h := d.rows.Write(c.row)
		if _, used := d.keys.Find(c.key, c.keyHash); used || h.id != c.id {
			continue
		}
		k := &d.books[h.customer]
		h.settled, h.state, h.closed = 3, 2, d.index
		k.held -= 3
		sum, _ := k.counter.Decimal().Add(decimal.FromInt(3))
		k.counter, _ = sum.Short()
		d.keys.Add(c.key, c.keyHash, idempotency.Slot{Attempt: 7, Outcome: 1}, 1, 0)
		d.record = append(append(d.record[:0], c.key[:]...), c.keyText[4:]...)
		d.record = append(append(d.record, h.id[:]...), h.answered[:40]...)
		d.records.Append(journal.Record{
			Kind: journal.KindUsage, Index: d.index, Position: uint32(i + 1), Owner: h.customer, At: 1,
			Payload: d.record,
		})
		c.name, c.feature = h.answered[20:36], h.answered[36:49]
		answers = h.answer(answers, c, d.index)
		d.hash = machine.Fold(machine.Fold(d.hash, uint64(c.row)), h.settled)
		d.hash = machine.Fold(machine.Fold(d.hash, uint64(h.customer)), 3)
	}
	return commands
}

// BenchmarkReservationFloor is to be set beside BenchmarkReservation of engine/billing. The event
// is that of BenchmarkApplyFloor, of as many customers and in entries of as many.
func BenchmarkReservationFloor(b *testing.B) {
	const customers = 10_000
	b.Run("event", func(b *testing.B) { applied(b, filled(0), customers, desked, 0) })
	for _, timed := range []string{"reserve", "settle"} {
		b.Run(timed, func(b *testing.B) {
			d := &desk{
				seed: maphash.MakeSeed(), rows: page.NewTable(page.NewStore(), 0, page.Codec[held]{}),
				byID: page.NewIndex(), books: make([]book, customers), keys: filled(0),
				records: journal.New(),
			}
			var reserves, settles []byte
			for range b.N * desked {
				reserves, settles = pair(reserves, settles, customerName(rand.IntN(customers)))
			}
			if timed == "settle" {
				for range b.N {
					reserves = d.reserve(reserves)
				}
			}
			stop := perUnit(b, desked)
			for range b.N {
				if timed == "reserve" {
					reserves = d.reserve(reserves)
				} else {
					settles = d.settle(settles)
				}
			}
			stop()
		})
	}
}

// pair appends a reservation of a customer, and its settlement, as the log has them, each behind
// its length.
func pair(reserves, settles, customer []byte) (_, _ []byte) {
	key := fmt.Sprintf("bench-%012d", len(reserves))
	r := billing.Reserve{
		Env: 1, Key: billing.ReservationKey(1, []byte(key)), KeyText: key, Body: rand.Uint64(),
		Customer: string(customer), TTLMS: 600_000,
		Items: []billing.ReserveItem{{FeatureKey: "output-tokens", Units: decimal.FromInt(3)}},
	}
	binary.LittleEndian.PutUint64(r.ID[:], rand.Uint64())
	binary.LittleEndian.PutUint64(r.ID[8:], rand.Uint64())
	s := billing.SettleReservation{
		Env: 1, ID: r.ID, Items: []billing.SettleItem{{Units: decimal.FromInt(3)}},
	}
	one, other := wire.Encode(nil, &r), wire.Encode(nil, &s)
	reserves = append(append(reserves, byte(len(one))), one...)
	return reserves, append(append(settles, byte(len(other))), other...)
}
