package enginetest

import (
	"fmt"
	"strings"

	"tollgate/engine"
	"tollgate/engine/billing"
)

// allocation reads a line of a plan that grants credits.
func (f fields) allocation(pool string) billing.CreditAllocationDocument {
	d := billing.CreditAllocationDocument{
		Pool: pool, Denomination: f.text("unit"), RolloverPolicy: f.text("rollover"),
		HardLimit: f.text("hard") != "",
	}
	d.Amount, _ = f.decimal("amount")
	d.LowBalance, _ = f.decimal("low")
	d.RolloverCap, d.HasCap = f.decimal("cap")
	if n, ok := f.decimal("priority"); ok {
		d.Priority = whole(n)
	}
	if n, ok := f.decimal("expires"); ok {
		d.ExpiresAfterDays = uint32(whole(n))
	}
	return d
}

// creditLines are the commands about credit pools.
type creditLines struct{ *scenario }

// pool makes a pool: pool CUSTOMER NAME [id=…] [priority=…] [rollover=…] [cap=…] [hard]. It is
// called CUSTOMER/NAME, or id=.
func (s creditLines) pool(l *line) string {
	customer, name := l.word(0), l.word(1)
	c := &billing.CreatePool{
		Env: s.environment(l), ID: ID("pool " + l.value("id", customer+"/"+name)),
		Customer: customer, Name: name, Denomination: l.value("unit", ""),
		RolloverPolicy: l.value("rollover", ""), Priority: l.number("priority", 0),
		HardLimit: l.has("hard"),
	}
	c.RolloverCap, c.HasCap = l.optional("cap")
	c.LowBalance, _ = l.optional("low")
	return s.do(billing.KindCreatePool, c)
}

// poolID is the id of the pool that a line names: by what it is called when a command made it, or
// CUSTOMER/NAME when a plan did.
func (s *scenario) poolID(l *line, env uint32) [16]byte {
	called := l.word(0)
	id := ID("pool " + called)
	if _, ok := s.m.Pool(env, id); ok {
		return id
	}
	at := strings.IndexByte(called, '/')
	if c, ok := s.m.Customer(env, called[:max(at, 0)]); ok {
		for _, p := range s.m.Pools(c.Row) {
			if p.Name == called[at+1:] {
				return p.ID
			}
		}
	}
	return id
}

// booked prints the outcome of a command and the transaction that it replies with.
func (s *scenario) booked(l *line, r engine.Result) string {
	answer := s.outcome(r)
	if r.Value == nil {
		return answer
	}
	var reply billing.TransactionReply
	l.decode(r.Value, &reply)
	return answer + "\n" + movement(&reply.Transaction)
}

// grant grants credits: grant POOL AMOUNT id=… [type=…] [priority=…] [expires=…] [note=…].
func (s creditLines) grant(l *line) string {
	env := s.environment(l)
	c := &billing.GrantCredits{
		Env: env, ID: l.idOr("id", fmt.Sprint("grant ", s.mint())), Pool: s.poolID(l, env),
		Type: l.value("type", ""), Amount: l.decimal("amount", ""),
		Priority: l.number("priority", 0), Note: l.value("note", ""),
		ExpiresAt: l.instantOr("expires", s.log.Stamp, 0),
	}
	return s.booked(l, s.log.Do(billing.KindGrantCredits, c))
}

// deduct takes credits out: deduct POOL amount=… [id=…] [note=…].
func (s creditLines) deduct(l *line) string {
	env := s.environment(l)
	return s.booked(l, s.log.Do(billing.KindDeductCredits, &billing.DeductCredits{
		Env: env, ID: l.idOr("id", fmt.Sprint("deduction ", s.mint())), Pool: s.poolID(l, env),
		Amount: l.decimal("amount", ""), Note: l.value("note", ""),
	}))
}

// reverse reverses a transaction by what it is called: reverse ID [id=…].
func (s creditLines) reverse(l *line) string {
	env, of := s.environment(l), l.word(0)
	return s.booked(l, s.log.Do(billing.KindReverseTransaction, &billing.ReverseTransaction{
		Env: env, ID: l.idOr("id", "reversal of "+of), Transaction: ID(of),
		Note: l.value("note", ""),
	}))
}

func (s creditLines) freeze(l *line) string {
	env := s.environment(l)
	return s.do(billing.KindFreezePool, &billing.FreezePool{Env: env, ID: s.poolID(l, env)})
}

// low sets the balance at which a pool is low: low POOL amount=….
func (s creditLines) low(l *line) string {
	env := s.environment(l)
	return s.do(billing.KindSetLowBalance, &billing.SetLowBalance{
		Env: env, ID: s.poolID(l, env), LowBalance: l.decimal("amount", ""),
	})
}

// topUp makes a pool buy credits: top-up POOL below= amount= price= cap= [cooldown=SECONDS].
func (s creditLines) topUp(l *line) string {
	env := s.environment(l)
	return s.do(billing.KindSetTopUp, &billing.SetTopUp{
		Env: env, ID: s.poolID(l, env), Below: l.decimal("below", ""),
		Amount: l.decimal("amount", ""), Price: l.decimal("price", ""),
		MonthlyCap: l.decimal("cap", ""), CooldownMS: 1000 * l.number("cooldown", 3600),
		Method: "card", ExpiresAfterDays: uint32(l.number("expires", 0)),
	})
}

