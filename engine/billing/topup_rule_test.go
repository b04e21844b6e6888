package billing_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

// card is what the rules of these tests charge.
const card = "cus_remembered/pm_remembered"

// topUps is a pool without credits, whose customer has nothing else.
type topUps struct {
	*desk
	pool [16]byte
	rule billing.SetTopUp
}

func newTopUps(t *testing.T) *topUps {
	d := &topUps{desk: hooked(t), pool: enginetest.ID("pool")}
	d.rule = billing.SetTopUp{
		Env: enginetest.Sandbox, ID: d.pool, Below: decimal.FromInt(10), Amount: decimal.FromInt(20),
		Price: decimal.FromInt(30), MonthlyCap: decimal.FromInt(90), CooldownMS: 60_000, Method: card,
	}
	d.provider("sandbox")
	d.is(engine.OutcomeDone, billing.KindCreatePool, &billing.CreatePool{
		Env: enginetest.Sandbox, ID: d.pool, Customer: "ada", Name: "studio", HardLimit: true,
	})
	return d
}

func (d *topUps) provider(name string) {
	d.is(engine.OutcomeDone, billing.KindSetPaymentProvider, &billing.SetPaymentProvider{
		Env: enginetest.Sandbox, Provider: name,
	})
}

func (d *topUps) set(want engine.Outcome, change func(r *billing.SetTopUp)) {
	d.t.Helper()
	r := d.rule
	change(&r)
	d.is(want, billing.KindSetTopUp, &r)
}

func (d *topUps) view() billing.TopUpView {
	v, found := d.m.TopUp(enginetest.Sandbox, d.pool)
	require.True(d.t, found)
	return v
}

// ends reports the payment of the n-th purchase.
func (d *topUps) ends(n uint32, paid bool) {
	d.t.Helper()
	d.is(engine.OutcomeDone, billing.KindRecordTopUp, &billing.RecordTopUp{
		Env: enginetest.Sandbox, Pool: d.pool, ID: billing.TopUpID(d.pool, n), Paid: paid, Code: "no",
	})
}

// later lets the cool-down pass, and does what is due then.
func (d *topUps) later() {
	d.Stamp += 120_000
	for at := d.m.NextDue(); at != 0 && at <= d.Stamp; at = d.m.NextDue() {
		d.DoPayload(engine.KindTick, nil)
	}
}

func (d *topUps) told() (all []*billing.WebhookMessage) {
	page, _, ok := d.m.WebhookDeliveries(&billing.DeliveryQuery{
		Env: enginetest.Sandbox, Endpoint: enginetest.ID("hook"), Limit: 100,
	})
	require.True(d.t, ok)
	for i := range page {
		all = append(all, &page[i].Message)
	}
	return all
}

func asIs(*billing.SetTopUp) {}

// TestErasedCustomersBuyNothing: the card of an erased customer is charged no more, and no snapshot
// holds it from then on; a purchase that is on its way keeps its own until it is over.
func TestErasedCustomersBuyNothing(t *testing.T) {
	for _, c := range []struct {
		name          string
		pending, paid bool
	}{{"waiting", false, false}, {"pending, paid", true, true}, {"pending, failed", true, false}} {
		t.Run(c.name, func(t *testing.T) {
			d := newTopUps(t)
			d.set(engine.OutcomeDone, asIs)
			if !c.pending {
				d.ends(1, true)
				d.set(engine.OutcomeDone, func(r *billing.SetTopUp) { r.Below = decimal.FromInt(50) })
				require.NotZero(t, d.view().WaitsUntil)
			}
			require.Contains(t, string(enginetest.Snapshot(t, d.m)), card)
			d.is(engine.OutcomeDone, billing.KindEraseCustomer, &billing.EraseCustomer{
				Env: enginetest.Sandbox, ExternalID: "ada",
			})
			v := d.view()
			require.Equal(t, billing.TopUpOff, v.State)
			require.Empty(t, v.PaymentMethod)
			require.Equal(t, c.pending, v.Pending)
			if c.pending {
				require.Equal(t, card, d.m.AskedTopUps()[0].Method)
				d.ends(1, c.paid)
			}
			d.later()
			require.Empty(t, d.m.AskedTopUps())
			require.NotContains(t, string(enginetest.Snapshot(t, d.m)), "remembered")
			d.set(engine.OutcomeCustomerArchived, asIs)
			require.NoError(t, billing.CheckCredits(d.m))
		})
	}
}

