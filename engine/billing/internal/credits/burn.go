package credits

import (
	"cmp"
	"slices"

	"tollgate/engine"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/credit"
	"tollgate/engine/decimal"
)

// Draw is what one grant paid, or, with grant 0, what the pool paid beyond its grants.
type Draw struct {
	Pool   uint32          `wire:"1"`
	Grant  uint32          `wire:"2"`
	Amount decimal.Decimal `wire:"3"`
}

// DrawList is the draws of an event in its journal record.
type DrawList struct {
	Draws []Draw `wire:"1"`
	// Budget is, of a corrected event, what it counts in limits of budgets (a budgets.Counted).
	Budget []byte `wire:"2"`
	// Cost is, of a corrected event, what it costs the provider, where a settlement has stated that:
	// HasCost.
	Cost    decimal.Decimal `wire:"3"`
	HasCost bool            `wire:"4"`
	// Overrun are, of a corrected event, the units that did not fit beyond a reservation.
	Overrun decimal.Decimal `wire:"5"`
}

// Burning is how usage burns credits: which grants pay, and for how many units. The other units
// have the feature's price.
type Burning struct {
	Draws   []Draw
	Covered decimal.Decimal
}

// Drawn returns the sum of draws.
func Drawn(draws []Draw) (sum decimal.Decimal) {
	for i := range draws {
		sum = More(sum, draws[i].Amount)
	}
	return sum
}

// poolsOf lists the customer's pools of a name that are not archived, in burn order: by priority,
// then the oldest.
func (s *Vault) poolsOf(customer uint32, name catalogs.PoolName, found []uint32) []uint32 {
	for row := s.FirstPool(customer); row != 0; {
		p := s.Pools.Read(row)
		if p.Name == name && !p.Archived {
			found = append(found, row)
		}
		row = p.Next
	}
	slices.SortStableFunc(found, func(a, b uint32) int {
		return cmp.Compare(s.Pools.Read(a).Priority, s.Pools.Read(b).Priority)
	})
	return found
}

// HeldOf returns what reservations hold of a pool at an instant. Those of one name are held in burn
// order; the first that pays without a limit holds what none of them has. It requires the
// customer's lock.
func (s *Vault) HeldOf(pool uint32, now int64) (held decimal.Decimal) {
	p := s.Pools.Read(pool)
	if !s.Customers.Read(p.Customer).Held {
		return held
	}
	rest, soft := s.Held.Credits(p.Customer, p.Name, now), uint32(0)
	var room [catalogs.MaxPools]uint32
	for _, row := range s.poolsOf(p.Customer, p.Name, room[:0]) {
		q := s.Pools.Read(row)
		if q.Frozen {
			continue
		}
		part := decimal.Min(rest, decimal.Max(s.BalanceAt(q, now), decimal.Decimal{}))
		if rest = credit.Less(rest, part); row == pool {
			held = part
		}
		if !q.Hard && soft == 0 {
			soft = row
		}
	}
	if soft == pool {
		held = More(held, rest)
	}
	return held
}

// Draw collects the draws of a pool's grants for an amount, and returns the rest. It changes
// nothing.
func (s *Vault) Draw(row uint32, amount decimal.Decimal, now int64, to *[]Draw) decimal.Decimal {
	pay := func(grant uint32, paid decimal.Decimal) {
		*to = append(*to, Draw{row, grant, paid})
	}
	return credit.Burn(s.burning(s.Pools.Read(row)), amount, now, pay)
}

// Need is usage that burns credits.
type Need struct {
	Customer uint32
	Units    decimal.Decimal
	// Kept are credits that reservations hold: pools with a hard limit keep them.
	Kept decimal.Decimal
	// Forced usage is not refused: what neither credits nor a price cover stays unpaid.
	Forced bool
	// Held are the credits that the usage's own reservation holds since an instant: a pool that was
	// stopped later still pays them.
	Held  decimal.Decimal
	Since int64
	// Owing is what stopped pools are to pay before, and have not paid yet.
	Owing []Draw
}

