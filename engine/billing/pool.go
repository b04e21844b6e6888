package billing

import (
	"unicode"
	"unicode/utf8"

	"tollgate/engine"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/credit"
	"tollgate/engine/decimal"
	"tollgate/engine/machine"
	"tollgate/engine/page"
	"tollgate/engine/wire"
)

// CreatePool gives a customer a pool of credits. A pool of this ID is the same success again.
type CreatePool struct {
	Env      uint32   `wire:"1"`
	ID       [16]byte `wire:"2"`
	Customer string   `wire:"3"` // the customer's ExternalID
	// Name has 1–128 characters; features and allocations name pools by it.
	Name           string          `wire:"4"`
	Denomination   string          `wire:"5"` // ≤ 64 characters; empty: "credits"
	Currency       string          `wire:"6"` // ISO 4217; empty: USD
	HardLimit      bool            `wire:"7"` // the balance never goes below zero
	RolloverPolicy string          `wire:"8"` // NONE (also when empty), FULL, CAPPED
	HasCap         bool            `wire:"9"`
	RolloverCap    decimal.Decimal `wire:"10"`
	Priority       int64           `wire:"11"` // ±1,000,000; lower burns first
	Metadata       []byte          `wire:"12"` // compact JSON object, ≤ 8 KiB
	Actor          string          `wire:"13"`
}

func (c *CreatePool) apply(t *turn) engine.Outcome {
	e := t.environment(c.Env)
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	if row := t.poolWith(&c.ID); row != 0 {
		if t.customers.Read(t.pools.Read(row).customer).env == c.Env {
			return engine.OutcomeDone
		}
		return engine.OutcomeIDsContradict
	}
	policy, ok := credit.PolicyOf(c.RolloverPolicy)
	if !ok || !c.valid(policy) {
		return engine.OutcomeCreditsInvalid
	}
	customer := t.customerNamed(c.Env, []byte(c.Customer))
	if customer == 0 {
		return engine.OutcomeCustomerUnknown
	}
	if p := t.profile(customer); p.gone() {
		return engine.OutcomeCustomerArchived
	}
	if t.poolRoom(customer) < 1 {
		return engine.OutcomePoolLimit
	}

	now := e.now(t.Stamp)
	lock := t.stripe(customer)
	lock.Lock()
	row := t.addPool(&pool{
		id: c.ID, customer: customer, name: poolNamed(c.Name), createdAt: now, modifiedAt: now,
		priority: int32(c.Priority), policy: policy, hard: c.HardLimit,
		hasCap: c.HasCap, rolloverCap: c.RolloverCap,
	}, &poolText{
		Name: c.Name, Denomination: either(c.Denomination, defaultDenomination),
		Currency: either(c.Currency, defaultCurrency), Metadata: c.Metadata,
	})
	lock.Unlock()
	t.foldPool(row)
	t.note(change{
		Env: c.Env, Actor: c.Actor, Action: "pool.created", Subject: uuidText(c.ID),
		Values: []FieldChange{{"customer", "", c.Customer}, {"name", "", c.Name}},
	})
	return engine.OutcomeDone
}

func (c *CreatePool) valid(policy credit.Policy) bool {
	_, known := decimal.MinorUnits(either(c.Currency, defaultCurrency))
	return known && plain(c.Name, 1, maxNameCharacters) &&
		plain(c.Denomination, 0, maxDenominationCharacters) &&
		c.HasCap == (policy == credit.PolicyCapped) &&
		c.RolloverCap.Sign() >= 0 && c.RolloverCap.InRange() &&
		-maxCreditPriority <= c.Priority && c.Priority <= maxCreditPriority &&
		len(c.Metadata) <= maxMetadataBytes
}

// plain reports whether a text has so many characters, none of them a control character.
func plain(text string, least, most int) bool {
	n := utf8.RuneCountInString(text)
	if n < least || n > most || !utf8.ValidString(text) {
		return false
	}
	for _, r := range text {
		if unicode.IsControl(r) {
			return false
		}
	}
	return true
}

// FreezePool makes a pool refuse to pay; it goes on taking grants. Again is the same success.
type FreezePool struct {
	Env   uint32   `wire:"1"`
	ID    [16]byte `wire:"2"`
	Actor string   `wire:"3"`
}

