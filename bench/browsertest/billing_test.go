package browsertest

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	api "tollgate/sdk/go"
)

// catalogOf is a small catalog: a monthly plan, and calls at a price of their own.
func catalogOf(price string) string {
	return `features:
  - key: calls
    name: API calls
    labels: [api.call]
    costPerUnit: "0.002"
plans:
  - key: team
    name: Team
    priceAmount: 20
    currency: USD
    intervalMonths: 1
    metadata: {portal: {change: true, cancel: true, release: true}}
    features:
      - key: calls
        pricingType: usage_based
        pricing: {pricePerUnit: ` + price + `, includedUnits: 1000, maxUsage: 5000}
  - key: fleet
    name: Fleet
    priceAmount: 90
    currency: USD
    intervalMonths: 1
    metadata: {portal: {change: true}}
    features:
      - key: calls
        pricingType: usage_based
        pricing: {pricePerUnit: 0.01, includedUnits: 9000, maxUsage: 50000}
`
}

// operator is whom the settings of tollgate dev name.
const operator = "operator@localhost.test"

var sandboxKey = regexp.MustCompile(`^sk_test_\w{20,}$`)

// TestBillingOperator: from an account that has nothing to a paid invoice, with the pages alone;
// usage comes from a program, by the key that the pages have made.
func TestBillingOperator(t *testing.T) {
	c := startCluster(t)
	b := openBrowser(t, "billing", c.ops("node1", ""), c.Identity, c.public("node1", ""))
	b.open(c.ops("node1", "/"))
	b.press("#provider")
	b.page("identity-provider")
	b.signInAs(operator)
	b.reads(".who", operator)
	b.fill("#name", "harbor")
	b.press("#create-account button")
	b.reads("#notice", "The account was created")
	b.page("account-new")
	b.applyCatalog()
	key := b.makeKey()
	b.makeCustomer()
	b.meter(c, key)
	b.spend(c, key)
	b.visitPortal(c)
	b.seek()
	b.fillPool()
	b.nextMonth()
	b.payInvoice()
	b.hearOfIt()
	b.everyPage(c, key)

	b.open(c.ops("node1", "/console/accounts/harbor/sandbox/webhooks"))
	b.click("#switch")
	b.follow("Live")
	b.page("live-overview")
	b.follow("Customers")
	b.page("live-customers-none")
	b.follow("Developers")
	b.page("live-keys-none")
	b.follow("Webhooks")
	b.page("live-webhooks-none")
	b.follow("Changes")
	require.NotContains(t, b.text("main"), key)
	require.Contains(t, b.text("#changes"), operator, "changes are kept with who made them")
	b.page("changes")
	b.refused(404).open(c.ops("node1", "/console/accounts/nobody/live"))
	b.answer("not-there")
}

// applyCatalog looks at what a catalog would change before it is applied, twice: the second time at
// a changed price. A document that cannot be read changes nothing, and is still there.
func (b *browser) applyCatalog() {
	b.t.Helper()
	b.paste("#document", "features: [{key: calls, name: Calls, colour: red}]\n")
	b.refused(400).press("#catalog-form button[value=look]")
	b.reads("#notice", "colour")
	require.Contains(b.t, b.value("#document"), "colour")
	b.answer("catalog-refused")

	b.paste("#document", catalogOf("0.02"))
	b.press("#catalog-form button[value=look]")
	b.reads("#notice", "Nothing has changed yet")
	b.reads("#difference", "team")
	b.answer("catalog-difference")
	b.press("#apply")
	b.reads("#notice", "The catalog was applied")
	b.page("catalog")
	b.follow("Calculate a price")
	b.fill(`[name="units.calls"]`, "2450")
	b.press("#calculate button")
	b.reads("#price", "49.00 USD")
	b.page("catalog-price")

	b.paste("#document", catalogOf("0.03"))
	b.press("#catalog-form button[value=look]")
	b.reads("#difference", "updated")
	b.press("#apply")
	b.reads("#notice", "The catalog was applied")
}

