package console_test

import (
	"html"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestInvoiceDocument: it has a number, seller and customer with their addresses, lines with period
// and quantity, the sums and what is paid; the same as a file.
func TestInvoiceDocument(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	const anna = at + "/customers/anna"
	r := &recorder{browser: b, names: map[string]string{}}
	r.ask(n.programs, "updateCustomer", `{"firstName":"Łukasz","lastName":"Žižek, 東京",`+
		`"address":"Ulica 1, Kraków"}`, "anna")
	invoice := at + "/invoices/" + r.newestInvoice()
	b.get(invoice).is(200, "<strong>demo</strong>", "Anna Berg")
	b.submit(at+"/settings", at+"/settings/seller", fields("name", "Demo Ltd", "address",
		"1 Main St, 0150 Oslo", "email", "pay@demo.example", "taxId", "NO 1")).
		is(200, "The seller was saved", `value="Demo Ltd"`)
	p := b.get(invoice).is(200, "<strong>Demo Ltd</strong>", "<br>0150 Oslo", "Tax number NO 1",
		"<dt>Invoice number</dt><dd>1</dd>", "<dt>Subtotal</dt><dd>20.00 USD</dd>",
		"<dt>Paid</dt><dd>0.00 USD</dd>", "<dt>To pay</dt><dd>20.00 USD</dd>")
	safe(t, p)
	b.submit(anna, anna+"/usage", fields("feature", "calls", "units", "3"))
	b.submit(at+"/clock", at+"/clock", fields("to", n.now().AddDate(0, 1, 1).Format(time.RFC3339)))
	second := at + "/invoices/" + r.newestInvoice()
	p = b.get(second).is(200, "<dt>Invoice number</dt><dd>2</dd>", `data-label="Quantity">3<`,
		"<strong>Demo Ltd</strong>", "Łukasz Žižek, 東京", "<br>Kraków",
		`data-label="Unit price">0.50<`, `data-label="Amount">1.50<`, "<dt>Total</dt><dd>21.50 USD</dd>")
	from := n.now().UTC().Format("2 Jan 2006") + " – "
	require.Equal(t, 2, strings.Count(p.body, from), "the line of usage, and the invoice")
	b.submit(second, second+"/paid", fields("note", ""))
	b.get(second).is(200, `class="stamp PAID">PAID<`, "<dt>Paid</dt><dd>21.50 USD</dd>",
		"<dt>To pay</dt><dd>0.00 USD</dd>")
	b.get(invoice).is(200, `class="stamp PAST DUE">PAST DUE<`)

	for _, path := range []string{invoice, second} {
		file := b.get(path + "/pdf").is(200)
		require.Equal(t, "application/pdf", file.header.Get("Content-Type"))
		require.Contains(t, file.header.Get("Content-Disposition"), "demo-invoice-")
		require.True(t, strings.HasPrefix(file.body, "%PDF-"))
		require.Equal(t, file.body, b.get(path+"/pdf").body)
	}
	b.get(at + "/invoices/01a21803-0000-7000-8000-000000000000/pdf").is(404)
}

// TestTheOldestDebtIsFirst: of the whole list, whatever the order of issue, page by page.
func TestTheOldestDebtIsFirst(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	r := &recorder{browser: b, names: map[string]string{}}
	for i := range 60 {
		id := "c" + strconv.Itoa(100+i)
		b.submit(at+"/customers", at+"/customers", fields("id", id, "first", "C", "last", "C",
			"email", "c@c.example"))
		r.ask(n.programs, "createSubscription", `{"customerReferenceId":"`+id+`","planId":"team"}`)
	}
	r.ask(n.admin, "advanceClock", `{"advanceTo":"`+
		n.now().AddDate(0, 0, 20).UTC().Format(time.RFC3339)+`"}`, "demo", "sandbox")
	due := regexp.MustCompile(`>Invoice (\d+)</a>`)
	var numbers []string
	second := "" // the address of the second page
	for next := at + "/invoices?status=PAST_DUE"; next != ""; {
		p := b.get(next).is(200)
		for _, m := range due.FindAllStringSubmatch(p.body, -1) {
			numbers = append(numbers, m[1])
		}
		if strings.Contains(next, "cursor=") {
			second = next
		}
		next = ""
		if m := regexp.MustCompile(`href="([^"]+)" rel="next"`).FindStringSubmatch(p.body); m != nil {
			next = html.UnescapeString(m[1])
			require.Contains(t, next, "status=PAST_DUE")
		}
	}
	require.Len(t, numbers, 61)
	require.Equal(t, "1", numbers[0])
	require.Equal(t, "61", numbers[60])

	// A list whose order has changed since the page before begins again, and says so.
	require.NotContains(t, b.get(second).is(200).body, `id="restarted"`)
	other := regexp.MustCompile(`cursor=([^&]+)`).FindStringSubmatch(second)[1]
	for query, first := range map[string]string{
		"status=PAST_DUE&cursor=50": "1", "status=DUE&cursor=" + other: "", "cursor=" + other: "61",
	} {
		p := b.get(at+"/invoices?"+query).is(200, `id="restarted"`)
		if first != "" {
			require.Equal(t, first, due.FindStringSubmatch(p.body)[1], query)
		}
	}
}

// TestAnInvoiceKeepsItsParties: those that it was issued by and to, in the PDF's bytes, too.
func TestAnInvoiceKeepsItsParties(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	seller := func(name string) {
		b.submit(at+"/settings", at+"/settings/seller", fields("name", name, "address", "1 Main St"))
	}
	invoice := at + "/invoices/" + (&recorder{browser: b}).newestInvoice()
	seller("First Ltd")
	b.get(invoice).is(200, "First Ltd", "Anna Berg")
	r := &recorder{browser: b, names: map[string]string{}}
	r.ask(n.admin, "advanceClock", `{"advanceTo":"`+
		n.now().AddDate(0, 0, 3).UTC().Format(time.RFC3339)+`"}`, "demo", "sandbox")
	file := b.get(invoice + "/pdf").is(200).body
	seller("Second Ltd")
	const anna = at + "/customers/anna"
	b.submit(anna, anna+"/details", fields("first", "Anna", "last", "Lind",
		"email", "anna@example.com", "phone", "", "address", "2 High St"))
	p := b.get(invoice).is(200, "First Ltd", "Anna Berg")
	require.NotContains(t, p.body, "High St")
	require.Equal(t, file, b.get(invoice+"/pdf").body)
	b.submit(anna, anna+"/subscriptions", fields("plan", "team"))
	newest := at + "/invoices/" + r.newestInvoice()
	b.get(newest).is(200, "Second Ltd", "Anna Lind", "2 High St")
}

// TestAllInvoices: the environment's invoices by state and by customer.
func TestAllInvoices(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	b.submit(at+"/customers", at+"/customers", fields("id", "bob", "first", "Bob", "last", "B",
		"email", "b@b.example"))
	bob := at + "/customers/bob"
	b.submit(bob, bob+"/subscriptions", fields("plan", "team"))
	b.submit(at+"/clock", at+"/clock", fields("to", n.now().AddDate(0, 0, 8).Format(time.RFC3339)))
	invoice := at + "/invoices/" + (&recorder{browser: b}).newestInvoice()
	b.submit(invoice, invoice+"/paid", fields("note", ""))
	rows := func(query string) int {
		p := b.get(at + "/invoices" + query).is(200)
		safe(t, p)
		return strings.Count(p.body, `<th scope="row">`)
	}
	require.Equal(t, 2, rows(""))
	require.Equal(t, 1, rows("?status=PAST_DUE"))
	require.Equal(t, 1, rows("?status=PAID"))
	require.Zero(t, rows("?status=VOID"))
	require.Equal(t, 1, rows("?customer=bob"))
	require.Zero(t, rows("?customer=bob&status=PAID"))
	require.Zero(t, rows("?customer=nobody"))
	b.get(at+"/invoices?status=PAST_DUE").is(200, "Invoice 2", "past due", bob)
	b.get(at + "/invoices?status=none").is(400)
	b.get(at+"/overview").is(200, at+"/invoices?status=PAST_DUE")
}

// TestSettings: forms are refused with their values, and what is saved is shown.
func TestSettings(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox/settings"
	safe(t, b.get(at).is(200, `value="7"`, "invoices are marked as paid by hand", "Test clock"))
	b.submit(at, at+"/terms", fields("paymentTermDays", "30", "settleMinutes", "60")).
		is(200, "The payment terms were saved", `value="30"`)
	p := b.send(at+"/terms", b.fill(at, fields("paymentTermDays", "400", "settleMinutes", "5")))
	p.is(400, `value="400"`, `id="days-wrong"`, "from 0 to 365")
	safe(t, p)
	b.submit(at, at+"/origins", fields("origins", "https://a.example\n https://b.example")).
		is(200, "The allowed origins were saved", "https://b.example")
	b.send(at+"/origins", b.fill(at, fields("origins", "nonsense"))).
		is(400, "nonsense", "must be an origin")
	require.NotContains(t, b.get("/console/accounts/demo/live/settings").is(200).body, "Test clock")
}

// TestTheLogo: it is uploaded, stays when the colour is saved alone, and is removed. Files of other
// kinds are refused.
func TestTheLogo(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox/settings"
	const png = "\x89PNG\r\n\x1a\n\x00\xff"
	b.submit(at, at+"/portal", fields("colour", "#004080", "logo", png)).
		is(200, "The portal was saved", "your logo", "Remove the logo")
	require.Equal(t, png, string(n.Machine.PortalLook(n.environment()).Logo))
	b.submit(at, at+"/portal", fields("colour", "#17645a"))
	require.Equal(t, png, string(n.Machine.PortalLook(n.environment()).Logo))
	p := b.send(at+"/portal", b.fill(at, fields("colour", "#17645a", "logo", "<svg>"))).
		is(400, "PNG, JPEG or WebP", `id="logo-wrong"`)
	safe(t, p)
	b.send(at+"/portal", b.fill(at, fields("logo", png+strings.Repeat("x", 33<<10)))).is(400)
	b.send(at+"/portal", b.fill(at, fields("logo", strings.Repeat("x", 70<<10)))).is(413)
	b.submit(at, at+"/portal", fields("remove", "yes"))
	require.Empty(t, n.Machine.PortalLook(n.environment()).Logo)
}