// PlanBurn plans how usage at a place burns credits. It changes nothing. It returns CreditsEmpty if
// neither credits nor a price pay for it. The draws are valid until the next event.
func (t *Burner) PlanBurn(
	at book.Place, n *Need, now int64,
) (b Burning, outcome engine.Outcome) {
	if !at.Credited() || n.Units.Sign() <= 0 {
		return b, engine.OutcomeDone
	}
	c := &at.Feature.Credits
	need, ok := credit.Need(n.Units, c.Weight)
	if !ok {
		return b, engine.OutcomeOverflow
	}
	var room [catalogs.MaxPools]uint32
	draws, rest, soft := t.Moves.draws[:0], need, uint32(0)
	var left decimal.Decimal // of the pools with reserved credits
	for _, row := range t.S.poolsOf(n.Customer, c.Pool, room[:0]) {
		p := t.S.Pools.Read(row)
		t.Spend(int(p.Grants) / 8)
		if p.Frozen { // what no other pool pays has a price or is refused
			continue
		}
		if _, ok := p.Consumed.Add(need); !ok {
			return b, engine.OutcomeOverflow
		}
		rest = t.S.Draw(row, rest, now, &draws)
		if !n.Kept.IsZero() {
			left = sums.Of(left, t.S.BalanceAt(p, now))
		}
		if !p.Hard && soft == 0 {
			soft = row
		}
	}
	if n.Kept.Sign() > 0 && soft == 0 {
		var back decimal.Decimal
		draws, back = keep(draws, n.Kept, sums.Difference(left, credit.Less(need, rest)))
		rest = sums.Of(rest, back)
	}
	if rest.Sign() > 0 && soft != 0 {
		draws = append(draws, Draw{Pool: soft, Amount: rest})
		rest = decimal.Decimal{}
	}
	if rest.Sign() > 0 && n.Held.Sign() > 0 {
		owed := sums.Remaining(n.Held, credit.Less(need, rest))
		var paid decimal.Decimal
		draws, paid = t.drawStopped(n, c.Pool, decimal.Min(rest, owed), draws, now)
		rest = credit.Less(rest, paid)
	}
	t.Moves.draws = draws
	if rest.Sign() > 0 && !c.Fallback && !n.Forced {
		return b, engine.OutcomeCreditsEmpty
	}
	return Burning{draws, credit.Covered(n.Units, rest, c.Weight)}, engine.OutcomeDone
}

// drawStopped adds the draws of what a reservation holds from pools that were frozen or archived
// since: first in burn order first. It returns what they pay.
func (t *Burner) drawStopped(
	n *Need, name catalogs.PoolName, amount decimal.Decimal, draws []Draw, now int64,
) (more []Draw, paid decimal.Decimal) {
	var stopped []uint32
	for row := t.S.FirstPool(n.Customer); row != 0; row = t.S.Pools.Read(row).Next {
		p := t.S.Pools.Read(row)
		_, fits := p.Consumed.Add(sums.Of(amount, n.owing(row)))
		if p.Name == name && p.stopped() && fits && n.Since <= t.S.PoolWords(row).StoppedAt {
			stopped = append(stopped, row)
		}
	}
	slices.SortStableFunc(stopped, func(a, b uint32) int {
		return cmp.Compare(t.S.Pools.Read(a).Priority, t.S.Pools.Read(b).Priority)
	})
	rest := amount
	for _, row := range stopped {
		p := t.S.Pools.Read(row)
		t.Spend(1 + int(p.Grants)/8)
		before, first := n.owing(row), len(draws)
		owes := decimal.Min(rest, sums.Remaining(t.S.PoolWords(row).StoppedHeld, before))
		left := t.S.Draw(row, sums.Of(before, owes), now, &draws)
		if left.Sign() > 0 && !p.Hard {
			draws = append(draws, Draw{Pool: row, Amount: left})
			left = decimal.Decimal{}
		}
		draws = append(draws[:first], behind(draws[first:], before)...)
		rest = credit.Less(rest, credit.Less(owes, left))
	}
	return draws, credit.Less(amount, rest)
}

// owing is what a pool is to pay before.
func (n *Need) owing(pool uint32) (sum decimal.Decimal) {
	for i := range n.Owing {
		if n.Owing[i].Pool == pool {
			sum = More(sum, n.Owing[i].Amount)
		}
	}
	return sum
}

// behind is what draws pay after an amount of them.
func behind(draws []Draw, amount decimal.Decimal) []Draw {
	for len(draws) > 0 && amount.Sign() > 0 {
		d := &draws[0]
		paid := decimal.Min(d.Amount, amount)
		amount, d.Amount = credit.Less(amount, paid), credit.Less(d.Amount, paid)
		if d.Amount.IsZero() {
			draws = draws[1:]
		}
	}
	return draws
}

// OfStopped collects those of draws that stopped pools pay.
func (s *Vault) OfStopped(draws, found []Draw) []Draw {
	for i := range draws {
		if s.Pools.Read(draws[i].Pool).stopped() {
			found = append(found, draws[i])
		}
	}
	return found
}

// keep cuts draws, from the last one on, until the reserved credits are left.
func keep(draws []Draw, kept, left decimal.Decimal) (fewer []Draw, back decimal.Decimal) {
	for short := sums.Remaining(kept, left); short.Sign() > 0 && len(draws) > 0; {
		d := &draws[len(draws)-1]
		paid := decimal.Min(d.Amount, short)
		short, back = credit.Less(short, paid), sums.Of(back, paid)
		if d.Amount = credit.Less(d.Amount, paid); d.Amount.IsZero() {
			draws = draws[:len(draws)-1]
		}
	}
	return draws, back
}

