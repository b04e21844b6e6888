package billing_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

// leftText is what the answer to a reservation says of what is left.
func leftText(v *billing.ReservationView) (text string) {
	for i := range v.Items {
		item := &v.Items[i]
		text += item.FeatureKey + " " + item.Rule
		if item.HasLimit {
			text += fmt.Sprint(" ", item.Remaining, " of ", item.Limit)
		}
		if item.HasCredits {
			text += fmt.Sprint(" ", item.CreditsLeft, " credits")
		}
		text += "; "
	}
	if v.LimitBudget != "" {
		text += fmt.Sprint(v.LimitBudget, " ", v.LimitOf, v.LimitFeature, " ", v.LimitWindow, " ",
			v.LimitLeft, " of ", v.LimitMax, v.LimitCurrency)
	}
	return text
}

// TestTheAnswerSaysWhatABudgetLeaves: of the hard limits that count what is held, the one that has
// the smallest part left; also of a dry run, and again once the limits are others, byte for byte.
func TestTheAnswerSaysWhatABudgetLeaves(t *testing.T) {
	ofWords := func(limit int64) billing.LimitDocument {
		return billing.LimitDocument{
			Of: billing.MeasureUnits, Feature: "words", Limit: decimal.FromInt(limit),
			Window: billing.WindowDay,
		}
	}
	soft := inUSD("1")
	soft.Soft = true
	s := newBudgetSandbox(t, inUSD("100"), ofCost("1"))
	s.put("ada", "all", "ada", ofWords(20), soft)
	c := enginetest.Reservation("r", "ada", "words", 1)
	c.Items = both(4, 4)
	c.DryRun = true
	const first = "words budget; lines budget; ada unitswords day 16 of 20"
	dry := s.view(s.Do(billing.KindReserve, c))
	require.Equal(t, first, leftText(&dry))
	c.DryRun = false
	answer := s.Do(billing.KindReserve, c)
	held := s.view(answer)
	require.Equal(t, first, leftText(&held))

	require.Equal(t, engine.OutcomeDone, s.event("e", "lines", 90))
	only := enginetest.Reservation("lines", "ada", "lines", 1)
	v := s.view(s.Do(billing.KindReserve, only))
	require.Equal(t, "lines budget; all price lifetime 1 of 100USD", leftText(&v))

	s.put("ada", "all", "ada")
	s.put("other", "", "")
	s.done(billing.KindMoveBudget, &billing.MoveBudget{
		Env: enginetest.Sandbox, Key: "ada", Parent: "other",
	})
	v = s.view(s.reserve("free", "words", 1))
	require.Equal(t, "words none; ", leftText(&v))
	s.repeats(c, answer)
	require.Equal(t, engine.OutcomeDone, s.extend("lines", 1, 3_600).Outcome)
	v = s.view(s.Do(billing.KindReserve, only))
	require.Equal(t, "lines budget; all price lifetime 1 of 100USD", leftText(&v), "once extended")
	got, _ := s.m.Reservation(enginetest.Sandbox, c.ID, s.Stamp)
	require.Equal(t, "words ; lines ; ", leftText(&got), "that is of then")
}

// repeats: a request gets its first answer again, now and after a restore.
func (s *heldSandbox) repeats(c *billing.Reserve, first engine.Result) {
	s.t.Helper()
	require.Equal(s.t, first.Value, s.Do(billing.KindReserve, c).Value)
	m := restored(s.t, enginetest.Snapshot(s.t, s.m))
	again := heldSandbox{enginetest.NewLog(m, s.Stamp), s.t, m}
	again.Index = s.Index
	require.Equal(s.t, first.Value, again.Do(billing.KindReserve, c).Value)
}

// TestTheAnswerSaysWhichCreditsAreLeft: behind all items that the pools pay for, 3 credits an image
// and half a one a video, of 100. Images are billed once there are none: credits do not bound them.
func TestTheAnswerSaysWhichCreditsAreLeft(t *testing.T) {
	s := newHeldSandbox(t)
	first := s.reserve("r", "images", 1)
	v := s.view(first)
	require.Equal(t, "images none 97 credits; ", leftText(&v))
	c := enginetest.Reservation("both", "ada", "images", 1)
	c.Items = append(bothItems(20, 30), billing.ReserveItem{
		FeatureKey: "calls", Units: decimal.FromInt(5),
	})
	v = s.view(s.Do(billing.KindReserve, c))
	require.Equal(t, "images none 22 credits; videos pool 22 credits; calls limit 495 of 500; ",
		leftText(&v))
	s.repeats(enginetest.Reservation("r", "ada", "images", 1), first)
}
