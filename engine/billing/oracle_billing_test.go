package billing_test

import (
	"bytes"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

// TestBillingAgreesWithTheOracle: random catalogs, a third of them with limits, and to two
// customers random events, voids, amendments, reservations that are settled in parts, extended,
// released and expire, upgrades, downgrades, cancellations, payments, clock steps and crashes. At
// every step each invoice is, line by line, what the oracle says; pages are cut from one list, and
// what limits read is the sum of the events; they refuse what passes them with what is held, in
// whichever period it was reserved, and nothing else. Previews say beforehand what commands come to
// and issue. In the end all that was used is invoiced, and nothing else but what was taken back of
// VOID invoices; numbers have no gaps, the journal explains every invoice, and replaying the log
// gives the same invoices byte for byte.
func TestBillingAgreesWithTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newProjections(t)
		h.compare()
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			h.step()
			h.compare()
		}
		h.finish()
	})
}

// step lets one thing happen.
func (h *projections) step() {
	h.advance()
	p := h.people[rapid.IntRange(0, len(h.people)-1).Draw(h.t, "person")]
	switch rapid.IntRange(0, 24).Draw(h.t, "step") {
	case 0, 1, 2, 3, 4, 5:
		h.use(p)
	case 6, 7, 8:
		h.correct(p)
	case 9, 10, 11:
		h.change(p)
	case 12:
		h.end(p)
	case 13:
		h.settle(p)
	case 14:
		i := rapid.IntRange(0, len(h.doc.Plans)-1).Draw(h.t, "revised")
		if was := h.doc.Plans[i]; rapid.IntRange(0, 2).Draw(h.t, "archive") == 0 {
			h.doc.Plans[i].Status = map[string]string{"ARCHIVED": "ACTIVE"}[was.Status]
			if was.Status != "ARCHIVED" {
				h.doc.Plans[i].Status = "ARCHIVED"
			}
		} else {
			h.doc.Plans[i] = h.drawPlan(was.Key)
			h.doc.Plans[i].Currency = was.Currency
		}
		h.apply()
	case 15:
		if len(p.ids) < 3 {
			h.subscribe(p)
		}
	case 16:
		h.crash()
	case 17:
		h.wait()
	case 18, 19, 20, 21:
		h.hold(p)
	default:
		h.later()
	}
}

// wait changes how long invoices wait for late usage of their period.
func (h *projections) wait() {
	minutes := rapid.SampledFrom([]uint32{0, 90, 3 * 24 * 60, billing.MaxSettleMinutes}).
		Draw(h.t, "minutes")
	h.expect(engine.OutcomeDone, h.l.Do(billing.KindSetPaymentTerms, &billing.SetPaymentTerms{
		Env: enginetest.Sandbox, KeepDays: true, SetSettle: true, SettleMinutes: minutes,
	}))
	for _, p := range h.people {
		p.oracle.Settle = int64(minutes) * 60_000
	}
}

// later moves the time on: the log's, or the sandbox's clock. Ticks may not have come yet.
func (h *projections) later() {
	d := rapid.SampledFrom([]int64{60_000, dayMS, 5 * dayMS, 26 * dayMS, 100 * dayMS}).
		Draw(h.t, "later")
	if rapid.IntRange(0, 2).Draw(h.t, "clock") == 0 {
		h.expect(engine.OutcomeDone, h.l.Do(billing.KindAdvanceClock, &billing.AdvanceClock{
			Env: enginetest.Sandbox, To: h.now() + d,
		}))
	} else {
		h.l.Stamp += d
		h.l.Do(billing.KindSetLimits, &billing.SetLimits{})
	}
	if rapid.Bool().Draw(h.t, "ticks") {
		h.tick()
	}
}

func (h *projections) tick() {
	for at := h.m.NextDue(); at != 0 && at <= h.l.Stamp; at = h.m.NextDue() {
		h.l.DoPayload(engine.KindTick, nil)
	}
}

