package billing_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// goldenWebhooks are the commands around webhooks.
func goldenWebhooks() map[string]wire.Fielder {
	id := enginetest.ID
	return map[string]wire.Fielder{
		"command-128-create-webhook-endpoint": &billing.CreateWebhookEndpoint{
			Env: 1, ID: id("w"), URL: "https://a.example", Events: 6, About: "about",
			Secret: []byte{1, 2}, Actor: "admin",
		},
		"command-129-update-webhook-endpoint": &billing.UpdateWebhookEndpoint{
			Env: 1, ID: id("w"), Set: 15, URL: "https://b.example", Events: 8, About: "other",
			Enabled: true, Actor: "admin",
		},
		"command-130-delete-webhook-endpoint": &billing.DeleteWebhookEndpoint{
			Env: 1, ID: id("w"), Actor: "admin",
		},
		"command-131-rotate-webhook-secret": &billing.RotateWebhookSecret{
			Env: 1, ID: id("w"), Secret: []byte{3}, Actor: "admin",
		},
		"command-132-record-delivery": &billing.RecordDelivery{
			Env: 1, Endpoint: id("w"), Row: 2, Sequence: 3, Attempt: 4, Outcome: billing.AttemptRetry,
			Status: 503, Reason: "why", TookMS: 5, RetryMS: 6,
		},
		"command-132-record-delivery-answer": &billing.RecordDelivery{
			Env: 1, Endpoint: id("w"), Row: 2, Sequence: 3, Attempt: 4, Outcome: billing.AttemptRetry,
			Status: 503, Reason: "why", TookMS: 5, RetryMS: 6, Answer: "no such order",
		},
		"command-233-resend-webhooks": &billing.ResendWebhooks{
			Env: 1, Endpoint: id("w"), Actor: "admin",
			Deliveries: []billing.DeliveryName{{Row: 2, Sequence: 3}, {Row: 4, Sequence: 5}},
		},
		"command-234-test-webhook": &billing.TestWebhook{Env: 1, Endpoint: id("w"), Actor: "admin"},
		"command-133-resend-webhook": &billing.ResendWebhook{
			Env: 1, Endpoint: id("w"), Row: 2, Sequence: 3, Actor: "admin",
		},
	}
}

func goldenMessage() *billing.WebhookMessage {
	id := enginetest.ID
	return &billing.WebhookMessage{
		Type: billing.WebhookInvoicePaid, At: 1, Customer: "ada", SubscriptionID: id("s"),
		CreatedAt: 4, PeriodStart: 7, PeriodEnd: 8,
		ToldInvoice: billing.ToldInvoice{
			InvoiceID: id("i"), Number: 2, InvoiceType: billing.InvoiceRegular,
			Status: billing.InvoicePaid, Amount: decimal.FromInt(3), Currency: "USD", DueAt: 5, PaidAt: 6,
		},
		ToldPayment: billing.ToldPayment{
			Paid: decimal.FromInt(9), PaidCurrency: "EUR", Provider: "stripe", ProviderEvent: "evt",
			PaidResult: billing.PaymentMismatch,
		},
		ToldSubscription: billing.ToldSubscription{
			PlanID: id("p"), PlanKey: "pro", PlanVersion: 10, Active: true, SuspendedAt: 11,
			CancelledAt: 12, EndedAt: 13, CancelMode: billing.CancelImmediate,
			ScheduledPlan: "team", ScheduledAt: 14,
		},
		ToldPool: billing.ToldPool{
			PoolID: id("c"), PoolName: "credits", Balance: decimal.FromInt(15),
		},
		ToldLimit: billing.ToldLimit{
			FeatureKey: "tokens", Used: decimal.FromInt(16), Limit: decimal.FromInt(17), HardLimit: true,
		},
	}
}

// hooked is a desk with an endpoint that hears everything.
func hooked(t *testing.T) *desk {
	d := newDesk(t)
	d.is(engine.OutcomeDone, billing.KindCreateWebhookEndpoint, d.hook())
	return d
}

func (d *desk) hook() *billing.CreateWebhookEndpoint {
	return &billing.CreateWebhookEndpoint{
		Env: enginetest.Sandbox, ID: enginetest.ID("hook"), URL: "https://a.example/secret-path",
		Secret: []byte("sealed"), Actor: "ops",
	}
}

