package admin_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// payer is a person in front of a browser: a real one, or one without scripts and styles.
type payer interface {
	// visit opens an address and returns the page's title.
	visit(address string) string
	// pay chooses a card and presses the button; verify answers the bank's question. Both return
	// the title of the page that follows.
	pay(card string) string
	verify(answer string) string
	// alert is what the page says went wrong.
	alert() string
}

// plainPayer sends the forms itself.
type plainPayer struct{ *browser }

func (p *plainPayer) text(mark string) string {
	_, rest, found := strings.Cut(p.page, mark)
	require.True(p.t, found, p.page)
	text, _, _ := strings.Cut(rest, "<")
	return text
}

func (p *plainPayer) visit(address string) string {
	p.open(address)
	return p.text("<h1>")
}

func (p *plainPayer) send(choice url.Values) string {
	if p.press(choice); p.status == 303 {
		p.open(p.address)
	}
	return p.text("<h1>")
}

func (p *plainPayer) pay(card string) string { return p.send(url.Values{"card": {card}}) }
func (p *plainPayer) verify(answer string) string {
	return p.send(url.Values{"verify": {answer}})
}
func (p *plainPayer) alert() string { return p.text(`role="alert">`) }

// TestTheHostedPageWithoutScripts: by its forms alone.
func TestTheHostedPageWithoutScripts(t *testing.T) {
	payAtTheHostedPage(t, func() payer { return &plainPayer{newBrowser(t)} })
}

// payAtTheHostedPage: a person declines, is asked by the bank, refuses, tries again, confirms, and
// comes back to a receipt; the page of a void invoice takes nothing.
func payAtTheHostedPage(t *testing.T, open func() payer) {
	n := start(t)
	key := n.furnish()
	n.call("PUT", sandbox+"payment-provider", `{"provider":"sandbox"}`).is(200, "")
	invoice := n.subscribe(key)["id"].(string)
	void := n.subscribe(key)["id"].(string)
	address := n.checkout(key, invoice).is(200, "").data()["url"].(string)
	voided := n.checkout(key, void).is(200, "").data()["url"].(string)

	p := open() // last, so that it leaves before the listener closes
	require.Equal(t, "Pay Invoice 1", p.visit(address))
	require.Equal(t, "Pay Invoice 1", p.pay("decline"))
	require.Equal(t, "The card was declined. Nothing was charged.", p.alert())
	require.Equal(t, "Confirm Invoice 1", p.pay("authenticate"))
	require.Equal(t, "Pay Invoice 1", p.verify("refuse"))
	require.Equal(t, "The authentication failed. Nothing was charged.", p.alert())
	require.Equal(t, "DUE", n.invoiceStatus(key))
	require.Equal(t, "Confirm Invoice 1", p.pay("authenticate"))
	require.Equal(t, "Paid: Invoice 1", p.verify("confirm"))
	require.Equal(t, "PAID", n.invoiceStatus(key))
	require.Equal(t, "Paid: Invoice 1", p.visit(address), "the address shows the receipt")
	require.Len(t, n.payments(invoice), 1)
	require.Len(t, n.reports(invoice), 2)

	n.call("POST", sandbox+"invoices/"+void+"/void", "").is(200, "")
	if plain, ok := p.(*plainPayer); ok {
		plain.take(plain.http.Get(voided))
		require.Equal(t, 410, plain.status)
		require.Equal(t, "Not payable: Invoice 2", plain.text("<h1>"))
	} else {
		require.Equal(t, "Not payable: Invoice 2", p.visit(voided))
	}
	require.Equal(t, "This invoice takes no payment. Nothing was charged.", p.alert())
	require.Empty(t, n.payments(void))
}