// crash goes on with a machine that was restored from an earlier snapshot, and replayed the rest.
func (h *projections) crash() {
	m := restored(h.t, h.snapshot)
	enginetest.Outcomes(h.t, m, uint64(h.cut)+1, h.l.Entries[h.cut:])
	require.Equal(h.t, enginetest.StateHash(h.m), enginetest.StateHash(m))
	h.m, h.l.Machine, h.src.Journal = m, m, m.Journal()
	h.snapshot, h.cut = enginetest.Snapshot(h.t, m), len(h.l.Entries)
}

func (h *projections) row(p *person) uint32 {
	c, ok := h.m.Customer(enginetest.Sandbox, p.name)
	require.True(h.t, ok)
	return c.Row
}

func (h *projections) compare() {
	h.advance()
	h.compareHolds()
	for _, p := range h.people {
		all := h.m.Invoices(enginetest.Sandbox, h.row(p))
		var got, want []string
		for i := range all {
			got = append(got, billedText(&all[i], h.places))
		}
		for _, v := range p.oracle.Invoices {
			want = append(want, oracleText(v, h.places, h.now()))
		}
		require.Equal(h.t, strings.Join(want, "\n"), strings.Join(got, "\n"), "%s at %s", p.name,
			instantText(h.now()))
		h.compareCounters(p)
		h.comparePages(p, all)
	}
}

// comparePages: pages, whatever they select, are the whole list cut into pieces; what is PENDING
// comes last.
func (h *projections) comparePages(p *person, all []billing.InvoiceView) {
	q := billing.InvoiceQuery{Env: enginetest.Sandbox, CustomerRow: h.row(p), Pending: true}
	whole := append(slices.Clone(all), h.m.PendingInvoices(enginetest.Sandbox, q.CustomerRow)...)
	selects := []func(v *billing.InvoiceView) bool{
		func(*billing.InvoiceView) bool { return true },
		func(v *billing.InvoiceView) bool { return v.Status == billing.InvoiceDue },
		func(v *billing.InvoiceView) bool {
			return v.Status != billing.InvoicePending && v.CreatedAt < h.now() &&
				v.CreatedAt >= enginetest.Epoch+dayMS
		},
	}
	queries := []billing.InvoiceQuery{q, q, q}
	queries[1].Status = billing.InvoiceDue
	queries[2].From, queries[2].To, queries[2].HasTo = enginetest.Epoch+dayMS, h.now(), true
	for i, q := range queries {
		var want, got []billing.InvoiceView
		for j := range whole {
			if selects[i](&whole[j]) {
				want = append(want, whole[j])
			}
		}
		q.Limit = 2
		for more := true; more; {
			page, ok := h.m.ListInvoices(&q)
			require.True(h.t, ok)
			require.LessOrEqual(h.t, len(page.List), q.Limit)
			if got, more = append(got, page.List...), page.More; more {
				q.After = page.List[len(page.List)-1].ID
			}
		}
		require.Equal(h.t, want, got, "query %d", i)
	}
}

// compareCounters: what limits read is the sum of the events that count there.
func (h *projections) compareCounters(p *person) {
	for i, s := range p.oracle.Subscriptions {
		if s.EndedAt != 0 {
			continue
		}
		for _, feature := range projectionFeatures {
			want, known := s.Used(feature)
			got, carried := billing.UsedOf(h.m, p.ids[i], feature)
			require.Equal(h.t, s.Carries(feature), carried)
			if carried && known {
				require.Zero(h.t, want.Cmp(rat(got)), "%s of %s: %s, counter %s", feature, p.name,
					want.FloatString(12), got)
			}
		}
	}
}

