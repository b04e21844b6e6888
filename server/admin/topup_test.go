package admin_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pays charges the purchases that are on their way until the test ends.
func (n *node) pays() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		n.till.RunTopUps(ctx, func() (uint64, bool) { return 1, true })
		close(ended)
	}()
	n.t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// TestTopUpsArePaid: a pool below its balance is charged to the saved card, and granted once; a
// card that is declined turns it off, and setting it again turns it on.
func TestTopUpsArePaid(t *testing.T) {
	n := start(t)
	n.furnish()
	pool := n.pool(`,"hardLimit":true`)
	const rule = `{"below":100,"amount":1000,"price":10,"monthlyCap":20,"cooldownSeconds":60,` +
		`"paymentMethod":"card_sandbox_`
	n.call("PUT", pool+"/top-up", rule+`success"}`).is(400, "no_payment_provider")
	n.call("PUT", sandbox+"payment-provider", `{"provider":"sandbox"}`).is(200, "")
	n.call("GET", pool+"/top-up", "").is(404, "top_up_not_found")
	n.call("PUT", pool+"/top-up", `{"below":100,"amount":1000,"price":10,"monthlyCap":9,`+
		`"paymentMethod":"x"}`).is(400, "validation_failed")
	n.pays()

	n.call("PUT", pool+"/top-up", rule+`success"}`).is(200, "")
	shows := func(state string, balance float64) {
		t.Helper()
		require.Eventually(t, func() bool {
			v := n.call("GET", pool+"/top-up", "").is(200, "").data()
			return v["state"] == state && v["pending"] == false &&
				n.call("GET", pool, "").data()["balance"] == balance
		}, 20*time.Second, 10*time.Millisecond)
	}
	shows("ON", 1000)
	require.Empty(t, n.Machine.AskedTopUps())

	n.call("PUT", pool+"/top-up", rule+`later-decline"}`).is(200, "")
	n.Stamp.Store(n.Machine.Stamp() + 60_000)
	n.call("POST", pool+"/deductions", `{"amount":950}`).is(201, "")
	shows("FAILED", 50)
	v := n.call("GET", pool+"/top-up", "").data()
	require.Equal(t, "card_declined", v["failure"])
	require.EqualValues(t, 10, v["spentThisMonth"])

	n.Stamp.Store(n.Machine.Stamp() + 60_000)
	n.call("PUT", pool+"/top-up", rule+`success"}`).is(200, "")
	shows("ON", 1050)
	n.call("DELETE", pool+"/top-up", "").is(200, "")
	require.Equal(t, "OFF", n.call("GET", pool+"/top-up", "").data()["state"])
}
