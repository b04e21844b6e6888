package credits

import (
	"slices"
	"sync"

	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/outbox"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/credit"
	"tollgate/engine/decimal"
	"tollgate/engine/page"
	"tollgate/engine/period"
	"tollgate/engine/uuid"
	"tollgate/engine/wire"
)

// TopUpState is whether a pool is topped up. Numbers are never reused.
//
//schema:enum
type TopUpState uint8

const (
	// TopUpOff: an operator has turned it off.
	TopUpOff TopUpState = 1 // OFF
	TopUpOn  TopUpState = 2 // ON
	// TopUpFailed: a payment has failed, which turned it off.
	TopUpFailed TopUpState = 3 // FAILED
)

// TopUp is how a pool is topped up: with less than Below free it buys Amount for Price. A pool has
// one row at most, which stays.
//
//schema:row
type TopUp struct {
	Pool uint32 // never changes
	// Count numbers the purchases, from 1: their ids follow from it.
	Count                     uint32
	Below, Amount, Price, Cap decimal.Decimal
	CooldownMS                int64
	// AskedAt is when the newest purchase was asked for, on the environment's clock, and Spent what
	// those of its month come to, but for the failed ones.
	AskedAt int64
	Spent   decimal.Decimal
	// RetryAt is when the cool-down or the month is over that a purchase waits for; 0: none waits.
	RetryAt    int64
	ExpiryDays uint32
	State      TopUpState
	// Pending is set while a purchase is on its way.
	Pending bool
}

// TopUpText is the cold part of a TopUp.
type TopUpText struct {
	Currency string `wire:"1"`
	// Method names what is charged: the provider's name of a saved card.
	Method string `wire:"2"`
	// Failed is the provider's word for why a payment failed.
	Failed string `wire:"3"`
	// Asked is the newest purchase.
	Asked TopUpOrder `wire:"4"`
}

// TopUpOrder is a purchase as it was asked for, whatever the rule says since.
type TopUpOrder struct {
	Credits  decimal.Decimal `wire:"1"`
	Price    decimal.Decimal `wire:"2"`
	Currency string          `wire:"3"`
	Method   string          `wire:"4"`
	Provider string          `wire:"5"`
	Revision uint32          `wire:"6"` // of the payment settings
	Stamp    int64           `wire:"7"` // log time
}

// topUps are the rules of all pools, and the purchases that are on their way.
type topUps struct {
	rules  *page.Table[TopUp]
	texts  *page.Table[rows.Text] // row = rule's row
	byPool *page.Index

	mu    sync.Mutex
	asked []uint32 // rows with Pending, ascending
}

func (s *topUps) open(store *page.Store) {
	s.byPool = page.NewIndex()
	s.rules = page.NewTable(store, accounts.TableTopUps, TopUpCodec)
	s.texts = page.NewTable(store, accounts.TableTopUpTexts, rows.TextCodec)
}

func (s *topUps) of(pool uint32) uint32 {
	return s.byPool.Find(rowHash(pool), func(row uint32) bool {
		return s.rules.Read(row).Pool == pool
	})
}

func (s *topUps) text(row uint32) (words TopUpText) {
	rows.DecodeText(s.texts.Read(row).Data, &words)
	return words
}

func (s *topUps) setText(row uint32, words *TopUpText) {
	s.texts.Write(row).Data = string(wire.Encode(nil, words))
}

// Tally adds a pool to the counts of those that need attention, or with −1 removes it.
func (s *Vault) Tally(row uint32, sign int64) {
	depleted, failed := s.Trouble(row)
	if !depleted && !failed {
		return
	}
	counts := &s.Environment(s.Customers.Read(s.Pools.Read(row).Customer).Env).Pools
	if depleted {
		counts.Depleted.Add(sign)
	}
	if failed {
		counts.Failed.Add(sign)
	}
}

// Trouble reports whether a pool is depleted, and whether its top-up has failed. Callers hold the
// customer's lock.
func (s *Vault) Trouble(row uint32) (depleted, failed bool) {
	p := s.Pools.Read(row)
	if p.Archived {
		return false, false
	}
	rule := uint32(0)
	if p.topped {
		rule = s.topUps.of(row)
	}
	return p.depleted, rule != 0 && s.topUps.rules.Read(rule).State == TopUpFailed
}

// setTopUpState gives a rule another state, and counts those that have failed. The caller holds the
// customer's lock.
func (s *Vault) setTopUpState(rule uint32, to TopUpState) (was TopUpState) {
	u := s.topUps.rules.Write(rule)
	s.Tally(u.Pool, -1)
	was, u.State = u.State, to
	s.Tally(u.Pool, 1)
	return was
}

