package billing

import (
	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/credit"
	"tollgate/engine/decimal"
	"tollgate/engine/uuid"
)

// CreatePool gives a customer a pool of credits. Repeating the ID is the same success.
//
//schema:described admin PoolRequest
type CreatePool struct {
	Env      uint32   `wire:"1"`
	ID       [16]byte `wire:"2"`
	Customer string   `wire:"3"` // the customer's ExternalID
	// Name is the name that features and allocations use.
	Name         string `wire:"4" json:"name" rule:"required,min=1,max=128"`
	Denomination string `wire:"5" json:"denomination" rule:"min=1,max=64"` // empty: "credits"
	Currency     string `wire:"6" json:"currency" rule:"min=3,max=3"`      // ISO 4217; empty: USD
	// HardLimit keeps the balance from going below zero.
	HardLimit bool `wire:"7" json:"hardLimit"`
	// RolloverPolicy is NONE if empty.
	RolloverPolicy string          `wire:"8" json:"rolloverPolicy" rule:"oneof=NONE|FULL|CAPPED"`
	HasCap         bool            `wire:"9"`
	RolloverCap    decimal.Decimal `wire:"10" json:"rolloverCap"`
	Priority       int64           `wire:"11" json:"priority"` // ±1,000,000; lower burns first
	// Metadata has at most 8 KiB.
	Metadata []byte `wire:"12" json:"metadata" as:"object"`
	Actor    string `wire:"13"`
	// LowBalance is the balance at which the pool counts as low; 0: none.
	LowBalance decimal.Decimal `wire:"14" json:"lowBalance" rule:"min=0"`
}

func (c *CreatePool) apply(t *turn, e *accounts.Environment) engine.Outcome {
	if row := t.PoolWith(&c.ID); row != 0 {
		if t.Customers.Read(t.Pools.Read(row).Customer).Env == c.Env {
			return engine.OutcomeDone
		}
		return engine.OutcomeIDsContradict
	}
	policy, ok := credit.PolicyOf(c.RolloverPolicy)
	if !ok || !c.valid(policy) {
		return engine.OutcomeCreditsInvalid
	}
	customer := t.CustomerNamed(c.Env, []byte(c.Customer))
	if customer == 0 {
		return engine.OutcomeCustomerUnknown
	}
	if p := t.Profile(customer); p.Gone() {
		return engine.OutcomeCustomerArchived
	}
	if t.PoolRoom(customer) < 1 {
		return engine.OutcomePoolLimit
	}

	now := e.Now(t.Stamp)
	lock := t.WriteLock(customer)
	row := t.AddPool(&credits.Pool{
		ID: c.ID, Customer: customer, Name: catalogs.PoolNamed(c.Name), CreatedAt: now, ModifiedAt: now,
		Priority: int32(c.Priority), Policy: policy, Hard: c.HardLimit,
		HasCap: c.HasCap, RolloverCap: c.RolloverCap,
	}, &credits.PoolText{
		Name: c.Name, Denomination: catalogs.Either(c.Denomination, catalogs.DefaultDenomination),
		Currency: catalogs.Either(c.Currency, catalogs.DefaultCurrency), Metadata: c.Metadata,
		LowBalance: c.LowBalance,
	})
	lock.Unlock()
	t.FoldPool(row)
	t.NoteChange(c.Env, c.Actor, "pool.created", uuid.Text(c.ID),
		accounts.Given("customer", c.Customer), accounts.Given("name", c.Name))
	return engine.OutcomeDone
}

func (c *CreatePool) valid(policy credit.Policy) bool {
	_, known := decimal.MinorUnits(catalogs.Either(c.Currency, catalogs.DefaultCurrency))
	return known && rows.Plain(c.Name, 1, catalogs.MaxNameCharacters) &&
		rows.Plain(c.Denomination, 0, catalogs.MaxDenominationCharacters) &&
		c.HasCap == (policy == credit.PolicyCapped) &&
		c.RolloverCap.Sign() >= 0 && c.RolloverCap.InRange() && validLowBalance(c.LowBalance) &&
		-catalogs.MaxCreditPriority <= c.Priority && c.Priority <= catalogs.MaxCreditPriority &&
		len(c.Metadata) <= catalogs.MaxMetadataBytes
}

