package billing_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/period"
	"tollgate/engine/wire"
)

// administered is a command's record as a server proposes it for an operator.
func administered(t *testing.T, kind engine.Kind, c wire.Fielder) engine.Record {
	t.Helper()
	r, err := billing.New(billing.Config{}).Administered("olga@example.com",
		submitted(kind, wire.Encode(nil, c), "administered "+t.Name()+string(rune(kind))))
	require.NoError(t, err)
	require.Equal(t, billing.KindAdminister, r.Kind)
	return r
}

// TestOperatorsCommandsAreRecorded: each command that programs and operators both give leaves, when
// an operator gives it, one row with who, when, before and after; sent again it leaves none.
func TestOperatorsCommandsAreRecorded(t *testing.T) {
	env, s := uint32(enginetest.Sandbox), enginetest.ID("s")
	covered := map[engine.Kind]bool{}
	d := newDesk(t)
	src := &enginetest.Source{Journal: d.m.Journal()}
	check := func(kind engine.Kind, c wire.Fielder, action string, values ...billing.FieldChange) {
		t.Helper()
		covered[kind] = true
		record := administered(t, kind, c)
		before := len(d.changes(d.m, 0, 1000))
		d.Stamp += 1000
		for range 2 { // the second time it was sent again
			results, err := d.Apply(record)
			require.NoError(t, err)
			require.False(t, results[0].Outcome.Refused() &&
				results[0].Outcome != engine.OutcomeNoChangePending, "%v", results[0].Outcome)
		}
		list := d.changes(d.m, 0, 1000)
		require.Len(t, list, before+1, action)
		require.Equal(t, "olga@example.com", list[0].Actor)
		require.Equal(t, action, list[0].Action)
		require.Equal(t, d.Stamp, list[0].At)
		require.NotEmpty(t, list[0].Subject)
		require.Equal(t, values, list[0].Values, action)
	}
	field := func(name, before, after string) billing.FieldChange {
		return billing.FieldChange{Name: name, Before: before, After: after}
	}
	uuid := func(name string) string { return billing.UUIDText(enginetest.ID(name)) }

	check(billing.KindCreateCustomer, &billing.CreateCustomer{
		Env: env, ID: enginetest.ID("bob"), ExternalID: "bob", Email: "bob@example.com",
	}, "customer.created", field("customer", "", "bob"))
	check(billing.KindUpdateCustomer, &billing.UpdateCustomer{
		Env: env, ExternalID: "ada", Email: "countess@example.com",
		Set: billing.CustomerEmail | billing.CustomerPhoneNumber,
	}, "customer.changed", field("email", "set", "changed"), field("phoneNumber", "set", ""))
	check(billing.KindCreateSubscription, d.subscribe(), "subscription.created",
		field("customer", "", "ada"), field("plan", "", "llm-team"),
		field("gracePeriodDays", "", "7"), field("invoice", "", uuid("i")))
	check(billing.KindMarkInvoicePaid, &billing.MarkInvoicePaid{Env: env, ID: enginetest.ID("i")},
		"invoice.paid", field("status", "DUE", "PAID"))
	check(billing.KindCancelSubscription, &billing.CancelSubscription{
		Env: env, ID: s, Mode: billing.CancelAtPeriodEnd,
	}, "subscription.cancelled", field("cancelMode", "", "END_OF_PERIOD"))
	check(billing.KindRevertCancellation, &billing.RevertCancellation{Env: env, ID: s},
		"subscription.cancellation-reverted", field("cancelMode", "END_OF_PERIOD", ""))

	usage := enginetest.Usage(d.Log, "key", "ada", "tokens", 3)
	event, err := billing.New(billing.Config{}).Administered("olga@example.com", engine.Record{
		Kind: billing.KindRecordUsage, Payload: usage.Seal(nil),
	})
	require.NoError(t, err)
	for range 2 {
		_, err = d.Apply(event)
		require.NoError(t, err)
	}
	covered[billing.KindRecordUsage], covered[billing.KindRecordProbedUsage] = true, true
	require.Equal(t, []billing.FieldChange{
		field("feature", "", "tokens"), field("units", "", "3"), field("key", "", "key"),
	}, d.changes(d.m, 0, 1)[0].Values)
	key := billing.UsageKey(env, []byte("key"))
	ref, found, err := d.m.FindUsage(src, src, env, key)
	require.NoError(t, err)
	require.True(t, found)
	check(billing.KindAmendUsage, &billing.AmendUsage{
		Env: env, Key: key, Units: decimal.FromInt(2), Original: ref, ID: enginetest.ID("amendment"),
	}, "usage.amended", field("units", "3", "2"))
	check(billing.KindVoidUsage, &billing.VoidUsage{Env: env, Key: key, Original: ref},
		"usage.voided", field("units", "2", "0"), field("voided", "false", "true"))

	check(billing.KindReserve, enginetest.Reservation("r", "ada", "requests", 1), "reservation.made",
		field("customer", "", "ada"), field("reservationKey", "", "r"),
		field("granted", "", "requests 1"), field("expires", "", period.Format(d.Stamp+1000+600_000)))
	check(billing.KindExtendReservation, &billing.ExtendReservation{
		Env: env, ID: enginetest.ID("reservation r"), Units: decimal.FromInt(2), TTLMS: 900_000,
	}, "reservation.extended", field("customer", "", "ada"), field("expires", period.Format(d.Stamp+600_000),
		period.Format(d.Stamp+1000+900_000)), field("units", "1", "2"))
	check(billing.KindSettleReservation, &billing.SettleReservation{
		Env: env, ID: enginetest.ID("reservation r"), Partial: true,
		Items: []billing.SettleItem{{Units: decimal.FromInt(1)}},
	}, "reservation.settled", field("customer", "", "ada"), field("reservationKey", "", "r"),
		field("settled", "requests 0", "requests 1"))
	check(billing.KindSettleReservation, &billing.SettleReservation{
		Env: env, ID: enginetest.ID("reservation r"),
		Items: []billing.SettleItem{{Units: decimal.FromInt(1)}},
	}, "reservation.settled", field("customer", "", "ada"), field("reservationKey", "", "r"),
		field("state", "open", "settled"))

	two := enginetest.TokenPlan()
	two.Plans[0].Key = "small"
	d.is(engine.OutcomeDone, billing.KindApplyCatalog, enginetest.ApplyCatalog(env, two))
	change := func(name, plan string, kind billing.ChangeType) *billing.ChangePlan {
		return &billing.ChangePlan{Env: env, ID: s, ChangeID: enginetest.ID(name), Plan: plan, Type: kind}
	}
	check(billing.KindChangePlan, change("down", "small", billing.ChangeDowngrade),
		"subscription.plan-changed", field("scheduledPlan", "", "small version 1"))
	check(billing.KindCancelPlanChange, &billing.CancelPlanChange{Env: env, ID: s},
		"subscription.plan-change-cancelled", field("scheduledPlan", "small version 1", ""))
	check(billing.KindChangePlan, change("up", "small", billing.ChangeUpgrade),
		"subscription.plan-changed", field("plan", "llm-team version 1", "small version 1"))

	d.is(engine.OutcomeDone, billing.KindSetPaymentProvider, &billing.SetPaymentProvider{
		Env: env, Provider: billing.ProviderSandbox,
	})
	sub := d.subscribe()
	sub.ID, sub.InvoiceID = enginetest.ID("s2"), enginetest.ID("i2")
	d.is(engine.OutcomeDone, billing.KindCreateSubscription, sub)
	check(billing.KindOpenCheckout, &billing.OpenCheckout{
		Env: env, ID: enginetest.ID("checkout"), InvoiceID: sub.InvoiceID,
	}, "checkout.opened", field("checkout", "", uuid("checkout")))

	for _, kind := range billing.Describable() {
		require.True(t, covered[kind], "kind %d is not in this test", kind)
	}
	taken := enginetest.Snapshot(t, d.m)
	require.Equal(t, taken, enginetest.Snapshot(t, restored(t, taken)))
}

// TestAnUnrecordedCommandIsNotTaken from an operator: a command that the record of changes does not
// cover is refused before it is proposed.
func TestAnUnrecordedCommandIsNotTaken(t *testing.T) {
	for _, kind := range []engine.Kind{billing.KindSetLimits, billing.KindRecordPayment, 999} {
		_, err := billing.New(billing.Config{}).Administered("ops", engine.Record{Kind: kind})
		require.ErrorIs(t, err, billing.ErrUnrecorded)
		once := billing.Once{Kind: kind}
		_, err = billing.New(billing.Config{}).Administered("ops",
			engine.Record{Kind: billing.KindOnce, Payload: wire.Encode(nil, &once)})
		require.ErrorIs(t, err, billing.ErrUnrecorded)
	}
	recorded := engine.Record{Kind: billing.KindRevokeKey, Payload: []byte("its own actor")}
	same, err := billing.New(billing.Config{}).Administered("ops", recorded)
	require.NoError(t, err)
	require.Equal(t, recorded, same, "it names its actor itself")
}