// TestTopUpsOfAMonthAreInOneCurrency: what was spent in one currency is not added to prices in
// another.
func TestTopUpsOfAMonthAreInOneCurrency(t *testing.T) {
	d := newTopUps(t)
	inYen := func(r *billing.SetTopUp) { r.Currency = "JPY" }
	d.set(engine.OutcomeDone, asIs)
	d.set(engine.OutcomeTopUpCurrency, inYen)
	require.Equal(t, "USD", d.view().Currency)
	d.ends(1, true)
	d.set(engine.OutcomeTopUpCurrency, inYen)
	d.set(engine.OutcomeDone, asIs)
	d.Stamp += 40 * dayMS
	d.later()
	d.set(engine.OutcomeDone, inYen)
	require.Equal(t, "JPY", d.view().Currency)

	failed := newTopUps(t)
	failed.set(engine.OutcomeDone, asIs)
	failed.ends(1, false)
	failed.set(engine.OutcomeDone, inYen)
}

// TestTopUpWithoutProviderIsTold: what is told of a purchase that could not begin is the rule's,
// and not that of the purchase before.
func TestTopUpWithoutProviderIsTold(t *testing.T) {
	for _, bought := range []bool{false, true} {
		d := newTopUps(t)
		if bought {
			d.set(engine.OutcomeDone, asIs)
			d.ends(1, true)
		} else {
			d.is(engine.OutcomeDone, billing.KindFreezePool, &billing.FreezePool{
				Env: enginetest.Sandbox, ID: d.pool,
			})
		}
		d.set(engine.OutcomeDone, func(r *billing.SetTopUp) {
			r.Below, r.Amount, r.Price = decimal.FromInt(50), decimal.FromInt(70), decimal.FromInt(40)
		})
		d.provider("none")
		if !bought {
			d.is(engine.OutcomeDone, billing.KindUnfreezePool, &billing.UnfreezePool{
				Env: enginetest.Sandbox, ID: d.pool,
			})
		}
		d.later()
		require.Equal(t, "no_provider", d.view().Failure)
		m := d.told()[0]
		require.Equal(t, billing.WebhookTopUpFailed, m.Type)
		require.Equal(t, "no_provider", m.Code)
		require.Equal(t, "70 for 40 USD", m.Credits.String()+" for "+m.Amount.String()+" "+m.Currency)
	}
}

// TestWhatIsHeldIsTakenForSpent: a pool buys when reservations hold so much of it that less is free
// than its rule says, and no more once they give it back.
func TestWhatIsHeldIsTakenForSpent(t *testing.T) {
	s := newBudgetSandbox(t) // 100 credits, of which an image takes 3
	pool := s.m.Pools(1)[0].ID
	s.tops(pool)
	held := func(want string) {
		t.Helper()
		v, found := s.m.Pool(enginetest.Sandbox, pool)
		require.True(t, found)
		require.Equal(t, want, v.Balance.String()+" "+v.Held.String())
	}
	s.view(s.reserve("r", "images", 30))
	require.Empty(t, s.m.AskedTopUps(), "10 are free")
	s.view(s.Do(billing.KindExtendReservation, &billing.ExtendReservation{
		Env: enginetest.Sandbox, ID: enginetest.ID("reservation r"), Units: decimal.FromInt(31),
	}))
	held("100 93")
	require.Len(t, s.m.AskedTopUps(), 1)
	s.done(billing.KindRecordTopUp, &billing.RecordTopUp{
		Env: enginetest.Sandbox, Pool: pool, ID: billing.TopUpID(pool, 1), Paid: true,
	})
	s.release("r")
	held("150 0")
	s.view(s.reserve("s", "images", 50))
	held("150 150")
	v, _ := s.m.TopUp(enginetest.Sandbox, pool)
	require.NotZero(t, v.WaitsUntil, "the cool-down is not over")
	s.release("s")
	s.Stamp += 120_000
	s.DoPayload(engine.KindTick, nil)
	require.Empty(t, s.m.AskedTopUps())
	s.view(s.reserve("u", "images", 50))
	require.Len(t, s.m.AskedTopUps(), 1)
}

// tops makes a pool buy 50 credits when less than 10 are free.
func (s *budgetSandbox) tops(pool [16]byte) {
	s.done(billing.KindSetPaymentProvider, &billing.SetPaymentProvider{
		Env: enginetest.Sandbox, Provider: "sandbox",
	})
	s.done(billing.KindSetTopUp, &billing.SetTopUp{
		Env: enginetest.Sandbox, ID: pool, Below: decimal.FromInt(10), Amount: decimal.FromInt(50),
		Price: decimal.FromInt(5), MonthlyCap: decimal.FromInt(20), CooldownMS: 60_000, Method: card,
	})
}

