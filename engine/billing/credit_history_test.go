package billing_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

// history is a subscription with credits, to which things happen at random.
type history struct {
	t      *rapid.T
	m      *billing.Machine
	l      *enginetest.Log
	src    *enginetest.Source
	events int
}

func newHistory(t *rapid.T) *history {
	m := billing.New(billing.Config{})
	h := &history{t: t, m: m, src: &enginetest.Source{Journal: m.Journal()}}
	h.l = enginetest.NewLog(m, enginetest.Epoch)
	enginetest.NewAccount(h.l, enginetest.PrepaidPlan())
	enginetest.NewCustomer(h.l, "ada", "prepaid")
	h.src.Keep(&h.l.Applied)
	return h
}

// step lets one thing happen, refused or not.
func (h *history) step() {
	units := decimal.FromInt(rapid.Int64Range(0, 60).Draw(h.t, "units"))
	subscription := enginetest.ID("subscription ada prepaid")
	switch rapid.IntRange(0, 9).Draw(h.t, "step") {
	case 0, 1, 2, 3:
		c := enginetest.Usage(h.l, fmt.Sprint("event ", h.events), "ada",
			rapid.SampledFrom([]string{"images", "videos"}).Draw(h.t, "feature"), 0)
		c.Units = units
		c.OccurredAt -= rapid.SampledFrom([]int64{0, 0, 3 * 86_400_000}).Draw(h.t, "late")
		h.events++
		h.l.DoPayload(billing.KindRecordUsage, c.Seal(nil))
	case 4, 5, 6:
		h.correct(units)
	case 7:
		h.l.Stamp += rapid.SampledFrom([]int64{1, 9, 31}).Draw(h.t, "days") * 86_400_000
		h.l.DoPayload(engine.KindTick, nil)
	case 8:
		doc := enginetest.PrepaidPlan()
		doc.Plans[0].CreditAllocations[0].Amount = decimal.FromInt(int64(h.events) + 90)
		h.l.Do(billing.KindApplyCatalog, enginetest.ApplyCatalog(enginetest.Sandbox, doc))
		h.l.Do(billing.KindChangePlan, &billing.ChangePlan{
			Env: enginetest.Sandbox, ID: subscription, Plan: "prepaid", Type: billing.ChangeUpgrade,
			ChangeID: enginetest.ID(fmt.Sprint("change ", h.l.Index)),
		})
	default:
		if rapid.IntRange(0, 9).Draw(h.t, "cancel") == 0 {
			h.l.Do(billing.KindCancelSubscription, &billing.CancelSubscription{
				Env: enginetest.Sandbox, ID: subscription, Mode: billing.CancelImmediate,
			})
		}
	}
	h.src.Keep(&h.l.Applied)
}

// correct voids or amends an earlier event.
func (h *history) correct(units decimal.Decimal) {
	name := fmt.Sprint("event ", rapid.IntRange(0, max(0, h.events-1)).Draw(h.t, "event"))
	key := billing.UsageKey(enginetest.Sandbox, []byte(name))
	ref, found, err := h.m.FindUsage(h.src, h.src, enginetest.Sandbox, key)
	require.NoError(h.t, err)
	if !found {
		return
	}
	if rapid.IntRange(0, 2).Draw(h.t, "void") == 0 {
		h.l.Do(billing.KindVoidUsage, &billing.VoidUsage{
			Env: enginetest.Sandbox, Key: key, Original: ref,
		})
		return
	}
	h.l.Do(billing.KindAmendUsage, &billing.AmendUsage{
		Env: enginetest.Sandbox, Key: key, Units: units, Original: ref,
		ID: enginetest.ID(fmt.Sprint("amendment ", h.l.Index)),
	})
}

// TestCreditsAndInvoicesAgree: through renewals, upgrades, voids, amendments and late events pools
// add up, every invoice is explained by the journal, and replay gives the same state.
func TestCreditsAndInvoicesAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		m := h.m
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			h.step()
			require.NoError(t, billing.CheckCredits(m))
		}
		c, ok := m.Customer(enginetest.Sandbox, "ada")
		require.True(t, ok)
		verified(t, m, h.src, c.Row)
		requireProved(t, m, h.src)
		again := billing.New(billing.Config{})
		enginetest.Outcomes(t, again, 1, h.l.Entries)
		require.Equal(t, enginetest.StateHash(m), enginetest.StateHash(again))
	})
}
