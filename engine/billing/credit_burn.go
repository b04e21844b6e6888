package billing

import (
	"cmp"
	"slices"

	"tollgate/engine"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/credit"
	"tollgate/engine/decimal"
	"tollgate/engine/page"
)

// draw is what one grant paid, or with grant 0, what the pool paid beyond its grants.
type draw struct {
	Pool   uint32          `wire:"1"`
	Grant  uint32          `wire:"2"`
	Amount decimal.Decimal `wire:"3"`
}

// drawList is the draws of an event in its journal record.
type drawList struct {
	Draws []draw `wire:"1"`
}

// burning is what usage does to credits: which grants pay, and how many of the units they pay. The
// rest of the units has the feature's price.
type burning struct {
	draws   []draw
	covered decimal.Decimal
}

// drawn is the sum of draws.
func drawn(draws []draw) (sum decimal.Decimal) {
	for i := range draws {
		sum = more(sum, draws[i].Amount)
	}
	return sum
}

// poolsOf lists the customer's pools of a name that are not archived, in burn order: by priority,
// then the oldest.
func (s *vault) poolsOf(customer uint32, name poolName, found []uint32) []uint32 {
	for row := s.firstPool(customer); row != 0; {
		p := s.pools.Read(row)
		if p.name == name && !p.archived {
			found = append(found, row)
		}
		row = p.next
	}
	slices.SortStableFunc(found, func(a, b uint32) int {
		return cmp.Compare(s.pools.Read(a).priority, s.pools.Read(b).priority)
	})
	return found
}

// draw collects what a pool's grants pay of an amount, and returns the rest. It changes nothing.
func (s *vault) draw(row uint32, amount decimal.Decimal, now int64, to *[]draw) decimal.Decimal {
	pay := func(grant uint32, paid decimal.Decimal) {
		*to = append(*to, draw{row, grant, paid})
	}
	return credit.Burn(s.burning(s.pools.Read(row)), amount, now, pay)
}

// planBurn decides how usage at a place burns credits. It changes nothing. CreditsEmpty: neither
// credits nor a price pay for it. The draws are good until the next event.
func (t *burner) planBurn(
	customer uint32, at place, units decimal.Decimal, now int64,
) (b burning, outcome engine.Outcome) {
	if !at.credited() || units.Sign() <= 0 {
		return b, engine.OutcomeDone
	}
	c := &at.feature.credits
	need, ok := credit.Need(units, c.weight)
	if !ok {
		return b, engine.OutcomeOverflow
	}
	var room [MaxPools]uint32
	draws, rest, soft := t.moves.draws[:0], need, uint32(0)
	for _, row := range t.s.poolsOf(customer, c.pool, room[:0]) {
		p := t.s.pools.Read(row)
		t.spend(int(p.grants) / 8)
		if p.frozen { // what no other pool pays has a price, or is refused
			continue
		}
		if _, ok := p.consumed.Add(need); !ok {
			return b, engine.OutcomeOverflow
		}
		rest = t.s.draw(row, rest, now, &draws)
		if !p.hard && soft == 0 {
			soft = row
		}
	}
	if rest.Sign() > 0 && soft != 0 {
		draws = append(draws, draw{Pool: soft, Amount: rest})
		rest = decimal.Decimal{}
	}
	t.moves.draws = draws
	if rest.Sign() > 0 && !c.fallback {
		return b, engine.OutcomeCreditsEmpty
	}
	return burning{draws, credit.Covered(units, rest, c.weight)}, engine.OutcomeDone
}

// burn carries out what planBurn decided at the same instant. The customer's lock is held.
func (t *burner) burn(at place, b *burning, now int64) {
	t.take(b.draws, now)
	for first := 0; first < len(b.draws); {
		pool, end := b.draws[first].Pool, first
		for end < len(b.draws) && b.draws[end].Pool == pool {
			end++
		}
		t.bookUsage(at, pool, drawn(b.draws[first:end]), now)
		t.foldPool(pool)
		first = end
	}
}

