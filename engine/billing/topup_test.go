package billing_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// buyer is a pool that buys credits, to which things happen at random.
type buyer struct {
	t    *rapid.T
	m    *billing.Machine
	l    *enginetest.Log
	pool [16]byte
	// rule is what SetTopUp said last; spent are the prices of a month's purchases that have not
	// failed; bought are the credits of those that were paid.
	rule   billing.SetTopUp
	spent  map[string]decimal.Decimal
	asked  int64
	seen   map[[16]byte]string // the month of each purchase
	bought decimal.Decimal
	given  decimal.Decimal
	// paid and ended count purchases that were granted, and that an operator has ended.
	paid, ended int
}

func (b *buyer) view() billing.TopUpView {
	v, _ := b.m.TopUp(enginetest.Sandbox, b.pool)
	return v
}

// check holds the invariants: at most one purchase on its way, a month's within the cap, the
// cool-down between two, and a grant for each payment.
func (b *buyer) check() {
	on := b.m.AskedTopUps()
	require.LessOrEqual(b.t, len(on), 1)
	v := b.view()
	require.Equal(b.t, len(on) == 1, v.Pending)
	for _, o := range on {
		if b.seen[o.ID] != "" {
			continue
		}
		month := time.UnixMilli(v.AskedAt).UTC().Format("2006-01")
		sum, ok := b.spent[month].Add(o.Price)
		require.True(b.t, ok)
		require.False(b.t, b.rule.MonthlyCap.Less(sum), "%s in %s, the cap is %s", sum, month,
			b.rule.MonthlyCap)
		if b.asked != 0 {
			require.GreaterOrEqual(b.t, v.AskedAt-b.asked, b.rule.CooldownMS)
		}
		b.spent[month], b.seen[o.ID], b.asked = sum, month, v.AskedAt
	}
	p, ok := b.m.Pool(enginetest.Sandbox, b.pool)
	require.True(b.t, ok)
	granted, _ := b.given.Add(b.bought)
	require.Equal(b.t, granted.String(), p.TotalGranted.String())
}

// report reports a payment, of the purchase on its way, of an earlier one, or of none.
func (b *buyer) report() {
	c := billing.RecordTopUp{
		Env: enginetest.Sandbox, Pool: b.pool, Paid: rapid.IntRange(0, 2).Draw(b.t, "paid") > 0,
		ID: billing.TopUpID(b.pool, rapid.Uint32Range(0, 6).Draw(b.t, "n")),
	}
	on := b.m.AskedTopUps()
	if len(on) == 1 && rapid.Bool().Draw(b.t, "pending") {
		c.ID = on[0].ID
	}
	require.Equal(b.t, engine.OutcomeDone, b.l.Do(billing.KindRecordTopUp, &c).Outcome)
	if len(on) == 0 || c.ID != on[0].ID {
		return
	}
	if c.Paid {
		b.bought, _ = b.bought.Add(on[0].Credits)
		b.paid++
		return
	}
	b.unpaid(on[0].Price, c.ID)
}

// end ends the purchase on its way, or another, as an operator does.
func (b *buyer) end() {
	if len(b.m.AskedTopUps()) == 1 && rapid.Bool().Draw(b.t, "a day later") {
		b.l.Stamp += dayMS
	}
	on := b.m.AskedTopUps()
	c := billing.EndTopUp{
		Env: enginetest.Sandbox, Pool: b.pool, Actor: "ops",
		ID: billing.TopUpID(b.pool, rapid.Uint32Range(0, 6).Draw(b.t, "n")),
	}
	if len(on) == 1 && rapid.Bool().Draw(b.t, "pending") {
		c.ID = on[0].ID
	}
	want := engine.OutcomeDone
	if len(on) == 0 || c.ID != on[0].ID {
		want = engine.OutcomeTopUpOver
	} else if b.l.Stamp-on[0].Stamp < dayMS {
		want = engine.OutcomeTopUpCharging
	}
	r := submitted(billing.KindEndTopUp, wire.Encode(nil, &c), fmt.Sprint("end ", b.l.Index))
	for range 2 { // its answer may be lost, and then it is sent again
		require.Equal(b.t, want, b.l.DoPayload(r.Kind, r.Payload).Outcome)
	}
	if want == engine.OutcomeDone {
		b.unpaid(on[0].Price, c.ID)
		b.ended++
	}
}

// unpaid takes a purchase back from what its month has spent.
func (b *buyer) unpaid(price decimal.Decimal, id [16]byte) {
	month := b.seen[id]
	b.spent[month], _ = b.spent[month].Sub(price)
	require.Equal(b.t, billing.TopUpFailed, b.view().State, "a failed payment turns it off")
}