func (c *FreezePool) apply(t *turn) engine.Outcome {
	return t.setPool(poolChange{c.Env, c.ID, c.Actor}, func(p *pool) { p.frozen = true })
}

// UnfreezePool ends FreezePool. Again is the same success.
type UnfreezePool struct {
	Env   uint32   `wire:"1"`
	ID    [16]byte `wire:"2"`
	Actor string   `wire:"3"`
}

func (c *UnfreezePool) apply(t *turn) engine.Outcome {
	return t.setPool(poolChange{c.Env, c.ID, c.Actor}, func(p *pool) { p.frozen = false })
}

// ArchivePool ends a pool for good: what it holds stays where it is, and nothing moves any more.
// Again is the same success.
type ArchivePool struct {
	Env   uint32   `wire:"1"`
	ID    [16]byte `wire:"2"`
	Actor string   `wire:"3"`
}

func (c *ArchivePool) apply(t *turn) engine.Outcome {
	outcome := t.setPool(poolChange{c.Env, c.ID, c.Actor}, func(p *pool) {
		p.archived, p.nextExpiry = true, 0
	})
	if outcome == engine.OutcomePoolArchived {
		return engine.OutcomeDone
	}
	return outcome
}

// poolChange says who changes the state of which pool.
type poolChange struct {
	env   uint32
	id    [16]byte
	actor string
}

// setPool changes the state of a pool that is not archived.
func (t *turn) setPool(c poolChange, set func(*pool)) engine.Outcome {
	e := t.environment(c.env)
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	row := t.poolIn(c.env, &c.id)
	if row == 0 {
		return engine.OutcomePoolUnknown
	}
	p := t.pools.Read(row)
	if p.archived {
		return engine.OutcomePoolArchived
	}
	now := e.now(t.Stamp)

	if !t.advanceCustomer(p.customer, now) {
		return engine.OutcomeDeferred
	}
	lock := t.stripe(p.customer)
	lock.Lock()
	t.expire(row, now)
	before := *t.pools.Read(row)
	p = t.pools.Write(row)
	changed := false
	if set(p); *p != before {
		p.modifiedAt, changed = now, true
		t.reschedulePool(row)
	}
	lock.Unlock()
	t.foldPool(row)
	if changed {
		t.note(change{
			Env: c.env, Actor: c.actor, Action: "pool.changed", Subject: uuidText(c.id),
			Values: []FieldChange{
				{"status", before.status(before.balance()), p.status(p.balance())},
			},
		})
	}
	return engine.OutcomeDone
}

// pool is the record of a pool of credits; its texts are the text of the same row. id, customer and
// name never change. Of its totals balance is what is left; it equals what the live grants hold
// less the overdraft.
type pool struct {
	id             [16]byte
	name           poolName
	customer, next uint32 // next: the customer's next younger pool
	// firstGrant leads to the live grants, in burn order; grants counts them.
	firstGrant, grants uint32
	// The newest transactions are linked from the oldest; sequence numbers all from 1.
	firstTransaction, lastTransaction, transactions, sequence uint32
	createdAt, modifiedAt                                     int64
	// nextExpiry is when the first of the live grants expires; 0: none does.
	nextExpiry                           int64
	granted, consumed, expired, reversed decimal.Decimal
	// overdraft is what was consumed beyond all grants; the next grants pay it back.
	overdraft                      decimal.Decimal
	rolloverCap                    decimal.Decimal
	priority                       int32
	policy                         credit.Policy
	hard, hasCap, frozen, archived bool
	// depleted is what webhooks have told: set while a hard limit leaves nothing to take.
	depleted bool
}

