package browsertest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	api "tollgate/sdk/go"
)

// spend bounds the customer by a budget, holds units of it, and sees both: the budget is frozen and
// unfrozen, and what is held is released.
func (b *browser) spend(c *cluster, key string) {
	b.t.Helper()
	program := func(method, path, body string, status int) map[string]any {
		b.t.Helper()
		var answer struct{ Data map[string]any }
		require.NoError(b.t, json.Unmarshal(c.call(c.Nodes[1].HTTP, key, status, api.Request{
			Method: method, Path: "/api/v1/client/" + path, Body: []byte(body),
		}), &answer))
		return answer.Data
	}
	b.makeBudget()
	program("PUT", "budgets/ferries", `{"name":"North Sea Ferries","parent":"company",
		"customerReferenceId":"north-sea-ferries","limits":[
		{"of":"units","featureKey":"calls","limit":700,"window":"lifetime","thresholds":[80,100]},
		{"of":"price","limit":40,"window":"month","mode":"soft"}]}`, 200)
	program("POST", "events", fmt.Sprintf(`{"eventIdempotencyKey":"budgeted","eventName":"api.call",
		"customerReferenceId":"north-sea-ferries","usageUnits":379,"occurredAt":%q}`,
		time.Now().UTC().Format(time.RFC3339)), 201)
	program("POST", "reservations", `{"reservationKey":"call-91","ttlSeconds":3600,
		"customerReferenceId":"north-sea-ferries","featureKey":"calls","usageUnits":200}`, 201)
	b.stream(program)
	b.reserve()

	b.open(b.where())
	b.reads("#holds", "call-91")
	b.reads("#own-budgets", "410 + 200 held of 700")
	b.page("customer-holds")
	b.follow("Usage")
	b.page("usage")
	b.follow("Budgets")
	b.reads("#running", "North Sea Ferries")
	b.page("budgets")
	b.follow("North Sea Ferries")
	b.page("budget")
	b.unfold("Name, customer and limits")
	require.Equal(b.t, "700", b.value("#limits0_limit"))
	b.fill("#limits0_limit", "900")
	b.press("#change-budget .actions button")
	b.reads("#confirm", "900, was 700; 410 used")
	b.answer("confirm-limits")
	b.confirm("The budget was changed")
	b.unfold("Name, customer and limits")
	b.fill("#limits0_limit", "700")
	b.press("#change-budget .actions button")
	b.confirm("The budget was changed")
	b.press("#freeze button")
	b.reads("#confirm", "410 used, 200 held, of 700")
	b.answer("confirm-freeze")
	b.confirm("The budget was frozen")
	b.press("#freeze button")
	b.confirm("The budget was unfrozen")
	b.follow("Margin")
	b.page("margin")
	b.follow("Customers")
	b.follow("Ada Lund")
}

// makeBudget makes the company's budget with its page, once the form is right, and binds a key to
// it; and goes back to the customer.
func (b *browser) makeBudget() {
	b.t.Helper()
	customer := b.where()
	b.follow("Usage")
	b.follow("Budgets")
	b.page("budgets-none")
	b.fill("#key", "company")
	b.fill("#name", "The company")
	b.fill("#limits0_limit", "five hundred")
	b.choose("#limits0_window", "month")
	b.refused(400).press("#make-budget .actions button")
	b.reads("#limits0_limit-wrong", "Enter a number")
	require.Equal(b.t, "company", b.value("#key"))
	b.hasFocus("limits0_limit")
	b.answer("budget-refused")
	b.fill("#limits0_limit", "500")
	b.press("#make-budget .actions button")
	b.reads("#confirm", "500.00 USD; counts from 0")
	b.answer("confirm-budget")
	b.confirm("The budget was created")
	b.page("budget-made")

	b.follow("Developers")
	b.follow("Bind…")
	b.fill(`#keys details[open] input[name="budget"]`, "company")
	b.press("#keys details[open] form button")
	b.reads("#confirm", "New budget")
	b.answer("confirm-bind")
	b.confirm("The key's budget was set")
	b.page("keys-bound")
	b.follow("Change…")
	b.fill(`#keys details[open] input[name="budget"]`, "")
	b.press("#keys details[open] form button")
	b.confirm("The key's budget was set")
	b.open(customer)
}

