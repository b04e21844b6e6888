package limits_test

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math"
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

// desk does all that the product's benchmarks ask of an event, a reservation and its settlement, in
// the best way known.
type desk struct {
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
	hash    uint64
	now     int64

	rows            *page.Table[held]
	byID, byKey     *page.Index
	texts           []byte
	expiring        []due // the next one first: all live as long
	closed, last    uint32
	open, kept      int
	lines           []prefetch.Address
	list            [desked]command
	record, charged []byte
	sealed          []byte // the event of a settlement
	results         []result
	replies         []byte
}

// result is what a proposer is told.
type result struct {
	outcome uint8
	value   []byte
}

// desked is how many commands are prefetched together.
const desked = 64

const (
	nowMS       = 1_790_000_000_000
	retentionMS = 35 * 24 * 3600 * 1000
	windowMS    = 34 * 24 * 3600 * 1000
)

func newDesk(customers int, keys *idempotency.Keys) *desk {
	store := page.NewStore()
	d := &desk{
		seed: maphash.MakeSeed(), names: page.NewIndex(), stripes: make([]stripe, 512),
		people:   page.NewTable(store, 0, page.Codec[person]{}),
		features: map[string]uint32{"requests": 1, "input-tokens": 2, "output-tokens": 3},
		versions: make([]version, 2), keys: keys, records: journal.New(), now: nowMS,
		rows: page.NewTable(store, 1, page.Codec[held]{}),
		byID: page.NewRoomyIndex(), byKey: page.NewRoomyIndex(),
	}
	v := &d.versions[1]
	v.limits[3], v.limited[3] = decimal.FromInt(1e9), true
	v.cost[2], v.costs[2] = decimal.MustParse("0.000001"), true
	d.names.Reserve(uint32(customers))
	for i := range customers {
		name := customerName(i)
		row, p := d.people.Append()
		*p = person{
			env: 1, version: 1, due: math.MaxInt64, expires: math.MaxInt64, length: uint8(len(name)),
			periodEnd: math.MaxInt64, owns: true,
		}
		copy(p.external[:], name)
		binary.LittleEndian.PutUint64(p.subscription[:], rand.Uint64())
		d.names.Insert(d.nameHash(name), row)
	}
	return d
}