// TestPoolsOfANameAreHeldInBurnOrder: the one that burns last is held when the others are.
func TestPoolsOfANameAreHeldInBurnOrder(t *testing.T) {
	s := newBudgetSandbox(t)
	last := enginetest.ID("last")
	s.done(billing.KindCreatePool, &billing.CreatePool{
		Env: enginetest.Sandbox, ID: last, Customer: "ada", Name: "studio", HardLimit: true, Priority: 9,
	})
	s.done(billing.KindGrantCredits, &billing.GrantCredits{
		Env: enginetest.Sandbox, ID: enginetest.ID("grant"), Pool: last, Amount: decimal.FromInt(20),
	})
	s.tops(last)
	s.view(s.reserve("r", "images", 35)) // 100 of the first, 5 of the last
	require.Empty(t, s.m.AskedTopUps())
	s.view(s.reserve("s", "images", 2)) // 6 more
	require.Len(t, s.m.AskedTopUps(), 1)
	held := map[string]string{}
	for _, p := range s.m.Pools(1) {
		held[p.Balance.String()] = p.Held.String()
	}
	require.Equal(t, map[string]string{"100": "100", "20": "11"}, held)
}

// TestAPoolWithoutALimitIsHeldBelowTheRange: what is free of it may be less than numbers reach.
func TestAPoolWithoutALimitIsHeldBelowTheRange(t *testing.T) {
	f := billing.PlanFeatureDocument{Key: "vast"}
	f.Pricing.Credits = billing.CreditsDocument{
		Pool: "endless", Weight: decimal.MustParse("1000000000000"),
	}
	s := newPricedSandbox(t, []billing.PlanFeatureDocument{f})
	pool, month := enginetest.ID("endless"), decimal.FromInt(5)
	s.done(billing.KindCreatePool, &billing.CreatePool{
		Env: enginetest.Sandbox, ID: pool, Customer: "ada", Name: "endless",
	})
	s.done(billing.KindSetPaymentProvider, &billing.SetPaymentProvider{
		Env: enginetest.Sandbox, Provider: "sandbox",
	})
	s.done(billing.KindSetTopUp, &billing.SetTopUp{
		Env: enginetest.Sandbox, ID: pool, Below: decimal.FromInt(10), Amount: decimal.FromInt(50),
		Price: month, MonthlyCap: month, CooldownMS: 60_000, Method: card,
	})
	s.done(billing.KindRecordTopUp, &billing.RecordTopUp{
		Env: enginetest.Sandbox, Pool: pool, ID: billing.TopUpID(pool, 1), Paid: true,
	})
	require.Equal(t, engine.OutcomeDone, s.event("e", "vast", 600_000_000_000))
	s.view(s.reserve("r", "vast", 600_000_000_000))
	v, found := s.m.TopUp(enginetest.Sandbox, pool)
	require.True(t, found)
	require.NotZero(t, v.WaitsUntil, "the month's cap is reached")
}

// TestAPoolIsHeldMoreOnceAnotherHasLess: what one of the name cannot hold any more, the next one
// holds, which buys if too little is free then.
func TestAPoolIsHeldMoreOnceAnotherHasLess(t *testing.T) {
	for name, takes := range map[string]func(s *budgetSandbox, first [16]byte){
		"nothing": nil,
		"an event": func(s *budgetSandbox, _ [16]byte) {
			require.Equal(s.t, engine.OutcomeDone, s.event("e", "images", 20))
		},
		"a deduction": func(s *budgetSandbox, first [16]byte) {
			s.done(billing.KindDeductCredits, &billing.DeductCredits{
				Env: enginetest.Sandbox, ID: enginetest.ID("takes"), Pool: first,
				Amount: decimal.FromInt(60),
			})
		},
		"the first is frozen": func(s *budgetSandbox, first [16]byte) {
			s.done(billing.KindFreezePool, &billing.FreezePool{Env: enginetest.Sandbox, ID: first})
		},
		"the first is archived": func(s *budgetSandbox, first [16]byte) {
			s.done(billing.KindArchivePool, &billing.ArchivePool{Env: enginetest.Sandbox, ID: first})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBudgetSandbox(t) // 100 credits, of which an image takes 3
			first, last := s.m.Pools(1)[0].ID, enginetest.ID("last")
			s.done(billing.KindCreatePool, &billing.CreatePool{
				Env: enginetest.Sandbox, ID: last, Customer: "ada", Name: "studio", HardLimit: true,
				Priority: 9,
			})
			s.done(billing.KindGrantCredits, &billing.GrantCredits{
				Env: enginetest.Sandbox, ID: enginetest.ID("grant"), Pool: last,
				Amount: decimal.FromInt(60),
			})
			s.tops(last)
			s.view(s.reserve("r", "images", 33)) // 99 of the first
			require.Empty(t, s.m.AskedTopUps())
			if takes == nil {
				return
			}
			takes(s, first)
			require.Len(t, s.m.AskedTopUps(), 1)
		})
	}
}