func validLowBalance(low decimal.Decimal) bool { return low.Sign() >= 0 && low.InRange() }

// SetLowBalance changes the balance at which a pool counts as low. A pool that is low already
// is told when it has been above and comes down again.
type SetLowBalance struct {
	Env uint32   `wire:"1"`
	ID  [16]byte `wire:"2"`
	// LowBalance is 0 for none.
	LowBalance decimal.Decimal `wire:"3" json:"lowBalance" rule:"required,min=0"`
	Actor      string          `wire:"4"`
}

func (c *SetLowBalance) apply(t *turn) engine.Outcome {
	e, row, outcome := t.openPool(c.Env, &c.ID)
	if outcome != engine.OutcomeDone {
		return outcome
	}
	if !validLowBalance(c.LowBalance) {
		return engine.OutcomeCreditsInvalid
	}
	now, customer := e.Now(t.Stamp), t.Pools.Read(row).Customer
	if !t.AdvanceCustomer(customer, now) {
		return engine.OutcomeDeferred
	}

	was := t.PoolWords(row).LowBalance
	lock := t.WriteLock(customer)
	t.Expire(row, now)
	if was != c.LowBalance {
		t.SetLowBalance(row, c.LowBalance)
		t.Pools.Write(row).ModifiedAt = now
	}
	lock.Unlock()
	t.FoldPool(row)
	t.NoteChange(c.Env, c.Actor, "pool.low-balance-set", uuid.Text(c.ID),
		accounts.Changed("lowBalance", was.String(), c.LowBalance.String()))
	return engine.OutcomeDone
}

// FreezePool stops a pool from paying, but for what reservations hold of it; it still takes grants.
// Repeating it is the same success.
type FreezePool struct {
	Env   uint32   `wire:"1"`
	ID    [16]byte `wire:"2"`
	Actor string   `wire:"3"`
}

func (c *FreezePool) apply(t *turn) engine.Outcome {
	return t.setPool(c.Env, c.ID, c.Actor, func(p *credits.Pool) { p.Frozen = true })
}

// UnfreezePool ends FreezePool. Repeating it is the same success.
type UnfreezePool struct {
	Env   uint32   `wire:"1"`
	ID    [16]byte `wire:"2"`
	Actor string   `wire:"3"`
}

func (c *UnfreezePool) apply(t *turn) engine.Outcome {
	return t.setPool(c.Env, c.ID, c.Actor, func(p *credits.Pool) { p.Frozen = false })
}

// ArchivePool ends a pool permanently: it keeps its credits, and has no more transactions but those
// of what reservations hold of it. Repeating it is the same success.
type ArchivePool struct {
	Env   uint32   `wire:"1"`
	ID    [16]byte `wire:"2"`
	Actor string   `wire:"3"`
}

func (c *ArchivePool) apply(t *turn) engine.Outcome {
	outcome := t.setPool(c.Env, c.ID, c.Actor, func(p *credits.Pool) {
		p.Archived, p.NextExpiry = true, 0
	})
	if outcome == engine.OutcomePoolArchived {
		return engine.OutcomeDone
	}
	return outcome
}

// setPool changes the state of a pool that is not archived.
func (t *turn) setPool(
	env uint32, id [16]byte, actor string, set func(*credits.Pool),
) engine.Outcome {
	e, row, outcome := t.openPool(env, &id)
	if outcome != engine.OutcomeDone {
		return outcome
	}
	now, p := e.Now(t.Stamp), t.Pools.Read(row)
	if !t.AdvanceCustomer(p.Customer, now) {
		return engine.OutcomeDeferred
	}
	lock := t.WriteLock(p.Customer)
	t.Expire(row, now)
	before, held := *t.Pools.Read(row), t.HeldOf(row, now)
	p = t.Pools.Write(row)
	changed := false
	t.Tally(row, -1)
	set(p)
	t.Tally(row, 1)
	if *p != before {
		p.ModifiedAt, changed = now, true
		t.Stopped(row, &before, held, now)
		t.ReschedulePool(row)
	}
	lock.Unlock()
	t.TopUpPool(row, now)
	t.NoteHeld(p.Customer, p.Name)
	t.FoldPool(row)
	if changed {
		t.NoteChange(env, actor, "pool.changed", uuid.Text(id),
			accounts.Changed("status", before.Status(before.Balance()), p.Status(p.Balance())))
	}
	return engine.OutcomeDone
}

