package billing

import (
	"fmt"
	"math"
	"math/big"

	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
	"tollgate/engine/journal"
	"tollgate/engine/wire"
)

// PoolProof compares a pool with the journal. Problem is empty if they agree: each total is the sum
// of the journal's records, consumption is the sum of the events' draws, and no transaction is
// missing.
type PoolProof struct {
	ID      [16]byte
	Name    string
	Problem string
}

// poolSums are what a pool's totals should be, and its transactions.
type poolSums struct {
	granted, consumed, expired, reversed exact
	// usage is the sum of the events' draws, booked that of CONSUMPTION transactions.
	usage, booked exact
	transactions  uint32
}

// exact is an unbounded sum in the smallest unit of a decimal: amounts that were taken and returned
// may add up beyond the range of numbers.
type exact struct{ n big.Int }

func (x *exact) add(d decimal.Decimal) { x.n.Add(&x.n, unitsOf(d)) }

func (x *exact) subtract(d decimal.Decimal) { x.n.Sub(&x.n, unitsOf(d)) }

func unitsOf(d decimal.Decimal) *big.Int {
	high, low := d.Bits()
	n := new(big.Int).Lsh(big.NewInt(high), 64)
	return n.Add(n, new(big.Int).SetUint64(low))
}

// VerifyPools computes the totals of a customer's pools, oldest first, from the journal: usage
// events, their corrections and the bookings made with them, never grants. It waits for the entry
// that is being applied.
func (m *journalReader) VerifyPools(
	src journal.Source, env, customerRow uint32,
) (proofs []PoolProof, err error) {
	stored, applied := m.storedPools(env, customerRow)
	if len(stored) == 0 {
		return nil, nil
	}
	r := poolRecount{pools: map[uint32]*poolSums{}, corrected: map[eventName][]credits.Draw{}}
	for i := range stored {
		r.pools[stored[i].row] = &poolSums{}
	}
	kinds := journal.Kinds(
		journal.KindUsage, journal.KindVoid, journal.KindAmend, journal.KindBilling)
	err = eachRecord(src, customerRow, kinds, func(item journal.Item) error {
		if item.Index > applied {
			return nil
		}
		return r.take(item)
	})
	if err != nil {
		return nil, err
	}
	for i := range stored {
		p, sums := &stored[i], r.pools[stored[i].row]
		sums.booked.n.Add(&sums.booked.n, &p.booked.n)
		sums.transactions += p.transactions
		sums.consumed.n.Add(&sums.consumed.n, &sums.usage.n)
		proofs = append(proofs, PoolProof{p.id, p.name, p.compare(sums)})
	}
	return proofs, nil
}

// storedPool is a pool in memory: its totals, and the sums of its transactions there.
type storedPool struct {
	id       [16]byte
	name     string
	row      uint32
	sequence uint32
	// totals are granted, consumed, expired, reversed.
	totals [4]decimal.Decimal
	poolSums
}

// storedPools copies a customer's pools between two entries.
func (m *journalReader) storedPools(env, customer uint32) (stored []storedPool, applied uint64) {
	m.applying.RLock()
	defer m.applying.RUnlock()
	s := m.state.Load()
	if customer == 0 || customer > s.Customers.Len() || s.Customers.Read(customer).Env != env {
		return nil, 0
	}
	for row := s.FirstPool(customer); row != 0; row = s.Pools.Read(row).Next {
		p := s.Pools.Read(row)
		var words credits.PoolText
		rows.DecodeText(s.PoolTexts.Read(row).Data, &words)
		v := storedPool{
			id: p.ID, name: words.Name, row: row, sequence: p.Sequence,
			totals: [4]decimal.Decimal{p.Granted, p.Consumed, p.Expired, p.Reversed},
		}
		for at := p.FirstTransaction; at != 0; at = s.Transactions.Read(at).Next {
			x := s.Transactions.Read(at)
			v.count(x.Kind, x.Amount)
		}
		stored = append(stored, v)
	}
	return stored, s.Log.Applied()
}

func (p *poolSums) count(kind credits.TransactionKind, amount decimal.Decimal) {
	p.transactions++
	if kind == credits.TransactionConsumption {
		p.booked.add(amount)
	}
}

// compare reports where a pool differs from the journal's sums.
func (p *storedPool) compare(want *poolSums) string {
	names := [...]string{"granted", "consumed", "expired", "reversed"}
	made := [...]*exact{&want.granted, &want.consumed, &want.expired, &want.reversed}
	for i, stored := range p.totals {
		if unitsOf(stored).Cmp(&made[i].n) != 0 {
			return fmt.Sprintf("%s is %s, the journal makes it %se-12", names[i], stored, &made[i].n)
		}
	}
	if want.booked.n.Cmp(&want.usage.n) != 0 {
		return fmt.Sprintf("transactions say that usage took %se-12, the events %se-12",
			&want.booked.n, &want.usage.n)
	}
	if p.sequence != want.transactions {
		return fmt.Sprintf("%d transactions were booked, %d are there", p.sequence,
			want.transactions)
	}
	return ""
}

