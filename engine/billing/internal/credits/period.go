package credits

import (
	"slices"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/credit"
	"tollgate/engine/decimal"
	"tollgate/engine/uuid"
)

// The lifecycle of subscriptions calls these functions, at instants of the environment's clock,
// with the customer's lock held.

// CreditsAtPeriodStart grants the allocations of the subscription's plan version for a period.
func (t *Burner) CreditsAtPeriodStart(subscription uint32, at int64) {
	v := t.VersionOf(subscription)
	for i := range v.Allocations {
		t.allocate(subscription, &v.Allocations[i], v.Allocations[i].Amount, at)
	}
}

// CreditsAtUpgrade grants, pool by pool, what the subscription's plan version allocates in addition
// to the version before.
func (t *Burner) CreditsAtUpgrade(subscription uint32, from *catalogs.PlanVersion, at int64) {
	v := t.VersionOf(subscription)
	for i := range v.Allocations {
		a := &v.Allocations[i]
		amount := a.Amount
		for j := range from.Allocations {
			if from.Allocations[j].Pool == a.Pool {
				amount = sums.Remaining(a.Amount, from.Allocations[j].Amount)
			}
		}
		if amount.Sign() > 0 {
			t.allocate(subscription, a, amount, at)
		}
	}
}

// CreditsAtPeriodEnd rolls over the pools of the subscription's plan version.
func (t *Burner) CreditsAtPeriodEnd(subscription uint32, at int64) {
	v := t.VersionOf(subscription)
	customer := t.S.Subscriptions.Read(subscription).Customer
	for i := range v.Allocations {
		if row := poolCalled(t.S, customer, v.Allocations[i].Pool); row != 0 {
			t.Expire(row, at)
			t.rollOver(row, subscription, at)
			t.FoldPool(row)
		}
	}
}

// VersionOf returns the plan version of a subscription.
func (t *Burner) VersionOf(subscription uint32) *catalogs.PlanVersion {
	b := t.S.Subscriptions.Read(subscription)
	return t.S.Environment(t.S.Customers.Read(b.Customer).Env).Catalog.Load().Version(b.Version)
}

// poolCalled returns the oldest of the customer's pools of a name that are not archived, to which
// plans grant; 0 if there is none.
func poolCalled(s *Vault, customer uint32, name string) uint32 {
	key := catalogs.PoolNamed(name)
	for row := s.FirstPool(customer); row != 0; row = s.Pools.Read(row).Next {
		if p := s.Pools.Read(row); p.Name == key && !p.Archived {
			return row
		}
	}
	return 0
}

// Allocatable reports whether a customer has room for the allocations of a plan version: their
// pools and amounts. Commands and previews ask, in subscribable and ChangeTo. A period's end cannot
// be refused: allocate records what it could not grant.
func Allocatable(s *Vault, customer uint32, v *catalogs.PlanVersion) engine.Outcome {
	made := 0
	for i := range v.Allocations {
		row := poolCalled(s, customer, v.Allocations[i].Pool)
		if row == 0 {
			made++
		} else if _, ok := s.Pools.Read(row).Granted.Add(v.Allocations[i].Amount); !ok {
			return engine.OutcomeOverflow
		}
	}
	if made > 0 && made > s.PoolRoom(customer) {
		return engine.OutcomePoolLimit
	}
	return engine.OutcomeDone
}

// notGranted records among the admin changes that a plan's credits could not be granted, and why.
func (t *Burner) notGranted(
	b *book.Subscription, a *catalogs.CreditAllocationDocument, why string,
) {
	env := t.S.Customers.Read(b.Customer).Env
	t.NoteChange(env, "engine", "credits.not-granted", uuid.Text(b.ID),
		accounts.Given("pool", a.Pool), accounts.Given("amount", a.Amount.String()),
		accounts.Given("reason", why))
}