// makeKey makes a key, which is shown once.
func (b *browser) makeKey() string {
	b.t.Helper()
	b.follow("Developers")
	b.page("keys-none")
	b.fill("#label", "checkout server")
	b.press("#create-key button")
	key := b.text("#secret")
	require.Regexp(b.t, sandboxKey, key)
	b.answer("key-made")
	b.follow("Keys")
	require.NotContains(b.t, b.text("main"), key)
	b.page("keys")
	return key
}

// makeCustomer makes a customer and subscribes them.
func (b *browser) makeCustomer() {
	b.t.Helper()
	b.follow("Customers")
	b.page("customers-none")
	b.fill("#id", "north-sea-ferries")
	b.fill("#first", "Ada")
	b.fill("#last", "Lund")
	b.fill("#email", "ada@ferries.example")
	b.press("#create-customer button")
	b.reads("#notice", "The customer was created")
	b.page("customer-new")
	b.press("#subscribe button")
	b.reads("#confirm", "Invoice issued now: 20.00 USD")
	b.answer("confirm-subscribe")
	b.confirm("The subscription was created")
	require.Equal(b.t, 1, b.count("#subscriptions tbody tr"))
	b.follow("Customers")
	b.page("customers")
	b.follow("Ada Lund")
}

// meter sends usage as the customer's program does, and sees it come in without loading the page.
func (b *browser) meter(c *cluster, key string) {
	b.t.Helper()
	b.reads("#usage", "calls")
	for i, units := range []int{600, 1400, 40} {
		body := fmt.Sprintf(`{"eventIdempotencyKey":"walk-%d","eventName":"api.call",`+
			`"customerReferenceId":"north-sea-ferries","usageUnits":%d,"occurredAt":%q}`, i, units,
			time.Now().UTC().Format(time.RFC3339))
		c.call(c.Nodes[1].HTTP, key, 201, api.Request{
			Method: "POST", Path: "/api/v1/client/events", Body: []byte(body),
		})
	}
	b.reads("#usage", "2,040")
	b.open(b.where()) // the chart and the latest events are of when the page was loaded
	b.page("customer")
	b.readChart("2,040")
	b.press("#events")
	b.page("events")
	c.call(c.Nodes[1].HTTP, key, 200, api.Request{
		Method: "GET", Path: "/api/v1/client/entitlements/north-sea-ferries/storage",
	})
	b.reads("#events", "feature unknown") // the newest is first, without loading the page
	b.follow("Denied checks")
	b.reads("#list", "feature unknown")
	b.page("events-denied")
	customer, _, _ := strings.Cut(b.where(), "/events")
	environment, _, _ := strings.Cut(customer, "/customers/")
	b.open(environment + "/denied")
	b.reads("#denied", "feature unknown")
	b.page("denied")
	b.open(customer)
}

// readChart reads the newest bar of the customer's chart, and opens the table of the same numbers
// by the keyboard.
func (b *browser) readChart(used string) {
	b.t.Helper()
	marks := evaluate[[]string](b.tab, `[...document.querySelectorAll("#used .chart rect title")]
		.map(t => t.textContent)`)
	require.NotEmpty(b.t, marks)
	require.Contains(b.t, marks[len(marks)-1], "calls: "+used)
	evaluate[bool](b.tab, `(document.querySelector("#numbers summary").focus(), true)`)
	b.do(chromedp.KeyEvent(kb.Enter))
	require.Equal(b.t, 1, b.count("#numbers[open]"))
	b.reads("#numbers table", used)
}

func (b *browser) fillPool() {
	b.t.Helper()
	b.unfold("Create a credit pool")
	b.fill("#pool-name", "prepaid")
	b.press("#create-pool button")
	b.reads("#notice", "The pool was created")
	b.follow("prepaid")
	b.page("pool-new")
	b.fill("#amount", "2500.50")
	b.fill("#note", "paid in advance")
	b.press("#book button:not([formaction])")
	b.reads("#confirm", "Balance afterwards")
	b.answer("confirm-grant")
	b.confirm("The credits were booked")
	b.reads("#transactions", "2,500.5")
	b.page("pool")
	b.topUp()
}

