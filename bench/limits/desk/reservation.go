package desk

import (
	"encoding/binary"

	"tollgate/engine/decimal"
	"tollgate/engine/machine"
	"tollgate/engine/prefetch"
	"tollgate/engine/wire"
)

// held is what has to be kept of a reservation of one feature: id, key, whose it is, units, times,
// the customer's ones that were made before and after, those that expire before and after, the one
// that was closed next, and of its answer what nothing else keeps: what there was. It is two
// lines and a half.
type held struct {
	id, key                [16]byte
	body                   uint64
	customer, older, newer uint32
	previous, next         uint32
	text, due              uint32 // where its key's text is, and when it expires
	feature, state         uint32
	events                 uint32
	units, settled         decimal.Short
	limit, remaining       decimal.Short
	created, expires       int64
	closed                 int64
	index                  uint64
}

// due is when a reservation expires.
type due struct {
	at  int64
	row uint32
}

// answer appends what a client is told about a reservation.
func (h *held) answer(dst []byte, d *Desk, p *person) []byte {
	key := d.texts[h.text:]
	dst = append(append(dst, 0x0a, 16), h.id[:]...)
	dst = append(append(dst, 0x12, key[0]), key[1:1+key[0]]...)
	dst = append(append(dst, 0x1a, p.length), p.external[:p.length]...)
	dst = binary.AppendUvarint(append(dst, 0x20), uint64(h.state))
	dst = binary.AppendUvarint(append(dst, 0x30), uint64(h.created))
	dst = binary.AppendUvarint(append(dst, 0x38), uint64(h.expires))
	dst = append(append(dst, 0x4a, 90, 0x0a, 13), featureNames[h.feature]...)
	dst = append(append(dst, 0x12, 16), p.subscription[:]...)
	for n, v := range [...]decimal.Short{h.units, h.settled, h.limit, h.remaining} {
		dst = wire.AppendDecimal(dst, 3+n, v.Decimal())
	}
	dst = append(dst, 0x4a, 5, 'l', 'i', 'm', 'i', 't')
	return binary.AppendUvarint(append(dst, 0x68), d.index)
}

var featureNames = [...]string{"", "requests", "input-tokens", "output-tokens"}

// tell keeps an answer for the proposer. Several share an allocation.
func (d *Desk) tell(h *held, p *person) {
	const each = 256
	if len(d.replies) < each {
		d.replies = make([]byte, Together*each)
	}
	answer := h.answer(d.replies[:0:each], d, p)
	d.replies = d.replies[len(answer):]
	d.Results = append(d.Results, Result{Counted, answer})
}

// later reports whether a reservation expires after another one.
func (d *Desk) later(row, other uint32) bool {
	at, otherAt := d.rows.Read(row).expires, d.rows.Read(other).expires
	return at > otherAt || at == otherAt && row > other
}

// link puts a reservation among the customer's open ones, by the instant of expiry. Most live as
// long, so it is the last.
func (d *Desk) link(p *person, row uint32) {
	before, next := p.last, uint32(0)
	for before != 0 && d.later(before, row) {
		before, next = d.rows.Read(before).previous, before
	}
	h := d.rows.Write(row)
	if h.previous, h.next = before, next; before != 0 {
		d.rows.Write(before).next = row
	} else {
		p.first, p.expires = row, h.expires
	}
	if next != 0 {
		d.rows.Write(next).previous = row
	} else {
		p.last = row
	}
}

// unlink takes a reservation out of them, and puts it behind those that were closed before it.
func (d *Desk) unlink(p *person, row uint32) {
	h := d.rows.Write(row)
	if h.previous != 0 {
		d.rows.Write(h.previous).next = h.next
	} else if p.first = h.next; h.next != 0 {
		p.expires = d.rows.Read(h.next).expires
	} else {
		p.expires = 1<<63 - 1
	}
	if h.next != 0 {
		d.rows.Write(h.next).previous = h.previous
	} else {
		p.last = h.previous
	}
	h.previous, h.next, h.closed = 0, 0, d.now
	if d.last != 0 {
		d.rows.Write(d.last).next = row
	} else {
		d.closed = row
	}
	d.last = row
}

// fold mixes what became of a reservation into the state's hash.
func (d *Desk) fold(row uint32, h *held) {
	d.hash = machine.Fold(d.hash, uint64(row)<<8|uint64(h.state)^uint64(h.expires)<<20)
	d.hash = machine.Fold(d.hash, uint64(h.units)^uint64(h.settled)<<1)
}