// Bounds of top-ups.
const (
	MinTopUpCooldownMS = 60_000
	MaxTopUpCooldownMS = 31 * accounts.DayMS
	MaxTopUpDays       = 3650
	MaxPaymentMethod   = 255 // bytes
	maxTopUpCode       = 255
)

// SetTopUp makes a pool buy Amount credits for Price whenever less than Below is free, at most
// for MonthlyCap in a UTC month, one at a time, with CooldownMS between. It turns top-ups on that a
// failed payment turned off. What was bought in this month counts on, so as long as there is some
// the currency stays.
type SetTopUp struct {
	Env        uint32          `wire:"1"`
	ID         [16]byte        `wire:"2"` // of the pool
	Below      decimal.Decimal `wire:"3" json:"below" rule:"required"`
	Amount     decimal.Decimal `wire:"4" json:"amount" rule:"required"`
	Price      decimal.Decimal `wire:"5" json:"price" rule:"required"`
	Currency   string          `wire:"6" json:"currency" rule:"min=3,max=3"` // empty: USD
	MonthlyCap decimal.Decimal `wire:"7" json:"monthlyCap" rule:"required"`
	CooldownMS int64           `wire:"8"`
	// Method is the provider's name of a saved card.
	Method string `wire:"9" json:"paymentMethod" rule:"required,min=1,max=255"`
	// ExpiresAfterDays is how long bought credits live; 0: for good.
	ExpiresAfterDays uint32 `wire:"10" json:"expiresAfterDays" rule:"max=3650"`
	Actor            string `wire:"11"`
}

func (c *SetTopUp) apply(t *turn) engine.Outcome {
	e, row, outcome := t.openPool(c.Env, &c.ID)
	if outcome != engine.OutcomeDone {
		return outcome
	}
	currency := catalogs.Either(c.Currency, catalogs.DefaultCurrency)
	if !c.valid(currency) {
		return engine.OutcomeCreditsInvalid
	}
	if e.PaymentSettings().Provider == accounts.ProviderNone {
		return engine.OutcomeNoProvider
	}
	now, p := e.Now(t.Stamp), t.Pools.Read(row)
	if profile := t.Profile(p.Customer); profile.Gone() {
		return engine.OutcomeCustomerArchived
	}
	if !t.AdvanceCustomer(p.Customer, now) {
		return engine.OutcomeDeferred
	}
	if !t.TopUpTakes(row, currency, now) {
		return engine.OutcomeTopUpCurrency
	}

	t.SetTopUp(row, &credits.TopUp{
		Below: c.Below, Amount: c.Amount, Price: c.Price, Cap: c.MonthlyCap, CooldownMS: c.CooldownMS,
		ExpiryDays: c.ExpiresAfterDays,
	}, currency, c.Method)
	t.NoteChange(c.Env, c.Actor, "top-up.set", uuid.Text(c.ID),
		accounts.Given("below", c.Below.String()), accounts.Given("amount", c.Amount.String()),
		accounts.Given("price", c.Price.String()+" "+currency),
		accounts.Given("monthlyCap", c.MonthlyCap.String()))
	t.TopUpPool(row, now)
	return engine.OutcomeDone
}

func (c *SetTopUp) valid(currency string) bool {
	places, known := decimal.MinorUnits(currency)
	for _, d := range [...]decimal.Decimal{c.Below, c.Amount, c.Price, c.MonthlyCap} {
		if d.Sign() <= 0 || !d.InRange() {
			return false
		}
	}
	return known && c.Price == c.Price.Round(places) && !c.MonthlyCap.Less(c.Price) &&
		c.CooldownMS >= MinTopUpCooldownMS && c.CooldownMS <= MaxTopUpCooldownMS &&
		c.ExpiresAfterDays <= MaxTopUpDays && rows.Plain(c.Method, 1, MaxPaymentMethod)
}

