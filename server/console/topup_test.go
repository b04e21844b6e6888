package console_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/server"
)

// TestTopUpsOnPages: a pool's page sets its automatic top-up, which shows what it costs first, and
// says what it is doing, and why it has ended. A refused form keeps its values.
func TestTopUpsOnPages(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	const anna = at + "/customers/anna"
	b.submit(anna, anna+"/pools", fields("name", "prepaid"))
	pool := b.firstLink(anna, at+"/pools/[0-9a-f-]+")
	id, _ := server.ParseUUID(strings.TrimPrefix(pool, at+"/pools/"))
	p := b.get(pool).is(200, "this pool buys nothing by itself", "A top-up needs a payment provider")
	require.NotContains(t, p.body, `id="set-top-up"`)
	n.Do(t, billing.KindSetPaymentProvider, &billing.SetPaymentProvider{
		Env: n.environment(), Provider: billing.ProviderSandbox,
	})

	form := func(pairs ...string) url.Values {
		f := fields("below", "50", "credits", "1000", "price", "10", "cap", "25", "cooldown", "7200",
			"card", "card_sandbox_success")
		for i := 0; i < len(pairs); i += 2 {
			f.Set(pairs[i], pairs[i+1])
		}
		return f
	}
	for wrong, value := range map[string]string{"below": "many", "price": "-1", "cap": "9", "card": " "} {
		p = b.send(pool+"/top-up", b.fill(pool, form(wrong, value)))
		p.is(400, `id="`+wrong+`-wrong"`, `value="1000"`, `<details open>`)
		safe(t, p)
	}
	for wrong, value := range map[string]string{"price": "1.001", "cooldown": "5", "currency": "XQX"} {
		refused := form(wrong, value) // what only the API knows is said once it is confirmed
		asked := b.asked(pool+"/top-up", b.fill(pool, refused))
		p = b.send(pool+"/top-up", b.confirmed(asked, refused))
		p.is(400, `id="`+wrong+`-wrong"`, `value="`+value+`"`, `value="1000"`)
		safe(t, p)
	}
	require.Empty(t, n.Machine.AskedTopUps())

	asked := b.asked(pool+"/top-up", b.fill(pool, form()))
	safe(t, asked.is(200, "Top prepaid up automatically?", "1,000 credits for 10.00 USD", "25.00 USD",
		"card_sandbox_success", "the first purchase, of 10.00 USD, is made at once"))
	sure := b.confirmed(asked, form())
	p = b.get(b.send(pool+"/top-up", sure).is(303).to)
	safe(t, p.is(200, "The automatic top-up was set", "1,000 credits for 10.00 USD when less than 50",
		"10.00 USD of 25.00 USD at most", "2 hours at least", "A purchase, asked for"))
	require.Len(t, n.Machine.AskedTopUps(), 1)
	safe(t, b.get(anna).is(200, "below 50, 1,000 for 10.00 USD, on its way"))
	purchase := fields("purchase", string(server.AppendUUID(nil, billing.TopUpID(id, 1))))
	over := b.asked(pool+"/top-up/end", b.fill(pool, purchase))
	safe(t, over.is(200, "not paid?", "topup_"+purchase.Get("purchase"), "Look at the payment provider"))
	b.send(pool+"/top-up/end", b.confirmed(over, purchase)).is(409, `role="alert"`) // it may be charged

	stop := b.asked(pool+"/top-up/stop", b.fill(pool, url.Values{}))
	safe(t, stop.is(200, "Turn off the automatic top-up of prepaid?", "it goes on, and its credits come"))
	ended := b.confirmed(stop, url.Values{})
	b.get(b.send(pool+"/top-up/stop", ended).is(303).to).is(200, "turned off", "A purchase, asked for")
	b.send(pool+"/top-up", sure).is(303) // sent again after it was turned off, it does nothing
	b.send(pool+"/top-up/stop", ended).is(303)
	p = b.get(pool)
	require.NotContains(t, p.body, `id="stop-top-up"`)
	b.get(anna).is(200, "top-up turned off")

	asked = b.asked(pool+"/top-up", b.fill(pool, form("below", "60")))
	asked.is(200, "Before", "off: with less than 50 free it buys 1,000 for 10.00 USD, for 25.00 USD a month at most")
	b.send(pool+"/top-up", b.confirmed(asked, form("below", "60"))).is(303)
	n.Do(t, billing.KindRecordTopUp, &billing.RecordTopUp{
		Env: n.environment(), Pool: id, ID: billing.TopUpID(id, 1), Code: "card_declined",
	})
	safe(t, b.get(pool).is(200, "card declined", "the newest payment failed", `class="status FAILED"`))
	b.get(anna).is(200, "top-up failed: card declined")

	b.submit(pool, pool+"/low-balance", fields("lowBalance", "40")).
		is(200, "The low balance was set", "It is low at 40")
	b.submit(pool, pool+"/low-balance", fields("lowBalance", ""))
	require.NotContains(t, b.get(pool).body, "It is low at")
	b.send(pool+"/low-balance", b.fill(pool, fields("lowBalance", "-1"))).
		is(400, `id="lowBalance-wrong"`, `value="-1"`)
	view, _ := n.Machine.TopUp(n.environment(), id)
	require.Equal(t, decimal.FromInt(60), view.Below)
}