// Burn carries out PlanBurn's plan at the same instant. Callers hold the customer's lock.
func (t *Burner) Burn(at book.Place, b *Burning, now int64) {
	t.Take(b.Draws, now)
	for first := 0; first < len(b.Draws); {
		pool, end := b.Draws[first].Pool, first
		for end < len(b.Draws) && b.Draws[end].Pool == pool {
			end++
		}
		amount := Drawn(b.Draws[first:end])
		t.bookUsage(at, pool, amount, now)
		if t.S.Pools.Read(pool).stopped() {
			t.paysHeld(pool, amount)
		}
		t.FoldPool(pool)
		first = end
	}
}

// Take makes grants pay. Callers hold the customer's lock.
func (t *Burner) Take(draws []Draw, now int64) {
	for i := range draws {
		d := &draws[i]
		t.Expire(d.Pool, now)
		p := t.S.Pools.Write(d.Pool)
		p.Consumed = More(p.Consumed, d.Amount)
		if d.Grant == 0 {
			p.Overdraft = More(p.Overdraft, d.Amount)
			continue
		}
		g := t.S.Grants.Write(d.Grant)
		if g.Remaining = credit.Less(g.Remaining, d.Amount); g.Remaining.IsZero() {
			t.Prune(d.Pool)
		}
	}
}

// GiveBack undoes Take: credits return to the grants that paid, after the overdraft is paid. An
// archived pool keeps what it has. GiveBack returns the draws of expired or reversed grants, for
// Lose once the return is booked. Callers hold the customer's lock.
func (t *Burner) GiveBack(draws []Draw, now int64) (lost []Draw) {
	for i := range draws {
		d := &draws[i]
		t.Expire(d.Pool, now)
		p := t.S.Pools.Write(d.Pool)
		if p.Archived {
			continue
		}
		p.Consumed = credit.Less(p.Consumed, d.Amount)
		if d.Grant != 0 {
			g := t.S.Grants.Write(d.Grant)
			if g.Expired(now) && g.End == grantOpen {
				g.End = grantExpired
			}
			if g.End != grantOpen {
				lost = append(lost, *d)
				continue
			}
		}
		paid := decimal.Min(p.Overdraft, d.Amount)
		p.Overdraft = credit.Less(p.Overdraft, paid)
		if left := credit.Less(d.Amount, paid); !left.IsZero() {
			t.returnTo(d, left, now)
		}
	}
	return lost
}

// Lose books credits that returned to expired or reversed grants as expired or reversed.
func (t *Burner) Lose(lost []Draw, now int64) {
	for i := range lost {
		d := &lost[i]
		g, p := t.S.Grants.Read(d.Grant), t.S.Pools.Write(d.Pool)
		x := Transaction{
			Pool: d.Pool, Kind: TransactionExpiration, Amount: d.Amount, Grant: d.Grant,
			Subscription: g.Subscription, CreatedAt: now,
		}
		if g.End == GrantReversed {
			x.Kind, x.Of = TransactionReversal, g.ID
			p.Reversed = More(p.Reversed, d.Amount)
		} else {
			p.Expired = More(p.Expired, d.Amount)
		}
		t.Book(&x, TransactionText{})
	}
}

// returnTo returns credits to the grant that paid them. If none did (an overdraft that later grants
// have paid), they become a grant of their own.
func (t *Burner) returnTo(d *Draw, left decimal.Decimal, now int64) {
	row := d.Grant
	if row == 0 {
		var g *Grant
		row, g = t.S.Grants.Append()
		p := t.S.Pools.Read(d.Pool)
		*g = Grant{
			Grant: credit.Grant{
				ID: catalogs.CreditID("refund", p.ID, uint64(row)), CreatedAt: now, Priority: p.Priority,
			}, Amount: left, Pool: d.Pool, Kind: GrantRefund, Returned: true,
		}
	}
	g := t.S.Grants.Write(row)
	g.Remaining = More(g.Remaining, left)
	t.link(row)
}

// bookUsage books a pool's usage: one transaction per feature, subscription and day.
func (t *Burner) bookUsage(at book.Place, pool uint32, amount decimal.Decimal, now int64) {
	x := Transaction{
		Pool: pool, Kind: TransactionConsumption, Amount: amount, CreatedAt: now,
		Subscription: at.Subscription, Feature: at.Feature.Feature,
	}
	if at.Counter == 0 { // late, and the plan has dropped the feature since
		t.Book(&x, TransactionText{})
		return
	}
	c := t.S.Covers.Write(t.coverOf(at.Counter))
	if c.Transaction != 0 {
		x := t.S.Transactions.Read(c.Transaction)
		if x.Kind == TransactionConsumption && x.Pool == pool &&
			x.Subscription == at.Subscription && x.Feature == at.Feature.Feature &&
			floorDay(x.CreatedAt) == floorDay(now) {
			if sum, ok := x.Amount.Add(amount); ok {
				p := t.S.Pools.Write(pool)
				x = t.S.Transactions.Write(c.Transaction)
				x.Amount, x.Balance, x.UpdatedAt = sum, p.Balance(), now
				p.ModifiedAt = now
				t.moved(pool)
				return
			}
		}
	}
	c.Transaction = t.Book(&x, TransactionText{})
}

