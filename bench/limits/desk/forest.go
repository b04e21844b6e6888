package desk

import (
	"encoding/binary"
	"math"
	"sync"

	"tollgate/engine/decimal"
	"tollgate/engine/machine"
	"tollgate/engine/price"
	"tollgate/engine/wire"
)

// level is a budget's limit of price: what its window has used and what is held, in two lines.
type level struct {
	used, held decimal.Exact
	limit      decimal.Decimal
	start, end int64
	born       uint64
	thresholds [8]byte
	hard       bool
}

// forest has a budget for each customer, below others that are one less than the levels, with what
// the best design known keeps for each: its path's limits in one list, and what records call them.
type forest struct {
	sync.RWMutex
	limits []level
	paths  [][]uint32
	names  [][]byte
	hash   uint64
	prices [3]price.Model
}

func newForest(customers, levels int) *forest {
	f := &forest{
		limits: make([]level, levels+customers), paths: make([][]uint32, customers),
		names: make([][]byte, customers),
		prices: [3]price.Model{
			{Kind: price.KindPerUnit},
			{Kind: price.KindGraduated, Tiers: []price.Tier{
				{UpTo: decimal.FromInt(100_000), PricePerUnit: decimal.MustParse("0.000003")},
				{Infinite: true, PricePerUnit: decimal.MustParse("0.000002")},
			}},
			{Kind: price.KindPerUnit, PricePerUnit: decimal.MustParse("0.000015")},
		},
	}
	for n := range f.limits {
		f.limits[n] = level{
			limit: decimal.FromInt(1e12), end: math.MaxInt64, born: uint64(n), hard: true,
		}
	}
	for n := range customers {
		f.paths[n] = append(f.paths[n], uint32(levels+n))
		for above := levels - 1; above > 0; above-- {
			f.paths[n] = append(f.paths[n], uint32(above))
		}
		for _, row := range f.paths[n] {
			f.names[n] = binary.AppendUvarint(f.names[n], uint64(row))
			f.names[n] = binary.AppendUvarint(f.names[n], f.limits[row].born)
		}
	}
	return f
}

// added is what an event of a feature adds to the bill: rated after less rated before.
func (f *forest) added(feature uint64, before, after, units decimal.Decimal) decimal.Exact {
	m := &f.prices[feature]
	if m.Kind == price.KindPerUnit {
		return decimal.Product(units, m.PricePerUnit)
	}
	to, _ := price.Rate(m, after)
	from, _ := price.Rate(m, before)
	amount, _ := to.Sub(from)
	return amount
}

// charge asks the limits above a customer, then counts in them, and describes what it counted. A
// refusal describes nothing.
func (f *forest) charge(
	customer uint64, amount decimal.Exact, units decimal.Decimal, now int64, record []byte,
) []byte {
	path := f.paths[customer]
	for _, row := range path {
		l := &f.limits[row]
		if now >= l.end || l.hard && !decimal.Within(l.limit, &l.used, &l.held, &amount) {
			return record
		}
	}
	f.Lock()
	hash := f.hash
	for _, row := range path {
		l := &f.limits[row]
		l.used, _ = l.used.Add(amount)
		if l.thresholds[0] != 0 {
			record = append(record, l.thresholds[0])
		}
		low, high := l.used.Low()
		held, _ := l.held.Low()
		hash = machine.Fold(hash, machine.Fold(uint64(row)<<32^low^high, uint64(l.start)^held))
	}
	f.hash = hash
	f.Unlock()
	record = append(append(record, "\x08\x02\x12\x03USD"...), 0x2a, 16)
	low, high := amount.Low()
	record = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(record, low), high)
	record = wire.AppendDecimal(record, 3, units)
	record = binary.AppendUvarint(append(record, 0x30), uint64(now))
	names := f.names[customer]
	return append(append(record, 0x3a, byte(len(names))), names...)
}
