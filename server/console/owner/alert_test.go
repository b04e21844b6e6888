package owner_test

import (
	"context"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine/workspace"
	"tollgate/server/console/owner"
	"tollgate/server/provider/mail"
	"tollgate/server/workspaceapi"
)

// postbox takes mails.
type postbox struct {
	mu   sync.Mutex
	sent []mail.Message
	// refuses is whether no mail is taken.
	refuses bool
}

// Send takes a mail.
func (p *postbox) Send(_ context.Context, m *mail.Message) mail.Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuses {
		return mail.Result{Outcome: mail.Refused, Status: 550, Reason: "the mail server answered 550"}
	}
	p.sent = append(p.sent, *m)
	return mail.Result{Outcome: mail.Delivered, Status: 250}
}

func (p *postbox) all() []mail.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]mail.Message(nil), p.sent...)
}

// deliverAlerts delivers alerts until the test ends.
func (s *site) deliverAlerts() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.api.Alerts.DeliverAlerts(ctx, func() (uint64, bool) { return 1, true })
	}()
	s.t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// watches saves a flow of the visitor's workspace, and returns the address of its alerts.
func (s *site) watches(ws uint32) (flow [16]byte, alerts string) {
	flow = enginetest.ID("watched")
	s.does(workspace.KindSaveFlow, &workspace.SaveFlow{
		Workspace: ws, ID: flow, Document: workspace.FlowDocument{
			Name: "Sign up", URL: "https://acme.example/", Access: "public",
		},
	})
	return flow, owner.Root + "/flows/" + workspaceapi.NounFlow.Text(flow) + "/alerts"
}

func (s *site) alertsOf(ws uint32, flow [16]byte) workspace.AlertsView {
	_, v, _, ok := s.Machine.Alerts(ws, flow)
	require.True(s.t, ok)
	return v
}

// TestAnOwnerSetsAlertsOnAPage: where they go, a test that arrives, and what became of it.
func TestAnOwnerSetsAlertsOnAPage(t *testing.T) {
	s, ws := mine(t)
	flow, page := s.watches(ws)
	require.Contains(t, s.sees(page[:len(page)-len("/alerts")]), "Off: no alerts")
	body := s.sees(page)
	require.Contains(t, body, "Nothing was sent yet")
	require.Contains(t, body, "Set an e-mail address or a webhook first")
	require.NotContains(t, body, "rotate-secret")

	a := s.sends(page, "on", "true", "email", " ada@example.com ", "webhook", "", "_once", "1")
	require.Equal(t, 303, a.status, a.body)
	body = s.sees(string(a.header.Peek("Location")))
	require.Contains(t, body, "The alerts are set")
	require.Contains(t, body, "On: a mail to ada@example.com when this test stops passing")
	require.Contains(t, s.sees(page[:len(page)-len("/alerts")]), "On: a mail to ada@example.com")

	s.deliverAlerts()
	for range 2 { // sent twice, it is one test
		require.Equal(t, 303, s.sends(page+"/test", "_once", "2").status)
	}
	require.Eventually(t, func() bool {
		v := s.alertsOf(ws, flow)
		return len(v.Deliveries) == 1 && v.Deliveries[0].Status == workspace.DeliveryDelivered
	}, 20*time.Second, 10*time.Millisecond)
	require.Len(t, s.post.all(), 1)
	body = s.sees(page)
	require.Contains(t, body, "a test of alerts")
	require.Contains(t, body, `<span class="status delivered">`)
	live := s.ask("GET", page+"/live", nil)
	require.Equal(t, 200, live.status)
	require.NotContains(t, live.body, "<html")
	require.Contains(t, live.body, "data-finished")

	require.Equal(t, 303, s.sends(page, "email", "ada@example.com", "_once", "3").status)
	require.False(t, s.alertsOf(ws, flow).On, "a box that is not ticked is sent as nothing")
	acts, _ := s.Machine.Acts(ws, workspace.Page{Limit: 1})
	require.Equal(t, "ada@example.com", acts[0].Email, "the history has the person")
}

// TestASigningSecretIsShownOnce: by the answer to the form that made it, and by nothing else.
func TestASigningSecretIsShownOnce(t *testing.T) {
	s, ws := mine(t)
	flow, page := s.watches(ws)
	form := regexp.MustCompile(`whsec_[A-Za-z0-9/=&#;]+`) // "+" is &#43; in HTML
	set := func() answer {
		return s.sends(page, "on", "true", "webhook", "https://acme.example/hook", "_once", "1")
	}
	a := set()
	require.Equal(t, 200, a.status, a.body)
	first := form.FindString(a.body)
	require.NotEmpty(t, first)
	require.NotContains(t, s.sees(page), first)
	a = set()
	require.Equal(t, 303, a.status, "the same form again shows nothing")
	require.Equal(t, 303,
		s.sends(page, "on", "true", "webhook", "https://acme.example/hook2", "_once", "2").status,
		"another address keeps its secret")

	sealed := s.alertsOf(ws, flow).Secret
	a = s.sends(page+"/secret", "_once", "3")
	require.Equal(t, 200, a.status, a.body)
	second := form.FindString(a.body)
	require.NotEmpty(t, second)
	require.NotEqual(t, first, second)
	require.Equal(t, sealed, s.alertsOf(ws, flow).Previous)
	a = s.sends(page+"/secret", "_once", "3")
	require.Contains(t, a.body, "This form was sent before")
	require.Empty(t, form.FindString(a.body))
	require.Equal(t, sealed, s.alertsOf(ws, flow).Previous, "and replaces nothing more")
	require.Contains(t, s.sees(page), "the one before signs until")
}

