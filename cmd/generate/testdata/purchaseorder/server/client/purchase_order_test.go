package client_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
)

// TestPurchaseOrder: the field is read, judged, kept, restored and answered. Each answer is
// validated against the published document.
func TestPurchaseOrder(t *testing.T) {
	n := start(t)
	n.customer("acme")
	const front = `{"planId":"team","customerReferenceId":"acme"`
	plain := n.call("POST", "subscriptions", front+`}`).is(201, "")
	require.NotContains(t, string(plain.raw), "purchaseOrder")
	long := n.call("POST", "subscriptions",
		front+`,"purchaseOrder":"`+strings.Repeat("x", 65)+`","po":1}`).is(400, "validation_failed")
	require.Contains(t, long.fault()["detail"], "purchaseOrder must have at most 64 characters")
	require.Contains(t, long.fields(), "po")
	made := n.call("POST", "subscriptions", front+`,"purchaseOrder":"PO-7"}`).is(201, "")
	require.Equal(t, "PO-7", made.data("subscription", "purchaseOrder"))
	id := made.data("subscription", "id").(string)
	got := n.call("GET", "subscriptions/"+id, "").is(200, "")
	require.Equal(t, "PO-7", got.data("purchaseOrder"))

	document := n.send("GET", "/api/v1/client/openapi.json", "", "", nil).raw
	require.Equal(t, 2, bytes.Count(document, []byte(`"purchaseOrder":{"maxLength":64,"type":"string"}`)),
		"of the request and of the answer")

	snapshot, err := n.Machine.Snapshot()
	require.NoError(t, err)
	var b bytes.Buffer
	_, err = snapshot.WriteTo(&b)
	require.NoError(t, err)
	snapshot.Release()
	again := billing.New(billing.Config{})
	require.NoError(t, again.Restore(&b))
	views := again.Subscriptions(1)
	require.Len(t, views, 3)
	require.Equal(t, "PO-7", views[2].PurchaseOrder)
	require.Empty(t, views[1].PurchaseOrder)

	since := func(order string) uint32 {
		c := billing.CreateSubscription{Plan: "team"}
		c.PurchaseOrder = order
		once := billing.Once{Kind: billing.KindCreateSubscription, Payload: wire.Encode(nil, &c)}
		bare := engine.Record{Kind: once.Kind, Payload: once.Payload}
		carried := engine.Record{Kind: billing.KindOnce, Payload: wire.Encode(nil, &once)}
		require.Equal(t, n.Machine.Since(bare), n.Machine.Since(carried))
		return n.Machine.Since(carried)
	}
	require.Equal(t, engine.Version, since("PO-7"), "older nodes do not know the field")
	require.Zero(t, since(""))
}