var poolCodec = page.Codec[pool]{
	Append: func(dst []byte, p *pool) []byte {
		dst = append(dst, p.id[:]...)
		dst = rows.AppendI64(dst, int64(p.name))
		dst = rows.AppendU32(rows.AppendU32(dst, p.customer), p.next)
		dst = rows.AppendU32(rows.AppendU32(dst, p.firstGrant), p.grants)
		dst = rows.AppendU32(rows.AppendU32(dst, p.firstTransaction), p.lastTransaction)
		dst = rows.AppendU32(rows.AppendU32(dst, p.transactions), p.sequence)
		dst = rows.AppendI64(rows.AppendI64(rows.AppendI64(dst, p.createdAt), p.modifiedAt), p.nextExpiry)
		dst = rows.AppendDecimal(rows.AppendDecimal(dst, p.granted), p.consumed)
		dst = rows.AppendDecimal(rows.AppendDecimal(dst, p.expired), p.reversed)
		dst = rows.AppendDecimal(rows.AppendDecimal(dst, p.overdraft), p.rolloverCap)
		dst = append(rows.AppendU32(dst, uint32(p.priority)), byte(p.policy))
		return append(dst, flags(p.hard, p.hasCap, p.frozen, p.archived, p.depleted))
	},
	Read: func(src []byte, p *pool) ([]byte, error) {
		r := rows.Reader{Rest: src}
		p.id, p.name = r.ID(), poolName(r.U64())
		p.customer, p.next = r.U32(), r.U32()
		p.firstGrant, p.grants = r.U32(), r.U32()
		p.firstTransaction, p.lastTransaction = r.U32(), r.U32()
		p.transactions, p.sequence = r.U32(), r.U32()
		p.createdAt, p.modifiedAt, p.nextExpiry = r.I64(), r.I64(), r.I64()
		p.granted, p.consumed = r.Decimal(), r.Decimal()
		p.expired, p.reversed = r.Decimal(), r.Decimal()
		p.overdraft, p.rolloverCap = r.Decimal(), r.Decimal()
		p.priority, p.policy = int32(r.U32()), credit.Policy(r.U8())
		bits := r.U8()
		p.hard, p.hasCap = bits&1 != 0, bits&2 != 0
		p.frozen, p.archived, p.depleted = bits&4 != 0, bits&8 != 0, bits&16 != 0
		return r.Rest, r.Err
	},
}

// flags packs booleans, the first into the lowest bit.
func flags(set ...bool) (bits byte) {
	for i, on := range set {
		if on {
			bits |= 1 << i
		}
	}
	return bits
}

// poolText is the cold part of a pool.
type poolText struct {
	Name         string `wire:"1"`
	Denomination string `wire:"2"`
	Currency     string `wire:"3"`
	Metadata     []byte `wire:"4"`
}

// balance is granted − consumed − expired − reversed. Each total is within the range of numbers,
// and so is the balance: consumed is bounded when it grows, expired and reversed are parts of
// granted.
func (p *pool) balance() decimal.Decimal {
	b := credit.Less(p.granted, p.consumed)
	return credit.Less(credit.Less(b, p.expired), p.reversed)
}

// balanceAt is the balance at an instant: what expires by then is not counted any more, whether or
// not it has been booked.
func (s *vault) balanceAt(p *pool, now int64) decimal.Decimal {
	return credit.Less(p.balance(), s.expiring(p, now))
}

// expiring is what the pool's live grants lose by an instant.
func (s *vault) expiring(p *pool, now int64) (sum decimal.Decimal) {
	if p.nextExpiry == 0 || now < p.nextExpiry {
		return sum
	}
	for _, g := range s.grantsOf(p) {
		if g.Expired(now) {
			sum = more(sum, g.Remaining)
		}
	}
	return sum
}

// more is a + b for amounts whose sum is known to be within the range of numbers.
func more(a, b decimal.Decimal) decimal.Decimal { return credit.Less(a, b.Neg()) }

// Statuses of a pool.
const (
	poolActive   = "ACTIVE"
	poolFrozen   = "FROZEN"
	poolDepleted = "DEPLETED"
	poolArchived = "ARCHIVED"
)

// status is the pool's, at a balance.
func (p *pool) status(balance decimal.Decimal) string {
	switch {
	case p.archived:
		return poolArchived
	case p.frozen:
		return poolFrozen
	case p.hard && balance.Sign() <= 0:
		return poolDepleted
	}
	return poolActive
}