func dueOf(m *billing.Machine, now int64) []billing.DueDelivery {
	return m.DueWebhooks(now, 1000, func([16]byte) int { return 1000 },
		func(uint64) bool { return false })
}

func (d *desk) delivery(due *billing.DueDelivery) *billing.RecordDelivery {
	return &billing.RecordDelivery{
		Env: due.Env, Endpoint: due.Endpoint.ID, Row: due.Delivery.Row,
		Sequence: due.Delivery.Sequence, Attempt: due.Delivery.Attempts + 1,
		Outcome: billing.AttemptDelivered, Status: 200,
	}
}

// TestAttemptsAreRecordedOnce: a result that is proposed again, by this leader or the one before,
// changes nothing.
func TestAttemptsAreRecordedOnce(t *testing.T) {
	d := hooked(t)
	d.is(engine.OutcomeDone, billing.KindCreateSubscription, d.subscribe())
	due := dueOf(d.m, d.Stamp)
	require.Len(t, due, 1, "one customer, one message at a time")
	require.Equal(t, billing.WebhookSubscriptionCreated, due[0].Delivery.Message.Type)
	failed := d.delivery(&due[0])
	failed.Outcome, failed.Status, failed.Reason, failed.RetryMS = billing.AttemptRetry, 500, "no", 5000
	for range 3 {
		d.is(engine.OutcomeDone, billing.KindRecordDelivery, failed)
	}
	view, ok := d.m.WebhookDelivery(enginetest.Sandbox, due[0].Endpoint.ID, due[0].Delivery.ID)
	require.True(t, ok)
	require.Equal(t, uint32(1), view.Attempts)
	require.Equal(t, []billing.Attempt{{
		At: d.Stamp, Outcome: billing.AttemptRetry, Status: 500, Reason: "no",
	}}, view.Log)
	require.Empty(t, dueOf(d.m, d.Stamp+4999))
	require.Len(t, dueOf(d.m, d.Stamp+5000), 1)

	failed.Attempt = 2
	for range 12 {
		d.is(engine.OutcomeDone, billing.KindRecordDelivery, failed)
		failed.Attempt++
	}
	view, _ = d.m.WebhookDelivery(enginetest.Sandbox, due[0].Endpoint.ID, due[0].Delivery.ID)
	require.Equal(t, uint32(13), view.Attempts)
	require.Len(t, view.Log, 10, "the newest are kept")
	done := d.delivery(&due[0])
	done.Attempt = 14
	for range 2 {
		d.is(engine.OutcomeDone, billing.KindRecordDelivery, done)
	}
	e, _ := d.m.WebhookEndpoint(enginetest.Sandbox, due[0].Endpoint.ID)
	require.Equal(t, uint64(1), e.Delivered)
	for _, wrong := range []func(*billing.RecordDelivery){
		func(c *billing.RecordDelivery) { c.Row = 0 },
		func(c *billing.RecordDelivery) { c.Row = 99 },
		func(c *billing.RecordDelivery) { c.Sequence++ },
	} {
		c := *done
		wrong(&c)
		d.is(engine.OutcomeDeliveryUnknown, billing.KindRecordDelivery, &c)
	}
	done.Outcome = 9
	d.is(engine.OutcomeWebhookInvalid, billing.KindRecordDelivery, done)
}