// TestAlertSettingsThatAreRefused: each shows the mistake, keeps its values, and changes nothing.
func TestAlertSettingsThatAreRefused(t *testing.T) {
	s, ws := mine(t)
	flow, page := s.watches(ws)
	long := "https://acme.example/" + strings.Repeat("a", workspace.MaxAlertURL)
	for name, c := range map[string]struct {
		fields []string
		status int
		says   string
	}{
		"no address":      {[]string{"email", "ada"}, 400, "The e-mail address must be an e-mail address"},
		"two addresses":   {[]string{"email", "a@x.example,b@x.example"}, 400, "The e-mail address must be an e-mail address"},
		"a header":        {[]string{"email", "a@x.example\nBcc: b@x.example"}, 400, "The e-mail address must be an e-mail address"},
		"no web address":  {[]string{"webhook", "javascript:alert(1)"}, 400, "must be a public http or https address"},
		"a password":      {[]string{"webhook", "https://u:p@acme.example/"}, 400, "must be a public http or https address"},
		"far too long":    {[]string{"webhook", long}, 400, "The webhook address must have at most 2048 characters"},
		"nowhere":         {[]string{"on", "true"}, 409, "No alert destination is set"},
		"test to nowhere": {[]string{"at", "/test"}, 409, "No alert destination is set"},
		"no secret":       {[]string{"at", "/secret"}, 409, "No alert destination is set"},
	} {
		form := url.Values{"_token": {s.who.Token}, "_once": {name}, "email": {""}, "webhook": {""}}
		for i := 0; i < len(c.fields); i += 2 {
			form.Set(c.fields[i], c.fields[i+1])
		}
		a := s.ask("POST", page+form.Get("at"), form)
		require.Equal(t, c.status, a.status, "%s: %s", name, a.body)
		require.Contains(t, a.body, c.says, name)
		require.Contains(t, a.body, "Nothing was changed", name)
		if c.status == 400 {
			require.Equal(t, 1, strings.Count(a.body, "autofocus"), name)
			require.Contains(t, a.body, `aria-invalid="true" aria-describedby="`+c.fields[0]+`-wrong"`, name)
		}
		require.Zero(t, s.alertsOf(ws, flow), name)
	}
	require.Contains(t, s.sends(page, "on", "true", "email", "ada@", "webhook", "").body,
		`value="ada@"`)
	s.does(workspace.KindSetAlerts, &workspace.SetAlerts{
		Workspace: ws, Flow: flow, HasEmail: true, Email: "ada@example.com",
	})
	for i := range workspace.MaxAlertTests + 1 {
		a := s.sends(page+"/test", "_once", string(rune('a'+i)))
		require.Equal(t, map[bool]int{true: 303, false: 429}[i < workspace.MaxAlertTests], a.status)
	}
}

// TestOnlyTheOwnerSetsAlerts: not another owner, not an agent, not a form of another session.
func TestOnlyTheOwnerSetsAlerts(t *testing.T) {
	s, ws := mine(t)
	flow, page := s.watches(ws)
	ada := *s.who
	fields := []string{"on", "true", "email", "eve@example.com", "webhook", ""}
	for name, who := range map[string]func(){
		"another owner": func() {
			s.signIn("eve")
			require.Equal(t, 303, s.sends(owner.Root+"/you/workspaces", "label", "Eve").status)
			s.again()
		},
		"who says it is theirs": func() { // a session that points at another owner's workspace
			s.signIn("eve")
			s.who.Workspace = ws
		},
		"an agent":     func() { s.who.Agent = true },
		"another form": func() { s.who.Token = "another" },
		"nobody":       func() { s.who = nil },
	} {
		who()
		for _, path := range []string{page, page + "/test", page + "/secret"} {
			form := url.Values{"_token": {ada.Token}, "_once": {name + path}}
			if s.who != nil && name != "another form" {
				form.Set("_token", s.who.Token)
			}
			for i := 0; i < len(fields); i += 2 {
				form.Set(fields[i], fields[i+1])
			}
			a := s.ask("POST", path, form)
			require.Contains(t, []int{401, 403, 404}, a.status, "%s: %s", name, a.body)
		}
		require.Zero(t, s.alertsOf(ws, flow), name)
		again := ada
		s.who = &again
	}
	s.signIn("eve")
	require.Equal(t, 303, s.sends(owner.Root+"/you/workspaces", "label", "Eve 2",
		"_once", "eve 2").status)
	s.again()
	for _, path := range []string{page, page + "/live"} {
		require.Equal(t, 404, s.ask("GET", path, nil).status)
	}
}