// openPool finds a pool that is not archived.
func (t *turn) openPool(env uint32, id *[16]byte) (
	e *accounts.Environment, row uint32, outcome engine.Outcome,
) {
	if e = t.Environment(env); e == nil {
		return nil, 0, engine.OutcomeAccountUnknown
	}
	if row = t.PoolIn(env, id); row == 0 {
		return nil, 0, engine.OutcomePoolUnknown
	}
	if t.Pools.Read(row).Archived {
		return nil, 0, engine.OutcomePoolArchived
	}
	return e, row, engine.OutcomeDone
}

// StopTopUp turns a pool's top-ups off; a purchase that is on its way goes on. Repeating it is the
// same success.
type StopTopUp struct {
	Env   uint32   `wire:"1"`
	ID    [16]byte `wire:"2"`
	Actor string   `wire:"3"`
}

func (c *StopTopUp) apply(t *turn) engine.Outcome {
	if t.Environment(c.Env) == nil {
		return engine.OutcomeAccountUnknown
	}
	row := t.PoolIn(c.Env, &c.ID)
	if row == 0 {
		return engine.OutcomePoolUnknown
	}
	if was := t.StopTopUp(row); was != credits.TopUpOff {
		t.NoteChange(c.Env, c.Actor, "top-up.stopped", uuid.Text(c.ID),
			accounts.Changed("state", was.String(), credits.TopUpOff.String()))
	}
	return engine.OutcomeDone
}

// RecordTopUp states what became of a purchase: it was paid, and its credits come with this
// command, or its payment failed, which turns top-ups off. A purchase that is not on its way any
// more has been reported before: the same success, and nothing changes.
type RecordTopUp struct {
	Env     uint32   `wire:"1"`
	Pool    [16]byte `wire:"2"`
	ID      [16]byte `wire:"3"`
	Paid    bool     `wire:"4"`
	Payment string   `wire:"5"` // the provider's name of it, ≤ 255 bytes
	Code    string   `wire:"6"` // the provider's word for a failure, ≤ 255 bytes
}

func (c *RecordTopUp) apply(t *turn, e *accounts.Environment) engine.Outcome {
	row := t.PoolIn(c.Env, &c.Pool)
	if row == 0 {
		return engine.OutcomePoolUnknown
	}
	if len(c.Payment) > maxTopUpCode || len(c.Code) > maxTopUpCode {
		return engine.OutcomeCreditsInvalid
	}
	if !t.TopUpPending(row, &c.ID) {
		return engine.OutcomeDone
	}
	now := e.Now(t.Stamp)
	if !t.AdvanceCustomer(t.Pools.Read(row).Customer, now) {
		return engine.OutcomeDeferred
	}
	if c.Paid {
		t.TopUpPaid(row, c.Payment, now)
	} else {
		t.TopUpUnpaid(row, catalogs.Either(c.Code, "failed"), "")
	}
	return engine.OutcomeDone
}

// EndTopUp ends the purchase that is on its way as one that was not paid: an operator has looked at
// the provider, which gives no answer, or cannot be asked any more. That turns top-ups off. It is
// refused while the purchase may still be charged for: the payment would come after its end.
type EndTopUp struct {
	Env   uint32   `wire:"1"`
	Pool  [16]byte `wire:"2"`
	ID    [16]byte `wire:"3"`
	Actor string   `wire:"4"`
}

func (c *EndTopUp) apply(t *turn, e *accounts.Environment) engine.Outcome {
	row := t.PoolIn(c.Env, &c.Pool)
	if row == 0 {
		return engine.OutcomePoolUnknown
	}
	if !t.TopUpPending(row, &c.ID) {
		return engine.OutcomeTopUpOver
	}
	if t.TopUpCharges(row, t.Stamp) {
		return engine.OutcomeTopUpCharging
	}
	if !t.AdvanceCustomer(t.Pools.Read(row).Customer, e.Now(t.Stamp)) {
		return engine.OutcomeDeferred
	}
	t.TopUpUnpaid(row, "not_paid", c.Actor)
	return engine.OutcomeDone
}