// finish ends all subscriptions, so that all usage is invoiced, and replays the log.
func (h *projections) finish() {
	for _, v := range h.holds {
		h.l.Do(billing.KindReleaseReservation, &billing.ReleaseReservation{
			Env: enginetest.Sandbox, ID: enginetest.ID("reservation " + v.key),
		})
		if v.state == billing.ReservationOpen {
			v.state = billing.ReservationReleased
		}
	}
	for _, p := range h.people {
		for i, s := range p.oracle.Subscriptions {
			h.l.Do(billing.KindCancelSubscription, &billing.CancelSubscription{
				Env: enginetest.Sandbox, ID: p.ids[i], Mode: billing.CancelImmediate,
			})
			if s.EndedAt == 0 {
				s.Cancel(h.now())
			}
		}
	}
	h.l.Stamp += 9 * dayMS // an invoice may wait for 7
	h.tick()
	h.compare()
	numbers := map[uint64]bool{}
	twin := billing.New(billing.Config{})
	enginetest.Outcomes(h.t, twin, 1, h.l.Entries)
	for _, p := range h.people {
		verified(h.t, h.m, h.src, h.row(p))
		all := h.m.Invoices(enginetest.Sandbox, h.row(p))
		require.Len(h.t, all, len(p.oracle.Invoices))
		billed := map[string]*big.Rat{}
		for i := range all {
			v := &all[i]
			numbers[v.Number] = true
			h.addUp(v, billed)
		}
		used := map[string]*big.Rat{}
		for _, e := range p.events {
			if e.Priced() {
				add(used, e.Feature, e.Units)
			}
		}
		for _, s := range p.oracle.Subscriptions {
			for feature, units := range s.Unlisted {
				add(used, feature, units)
			}
		}
		for _, feature := range projectionFeatures {
			add(billed, feature, new(big.Rat))
			add(used, feature, new(big.Rat))
			require.Zero(h.t, used[feature].Cmp(billed[feature]), "%s used %s of %s, %s are invoiced",
				p.name, used[feature].FloatString(12), feature, billed[feature].FloatString(12))
		}
		require.Equal(h.t, h.m.Invoices(enginetest.Sandbox, h.row(p)),
			twin.Invoices(enginetest.Sandbox, h.row(p)))
	}
	for n := range numbers {
		require.LessOrEqual(h.t, n, uint64(len(numbers)), "numbers have no gaps")
	}
	require.True(h.t, bytes.Equal(enginetest.Snapshot(h.t, h.m), enginetest.Snapshot(h.t, twin)))
}

// addUp: an invoice's lines are its amount, which is never below zero.
func (h *projections) addUp(v *billing.InvoiceView, billed map[string]*big.Rat) {
	total := decimal.Decimal{}
	for i := range v.Items {
		item := &v.Items[i]
		var ok bool
		total, ok = total.Add(item.Amount)
		require.True(h.t, ok)
		if item.FeatureKey != "" {
			add(billed, item.FeatureKey, rat(item.Quantity))
		}
	}
	require.Equal(h.t, total, v.Amount)
	require.False(h.t, total.Sign() < 0)
}

func add(sums map[string]*big.Rat, key string, units *big.Rat) {
	if sums[key] == nil {
		sums[key] = new(big.Rat)
	}
	sums[key].Add(sums[key], units)
}

func instantText(at int64) string {
	return time.UnixMilli(at).UTC().Format("2006-01-02T15:04:05.000")
}

func billedText(v *billing.InvoiceView, places int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "type %d of %s, %s to %s, status %d: %s\n", v.Type, instantText(v.CreatedAt),
		instantText(v.PeriodStart), instantText(v.PeriodEnd), v.Status,
		rat(v.Amount).FloatString(places))
	for i := range v.Items {
		item := &v.Items[i]
		fmt.Fprintf(&b, "  kind %d %s %s to %s: %s = %s\n", item.Kind, item.FeatureKey,
			instantText(item.PeriodStart), instantText(item.PeriodEnd),
			rat(item.Quantity).FloatString(12), rat(item.Amount).FloatString(places))
	}
	return b.String()
}

func oracleText(v *enginetest.OracleInvoice, places int, now int64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "type %d of %s, %s to %s, status %d: %s\n", v.Type, instantText(v.At),
		instantText(v.Start), instantText(v.End), v.Status(now), v.Amount.FloatString(places))
	for _, line := range v.Lines {
		fmt.Fprintf(&b, "  kind %d %s %s to %s: %s = %s\n", line.Kind, line.Feature,
			instantText(line.Start), instantText(line.End), line.Quantity.FloatString(12),
			line.Amount.FloatString(places))
	}
	return b.String()
}
