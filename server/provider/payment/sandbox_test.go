package payment_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"tollgate/server/provider/fetch"
	"tollgate/server/provider/payment"
)

const (
	sandboxSecret = "0123456789abcdef0123456789abcdef"
	pageURL       = "http://127.0.0.1:8080/pay/demo/"
)

// counter is the receiving end: it takes a payment as the server will, once for each event.
type counter struct {
	sandbox *payment.Sandbox
	now     time.Time
	state   payment.InvoiceState
	down    error
	// webhooks are all that came, events those that were new.
	webhooks []signed
	events   []payment.Event
	seen     map[string]bool
}

func newCounter(t testing.TB) *counter {
	t.Helper()
	c := &counter{now: noon, seen: map[string]bool{}}
	var err error
	c.sandbox, err = payment.NewSandbox(payment.SandboxConfig{
		Secret: sandboxSecret, PageURL: pageURL, Receive: c.receive,
		Invoice: func(context.Context, string) (payment.InvoiceState, error) {
			return c.state, c.down
		},
		Now: func() time.Time { return c.now },
	})
	require.NoError(t, err)
	return c
}

func (c *counter) receive(_ context.Context, header func(string) string, body []byte) error {
	event, err := c.sandbox.ParseWebhook(c.now, header, body)
	if err != nil {
		return err
	}
	kept := http.Header{}
	for _, name := range []string{"webhook-id", "webhook-timestamp", "webhook-signature"} {
		kept.Set(name, header(name))
	}
	c.webhooks = append(c.webhooks, signed{kept, body})
	if !c.seen[event.ID] {
		c.seen[event.ID] = true
		c.events = append(c.events, event)
	}
	if event.Kind == payment.EventPaid {
		c.state = payment.InvoicePaid
	}
	return nil
}

// token makes a checkout and returns its URL's token.
func (c *counter) token(t *testing.T, r payment.CheckoutRequest) string {
	t.Helper()
	made, err := c.sandbox.CreateCheckout(t.Context(), r)
	require.NoError(t, err)
	token, found := strings.CutPrefix(made.URL, pageURL)
	require.True(t, found)
	return token
}

func form(pairs ...string) url.Values {
	values := url.Values{"attempt": {"A1"}}
	for i := 0; i < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	return values
}

func sandboxSubject(t *testing.T) subject {
	c := newCounter(t)
	return subject{
		provider: c.sandbox, card: "card_sandbox_success",
		paid: func(t *testing.T, _ payment.CheckoutRequest, made payment.Checkout) signed {
			token := strings.TrimPrefix(made.URL, pageURL)
			require.Equal(t, 303, c.sandbox.Act(t.Context(), token, form("card", "success")).Status)
			return c.webhooks[len(c.webhooks)-1]
		},
		repeats: true,
	}
}

func TestSandboxPays(t *testing.T) {
	c := newCounter(t)
	token := c.token(t, request())
	page := c.sandbox.Page(t.Context(), token)
	require.Equal(t, 200, page.Status)
	require.Contains(t, string(page.Body), "1234.56 USD")
	require.Empty(t, c.webhooks, "showing changes nothing")

	answer := c.sandbox.Act(t.Context(), token, form("card", "success"))
	require.Equal(t, 303, answer.Status)
	require.Equal(t, pageURL+token, answer.Header["Location"])
	require.Len(t, c.events, 1)

	receipt := c.sandbox.Page(t.Context(), token)
	require.Equal(t, 200, receipt.Status)
	require.Contains(t, string(receipt.Body), `href="https://shop.example/thanks?a=b&amp;c=d"`)
	require.NotContains(t, string(receipt.Body), "<form")
	require.Equal(t, 200, c.sandbox.Act(t.Context(), token, form("card", "success")).Status)
	require.Len(t, c.webhooks, 1, "a paid invoice is not paid again")

	// Two tabs at once: the second still sees an open invoice.
	c.state = payment.InvoiceOpen
	c.now = c.now.Add(time.Second)
	other := form("verify", "confirm", "attempt", "A2")
	require.Equal(t, 303, c.sandbox.Act(t.Context(), token, other).Status)
	require.Len(t, c.webhooks, 2)
	require.Len(t, c.events, 1, "the payment of one checkout is one event")
}