// restore goes on with a machine that is restored from a snapshot of this one.
func (b *buyer) restore() {
	again := restored(b.t, enginetest.Snapshot(b.t, b.m))
	require.Equal(b.t, b.m.AskedTopUps(), again.AskedTopUps())
	require.Equal(b.t, enginetest.StateHash(b.m), enginetest.StateHash(again))
	before, told := b.m.TopUp(enginetest.Sandbox, b.pool)
	after, still := again.TopUp(enginetest.Sandbox, b.pool)
	require.Equal(b.t, told, still)
	require.Equal(b.t, before, after)
	b.m, b.l.Machine = again, again
}

func (b *buyer) step() {
	number := func(name string, maximum int64) decimal.Decimal {
		return decimal.FromInt(rapid.Int64Range(1, maximum).Draw(b.t, name))
	}
	switch rapid.IntRange(0, 13).Draw(b.t, "step") {
	case 0, 1, 2:
		u := enginetest.Usage(b.l, "use "+time.UnixMilli(int64(b.l.Index)).String(), "ada", "videos", 0)
		u.Units = number("units", 60)
		b.l.DoPayload(billing.KindRecordUsage, u.Seal(nil))
	case 3, 4:
		b.report()
	case 5:
		b.rule = billing.SetTopUp{
			Env: enginetest.Sandbox, ID: b.pool, Below: number("below", 50),
			Amount: number("amount", 60), Price: number("price", 10), MonthlyCap: number("cap", 25),
			CooldownMS: rapid.SampledFrom([]int64{60_000, 3_600_000}).Draw(b.t, "cool"), Method: "card",
		}
		if b.rule.MonthlyCap.Less(b.rule.Price) {
			b.rule.MonthlyCap = b.rule.Price
		}
		require.Equal(b.t, engine.OutcomeDone, b.l.Do(billing.KindSetTopUp, &b.rule).Outcome)
	case 6:
		b.l.Do(billing.KindStopTopUp, &billing.StopTopUp{Env: enginetest.Sandbox, ID: b.pool})
	case 7:
		b.l.Do(billing.KindAdvanceClock, &billing.AdvanceClock{
			Env: enginetest.Sandbox, To: b.m.EnvironmentNow(enginetest.Sandbox, b.l.Stamp) +
				rapid.SampledFrom([]int64{1000, 3_600_000, 20 * dayMS}).Draw(b.t, "clock"),
		})
	case 8:
		b.restore()
	case 9, 10:
		b.end()
	default:
		b.l.Stamp += rapid.SampledFrom([]int64{1, 60_000, 3_600_000, 9 * dayMS}).Draw(b.t, "later")
		for at := b.m.NextDue(); at != 0 && at <= b.l.Stamp; at = b.m.NextDue() {
			b.l.DoPayload(engine.KindTick, nil)
			b.check()
		}
	}
	b.check()
}

// TestTopUpsAreBounded: whatever usage, payments, clocks and operators do, a month's purchases stay
// within the cap, one is on its way at a time, and each payment grants once, after a restore too.
func TestTopUpsAreBounded(t *testing.T) {
	asked, paid, ended := 0, 0, 0
	defer func() {
		if t.Failed() || testing.Short() { // these draw two histories
			return
		}
		require.Positive(t, asked, "purchases of all histories")
		require.Positive(t, paid, "grants of all histories")
		require.Positive(t, ended, "purchases that an operator has ended")
	}()
	rapid.Check(t, func(t *rapid.T) {
		m := billing.New(billing.Config{})
		b := &buyer{
			t: t, m: m, l: enginetest.NewLog(m, enginetest.Epoch), pool: enginetest.ID("pool"),
			spent: map[string]decimal.Decimal{}, seen: map[[16]byte]string{},
		}
		doc := enginetest.PrepaidPlan()
		doc.Plans[0].CreditAllocations = nil
		enginetest.NewAccount(b.l, doc)
		enginetest.NewCustomer(b.l, "ada", "prepaid")
		b.l.Do(billing.KindSetPaymentProvider, &billing.SetPaymentProvider{
			Env: enginetest.Sandbox, Provider: "sandbox",
		})
		b.l.Do(billing.KindCreatePool, &billing.CreatePool{
			Env: enginetest.Sandbox, ID: b.pool, Customer: "ada", Name: "studio", HardLimit: true,
		})
		b.given = decimal.FromInt(40)
		b.l.Do(billing.KindGrantCredits, &billing.GrantCredits{
			Env: enginetest.Sandbox, ID: enginetest.ID("grant"), Pool: b.pool, Amount: b.given,
		})
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			b.step()
		}
		b.restore()
		require.NoError(t, billing.CheckCredits(b.m))
		twin := billing.New(billing.Config{})
		enginetest.Outcomes(t, twin, 1, b.l.Entries)
		require.Equal(t, enginetest.StateHash(b.m), enginetest.StateHash(twin))
		asked, paid, ended = asked+len(b.seen), paid+b.paid, ended+b.ended
	})
}
