package billing_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// bounded applies records in one entry, and those again that are deferred, until none is. No entry
// may do more than its share and one step on top.
func bounded(t *testing.T, l *enginetest.Log, slack int, records ...engine.Record) (entries int) {
	t.Helper()
	for ; len(records) > 0; entries++ {
		results, err := l.Apply(records...)
		require.NoError(t, err)
		work := l.Machine.(*billing.Machine).Work()
		require.LessOrEqual(t, work, billing.EntryWork+slack)
		left := records[:0:0]
		for i, r := range results {
			if r.Outcome == engine.OutcomeDeferred {
				left = append(left, records[i])
			}
		}
		require.Less(t, len(left), len(records)+1)
		require.Less(t, entries, 10_000, "entries get further")
		records = left
	}
	return entries
}

// settled ticks until nothing is due, each tick within its share.
func settled(t *testing.T, l *enginetest.Log, slack int) (ticks int) {
	t.Helper()
	for at := l.Machine.NextDue(); at != 0 && at <= l.Stamp; at = l.Machine.NextDue() {
		ticks += bounded(t, l, slack, engine.Record{Kind: engine.KindTick})
	}
	return ticks
}

// oneStep is the work of one step of a subscription with three features, a few periods behind.
const oneStep = 300

// TestAnOutageIsWorkedOffInShares: after a year 400 events come in one entry, each of
// a customer with a subscription that is twelve periods behind. What the entry does is bounded, the
// rest is deferred, and in the end it is as if a tick had come each day.
func TestAnOutageIsWorkedOffInShares(t *testing.T) {
	const n = 400
	late, lateLog := populated(n)
	calm, calmLog := populated(n)
	for range 366 {
		calmLog.Stamp += dayMS
		settled(t, calmLog, oneStep)
	}
	lateLog.Stamp = calmLog.Stamp

	events := func(l *enginetest.Log) (records []engine.Record) {
		for i := range n {
			u := enginetest.Usage(l, fmt.Sprint("k", i), customerName(i), "output-tokens", 7)
			records = append(records, engine.Record{
				Kind: billing.KindRecordUsage, Payload: u.Seal(nil),
			})
		}
		return records
	}
	require.Greater(t, bounded(t, lateLog, oneStep, events(lateLog)...), 5, "it takes entries")
	require.Equal(t, 1, bounded(t, calmLog, oneStep, events(calmLog)...), "nothing was due")
	settled(t, lateLog, oneStep)
	for i := range n {
		row := late.CustomerRow(enginetest.Sandbox, []byte(customerName(i)))
		require.Equal(t, amounts(calm.Invoices(enginetest.Sandbox, row)),
			amounts(late.Invoices(enginetest.Sandbox, row)), customerName(i))
		require.Equal(t, calm.Subscriptions(row), late.Subscriptions(row))
	}
	require.Equal(t, calm.NextDue(), late.NextDue())
}

// amounts are invoices without their numbers, which follow the order of the sweep.
func amounts(views []billing.InvoiceView) (lines []string) {
	for _, v := range views {
		lines = append(lines, fmt.Sprint(v.ID, v.Type, v.Status, v.Amount, v.CreatedAt, v.DueDate,
			v.PeriodStart, v.PeriodEnd, v.Items))
	}
	return lines
}

// TestACommandWaitsForItsSubscriptions: a customer may have 128 subscriptions, each may be years
// behind. A command of that customer takes several entries, and happens once.
func TestACommandWaitsForItsSubscriptions(t *testing.T) {
	m, l := populated(1)
	for i := range billing.MaxSubscriptions {
		r := l.Do(billing.KindCreateSubscription, &billing.CreateSubscription{
			Env: enginetest.Sandbox, ID: enginetest.ID(fmt.Sprint("s", i)),
			InvoiceID: enginetest.ID(fmt.Sprint("i", i)), Customer: customerName(0), Plan: "llm-team",
		})
		want := engine.OutcomeDone
		if i == billing.MaxSubscriptions-1 {
			want = engine.OutcomeSubscriptionLimit
		}
		require.Equal(t, want, r.Outcome, "%d", i)
	}
	l.Stamp += 3 * 366 * dayMS
	u := enginetest.Usage(l, "after", customerName(0), "requests", 1)
	entries := bounded(t, l, oneStep, engine.Record{
		Kind: billing.KindRecordUsage, Payload: u.Seal(nil),
	})
	require.Greater(t, entries, 5)
	require.Equal(t, engine.OutcomeDone, l.Applied.Results[0].Outcome)
	usage, _ := m.Journal().Usage()
	require.Equal(t, uint64(1), usage)
	require.Greater(t, m.NextDue(), l.Stamp, "all of it was settled on the way")
}