func (s creditLines) stopTopUp(l *line) string {
	env := s.environment(l)
	return s.do(billing.KindStopTopUp, &billing.StopTopUp{Env: env, ID: s.poolID(l, env)})
}

// topUpResult reports the payment of a pool's first purchase, or of its n-th: top-up-result POOL
// paid|failed [n=…].
func (s creditLines) topUpResult(l *line) string {
	env := s.environment(l)
	pool := s.poolID(l, env)
	c := &billing.RecordTopUp{
		Env: env, Pool: pool, Paid: l.word(1) == "paid", Payment: "pay", Code: "card_declined",
		ID: billing.TopUpID(pool, uint32(l.number("n", 1))),
	}
	return s.do(billing.KindRecordTopUp, c)
}

// endTopUp ends a pool's first purchase, or its n-th, as one that was not paid.
func (s creditLines) endTopUp(l *line) string {
	env := s.environment(l)
	pool := s.poolID(l, env)
	return s.do(billing.KindEndTopUp, &billing.EndTopUp{
		Env: env, Pool: pool, ID: billing.TopUpID(pool, uint32(l.number("n", 1))),
	})
}

// topUps shows a pool's rule.
func (s creditLines) topUps(l *line) string {
	env := s.environment(l)
	v, ok := s.m.TopUp(env, s.poolID(l, env))
	if !ok {
		return "none"
	}
	text := fmt.Sprintf("%s below=%s buys %s for %s %s, %s of %s spent, pending=%t", v.State, v.Below,
		v.Amount, v.Price, v.Currency, v.Spent, v.MonthlyCap, v.Pending)
	if v.WaitsUntil != 0 {
		text += " waits until " + show(v.WaitsUntil)
	}
	if v.Failure != "" {
		text += " failed: " + v.Failure
	}
	return text
}

func (s creditLines) unfreeze(l *line) string {
	env := s.environment(l)
	return s.do(billing.KindUnfreezePool, &billing.UnfreezePool{Env: env, ID: s.poolID(l, env)})
}

func (s creditLines) archivePool(l *line) string {
	env := s.environment(l)
	return s.do(billing.KindArchivePool, &billing.ArchivePool{Env: env, ID: s.poolID(l, env)})
}

// pools lists a customer's pools with their totals.
func (s creditLines) pools(l *customerLine) {
	for _, p := range s.m.Pools(l.customer.Row) {
		fmt.Fprintf(l, "%s %s balance=%s granted=%s consumed=%s expired=%s reversed=%s %s",
			p.Name, p.Status, p.Balance, p.TotalGranted, p.TotalConsumed, p.TotalExpired,
			p.TotalReversed, p.RolloverPolicy)
		l.WriteString(when(p.HasCap, " cap=%s", p.RolloverCap))
		l.WriteString(when(p.HardLimit, " hard"))
		l.WriteString("\n")
	}
}

// grants lists a pool's live grants in burn order.
func (s creditLines) grants(l *line) string {
	env := s.environment(l)
	list, ok := s.m.Grants(env, s.poolID(l, env))
	if !ok {
		return "unknown"
	}
	var b strings.Builder
	for _, g := range list {
		fmt.Fprintf(&b, "%s %s of %s priority=%d", g.Type, g.Remaining, g.Amount, g.Priority)
		b.WriteString(when(g.ExpiresAt != 0, " until %s", show(g.ExpiresAt)))
		b.WriteString("\n")
	}
	return either(b.String(), "none")
}

// transactions lists a pool's transactions, newest first: transactions POOL [limit=…].
func (s creditLines) transactions(l *line) string {
	env := s.environment(l)
	id := s.poolID(l, env)
	var b strings.Builder
	q := billing.TransactionQuery{Env: env, Pool: id, Limit: int(l.number("limit", 100))}
	for number := 1; ; number++ {
		page, ok, err := s.m.Transactions(s.src, q)
		l.must(err)
		if !ok {
			return "unknown"
		}
		for i := range page.List {
			b.WriteString(movement(&page.List[i]) + "\n")
		}
		if !page.More {
			return either(b.String(), "none")
		}
		fmt.Fprintf(&b, "-- page %d\n", number+1)
		q.Cursor = page.Next
	}
}

// proof compares a customer's pools with the journal: verify-pools CUSTOMER.
func (s creditLines) proof(l *customerLine) {
	proofs, err := s.m.VerifyPools(s.src, l.env, l.customer.Row)
	l.must(err)
	for i := range proofs {
		fmt.Fprintf(l, "%s: %s\n", proofs[i].Name, either(proofs[i].Problem, "proved"))
	}
}

func movement(v *billing.TransactionView) string {
	text := fmt.Sprintf("%d %s %s %s → %s", v.Sequence, show(v.CreatedAt), v.Kind, v.Amount,
		v.Balance)
	text += when(v.GrantType != "", " %s", v.GrantType)
	text += when(v.FeatureKey != "", " %s", v.FeatureKey)
	text += when(v.Note != "", " note=%s", v.Note)
	text += when(v.Reversed, " reversed")
	return text
}