// addPool adds a pool to its customer. The customer's lock is held.
func (t *burner) addPool(p *pool, words *poolText) (row uint32) {
	row, r := t.s.pools.Append()
	*r = *p
	_, cold := t.s.poolTexts.Append()
	cold.Data = string(wire.Encode(nil, words))
	t.s.archives.Append()
	last := uint32(0)
	for at := t.s.firstPool(p.customer); at != 0; at = t.s.pools.Read(at).next {
		last = at
	}
	if last != 0 {
		t.s.pools.Write(last).next = row
	} else {
		t.s.poolByCustomer.Insert(rowHash(p.customer), row)
	}
	t.s.poolByID.Insert(t.s.idHash(&p.id), row)
	return row
}

// rowHash spreads rows over an index.
func rowHash(row uint32) uint64 { return machine.Fold(0, uint64(row)) }

// firstPool is the customer's oldest pool; 0 when there is none.
func (s *vault) firstPool(customer uint32) uint32 {
	return s.poolByCustomer.Find(rowHash(customer), func(row uint32) bool {
		return s.pools.Read(row).customer == customer
	})
}

// poolRoom is how many pools a customer may still get.
func (s *vault) poolRoom(customer uint32) int {
	open, all := 0, 0
	for row := s.firstPool(customer); row != 0; row = s.pools.Read(row).next {
		all++
		if !s.pools.Read(row).archived {
			open++
		}
	}
	return min(MaxPools-open, MaxPoolRows-all)
}

// poolWith finds a pool by its UUID in any environment; 0 when there is none.
func (s *vault) poolWith(id *[16]byte) uint32 {
	return s.poolByID.Find(s.idHash(id), func(row uint32) bool { return s.pools.Read(row).id == *id })
}

// poolIn finds a pool of one environment; 0 when there is none.
func (s *vault) poolIn(env uint32, id *[16]byte) uint32 {
	row := s.poolWith(id)
	if row != 0 && s.customers.Read(s.pools.Read(row).customer).env != env {
		return 0
	}
	return row
}

// foldPool mixes a pool's totals into the rolling hash.
func (t *burner) foldPool(row uint32) {
	p := t.s.pools.Read(row)
	t.Fold(uint64(row)<<32 | uint64(p.sequence))
	high, low := p.balance().Bits()
	t.Fold(uint64(high) ^ low)
	high, low = p.overdraft.Bits()
	t.Fold(uint64(high) ^ low ^ uint64(flags(p.frozen, p.archived)))
}

// reindexCredits rebuilds what is found by pools, transactions and counters, after a restore; the
// check has indexed the chunks.
func (s *vault) reindexCredits() {
	for row := uint32(1); row <= s.pools.Len(); row++ {
		p := s.pools.Read(row)
		s.poolByID.Insert(s.idHash(&p.id), row)
		if s.firstPool(p.customer) == 0 {
			s.poolByCustomer.Insert(rowHash(p.customer), row)
		}
	}
	for row := uint32(1); row <= s.transactions.Len(); row++ {
		if x := s.transactions.Read(row); x.kind != 0 { // else the row is free
			s.transactionByID.Insert(s.idHash(&x.id), row)
		}
	}
	for row := uint32(1); row <= s.grants.Len(); row++ {
		if g := s.grants.Read(row); !g.returned {
			s.grantByID.Insert(s.idHash(&g.ID), row)
		}
	}
	for row := uint32(1); row <= s.pools.Len(); row++ {
		for at := s.archives.Read(row).firstTrace; at != 0; at = s.traces.Read(at).next {
			s.traceByID.Insert(s.idHash(&s.traces.Read(at).id), at)
		}
	}
	for row := uint32(1); row <= s.covers.Len(); row++ {
		s.coverByCounter.Insert(rowHash(s.covers.Read(row).counter), row)
	}
	for row := uint32(1); row <= s.pools.Len(); row++ {
		s.reschedulePool(row)
	}
}

// creditBytes is the memory of credits, without the bytes of texts.
func (s *vault) creditBytes() uint64 {
	return s.pools.Bytes() + s.poolTexts.Bytes() + s.grants.Bytes() + s.transactions.Bytes() +
		s.transactionTexts.Bytes() + s.covers.Bytes() + s.poolByID.Bytes() +
		s.archives.Bytes() + s.grantByID.Bytes() + s.poolByCustomer.Bytes() +
		s.transactionByID.Bytes() + s.coverByCounter.Bytes() + s.traces.Bytes() +
		s.traceByID.Bytes() + s.chunks.Bytes() + s.chunkByPool.Bytes()
}