// stream sees a call of 30 units that is settled in three parts: on the customer's page first it is
// held, then settled in part, and in the end it is events.
func (b *browser) stream(program func(method, path, body string, status int) map[string]any) {
	b.t.Helper()
	held := program("POST", "reservations", `{"reservationKey":"stream-7","ttlSeconds":600,
		"customerReferenceId":"north-sea-ferries","featureKey":"calls","usageUnits":30}`, 201)
	settle := "reservations/" + held["id"].(string) + "/settle"
	b.open(b.where())
	b.reads("#holds", "stream-7")
	b.reads("#own-budgets", "379 + 230 held of 700")
	program("POST", settle, `{"usageUnits":10,"final":false}`, 200)
	program("POST", settle, `{"usageUnits":25,"final":false}`, 200)
	program("POST", settle, `{"usageUnits":10,"final":false}`, 200) // late, and counts nothing
	b.open(b.where())
	b.reads("#holds", "25")
	b.reads("#own-budgets", "404 + 205 held of 700")
	program("POST", settle, `{"usageUnits":28}`, 200)
	b.open(b.where())
	require.NotContains(b.t, b.text("#holds"), "stream-7")
	b.press("#events")
	for part := range 3 {
		b.reads("main", fmt.Sprintf("reservation:%s:%d", held["id"], part+1))
	}
	b.follow("north-sea-ferries")
}

// reserve does with the pages alone what stream does with a program: it reserves, settles two parts
// and the whole, and is asked each time.
func (b *browser) reserve() {
	b.t.Helper()
	customer := b.where()
	b.unfold("Reserve units for a call")
	b.fill("#held-units", "20")
	b.fill("#held-minutes", "0")
	b.refused(400).press("#reserve button")
	b.reads("#notice", "whole number")
	b.answer("reserve-refused")
	b.fill("#held-minutes", "30")
	b.press("#reserve button")
	b.reads("#confirm", "20 units")
	b.reads("#confirm", "Left of the budget ferries then")
	b.answer("confirm-reserve")
	b.confirm("The units are reserved")
	b.page("reservation")
	for _, total := range []string{"1", "2"} {
		b.fill("#used-0", total)
		b.press(`#settle button[value="no"]`)
		b.reads("#confirm", "Maximum added to the bill")
		b.confirm("A part of the reservation was settled")
	}
	b.fill("#used-0", "3")
	b.press(`#settle button[value="yes"]`)
	b.answer("confirm-settle")
	b.confirm("The reservation was settled")
	b.reads("#held", "settled")
	b.page("reservation-settled")
	b.open(customer)
}

// visitPortal does what the customer does with a link: looks at what they use and owe, gives up
// what is held, asks what another plan costs, goes to pay, and is turned away when the link ends.
func (b *browser) visitPortal(c *cluster) {
	b.t.Helper()
	c.call(c.node("node1").Ops, c.AdminKey, 200, api.Request{
		Method: "PUT", Path: "/api/v1/admin/accounts/harbor/environments/sandbox/payment-provider",
		Body: []byte(`{"provider":"sandbox"}`),
	})
	customer := b.where()
	b.press("#portal-link button")
	link := b.text("#secret")
	require.Contains(b.t, link, "/portal/")
	b.answer("portal-link")
	b.open(link)
	b.reads("#holds", "call-91")
	b.reads("#budget", "410 + 200 held of 700")
	b.page("portal")
	b.everyPageOfAPortal(c.public("node1", ""), link)
	b.follow("Release…")
	b.answer("portal-release")
	b.confirm("The reservation was released")
	require.Zero(b.t, b.count("#holds"))
	b.press("#plans button")
	b.reads("#confirm", "Invoice issued now")
	b.answer("portal-change")
	b.follow("Go back, change nothing")
	b.follow("Invoice 1")
	b.page("portal-invoice")
	b.press("#pay button")
	b.reads("#pay", "20.00 USD")
	b.page("portal-pay")
	b.press("#checkout")
	b.page("portal-provider")
	b.open(link)
	b.press("#plans a.button")
	b.answer("portal-cancel")
	b.press("#confirm-button")
	b.reads("#plans", "Keep Team")
	b.press(`#plans form[action$="/keep"] button`)
	b.reads("#notice", "Your plan goes on")

	b.open(customer)
	b.press("#portal-revoke button")
	b.answer("confirm-portal-revoke")
	b.confirm("The portal links were ended")
	b.refused(403).open(link)
	b.answer("portal-closed")
	b.open(customer)
}

// seek searches, with the key that opens the field.
func (b *browser) seek() {
	b.t.Helper()
	b.shortcut("/")
	b.hasFocus("q")
	b.do(chromedp.KeyEvent("nor"))
	require.Equal(b.t, "nor", b.value("#q"))
	b.goOn(func() { b.do(chromedp.KeyEvent(kb.Enter)) })
	require.True(b.t, strings.HasSuffix(b.path(), "/customers/north-sea-ferries"), b.where())
	b.fill("#q", "nobody")
	b.goOn(func() { b.do(chromedp.KeyEvent(kb.Enter)) })
	b.page("search-none")
	b.follow("Customers")
	b.follow("Ada Lund")
}