// poolRecount sums the journal's records of a customer's pools, by their rows. corrected are the
// draws that events have left after corrections.
type poolRecount struct {
	pools     map[uint32]*poolSums
	corrected map[eventName][]credits.Draw
}

// eventName tells events apart forever: a forgotten key may be used again.
type eventName struct {
	key        [16]byte
	recordedAt int64
}

// take adds one record. Records of one event come in log order.
func (r *poolRecount) take(item journal.Item) error {
	var err error
	switch item.Kind {
	case journal.KindUsage:
		var u usageEntry
		if err = wire.Decode(item.Payload, &u); err == nil {
			err = r.draw(u.Draws, nil, nil)
		}
	case journal.KindBilling:
		var facts credits.FactRecord
		if err = wire.Decode(item.Payload, &facts); err == nil {
			if int(item.Ordinal) >= len(facts.Facts) {
				err = fmt.Errorf("no fact %d", item.Ordinal)
			} else {
				r.fact(&facts.Facts[item.Ordinal])
			}
		}
	default:
		var k correctionEntry
		var c RecordUsage
		if err = wire.Decode(item.Payload, &k); err == nil {
			err = wire.Decode(k.Original.Record, &c)
		}
		if err == nil {
			err = r.draw(k.Draws, k.Original.Draws, &eventName{c.Key, k.Original.RecordedAt})
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %d.%d: %w", rows.ErrEvent, item.Index, item.Position, err)
	}
	return nil
}

// draw counts what an event has drawn. With a name it counts what its correction drew in addition
// to original or to the result of an earlier correction. What a correction returns is a transaction
// of its own.
func (r *poolRecount) draw(now, original []byte, event *eventName) error {
	var list, was credits.DrawList
	if err := wire.Decode(now, &list); err != nil {
		return err
	}
	if err := wire.Decode(original, &was); err != nil {
		return err
	}
	if event != nil {
		if earlier, known := r.corrected[*event]; known {
			was.Draws = earlier
		}
		r.corrected[*event] = list.Draws
	}
	for pool, p := range r.pools { // any order: each pool has its own sum
		change := sums.Difference(drawnFrom(pool, list.Draws), drawnFrom(pool, was.Draws))
		if change.Sign() > 0 {
			p.usage.add(change)
		}
	}
	return nil
}

// drawnFrom sums the draws from one pool.
func drawnFrom(pool uint32, draws []credits.Draw) (amount decimal.Decimal) {
	for i := range draws {
		if draws[i].Pool == pool {
			amount = sums.Of(amount, draws[i].Amount)
		}
	}
	return amount
}

// fact counts a movement that is not usage, or transactions that have left memory.
func (r *poolRecount) fact(f *credits.Fact) {
	if p := r.pools[f.Archive.Pool]; f.Kind == credits.FactArchive && p != nil {
		for i := range f.Archive.Rows {
			p.count(f.Archive.Rows[i].Kind, f.Archive.Rows[i].Amount)
		}
	}
	p := r.pools[f.Credits.Pool]
	if f.Kind != credits.FactCredits || p == nil {
		return
	}
	c := &f.Credits
	switch c.Kind {
	case credits.TransactionGrant:
		p.granted.add(c.Amount)
	case credits.TransactionDeduction:
		p.consumed.add(c.Amount)
	case credits.TransactionReturn:
		p.consumed.subtract(c.Amount)
	case credits.TransactionExpiration:
		p.expired.add(c.Amount)
	case credits.TransactionReversal:
		if c.Grant != 0 {
			p.reversed.add(c.Amount)
		} else {
			p.consumed.subtract(c.Amount)
		}
	}
}

// entriesAtOnce bounds how many records are read at a time.
const entriesAtOnce = 1000

// eachRecord reads a customer's records of some kinds, in the order of a listing.
func eachRecord(
	src journal.Source, customer uint32, kinds journal.KindSet, take func(journal.Item) error,
) error {
	q := journal.Query{
		Owner: customer, From: math.MinInt64, To: math.MaxInt64, Kinds: kinds,
		Limit: entriesAtOnce,
	}
	for {
		items, err := src.List(q)
		if err != nil {
			return fmt.Errorf("billing: records of customer %d: %w", customer, err)
		}
		for _, item := range items {
			if err = take(item); err != nil {
				return err
			}
		}
		if len(items) < entriesAtOnce {
			return nil
		}
		q.After, q.HasAfter = items[len(items)-1].Cursor(), true
	}
}
