package billing_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/journal"
)

// billed is a customer with a plan change that left credit, late usage, and usage ahead; another
// one, and a plan in another currency.
func billed(t *testing.T, fault func(*billing.Machine)) (*billing.Machine, *enginetest.Source) {
	m := billing.New(billing.Config{})
	l := enginetest.NewLog(m, enginetest.Epoch)
	doc := lifecyclePlans()
	euro := doc.Plans[0]
	euro.Key, euro.Currency = "euro", "EUR"
	doc.Plans = append(doc.Plans, euro)
	enginetest.NewAccount(l, doc)
	enginetest.NewCustomer(l, "ada", "llm-team")
	use := func(key string, at int64) {
		for _, feature := range []string{"input-tokens", "output-tokens"} {
			u := enginetest.Usage(l, key+feature, "ada", feature, 3000)
			u.OccurredAt = at
			r := l.DoPayload(billing.KindRecordUsage, u.Seal(nil))
			require.False(t, r.Outcome.Refused())
		}
	}
	use("a", l.Stamp)
	l.Stamp += 14 * dayMS
	// To a cheaper plan: the rest of the old price is the customer's credit.
	r := l.Do(billing.KindChangePlan, &billing.ChangePlan{
		Env: enginetest.Sandbox, ID: enginetest.ID("subscription ada llm-team"), Plan: "grow",
		Type: billing.ChangeUpgrade, ChangeID: enginetest.ID("change"),
	})
	require.Equal(t, engine.OutcomeDone, r.Outcome)
	use("b", l.Stamp)
	l.Stamp = enginetest.Epoch + 28*dayMS - 60_000
	use("c", l.Stamp+120_000) // ahead
	fault(m)
	for range 3 {
		l.Stamp += 31 * dayMS
		l.DoPayload(engine.KindTick, nil)
	}
	r = l.Do(billing.KindMarkInvoicePaid, &billing.MarkInvoicePaid{
		Env: enginetest.Sandbox, ID: enginetest.ID("invoice ada llm-team"),
	})
	require.Equal(t, engine.OutcomeDone, r.Outcome)
	l.Stamp += 120_000
	l.DoPayload(engine.KindTick, nil)
	enginetest.NewCustomer(l, "bob", "euro")
	return m, &enginetest.Source{Journal: m.Journal()}
}

func nothing(*billing.Machine) {}

// found are the problems that verifying ada finds.
func found(t *testing.T, m *billing.Machine, src journal.Source) string {
	v, err := m.VerifyInvoices(src, enginetest.Sandbox, []uint32{1})
	require.NoError(t, err)
	require.Equal(t, v.Different, uint64(len(v.Differences)))
	var problems []string
	for _, d := range v.Differences {
		require.Equal(t, "ada", d.Customer)
		problems = append(problems, d.Problem)
	}
	return strings.Join(problems, "\n")
}

// TestACounterThatIsChangedByHandIsFound: invoices are explained from the journal alone, so a
// number that invoices are made of, whichever it is, makes a later one differ.
func TestACounterThatIsChangedByHandIsFound(t *testing.T) {
	m, src := billed(t, nothing)
	require.Empty(t, found(t, m, src))
	require.Len(t, m.Invoices(enginetest.Sandbox, 1), 6)
	for _, fault := range billing.CountingFaults {
		m, src := billed(t, fault.Change)
		require.Contains(t, found(t, m, src), fault.Problem, fault.What)
	}
}

// TestAStoredInvoiceThatIsChangedByHandIsFound: each field of it and of its lines, and whether
// there is such an invoice at all, in both directions. Explain says the same.
func TestAStoredInvoiceThatIsChangedByHandIsFound(t *testing.T) {
	for _, fault := range billing.StoredFaults {
		t.Run(fault.What, func(t *testing.T) {
			m, src := billed(t, nothing)
			id := m.Invoices(enginetest.Sandbox, 1)[2].ID
			before, _, err := m.Explain(src, enginetest.Sandbox, id)
			require.NoError(t, err)
			require.True(t, before.Equal)
			fault.Change(m)
			require.Contains(t, found(t, m, src), fault.Problem)
			if strings.HasPrefix(fault.What, "line's") {
				x, _, err := m.Explain(src, enginetest.Sandbox, id)
				require.NoError(t, err)
				require.False(t, x.Equal)
				require.Contains(t, x.Problem, fault.Problem)
			}
		})
	}
}
