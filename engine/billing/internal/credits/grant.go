package credits

import (
	"cmp"
	"hash/crc32"
	"iter"
	"slices"

	"tollgate/engine/credit"
	"tollgate/engine/decimal"
)

var Castagnoli = crc32.MakeTable(crc32.Castagnoli)

// GrantType is the origin of a grant. The numbers are part of snapshots and are never reused.
//
//schema:enum
type GrantType uint8

const (
	GrantPlanIncluded GrantType = 1 // PLAN_INCLUDED
	GrantPurchased    GrantType = 2 // PURCHASED
	GrantPromotional  GrantType = 3 // PROMOTIONAL
	GrantRollover     GrantType = 4 // ROLLOVER
	GrantManual       GrantType = 5 // MANUAL
	GrantRefund       GrantType = 6 // REFUND
)

// GrantTypeOf parses a type; "" is MANUAL.
func GrantTypeOf(word string) (g GrantType, ok bool) {
	if word == "" {
		return GrantManual, true
	}
	i := slices.Index(grantTypeNames, word)
	return GrantType(max(i, 0)), i > 0
}

// NoteSum returns a hash by which a permanent row tells notes apart.
func NoteSum(note string) uint32 { return crc32.Checksum([]byte(note), Castagnoli) }

// Grant is the record of a grant. It stays when it is used up, because a corrected event returns
// credits to it and its command may be repeated. The pool links only live grants, which have
// credits left. ID, CreatedAt, ExpiresAt, Priority, pool and amount never change, nor do the
// transaction's sequence and note (as a NoteSum).
//
//schema:row ID Remaining Amount CreatedAt ExpiresAt Priority Pool Next Subscription Sequence Note
//schema:row Kind End Linked Returned Rolled
type Grant struct {
	credit.Grant
	Amount decimal.Decimal
	// Next is the next live grant in burn order; linked reports whether this one is live.
	Pool, Next   uint32
	Subscription uint32 // subscription whose plan granted it; 0: none
	Sequence     uint32
	Note         uint32
	Kind         GrantType
	End          grantEnd
	Linked       bool
	// Returned reports whether returnTo made it: no transaction booked it, so it cannot be
	// reversed.
	Returned bool
	// Rolled reports whether it was PLAN_INCLUDED before it became ROLLOVER.
	Rolled bool
}

// grantEnd is the destination of credits that return to a grant.
type grantEnd uint8

const (
	grantOpen     grantEnd = 0 // to the balance
	grantExpired  grantEnd = 1 // they expire at once
	GrantReversed grantEnd = 2 // they are reversed at once
)

// Booked returns the type with which it was booked.
func (g *Grant) Booked() GrantType {
	if g.Rolled {
		return GrantPlanIncluded
	}
	return g.Kind
}

// GrantsOf walks a pool's live grants in burn order. The walk may unlink the present grant.
func (s *Vault) GrantsOf(p *Pool) iter.Seq2[uint32, *Grant] {
	return func(yield func(uint32, *Grant) bool) {
		for row := p.FirstGrant; row != 0; {
			g := s.Grants.Read(row)
			next := g.Next
			if !yield(row, g) {
				return
			}
			row = next
		}
	}
}

// burning walks the fields that credit.Burn needs.
func (s *Vault) burning(p *Pool) iter.Seq2[uint32, *credit.Grant] {
	return func(yield func(uint32, *credit.Grant) bool) {
		for row, g := range s.GrantsOf(p) {
			if !yield(row, &g.Grant) {
				return
			}
		}
	}
}