func TestSandboxDeclinesAndAuthenticates(t *testing.T) {
	c := newCounter(t)
	token := c.token(t, request())
	answer := c.sandbox.Act(t.Context(), token, form("card", "decline"))
	require.Equal(t, 402, answer.Status)
	require.Contains(t, string(answer.Body), "declined")
	require.Contains(t, string(answer.Body), "<form", "it can be tried again")
	require.Equal(t, payment.EventFailed, c.events[0].Kind)
	require.Equal(t, 402, c.sandbox.Act(t.Context(), token, form("card", "decline")).Status)
	require.Len(t, c.events, 1, "the same form again is the same event")
	second := form("card", "decline", "attempt", "A2")
	require.Equal(t, 402, c.sandbox.Act(t.Context(), token, second).Status)
	require.Len(t, c.events, 2, "another attempt is another")

	answer = c.sandbox.Act(t.Context(), token, form("card", "authenticate"))
	require.Equal(t, 200, answer.Status)
	require.Contains(t, string(answer.Body), `value="confirm"`)
	require.Len(t, c.events, 2)
	refused := c.sandbox.Act(t.Context(), token, form("verify", "refuse", "attempt", "A3"))
	require.Equal(t, 402, refused.Status)
	require.Equal(t, payment.EventFailed, c.events[2].Kind)
	require.Equal(t, 303, c.sandbox.Act(t.Context(), token, form("verify", "confirm")).Status)
	require.Equal(t, payment.EventPaid, c.events[3].Kind)

	for _, bad := range []url.Values{
		{},
		form(), form("card", "gold"), form("verify", "maybe"), form("attempt", "a b"),
		form("card", "success", "attempt", strings.Repeat("a", 65)),
	} {
		c.state = payment.InvoiceOpen
		require.Equal(t, 400, c.sandbox.Act(t.Context(), token, bad).Status)
	}
	require.Len(t, c.events, 4)
}

// Money that was not recorded was not charged, as the page shows.
func TestSandboxWhileTheServerCannotRecord(t *testing.T) {
	c := newCounter(t)
	token := c.token(t, request())
	c.down = errors.New("no quorum")
	for _, answer := range []payment.Answer{
		c.sandbox.Page(t.Context(), token),
		c.sandbox.Act(t.Context(), token, form("card", "success")),
	} {
		require.Equal(t, 503, answer.Status)
		require.Contains(t, string(answer.Body), "Nothing was charged")
	}
	sandbox, err := payment.NewSandbox(payment.SandboxConfig{
		Secret: sandboxSecret, PageURL: pageURL, Now: func() time.Time { return noon },
		Receive: func(context.Context, func(string) string, []byte) error { return c.down },
		Invoice: func(context.Context, string) (payment.InvoiceState, error) {
			return payment.InvoiceOpen, nil
		},
	})
	require.NoError(t, err)
	for _, card := range []string{"success", "decline"} {
		answer := sandbox.Act(t.Context(), token, form("card", card))
		require.Equal(t, 503, answer.Status)
		require.Contains(t, string(answer.Body), "<form")
	}
	require.Empty(t, c.events)
}

func TestSandboxTokens(t *testing.T) {
	c := newCounter(t)
	token := c.token(t, request())
	payload, mac, _ := strings.Cut(token, ".")
	plain, err := base64.RawURLEncoding.DecodeString(payload)
	require.NoError(t, err)
	cheaper := base64.RawURLEncoding.EncodeToString(
		[]byte(strings.Replace(string(plain), `"a":123456`, `"a":1`, 1)))
	require.NotEqual(t, payload, cheaper)
	for _, bad := range []string{
		"", ".", payload, payload + ".", "." + mac, cheaper + "." + mac, token + "A", token + "=",
		token[1:], payload + "." + mac[:42] + "\n", strings.Repeat("A", 9000) + "." + mac,
	} {
		require.Equal(t, 404, c.sandbox.Page(t.Context(), bad).Status, bad)
		require.Equal(t, 404, c.sandbox.Act(t.Context(), bad, form("card", "success")).Status, bad)
	}
	other, err := payment.NewSandbox(payment.SandboxConfig{
		Secret: sandboxSecret + "x", PageURL: pageURL, Receive: c.receive,
		Invoice: func(context.Context, string) (payment.InvoiceState, error) { return 0, nil },
		Now:     func() time.Time { return noon },
	})
	require.NoError(t, err)
	require.Equal(t, 404, other.Page(t.Context(), token).Status, "another environment's")

	c.state = payment.InvoiceClosed
	require.Equal(t, 410, c.sandbox.Act(t.Context(), token, form("card", "success")).Status)
	c.state = payment.InvoiceOpen
	c.now = noon.Add(payment.CheckoutLife - 1)
	require.Equal(t, 200, c.sandbox.Page(t.Context(), token).Status)
	c.now = noon.Add(payment.CheckoutLife)
	require.Equal(t, 410, c.sandbox.Page(t.Context(), token).Status)
	require.Equal(t, 410, c.sandbox.Act(t.Context(), token, form("card", "success")).Status)
	require.Empty(t, c.webhooks)
	c.state = payment.InvoicePaid
	require.Equal(t, 200, c.sandbox.Page(t.Context(), token).Status, "a receipt does not expire")
}

