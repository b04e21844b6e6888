package client_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine/billing"
)

// TestAnEventOutOfTimeLearnsTheClock: after the test clock was moved the sender's own time is no
// time of the environment any more. The refusal names the clock and what it takes, GET /clock is
// what a first request goes by.
func TestAnEventOutOfTimeLearnsTheClock(t *testing.T) {
	n := start(t)
	n.customer("acme")
	to := time.Now().Add(30 * 24 * time.Hour)
	n.Do(t, billing.KindAdvanceClock, &billing.AdvanceClock{Env: n.env, To: to.UnixMilli()})

	day := to.UTC().Format("2006-01-02")
	a := n.call("POST", "events", event("early", "")).is(400, "occurred_too_early")
	require.Contains(t, a.fault()["detail"], "clock reads "+day)
	require.Contains(t, a.fault()["detail"], "from "+to.Add(-7*24*time.Hour).UTC().Format("2006-01-02"))
	batch := n.call("POST", "events/batch", "["+event("early", "")+"]").is(200, "")
	require.Contains(t, string(batch.raw), "clock reads "+day)

	now := n.call("GET", "clock", "").is(200, "").data("now").(string)
	require.True(t, strings.HasPrefix(now, day), now)
	body := `{"eventIdempotencyKey":%q,"eventName":"tokens","customerReferenceId":"acme","occurredAt":%q}`
	n.call("POST", "events", fmt.Sprintf(body, "now", now)).is(201, "")
	late := to.Add(time.Hour).UTC().Format(time.RFC3339)
	a = n.call("POST", "events", fmt.Sprintf(body, "late", late)).is(400, "occurred_too_late")
	require.Contains(t, a.fault()["detail"], "clock reads "+day)
	latest := n.call("GET", "clock", "").data("latest").(string)
	n.call("POST", "events", fmt.Sprintf(body, "latest", latest)).is(201, "")
}