// allocate grants an amount to the pool of an allocation, and makes a missing pool. If the customer
// has no room for a pool, or the pool's totals reach the range of numbers, it grants nothing and
// records that.
func (t *Burner) allocate(
	subscription uint32, a *catalogs.CreditAllocationDocument, amount decimal.Decimal, at int64,
) {
	b := t.S.Subscriptions.Whole(subscription)
	row := poolCalled(t.S, b.Customer, a.Pool)
	if row == 0 {
		if row = t.allocatedPool(&b, a, at); row == 0 {
			t.notGranted(&b, a, "the customer's limit of pools is reached")
			return
		}
	}
	if _, ok := t.S.Pools.Read(row).Granted.Add(amount); !ok {
		t.notGranted(&b, a, "the pool's total would be out of range")
		return
	}
	t.Spend(4 + int(t.S.Pools.Read(row).Grants)/4)
	t.Expire(row, at)
	g := Grant{Grant: credit.Grant{
		ID:        catalogs.CreditID("allocation", t.S.Pools.Read(row).ID, uint64(t.S.Grants.Len())+1),
		Remaining: amount, Priority: int32(a.Priority), CreatedAt: at,
	}, Amount: amount, Pool: row, Subscription: subscription, Kind: GrantPlanIncluded}
	if a.ExpiresAfterDays != 0 {
		g.ExpiresAt = at + int64(a.ExpiresAfterDays)*accounts.DayMS
	}
	t.Grant(&g, "")
	t.FoldPool(row)
}

// allocatedPool makes the pool of an allocation.
func (t *Burner) allocatedPool(
	b *book.Subscription, a *catalogs.CreditAllocationDocument, at int64,
) uint32 {
	if t.S.PoolRoom(b.Customer) < 1 {
		return 0
	}
	policy, _ := credit.PolicyOf(a.RolloverPolicy)
	return t.AddPool(&Pool{
		ID: catalogs.CreditID("pool", b.ID, uint64(t.S.Pools.Len())+1), Customer: b.Customer,
		Name: catalogs.PoolNamed(a.Pool), CreatedAt: at, ModifiedAt: at, Priority: int32(a.Priority),
		Policy: policy, Hard: a.HardLimit, HasCap: a.HasCap, RolloverCap: a.RolloverCap,
	}, &PoolText{
		Name: a.Pool, Denomination: a.Denomination, Currency: a.Currency, LowBalance: a.LowBalance,
	})
}

// rollOver ends a subscription's period in a pool: the policy decides how much of the plan's grants
// stays. Grants of other subscriptions have their own periods, and bought, given or refunded
// credits last until they expire. It cuts first what would burn last.
func (t *Burner) rollOver(row, subscription uint32, at int64) {
	p := t.S.Pools.Read(row)
	var balance decimal.Decimal
	var planned []uint32 // in burn order
	for row, g := range t.S.GrantsOf(p) {
		fromPlan := g.Kind == GrantPlanIncluded || g.Kind == GrantRollover
		if fromPlan && (g.Subscription == 0 || g.Subscription == subscription) {
			balance, planned = More(balance, g.Remaining), append(planned, row)
		}
	}
	if balance.IsZero() {
		return
	}
	kept, lost := p.Policy.Keep(balance, p.RolloverCap)
	left := lost
	for _, row := range slices.Backward(planned) {
		w := t.S.Grants.Write(row)
		gone := decimal.Min(w.Remaining, left)
		left = credit.Less(left, gone)
		if w.Remaining = credit.Less(w.Remaining, gone); w.Remaining.IsZero() {
			w.End = grantExpired
		} else {
			w.Rolled = w.Rolled || w.Kind == GrantPlanIncluded
			w.Kind = GrantRollover
		}
	}
	t.Prune(row)
	if !lost.IsZero() {
		w := t.S.Pools.Write(row)
		w.Expired = More(w.Expired, lost)
		t.Book(&Transaction{
			Pool: row, Kind: TransactionExpiration, Amount: lost, Subscription: subscription,
			CreatedAt: at,
		}, TransactionText{})
	}
	if kept.Sign() > 0 {
		t.Book(&Transaction{
			Pool: row, Kind: transactionRollover, Amount: kept, Subscription: subscription,
			CreatedAt: at,
		}, TransactionText{})
	}
}

// Burnt is an event's effect on credits, from its journal record.
type Burnt struct {
	Units decimal.Decimal
	Draws []Draw
	Paid  decimal.Decimal
	// Kept and Forced are Need's, for added units.
	Kept   decimal.Decimal
	Forced bool
}

// Recredit is the effect of a correction on an event's credits: what returns, what is burnt in
// addition, and the event's draws afterwards.
type Recredit struct {
	back []Draw
	add  Burning
	Now  Burnt
}