func (d *desk) nameHash(name []byte) uint64 {
	return machine.Fold(maphash.Bytes(d.seed, name), 1)
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

// read takes a command of a kind from the front of bytes, behind its length. Its fields have a byte
// for the tag and one for the length.
func (c *command) read(kind byte, all []byte) (rest []byte) {
	b, rest := all[1:1+all[0]], all[1+all[0]:]
	c.bytes = b
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
	return rest
}

// customerOf finds a command's customer; nil where there is none, or where something of it is due.
func (d *desk) customerOf(c *command) (row uint32, p *person) {
	row = d.names.Find(c.nameHash, func(row uint32) bool {
		p := d.people.Read(row)
		return p.env == 1 && string(p.external[:p.length]) == string(c.name)
	})
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
	outcome      uint8
}

// events applies events, 64 at a time.
func (d *desk) events(commands []byte, first int) (rest []byte) {
	d.lines = d.lines[:0]
	for i := range d.list {
		c := &d.list[i]
		commands = c.read(ofEvent, commands)
		c.keyHash, c.nameHash = d.keys.Hash(c.key), d.nameHash(c.name)
		d.lines = append(d.lines, prefetch.Of(d.keys.Near(c.keyHash)),
			prefetch.Of(d.names.Near(c.nameHash)))
	}
	prefetch.Lines(d.lines)
	d.lines = d.lines[:0]
	for i := range d.list {
		c := &d.list[i]
		if c.customer = d.names.Guess(c.nameHash); c.customer != 0 {
			p := d.people.Read(c.customer)
			d.lines = append(d.lines, prefetch.Of(p), prefetch.Of(&p.subscription),
				prefetch.Of(&d.stripes[c.customer%uint32(len(d.stripes))]))
		}
	}
	prefetch.Lines(d.lines)
	for i := range d.list {
		outcome := d.event(&d.list[i], first+i)
		d.results = append(d.results, result{outcome: outcome})
	}
	return commands
}

func (d *desk) event(c *command, position int) (outcome uint8) {
	if slot, used := d.keys.Find(c.key, c.keyHash); used {
		if slot.Attempt == c.attempt {
			return slot.Outcome
		}
		return 255
	}
	if d.keys.Present().InMemory() >= math.MaxUint32-1 || c.occurredAt > d.now+300_000 ||
		c.occurredAt < d.now-windowMS || c.units.Sign() < 0 {
		return 254
	}
	row, p := d.customerOf(c)
	if p == nil || p.archived {
		return 253
	}
	u := usage{row: row, feature: d.features[string(c.feature)], outcome: 1}
	if u.feature == 0 || p.rest != 0 || c.occurredAt < p.periodStart || c.occurredAt >= p.periodEnd {
		return 252
	}
	v := &d.versions[p.version]
	var ok bool
	if u.hasCost = v.costs[u.feature]; u.hasCost {
		if u.cost, ok = c.units.Mul(v.cost[u.feature]); !ok {
			return 251
		}
	}
	before := p.used[u.feature-1].Decimal()
	if u.sum, ok = before.Add(c.units); !ok {
		return 251
	}
	if v.limited[u.feature] {
		total := u.sum
		if p.held {
			total, _ = total.Add(p.holds)
		}
		if !total.Less(v.limits[u.feature]) {
			u.outcome = 2
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
func (d *desk) recordEvent(c *command, u *usage, p *person, position int, of *held) {
	high, low := u.sum.Bits()
	d.hash = machine.Fold(d.hash, uint64(high)^low)
	d.hash = machine.Fold(d.hash, uint64(u.row)<<32|uint64(u.feature))
	d.keys.Add(c.key, c.keyHash, idempotency.Slot{
		Attempt: c.attempt, Fingerprint: c.fingerprint, Outcome: u.outcome,
	}, d.now, 1)
	b := binary.AppendUvarint(append(d.record[:0], 0x08), uint64(u.row))
	b = append(b, 0x10, byte(u.feature))
	if p.period != 0 {
		b = binary.AppendUvarint(append(b, 0x18), uint64(p.period))
	}
	b = binary.AppendUvarint(append(b, 0x20, u.outcome, 0x28), uint64(d.now))
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

// begin begins an entry, after the end of the one before.
func (d *desk) begin() {
	d.cut = d.records.EndEntry(d.index, d.cut[:0])
	d.keys.Show()
	d.index++
	d.results = d.results[:0]
}

// applied applies events of random customers, which count at so many levels of budgets.
func applied(b *testing.B, keys *idempotency.Keys, customers, anEntry, levels int) {
	b.Helper()
	d := newDesk(customers, keys)
	if levels > 0 {
		d.budgets = newForest(customers, levels)
	}
	input := sealed(b.N*desked, customers)
	stop := perUnit(b, desked)
	for i := range b.N {
		at := i % (anEntry / desked) * desked
		if at == 0 {
			d.begin()
		}
		input = d.events(input, at)
	}
	stop()
	for _, r := range d.results {
		if r.outcome > 2 {
			b.Fatalf("outcome %d", r.outcome)
		}
	}
}

// sealed makes events of random customers, each with its length before it.
func sealed(n, customers int) []byte {
	features := []string{"requests", "input-tokens", "output-tokens"}
	var all, payload []byte
	for i := range n {
		key := fmt.Appendf(nil, "bench-%012d", rand.Uint64N(1e12))
		c := billing.RecordUsage{
			Env: 1, Key: billing.UsageKey(1, key), Attempt: 7, KeyText: key,
			Customer: customerName(rand.IntN(customers)), EventName: []byte(features[i%3]),
			Units: decimal.FromInt(int64(i % 100)), OccurredAt: nowMS - 100,
		}
		payload = c.Seal(payload[:0])
		all = append(append(all, uint8(len(payload))), payload...)
	}
	return all
}