// Grant adds a grant to its pool and books it. It first pays the pool's overdraft. Due expiries
// must have happened, granted must have room, and callers hold the customer's lock.
func (t *Burner) Grant(g *Grant, note string) (booked uint32) {
	row, r := t.S.Grants.Append()
	*r = *g
	t.S.grantByID.Insert(t.S.IDHash(&g.ID), row)
	p := t.S.Pools.Write(g.Pool)
	p.Granted = More(p.Granted, g.Amount)
	paid := decimal.Min(p.Overdraft, r.Remaining)
	p.Overdraft, r.Remaining = credit.Less(p.Overdraft, paid), credit.Less(r.Remaining, paid)
	r.Sequence, r.Note = p.Sequence+1, NoteSum(note)
	t.link(row)
	return t.Book(&Transaction{
		ID: g.ID, Pool: g.Pool, Kind: TransactionGrant, Amount: g.Amount, Grant: row,
		Subscription: g.Subscription, CreatedAt: g.CreatedAt,
	}, TransactionText{Note: note})
}

// GrantWith finds a grant by its UUID, which is that of its transaction; 0 if there is none.
func (s *Vault) GrantWith(id *[16]byte) uint32 {
	return s.grantByID.Find(s.IDHash(id), func(row uint32) bool {
		return s.Grants.Read(row).ID == *id
	})
}

// link adds a grant with credits to its pool's live ones.
func (t *Burner) link(row uint32) {
	g := t.S.Grants.Write(row)
	if g.Linked || g.Remaining.Sign() <= 0 {
		return
	}
	p := t.S.Pools.Write(g.Pool)
	before := uint32(0)
	for at, other := range t.S.GrantsOf(p) {
		if credit.Compare(&other.Grant, &g.Grant) > 0 {
			break
		}
		before = at
	}
	if before == 0 {
		g.Next, p.FirstGrant = p.FirstGrant, row
	} else {
		b := t.S.Grants.Write(before)
		g.Next, b.Next = b.Next, row
	}
	g.Linked = true
	p.Grants++
	if g.ExpiresAt != 0 && (p.NextExpiry == 0 || g.ExpiresAt < p.NextExpiry) {
		p.NextExpiry = g.ExpiresAt
		t.S.ReschedulePool(g.Pool)
	}
}

// Prune unlinks a pool's empty grants.
func (t *Burner) Prune(row uint32) {
	p := t.S.Pools.Write(row)
	before, next := uint32(0), int64(0)
	for at, g := range t.S.GrantsOf(p) {
		if g.Remaining.Sign() > 0 {
			before = at
			if g.ExpiresAt != 0 && (next == 0 || g.ExpiresAt < next) {
				next = g.ExpiresAt
			}
			continue
		}
		if before == 0 {
			p.FirstGrant = g.Next
		} else {
			t.S.Grants.Write(before).Next = g.Next
		}
		w := t.S.Grants.Write(at)
		w.Next, w.Linked = 0, false
		p.Grants--
	}
	if p.Archived {
		next = 0 // it keeps its credits
	}
	if p.NextExpiry != next {
		p.NextExpiry = next
		t.S.ReschedulePool(row)
	}
}

// Expire books what a pool's grants lose by an instant, each at its own. The customer's lock is
// held. It returns how many grants expired.
func (t *Burner) Expire(row uint32, now int64) (count int) {
	p := t.S.Pools.Read(row)
	if p.Archived || p.NextExpiry == 0 || now < p.NextExpiry {
		return 0
	}
	var due []uint32
	for at, g := range t.S.GrantsOf(p) {
		if g.Expired(now) {
			due = append(due, at)
		}
	}
	slices.SortStableFunc(due, func(a, b uint32) int {
		return cmp.Compare(t.S.Grants.Read(a).ExpiresAt, t.S.Grants.Read(b).ExpiresAt)
	})
	for _, at := range due {
		g := t.S.Grants.Write(at)
		lost := g.Remaining
		g.Remaining, g.End = decimal.Decimal{}, grantExpired
		p := t.S.Pools.Write(row)
		p.Expired = More(p.Expired, lost)
		t.Book(&Transaction{
			Pool: row, Kind: TransactionExpiration, Amount: lost, Grant: at,
			Subscription: g.Subscription, CreatedAt: g.ExpiresAt,
		}, TransactionText{})
	}
	t.Prune(row)
	t.FoldPool(row)
	return len(due)
}
