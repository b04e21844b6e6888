// Package desk is a state machine that does all that usage events, checks and reservations ask of
// one, in the best way known. See DESIGN.md in the folder above.
package desk

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"tollgate/engine/decimal"
	"tollgate/engine/idempotency"
	"tollgate/engine/journal"
	"tollgate/engine/machine"
	"tollgate/engine/page"
	"tollgate/engine/prefetch"
	"tollgate/engine/wire"
)

// person is a customer with its subscription, its counters, and what its reservations hold, in
// three lines, where the product has rows of five tables.
type person struct {
	env, version           uint32
	due, expires           int64 // of the subscription, and of the reservation that expires first
	archived, held, owns   bool
	length                 uint8
	external               [36]byte
	subscription           [16]byte
	periodStart, periodEnd int64
	period, rest           uint32
	used                   [3]decimal.Short
	holds                  decimal.Decimal
	first, last, newest    uint32
	open                   uint32
	_                      [32]byte
}

// MaxName is how long a customer's name may be, in bytes.
const MaxName = len(person{}.external)

// version is a plan's features, by their numbers.
type version struct {
	limits [4]decimal.Decimal
	limited,
	costs [4]bool
	cost [4]decimal.Decimal
}

// stripe is a lock for those who read of some customers meanwhile.
type stripe struct {
	sync.RWMutex
	_ [128 - 24]byte
}

// Desk is the machine: one goroutine applies, any may Check.
type Desk struct {
	seed     maphash.Seed
	features map[string]uint32
	versions []version
	names    *page.Index
	people   *page.Table[person]
	stripes  []stripe
	budgets  *forest // nil: none

	keys    *idempotency.Keys
	records *journal.Journal
	cut     []journal.Segment
	index   uint64
	shown   atomic.Uint64 // index of the newest entry that has ended
	hash    uint64
	now     int64

	kept
	room
}

// kept are the reservations.
type kept struct {
	rows         *page.Table[held]
	byID, byKey  *page.Index
	texts        []byte
	expiring     []due // the next one first: all live as long
	closed, last uint32
	open, all    int
}

// room is memory that every entry uses again.
type room struct {
	lines           []prefetch.Address
	list            [Together]command
	record, charged []byte
	sealed          []byte // the event of a settlement
	replies         []byte
	// Results are what the proposers of the entry's commands are told, but for those that are refused
	// reservations.
	Results []Result
}

// Result is what a proposer is told.
type Result struct {
	Outcome Outcome
	Value   []byte
}

// Outcome is what became of an event.
type Outcome uint8

// Outcomes.
const (
	Counted Outcome = 1 + iota
	LimitReached
	Unbilled Outcome = 250 + iota // cannot be priced, or counts for no feature
	Unknown                       // no such customer
	Invalid
	Repeated
)

// Together is how many commands are prefetched together.
const Together = 64

const (
	retentionMS = 35 * 24 * 3600 * 1000
	windowMS    = 34 * 24 * 3600 * 1000
)

// New makes a desk with room for so many customers.
func New(customers int, keys *idempotency.Keys) *Desk {
	store := page.NewStore()
	d := &Desk{
		seed: maphash.MakeSeed(), names: page.NewIndex(), stripes: make([]stripe, 512),
		people:   page.NewTable(store, 0, page.Codec[person]{}),
		features: map[string]uint32{"requests": 1, "input-tokens": 2, "output-tokens": 3},
		versions: make([]version, 2), keys: keys, records: journal.New(),
	}
	d.rows = page.NewTable(store, 1, page.Codec[held]{})
	d.byID, d.byKey = page.NewRoomyIndex(), page.NewRoomyIndex()
	v := &d.versions[1]
	v.limits[3], v.limited[3] = decimal.FromInt(1e9), true
	v.cost[2], v.costs[2] = decimal.MustParse("0.000001"), true
	d.names.Reserve(uint32(customers))
	return d
}

// Enrol adds a customer with a subscription. One that is there is not added again, nor one whose
// name is longer than MaxName.
func (d *Desk) Enrol(name []byte) {
	hash := d.nameHash(name)
	if len(name) > MaxName ||
		d.names.Find(hash, func(row uint32) bool { return d.is(row, name) }) != 0 {
		return
	}
	row, p := d.people.Append()
	*p = person{
		env: 1, version: 1, due: math.MaxInt64, expires: math.MaxInt64, length: uint8(len(name)),
		periodEnd: math.MaxInt64, owns: true,
	}
	copy(p.external[:], name)
	binary.LittleEndian.PutUint64(p.subscription[:], rand.Uint64())
	d.names.Insert(hash, row)
}

// Budget gives each customer a budget of its own, below others that are one less than the levels.
func (d *Desk) Budget(levels int) { d.budgets = newForest(int(d.people.Len()), levels) }

// Journal keeps what was recorded.
func (d *Desk) Journal() *journal.Journal { return d.records }

func (d *Desk) nameHash(name []byte) uint64 {
	return machine.Fold(maphash.Bytes(d.seed, name), 1)
}

