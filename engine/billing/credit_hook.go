package billing

import (
	"slices"

	"tollgate/engine"
	"tollgate/engine/credit"
	"tollgate/engine/decimal"
)

// What follows is called by the lifecycle of subscriptions, at instants of the environment's clock,
// with the customer's lock held.

// creditsAtPeriodStart grants what the subscription's plan version allocates to a period.
func (t *burner) creditsAtPeriodStart(subscription uint32, at int64) {
	v := t.versionOf(subscription)
	for i := range v.allocations {
		t.allocate(subscription, &v.allocations[i], v.allocations[i].Amount, at)
	}
}

// creditsAtUpgrade grants, pool by pool, what the subscription's plan version allocates more than
// the one it came from.
func (t *burner) creditsAtUpgrade(subscription uint32, from *planVersion, at int64) {
	v := t.versionOf(subscription)
	for i := range v.allocations {
		a := &v.allocations[i]
		amount := a.Amount
		for j := range from.allocations {
			if from.allocations[j].Pool == a.Pool {
				amount = remaining(a.Amount, from.allocations[j].Amount)
			}
		}
		if amount.Sign() > 0 {
			t.allocate(subscription, a, amount, at)
		}
	}
}

// creditsAtPeriodEnd lets the pools that the subscription's plan version allocates to roll over.
func (t *burner) creditsAtPeriodEnd(subscription uint32, at int64) {
	v := t.versionOf(subscription)
	customer := t.s.subscriptions.Read(subscription).customer
	for i := range v.allocations {
		if row := poolCalled(t.s, customer, v.allocations[i].Pool); row != 0 {
			t.expire(row, at)
			t.rollOver(row, subscription, at)
			t.foldPool(row)
		}
	}
}

// versionOf is the plan version of a subscription.
func (t *burner) versionOf(subscription uint32) *planVersion {
	b := t.s.subscriptions.Read(subscription)
	return t.s.environment(t.s.customers.Read(b.customer).env).catalog.Load().version(b.version)
}

// poolCalled is the oldest of the customer's pools of a name that are not archived: the one that
// plans grant to; 0 when there is none.
func poolCalled(s *vault, customer uint32, name string) uint32 {
	key := poolNamed(name)
	for row := s.firstPool(customer); row != 0; row = s.pools.Read(row).next {
		if p := s.pools.Read(row); p.name == key && !p.archived {
			return row
		}
	}
	return 0
}

// allocatable reports whether a customer has room for what a plan version allocates: for the pools
// that it makes, and for the amounts. subscribable and changeTo ask, for commands and previews.
// At a period's end nobody can be refused: allocate notes what it could not grant then.
func allocatable(s *vault, customer uint32, v *planVersion) engine.Outcome {
	made := 0
	for i := range v.allocations {
		row := poolCalled(s, customer, v.allocations[i].Pool)
		if row == 0 {
			made++
		} else if _, ok := s.pools.Read(row).granted.Add(v.allocations[i].Amount); !ok {
			return engine.OutcomeOverflow
		}
	}
	if made > 0 && made > s.poolRoom(customer) {
		return engine.OutcomePoolLimit
	}
	return engine.OutcomeDone
}

// notGranted notes that a plan's credits could not be granted, and why, among the changes that
// operators read.
func (t *burner) notGranted(b *subscription, a *CreditAllocationDocument, why string) {
	t.note(change{
		Env: t.s.customers.Read(b.customer).env, Actor: "engine", Action: "credits.not-granted",
		Subject: uuidText(b.id), Values: []FieldChange{
			{"pool", "", a.Pool}, {"amount", "", a.Amount.String()}, {"reason", "", why},
		},
	})
}

// allocate grants an amount to the pool of an allocation, which it makes where there is none. Where
// the customer has as many pools as one may have, or the pool is full to the range of numbers, it
// grants nothing and notes it.
func (t *burner) allocate(
	subscription uint32, a *CreditAllocationDocument, amount decimal.Decimal, at int64,
) {
	b := t.s.subscriptions.Whole(subscription)
	row := poolCalled(t.s, b.customer, a.Pool)
	if row == 0 {
		if row = t.allocatedPool(&b, a, at); row == 0 {
			t.notGranted(&b, a, "the customer has as many pools as one may have")
			return
		}
	}
	if _, ok := t.s.pools.Read(row).granted.Add(amount); !ok {
		t.notGranted(&b, a, "the pool has granted as much as numbers reach")
		return
	}
	t.spend(4 + int(t.s.pools.Read(row).grants)/4)
	t.expire(row, at)
	g := grant{Grant: credit.Grant{
		ID:        creditID("allocation", t.s.pools.Read(row).id, uint64(t.s.grants.Len())+1),
		Remaining: amount, Priority: int32(a.Priority), CreatedAt: at,
	}, amount: amount, pool: row, subscription: subscription, kind: GrantPlanIncluded}
	if a.ExpiresAfterDays != 0 {
		g.ExpiresAt = at + int64(a.ExpiresAfterDays)*dayMS
	}
	t.grant(&g, "")
	t.foldPool(row)
}

