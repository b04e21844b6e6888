package billing_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

// TestViewsShareCredit: two subscriptions share a credit that is enough for one of their invoices.
// Before a tick, too, views and checks see that the second one was suspended for want of it.
func TestViewsShareCredit(t *testing.T) {
	m := billing.New(billing.Config{})
	l := enginetest.NewLog(m, enginetest.Epoch)
	plan := func(key string, price int64) billing.PlanDocument {
		return billing.PlanDocument{
			Key: key, Currency: "USD", IntervalMonths: 1, PriceAmount: decimal.FromInt(price),
			Features: []billing.PlanFeatureDocument{{Key: key, PricingType: "included"}},
		}
	}
	enginetest.NewAccount(l, billing.CatalogDocument{
		Features: []billing.FeatureDocument{{Key: "team"}, {Key: "solo"}, {Key: "seats"}},
		Plans:    []billing.PlanDocument{plan("team", 30), plan("solo", 5), plan("seats", 5)},
	})
	enginetest.NewCustomer(l, "ada", "")
	subscribe := func(plan string, grace uint32) (id [16]byte) {
		id = enginetest.ID(plan)
		r := l.Do(billing.KindCreateSubscription, &billing.CreateSubscription{
			Env: enginetest.Sandbox, ID: id, InvoiceID: enginetest.ID("invoice " + plan), Customer: "ada",
			Plan: plan, GraceDays: grace,
		})
		require.Equal(t, engine.OutcomeDone, r.Outcome)
		return id
	}
	// Half a month of 30 is given back for one of 5: 12.50 of credit, of which the new subscription's
	// first invoice takes 5.
	first := subscribe("team", 365)
	l.Stamp += 14 * dayMS
	require.Equal(t, engine.OutcomeDone, l.Do(billing.KindChangePlan, &billing.ChangePlan{
		Env: enginetest.Sandbox, ID: first, ChangeID: enginetest.ID("change"), Plan: "solo",
		Type: billing.ChangeUpgrade,
	}).Outcome)
	l.Stamp += dayMS
	second := subscribe("seats", 1)

	// The first one renews and takes 5, so the second one lacks 2.50: after a week the invoice is past
	// due, after a day of grace the subscription suspended.
	l.Stamp += (28 + 7 + 2) * dayMS
	enginetest.NewCustomer(l, "bob", "") // an entry that advances nothing
	see := func(when string) {
		one, found := m.Subscription(enginetest.Sandbox, second)
		require.True(t, found)
		require.False(t, one.IsActive, when)
		require.NotZero(t, one.SuspendedAt, when)
		all := m.Subscriptions(m.CustomerRow(enginetest.Sandbox, []byte("ada")))
		require.Len(t, all, 2)
		require.True(t, all[0].IsActive, when)
		require.Equal(t, one, all[1], when)
		var d billing.Decision
		q := billing.CheckQuery{
			Env: enginetest.Sandbox, Customer: []byte("ada"), Feature: []byte("seats"), Now: l.Stamp,
		}
		m.Check(&q, &d)
		require.Equal(t, billing.ReasonSuspended, d.Reason, when)
		entitled, _ := m.Entitlements(enginetest.Sandbox, "ada", l.Stamp)
		require.Len(t, entitled, 2)
		require.Equal(t, billing.ReasonSuspended, entitled[1].Decision.Reason, when)
	}
	see("before a tick")
	invoices := m.Invoices(enginetest.Sandbox, m.CustomerRow(enginetest.Sandbox, []byte("ada")))
	l.DoPayload(engine.KindTick, nil)
	see("after it")
	require.Len(t, m.Invoices(enginetest.Sandbox, m.CustomerRow(enginetest.Sandbox, []byte("ada"))),
		len(invoices))
}
