package owner_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/workspace"
	"tollgate/server/console/owner"
	"tollgate/server/workspaceapi"
)

// linkIn finds the link that a mail asks by.
func linkIn(t *testing.T, text string) string {
	t.Helper()
	form := regexp.MustCompile(regexp.QuoteMeta(origin) + `(/console/confirm/\S+)`)
	found := form.FindStringSubmatch(text)
	require.NotNil(t, found, text)
	return found[1]
}

// TestAnAddressIsAsked: before anything else is mailed there. Opening the link, as mail scanners
// do, confirms nothing; nor does a form of another site. It works once.
func TestAnAddressIsAsked(t *testing.T) {
	s, ws := mine(t)
	flow, page := s.watches(ws)
	set := []string{"on", "true", "email", "team@example.com", "webhook", ""}
	for range 2 { // sent twice, one link is mailed
		require.Equal(t, 303, s.sends(page, append(set, "_once", "1")...).status)
	}
	require.Len(t, s.post.all(), 1)
	asks := s.post.all()[0]
	require.Equal(t, "team@example.com", asks.To)
	body := s.sees(page)
	require.Contains(t, body, "Mails wait until team@example.com is confirmed")
	require.Contains(t, body, "(once it is confirmed)")
	s.deliverAlerts()
	require.Equal(t, 303, s.sends(page+"/test").status)
	require.Contains(t, s.sees(page), `<span class="status unconfirmed">`)

	link, ada := linkIn(t, asks.Text), s.who
	s.who = nil
	for range 3 {
		require.Contains(t, s.sees(link), "Opening this page has changed nothing")
	}
	require.Equal(t, 403, s.ask("POST", link, nil, "Origin", "https://evil.example").status)
	require.Equal(t, 403, s.ask("POST", link, nil, "Sec-Fetch-Site", "cross-site").status)
	require.Equal(t, 404, s.ask("POST", link+"x", nil).status)
	require.Equal(t, 404, s.ask("GET", strings.Replace(link, "flow_", "run_", 1), nil).status)
	require.True(t, s.alertsOf(ws, flow).Unconfirmed)
	require.Len(t, s.post.all(), 1, "nothing else is mailed there")

	a := s.ask("POST", link, nil)
	require.Equal(t, 200, a.status, a.body)
	require.Contains(t, a.body, "Alerts are sent to you from now on")
	require.Equal(t, 404, s.ask("POST", link, nil).status)
	require.Equal(t, 404, s.ask("GET", link, nil).status)
	require.Eventually(t, func() bool {
		return s.alertsOf(ws, flow).Deliveries[0].Status == workspace.DeliveryDelivered
	}, 20*time.Second, 10*time.Millisecond, "what waited goes out")
	require.Equal(t, "team@example.com", s.post.all()[1].To)
	s.who = ada
	require.NotContains(t, s.sees(page), "Mails wait until")
}

// TestLinksThatAskAreCounted: five a day; the one before stops working. One's own address needs
// none.
func TestLinksThatAskAreCounted(t *testing.T) {
	s, ws := mine(t)
	flow, page := s.watches(ws)
	require.Equal(t, 303, s.sends(page, "on", "true", "email", "Ada@example.com", "webhook", "").status)
	require.Empty(t, s.post.all(), "who signs in with an address has it")
	require.Equal(t, 409, s.sends(page+"/confirm").status)
	again := func() answer {
		until := s.alertsOf(ws, flow).LinkUntil
		return s.sends(page+"/confirm", "until", strconv.FormatInt(until, 10))
	}
	require.Equal(t, 303, s.sends(page, "email", "team@example.com", "webhook", "", "_once", "2").status)
	for range workspace.MaxAddressAsks - 1 {
		require.Equal(t, 303, again().status)
	}
	over := again()
	require.Equal(t, 429, over.status)
	require.Contains(t, over.body, "No link was sent")
	mails := s.post.all()
	require.Len(t, mails, workspace.MaxAddressAsks)
	require.Equal(t, 404, s.ask("GET", linkIn(t, mails[0].Text), nil).status)
	s.sees(linkIn(t, mails[len(mails)-1].Text))
}

