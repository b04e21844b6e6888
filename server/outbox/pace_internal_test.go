package outbox

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/server/provider/webhook"
)

func TestEndpointsThatLagShareSlotsOfTheirOwn(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	s := slots{quick: quickSlots, slow: slowSlots}
	lagging := func(r webhook.Result) *pace {
		p := &pace{}
		p.learn(&r, webhook.Patient, now)
		return p
	}
	results := []webhook.Result{
		{Outcome: webhook.Retry, Took: time.Millisecond},
		{Outcome: webhook.Delivered, Took: slowAfter},
		{Outcome: webhook.Blocked},
	}
	later := now.Add(time.Hour)
	for i := range 3 * slowSlots {
		p := lagging(results[i%len(results)])
		require.Equal(t, min(1, s.slow), p.room(&s, later))
		require.Equal(t, i < slowSlots, s.take(p) != nil)
	}
	require.Equal(t, quickSlots, s.quick)

	quick := lagging(webhook.Result{Outcome: webhook.Delivered, Took: time.Millisecond})
	require.Equal(t, quickEach, quick.room(&s, now))
	quick.flying = quickEach - 1
	require.Equal(t, 1, quick.room(&s, now))
	require.Equal(t, &s.quick, s.take(quick))
	var unknown *pace
	require.Equal(t, 1, unknown.room(&s, now))
	require.Zero(t, (&pace{flying: 1}).room(&s, now))
}

func TestFailingEndpointsAreLeftAlone(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	s := slots{quick: quickSlots, slow: slowSlots}
	p := &pace{}
	failed := &webhook.Result{Outcome: webhook.Retry}
	for _, pause := range []time.Duration{
		5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second,
		160 * time.Second, 5 * time.Minute, 5 * time.Minute,
	} {
		p.learn(failed, webhook.Patient, now)
		p.learn(failed, webhook.Patient, now) // several that fail together count once
		require.Zero(t, p.room(&s, now.Add(pause-1)))
		now = now.Add(pause)
		require.Equal(t, 1, p.room(&s, now))
	}
	p.learn(&webhook.Result{Outcome: webhook.Delivered}, webhook.Patient, now)
	require.Equal(t, quickEach, p.room(&s, now))
}
