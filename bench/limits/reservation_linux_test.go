package limits_test

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"sync"
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
// the customer's ones before and after, and what its answer says that nothing else does: what there
// was. It is two lines.
type held struct {
	id, key                [16]byte
	body                   uint64
	customer, older, newer uint32
	text, due              uint32 // where its key's text is, and when it expires
	state                  uint32
	units, settled         decimal.Short
	limit, remaining       decimal.Short
	created, expires       int64
	index                  uint64
}

// due is when a reservation expires.
type due struct {
	at  int64
	row uint32
}

// book is what is known of a customer, in a line: what it has used and holds, and its reservations.
type book struct {
	counter        decimal.Short
	held           decimal.Decimal
	newest, number uint32
	_, _           uint32 // feature and plan
	subscription   [16]byte
}

// stripe is a lock for those who read of some customers meanwhile.
type stripe struct {
	sync.RWMutex
	_ [128 - 24]byte
}

// desk keeps reservations, and nothing else.
type desk struct {
	seed        maphash.Seed
	features    map[string]uint32
	limits      []decimal.Decimal // of each feature
	names       [][16]byte        // of customers
	stripes     []stripe
	rows        *page.Table[held]
	byID, byKey *page.Index
	books       []book
	texts       []byte
	expiring    []due // the next one first: all live as long
	keys        *idempotency.Keys
	records     *journal.Journal
	cut         []journal.Segment
	index       uint64
	hash        uint64
	lines       []prefetch.Address
	list        [desked]booking
	record      []byte
}

// desked is how many commands an entry has.
const desked = 64

// booking is a reservation or its settlement.
type booking struct {
	id, key         [16]byte
	idHash, keyHash uint64
	customer, row   uint32
	name, keyText   []byte
	body            uint64
	feature         []byte
	units           decimal.Decimal
	ttl             uint64
	_               [64]byte // the text of an event's key
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
			c.id = [16]byte(data)
		case 3:
			if len(data) < 16 { // the item of a settlement
				c.units, _ = wire.Quick(data).Decimal(1)
				break
			}
			c.key = [16]byte(data)
		case 4:
			c.keyText = data
		case 5:
			c.body = v
		case 6:
			c.name, c.customer = data, uint32(maphash.Bytes(seed, data)%customers)
		case 8:
			c.feature = data[2 : 2+data[1]]
			c.units, _ = wire.Quick(data).Decimal(3 + len(c.feature))
		case 9:
			c.ttl = v
		}
		b = b[n:]
	}
	return rest
}

