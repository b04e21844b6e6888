package owner_test

import (
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine/workspace"
	"tollgate/server/console/owner"
	"tollgate/server/workspaceapi"
)

// paying approves a purchase of two runs, and returns its page and the provider's payment page.
func (s *site) paying(ws uint32) (purchase, payment string) {
	s.t.Helper()
	s.asks(ws, "first")
	purchase = owner.Root + "/purchases/" + workspaceapi.NounPurchase.Text(enginetest.ID("first"))
	require.Equal(s.t, 303, s.sends(purchase, "action", "approve").status)
	payment = strings.TrimPrefix(s.purchase("first").URL, origin)
	require.True(s.t, strings.HasPrefix(payment, "/pay/workspace/"), payment)
	return purchase, payment
}

// pays sends the form of the payment page.
func (s *site) pays(payment string) answer {
	s.t.Helper()
	return s.ask("POST", payment, url.Values{"attempt": {"attempt-1"}, "card": {"success"}})
}

// leadsTo finds the address of a link.
func leadsTo(t *testing.T, body, words string) string {
	t.Helper()
	found := regexp.MustCompile(`href="([^"]+)"[^>]*>` + words).FindStringSubmatch(body)
	require.NotNil(t, found, body)
	return strings.TrimPrefix(found[1], origin)
}

// TestBackAfterPaying: the provider's page leads back to the purchase's. Going back to any page on
// the way, and sending any of their forms again, shows that it is paid, and charges nothing.
func TestBackAfterPaying(t *testing.T) {
	s, ws := mine(t)
	purchase, payment := s.paying(ws)
	require.Contains(t, s.sees(purchase), `id="pay"`)
	back := leadsTo(t, s.ask("GET", payment, nil).body, "Cancel and return")
	require.Equal(t, 303, s.ask("GET", back, nil).status, "who does not pay comes back, too")
	require.Contains(t, s.sees(purchase), "Nothing is charged yet")

	a := s.pays(payment)
	require.Equal(t, 303, a.status, a.body)
	require.Equal(t, payment, strings.TrimPrefix(string(a.header.Peek("Location")), origin))
	paid := s.ask("GET", payment, nil)
	require.Contains(t, paid.body, "This invoice is paid")
	back = leadsTo(t, paid.body, "Return to")
	a = s.ask("GET", back, nil)
	require.Equal(t, 303, a.status)
	require.Equal(t, purchase+"?done=payment", string(a.header.Peek("Location")))
	body := s.sees(purchase + "?done=payment")
	require.Contains(t, body, "You are back from the payment page")
	require.Contains(t, body, "The purchase is paid, and the runs are there")

	for range 3 {
		again := s.pays(payment)
		require.Equal(t, 200, again.status)
		require.Contains(t, again.body, "This invoice is paid")
		require.Equal(t, 303, s.sends(purchase, "action", "approve").status)
		body = s.sees(purchase)
		require.NotContains(t, body, `id="pay"`)
		require.NotContains(t, body, "<button id=\"approve\"")
		require.Contains(t, s.ask("GET", payment, nil).body, "This invoice is paid")
	}
	account, _ := s.Machine.Account(ws, 0)
	require.EqualValues(t, 2, account.RunsLeft)
	require.EqualValues(t, 1000, account.SpentCents)
	bought := s.purchase("first")
	require.Equal(t, workspace.PurchaseSucceeded, bought.Status)
	require.Empty(t, bought.Returns, "there was one payment")
}

// TestTheWayBackIsOurs: others than the purchase's owner see nothing of it, and nothing in the
// address leads elsewhere.
func TestTheWayBackIsOurs(t *testing.T) {
	s, ws := mine(t)
	_, payment := s.paying(ws)
	back := leadsTo(t, s.ask("GET", payment, nil).body, "Cancel and return")
	ada := s.who
	s.who = nil
	seen := s.sees(back)
	require.Contains(t, seen, "You may close this page")
	require.NotContains(t, seen, "Acme")
	require.Equal(t,
		owner.Root+"/purchases/"+workspaceapi.NounPurchase.Text(enginetest.ID("first")),
		leadsTo(t, seen, "To the purchase"))
	s.signIn("eve")
	require.Equal(t, seen, s.sees(back))
	agent := *ada
	agent.Agent = true
	s.who = &agent
	require.Equal(t, seen, s.sees(back))
	unknown := workspaceapi.ReturnPath +
		workspaceapi.NounPurchase.Text(enginetest.ID("no purchase"))
	require.Equal(t, 200, s.ask("GET", unknown, nil).status, "one that is there looks like one that is not")

	s.who = ada
	for _, path := range []string{
		workspaceapi.ReturnPath + "https:%2f%2fevil.example",
		workspaceapi.ReturnPath + "%2f%2fevil.example",
		workspaceapi.ReturnPath + "pur_x", back + "?return=https://evil.example",
		back + "?done=//evil.example",
	} {
		a := s.ask("GET", path, nil)
		require.NotContains(t, string(a.header.Peek("Location")), "evil", path)
		require.NotContains(t, a.body, "evil.example", path)
		require.Contains(t, []int{303, 404}, a.status, path)
	}
}