// TestEveryCommandIsDeferredWhenTheEntryIsFull: whatever comes behind a command that used up the
// entry's share changes nothing.
func TestEveryCommandIsDeferredWhenTheEntryIsFull(t *testing.T) {
	m, l := populated(1000)
	l.Stamp += 366 * dayMS
	var first []engine.Record
	for i := range 200 {
		u := enginetest.Usage(l, fmt.Sprint("k", i), customerName(999-i), "requests", 1)
		first = append(first, engine.Record{Kind: billing.KindRecordUsage, Payload: u.Seal(nil)})
	}
	id := enginetest.ID("s" + customerName(0))
	last := []engine.Record{
		record(billing.KindCancelSubscription, &billing.CancelSubscription{
			Env: enginetest.Sandbox, ID: id, Mode: billing.CancelImmediate,
		}),
		record(billing.KindMarkInvoicePaid, &billing.MarkInvoicePaid{
			Env: enginetest.Sandbox, ID: enginetest.ID("i" + customerName(0)),
		}),
		record(billing.KindChangePlan, &billing.ChangePlan{
			Env: enginetest.Sandbox, ID: id, Plan: "llm-team", Type: billing.ChangeUpgrade,
		}),
		record(billing.KindCreatePool, &billing.CreatePool{
			Env: enginetest.Sandbox, ID: enginetest.ID("pool"), Customer: customerName(0), Name: "p",
		}),
		record(billing.KindRecordPayment, &billing.RecordPayment{
			Env: enginetest.Sandbox, InvoiceID: enginetest.ID("i" + customerName(0)),
			Provider: billing.ProviderSandbox, EventID: "e", Amount: decimal.FromInt(20),
			Currency: "USD",
		}),
	}
	results, err := l.Apply(append(first, last...)...)
	require.NoError(t, err)
	require.Equal(t, engine.OutcomeDone, results[0].Outcome)
	for i := range last {
		require.Equal(t, engine.OutcomeDeferred, results[len(first)+i].Outcome, "record %d", i)
	}
	results, err = l.Apply(last[0], last[1])
	require.NoError(t, err)
	require.Equal(t, engine.OutcomeDone, results[0].Outcome, "a new entry has a new share")
	require.Equal(t, engine.OutcomeDone, results[1].Outcome)
	require.NotZero(t, m.NextDue())
}

// TestATickDefersNoEvents: as long as there is something to sweep, each entry has a tick, often in
// front of the events of that moment.
func TestATickDefersNoEvents(t *testing.T) {
	m, l := populated(2000)
	l.Stamp += 28 * dayMS
	records := []engine.Record{{Kind: engine.KindTick}}
	for i := range 50 {
		u := enginetest.Usage(l, fmt.Sprint("k", i), customerName(1999-i), "requests", 1)
		records = append(records, engine.Record{
			Kind: billing.KindRecordUsage, Payload: u.Seal(nil),
		})
	}
	require.Equal(t, 1, bounded(t, l, oneStep, records...), "nothing is deferred")
	require.False(t, m.ClockSettled(enginetest.Sandbox), "the tick did its part of what is due")
}

// TestSettingsSettle: what settings ask too much of is bounded, and asking for it again changes
// nothing: who compares before proposing does so once.
func TestSettingsSettle(t *testing.T) {
	for _, c := range []billing.SetLimits{
		{},
		{WindowMS: 1 << 60},
		{KeyRetentionMS: 1 << 60, WindowMS: 1 << 61, MaxKeys: 1 << 60},
		{KeyRetentionMS: dayMS, WindowMS: 2 * dayMS, AuditRetentionMS: 1 << 60},
	} {
		m, l := populated(1)
		wanted := c.Over(m.Limits())
		l.Do(billing.KindSetLimits, &c)
		require.Equal(t, wanted, m.Limits())
		require.Equal(t, m.Limits(), c.Over(m.Limits()))
		require.LessOrEqual(t, m.Limits().WindowMS, m.Limits().KeyRetentionMS)
	}
}

// TestAPaymentWaitsForItsSubscription: one that is forty years behind is more than an entry may do.
// The payment is neither lost nor kept as one that does not fit.
func TestAPaymentWaitsForItsSubscription(t *testing.T) {
	m, l := populated(1)
	l.Stamp += 40 * 366 * dayMS
	pay := record(billing.KindRecordPayment, &billing.RecordPayment{
		Env: enginetest.Sandbox, InvoiceID: enginetest.ID("i" + customerName(0)),
		Provider: billing.ProviderSandbox, EventID: "e", Amount: decimal.FromInt(20),
		Currency: "USD",
	})
	require.Greater(t, bounded(t, l, 1000, pay), 1)
	var reply billing.PaymentReply
	require.NoError(t, wire.Decode(l.Applied.Results[0].Value, &reply))
	require.Equal(t, billing.PaymentApplied, reply.Result)
	require.False(t, reply.Repeated)
	first := m.Invoices(enginetest.Sandbox, 1)[0]
	require.Equal(t, billing.InvoicePaid, first.Status)
}