// GrantCredits adds credits to a pool. ID names the grant and its transaction; repeating the
// command is the same success, forever. The reply (Result.Value) is an encoded TransactionReply.
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
	e, row, outcome := t.PoolFor(
		credits.PoolCommand{Env: c.Env, ID: c.ID, Pool: c.Pool, Kind: credits.TransactionGrant},
	)
	if row == 0 {
		return outcome
	}
	now, p := e.Now(t.Stamp), t.Pools.Read(row)
	if !t.AdvanceCustomer(p.Customer, now) {
		return engine.OutcomeDeferred
	}
	kind, ok := credits.GrantTypeOf(c.Type)
	if !ok || c.Amount.Sign() <= 0 || !rows.Plain(c.Note, 0, catalogs.MaxNoteCharacters) ||
		c.Priority < -catalogs.MaxCreditPriority || c.Priority > catalogs.MaxCreditPriority ||
		c.ExpiresAt != 0 && c.ExpiresAt <= now {
		return engine.OutcomeCreditsInvalid
	}
	if outcome = grantable(p, c.Amount); outcome != engine.OutcomeDone {
		return outcome
	}

	lock := t.WriteLock(p.Customer)
	t.Expire(row, now)
	g := credits.Grant{Grant: credit.Grant{
		ID: c.ID, Remaining: c.Amount, Priority: int32(c.Priority), CreatedAt: now,
		ExpiresAt: c.ExpiresAt,
	}, Amount: c.Amount, Pool: row, Kind: kind}
	t.Replied(t.Grant(&g, c.Note))
	lock.Unlock()
	t.FoldPool(row)
	t.NoteChange(c.Env, c.Actor, "credits.granted", uuid.Text(c.Pool),
		accounts.Given("transaction", uuid.Text(c.ID)), accounts.Given("type", kind.String()),
		accounts.Given("amount", c.Amount.String()), accounts.Given("note", c.Note))
	return engine.OutcomeDone
}

// grantable is the outcome of a grant of so many credits.
func grantable(p *credits.Pool, amount decimal.Decimal) engine.Outcome {
	switch _, ok := p.Granted.Add(amount); {
	case p.Archived:
		return engine.OutcomePoolArchived
	case p.Grants >= catalogs.MaxGrants:
		return engine.OutcomePoolLimit
	case !ok:
		return engine.OutcomeOverflow
	}
	return engine.OutcomeDone
}

// repeated answers a grant whose transaction has left memory from the grant's own row, which lacks
// only the balance of that time. It returns OutcomeNone if this ID granted nothing, or if the
// transaction answers.
func (c *GrantCredits) repeated(t *turn) engine.Outcome {
	row := t.GrantWith(&c.ID)
	if row == 0 {
		return engine.OutcomeNone
	}
	g := t.Grants.Read(row)
	p := t.Pools.Read(g.Pool)
	kind, _ := credits.GrantTypeOf(c.Type)
	if p.ID != c.Pool || t.Customers.Read(p.Customer).Env != c.Env || g.Returned ||
		g.Booked() != kind || g.Amount != c.Amount || int64(g.Priority) != c.Priority ||
		g.ExpiresAt != c.ExpiresAt || g.Note != credits.NoteSum(c.Note) {
		return engine.OutcomeIDsContradict
	}
	if t.TransactionWith(&c.ID) != 0 {
		return engine.OutcomeNone
	}
	view := t.TransactionView(&credits.ArchivedTransaction{Transaction: credits.Transaction{
		ID: g.ID, Pool: g.Pool, Kind: credits.TransactionGrant, Amount: g.Amount, Grant: row,
		Subscription: g.Subscription, Sequence: g.Sequence,
		CreatedAt: g.CreatedAt, UpdatedAt: g.CreatedAt,
	}, TransactionText: credits.TransactionText{Note: c.Note}})
	view.BalanceUnknown = true
	t.Answer(&credits.TransactionReply{Transaction: view})
	return engine.OutcomeDone
}