// Reserve applies up to Together reservations.
func (d *Desk) Reserve(commands [][]byte) {
	list := d.list[:len(commands)]
	d.lines = d.lines[:0]
	for i := range list {
		c := &list[i]
		c.read(ofReservation, commands[i])
		c.idHash, c.keyHash, c.nameHash = d.keys.Hash(c.id), d.keys.Hash(c.key), d.nameHash(c.name)
		d.lines = append(d.lines, prefetch.Of(d.byID.Near(c.idHash)),
			prefetch.Of(d.byKey.Near(c.keyHash)), prefetch.Of(d.names.Near(c.nameHash)))
	}
	prefetch.Lines(d.lines)
	d.lines = d.lines[:0]
	for i := range list {
		c := &list[i]
		if c.customer = d.names.Guess(c.nameHash); c.customer != 0 {
			p := d.people.Read(c.customer)
			d.lines = append(d.lines, prefetch.Of(p), prefetch.Of(&p.subscription), prefetch.Of(&p.holds),
				prefetch.Of(&d.stripes[c.customer%uint32(len(d.stripes))]))
		}
	}
	prefetch.Lines(d.lines)
	d.lines = d.lines[:0]
	for i := range list {
		if c := &list[i]; c.customer != 0 {
			p := d.people.Read(c.customer)
			if p.newest != 0 {
				d.lines = append(d.lines, prefetch.Of(&d.rows.Read(p.newest).newer))
			}
			if p.last != 0 {
				h := d.rows.Read(p.last)
				d.lines = append(d.lines, prefetch.Of(&h.next), prefetch.Of(&h.expires))
			}
		}
	}
	prefetch.Lines(d.lines)
	for i := range list {
		d.reserveOne(&list[i])
	}
}

// Bounds of open reservations.
const (
	maxOpen    = 1000
	maxAllOpen = 1 << 20
	maxKept    = 16 << 20
)

func (d *Desk) reserveOne(c *command) {
	if d.byKey.Find(c.keyHash, func(row uint32) bool { return d.rows.Read(row).key == c.key }) != 0 {
		return // its first answer
	}
	if c.ttl < 1000 || c.ttl > 24*3600*1000 || c.units.Sign() <= 0 {
		return
	}
	row, p := d.customerOf(c)
	if p == nil || p.archived || p.open >= maxOpen || d.open >= maxAllOpen || d.all >= maxKept ||
		d.closed != 0 && d.rows.Read(d.closed).closed < d.now-retentionMS {
		return
	}
	feature := d.features[string(c.feature)]
	v := &d.versions[p.version]
	if feature == 0 || p.rest != 0 {
		return
	}
	total, _ := p.used[feature-1].Decimal().Add(p.holds)
	limit := v.limits[feature]
	left, _ := limit.Sub(total)
	if v.limited[feature] && left.Less(c.units) {
		return
	}
	left, _ = left.Sub(c.units)

	lock := &d.stripes[row%uint32(len(d.stripes))]
	lock.Lock()
	at, h := d.rows.Append()
	h.id, h.key, h.body, h.customer, h.feature = c.id, c.key, c.body, row, feature
	h.units, _ = c.units.Short()
	h.limit, _ = limit.Short()
	h.remaining, _ = left.Short()
	h.created, h.expires, h.state, h.index = d.now, d.now+int64(c.ttl), 1, d.index
	h.text, h.due = uint32(len(d.texts)), uint32(len(d.expiring))
	d.texts = append(append(d.texts, byte(len(c.keyText))), c.keyText...)
	p = d.people.Write(row)
	if h.older = p.newest; p.newest != 0 {
		d.rows.Write(p.newest).newer = at
	}
	p.newest, p.open, p.held = at, p.open+1, true
	d.link(p, at)
	p.holds, _ = p.holds.Add(c.units)
	d.byID.Insert(c.idHash, at)
	d.byKey.Insert(c.keyHash, at)
	lock.Unlock()
	d.expiring = append(d.expiring, due{h.expires, at})
	d.open, d.all = d.open+1, d.all+1
	d.fold(at, h)
	d.tell(h, p)
}

