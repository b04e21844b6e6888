package billing_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// interims is a sandbox of ada's, whose plans have invoiceAbove.
type interims struct {
	*enginetest.Log
	t      *testing.T
	m      *billing.Machine
	id     [16]byte // of the subscription
	events int
}

// interimPlan makes a monthly plan in arrears with features at 1 USD a unit.
func interimPlan(key string, price int64, features ...string) billing.PlanDocument {
	p := billing.PlanDocument{
		Key: key, Currency: "USD", IntervalMonths: 1, BillingTiming: "IN_ARREARS",
		PriceAmount: decimal.FromInt(price), InvoiceAbove: decimal.FromInt(10),
	}
	for _, f := range features {
		p.Features = append(p.Features, billing.PlanFeatureDocument{
			Key: f, PricingType: "usage_based",
			Pricing: billing.PricingDocument{PricePerUnit: decimal.FromInt(1)},
		})
	}
	return p
}

func newInterims(t *testing.T, plans ...billing.PlanDocument) *interims {
	m := billing.New(billing.Config{})
	s := &interims{Log: enginetest.NewLog(m, enginetest.Epoch), t: t, m: m}
	enginetest.NewAccount(s.Log, billing.CatalogDocument{
		Features: []billing.FeatureDocument{{Key: "tokens"}, {Key: "seats"}}, Plans: plans,
	})
	enginetest.NewCustomer(s.Log, "ada", plans[0].Key)
	s.id = enginetest.ID("subscription ada " + plans[0].Key)
	return s
}

func (s *interims) do(kind engine.Kind, c wire.Fielder) {
	s.t.Helper()
	require.Equal(s.t, engine.OutcomeDone.String(), s.Do(kind, c).Outcome.String())
}

// use records an event, which occurs some milliseconds from now.
func (s *interims) use(feature string, units, ahead int64) {
	s.t.Helper()
	s.events++
	u := enginetest.Usage(s.Log, fmt.Sprint("e", s.events), "ada", feature, units)
	u.OccurredAt += ahead
	r := s.DoPayload(billing.KindRecordUsage, u.Seal(nil))
	require.Equal(s.t, engine.OutcomeDone.String(), r.Outcome.String())
}

func (s *interims) upgrade(plan string) {
	s.t.Helper()
	s.do(billing.KindChangePlan, &billing.ChangePlan{
		Env: enginetest.Sandbox, ID: s.id, ChangeID: enginetest.ID(fmt.Sprint("change ", s.Index)),
		Plan: plan, Type: billing.ChangeUpgrade,
	})
}

// at lets everything happen that is due by an instant after the epoch.
func (s *interims) at(after int64) {
	s.Stamp = enginetest.Epoch + after
	for at := s.m.NextDue(); at != 0 && at <= s.Stamp; at = s.m.NextDue() {
		s.DoPayload(engine.KindTick, nil)
	}
}

// invoices are ada's, which the journal explains.
func (s *interims) invoices() []billing.InvoiceView {
	s.t.Helper()
	row := s.m.CustomerRow(enginetest.Sandbox, []byte("ada"))
	verified(s.t, s.m, &enginetest.Source{Journal: s.m.Journal()}, row)
	return s.m.Invoices(enginetest.Sandbox, row)
}

// bases are the base prices of the first period, on its invoice.
func (s *interims) bases() (amounts []string) {
	s.t.Helper()
	all := s.invoices()
	first := slices.IndexFunc(all, func(v billing.InvoiceView) bool {
		return v.Type == billing.InvoiceRegular
	})
	require.Equal(s.t, int64(enginetest.Epoch), all[first].PeriodStart)
	for i := range all[first].Items {
		if item := &all[first].Items[i]; item.Kind == billing.LineBase {
			amounts = append(amounts, item.Amount.String())
		}
	}
	return amounts
}

