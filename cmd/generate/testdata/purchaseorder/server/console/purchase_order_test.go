package console_test

import "testing"

// TestPurchaseOrder: the form asks for the field, and the page shows it.
func TestPurchaseOrder(t *testing.T) {
	b := start(t).signedIn()
	b.furnish()
	const anna = "/console/accounts/demo/sandbox/customers/anna"
	b.get(anna).is(200, `<label for="purchaseOrder">Purchase order</label>`, `maxlength="64"`)
	b.asked(anna+"/subscriptions", b.fill(anna, fields("plan", "team", "purchaseOrder", "PO-7"))).
		is(200, "<dt>Purchase order</dt><dd>PO-7</dd>")
	b.submit(anna, anna+"/subscriptions", fields("plan", "team", "purchaseOrder", "PO-7")).
		is(200, "The subscription was created", "Purchase order: PO-7")
}