// TestTheOutboxSurvivesARestore: what waits, its order, and how a message is called.
func TestTheOutboxSurvivesARestore(t *testing.T) {
	d := hooked(t)
	d.is(engine.OutcomeDone, billing.KindCreateSubscription, d.subscribe())
	first := dueOf(d.m, d.Stamp)[0]
	d.is(engine.OutcomeDone, billing.KindRecordDelivery, d.delivery(&first))
	// The message that was delivered is asked for once more: it comes behind the others.
	d.is(engine.OutcomeDone, billing.KindResendWebhook, &billing.ResendWebhook{
		Env: enginetest.Sandbox, Endpoint: first.Endpoint.ID, Row: first.Delivery.Row,
		Sequence: first.Delivery.Sequence, Actor: "ops",
	})
	again := &desk{t: t, m: restored(t, enginetest.Snapshot(t, d.m))}
	again.Log = enginetest.NewLog(again.m, d.Stamp)
	var kinds []string
	for range 3 {
		ours, theirs := dueOf(d.m, d.Stamp), dueOf(again.m, d.Stamp)
		require.Equal(t, ours, theirs)
		require.Len(t, ours, 1)
		kinds = append(kinds, ours[0].Delivery.Message.Type.String())
		d.is(engine.OutcomeDone, billing.KindRecordDelivery, d.delivery(&ours[0]))
		again.is(engine.OutcomeDone, billing.KindRecordDelivery, d.delivery(&ours[0]))
	}
	require.Equal(t, []string{"invoice.created", "invoice.due", "subscription.created"}, kinds)
	require.Empty(t, dueOf(again.m, d.Stamp))
	require.Equal(t, enginetest.Snapshot(t, d.m), enginetest.Snapshot(t, again.m))
	name := billing.MessageName(first.Delivery.ID)
	id, ok := billing.ParseMessageName(name)
	require.True(t, ok)
	require.Equal(t, first.Delivery.ID, id)
	for _, bad := range []string{"", "msg_", name[4:], name + "0", "MSG_" + name[4:]} {
		_, ok = billing.ParseMessageName(bad)
		require.False(t, ok, bad)
	}
}

// TestManyAreSentAgain: what is finished, in its order, once; only what failed, where that is
// asked.
func TestManyAreSentAgain(t *testing.T) {
	d := hooked(t)
	d.is(engine.OutcomeDone, billing.KindCreateSubscription, d.subscribe())
	begin := d.Stamp
	endpoint := enginetest.ID("hook")
	for i := range 3 {
		due := dueOf(d.m, d.Stamp)
		require.Len(t, due, 1)
		c := d.delivery(&due[0])
		if i == 1 { // given up
			c.Outcome, c.Status = billing.AttemptRetry, 500
		}
		d.is(engine.OutcomeDone, billing.KindRecordDelivery, c)
	}
	list := func(from, to int64, status string) []billing.DeliveryName {
		names, ok := d.m.FinishedDeliveries(enginetest.Sandbox, endpoint, from, to, status)
		require.True(t, ok)
		return names
	}
	all := list(begin, begin+1, "all")
	require.Len(t, all, 3)
	require.Less(t, all[0].Sequence, all[2].Sequence)
	require.Equal(t, all[1:2], list(begin, begin+1, "failed"))
	require.Len(t, list(begin, begin+1, "delivered"), 2)
	require.Empty(t, list(begin+1, begin+2, "all"))
	_, ok := d.m.FinishedDeliveries(enginetest.Sandbox, enginetest.ID("other"), 0, begin+1, "all")
	require.False(t, ok)

	again := &billing.ResendWebhooks{
		Env: enginetest.Sandbox, Endpoint: endpoint, Actor: "ops",
		Deliveries: append(all, billing.DeliveryName{Row: 77, Sequence: 1}),
	}
	d.is(engine.OutcomeDone, billing.KindResendWebhooks, again)
	d.is(engine.OutcomeDone, billing.KindResendWebhooks, again)
	require.Empty(t, list(begin, begin+1, "all"), "they wait, once")
	view, _ := d.m.WebhookEndpoint(enginetest.Sandbox, endpoint)
	require.Equal(t, uint32(3), view.Pending)
	var kinds []string
	for range 3 {
		due := dueOf(d.m, d.Stamp)
		require.Len(t, due, 1)
		kinds = append(kinds, due[0].Delivery.Message.Type.String())
		d.is(engine.OutcomeDone, billing.KindRecordDelivery, d.delivery(&due[0]))
	}
	require.Equal(t, []string{"subscription.created", "invoice.created", "invoice.due"}, kinds)

	again.Deliveries = make([]billing.DeliveryName, billing.MaxResent+1)
	d.is(engine.OutcomeTooLarge, billing.KindResendWebhooks, again)
	d.is(engine.OutcomeDone, billing.KindUpdateWebhookEndpoint, &billing.UpdateWebhookEndpoint{
		Env: enginetest.Sandbox, ID: endpoint, Set: billing.WebhookEnabled, Actor: "ops",
	})
	again.Deliveries = all
	d.is(engine.OutcomeWebhookDisabled, billing.KindResendWebhooks, again)
	d.is(engine.OutcomeWebhookDisabled, billing.KindTestWebhook, &billing.TestWebhook{
		Env: enginetest.Sandbox, Endpoint: endpoint, Actor: "ops",
	})
	again.Endpoint = enginetest.ID("other")
	d.is(engine.OutcomeWebhookUnknown, billing.KindResendWebhooks, again)
}