// take lets grants pay. The customer's lock is held.
func (t *burner) take(draws []draw, now int64) {
	for i := range draws {
		d := &draws[i]
		t.expire(d.Pool, now)
		p := t.s.pools.Write(d.Pool)
		p.consumed = more(p.consumed, d.Amount)
		if d.Grant == 0 {
			p.overdraft = more(p.overdraft, d.Amount)
			continue
		}
		g := t.s.grants.Write(d.Grant)
		if g.Remaining = credit.Less(g.Remaining, d.Amount); g.Remaining.IsZero() {
			t.prune(d.Pool)
		}
	}
}

// giveBack undoes take: credits return to the grants that paid; an overdraft is paid first. A pool
// that is archived keeps what it has. It returns what came to grants that are over: for lose, once
// the return is booked. The customer's lock is held.
func (t *burner) giveBack(draws []draw, now int64) (lost []draw) {
	for i := range draws {
		d := &draws[i]
		t.expire(d.Pool, now)
		p := t.s.pools.Write(d.Pool)
		if p.archived {
			continue
		}
		p.consumed = credit.Less(p.consumed, d.Amount)
		if d.Grant != 0 {
			g := t.s.grants.Write(d.Grant)
			if g.Expired(now) && g.end == grantOpen {
				g.end = grantExpired
			}
			if g.end != grantOpen {
				lost = append(lost, *d)
				continue
			}
		}
		paid := decimal.Min(p.overdraft, d.Amount)
		p.overdraft = credit.Less(p.overdraft, paid)
		if left := credit.Less(d.Amount, paid); !left.IsZero() {
			t.returnTo(d, left, now)
		}
	}
	return lost
}

// lose lets credits that came back to grants which are over go where those have gone: they expire,
// or are reversed, at once.
func (t *burner) lose(lost []draw, now int64) {
	for i := range lost {
		d := &lost[i]
		g, p := t.s.grants.Read(d.Grant), t.s.pools.Write(d.Pool)
		x := transaction{
			pool: d.Pool, kind: transactionExpiration, amount: d.Amount, grant: d.Grant,
			subscription: g.subscription, createdAt: now,
		}
		if g.end == grantReversed {
			x.kind, x.of = transactionReversal, g.ID
			p.reversed = more(p.reversed, d.Amount)
		} else {
			p.expired = more(p.expired, d.Amount)
		}
		t.book(&x, transactionText{})
	}
}

// returnTo puts credits back into the grant that paid them. Where none did (an overdraft, which
// later grants have paid meanwhile), they become a grant of their own.
func (t *burner) returnTo(d *draw, left decimal.Decimal, now int64) {
	row := d.Grant
	if row == 0 {
		var g *grant
		row, g = t.s.grants.Append()
		p := t.s.pools.Read(d.Pool)
		*g = grant{
			Grant: credit.Grant{
				ID: creditID("refund", p.id, uint64(row)), CreatedAt: now, Priority: p.priority,
			}, amount: left, pool: d.Pool, kind: GrantRefund, returned: true,
		}
	}
	g := t.s.grants.Write(row)
	g.Remaining = more(g.Remaining, left)
	t.link(row)
}

// bookUsage books what usage took from a pool: one transaction per feature, subscription and day.
func (t *burner) bookUsage(at place, pool uint32, amount decimal.Decimal, now int64) {
	x := transaction{
		pool: pool, kind: transactionConsumption, amount: amount, createdAt: now,
		subscription: at.subscription, feature: at.feature.feature,
	}
	if at.counter == 0 { // late, and the plan has lost the feature since
		t.book(&x, transactionText{})
		return
	}
	c := t.s.covers.Write(t.coverOf(at.counter))
	if c.transaction != 0 {
		x := t.s.transactions.Read(c.transaction)
		if x.kind == transactionConsumption && x.pool == pool &&
			x.subscription == at.subscription && x.feature == at.feature.feature &&
			sameDay(x.createdAt, now) {
			if sum, ok := x.amount.Add(amount); ok {
				p := t.s.pools.Write(pool)
				x = t.s.transactions.Write(c.transaction)
				x.amount, x.balance, x.updatedAt = sum, p.balance(), now
				p.modifiedAt = now
				t.moved(pool)
				return
			}
		}
	}
	c.transaction = t.book(&x, transactionText{})
}