// reindex rebuilds indexes after a restore.
func (s *topUps) reindex() {
	s.asked = nil
	for row, u := range s.rules.All() {
		s.byPool.Insert(rowHash(u.Pool), row)
		if u.Pending {
			s.asked = append(s.asked, row)
		}
	}
}

// mark notes whether a purchase of a row is on its way.
func (s *topUps) mark(row uint32, pending bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, found := slices.BinarySearch(s.asked, row)
	if pending && !found {
		s.asked = slices.Insert(s.asked, at, row)
	} else if !pending && found {
		s.asked = slices.Delete(s.asked, at, at+1)
	}
}

// end ends the purchase that is on its way, and returns it. The caller holds the customer's lock.
func (s *topUps) end(row uint32) TopUpOrder {
	s.rules.Write(row).Pending = false
	words := s.text(row)
	order := words.Asked
	if words.Method == "" {
		words.forget(false)
		s.setText(row, &words)
	}
	return order
}

// CheckTopUps returns the first row that belongs to no pool, or is in no state; 0 if all fit.
func (s *Vault) CheckTopUps() (damaged uint32) {
	pools := map[uint32]bool{}
	for row, u := range s.topUps.rules.All() {
		if u.Pool == 0 || u.Pool > s.Pools.Len() || pools[u.Pool] || u.Spent.Sign() < 0 ||
			u.State < TopUpOff || u.State > TopUpFailed || !s.Pools.Read(u.Pool).topped {
			return row
		}
		pools[u.Pool] = true
	}
	if s.topUps.texts.Len() != s.topUps.rules.Len() {
		return 1
	}
	return 0
}

// spent is what the purchases of an instant's UTC month come to.
func (u *TopUp) spent(at int64) decimal.Decimal {
	if u.AskedAt == 0 || period.Month(u.AskedAt) != period.Month(at) {
		return decimal.Decimal{}
	}
	return u.Spent
}

// next is the first instant, from now on, at which a rule may buy: after the cool-down, in a month
// whose cap has room. A price is never above the cap, so there is one.
func (u *TopUp) next(now int64) int64 {
	at := now
	if u.AskedAt != 0 {
		at = max(at, u.AskedAt+u.CooldownMS)
	}
	sum, ok := u.spent(at).Add(u.Price)
	if !ok || u.Cap.Less(sum) {
		at = period.Month(at).End
	}
	return at
}

// wants reports whether a pool is to be topped up: what reservations hold of it is as good as
// spent. Of a pool without a limit they may hold more than numbers reach below its balance.
func (t *Burner) wants(pool uint32, u *TopUp, now int64) bool {
	p := t.S.Pools.Read(pool)
	_, fits := p.Granted.Add(u.Amount)
	return u.State == TopUpOn && !u.Pending && !p.Archived && !p.Frozen && fits &&
		sums.Difference(p.Balance(), t.S.HeldOf(pool, now)).Less(u.Below) &&
		p.Grants < catalogs.MaxGrants && !t.gone(p.Customer)
}

// gone reports whether a customer is archived or erased.
func (t *Burner) gone(customer uint32) bool {
	p := t.S.Profile(customer)
	return p.Gone()
}

// TopUpPool asks for a purchase if what is free of a pool is below what its rule says, and the rule
// has none on its way, is not cooling down, and has room below its cap. What has to wait is due
// then.
func (t *Burner) TopUpPool(pool uint32, now int64) {
	row := t.S.topUps.of(pool)
	if row == 0 {
		return
	}
	p, u := t.S.Pools.Read(pool), t.S.topUps.rules.Read(row)
	retry := int64(0)
	if t.wants(pool, u, now) {
		if retry = u.next(now); retry <= now {
			retry = 0
			t.ask(pool, row, now)
		}
	}
	if u = t.S.topUps.rules.Read(row); u.RetryAt != retry {
		lock := t.S.WriteLock(p.Customer)
		t.S.topUps.rules.Write(row).RetryAt = retry
		lock.Unlock()
		t.S.ReschedulePool(pool)
		t.Fold(uint64(row)<<32 ^ uint64(retry))
	}
}