// TestATestIsTriedOnce: whatever came of it, the next one does not wait for it, and the endpoint is
// neither failing nor disabled.
func TestATestIsTriedOnce(t *testing.T) {
	d := hooked(t)
	test := &billing.TestWebhook{Env: enginetest.Sandbox, Endpoint: d.hook().ID, Actor: "ops"}
	for _, outcome := range []billing.AttemptOutcome{
		billing.AttemptRetry, billing.AttemptGone, billing.AttemptBlocked, billing.AttemptDelivered,
	} {
		d.is(engine.OutcomeDone, billing.KindTestWebhook, test)
		due := dueOf(d.m, d.Stamp)
		require.Len(t, due, 1)
		c := d.delivery(&due[0])
		c.Outcome, c.RetryMS = outcome, 5000
		d.is(engine.OutcomeDone, billing.KindRecordDelivery, c)
		ep, _ := d.m.WebhookEndpoint(enginetest.Sandbox, test.Endpoint)
		require.Zero(t, ep.Pending)
		require.Zero(t, ep.FailingSince)
		require.Equal(t, billing.WebhookOn, ep.Off)
		require.NotZero(t, ep.SentAt)
		view, _ := d.m.WebhookDelivery(enginetest.Sandbox, test.Endpoint, due[0].Delivery.ID)
		require.Len(t, view.Log, 1)
		require.Zero(t, view.NextAt)
	}
	ep, _ := d.m.WebhookEndpoint(enginetest.Sandbox, test.Endpoint)
	require.EqualValues(t, []uint64{1, 3}, []uint64{ep.Delivered, ep.Failed})
}

// TestAnswersAreBounded: the newest are kept, each with its attempt, also over a restore.
func TestAnswersAreBounded(t *testing.T) {
	d := hooked(t)
	endpoint := enginetest.ID("hook")
	test := &billing.TestWebhook{Env: enginetest.Sandbox, Endpoint: endpoint, Actor: "ops"}
	d.is(engine.OutcomeDone, billing.KindTestWebhook, test)
	first := dueOf(d.m, d.Stamp)[0]
	answered := func(text string) engine.Outcome {
		due := dueOf(d.m, d.Stamp)
		c := d.delivery(&due[0])
		c.Answer = text
		return d.Do(billing.KindRecordDelivery, c).Outcome
	}
	require.Equal(t, engine.OutcomeWebhookInvalid, answered(strings.Repeat("x", 1025)))
	require.Equal(t, engine.OutcomeWebhookInvalid, answered("\xff"))
	require.Equal(t, engine.OutcomeDone, answered("answer 0"))
	kept := func(m *billing.Machine, id [16]byte) string {
		view, ok := m.WebhookDelivery(enginetest.Sandbox, endpoint, id)
		require.True(t, ok)
		return view.Log[len(view.Log)-1].Answer
	}
	require.Equal(t, "answer 0", kept(d.m, first.Delivery.ID))
	var last billing.DueDelivery
	for i := range billing.KeptAnswers {
		d.is(engine.OutcomeDone, billing.KindTestWebhook, test)
		last = dueOf(d.m, d.Stamp)[0]
		require.Equal(t, engine.OutcomeDone, answered(fmt.Sprint("answer ", i+1)))
	}
	require.Empty(t, kept(d.m, first.Delivery.ID), "its row is another's now")
	again := restored(t, enginetest.Snapshot(t, d.m))
	for _, m := range []*billing.Machine{d.m, again} {
		require.Equal(t, fmt.Sprint("answer ", billing.KeptAnswers), kept(m, last.Delivery.ID))
	}
	require.Equal(t, enginetest.Snapshot(t, d.m), enginetest.Snapshot(t, again))
}

