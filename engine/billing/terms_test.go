package billing_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
)

// TestTermsCountFromTheInstantTheyWereSet: what should have been issued before they changed is
// issued by the terms of then, however late the cluster comes to it.
func TestTermsCountFromTheInstantTheyWereSet(t *testing.T) {
	m := billing.New(billing.Config{})
	l := enginetest.NewLog(m, enginetest.Epoch)
	enginetest.NewAccount(l, enginetest.TokenPlan())
	enginetest.NewCustomer(l, "ada", "llm-team")
	set := func(days uint32) {
		r := l.Do(billing.KindSetPaymentTerms, &billing.SetPaymentTerms{
			Env: enginetest.Sandbox, Days: days,
		})
		require.Equal(t, engine.OutcomeDone, r.Outcome)
		stands, _ := m.PaymentTerms(enginetest.Sandbox)
		require.Equal(t, days, stands)
	}
	set(30)
	l.Stamp += 40 * dayMS // no tick: nobody led while a period ended
	set(14)
	set(0) // twice in a row: what fell due under the terms of 30 days has them all the same
	foreseen := m.Invoices(enginetest.Sandbox, 1)
	require.Len(t, foreseen, 2)
	l.Stamp += 30 * dayMS
	l.DoPayload(engine.KindTick, nil)
	var days []int64
	for i, v := range m.Invoices(enginetest.Sandbox, 1) {
		days = append(days, (v.DueDate-v.CreatedAt)/dayMS)
		if i < len(foreseen) {
			require.Equal(t, foreseen[i].DueDate, v.DueDate, "queries foresee the same")
		}
	}
	require.Equal(t, []int64{7, 30, 0}, days)

	restored := billing.New(billing.Config{})
	require.NoError(t, restored.Restore(bytes.NewReader(enginetest.Snapshot(t, m))))
	days0, _ := restored.PaymentTerms(enginetest.Sandbox)
	require.Zero(t, days0)
	days7, _ := restored.PaymentTerms(enginetest.Sandbox + 1)
	require.Equal(t, uint32(7), days7)
	require.Equal(t, enginetest.Snapshot(t, m), enginetest.Snapshot(t, restored))
}

// TestTheSellerIsKept: what is stated stands in snapshots, leaves one record, and has a bound.
func TestTheSellerIsKept(t *testing.T) {
	m := billing.New(billing.Config{})
	l := enginetest.NewLog(m, enginetest.Epoch)
	enginetest.NewAccount(l, enginetest.TokenPlan())
	seller := billing.Seller{Name: "Demo Ltd", Address: "1 Main St, Oslo", TaxID: "NO 1"}
	set := func(env uint32, s billing.Seller) engine.Outcome {
		return l.Do(billing.KindSetSeller, &billing.SetSeller{Env: env, Seller: s, Actor: "ada"}).Outcome
	}
	require.Equal(t, engine.OutcomeAccountUnknown, set(99, seller))
	require.Equal(t, engine.OutcomeTooLarge, set(enginetest.Sandbox, billing.Seller{
		Address: strings.Repeat("x", 2001),
	}))
	recorded := func() (names []string) {
		changes, _, err := m.Changes(&enginetest.Source{Journal: m.Journal()}, billing.ChangeQuery{
			Limit: 100, Scan: 100,
		})
		require.NoError(t, err)
		for _, c := range changes {
			names = append(names, c.Action)
		}
		return names
	}
	before := recorded()
	require.Equal(t, engine.OutcomeDone, set(enginetest.Sandbox, seller))
	require.Equal(t, engine.OutcomeDone, set(enginetest.Sandbox, seller), "again")
	require.Equal(t, append([]string{"seller.set"}, before...), recorded())

	restored := billing.New(billing.Config{})
	require.NoError(t, restored.Restore(bytes.NewReader(enginetest.Snapshot(t, m))))
	require.Equal(t, seller, restored.Seller(enginetest.Sandbox))
	require.Zero(t, restored.Seller(enginetest.Sandbox+1))
	require.Zero(t, restored.Seller(99))
	require.Equal(t, enginetest.Snapshot(t, m), enginetest.Snapshot(t, restored))
}

// TestInvoicesBefore: an environment's invoices, newest first, page by page and by status, without
// those of others, and no more rows looked at than were allowed.
func TestInvoicesBefore(t *testing.T) {
	m := billing.New(billing.Config{})
	l := enginetest.NewLog(m, enginetest.Epoch)
	enginetest.NewAccount(l, enginetest.TokenPlan())
	for _, name := range []string{"ada", "ben", "cy"} {
		enginetest.NewCustomer(l, name, "llm-team")
	}
	l.Stamp += 32 * dayMS
	l.DoPayload(engine.KindTick, nil)
	all, next := m.InvoicesBefore(enginetest.Sandbox, math.MaxUint32, 0, 100, 1000)
	require.Len(t, all, 6)
	require.Zero(t, next)
	for i, v := range all {
		require.Equal(t, uint64(6-i), v.Number, "without a gap")
		require.NotEmpty(t, v.Items)
	}
	late, _ := m.InvoicesBefore(enginetest.Sandbox, math.MaxUint32, billing.InvoicePastDue, 100, 1000)
	due, _ := m.InvoicesBefore(enginetest.Sandbox, math.MaxUint32, billing.InvoiceDue, 100, 1000)
	require.Equal(t, all[3:], late)
	require.Equal(t, all[:3], due)
	var paged []billing.InvoiceView
	for before, pages := uint32(math.MaxUint32), 0; before != 0; pages++ {
		require.Less(t, pages, 4)
		var list []billing.InvoiceView
		list, before = m.InvoicesBefore(enginetest.Sandbox, before, 0, 2, 1000)
		paged = append(paged, list...)
	}
	require.Equal(t, all, paged)
	list, next := m.InvoicesBefore(enginetest.Sandbox, math.MaxUint32, billing.InvoicePaid, 2, 4)
	require.Empty(t, list)
	require.Equal(t, uint32(3), next, "four rows were looked at")
	list, next = m.InvoicesBefore(enginetest.Sandbox+1, math.MaxUint32, 0, 2, 1000)
	require.Empty(t, list)
	require.Zero(t, next)

	q := billing.DueQuery{
		Env: enginetest.Sandbox, Status: billing.InvoicePastDue, Limit: 2, Max: 3, Scan: 6,
	}
	oldest, more, whole := m.InvoicesByDue(&q)
	require.True(t, more && whole)
	require.Equal(t, []billing.InvoiceView{late[2], late[1]}, oldest)
	q.After = billing.DuePlace{DueAt: late[1].DueDate, Number: late[1].Number}
	oldest, more, whole = m.InvoicesByDue(&q)
	require.True(t, !more && whole)
	require.Equal(t, late[:1], oldest)
	for _, few := range []billing.DueQuery{{Max: 2, Scan: 6}, {Max: 3, Scan: 5}} {
		few.Env, few.Status, few.Limit = q.Env, q.Status, q.Limit
		oldest, more, whole = m.InvoicesByDue(&few)
		require.False(t, more || whole)
		require.Empty(t, oldest)
	}
}