// cover says how much of a counter credits have paid: of used and of next, and in which transaction
// the newest of it stands. Only counters of features that burn credits have one.
type cover struct {
	counter, transaction uint32 // counter never changes
	used, next           decimal.Decimal
}

var coverCodec = page.Codec[cover]{
	Append: func(dst []byte, c *cover) []byte {
		dst = rows.AppendU32(rows.AppendU32(dst, c.counter), c.transaction)
		return rows.AppendDecimal(rows.AppendDecimal(dst, c.used), c.next)
	},
	Read: func(src []byte, c *cover) ([]byte, error) {
		r := rows.Reader{Rest: src}
		c.counter, c.transaction = r.U32(), r.U32()
		c.used, c.next = r.Decimal(), r.Decimal()
		return r.Rest, r.Err
	},
}

// coverWith finds a counter's cover; 0 when it has none.
func (s *vault) coverWith(counter uint32) uint32 {
	return s.coverByCounter.Find(rowHash(counter), func(row uint32) bool {
		return s.covers.Read(row).counter == counter
	})
}

// coverOf finds or makes a counter's cover. The customer's lock is held.
func (t *burner) coverOf(counter uint32) uint32 {
	row := t.s.coverWith(counter)
	if row == 0 {
		var c *cover
		row, c = t.s.covers.Append()
		c.counter = counter
		t.s.coverByCounter.Insert(rowHash(counter), row)
	}
	return row
}

// cover counts units of a counter as paid by credits: of its used, or where ahead is set, of its
// next. Units < 0 uncount. The customer's lock is held.
func (t *burner) cover(counter uint32, units decimal.Decimal, ahead bool) {
	if units.IsZero() {
		return
	}
	c := t.s.covers.Write(t.coverOf(counter))
	if ahead {
		c.next = more(c.next, units)
	} else {
		c.used = more(c.used, units)
	}
	high, low := c.used.Bits()
	t.Fold(uint64(counter)<<32 ^ uint64(high) ^ low)
}

// covered is how many units of a counter's used and next credits have paid: what is billed is the
// counter less these.
func (s *vault) covered(counter uint32) (used, next decimal.Decimal) {
	if row := s.coverWith(counter); row != 0 {
		c := s.covers.Read(row)
		return c.used, c.next
	}
	return decimal.Decimal{}, decimal.Decimal{}
}

// purse is what a check needs to know of a customer's credits for a feature.
type purse struct {
	balance decimal.Decimal // of pools that pay now
	endless bool            // a pool pays without a limit
	covered decimal.Decimal // units of the counter's used that credits have paid
}

// purse must be called under the customer's lock.
func (s *vault) purse(customer uint32, at place, now int64) (u purse) {
	var room [MaxPools]uint32
	for _, row := range s.poolsOf(customer, at.feature.credits.pool, room[:0]) {
		p := s.pools.Read(row)
		if p.frozen {
			continue
		}
		u.endless = u.endless || !p.hard
		if balance := s.balanceAt(p, now); balance.Sign() > 0 {
			sum, ok := u.balance.Add(balance)
			if !ok {
				sum = decimal.Largest()
			}
			u.balance = sum
		}
	}
	u.covered, _ = s.covered(at.counter)
	return u
}

// coverable is how many of the units the purse pays.
func (u *purse) coverable(units decimal.Decimal, c *featureCredits) decimal.Decimal {
	if u.endless {
		return units
	}
	need, ok := credit.Need(units, c.weight)
	if !ok {
		return decimal.Decimal{}
	}
	return credit.Covered(units, credit.Less(need, decimal.Min(need, u.balance)), c.weight)
}

// empty reports whether neither credits nor a price pay for units; of 0 units, for nothing in
// particular.
func (u *purse) empty(units decimal.Decimal, c *featureCredits) bool {
	if c.fallback || u.endless {
		return false
	}
	if units.Sign() > 0 {
		return u.coverable(units, c).Less(units)
	}
	return u.balance.Sign() <= 0
}