// TestTheOutboxIsBounded: a queue that is full skips what is new and counts it; the log of what is
// done keeps the newest; deleting an endpoint gives everything back.
func TestTheOutboxIsBounded(t *testing.T) {
	d := hooked(t)
	d.m.FillOutbox(billing.MaxPendingDeliveries - 1)
	d.is(engine.OutcomeDone, billing.KindCreateSubscription, d.subscribe())
	view, _ := d.m.WebhookEndpoint(enginetest.Sandbox, enginetest.ID("hook"))
	require.Equal(t, uint32(billing.MaxPendingDeliveries), view.Pending)
	require.Equal(t, uint64(2), view.Skipped, "of subscription.created, invoice.created and due")
	require.Equal(t, uint64(2), d.m.Outbox().Skipped)

	due := d.m.DueWebhooks(d.Stamp, 5, func([16]byte) int { return 7 },
		func(n uint64) bool { return n%2 == 1 })
	require.Len(t, due, 5)
	for i := range due {
		require.Zero(t, due[i].Delivery.Sequence%2, "busy ones are left out")
	}
	for range billing.MaxFinishedDeliveries + 10 {
		due = d.m.DueWebhooks(d.Stamp, 1, func([16]byte) int { return 1 },
			func(uint64) bool { return false })
		d.is(engine.OutcomeDone, billing.KindRecordDelivery, d.delivery(&due[0]))
	}
	require.Equal(t, uint64(billing.MaxFinishedDeliveries), d.m.Outbox().Finished)
	page, next, ok := d.m.WebhookDeliveries(&billing.DeliveryQuery{
		Env: enginetest.Sandbox, Endpoint: enginetest.ID("hook"), Limit: 2, Status: "pending",
	})
	require.True(t, ok)
	require.Len(t, page, 2)
	require.Equal(t, page[1].Sequence, next)

	d.is(engine.OutcomeDone, billing.KindDeleteWebhookEndpoint, &billing.DeleteWebhookEndpoint{
		Env: enginetest.Sandbox, ID: enginetest.ID("hook"),
	})
	require.Equal(t, billing.OutboxStats{}, d.m.Outbox())
	require.Empty(t, dueOf(d.m, d.Stamp))
	// Old results find nothing, though the rows are used again.
	d.is(engine.OutcomeDone, billing.KindCreateWebhookEndpoint, d.hook())
	again := d.subscribe()
	again.ID, again.InvoiceID = enginetest.ID("s2"), enginetest.ID("i2")
	d.is(engine.OutcomeDone, billing.KindCreateSubscription, again)
	d.is(engine.OutcomeDeliveryUnknown, billing.KindRecordDelivery, d.delivery(&due[0]))
	d.is(engine.OutcomeDone, billing.KindRecordDelivery, d.delivery(&dueOf(d.m, d.Stamp)[0]))
	require.Len(t, restored(t, enginetest.Snapshot(t, d.m)).WebhookEndpoints(enginetest.Sandbox), 1)
}

// TestAFullOutboxHasRoomForOthers: the nearer the group's outbox is to being full, the less an
// endpoint may have waiting, so that one of which little waits is heard.
func TestAFullOutboxHasRoomForOthers(t *testing.T) {
	d := hooked(t)
	d.is(engine.OutcomeDone, billing.KindCreateSubscription, d.subscribe())
	d.m.ClaimPending(billing.MaxPending - 3 - 3)
	other := d.hook()
	other.ID = enginetest.ID("other")
	d.is(engine.OutcomeDone, billing.KindCreateWebhookEndpoint, other)
	again := d.subscribe()
	again.ID, again.InvoiceID = enginetest.ID("s2"), enginetest.ID("i2")
	d.is(engine.OutcomeDone, billing.KindCreateSubscription, again)
	hog, _ := d.m.WebhookEndpoint(enginetest.Sandbox, enginetest.ID("hook"))
	require.Equal(t, uint32(3), hog.Pending, "of three left, it has three")
	require.Equal(t, uint64(3), hog.Skipped)
	fresh, _ := d.m.WebhookEndpoint(enginetest.Sandbox, enginetest.ID("other"))
	require.Equal(t, uint32(2), fresh.Pending)
	require.Equal(t, uint64(1), fresh.Skipped)
}

