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