// allocatedPool makes the pool that an allocation describes.
func (t *burner) allocatedPool(b *subscription, a *CreditAllocationDocument, at int64) uint32 {
	if t.s.poolRoom(b.customer) < 1 {
		return 0
	}
	policy, _ := credit.PolicyOf(a.RolloverPolicy)
	return t.addPool(&pool{
		id: creditID("pool", b.id, uint64(t.s.pools.Len())+1), customer: b.customer,
		name: poolNamed(a.Pool), createdAt: at, modifiedAt: at, priority: int32(a.Priority),
		policy: policy, hard: a.HardLimit, hasCap: a.HasCap, rolloverCap: a.RolloverCap,
	}, &poolText{Name: a.Pool, Denomination: a.Denomination, Currency: a.Currency})
}

// rollOver ends a subscription's period in a pool: the policy says how much stays of what the plan
// gave. What other subscriptions granted has periods of its own, and what was bought, given or
// refunded lives until its own expiry. What would burn last is cut first.
func (t *burner) rollOver(row, subscription uint32, at int64) {
	p := t.s.pools.Read(row)
	var balance decimal.Decimal
	var planned []uint32 // in burn order
	for row, g := range t.s.grantsOf(p) {
		if g.fromPlan() && (g.subscription == 0 || g.subscription == subscription) {
			balance, planned = more(balance, g.Remaining), append(planned, row)
		}
	}
	if balance.IsZero() {
		return
	}
	kept, lost := p.policy.Keep(balance, p.rolloverCap)
	left := lost
	for _, row := range slices.Backward(planned) {
		w := t.s.grants.Write(row)
		gone := decimal.Min(w.Remaining, left)
		left = credit.Less(left, gone)
		if w.Remaining = credit.Less(w.Remaining, gone); w.Remaining.IsZero() {
			w.end = grantExpired
		} else {
			w.rolled = w.rolled || w.kind == GrantPlanIncluded
			w.kind = GrantRollover
		}
	}
	t.prune(row)
	if !lost.IsZero() {
		w := t.s.pools.Write(row)
		w.expired = more(w.expired, lost)
		t.book(&transaction{
			pool: row, kind: transactionExpiration, amount: lost, subscription: subscription,
			createdAt: at,
		}, transactionText{})
	}
	if kept.Sign() > 0 {
		t.book(&transaction{
			pool: row, kind: transactionRollover, amount: kept, subscription: subscription,
			createdAt: at,
		}, transactionText{})
	}
}

// burnt is what an event did to credits, as its journal record says.
type burnt struct {
	units   decimal.Decimal
	draws   []draw
	covered decimal.Decimal
}

// recredit is what the correction of an event does to credits: what goes back, what is burnt on
// top, and what the event has burnt then.
type recredit struct {
	back []draw
	add  burning
	now  burnt
}

// planCorrection decides what becomes of an event's credits when its units do; 0 units void it. It
// changes nothing. place is where the event counted. Units that credits did not pay go first, then
// what was drawn last.
func (t *burner) planCorrection(
	customer uint32, at place, was burnt, units decimal.Decimal, now int64,
) (r recredit, outcome engine.Outcome) {
	r.now = burnt{units: units, draws: was.draws, covered: was.covered}
	if !was.units.Less(units) {
		r.back, r.now.draws, r.now.covered = was.trim(at, units)
		return r, engine.OutcomeDone
	}
	r.add, outcome = t.planBurn(customer, at, credit.Less(units, was.units), now)
	if outcome.Refused() {
		return recredit{}, outcome
	}
	r.now.draws = append(append([]draw(nil), was.draws...), r.add.draws...)
	r.now.covered = more(was.covered, r.add.covered)
	return r, engine.OutcomeDone
}

// trim splits an event's draws when fewer units are left: what goes back, and what stays.
func (was *burnt) trim(
	at place, units decimal.Decimal,
) (back, stay []draw, covered decimal.Decimal) {
	covered = decimal.Min(was.covered, units)
	gone := credit.Less(was.covered, covered)
	if gone.IsZero() {
		return nil, was.draws, covered
	}
	if covered.IsZero() || !at.credited() {
		return was.draws, nil, covered
	}
	left, ok := credit.Need(gone, at.feature.credits.weight)
	if !ok {
		return was.draws, nil, covered
	}
	stay = append([]draw(nil), was.draws...)
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

// correctCredits carries out what planCorrection decided. The event's part of the counter's cover
// is the caller's to change: by r.now.covered less what was covered before.
func (t *burner) correctCredits(at place, r *recredit, now int64) {
	lost := t.giveBack(r.back, now)
	done := map[uint32]bool{}
	for i := range r.back {
		row := r.back[i].Pool
		if done[row] || t.s.pools.Read(row).archived {
			continue
		}
		done[row] = true
		var sum decimal.Decimal
		for j := range r.back {
			if r.back[j].Pool == row {
				sum = more(sum, r.back[j].Amount)
			}
		}
		x := transaction{
			pool: row, kind: transactionReturn, amount: sum, createdAt: now,
			subscription: at.subscription,
		}
		if at.feature != nil {
			x.feature = at.feature.feature
		}
		t.book(&x, transactionText{})
		t.foldPool(row)
	}
	t.lose(lost, now)
	t.burn(at, &r.add, now)
}