// TestAnInterimInvoiceKeepsThePeriodsSpans: it bills the part before an upgrade, to which nothing
// can belong any more by the next one. The period's end bills the base price of the version with
// which the period began, whether its invoice waits or not.
func TestAnInterimInvoiceKeepsThePeriodsSpans(t *testing.T) {
	for _, days := range []uint32{0, 7} {
		t.Run(fmt.Sprint("an invoice waits for ", days, " days"), func(t *testing.T) {
			for _, second := range []int64{12, 27, 28} {
				s := newInterims(t, interimPlan("small", 30, "tokens"), interimPlan("middle", 40, "tokens"),
					interimPlan("large", 60, "tokens"))
				s.do(billing.KindSetPaymentTerms, &billing.SetPaymentTerms{
					Env: enginetest.Sandbox, Days: 30, SetSettle: true, SettleMinutes: days * 24 * 60,
				})
				s.at(dayMS)
				s.upgrade("middle")
				s.at(2 * dayMS)
				s.upgrade("large")
				s.at(3 * dayMS)
				s.use("tokens", 11, 0)
				s.at(second * dayMS)
				s.use("tokens", 11, 0)
				s.at(40 * dayMS)
				require.Equal(t, []string{"30"}, s.bases(), "the second one after %d days", second)
			}
		})
	}
}

// TestALimitCountsThePeriodBehindAnInterimInvoice: a feature that a plan change takes away and the
// next one gives back has its usage of the period.
func TestALimitCountsThePeriodBehindAnInterimInvoice(t *testing.T) {
	s := newInterims(t, interimPlan("small", 30, "tokens", "seats"), interimPlan("less", 40, "tokens"),
		interimPlan("other", 50, "tokens"), interimPlan("large", 60, "tokens", "seats"))
	s.use("seats", 5, 0)
	s.at(dayMS)
	s.upgrade("less")
	s.at(2 * dayMS)
	s.upgrade("other")
	for _, day := range []int64{3, 12} {
		s.at(day * dayMS)
		s.use("tokens", 11, 0)
	}
	s.upgrade("large")
	used, carried := billing.UsedOf(s.m, s.id, "seats")
	require.True(t, carried)
	require.Equal(t, "5", used.String())
}

// TestAnInterimInvoiceIsOfWhereItsSubscriptionIs: a reservation is billed when it expires, and the
// interim invoice to which that leads is issued then, although the tick has no work left to end the
// period behind it.
func TestAnInterimInvoiceIsOfWhereItsSubscriptionIs(t *testing.T) {
	s := newInterims(t, interimPlan("small", 0, "tokens"))
	s.at(20 * dayMS)
	for i := range 100 { // their first invoices fall due between the two
		enginetest.NewCustomer(s.Log, customerName(i), "small")
	}
	s.at(26 * dayMS)
	c := enginetest.Reservation("r", "ada", "tokens", 15)
	c.SettleOnExpiry = true
	s.do(billing.KindReserve, c)
	s.Stamp = enginetest.Epoch + 29*dayMS
	s.DoPayload(engine.KindTick, nil)
	require.LessOrEqual(t, s.m.NextDue(), s.Stamp, "more is due")
	s.at(29 * dayMS)
	all := s.invoices()
	require.Len(t, all, 3)
	require.Equal(t, billing.InvoiceInterim, all[1].Type)
	require.Equal(t, enginetest.Epoch+26*dayMS+c.TTLMS, all[1].CreatedAt)
	require.Equal(t, "15", all[1].Amount.String())
	require.Equal(t, billing.InvoiceRegular, all[2].Type)
	require.Equal(t, int64(enginetest.Epoch+28*dayMS), all[2].CreatedAt)
	require.Equal(t, "0", all[2].Amount.String())

	s.use("tokens", 11, 0)
	all = s.invoices()
	require.Equal(t, billing.InvoiceInterim, all[3].Type)
	require.Equal(t, "11", all[3].Amount.String())
}

// TestLateUsageCountsTowardsAnInterimInvoice: what a period that is over has left, once its invoice
// is issued, and while that waits.
func TestLateUsageCountsTowardsAnInterimInvoice(t *testing.T) {
	for _, waits := range []uint32{0, 2 * 24 * 60} {
		s := newInterims(t, interimPlan("small", 0, "tokens"))
		s.do(billing.KindSetPaymentTerms, &billing.SetPaymentTerms{
			Env: enginetest.Sandbox, Days: 30, SetSettle: true, SettleMinutes: waits,
		})
		s.use("tokens", 4, 0)
		s.at(29 * dayMS)
		before := len(s.invoices())
		s.use("tokens", 3, -2*dayMS)
		s.use("tokens", 3, 0)
		require.Len(t, s.invoices(), before, "waits %d", waits)
		s.use("tokens", 5, -2*dayMS)
		all := s.invoices()[before:]
		if waits == 0 {
			require.Len(t, all, 1)
			require.Equal(t, billing.InvoiceInterim, all[0].Type)
			require.Equal(t, "11", all[0].Amount.String(), "8 of them are late")
			continue
		}
		require.Len(t, all, 2)
		require.Equal(t, billing.InvoiceRegular, all[0].Type)
		require.Equal(t, "12", all[0].Amount.String())
		require.Equal(t, billing.InvoiceInterim, all[1].Type)
		require.Equal(t, "3", all[1].Amount.String())
	}
}