func TestEndpointsAreBounded(t *testing.T) {
	d := newDesk(t)
	for i := range billing.MaxWebhookEndpoints + 1 {
		c := d.hook()
		c.ID = enginetest.ID(fmt.Sprint(i))
		want := engine.OutcomeDone
		if i == billing.MaxWebhookEndpoints {
			want = engine.OutcomeWebhookLimit
		}
		d.is(want, billing.KindCreateWebhookEndpoint, c)
		c.Env = 2 // live
		d.is(want, billing.KindCreateWebhookEndpoint, c)
	}
	bad := d.hook()
	bad.URL = ""
	d.is(engine.OutcomeWebhookInvalid, billing.KindCreateWebhookEndpoint, bad)
	bad.URL, bad.Events = "https://a.example", 1<<31
	d.is(engine.OutcomeWebhookInvalid, billing.KindCreateWebhookEndpoint, bad)
}

// TestSecretsAreRotated: the one before signs for a day more; nothing of them is in the record of
// changes.
func TestSecretsAreRotated(t *testing.T) {
	d := hooked(t)
	for range 2 {
		d.is(engine.OutcomeDone, billing.KindRotateWebhookSecret, &billing.RotateWebhookSecret{
			Env: enginetest.Sandbox, ID: enginetest.ID("hook"), Secret: []byte("next"), Actor: "ops",
		})
	}
	view, _ := d.m.WebhookEndpoint(enginetest.Sandbox, enginetest.ID("hook"))
	require.Equal(t, "next", string(view.Secret))
	require.Equal(t, "sealed", string(view.Previous))
	require.Equal(t, d.Stamp+billing.WebhookOverlapMS, view.PreviousUntil)
	for _, c := range d.changes(d.m, 0, 10) {
		require.NotContains(t, fmt.Sprint(c), "sealed")
		require.NotContains(t, fmt.Sprint(c), "next")
	}
}

// TestCreditsAreDepletedOnce: what is filled again by the same command was never empty.
func TestCreditsAreDepletedOnce(t *testing.T) {
	d := hooked(t)
	pool := enginetest.ID("pool")
	d.is(engine.OutcomeDone, billing.KindCreatePool, &billing.CreatePool{
		Env: enginetest.Sandbox, ID: pool, Customer: "ada", Name: "images", HardLimit: true,
	})
	move := func(kind engine.Kind, n int64) {
		id := enginetest.ID(fmt.Sprint(kind, d.Index))
		if kind == billing.KindGrantCredits {
			d.is(engine.OutcomeDone, kind, &billing.GrantCredits{
				Env: enginetest.Sandbox, ID: id, Pool: pool, Type: "MANUAL", Amount: decimal.FromInt(n),
			})
			return
		}
		d.is(engine.OutcomeDone, kind, &billing.DeductCredits{
			Env: enginetest.Sandbox, ID: id, Pool: pool, Amount: decimal.FromInt(n),
		})
	}
	count := func() int { return int(d.m.Outbox().Pending) }
	require.Zero(t, count(), "it begins empty")
	move(billing.KindGrantCredits, 10)
	move(billing.KindDeductCredits, 9)
	require.Zero(t, count())
	move(billing.KindDeductCredits, 1)
	require.Equal(t, 1, count())
	move(billing.KindGrantCredits, 2)
	move(billing.KindDeductCredits, 2)
	require.Equal(t, 2, count())
	message := dueOf(d.m, d.Stamp)[0].Delivery.Message
	require.Equal(t, billing.WebhookCreditsDepleted, message.Type)
	require.Equal(t, "images", message.PoolName)
	require.Equal(t, pool, message.PoolID)
}

