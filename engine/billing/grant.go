package billing

import (
	"cmp"
	"hash/crc32"
	"iter"
	"slices"

	"tollgate/engine"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/credit"
	"tollgate/engine/decimal"
	"tollgate/engine/page"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// GrantType says where a grant comes from. The numbers are part of snapshots and are never reused.
type GrantType uint8

const (
	GrantPlanIncluded GrantType = 1
	GrantPurchased    GrantType = 2
	GrantPromotional  GrantType = 3
	GrantRollover     GrantType = 4
	GrantManual       GrantType = 5
	GrantRefund       GrantType = 6
)

var grantTypes = [...]string{
	GrantPlanIncluded: "PLAN_INCLUDED", GrantPurchased: "PURCHASED",
	GrantPromotional: "PROMOTIONAL", GrantRollover: "ROLLOVER",
	GrantManual: "MANUAL", GrantRefund: "REFUND",
}

// String is the type's word; empty for 0.
func (g GrantType) String() string {
	if int(g) < len(grantTypes) {
		return grantTypes[g]
	}
	return ""
}

// GrantTypeOf reads a type's word; an empty one is MANUAL.
func GrantTypeOf(word string) (g GrantType, ok bool) {
	if word == "" {
		return GrantManual, true
	}
	i := slices.Index(grantTypes[:], word)
	return GrantType(max(i, 0)), i > 0
}

// GrantCredits adds credits to a pool. ID names the grant and its transaction; the same command is
// the same success again, forever. The reply (Result.Value) is an encoded TransactionReply.
type GrantCredits struct {
	Env       uint32          `wire:"1"`
	ID        [16]byte        `wire:"2"`
	Pool      [16]byte        `wire:"3"`
	Type      string          `wire:"4"` // a GrantType's word; empty: MANUAL
	Amount    decimal.Decimal `wire:"5"`
	Priority  int64           `wire:"6"` // ±1,000,000; lower burns first
	ExpiresAt int64           `wire:"7"` // on the environment's clock, ahead of it; 0: never
	Note      string          `wire:"8"` // ≤ 500 characters
	Actor     string          `wire:"9"`
}

func (c *GrantCredits) apply(t *turn) engine.Outcome {
	if outcome := c.repeated(t); outcome != engine.OutcomeNone {
		return outcome
	}
	e, row, outcome := t.poolFor(poolCommand{c.Env, c.ID, c.Pool, transactionGrant})
	if row == 0 {
		return outcome
	}
	now, p := e.now(t.Stamp), t.pools.Read(row)
	if !t.advanceCustomer(p.customer, now) {
		return engine.OutcomeDeferred
	}
	kind, ok := GrantTypeOf(c.Type)
	if !ok || c.Amount.Sign() <= 0 || !plain(c.Note, 0, maxNoteCharacters) ||
		c.Priority < -maxCreditPriority || c.Priority > maxCreditPriority ||
		c.ExpiresAt != 0 && c.ExpiresAt <= now {
		return engine.OutcomeCreditsInvalid
	}
	if p.archived {
		return engine.OutcomePoolArchived
	}
	if p.grants >= MaxGrants {
		return engine.OutcomePoolLimit
	}
	if _, ok := p.granted.Add(c.Amount); !ok {
		return engine.OutcomeOverflow
	}

	lock := t.stripe(p.customer)
	lock.Lock()
	t.expire(row, now)
	g := grant{Grant: credit.Grant{
		ID: c.ID, Remaining: c.Amount, Priority: int32(c.Priority), CreatedAt: now,
		ExpiresAt: c.ExpiresAt,
	}, amount: c.Amount, pool: row, kind: kind}
	t.replied(t.grant(&g, c.Note))
	lock.Unlock()
	t.foldPool(row)
	t.note(change{
		Env: c.Env, Actor: c.Actor, Action: "credits.granted", Subject: uuidText(c.Pool),
		Values: []FieldChange{
			{"transaction", "", uuidText(c.ID)},
			{"type", "", kind.String()},
			{"amount", "", c.Amount.String()},
			{"note", "", c.Note},
		},
	})
	return engine.OutcomeDone
}

// repeated answers a grant whose transaction has left memory, from the grant's own row: with all
// but the balance of then. None: nothing was granted by this ID, or the transaction answers.
func (c *GrantCredits) repeated(t *turn) engine.Outcome {
	row := t.grantWith(&c.ID)
	if row == 0 {
		return engine.OutcomeNone
	}
	g := t.grants.Read(row)
	p := t.pools.Read(g.pool)
	kind, _ := GrantTypeOf(c.Type)
	if p.id != c.Pool || t.customers.Read(p.customer).env != c.Env || g.returned ||
		g.booked() != kind || g.amount != c.Amount || int64(g.Priority) != c.Priority ||
		g.ExpiresAt != c.ExpiresAt || g.note != noteSum(c.Note) {
		return engine.OutcomeIDsContradict
	}
	if t.transactionWith(&c.ID) != 0 {
		return engine.OutcomeNone
	}
	view := t.transactionView(&archivedTransaction{transaction{
		id: g.ID, pool: g.pool, kind: transactionGrant, amount: g.amount, grant: row,
		subscription: g.subscription, sequence: g.sequence,
		createdAt: g.CreatedAt, updatedAt: g.CreatedAt,
	}, transactionText{Note: c.Note}})
	view.BalanceUnknown = true
	t.Answer(&TransactionReply{view})
	return engine.OutcomeDone
}

// noteSum is how a row that lasts tells one note from another.
func noteSum(note string) uint32 { return crc32.Checksum([]byte(note), castagnoli) }

// grant is the record of a grant. It stays when it is used up, because a corrected event gives its
// credits back, and because its command may be repeated; only live grants, those that hold
// something, are linked from their pool. ID, CreatedAt, ExpiresAt, Priority, pool and amount never
// change, nor do sequence and note (its noteSum), which are of its transaction.
type grant struct {
	credit.Grant
	amount decimal.Decimal
	// next is the next live grant in burn order; linked reports whether this one is live.
	pool, next   uint32
	subscription uint32 // whose plan granted it; 0: none
	sequence     uint32
	note         uint32
	kind         GrantType
	end          grantEnd
	linked       bool
	// returned reports whether returnTo made it: no transaction booked it, so none can be reversed.
	returned bool
	// rolled reports whether it was PLAN_INCLUDED before it was ROLLOVER.
	rolled bool
}

// grantEnd says where credits go that come back to a grant.
type grantEnd uint8

const (
	grantOpen     grantEnd = 0 // to the balance
	grantExpired  grantEnd = 1 // they expire at once
	grantReversed grantEnd = 2 // they are reversed at once
)

var grantCodec = page.Codec[grant]{
	Append: func(dst []byte, g *grant) []byte {
		dst = append(dst, g.ID[:]...)
		dst = rows.AppendDecimal(rows.AppendDecimal(dst, g.Remaining), g.amount)
		dst = rows.AppendI64(rows.AppendI64(dst, g.CreatedAt), g.ExpiresAt)
		dst = rows.AppendU32(rows.AppendU32(dst, uint32(g.Priority)), g.pool)
		dst = rows.AppendU32(rows.AppendU32(dst, g.next), g.subscription)
		dst = rows.AppendU32(rows.AppendU32(dst, g.sequence), g.note)
		return append(dst, byte(g.kind), byte(g.end), flags(g.linked, g.returned, g.rolled))
	},
	Read: func(src []byte, g *grant) ([]byte, error) {
		r := rows.Reader{Rest: src}
		g.ID = r.ID()
		g.Remaining, g.amount = r.Decimal(), r.Decimal()
		g.CreatedAt, g.ExpiresAt = r.I64(), r.I64()
		g.Priority, g.pool = int32(r.U32()), r.U32()
		g.next, g.subscription = r.U32(), r.U32()
		g.sequence, g.note = r.U32(), r.U32()
		g.kind, g.end = GrantType(r.U8()), grantEnd(r.U8())
		bits := r.U8()
		g.linked, g.returned, g.rolled = bits&1 != 0, bits&2 != 0, bits&4 != 0
		return r.Rest, r.Err
	},
}

// fromPlan reports whether the grant came with a plan, in this period or an earlier one.
func (g *grant) fromPlan() bool { return g.kind == GrantPlanIncluded || g.kind == GrantRollover }

// booked is the type as which it was granted.
func (g *grant) booked() GrantType {
	if g.rolled {
		return GrantPlanIncluded
	}
	return g.kind
}

// grantsOf walks a pool's live grants in burn order. The walk may unlink the grant that it is at.
func (s *vault) grantsOf(p *pool) iter.Seq2[uint32, *grant] {
	return func(yield func(uint32, *grant) bool) {
		for row := p.firstGrant; row != 0; {
			g := s.grants.Read(row)
			next := g.next
			if !yield(row, g) {
				return
			}
			row = next
		}
	}
}

// burning walks what credit.Burn looks at.
func (s *vault) burning(p *pool) iter.Seq2[uint32, *credit.Grant] {
	return func(yield func(uint32, *credit.Grant) bool) {
		for row, g := range s.grantsOf(p) {
			if !yield(row, &g.Grant) {
				return
			}
		}
	}
}

// grant adds a grant to its pool and books it. It pays the pool's overdraft first. What expires by
// then has expired, granted has room for it, and the customer's lock is held.
func (t *burner) grant(g *grant, note string) (booked uint32) {
	row, r := t.s.grants.Append()
	*r = *g
	t.s.grantByID.Insert(t.s.idHash(&g.ID), row)
	p := t.s.pools.Write(g.pool)
	p.granted = more(p.granted, g.amount)
	paid := decimal.Min(p.overdraft, r.Remaining)
	p.overdraft, r.Remaining = credit.Less(p.overdraft, paid), credit.Less(r.Remaining, paid)
	r.sequence, r.note = p.sequence+1, noteSum(note)
	t.link(row)
	return t.book(&transaction{
		id: g.ID, pool: g.pool, kind: transactionGrant, amount: g.amount, grant: row,
		subscription: g.subscription, createdAt: g.CreatedAt,
	}, transactionText{Note: note})
}

// grantWith finds a grant by its UUID, which is that of its transaction; 0 when there is none.
func (s *vault) grantWith(id *[16]byte) uint32 {
	return s.grantByID.Find(s.idHash(id), func(row uint32) bool {
		return s.grants.Read(row).ID == *id
	})
}

// link puts a grant that holds something among its pool's live ones.
func (t *burner) link(row uint32) {
	g := t.s.grants.Write(row)
	if g.linked || g.Remaining.Sign() <= 0 {
		return
	}
	p := t.s.pools.Write(g.pool)
	before := uint32(0)
	for at, other := range t.s.grantsOf(p) {
		if credit.Compare(&other.Grant, &g.Grant) > 0 {
			break
		}
		before = at
	}
	if before == 0 {
		g.next, p.firstGrant = p.firstGrant, row
	} else {
		b := t.s.grants.Write(before)
		g.next, b.next = b.next, row
	}
	g.linked = true
	p.grants++
	if g.ExpiresAt != 0 && (p.nextExpiry == 0 || g.ExpiresAt < p.nextExpiry) {
		p.nextExpiry = g.ExpiresAt
		t.s.reschedulePool(g.pool)
	}
}

// prune unlinks the grants of a pool that hold nothing any more.
func (t *burner) prune(row uint32) {
	p := t.s.pools.Write(row)
	before, next := uint32(0), int64(0)
	for at, g := range t.s.grantsOf(p) {
		if g.Remaining.Sign() > 0 {
			before = at
			if g.ExpiresAt != 0 && (next == 0 || g.ExpiresAt < next) {
				next = g.ExpiresAt
			}
			continue
		}
		if before == 0 {
			p.firstGrant = g.next
		} else {
			t.s.grants.Write(before).next = g.next
		}
		w := t.s.grants.Write(at)
		w.next, w.linked = 0, false
		p.grants--
	}
	if p.nextExpiry != next {
		p.nextExpiry = next
		t.s.reschedulePool(row)
	}
}

// expire books what a pool's grants lose by an instant, each at its own. The customer's lock is
// held. It returns how many grants expired.
func (t *burner) expire(row uint32, now int64) (count int) {
	p := t.s.pools.Read(row)
	if p.archived || p.nextExpiry == 0 || now < p.nextExpiry {
		return 0
	}
	var due []uint32
	for at, g := range t.s.grantsOf(p) {
		if g.Expired(now) {
			due = append(due, at)
		}
	}
	slices.SortStableFunc(due, func(a, b uint32) int {
		return cmp.Compare(t.s.grants.Read(a).ExpiresAt, t.s.grants.Read(b).ExpiresAt)
	})
	for _, at := range due {
		g := t.s.grants.Write(at)
		lost := g.Remaining
		g.Remaining, g.end = decimal.Decimal{}, grantExpired
		p := t.s.pools.Write(row)
		p.expired = more(p.expired, lost)
		t.book(&transaction{
			pool: row, kind: transactionExpiration, amount: lost, grant: at,
			subscription: g.subscription, createdAt: g.ExpiresAt,
		}, transactionText{})
	}
	t.prune(row)
	t.foldPool(row)
	return len(due)
}