// ask makes a purchase. It counts against the month's cap from now on.
func (t *Burner) ask(pool, row uint32, now int64) {
	p := t.S.Pools.Read(pool)
	e := t.S.Environment(t.S.Customers.Read(p.Customer).Env)
	settings := e.PaymentSettings()
	u, words := t.S.topUps.rules.Read(row), t.S.topUps.text(row)
	order := TopUpOrder{
		Credits: u.Amount, Price: u.Price, Currency: words.Currency, Method: words.Method,
		Provider: settings.Provider, Revision: settings.Revision, Stamp: t.Stamp,
	}
	if settings.Provider == accounts.ProviderNone {
		t.topUpFails(pool, row, &order, "no_provider", "")
		return
	}
	lock := t.S.WriteLock(p.Customer)
	u = t.S.topUps.rules.Write(row)
	sum, _ := u.spent(now).Add(u.Price) // next has added them
	u.Spent, u.AskedAt, u.Pending = sum, now, true
	u.Count++
	words.Asked = order
	t.S.topUps.setText(row, &words)
	lock.Unlock()
	t.S.topUps.mark(row, true)
	t.Spend(8)
	t.Fold(uint64(row)<<32 | uint64(u.Count))
	t.NoteChange(e.Number, "engine", "top-up.asked", uuid.Text(p.ID),
		accounts.Given("credits", u.Amount.String()),
		accounts.Given("price", u.Price.String()+" "+words.Currency))
}

// topUpFails turns a rule off, and says so of a purchase. actor is the operator who ended it, if
// one did.
func (t *Burner) topUpFails(pool, row uint32, order *TopUpOrder, code, actor string) {
	p := t.S.Pools.Read(pool)
	lock := t.S.WriteLock(p.Customer)
	t.S.setTopUpState(row, TopUpFailed)
	words := t.S.topUps.text(row)
	words.Failed = code
	t.S.topUps.setText(row, &words)
	lock.Unlock()
	t.Fold(uint64(row))
	t.emitTopUp(pool, order, accounts.WebhookTopUpFailed, code, "")
	env := t.S.Customers.Read(p.Customer).Env
	if actor != "" {
		id := TopUpID(p.ID, t.S.topUps.rules.Read(row).Count)
		t.NoteChange(env, actor, "top-up.ended", uuid.Text(p.ID),
			accounts.Given("purchase", uuid.Text(id)))
		return
	}
	t.NoteChange(env, "engine", "top-up.failed", uuid.Text(p.ID), accounts.Given("reason", code))
}

func (t *Burner) emitTopUp(
	pool uint32, order *TopUpOrder, w accounts.WebhookEvent, code, payment string,
) {
	p, words := t.S.Pools.Read(pool), t.S.PoolWords(pool)
	e := t.S.Environment(t.S.Customers.Read(p.Customer).Env)
	m := outbox.WebhookMessage{
		Type: w, At: e.Now(t.Stamp),
		ToldPool: outbox.ToldPool{PoolID: p.ID, PoolName: words.Name, Balance: p.Balance()},
		ToldTopUp: outbox.ToldTopUp{
			Credits: order.Credits, Code: code, PaymentID: payment,
		},
	}
	m.Amount, m.Currency = order.Price, order.Currency
	t.Emit(e, p.Customer, &m)
}

// TopUpTakes reports whether a pool's rule may be in a currency: the cap of a month adds up prices
// of one.
func (s *Vault) TopUpTakes(pool uint32, currency string, now int64) bool {
	row := s.topUps.of(pool)
	return row == 0 || s.topUps.rules.Read(row).spent(now).Sign() == 0 ||
		s.topUps.text(row).Asked.Currency == currency
}

// SetTopUp replaces a pool's rule, and turns it on; what its purchases come to stays.
func (t *Burner) SetTopUp(pool uint32, set *TopUp, currency, method string) {
	row := t.S.topUps.of(pool)
	lock := t.S.WriteLock(t.S.Pools.Read(pool).Customer)
	if row == 0 {
		var u *TopUp
		row, u = t.S.topUps.rules.Append()
		t.S.topUps.texts.Append()
		u.Pool = pool
		t.S.topUps.byPool.Insert(rowHash(pool), row)
		t.S.Pools.Write(pool).topped = true
	}
	u := t.S.topUps.rules.Write(row)
	u.Below, u.Amount, u.Price, u.Cap = set.Below, set.Amount, set.Price, set.Cap
	u.CooldownMS, u.ExpiryDays = set.CooldownMS, set.ExpiryDays
	t.S.setTopUpState(row, TopUpOn)
	words := t.S.topUps.text(row)
	words.Currency, words.Method, words.Failed = currency, method, ""
	t.S.topUps.setText(row, &words)
	lock.Unlock()
	t.Fold(uint64(row))
	t.FoldDecimal(u.Below)
	t.FoldDecimal(u.Price)
}