// Settle applies up to Together settlements: each records an event, under a key of its own that its
// proposer has made.
func (d *Desk) Settle(commands [][]byte) {
	list := d.list[:len(commands)]
	d.lines = d.lines[:0]
	for i := range list {
		c := &list[i]
		c.read(ofReservation, commands[i])
		c.idHash = d.keys.Hash(c.id)
		d.lines = append(d.lines, prefetch.Of(d.byID.Near(c.idHash)))
	}
	prefetch.Lines(d.lines)
	d.lines = d.lines[:0]
	for i := range list {
		c := &list[i]
		c.row = d.byID.Guess(c.idHash)
		h := d.rows.Read(c.row)
		d.lines = append(d.lines, prefetch.Of(&h.id), prefetch.Of(&h.feature), prefetch.Of(&h.index))
		c.key = c.id // which stands for the hash that the proposer has made
		c.key[4]++
		c.keyHash = d.keys.Hash(c.key)
		d.lines = append(d.lines, prefetch.Of(d.keys.Near(c.keyHash)))
	}
	prefetch.Lines(d.lines)
	d.lines = d.lines[:0]
	for i := range list {
		h := d.rows.Read(list[i].row)
		p := d.people.Read(h.customer)
		d.lines = append(d.lines, prefetch.Of(p), prefetch.Of(&p.subscription), prefetch.Of(&p.holds),
			prefetch.Of(&d.stripes[h.customer%uint32(len(d.stripes))]),
			prefetch.Of(&d.texts[h.text]), prefetch.Of(&d.expiring[h.due]))
		if h.previous != 0 {
			d.lines = append(d.lines, prefetch.Of(&d.rows.Read(h.previous).next))
		}
		if h.next != 0 {
			d.lines = append(d.lines, prefetch.Of(&d.rows.Read(h.next).previous))
		}
	}
	prefetch.Lines(d.lines)
	for i := range list {
		d.settleOne(&list[i], i)
	}
}

func (d *Desk) settleOne(c *command, position int) {
	row := d.byID.Find(c.idHash, func(row uint32) bool { return d.rows.Read(row).id == c.id })
	if row == 0 {
		return
	}
	h := d.rows.Write(row)
	p := d.people.Read(h.customer)
	if h.state != 1 || p.env != 1 || p.due <= d.now || p.expires <= d.now || p.rest != 0 ||
		c.units.Sign() < 0 {
		return
	}
	if _, used := d.keys.Find(c.key, c.keyHash); used ||
		d.keys.Present().InMemory() >= 1<<32-2 {
		return
	}
	v := &d.versions[p.version]
	u := usage{row: h.customer, feature: h.feature, outcome: Counted}
	if u.hasCost = v.costs[u.feature]; u.hasCost {
		u.cost, _ = c.units.Mul(v.cost[u.feature])
	}
	delta, _ := c.units.Sub(h.settled.Decimal())
	u.sum, _ = p.used[u.feature-1].Decimal().Add(delta)
	beyond := h.units.Decimal().Less(c.units)
	if total, _ := u.sum.Add(p.holds); v.limited[u.feature] &&
		(beyond || !total.Less(v.limits[u.feature])) {
		u.outcome = LimitReached
	}
	lock := &d.stripes[h.customer%uint32(len(d.stripes))]
	lock.Lock()
	p = d.people.Write(h.customer)
	p.used[u.feature-1], _ = u.sum.Short()
	p.holds, _ = p.holds.Sub(h.units.Decimal())
	p.open--
	p.held = p.open > 0
	h.settled, _ = c.units.Short()
	h.state, h.events = 2, h.events+1
	d.unlink(p, row)
	lock.Unlock()
	d.expiring[h.due].row = 0
	d.open--
	d.seal(c, h, p)
	d.recordEvent(c, &u, p, position, h)
	d.fold(row, h)
	d.tell(h, p)
}

// seal makes the event of a settlement, as an event's own command has it.
func (d *Desk) seal(c *command, h *held, p *person) {
	b := append(append(d.sealed[:0], 0x08, 1, 0x12, 16), c.key[:]...)
	b = append(b, 0x18, 1, 0x25, 0, 0, 0, 0, 0x2a, 50)
	b = append(b, "reservation:"...)
	for i, x := range h.id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			b = append(b, '-')
		}
		b = append(b, "0123456789abcdef"[x>>4], "0123456789abcdef"[x&15])
	}
	b = append(append(append(b, ":1"...), 0x32, p.length), p.external[:p.length]...)
	name := featureNames[h.feature]
	b = append(append(append(b, 0x42, byte(len(name))), name...), 0x4a, byte(len(name)))
	b = wire.AppendDecimal(append(b, name...), 11, c.units)
	b = binary.AppendUvarint(append(b, 0x60), uint64(d.now))
	b = append(append(b, 0x7a, 16), p.subscription[:]...)
	d.sealed, c.bytes, c.occurredAt, c.attempt = b, b, d.now, uint32(d.index)|1
}
