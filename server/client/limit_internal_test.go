package client

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/bench/servertest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/server"
)

// TestABatchReadsNoMoreAfterAFailure: without a leader each read waits until its deadline.
func TestABatchReadsNoMoreAfterAFailure(t *testing.T) {
	c := servertest.New()
	c.Do(t, billing.KindCreateAccount, &billing.CreateAccount{
		ID: enginetest.ID("demo"), Name: "demo",
	})
	plan := enginetest.TokenPlan()
	plan.Plans[0].Features[2].Pricing.LimitMode = "hard"
	c.Do(t, billing.KindApplyCatalog, enginetest.ApplyCatalog(enginetest.Sandbox, plan))
	c.Do(t, billing.KindCreateCustomer, &billing.CreateCustomer{
		Env: enginetest.Sandbox, ID: enginetest.ID("ada"), ExternalID: "ada", FirstName: "Ada",
		LastName: "Lovelace", Email: "ada@example.com",
	})
	c.Do(t, billing.KindCreateSubscription, &billing.CreateSubscription{
		Env: enginetest.Sandbox, ID: enginetest.ID("s"), InvoiceID: enginetest.ID("i"),
		Customer: "ada", Plan: plan.Plans[0].Key, GraceDays: 7,
	})
	a := &API{base: base{
		machine: c.Machine, reader: c, now: time.Now, readTimeout: time.Second,
	}}
	// The event fits by what this node knows: so it reads up to date.
	event := billing.RecordUsage{
		Env: enginetest.Sandbox, Customer: []byte("ada"), FeatureKey: []byte("output-tokens"),
		Units: decimal.FromInt(1), OccurredAt: time.Now().UnixMilli(),
	}
	fault := server.FaultOf(engine.OutcomeHardLimit)
	reads := func() int64 {
		l := refusals{API: a}
		c.Reads.Store(0)
		for range 20 {
			require.Equal(t, fault, l.limitFault(fault, &event))
		}
		return c.Reads.Load()
	}
	require.EqualValues(t, upToDate, reads())
	c.NoLeader.Store(true)
	require.EqualValues(t, 1, reads())
}
