package billing

import (
	"tollgate/engine/credit"
	"tollgate/engine/decimal"
	"tollgate/engine/machine"
	"tollgate/engine/wire"
)

func goldenPool() *pool {
	return &pool{
		id: [16]byte{1, 2, 3}, name: poolNamed("tokens"), customer: 7, next: 9, firstGrant: 4,
		grants: 2, firstTransaction: 11, lastTransaction: 12, transactions: 2, sequence: 5,
		createdAt: 1769871600000, modifiedAt: 1769871600001, nextExpiry: 1769871600002,
		granted: goldenDecimal("100"), consumed: goldenDecimal("12.5"),
		expired: goldenDecimal("3"), reversed: goldenDecimal("4"), overdraft: goldenDecimal("0.1"),
		rolloverCap: goldenDecimal("50"), priority: -3, policy: credit.PolicyCapped,
		hard: true, hasCap: true, frozen: true, archived: true,
	}
}

func goldenGrant() *grant {
	return &grant{
		Grant: credit.Grant{
			ID: [16]byte{4, 5}, Remaining: goldenDecimal("7.25"), Priority: -1,
			CreatedAt: 1769871600000, ExpiresAt: 1769871600009,
		}, amount: goldenDecimal("10"), pool: 3, next: 8, subscription: 6,
		sequence: 9, note: 10, kind: GrantRollover, end: grantReversed, linked: true, rolled: true,
	}
}

func goldenTransaction() *transaction {
	return &transaction{
		id: [16]byte{6}, of: [16]byte{7}, amount: goldenDecimal("1.5"),
		balance: goldenDecimal("-2"), createdAt: 1769871600000, updatedAt: 1769871600003,
		pool: 1, next: 2, sequence: 3, grant: 4, subscription: 5, feature: 6,
		kind: transactionReversal, reversed: true,
	}
}

func goldenArchive() *archive {
	return &archive{
		firstTrace: 1, lastTrace: 2, traces: 3, free: 4,
		rows: chunkPlace{At: 1769871600000, Index: 5, Position: 6, Ordinal: 7},
	}
}

func goldenTrace() *trace {
	return &trace{id: [16]byte{8, 9}, pool: 1, sequence: 66, next: 2, sum: 0xfedcba98}
}

func goldenChunk() *chunk {
	return &chunk{
		place:    chunkPlace{At: 1769871600000, Index: 5, Position: 6, Ordinal: 7},
		reversed: 1<<63 | 5, pool: 2, number: 3,
	}
}

func goldenCover() *cover {
	return &cover{
		counter: 9, transaction: 4, used: goldenDecimal("8"), next: goldenDecimal("0.000000000001"),
	}
}

// CheckCredits says in which pool the totals, the grants and the lists do not fit together.
func CheckCredits(m *Machine) error {
	s := m.state.Load()
	if err := s.creditListsEnd(); err != nil {
		return err
	}
	return s.poolsConsistent()
}

// turnNow is a turn between entries, for tests of what the lifecycle calls.
func turnNow(m *Machine) *turn {
	s := m.state.Load()
	return new(m.turn(machine.Turn{Stamp: s.log.Stamp()}, s))
}

// EndCreditPeriod ends a subscription's period and begins the next.
func EndCreditPeriod(m *Machine, subscription uint32, at int64) {
	t := turnNow(m)
	t.creditsAtPeriodEnd(subscription, at)
	t.creditsAtPeriodStart(subscription, at)
}

// UpgradeCredits puts a subscription on a plan version.
func UpgradeCredits(m *Machine, row, version uint32, at int64) {
	t := turnNow(m)
	from := t.versionOf(row)
	changeSubscription(&t.subscriptions, row, func(b *subscription) { b.version = version })
	t.creditsAtUpgrade(row, from, at)
}

// Burnt is what an event of the first customer did to credits, as its journal record says.
type Burnt struct {
	burnt
	at place
}

// LastBurn reads the newest usage record.
func LastBurn(m *Machine) *Burnt {
	e := &m.scratch.usage
	var paid drawList
	if err := wire.Decode(e.Draws, &paid); err != nil {
		panic(err)
	}
	b := &Burnt{burnt: burnt{draws: paid.Draws, covered: e.Covered}}
	var c RecordUsage
	if err := wire.Decode(e.Record, &c); err != nil {
		panic(err)
	}
	b.units = c.Units
	t := turnNow(m)
	catalog := t.environment(c.Env).catalog.Load()
	b.at = t.within(catalog, e.Subscription, e.Feature, always)
	return b
}

// Covered is how many of the event's units credits paid.
func (b *Burnt) Covered() decimal.Decimal { return b.covered }

// Correct amends the event, or with 0 units voids it.
func (b *Burnt) Correct(m *Machine, units decimal.Decimal, at int64) *Burnt {
	t := turnNow(m)
	r, outcome := t.planCorrection(1, b.at, b.burnt, units, at)
	if outcome.Refused() {
		panic(outcome.String())
	}
	before := b.covered
	t.correctCredits(b.at, &r, at)
	t.cover(b.at.counter, credit.Less(r.now.covered, before), false)
	used, _ := t.covered(b.at.counter)
	if used != r.now.covered {
		panic("cover " + used.String() + ", the event has " + r.now.covered.String())
	}
	return &Burnt{r.now, b.at}
}

// TransactionRows are how many rows transactions have in memory, and how many of them are free.
func TransactionRows(m *Machine) (rows, free uint32) {
	s := m.state.Load()
	for row := uint32(1); row <= s.transactions.Len(); row++ {
		if s.transactions.Read(row).kind == 0 {
			free++
		}
	}
	return s.transactions.Len(), free
}

// PoolFrauds change the first pool by hand, by what its proof says then.
var PoolFrauds = map[string]func(*Machine){
	"granted is": func(m *Machine) {
		p := m.state.Load().pools.Write(1)
		p.granted = more(p.granted, decimal.FromInt(1))
	},
	"consumed is": func(m *Machine) {
		p := m.state.Load().pools.Write(1)
		p.consumed = more(p.consumed, decimal.FromInt(1))
	},
	"expired is": func(m *Machine) {
		p := m.state.Load().pools.Write(1)
		p.expired = more(p.expired, decimal.FromInt(1))
	},
	"reversed is": func(m *Machine) {
		p := m.state.Load().pools.Write(1)
		p.reversed = more(p.reversed, decimal.FromInt(1))
	},
	"transactions say": func(m *Machine) {
		s := m.state.Load()
		for row := uint32(1); row <= s.transactions.Len(); row++ {
			if x := s.transactions.Write(row); x.kind == transactionConsumption {
				x.amount = decimal.FromInt(1)
			}
		}
	},
	"transactions were booked": func(m *Machine) {
		s := m.state.Load()
		p := s.pools.Write(1)
		p.firstTransaction = s.transactions.Read(p.firstTransaction).next
	},
}

// WithPools bounds how many transactions and traces a pool of the machine keeps in memory.
func WithPools(c Config, newest, traces uint32) Config {
	c.credits = creditBounds{newest, traces}
	return c
}

// Traces are how many traces the first pool has.
func Traces(m *Machine) uint32 { return m.state.Load().archives.Read(1).traces }