// topUp has the pool buy credits by itself, sees the first ones come, and turns it off.
func (b *browser) topUp() {
	b.t.Helper()
	b.unfold("Set up a top-up")
	for field, value := range map[string]string{
		"below": "3000", "credits": "1000", "price": "10", "cap": "5", "card": "card_sandbox_success",
	} {
		b.fill("#"+field, value)
	}
	b.refused(400).press("#set-top-up button")
	b.reads("#cap-wrong", "Must be the price or more")
	require.Equal(b.t, "card_sandbox_success", b.value("#card"))
	b.hasFocus("cap")
	b.answer("top-up-refused")
	b.fill("#cap", "25")
	b.press("#set-top-up button")
	b.reads("#confirm", "1,000 credits for 10.00 USD")
	b.reads("#confirm", "made at once")
	b.answer("confirm-top-up")
	b.confirm("The automatic top-up was set")
	require.Eventually(b.t, func() bool {
		b.open(b.where())
		return strings.Contains(b.text("#transactions"), "top-up, 10 USD")
	}, patience, 100*time.Millisecond, "nothing was bought:\n%s", b.text("main"))
	b.reads("#top-up", "10.00 USD of 25.00 USD at most")
	b.page("pool-topped-up")
	b.press("#stop-top-up button")
	b.reads("#confirm", "What was bought stays")
	b.answer("confirm-no-top-up")
	b.confirm("The automatic top-up was turned off")
}

// nextMonth moves the sandbox's clock, and waits until all that falls due has happened.
func (b *browser) nextMonth() {
	b.t.Helper()
	b.follow("Settings")
	b.page("settings")
	b.follow("Test clock")
	b.page("clock")
	b.refusedClock()
	b.press("#advance-by button:nth-of-type(3)")
	b.answer("confirm-clock")
	b.confirm("The clock was advanced")
	b.reads("#clock", "All due renewals have run.")
	b.page("clock-advanced")
}

// refusedClock asks for an instant that is over.
func (b *browser) refusedClock() {
	b.t.Helper()
	b.fill("#to", "2020-01-01T00:00:00Z")
	b.refused(400).press("#advance-to button")
	b.answer("clock-refused")
}

// payInvoice finds the invoice of the month's usage, has it explained from the journal, and marks
// it paid; its usage is 1,450 calls beyond those included, at the newer price.
func (b *browser) payInvoice() {
	b.t.Helper()
	b.follow("Customers")
	b.follow("Ada Lund")
	b.page("customer-billed")
	require.GreaterOrEqual(b.t, b.count("#invoices tbody tr"), 2)
	invoice := evaluate[string](b.tab, `[...document.querySelectorAll("#invoices tbody tr")]
		.find(r => r.innerText.includes("63.50"))?.querySelector("a").innerText ?? ""`)
	require.NotEmpty(b.t, invoice, b.text("#invoices"))
	b.follow(invoice)
	b.reads("main", "API calls")
	b.reads("main", "2,450") // the call that was settled in parts among them
	b.page("invoice")
	b.press("#explain")
	b.reads("#explanation", "it is the same, to the last unit")
	b.page("invoice-explained")
	b.press("#mark-paid button")
	b.answer("confirm-paid")
	b.confirm("The invoice was marked as paid")
	b.reads("main .status", "paid")
	require.Zero(b.t, b.count("#mark-paid"))
	b.page("invoice-paid")
	b.follow("Invoices")
	b.page("invoices")
}

// hearOfIt adds an endpoint for webhooks, and follows a delivery that nobody takes.
func (b *browser) hearOfIt() {
	b.t.Helper()
	b.follow("Developers")
	b.follow("Webhooks")
	b.fill("#url", "http://127.0.0.1:9/hooks")
	b.fill("#about", "the books")
	b.press("#create-webhook button")
	require.True(b.t, strings.HasPrefix(b.text("#secret"), "whsec_"), b.text("main"))
	b.answer("webhook-made")
	b.follow("Webhooks")
	b.page("webhooks")
}
