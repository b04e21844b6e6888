package billing

import (
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/credit"
	"tollgate/engine/decimal"
	"tollgate/engine/machine"
	"tollgate/engine/wire"
)

func goldenPool() *credits.Pool {
	return &credits.Pool{
		ID: [16]byte{1, 2, 3}, Name: catalogs.PoolNamed("tokens"), Customer: 7, Next: 9, FirstGrant: 4,
		Grants: 2, FirstTransaction: 11, LastTransaction: 12, Transactions: 2, Sequence: 5,
		CreatedAt: 1769871600000, ModifiedAt: 1769871600001, NextExpiry: 1769871600002,
		Totals: credits.Totals{
			Granted: goldenDecimal("100"), Consumed: goldenDecimal("12.5"),
			Expired: goldenDecimal("3"), Reversed: goldenDecimal("4"), Overdraft: goldenDecimal("0.1"),
		},
		RolloverCap: goldenDecimal("50"), Priority: -3, Policy: credit.PolicyCapped,
		Hard: true, HasCap: true, Frozen: true, Archived: true,
	}
}

func goldenGrant() *credits.Grant {
	return &credits.Grant{
		Grant: credit.Grant{
			ID: [16]byte{4, 5}, Remaining: goldenDecimal("7.25"), Priority: -1,
			CreatedAt: 1769871600000, ExpiresAt: 1769871600009,
		}, Amount: goldenDecimal("10"), Pool: 3, Next: 8, Subscription: 6,
		Sequence: 9, Note: 10, Kind: credits.GrantRollover, End: credits.GrantReversed,
		Linked: true, Rolled: true,
	}
}

func goldenTransaction() *credits.Transaction {
	return &credits.Transaction{
		ID: [16]byte{6}, Of: [16]byte{7}, Amount: goldenDecimal("1.5"),
		Balance: goldenDecimal("-2"), CreatedAt: 1769871600000, UpdatedAt: 1769871600003,
		Pool: 1, Next: 2, Sequence: 3, Grant: 4, Subscription: 5, Feature: 6,
		Kind: credits.TransactionReversal, Reversed: true,
	}
}

func goldenArchive() *credits.Archive {
	return &credits.Archive{
		FirstTrace: 1, LastTrace: 2, Traces: 3, Free: 4,
		Rows: credits.ChunkPlace{At: 1769871600000, Index: 5, Position: 6, Ordinal: 7},
	}
}

func goldenTrace() *credits.Trace {
	return &credits.Trace{ID: [16]byte{8, 9}, Pool: 1, Sequence: 66, Next: 2, Sum: 0xfedcba98}
}

func goldenChunk() *credits.Chunk {
	return &credits.Chunk{
		Place:    credits.ChunkPlace{At: 1769871600000, Index: 5, Position: 6, Ordinal: 7},
		Reversed: 1<<63 | 5, Pool: 2, Number: 3,
	}
}

func goldenCover() *credits.Cover {
	return &credits.Cover{
		Counter: 9, Transaction: 4, Used: goldenDecimal("8"), Next: goldenDecimal("0.000000000001"),
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
	return new(m.turn(machine.Turn{Stamp: s.Log.Stamp()}, s))
}

// EndCreditPeriod ends a subscription's period and begins the next.
func EndCreditPeriod(m *Machine, subscription uint32, at int64) {
	t := turnNow(m)
	t.CreditsAtPeriodEnd(subscription, at)
	t.CreditsAtPeriodStart(subscription, at)
}

// UpgradeCredits puts a subscription on a plan version.
func UpgradeCredits(m *Machine, row, version uint32, at int64) {
	t := turnNow(m)
	from := t.VersionOf(row)
	changeSubscription(&t.Subscriptions, row, func(b *book.Subscription) { b.Version = version })
	t.CreditsAtUpgrade(row, from, at)
}

// Burnt is what an event of the first customer did to credits, as its journal record says.
type Burnt struct {
	credits.Burnt
	at book.Place
}

// LastBurn reads the newest usage record.
func LastBurn(m *Machine) *Burnt {
	e := &m.scratch.usage
	var paid credits.DrawList
	if err := wire.Decode(e.Draws, &paid); err != nil {
		panic(err)
	}
	b := &Burnt{Burnt: credits.Burnt{Draws: paid.Draws, Paid: e.Covered}}
	var c RecordUsage
	if err := wire.Decode(e.Record, &c); err != nil {
		panic(err)
	}
	b.Units = c.Units
	t := turnNow(m)
	catalog := t.Environment(c.Env).Catalog.Load()
	b.at = t.within(catalog, e.Subscription, e.Feature, always)
	return b
}

// Covered is how many of the event's units credits paid.
func (b *Burnt) Covered() decimal.Decimal { return b.Paid }

// Correct amends the event, or with 0 units voids it.
func (b *Burnt) Correct(m *Machine, units decimal.Decimal, at int64) *Burnt {
	t := turnNow(m)
	r, outcome := t.PlanCorrection(1, b.at, b.Burnt, units, at)
	if outcome.Refused() {
		panic(outcome.String())
	}
	before := b.Paid
	t.CorrectCredits(b.at, &r, at)
	t.Cover(b.at.Counter, credit.Less(r.Now.Paid, before), false)
	used, _ := t.Covered(b.at.Counter)
	if used != r.Now.Paid {
		panic("cover " + used.String() + ", the event has " + r.Now.Paid.String())
	}
	return &Burnt{r.Now, b.at}
}

// TransactionRows are how many rows transactions have in memory, and how many of them are free.
func TransactionRows(m *Machine) (rows, free uint32) {
	s := m.state.Load()
	for row := uint32(1); row <= s.Transactions.Len(); row++ {
		if s.Transactions.Read(row).Kind == 0 {
			free++
		}
	}
	return s.Transactions.Len(), free
}

// PoolFrauds change the first pool by hand, by what its proof says then.
var PoolFrauds = map[string]func(*Machine){
	"granted is": func(m *Machine) {
		p := m.state.Load().Pools.Write(1)
		p.Granted = credits.More(p.Granted, decimal.FromInt(1))
	},
	"consumed is": func(m *Machine) {
		p := m.state.Load().Pools.Write(1)
		p.Consumed = credits.More(p.Consumed, decimal.FromInt(1))
	},
	"expired is": func(m *Machine) {
		p := m.state.Load().Pools.Write(1)
		p.Expired = credits.More(p.Expired, decimal.FromInt(1))
	},
	"reversed is": func(m *Machine) {
		p := m.state.Load().Pools.Write(1)
		p.Reversed = credits.More(p.Reversed, decimal.FromInt(1))
	},
	"transactions say": func(m *Machine) {
		s := m.state.Load()
		for row := uint32(1); row <= s.Transactions.Len(); row++ {
			if x := s.Transactions.Write(row); x.Kind == credits.TransactionConsumption {
				x.Amount = decimal.FromInt(1)
			}
		}
	},
	"transactions were booked": func(m *Machine) {
		s := m.state.Load()
		p := s.Pools.Write(1)
		p.FirstTransaction = s.Transactions.Read(p.FirstTransaction).Next
	},
}

// WithPools bounds how many transactions and traces a pool of the machine keeps in memory.
func WithPools(c Config, newest, traces uint32) Config {
	c.credits = credits.CreditBounds{MaxNewest: newest, MaxTraces: traces}
	return c
}

// Traces are how many traces the first pool has.
func Traces(m *Machine) uint32 { return m.state.Load().Archives.Read(1).Traces }