// TestUsageAheadIsInvoicedWhenItsPeriodBegins: at once, where it passes the amount, whether the
// invoice of the period before waits or not, which is issued first. What passes the amount is paid
// for by then, so the next event leads to none.
func TestUsageAheadIsInvoicedWhenItsPeriodBegins(t *testing.T) {
	for _, waits := range []uint32{0, 2 * 24 * 60} {
		s := newInterims(t, interimPlan("small", 0, "tokens"))
		s.do(billing.KindSetPaymentTerms, &billing.SetPaymentTerms{
			Env: enginetest.Sandbox, Days: 30, SetSettle: true, SettleMinutes: waits,
		})
		s.at(28*dayMS - 60_000)
		s.use("tokens", 4, 0)
		s.use("tokens", 11, 120_000)
		before := len(s.invoices())
		s.at(28 * dayMS)
		all := s.invoices()[before:]
		require.Len(t, all, 2, "waits %d", waits)
		require.Equal(t, billing.InvoiceRegular, all[0].Type)
		require.Equal(t, "4", all[0].Amount.String())
		require.Equal(t, billing.InvoiceInterim, all[1].Type)
		require.Equal(t, "11", all[1].Amount.String())
		require.Equal(t, int64(enginetest.Epoch+28*dayMS), all[1].CreatedAt)
		s.use("tokens", 1, 0)
		require.Len(t, s.invoices(), before+2)
	}
}

// TestAPlanChangeWithALowerAmountIsInvoiced: what no invoice has passes the new plan's
// invoiceAbove when the plan changes. The preview of an upgrade has that invoice, too.
func TestAPlanChangeWithALowerAmountIsInvoiced(t *testing.T) {
	none, high := interimPlan("none", 0, "tokens"), interimPlan("high", 0, "tokens")
	none.InvoiceAbove, high.InvoiceAbove = decimal.Decimal{}, decimal.FromInt(100)
	for _, from := range []billing.PlanDocument{none, high} {
		for _, days := range []int64{1, 7} {
			s := newInterims(t, from, interimPlan("low", 0, "seats", "tokens"))
			s.do(billing.KindSetPaymentTerms, &billing.SetPaymentTerms{
				Env: enginetest.Sandbox, Days: 30, SetSettle: true, SettleMinutes: 7 * 24 * 60,
			})
			s.use("tokens", 20, 0)
			s.at(days * dayMS)
			foreseen, outcome := s.m.PreviewPlanChange(
				enginetest.Sandbox, s.id, "low", billing.ChangeUpgrade, s.Stamp)
			require.Equal(t, engine.OutcomeDone, outcome)
			before := len(s.invoices())
			s.upgrade("low")
			all := s.invoices()[before:]
			require.Len(t, all, 2)
			require.Len(t, foreseen, 2)
			require.Equal(t, billing.InvoiceInterim, all[1].Type)
			require.Equal(t, "20", all[1].Amount.String())
			require.Equal(t, all[1].Amount, foreseen[1].Amount)
		}
		// At the period's end, while its invoice waits for late usage: that is issued at once.
		s := newInterims(t, from, interimPlan("low", 0, "tokens"))
		s.do(billing.KindSetPaymentTerms, &billing.SetPaymentTerms{
			Env: enginetest.Sandbox, Days: 30, SetSettle: true, SettleMinutes: 7 * 24 * 60,
		})
		s.use("tokens", 20, 0)
		s.do(billing.KindChangePlan, &billing.ChangePlan{
			Env: enginetest.Sandbox, ID: s.id, ChangeID: enginetest.ID("change"), Plan: "low",
			Type: billing.ChangeDowngrade,
		})
		s.at(28 * dayMS)
		all := s.invoices()
		require.Equal(t, billing.InvoiceRegular, all[len(all)-1].Type)
		require.Equal(t, "20", all[len(all)-1].Amount.String())
	}
}