// TestWidePlansCloseInShares: an invoice with a line of 100 tiers for each of 100 features is one
// step, and an entry takes as many as its share has room for.
func TestWidePlansCloseInShares(t *testing.T) {
	m, l := widened(5, 100, 100)
	l.Stamp += 28 * dayMS
	const wide = 7000
	require.Greater(t, settled(t, l, wide), 3)
	for i := range 5 {
		row := m.CustomerRow(enginetest.Sandbox, []byte(customerName(i)))
		invoices := m.Invoices(enginetest.Sandbox, row)
		require.Len(t, invoices, 2)
		require.Len(t, invoices[1].Items, 101)
	}
}

// TestLiveComesBeforeSandbox: a sandbox whose clock was moved by years has much to do, and delays
// no live environment.
func TestLiveComesBeforeSandbox(t *testing.T) {
	m, l := populated(2000)
	const live = enginetest.Sandbox + 1
	l.Do(billing.KindApplyCatalog, enginetest.ApplyCatalog(live, enginetest.TokenPlan()))
	l.Do(billing.KindCreateCustomer, &billing.CreateCustomer{
		Env: live, ID: enginetest.ID("ada"), ExternalID: "ada", FirstName: "Ada",
		LastName: "Lovelace", Email: "ada@example.com",
	})
	l.Do(billing.KindCreateSubscription, &billing.CreateSubscription{
		Env: live, ID: enginetest.ID("live"), InvoiceID: enginetest.ID("live i"), Customer: "ada",
		Plan: "llm-team", GraceDays: 7,
	})
	l.Stamp += 28*dayMS - 1000
	settled(t, l, oneStep)
	to := l.Stamp + 4*365*dayMS
	r := l.Do(billing.KindAdvanceClock, &billing.AdvanceClock{Env: enginetest.Sandbox, To: to})
	require.Equal(t, engine.OutcomeDone, r.Outcome)
	require.False(t, m.ClockSettledTo(enginetest.Sandbox, to))
	l.Stamp += 2000
	bounded(t, l, oneStep, engine.Record{Kind: engine.KindTick})
	require.Len(t, m.Invoices(live, m.CustomerRow(live, []byte("ada"))), 2)
	require.True(t, m.ClockSettled(live))
	require.True(t, m.ClockSettledTo(live, l.Stamp))
	require.False(t, m.ClockSettledTo(live, l.Stamp+1), "it has not come to that")
	require.False(t, m.ClockSettled(enginetest.Sandbox))
}

// TestTheClockAnswersWhenAllHasHappened: pools that expire count as well as periods that end, a
// clock runs on while what is due by the wanted instant is worked off, and what falls due
// meanwhile is not waited for.
func TestTheClockAnswersWhenAllHasHappened(t *testing.T) {
	m := billing.New(billing.Config{})
	l := enginetest.NewLog(m, enginetest.Epoch)
	doc := enginetest.TokenPlan()
	doc.Plans[0].IntervalMonths = 120
	enginetest.NewAccount(l, doc)
	const n = 40
	for i := range n {
		enginetest.NewCustomer(l, customerName(i), "llm-team")
		id := enginetest.ID(fmt.Sprint("pool", i))
		l.Do(billing.KindCreatePool, &billing.CreatePool{
			Env: enginetest.Sandbox, ID: id, Customer: customerName(i), Name: "credits",
		})
		for k := range 50 {
			l.Do(billing.KindGrantCredits, &billing.GrantCredits{
				Env: enginetest.Sandbox, ID: enginetest.ID(fmt.Sprint("grant", i, " ", k)), Pool: id,
				Amount: decimal.FromInt(1), ExpiresAt: l.Stamp + 400*dayMS,
			})
		}
	}
	to := l.Stamp + 500*dayMS
	require.True(t, m.ClockSettled(enginetest.Sandbox))
	require.False(t, m.ClockSettledTo(enginetest.Sandbox, to), "a node that has not heard of it")
	l.Do(billing.KindAdvanceClock, &billing.AdvanceClock{Env: enginetest.Sandbox, To: to})
	ticks := 0
	for ; !m.ClockSettledTo(enginetest.Sandbox, to); ticks++ {
		require.Less(t, ticks, 100)
		bounded(t, l, oneStep, engine.Record{Kind: engine.KindTick})
		l.Stamp += 1000
	}
	require.Greater(t, ticks, 1)
	for i := range n {
		p, ok := m.Pool(enginetest.Sandbox, enginetest.ID(fmt.Sprint("pool", i)))
		require.True(t, ok)
		require.Equal(t, "50", p.TotalExpired.String())
	}
}