func TestSandboxPolls(t *testing.T) {
	c := newCounter(t)
	made, err := c.sandbox.CreateCheckout(t.Context(), request())
	require.NoError(t, err)
	c.now = noon.Add(payment.CheckoutLife)
	status, err := c.sandbox.Checkout(t.Context(), made.ID)
	require.NoError(t, err)
	require.Equal(t, payment.StateExpired, status.State)
	for _, bad := range []string{
		"", "cs_sandbox_", made.ID[:len(made.ID)-1], made.ID + "A", "cs_1",
		made.ID[:11] + "B" + made.ID[12:],
	} {
		_, err := c.sandbox.Checkout(t.Context(), bad)
		var missing *payment.Error
		require.ErrorAs(t, err, &missing, bad)
		require.Equal(t, payment.ClassNotFound, missing.Class)
	}
}

// A checkout that differs in anything is another one.
func TestSandboxCheckoutsDiffer(t *testing.T) {
	c := newCounter(t)
	ids := map[string]bool{}
	for _, change := range []func(*payment.CheckoutRequest){
		func(*payment.CheckoutRequest) {},
		func(r *payment.CheckoutRequest) { r.Amount.Minor++ },
		func(r *payment.CheckoutRequest) { r.Amount.Currency = "EUR" },
		func(r *payment.CheckoutRequest) { r.InvoiceID += "x" },
		func(r *payment.CheckoutRequest) { r.IdempotencyKey += "x" },
		func(r *payment.CheckoutRequest) { r.SuccessURL += "x" },
		func(r *payment.CheckoutRequest) { r.CancelURL += "x" },
		func(r *payment.CheckoutRequest) { r.Description += "x" },
		func(r *payment.CheckoutRequest) { r.RequestedAt = noon.Add(time.Second) },
	} {
		r := request()
		change(&r)
		made, err := c.sandbox.CreateCheckout(t.Context(), r)
		require.NoError(t, err)
		require.False(t, ids[made.ID])
		ids[made.ID] = true
	}
	var refused *payment.Error
	r := request()
	r.Description = "\xff"
	_, err := c.sandbox.CreateCheckout(t.Context(), r)
	require.ErrorAs(t, err, &refused)
	// The longest addresses fit a token; those that grow when they are quoted are refused.
	r = request()
	r.SuccessURL = "https://a.example/" + strings.Repeat("a", 2030)
	r.CancelURL = r.SuccessURL
	require.Equal(t, 200, c.sandbox.Page(t.Context(), c.token(t, r)).Status)
	r.SuccessURL = "https://a.example/" + strings.Repeat(`"`, 2030)
	r.CancelURL = r.SuccessURL
	_, err = c.sandbox.CreateCheckout(t.Context(), r)
	require.ErrorAs(t, err, &refused)
}