// TestInterimInvoicesEndAtAHundredUnpaid: so an event's work has a bound. The period's end bills
// the rest, or the next event once one is paid.
func TestInterimInvoicesEndAtAHundredUnpaid(t *testing.T) {
	p := interimPlan("small", 0, "tokens")
	p.InvoiceAbove = decimal.FromInt(1)
	s := newInterims(t, p)
	for range 99 { // and its first invoice
		s.use("tokens", 2, 0)
	}
	require.Len(t, s.invoices(), 100)
	s.use("tokens", 2, 0)
	work := s.m.Work()
	for range 200 {
		s.use("tokens", 2, 0)
	}
	require.Equal(t, work, s.m.Work())
	all := s.invoices()
	require.Len(t, all, 100)

	s.do(billing.KindMarkInvoicePaid, &billing.MarkInvoicePaid{
		Env: enginetest.Sandbox, ID: all[50].ID,
	})
	s.use("tokens", 2, 0)
	all = s.invoices()
	require.Len(t, all, 101)
	require.Equal(t, billing.InvoiceInterim, all[100].Type)
	require.Equal(t, "404", all[100].Amount.String())

	s.use("tokens", 3, 0)
	s.at(28 * dayMS)
	all = s.invoices()
	require.Len(t, all, 102)
	require.Equal(t, billing.InvoiceRegular, all[101].Type)
	require.Equal(t, "3", all[101].Amount.String())
}

// TestInvoiceAboveIsAtLeastOneUnit: of the plan's currency.
func TestInvoiceAboveIsAtLeastOneUnit(t *testing.T) {
	for amount, problem := range map[string]string{
		"0": "", "1": "", "1.5": "", "0.99": "must be 0 or at least 1 USD", "-1": "must not be negative",
	} {
		p := interimPlan("small", 0, "tokens")
		p.InvoiceAbove = decimal.MustParse(amount)
		r := enginetest.NewLog(billing.New(billing.Config{}), enginetest.Epoch)
		r.Do(billing.KindCreateAccount, &billing.CreateAccount{ID: enginetest.ID("demo"), Name: "demo"})
		result := r.Do(billing.KindApplyCatalog, enginetest.ApplyCatalog(enginetest.Sandbox,
			billing.CatalogDocument{
				Features: []billing.FeatureDocument{{Key: "tokens"}}, Plans: []billing.PlanDocument{p},
			}))
		require.Equal(t, problem != "", result.Outcome == engine.OutcomeCatalogInvalid, amount)
		var reply billing.CatalogReply
		require.NoError(t, wire.Decode(result.Value, &reply))
		var want []billing.CatalogProblem
		if problem != "" {
			want = []billing.CatalogProblem{{Place: "plans[0].invoiceAbove", Text: problem}}
		}
		require.Equal(t, want, reply.Problems, amount)
	}
}

// TestWhatCreditsPayAheadIsNotBilledNow: of a feature that accumulates, they have paid units of the
// next period, which the present one does not bill.
func TestWhatCreditsPayAheadIsNotBilledNow(t *testing.T) {
	p := interimPlan("small", 0, "seats")
	p.Features[0].Pricing.ResetMode, p.Features[0].Pricing.Credits.Pool = "accumulate", "prepaid"
	s := newInterims(t, p)
	pool := enginetest.ID("pool")
	s.do(billing.KindCreatePool, &billing.CreatePool{
		Env: enginetest.Sandbox, ID: pool, Customer: "ada", Name: "prepaid", HardLimit: true,
	})
	s.do(billing.KindGrantCredits, &billing.GrantCredits{
		Env: enginetest.Sandbox, ID: enginetest.ID("grant"), Pool: pool, Amount: decimal.FromInt(50),
	})
	s.at(28*dayMS - 60_000)
	s.use("seats", 60, 120_000)
	s.use("seats", 10, 0)
	require.Len(t, s.invoices(), 1)
	s.use("seats", 1, 0)
	all := s.invoices()
	require.Len(t, all, 2)
	require.Equal(t, "11", all[1].Amount.String())
}