func (d *Desk) is(row uint32, name []byte) bool {
	p := d.people.Read(row)
	return p.env == 1 && string(p.external[:p.length]) == string(name)
}

// command is an event, a reservation, or a settlement.
type command struct {
	id, key                   [16]byte
	idHash, keyHash, nameHash uint64
	customer, row             uint32 // likely ones
	attempt, fingerprint      uint32
	name, keyText, feature    []byte
	body, ttl                 uint64
	occurredAt                int64
	units                     decimal.Decimal
	bytes                     []byte
}

// Kinds of commands: to one, a field's number is added.
const (
	ofEvent       = 0
	ofReservation = 32 // or of its settlement
)

// read takes a command of a kind from its bytes. Its fields have a byte for the tag.
func (c *command) read(kind byte, b []byte) {
	c.bytes = b
	for len(b) > 0 {
		tag, n := b[0], 0
		var data []byte
		var v uint64
		if tag&7 == 2 {
			n = 2 + int(b[1])
			if data = b[2:]; b[1] >= 0x80 {
				length, size := binary.Uvarint(b[1:])
				data, n = b[1+size:], 1+size+int(length)
				data = data[:length]
			} else {
				data = data[:b[1]]
			}
		} else {
			var size int
			v, size = binary.Uvarint(b[1:])
			n = 1 + size
		}
		switch kind + tag>>3 {
		case ofEvent + 2:
			c.key = [16]byte(data)
		case ofEvent + 3:
			c.attempt = uint32(v)
		case ofEvent + 4:
			c.fingerprint = uint32(v)
		case ofEvent + 5, ofReservation + 4:
			c.keyText = data
		case ofEvent + 6, ofReservation + 6:
			c.name = data
		case ofEvent + 8:
			c.feature = data
		case ofEvent + 11:
			c.units, _ = wire.Quick(b).Decimal(1)
		case ofEvent + 12:
			c.occurredAt = int64(v >> 1)
		case ofReservation + 2:
			c.id = [16]byte(data)
		case ofReservation + 3:
			if len(data) < 16 { // the item of a settlement
				c.units, _ = wire.Quick(data).Decimal(1)
				break
			}
			c.key = [16]byte(data)
		case ofReservation + 5:
			c.body = v
		case ofReservation + 8:
			c.feature = data[2 : 2+data[1]]
			c.units, _ = wire.Quick(data).Decimal(3 + len(c.feature))
		case ofReservation + 9:
			c.ttl = v >> 1
		}
		b = b[n:]
	}
}

// customerOf finds a command's customer; nil where there is none, or where something of it is due.
func (d *Desk) customerOf(c *command) (row uint32, p *person) {
	row = d.names.Find(c.nameHash, func(row uint32) bool { return d.is(row, c.name) })
	if row == 0 {
		return 0, nil
	}
	if p = d.people.Read(row); p.due <= d.now || p.expires <= d.now {
		return 0, nil
	}
	return row, p
}

// usage is an event that was found good.
type usage struct {
	row, feature uint32
	sum, cost    decimal.Decimal
	hasCost      bool
	outcome      Outcome
}

// Begin begins an entry.
func (d *Desk) Begin(now int64) {
	d.now = now
	d.keys.Expire(now)
	d.index++
	d.Results = d.Results[:0]
}

// End ends the entry that was begun, and returns the segments that it has filled.
func (d *Desk) End() []journal.Segment {
	d.cut = d.records.EndEntry(d.index, d.cut[:0])
	for i := range d.cut {
		d.hash = machine.Fold(d.hash, d.cut[i].Hash)
	}
	d.keys.Show()
	d.shown.Store(d.index)
	return d.cut
}

// Events applies up to Together sealed events, of which the first has this position in the entry.
func (d *Desk) Events(sealed [][]byte, first int) {
	list := d.list[:len(sealed)]
	d.lines = d.lines[:0]
	for i := range list {
		c := &list[i]
		c.read(ofEvent, sealed[i])
		c.keyHash, c.nameHash = d.keys.Hash(c.key), d.nameHash(c.name)
		d.lines = append(d.lines, prefetch.Of(d.keys.Near(c.keyHash)),
			prefetch.Of(d.names.Near(c.nameHash)))
	}
	prefetch.Lines(d.lines)
	d.lines = d.lines[:0]
	for i := range list {
		c := &list[i]
		if c.customer = d.names.Guess(c.nameHash); c.customer != 0 {
			p := d.people.Read(c.customer)
			d.lines = append(d.lines, prefetch.Of(p), prefetch.Of(&p.subscription),
				prefetch.Of(&d.stripes[c.customer%uint32(len(d.stripes))]))
		}
	}
	prefetch.Lines(d.lines)
	for i := range list {
		outcome := d.event(&list[i], first+i)
		d.Results = append(d.Results, Result{Outcome: outcome})
	}
}

