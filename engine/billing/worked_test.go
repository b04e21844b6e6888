package billing_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

// workedMachine plays worked cases with commands.
type workedMachine struct {
	t      *testing.T
	m      *billing.Machine
	l      *enginetest.Log
	events int
}

var workedSubscription = enginetest.ID("subscription ada plan")

func (b *workedMachine) do(kind engine.Kind, payload []byte) {
	b.t.Helper()
	require.Equal(b.t, engine.OutcomeDone, b.l.DoPayload(kind, payload).Outcome)
}

func (b *workedMachine) Begin(doc billing.CatalogDocument, at time.Time) {
	b.m = billing.New(billing.Config{})
	b.l = enginetest.NewLog(b.m, at.UnixMilli())
	enginetest.NewAccount(b.l, doc)
	enginetest.NewCustomer(b.l, "ada", "plan")
	b.l.Do(billing.KindSetLimits, &billing.SetLimits{
		KeyRetentionMS: 100 * dayMS, WindowMS: 100 * dayMS,
	})
}

func (b *workedMachine) Advance(to time.Time) {
	b.l.Stamp = to.UnixMilli()
	for at := b.m.NextDue(); at != 0 && at <= b.l.Stamp; at = b.m.NextDue() {
		b.do(engine.KindTick, nil)
	}
	b.do(engine.KindTick, nil)
}

func (b *workedMachine) Use(units string, at time.Time) {
	b.events++
	u := enginetest.Usage(b.l, fmt.Sprint("event ", b.events), "ada", "usage", 0)
	u.Units, u.OccurredAt = decimal.MustParse(units), at.UnixMilli()
	b.do(billing.KindRecordUsage, u.Seal(nil))
}

func (b *workedMachine) Upgrade(plan string) {
	r := b.l.Do(billing.KindChangePlan, &billing.ChangePlan{
		Env: enginetest.Sandbox, ID: workedSubscription, ChangeID: enginetest.ID("change"),
		Plan: plan, Type: billing.ChangeUpgrade,
	})
	require.Equal(b.t, engine.OutcomeDone, r.Outcome)
}

func (b *workedMachine) Invoices() (all []enginetest.WorkedInvoice) {
	types := map[billing.InvoiceType]string{
		billing.InvoiceInitial: "IN_ADVANCE_INITIAL", billing.InvoiceRegular: "REGULAR",
		billing.InvoiceAdjustment: "ADJUSTMENT",
	}
	for _, v := range b.m.Invoices(enginetest.Sandbox, 1) {
		w := enginetest.WorkedInvoice{Type: types[v.Type], Amount: v.Amount}
		for i := range v.Items {
			item := &v.Items[i]
			w.Lines = append(w.Lines, enginetest.WorkedLine{
				Feature: item.FeatureKey, Amount: item.Amount,
				Start: time.UnixMilli(item.PeriodStart).UTC(), End: time.UnixMilli(item.PeriodEnd).UTC(),
			})
		}
		all = append(all, w)
	}
	return all
}

func (b *workedMachine) Period() (start, end time.Time) {
	v, ok := b.m.Subscription(enginetest.Sandbox, workedSubscription)
	require.True(b.t, ok)
	return time.UnixMilli(v.PeriodStart).UTC(), time.UnixMilli(v.PeriodEnd).UTC()
}

func (b *workedMachine) Grant(name, amount string, priority int64, expires time.Time) {
	b.l.Do(billing.KindCreatePool, &billing.CreatePool{
		Env: enginetest.Sandbox, ID: enginetest.ID("pool"), Customer: "ada", Name: "pool",
	})
	c := &billing.GrantCredits{
		Env: enginetest.Sandbox, ID: enginetest.ID(name), Pool: enginetest.ID("pool"),
		Amount: decimal.MustParse(amount), Priority: priority,
	}
	if !expires.IsZero() {
		c.ExpiresAt = expires.UnixMilli()
	}
	require.Equal(b.t, engine.OutcomeDone, b.l.Do(billing.KindGrantCredits, c).Outcome)
}

func (b *workedMachine) Remaining(name string) decimal.Decimal {
	grants, ok := b.m.Grants(enginetest.Sandbox, enginetest.ID("pool"))
	require.True(b.t, ok)
	for i := range grants {
		if grants[i].ID == enginetest.ID(name) {
			return grants[i].Remaining
		}
	}
	return decimal.Decimal{} // nothing is left of it
}

func (b *workedMachine) Pool() (balance, expired decimal.Decimal) {
	p := onlyPool(b.t, b.m)
	return p.Balance, p.TotalExpired
}

// TestWorkedCases plays every case that a command can state through the machine: from an event to
// the line of the invoice.
func TestWorkedCases(t *testing.T) {
	played := enginetest.PlayWorkedCases(t, "../testdata/billing-cases.json",
		func(*enginetest.Worked) bool { return true },
		func(t *testing.T) enginetest.Biller { return &workedMachine{t: t} })
	require.Equal(t, 63, played, "of 66 cases, three divide an amount")
}