// TestOutboxIsReadBesideApply: for the race detector.
func TestOutboxIsReadBesideApply(t *testing.T) {
	d := hooked(t)
	var readers sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				dueOf(d.m, d.Stamp)
				d.m.Outbox()
				d.m.WebhookEndpoints(enginetest.Sandbox)
				d.m.Subscriptions(1)
				if _, _, ok := d.m.WebhookDeliveries(&billing.DeliveryQuery{
					Env: enginetest.Sandbox, Endpoint: enginetest.ID("hook"), Limit: 10,
				}); !ok {
					return
				}
			}
		})
	}
	for i := range 100 {
		c := d.subscribe()
		c.ID, c.InvoiceID = enginetest.ID(fmt.Sprint("s", i)), enginetest.ID(fmt.Sprint("i", i))
		d.is(engine.OutcomeDone, billing.KindCreateSubscription, c)
		for _, due := range dueOf(d.m, d.Stamp) {
			d.is(engine.OutcomeDone, billing.KindRecordDelivery, d.delivery(&due))
		}
	}
	close(stop)
	readers.Wait()
}

// TestACorrectionTellsNothingAgain: a threshold that usage has reached is told once in a period,
// though a correction takes usage below it and it rises again, by events or amendments, also after
// a restore; the next period tells it anew.
func TestACorrectionTellsNothingAgain(t *testing.T) {
	s := newHeldSandbox(t)
	s.listens("hook")
	require.Equal(t, engine.OutcomeDone, s.event("a", "calls", 260))
	require.Equal(t, []string{"calls50"}, s.thresholds("hook"))
	s.amends("a", 10)
	require.Equal(t, engine.OutcomeDone, s.event("b", "calls", 250))
	s.amends("b", 0)
	s.amends("b", 260)
	require.Equal(t, []string{"calls50"}, s.thresholds("hook"))
	s.amends("b", 0)
	s.m = restored(t, enginetest.Snapshot(t, s.m))
	s.Machine = s.m
	require.Equal(t, engine.OutcomeDone, s.event("c", "calls", 445))
	require.ElementsMatch(t, []string{"calls50", "calls90"}, s.thresholds("hook"),
		"the next one is told")

	s.Stamp += 32 * 24 * 3600 * 1000
	for at := s.m.NextDue(); at != 0 && at <= s.Stamp; at = s.m.NextDue() {
		s.DoPayload(engine.KindTick, nil)
	}
	require.Equal(t, engine.OutcomeDone, s.event("f", "calls", 300))
	require.Len(t, s.thresholds("hook"), 3)
}

// TestAnAmendmentTellsABudgetsThreshold: an amendment that brings a budget's window to a threshold
// tells it, once, as an event does.
func TestAnAmendmentTellsABudgetsThreshold(t *testing.T) {
	limit := inUSD("40")
	limit.Thresholds = []byte{50, 90}
	s := newBudgetSandbox(t, limit)
	d := &desk{Log: s.Log, t: t, m: s.m}
	d.is(engine.OutcomeDone, billing.KindCreateWebhookEndpoint, d.hook())
	told := func() (all []string) {
		page, _, ok := s.m.WebhookDeliveries(&billing.DeliveryQuery{
			Env: enginetest.Sandbox, Endpoint: enginetest.ID("hook"), Limit: 100,
		})
		require.True(t, ok)
		for i := range page {
			m := &page[i].Message
			all = append(all, fmt.Sprint(m.Type, " ", m.BudgetKey, " ", m.Percent))
		}
		return all
	}
	src := &enginetest.Source{Journal: s.m.Journal()}
	key := billing.UsageKey(enginetest.Sandbox, []byte("e"))
	require.Equal(t, engine.OutcomeDone, s.event("e", "words", 10))
	ref, found, err := s.m.FindUsage(src, nil, enginetest.Sandbox, key)
	require.NoError(t, err)
	require.True(t, found)
	for _, units := range []int64{25, 10, 30} {
		d.is(engine.OutcomeDone, billing.KindAmendUsage, &billing.AmendUsage{
			Env: enginetest.Sandbox, Key: key, Original: ref, Units: decimal.FromInt(units),
			ID: enginetest.ID(fmt.Sprint("amendment", units)),
		})
		require.Equal(t, []string{"budget.threshold_reached all 50"}, told())
	}
	require.Equal(t, engine.OutcomeDone, s.event("f", "words", 6))
	require.Len(t, told(), 2)
}