func TestSandboxSettings(t *testing.T) {
	const key = sandboxSecret
	receive := func(context.Context, func(string) string, []byte) error { return nil }
	invoice := func(context.Context, string) (payment.InvoiceState, error) { return 0, nil }
	for name, config := range map[string]payment.SandboxConfig{
		"short secret": {Secret: "short", PageURL: pageURL, Receive: receive, Invoice: invoice},
		"no slash":     {Secret: key, PageURL: "http://a/b", Receive: receive, Invoice: invoice},
		"no URL":       {Secret: key, PageURL: "/pay/", Receive: receive, Invoice: invoice},
		"no receiver":  {Secret: sandboxSecret, PageURL: pageURL, Invoice: invoice},
		"no invoices":  {Secret: sandboxSecret, PageURL: pageURL, Receive: receive},
	} {
		_, err := payment.NewSandbox(config)
		require.Error(t, err, name)
	}
}

// pages renders every page that a payer can see.
func pages(t *testing.T) map[string]payment.Answer {
	t.Helper()
	c := newCounter(t)
	r := request()
	r.Description = `<script>alert("x")</script>`
	token := c.token(t, r)
	all := map[string]payment.Answer{
		"pay":      c.sandbox.Page(t.Context(), token),
		"verify":   c.sandbox.Act(t.Context(), token, form("card", "authenticate")),
		"declined": c.sandbox.Act(t.Context(), token, form("card", "decline")),
		"unknown":  c.sandbox.Page(t.Context(), "x"),
	}
	c.state = payment.InvoicePaid
	all["paid"] = c.sandbox.Page(t.Context(), token)
	c.state = payment.InvoiceClosed
	all["closed"] = c.sandbox.Page(t.Context(), token)
	return all
}

func TestSandboxPagesAreSafeAndAccessible(t *testing.T) {
	for name, page := range pages(t) {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, "no-store", page.Header["Cache-Control"])
			require.Equal(t, "no-referrer", page.Header["Referrer-Policy"])
			policy := page.Header["Content-Security-Policy"]
			require.Contains(t, policy, "default-src 'none'")
			require.NotContains(t, policy, "unsafe")
			require.NotContains(t, string(page.Body), "<script")
			require.NotContains(t, string(page.Body), "ZgotmplZ")
			document, err := html.Parse(strings.NewReader(string(page.Body)))
			require.NoError(t, err)
			seen := map[string]int{}
			for node := range document.Descendants() {
				if node.Type != html.ElementNode {
					continue
				}
				seen[node.Data]++
				attributes := map[string]string{}
				for _, a := range node.Attr {
					require.False(t, strings.HasPrefix(a.Key, "on") || a.Key == "style", a.Key)
					attributes[a.Key] = a.Val
				}
				switch node.Data {
				case "html":
					require.Equal(t, "en", attributes["lang"])
				case "style":
					sum := sha256.Sum256([]byte(node.FirstChild.Data))
					require.Contains(t, policy, base64.StdEncoding.EncodeToString(sum[:]))
				case "input":
					require.True(t, attributes["type"] == "hidden" || node.Parent.Data == "label")
				case "form":
					require.Equal(t, "post", attributes["method"])
					require.Empty(t, attributes["action"], "a form goes to its own page")
				}
			}
			require.Equal(t, 1, seen["h1"])
			require.Equal(t, 1, seen["main"])
			require.Equal(t, 1, seen["title"])
			require.Equal(t, 1, seen["style"])
			require.Equal(t, 2, seen["meta"]-1)
		})
	}
}

func fuzzFetch(f *testing.F) *fetch.Client {
	f.Helper()
	client, err := fetch.New(fetch.Config{})
	require.NoError(f, err)
	return client
}

func FuzzSandbox(f *testing.F) {
	c := newCounter(f)
	made, err := c.sandbox.CreateCheckout(f.Context(), request())
	require.NoError(f, err)
	good := strings.TrimPrefix(made.URL, pageURL)
	f.Add(good, made.ID, "v1,AAAA", []byte("{}"))
	f.Add(".", "cs_sandbox_", "", []byte("null"))
	f.Fuzz(func(t *testing.T, token, id, signature string, body []byte) {
		if token != good {
			require.Equal(t, 404, c.sandbox.Page(t.Context(), token).Status)
		}
		if id != made.ID {
			_, err := c.sandbox.Checkout(t.Context(), id)
			require.Error(t, err)
		}
		_, err := c.sandbox.ParseWebhook(noon, func(name string) string {
			return map[string]string{
				"webhook-id": "msg_1", "webhook-timestamp": "1772366400",
				"webhook-signature": signature,
			}[name]
		}, body)
		require.Error(t, err)
	})
}