func (d *Desk) event(c *command, position int) Outcome {
	if slot, used := d.keys.Find(c.key, c.keyHash); used {
		if slot.Attempt == c.attempt {
			return Outcome(slot.Outcome)
		}
		return Repeated
	}
	if d.keys.Present().InMemory() >= math.MaxUint32-1 || c.occurredAt > d.now+300_000 ||
		c.occurredAt < d.now-windowMS || c.units.Sign() < 0 {
		return Invalid
	}
	row, p := d.customerOf(c)
	if p == nil || p.archived {
		return Unknown
	}
	u := usage{row: row, feature: d.features[string(c.feature)], outcome: Counted}
	if u.feature == 0 || p.rest != 0 || c.occurredAt < p.periodStart || c.occurredAt >= p.periodEnd {
		return Unbilled
	}
	v := &d.versions[p.version]
	var ok bool
	if u.hasCost = v.costs[u.feature]; u.hasCost {
		if u.cost, ok = c.units.Mul(v.cost[u.feature]); !ok {
			return Unbilled
		}
	}
	before := p.used[u.feature-1].Decimal()
	if u.sum, ok = before.Add(c.units); !ok {
		return Unbilled
	}
	if v.limited[u.feature] {
		total := u.sum
		if p.held {
			total, _ = total.Add(p.holds)
		}
		if !total.Less(v.limits[u.feature]) {
			u.outcome = LimitReached
		}
	}
	d.charged = d.charged[:0]
	if d.budgets != nil && p.owns {
		amount := d.budgets.added(uint64(u.feature-1), before, u.sum, c.units)
		d.charged = d.budgets.charge(uint64(row-1), amount, c.units, d.now, d.charged)
	}
	lock := &d.stripes[row%uint32(len(d.stripes))]
	lock.Lock()
	d.people.Write(row).used[u.feature-1], _ = u.sum.Short()
	lock.Unlock()
	d.recordEvent(c, &u, p, position, nil)
	return u.outcome
}

// recordEvent keeps an event's key and its journal record, as the product's has it.
func (d *Desk) recordEvent(c *command, u *usage, p *person, position int, of *held) {
	high, low := u.sum.Bits()
	d.hash = machine.Fold(d.hash, uint64(high)^low)
	d.hash = machine.Fold(d.hash, uint64(u.row)<<32|uint64(u.feature))
	d.keys.Add(c.key, c.keyHash, idempotency.Slot{
		Attempt: c.attempt, Fingerprint: c.fingerprint, Outcome: uint8(u.outcome),
	}, d.now, 1)
	b := binary.AppendUvarint(append(d.record[:0], 0x08), uint64(u.row))
	b = append(b, 0x10, byte(u.feature))
	if p.period != 0 {
		b = binary.AppendUvarint(append(b, 0x18), uint64(p.period))
	}
	b = binary.AppendUvarint(append(b, 0x20, uint8(u.outcome), 0x28), uint64(d.now))
	if u.hasCost {
		b = wire.AppendDecimal(append(b, 0x30, 1), 7, u.cost)
	}
	b = append(binary.AppendUvarint(append(b, 0x42), uint64(len(c.bytes))), c.bytes...)
	if len(d.charged) > 0 {
		b = append(append(b, 0x9a, 2, byte(len(d.charged))), d.charged...)
	}
	if of != nil {
		b = append(append(b, 0xaa, 2, 16), of.id[:]...)
	}
	d.record = b
	d.records.Append(journal.Record{
		Kind: journal.KindUsage, Index: d.index, Position: uint32(position + 1), Owner: u.row,
		At: c.occurredAt, Payload: b,
	})
}

// Audit keeps a block of audit events of checks.
func (d *Desk) Audit(block []byte, position int) {
	d.hash = machine.Fold(d.hash, uint64(len(block)))
	d.records.Append(journal.Record{
		Kind: journal.KindAudit, Index: d.index, Position: uint32(position + 1), At: d.now,
		Payload: block,
	})
}

// Decision is what a check finds.
type Decision struct {
	Row, Feature uint32 // 0: there is none
	Allowed      bool
	Limited      bool
	Used, Held   decimal.Decimal
	Limit        decimal.Decimal
	Index        uint64 // of the entry that it rests upon
}

// Check decides whether a customer may use a feature. Any goroutine.
func (d *Desk) Check(name, feature []byte, now int64) (c Decision) {
	c.Row = d.names.Find(d.nameHash(name), func(row uint32) bool { return d.is(row, name) })
	if c.Feature = d.features[string(feature)]; c.Row == 0 || c.Feature == 0 {
		return c
	}
	c.Index = d.shown.Load()
	lock := &d.stripes[c.Row%uint32(len(d.stripes))]
	lock.RLock()
	p := d.people.Read(c.Row)
	used, held, version := p.used[c.Feature-1], p.holds, p.version
	current := p.due > now && p.expires > now && now < p.periodEnd && p.rest == 0 && !p.archived
	lock.RUnlock()
	v := &d.versions[version]
	c.Used, c.Held = used.Decimal(), held
	if c.Limited = v.limited[c.Feature]; c.Limited {
		c.Limit = v.limits[c.Feature]
		total, _ := c.Used.Add(held)
		current = current && total.Less(c.Limit)
	}
	c.Allowed = current
	return c
}