// StopTopUp turns a pool's rule off. A purchase that is on its way goes on.
func (t *Burner) StopTopUp(pool uint32) (was TopUpState) {
	row := t.S.topUps.of(pool)
	if row == 0 {
		return TopUpOff
	}
	lock := t.S.WriteLock(t.S.Pools.Read(pool).Customer)
	was = t.S.setTopUpState(row, TopUpOff)
	t.S.topUps.rules.Write(row).RetryAt = 0
	lock.Unlock()
	t.S.ReschedulePool(pool)
	t.Fold(uint64(row))
	return was
}

// ForgetTopUps turns the rules of an erased customer's pools off, and forgets what they charge. A
// purchase that is on its way keeps its own until it is over.
func (t *Burner) ForgetTopUps(customer uint32) {
	for pool := t.S.FirstPool(customer); pool != 0; pool = t.S.Pools.Read(pool).Next {
		row := t.S.topUps.of(pool)
		if row == 0 {
			continue
		}
		t.StopTopUp(pool)
		lock := t.S.WriteLock(customer)
		words := t.S.topUps.text(row)
		words.Method = ""
		words.forget(t.S.topUps.rules.Read(row).Pending)
		t.S.topUps.setText(row, &words)
		lock.Unlock()
	}
}

// forget drops what the newest purchase charged, if that is over and the customer was erased, which
// has emptied Method.
func (w *TopUpText) forget(pending bool) {
	if w.Method == "" && !pending {
		w.Asked.Method = ""
	}
}

// TopUpID is the id of a pool's n-th purchase, and of its grant.
func TopUpID(pool [16]byte, n uint32) [16]byte {
	return catalogs.CreditID("top-up", pool, uint64(n))
}

// TopUpPending returns the purchase of a pool that is on its way, by its id; false: another one, or
// none.
func (s *Vault) TopUpPending(pool uint32, id *[16]byte) bool {
	row := s.topUps.of(pool)
	if row == 0 {
		return false
	}
	u := s.topUps.rules.Read(row)
	return u.Pending && TopUpID(s.Pools.Read(pool).ID, u.Count) == *id
}

// TopUpPaid grants what the purchase on its way has bought. A pool that is archived takes no grant:
// then the rule fails, and people have to see the payment.
func (t *Burner) TopUpPaid(pool uint32, payment string, now int64) {
	row := t.S.topUps.of(pool)
	p := t.S.Pools.Read(pool)
	lock := t.S.WriteLock(p.Customer)
	order := t.S.topUps.end(row)
	u := t.S.topUps.rules.Read(row)
	_, fits := p.Granted.Add(order.Credits)
	if fits = fits && !p.Archived; fits {
		t.Expire(pool, now)
		g := Grant{Grant: credit.Grant{
			ID: TopUpID(p.ID, u.Count), Remaining: order.Credits, Priority: p.Priority,
			CreatedAt: now,
		}, Amount: order.Credits, Pool: pool, Kind: GrantPurchased}
		if u.ExpiryDays != 0 {
			g.ExpiresAt = now + int64(u.ExpiryDays)*accounts.DayMS
		}
		note := "top-up, " + order.Price.String() + " " + order.Currency
		grantsAgain(t, &g, note)
		t.Grant(&g, note)
	}
	lock.Unlock()
	t.S.topUps.mark(row, false)
	t.FoldPool(pool)
	if !fits {
		t.topUpFails(pool, row, &order, "paid_not_granted", "")
		return
	}
	t.emitTopUp(pool, &order, accounts.WebhookToppedUp, "", payment)
	t.NoteChange(t.S.Customers.Read(p.Customer).Env, "engine", "top-up.paid", uuid.Text(p.ID),
		accounts.Given("credits", order.Credits.String()),
		accounts.Given("price", order.Price.String()+" "+order.Currency),
		accounts.Given("payment", payment))
}

// TopUpUnpaid ends the purchase on its way, whose payment failed: it counts no more, and the rule
// is turned off. actor is the operator who says so; empty where the provider does.
func (t *Burner) TopUpUnpaid(pool uint32, code, actor string) {
	row := t.S.topUps.of(pool)
	lock := t.S.WriteLock(t.S.Pools.Read(pool).Customer)
	order := t.S.topUps.end(row)
	u := t.S.topUps.rules.Write(row)
	u.Spent = credit.Less(u.Spent, order.Price)
	lock.Unlock()
	t.S.topUps.mark(row, false)
	t.topUpFails(pool, row, &order, code, actor)
}