// TestALinkThatIsNotSentIsSaid: the page says that the mail failed, even when it also shows the
// secret of a new webhook.
func TestALinkThatIsNotSentIsSaid(t *testing.T) {
	s, ws := mine(t)
	_, page := s.watches(ws)
	s.Before(func(kind engine.Kind) engine.Outcome {
		if kind == workspace.KindAskAddress {
			return engine.OutcomeOverloaded
		}
		return engine.OutcomeNone
	})
	set := []string{"on", "true", "email", "team@example.com", "webhook", ""}
	a := s.sends(page, set...)
	require.GreaterOrEqual(t, a.status, 400)
	require.Contains(t, a.body, "The alerts are set")
	require.NotRegexp(t, "Nothing (was changed|happened)", a.body)
	set[3], set[5] = "ops@example.com", "https://acme.example/hook"
	a = s.sends(page, append(set, "_once", "2")...)
	require.Contains(t, a.body, "webhooks are signed with this secret")
	require.Contains(t, a.body, "send it again")
}

// TestALinkIsNotSaidToBeOnItsWayUnlessItIs: not by the form of a page from before, or by a form
// that is sent twice, of which the first mail has failed.
func TestALinkIsNotSaidToBeOnItsWayUnlessItIs(t *testing.T) {
	s, ws := mine(t)
	flow, page := s.watches(ws)
	s.post.refuses = true
	set := []string{"on", "true", "email", "team@example.com", "webhook", "", "_once", "1"}
	require.Equal(t, 503, s.sends(page, set...).status)
	again := s.sends(page, set...)
	require.Equal(t, 303, again.status)
	body := s.sees(string(again.header.Peek("Location")))
	require.Contains(t, body, "If the link does not arrive")

	shown := strconv.FormatInt(s.alertsOf(ws, flow).LinkUntil, 10)
	s.Later(time.Second)
	require.Equal(t, 503, s.sends(page+"/confirm", "until", shown, "_once", "2").status)
	again = s.sends(page+"/confirm", "until", shown, "_once", "2")
	require.Equal(t, 303, again.status)
	body = s.sees(string(again.header.Peek("Location")))
	require.NotContains(t, body, "on its way")
	require.Contains(t, body, `class="notice hint"`)
	require.Contains(t, body, "A link was asked for before")

	s.post.refuses = false
	shown = strconv.FormatInt(s.alertsOf(ws, flow).LinkUntil, 10)
	again = s.sends(page+"/confirm", "until", shown, "_once", "3")
	require.Contains(t, s.sees(string(again.header.Peek("Location"))), "The link is on its way")
	require.Len(t, s.post.all(), 1)
}

// TestHostileTextsWhereAnAddressIsAsked: on the page, and in the mail.
func TestHostileTextsWhereAnAddressIsAsked(t *testing.T) {
	for _, payload := range payloads {
		s := open(t, quiet)
		s.signIn("ada")
		require.Equal(t, 303, s.sends(owner.Root+"/you/workspaces", "label", payload).status)
		s.again()
		id := enginetest.ID("flow")
		s.does(workspace.KindSaveFlow, &workspace.SaveFlow{
			Workspace: s.who.Workspace, ID: id, Document: workspace.FlowDocument{
				Name: payload + "\nhttps://evil.example/", Access: "public",
			},
		})
		page := owner.Root + "/flows/" + workspaceapi.NounFlow.Text(id) + "/alerts"
		require.Equal(t, 303, s.sends(page, "email", "team@example.com", "webhook", "").status)
		text := s.post.all()[0].Text
		require.NotContains(t, text, "https://evil")
		s.sees(linkIn(t, text))
		s.sees(page)
	}
}