// PlanCorrection plans the effect of new units on an event's credits; 0 units void it. It changes
// nothing. place is where the event counted. Units that credits did not pay go first, then the
// newest draws.
func (t *Burner) PlanCorrection(
	customer uint32, at book.Place, was Burnt, units decimal.Decimal, now int64,
) (r Recredit, outcome engine.Outcome) {
	r.Now = Burnt{Units: units, Draws: was.Draws, Paid: was.Paid}
	if !was.Units.Less(units) {
		r.back, r.Now.Draws, r.Now.Paid = was.trim(at, units)
		return r, engine.OutcomeDone
	}
	r.add, outcome = t.PlanBurn(at, &Need{
		Customer: customer, Units: credit.Less(units, was.Units), Kept: was.Kept, Forced: was.Forced,
	}, now)
	if outcome.Refused() {
		return Recredit{}, outcome
	}
	r.Now.Draws = append(append([]Draw(nil), was.Draws...), r.add.Draws...)
	r.Now.Paid = More(was.Paid, r.add.Covered)
	return r, engine.OutcomeDone
}

// PreviewCorrection says what PlanCorrection would come to: how many units credits pay then, and
// how many credits burn in addition; below zero, come back.
func (s *Vault) PreviewCorrection(
	customer uint32, at book.Place, was Burnt, units decimal.Decimal, now int64,
) (paid, more decimal.Decimal, outcome engine.Outcome) {
	if !was.Units.Less(units) {
		back, _, covered := was.trim(at, units)
		return covered, Drawn(back).Neg(), engine.OutcomeDone
	}
	if !at.Credited() {
		return was.Paid, more, engine.OutcomeDone
	}
	c := &at.Feature.Credits
	purse, added := s.PurseOf(customer, c.Pool, now), credit.Less(units, was.Units)
	purse.Keep(was.Kept)
	if purse.Empty(added, c) {
		return was.Paid, more, engine.OutcomeCreditsEmpty
	}
	covered := purse.Coverable(added, c)
	more, ok := credit.Need(covered, c.Weight)
	if !ok {
		return was.Paid, more, engine.OutcomeOverflow
	}
	return More(was.Paid, covered), more, engine.OutcomeDone
}

// trim divides an event's draws, after its units were reduced, into those to return and those to
// keep.
func (was *Burnt) trim(
	at book.Place, units decimal.Decimal,
) (back, stay []Draw, covered decimal.Decimal) {
	covered = decimal.Min(was.Paid, units)
	gone := credit.Less(was.Paid, covered)
	if gone.IsZero() {
		return nil, was.Draws, covered
	}
	if covered.IsZero() || !at.Credited() {
		return was.Draws, nil, covered
	}
	left, ok := credit.Need(gone, at.Feature.Credits.Weight)
	if !ok {
		return was.Draws, nil, covered
	}
	stay = append([]Draw(nil), was.Draws...)
	for i := len(stay) - 1; i >= 0 && left.Sign() > 0; i-- {
		d := stay[i]
		d.Amount = decimal.Min(d.Amount, left)
		left = credit.Less(left, d.Amount)
		back = append(back, d)
		if stay[i].Amount = credit.Less(stay[i].Amount, d.Amount); stay[i].Amount.IsZero() {
			stay = stay[:i]
		}
	}
	return back, stay, covered
}

// CorrectCredits carries out PlanCorrection's plan. The caller changes the event's part of the
// counter's cover: by r.now.covered less what was covered before.
func (t *Burner) CorrectCredits(at book.Place, r *Recredit, now int64) {
	lost := t.GiveBack(r.back, now)
	done := map[uint32]bool{}
	for i := range r.back {
		row := r.back[i].Pool
		if done[row] || t.S.Pools.Read(row).Archived {
			continue
		}
		done[row] = true
		var sum decimal.Decimal
		for j := range r.back {
			if r.back[j].Pool == row {
				sum = More(sum, r.back[j].Amount)
			}
		}
		x := Transaction{
			Pool: row, Kind: TransactionReturn, Amount: sum, CreatedAt: now,
			Subscription: at.Subscription,
		}
		if at.Feature != nil {
			x.Feature = at.Feature.Feature
		}
		t.Book(&x, TransactionText{})
		t.FoldPool(row)
	}
	t.Lose(lost, now)
	t.Burn(at, &r.add, now)
}
