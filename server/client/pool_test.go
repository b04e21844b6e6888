package client_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	tollgate "tollgate/sdk/go"
	"tollgate/server"
)

func TestCustomersShowTheirCreditPools(t *testing.T) {
	n := start(t)
	n.customer("acme")
	require.Empty(t, n.call("GET", "customers/acme", "").is(200, "").data("creditPools"))
	n.Do(t, billing.KindCreatePool, &billing.CreatePool{
		Env: n.env, ID: [16]byte{7}, Customer: "acme", Name: "Tokens", Denomination: "tokens",
		Currency: "USD", HardLimit: true,
	})
	n.Do(t, billing.KindGrantCredits, &billing.GrantCredits{
		Env: n.env, ID: [16]byte{8}, Pool: [16]byte{7}, Amount: decimal.FromInt(250),
	})
	a := n.call("GET", "customers/acme", "").is(200, "")
	pools := a.data("creditPools").([]any)
	require.Len(t, pools, 1)
	pool := pools[0].(map[string]any)
	require.Equal(t, "Tokens", pool["name"])
	require.Equal(t, 250.0, pool["balance"])
	require.Equal(t, 250.0, pool["totalGranted"])
	require.Equal(t, 0.0, pool["totalConsumed"])
	require.Equal(t, "ACTIVE", pool["status"])
	require.Equal(t, "NONE", pool["rolloverPolicy"])
	require.Equal(t, a.data("id"), pool["customerId"])
	require.NotContains(t, pool, "rolloverCap")
}

// TestProgramsTopPoolsUp: a program sets, reads and ends the automatic top-up of a pool by the
// client API, and by its SDK; a repeat of a request does nothing, and each mistake has its field.
func TestProgramsTopPoolsUp(t *testing.T) {
	n := start(t)
	n.customer("acme")
	pool := [16]byte{7}
	n.Do(t, billing.KindCreatePool, &billing.CreatePool{
		Env: n.env, ID: pool, Customer: "acme", Name: "Tokens",
	})
	id := string(server.AppendUUID(nil, pool))
	at := "pools/" + id + "/top-up"
	const rule = `{"below":100,"amount":1000,"price":10,"monthlyCap":50,"paymentMethod":"card"}`
	n.call("GET", at, "").is(404, "top_up_not_found")
	n.call("PUT", at, rule).is(400, "no_payment_provider")
	n.Do(t, billing.KindSetPaymentProvider, &billing.SetPaymentProvider{
		Env: n.env, Provider: billing.ProviderSandbox,
	})
	n.send("PUT", at, rule, n.read, nil).is(403, "access_denied")
	n.send("DELETE", at, "", n.read, nil).is(403, "access_denied")
	n.once("k", "PUT", at, rule).is(200, "")
	v := n.send("GET", at, "", n.read, nil).is(200, "")
	require.Equal(t, []any{"ON", 100.0, 1000.0, 10.0, "USD", 50.0, 10.0, 3600.0, "card", true}, []any{
		v.data("state"), v.data("below"), v.data("amount"), v.data("price"), v.data("currency"),
		v.data("monthlyCap"), v.data("spentThisMonth"), v.data("cooldownSeconds"),
		v.data("paymentMethod"), v.data("pending"),
	})
	require.Len(t, n.Machine.AskedTopUps(), 1)

	n.once("off", "DELETE", at, "").is(200, "")
	n.once("k", "PUT", at, rule).is(200, "") // it was carried out before
	require.Equal(t, "OFF", n.call("GET", at, "").data("state"))
	n.call("PUT", at, `{"below":1,"amount":1,"price":1,"currency":"EUR","monthlyCap":1,`+
		`"paymentMethod":"card"}`).is(400, "top_up_currency")

	for body, field := range map[string]string{
		`{"amount":1,"price":1,"monthlyCap":1,"paymentMethod":"c"}`:                                          "below",
		`{"below":0,"amount":1,"price":1,"monthlyCap":1,"paymentMethod":"c"}`:                                "below",
		`{"below":1,"amount":-1,"price":1,"monthlyCap":1,"paymentMethod":"c"}`:                               "amount",
		`{"below":1,"amount":1,"price":1.001,"monthlyCap":2,"paymentMethod":"c"}`:                            "price",
		`{"below":1,"amount":1,"price":2,"monthlyCap":1,"paymentMethod":"c"}`:                                "monthlyCap",
		`{"below":1,"amount":1,"price":1,"monthlyCap":1,"currency":"XQX","paymentMethod":"c"}`:               "currency",
		`{"below":1,"amount":1,"price":1,"monthlyCap":1,"cooldownSeconds":59,"paymentMethod":"c"}`:           "cooldownSeconds",
		`{"below":1,"amount":1,"price":1,"monthlyCap":1,"expiresAfterDays":3651,"paymentMethod":"c"}`:        "expiresAfterDays",
		`{"below":1,"amount":1,"price":1,"monthlyCap":1}`:                                                    "paymentMethod",
		`{"below":1,"amount":1,"price":1,"monthlyCap":1,"paymentMethod":"` + strings.Repeat("c", 256) + `"}`: "paymentMethod",
	} {
		fields := n.call("PUT", at, body).is(400, "validation_failed").
			body["error"].(map[string]any)["fields"].([]any)
		require.Len(t, fields, 1, body)
		require.Equal(t, field, fields[0].(map[string]any)["field"], body)
	}

	c, ctx := sdk(t, n.addr, n.sandbox), t.Context()
	require.NoError(t, c.SetTopUp(ctx, id, tollgate.TopUpRequest{
		Below: "5", Amount: "20", Price: "3.50", MonthlyCap: "7", PaymentMethod: "other",
	}))
	set, err := c.TopUp(ctx, id)
	require.NoError(t, err)
	require.Equal(t, "ON 5 3.5 other", fmt.Sprint(set.State, " ", set.Below, " ", set.Price, " ",
		set.PaymentMethod))
	require.NoError(t, c.StopTopUp(ctx, id))
	_, err = c.TopUp(ctx, string(server.AppendUUID(nil, [16]byte{9})))
	require.True(t, tollgate.IsStatus(err, 404), "%v", err)
}