// answer appends what a client is told about a reservation.
func (h *held) answer(dst []byte, d *desk, index uint64) []byte {
	k := &d.books[h.customer]
	name, key := &d.names[h.customer], d.texts[h.text:]
	dst = append(append(dst, 0x0a, 16), h.id[:]...)
	dst = append(append(dst, 0x12, key[0]), key[1:1+key[0]]...)
	dst = append(append(dst, 0x1a, 16), name[:]...)
	dst = binary.AppendUvarint(append(dst, 0x20), uint64(h.state))
	dst = binary.AppendUvarint(append(dst, 0x30), uint64(h.created))
	dst = binary.AppendUvarint(append(dst, 0x38), uint64(h.expires))
	dst = append(append(dst, 0x4a, 90, 0x0a, 13), "output-tokens"...)
	dst = append(append(dst, 0x12, 16), k.subscription[:]...)
	for n, v := range [...]decimal.Short{h.units, h.settled, h.limit, h.remaining} {
		dst = wire.AppendDecimal(dst, 3+n, v.Decimal())
	}
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
		c.idHash, c.keyHash = d.keys.Hash(c.id), d.keys.Hash(c.key)
		d.lines = append(d.lines, prefetch.Of(d.byID.Near(c.idHash)),
			prefetch.Of(d.byKey.Near(c.keyHash)), prefetch.Of(&d.books[c.customer]))
	}
	prefetch.Lines(d.lines)
	d.lines = d.lines[:0]
	for i := range d.list {
		if newest := d.books[d.list[i].customer].newest; newest != 0 {
			d.lines = append(d.lines, prefetch.Of(&d.rows.Read(newest).newer))
		}
	}
	prefetch.Lines(d.lines)
	d.index++
	for i := range d.list {
		c := &d.list[i]
		if d.byKey.Find(c.keyHash, func(row uint32) bool { return d.rows.Read(row).key == c.key }) != 0 {
			continue
		}
		k := &d.books[c.customer]
		limit := d.limits[d.features[string(c.feature)]]
		used, _ := k.counter.Decimal().Add(k.held)
		left, _ := limit.Sub(used)
		if left.Less(c.units) {
			continue
		}
		lock := &d.stripes[int(c.customer)%len(d.stripes)]
		lock.Lock()
		row, h := d.rows.Append()
		h.id, h.key, h.customer, h.older, h.body = c.id, c.key, c.customer, k.newest, c.body
		if k.newest != 0 {
			d.rows.Write(k.newest).newer = row
		}
		h.units, _ = c.units.Short()
		h.limit, _ = limit.Short()
		left, _ = left.Sub(c.units)
		h.remaining, _ = left.Short()
		h.created, h.expires, h.state, h.index = 1, 1+int64(c.ttl), 1, d.index
		h.text, h.due = uint32(len(d.texts)), uint32(len(d.expiring))
		d.texts = append(append(d.texts, byte(len(c.keyText))), c.keyText...)
		k.held, _ = k.held.Add(c.units)
		k.newest, k.number = row, k.number+1
		d.byID.Insert(c.idHash, row)
		d.byKey.Insert(c.keyHash, row)
		d.expiring = append(d.expiring, due{h.expires, row})
		answers = h.answer(answers, d, d.index)
		lock.Unlock()
		_, low := c.units.Bits()
		d.hash = machine.Fold(machine.Fold(d.hash, uint64(row)), uint64(h.expires)^low)
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
		c.idHash = d.keys.Hash(c.id)
		d.lines = append(d.lines, prefetch.Of(d.byID.Near(c.idHash)))
	}
	prefetch.Lines(d.lines)
	d.lines = d.lines[:0]
	for i := range d.list {
		c := &d.list[i]
		c.row = d.byID.Guess(c.idHash)
		h := d.rows.Read(c.row)
		d.lines = append(d.lines, prefetch.Of(&h.id), prefetch.Of(&h.units))
		c.key = c.id // with the event's number mixed in
		c.key[4]++
		c.keyHash = d.keys.Hash(c.key)
		d.lines = append(d.lines, prefetch.Of(d.keys.Near(c.keyHash)))
	}
	prefetch.Lines(d.lines)
	d.lines = d.lines[:0]
	for i := range d.list {
		h := d.rows.Read(d.list[i].row)
		d.lines = append(d.lines, prefetch.Of(&d.books[h.customer]), prefetch.Of(&d.texts[h.text]),
			prefetch.Of(&d.expiring[h.due]))
	}
	prefetch.Lines(d.lines)
	d.cut = d.records.EndEntry(d.index, d.cut[:0])
	d.index++
	for i := range d.list {
		c := &d.list[i]
		h := d.rows.Write(c.row)
		if _, used := d.keys.Find(c.key, c.keyHash); used || h.id != c.id || h.state != 1 {
			continue
		}
		k := &d.books[h.customer]
		lock := &d.stripes[int(h.customer)%len(d.stripes)]
		lock.Lock()
		h.settled, _ = c.units.Short()
		h.state, d.expiring[h.due].row = 2, 0
		k.held, _ = k.held.Sub(h.units.Decimal())
		sum, _ := k.counter.Decimal().Add(c.units)
		k.counter, _ = sum.Short()
		lock.Unlock()
		d.keys.Add(c.key, c.keyHash, idempotency.Slot{Attempt: 7, Outcome: 1}, 1, 0)
		d.record = append(append(d.record[:0], c.key[:]...), "reservation:"...)
		for _, b := range h.id {
			d.record = append(d.record, "0123456789abcdef"[b>>4], "0123456789abcdef"[b&15])
		}
		d.record = append(append(append(d.record, ":1"...), d.names[h.customer][:]...), c.feature...)
		d.record = append(append(d.record, h.id[:]...), k.subscription[:]...)
		d.record = wire.AppendDecimal(d.record, 11, c.units)
		d.record = binary.AppendUvarint(binary.AppendUvarint(d.record, uint64(h.created)), d.index)
		d.records.Append(journal.Record{
			Kind: journal.KindUsage, Index: d.index, Position: uint32(i + 1), Owner: h.customer, At: 1,
			Payload: d.record,
		})
		answers = h.answer(answers, d, d.index)
		_, low := sum.Bits()
		d.hash = machine.Fold(machine.Fold(d.hash, uint64(c.row)), uint64(h.settled))
		d.hash = machine.Fold(machine.Fold(d.hash, uint64(h.customer)), low)
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
				byID: page.NewIndex(), byKey: page.NewIndex(), books: make([]book, customers),
				names: make([][16]byte, customers), keys: filled(0), records: journal.New(),
				features: map[string]uint32{"requests": 0, "input-tokens": 1, "output-tokens": 2},
				limits:   []decimal.Decimal{{}, {}, decimal.FromInt(1e9)}, stripes: make([]stripe, 1024),
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