// Cover is how much of a counter credits have paid, of used and of next, and the newest transaction
// of it. Only counters of features that burn credits have one.
//
//schema:row
type Cover struct {
	Counter, Transaction uint32 // counter never changes
	Used, Next           decimal.Decimal
}

// coverWith finds a counter's cover; 0 if it has none.
func (s *Vault) coverWith(counter uint32) uint32 {
	return s.coverByCounter.Find(rowHash(counter), func(row uint32) bool {
		return s.Covers.Read(row).Counter == counter
	})
}

// coverOf finds or makes a counter's cover. Callers hold the customer's lock.
func (t *Burner) coverOf(counter uint32) uint32 {
	row := t.S.coverWith(counter)
	if row == 0 {
		var c *Cover
		row, c = t.S.Covers.Append()
		c.Counter = counter
		t.S.coverByCounter.Insert(rowHash(counter), row)
	}
	return row
}

// Cover counts units of a counter's used, or, if ahead is set, of its next, as paid by credits.
// Units below 0 uncount. Callers hold the customer's lock.
func (t *Burner) Cover(counter uint32, units decimal.Decimal, ahead bool) {
	if units.IsZero() {
		return
	}
	c := t.S.Covers.Write(t.coverOf(counter))
	if ahead {
		c.Next = More(c.Next, units)
	} else {
		c.Used = More(c.Used, units)
	}
	high, low := c.Used.Bits()
	t.Fold(uint64(counter)<<32 ^ uint64(high) ^ low)
}

// Covered returns how many units of a counter's used and next credits have paid. Invoices bill the
// rest.
func (s *Vault) Covered(counter uint32) (used, next decimal.Decimal) {
	if row := s.coverWith(counter); row != 0 {
		c := s.Covers.Read(row)
		return c.Used, c.Next
	}
	return decimal.Decimal{}, decimal.Decimal{}
}

// Purse is what a check needs of a customer's credits for a feature.
type Purse struct {
	balance decimal.Decimal // of pools that pay now
	endless bool            // a pool pays without a limit
	Covered decimal.Decimal // units of the counter's used that credits have paid
}

// Purse requires the customer's lock.
func (s *Vault) Purse(customer uint32, at book.Place, now int64) (u Purse) {
	u = s.PurseOf(customer, at.Feature.Credits.Pool, now)
	u.Covered, _ = s.Covered(at.Counter)
	return u
}

// PurseOf returns the purse of a customer's pools of a name, for no feature.
func (s *Vault) PurseOf(customer uint32, name catalogs.PoolName, now int64) (u Purse) {
	var room [catalogs.MaxPools]uint32
	for _, row := range s.poolsOf(customer, name, room[:0]) {
		p := s.Pools.Read(row)
		if p.Frozen {
			continue
		}
		u.endless = u.endless || !p.Hard
		if balance := s.BalanceAt(p, now); balance.Sign() > 0 {
			sum, ok := u.balance.Add(balance)
			if !ok {
				sum = decimal.Largest()
			}
			u.balance = sum
		}
	}
	return u
}

// Keep reserves credits of the purse.
func (u *Purse) Keep(held decimal.Decimal) { u.balance = sums.Remaining(u.balance, held) }

// Free returns the credits in the purse; endless if it pays any amount.
func (u *Purse) Free() (balance decimal.Decimal, endless bool) { return u.balance, u.endless }

// Coverable returns how many of the units the purse pays.
func (u *Purse) Coverable(units decimal.Decimal, c *catalogs.FeatureCredits) decimal.Decimal {
	if u.endless {
		return units
	}
	need, ok := credit.Need(units, c.Weight)
	if !ok {
		return decimal.Decimal{}
	}
	return credit.Covered(units, credit.Less(need, decimal.Min(need, u.balance)), c.Weight)
}

// Empty reports whether neither credits nor a price pay for units; for 0 units, for any.
func (u *Purse) Empty(units decimal.Decimal, c *catalogs.FeatureCredits) bool {
	if c.Fallback || u.endless {
		return false
	}
	if units.Sign() > 0 {
		return u.Coverable(units, c).Less(units)
	}
	return u.balance.Sign() <= 0
}
