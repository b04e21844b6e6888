package workspaceapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/workspace"
	"tollgate/server/provider/fetch"
	"tollgate/server/provider/mail"
	"tollgate/server/provider/webhook"
)

// postbox takes mails.
type postbox struct {
	mu   sync.Mutex
	sent []mail.Message
	// answer is asked what becomes of a mail; nil takes all.
	answer func(m *mail.Message) mail.Result
}

func (p *postbox) Send(_ context.Context, m *mail.Message) mail.Result {
	p.mu.Lock()
	p.sent = append(p.sent, *m)
	answer := p.answer
	p.mu.Unlock()
	if answer == nil {
		return mail.Result{Outcome: mail.Delivered, Status: 250}
	}
	return answer(m)
}

func (p *postbox) all() []mail.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]mail.Message(nil), p.sent...)
}

// hook is a receiver of webhooks.
type hook struct {
	server *httptest.Server
	mu     sync.Mutex
	status int
	got    []hooked
}

type hooked struct {
	header http.Header
	body   []byte
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.got = append(h.got, hooked{r.Header.Clone(), body})
	}
	w.WriteHeader(h.status)
}

func (h *hook) all() []hooked {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]hooked(nil), h.got...)
}

func (h *hook) answers(status int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status = status
}

// watched is a claimed workspace with a flow, whose alerts can be sent.
type watched struct {
	*caller
	flow string
	post *postbox
	hook *hook
	runs int
}

func watch(t *testing.T, settings ...func(*Config)) *watched {
	t.Helper()
	w := &watched{post: &postbox{}, hook: &hook{status: 204}}
	w.hook.server = httptest.NewServer(w.hook)
	t.Cleanup(w.hook.server.Close)
	client, err := fetch.New(fetch.Config{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		AllowHosts:   []string{strings.TrimPrefix(w.hook.server.URL, "http://")},
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	now := time.Now // until there is a node, whose clock it then is
	hooks := webhook.NewSender(client, func() time.Time { return now() })
	n := start(t, append([]func(*Config){func(c *Config) {
		c.Mail, c.Hooks, c.Check = w.post, hooks, client.CheckAt
	}}, settings...)...)
	now = n.Now
	n.policy(func(p *workspace.SetPolicy) { p.RunsPerDay, p.FreeRunsPerMonth = 100, 100 })
	w.caller = n.signUp("")
	w.claim()
	w.flow = w.caller.flow(plainFlow)
	return w
}

// deliverAlerts delivers alerts until the test ends, and returns what ends it before.
func (w *watched) deliverAlerts() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.api.Alerts.DeliverAlerts(ctx, leads)
	}()
	end = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	w.t.Cleanup(end)
	return end
}

// comes lets the next run come to something.
func (w *watched) comes(to string) {
	w.t.Helper()
	w.runs++
	w.comesTo(w.flow, fmt.Sprint("start-run-", w.runs), to)
}

func (w *watched) tell(tool, body string) answer {
	w.t.Helper()
	return w.operate("/flows/"+w.flow+"/alerts"+tool, body)
}

// deliveries are in the order in which they were made.
func (w *watched) deliveries() (all []string) {
	w.t.Helper()
	list := w.call("GET", "/v1/flows/"+w.flow+"/alerts", "").is(200, "").at("deliveries").([]any)
	for i := len(list) - 1; i >= 0; i-- {
		d := list[i].(map[string]any)
		all = append(all, fmt.Sprint(d["kind"], " ", d["channel"], " ", d["status"], " ", d["attempts"]))
	}
	return all
}

// soon waits for a condition.
func (w *watched) soon(holds func() bool) {
	w.t.Helper()
	require.Eventually(w.t, holds, 20*time.Second, 10*time.Millisecond)
}

func (w *watched) becomes(want ...string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		return fmt.Sprint(w.deliveries()) == fmt.Sprint(want)
	}, 20*time.Second, 10*time.Millisecond, "%v", want)
}

// TestAlertsAreSent: one mail and one webhook for each change of the watch, signed with the secret
// that its owner was shown, and with the one before for a day.
func TestAlertsAreSent(t *testing.T) {
	t.Parallel()
	w := watch(t)
	set := w.tell("", `{"on":true,"email":"ada@example.com","webhookUrl":"`+w.hook.server.URL+`"}`)
	secret := set.told("secret").(string)
	require.Equal(t, "ada@example.com", set.told("settings", "email"))
	w.deliverAlerts()
	w.comes("passed")
	w.comes("blocked")
	w.becomes("failing email delivered 1", "failing webhook delivered 1")
	w.comes("blocked")
	w.comes("passed")
	w.becomes("failing email delivered 1", "failing webhook delivered 1",
		"recovered email delivered 1", "recovered webhook delivered 1")

	mails, hooks := w.post.all(), w.hook.all()
	require.Len(t, mails, 2)
	require.Len(t, hooks, 2)
	require.Equal(t, "ada@example.com", mails[0].To)
	require.Contains(t, mails[0].Text, "reported as failed")
	require.Contains(t, mails[1].Subject, "Passes again")
	require.True(t, strings.HasPrefix(mails[0].ID, markAlert))
	verifies := func(secret string, h hooked) bool {
		verifier, err := standard.NewWebhook(secret)
		require.NoError(t, err)
		return verifier.Verify(h.body, h.header) == nil
	}
	require.True(t, verifies(secret, hooks[0]))
	var body struct {
		Type string
		Data struct {
			Flow struct{ ID, Name string }
			Run  map[string]string
		}
	}
	require.NoError(t, json.Unmarshal(hooks[0].body, &body))
	require.Equal(t, "alert.failing", body.Type)
	require.Equal(t, w.flow, body.Data.Flow.ID)
	require.Equal(t, "failed", body.Data.Run["reportedAs"])
	require.Equal(t, "blocked", body.Data.Run["outcome"])

	next := w.tell("/secret", "").told("secret").(string)
	require.NotEqual(t, secret, next)
	w.tell("/test", "")
	w.soon(func() bool { return len(w.hook.all()) == 3 })
	require.True(t, verifies(secret, w.hook.all()[2]) && verifies(next, w.hook.all()[2]))
	require.False(t, verifies(next, hooks[0]))
	require.NotContains(t, w.group.Log(), secret, "the log holds it sealed")
	require.NotContains(t, w.group.Log(), next)
}

// TestTheSecretBeforeSignsForADay: a secret that was replaced signs beside the new one for 24
// hours, and not longer; one that was replaced before that signs no more.
func TestTheSecretBeforeSignsForADay(t *testing.T) {
	t.Parallel()
	w := watch(t)
	first := w.tell("", `{"on":true,"webhookUrl":"`+w.hook.server.URL+`"}`).told("secret").(string)
	second := w.tell("/secret", "").told("secret").(string)
	w.deliverAlerts()
	signs := func(secrets ...string) (does []bool) {
		t.Helper()
		count := len(w.hook.all()) + 1
		w.tell("/test", "")
		w.soon(func() bool { return len(w.hook.all()) == count })
		h := w.hook.all()[count-1]
		for _, secret := range secrets {
			verifier, err := standard.NewWebhook(secret)
			require.NoError(t, err)
			does = append(does, verifier.VerifyIgnoringTimestamp(h.body, h.header) == nil)
		}
		return does
	}
	require.Equal(t, []bool{true, true}, signs(first, second))
	w.Later(23*time.Hour + 59*time.Minute)
	require.Equal(t, []bool{true, true}, signs(first, second))
	w.Later(2 * time.Minute)
	require.Equal(t, []bool{false, true}, signs(first, second), "a day is over")
	third := w.tell("/secret", "").told("secret").(string)
	require.Equal(t, []bool{false, true, true}, signs(first, second, third))
	fourth := w.tell("/secret", "").told("secret").(string)
	require.Equal(t, []bool{false, true, true}, signs(second, third, fourth), "two at most")
}

// TestAWebhookIsTriedAgain: five times in all, each attempt with the same id and body; what comes
// behind it waits. 410 turns it off, and says so.
func TestAWebhookIsTriedAgain(t *testing.T) {
	t.Parallel()
	w := watch(t)
	w.tell("", `{"on":true,"webhookUrl":"`+w.hook.server.URL+`"}`)
	w.hook.answers(500)
	w.deliverAlerts()
	w.comes("passed")
	w.comes("blocked")
	w.comes("passed")
	for attempt := 1; attempt <= 4; attempt++ {
		w.becomes(fmt.Sprint("failing webhook waiting ", attempt), "recovered webhook waiting 0")
		list := w.call("GET", "/v1/flows/"+w.flow+"/alerts", "").at("deliveries").([]any)
		waiting := list[1].(map[string]any)
		require.Equal(t, "the endpoint answered 500", waiting["reason"])
		require.NotEmpty(t, waiting["nextAttemptAt"])
		if attempt == 4 {
			w.hook.answers(410)
		}
		w.Later(3 * time.Hour)
	}
	w.becomes("failing webhook failed 5", "recovered webhook failed 0")
	got := w.hook.all()
	require.Len(t, got, 5)
	for _, h := range got[1:] {
		require.Equal(t, got[0].body, h.body)
		require.Equal(t, got[0].header.Get("webhook-id"), h.header.Get("webhook-id"))
	}
	a := w.send("POST", operatorTools+"/"+w.workspace+"/flows/"+w.flow+"/alerts/test", "", "", jsonBody)
	require.Equal(t, 409, a.status, string(a.raw))
	require.Equal(t, "alerts_off", a.at("error", "code"))
	w.hook.answers(200)
	require.Nil(t, w.tell("", `{"on":true}`).told("secret"), "turned on again, the secret stays")
	w.tell("/test", "")
	w.becomes("failing webhook failed 5", "recovered webhook failed 0", "test webhook delivered 1")
}

// TestDeliveriesNameNoAddress: what was dialled, which may be within somebody's network, is for the
// node's log alone.
func TestDeliveriesNameNoAddress(t *testing.T) {
	t.Parallel()
	w := watch(t)
	w.tell("", `{"on":true,"webhookUrl":"`+w.hook.server.URL+`"}`)
	w.hook.server.Close()
	w.deliverAlerts()
	w.tell("/test", "")
	w.becomes("test webhook waiting 1")
	shown := w.call("GET", "/v1/flows/"+w.flow+"/alerts", "").is(200, "")
	require.Equal(t, "the endpoint takes no connection",
		shown.at("deliveries").([]any)[0].(map[string]any)["reason"])
	require.NotContains(t, string(shown.raw), "127.0.0.1")
}

// TestAMailIsSentOnce: whatever becomes of the process that sends it. Another one does not send it
// again; when the first is not heard of, its fate is unknown, until the first is heard after all.
func TestAMailIsSentOnce(t *testing.T) {
	t.Parallel()
	w := watch(t)
	w.tell("", `{"on":true,"email":"ada@example.com"}`)
	held := make(chan struct{})
	w.post.answer = func(*mail.Message) mail.Result {
		<-held
		return mail.Result{Outcome: mail.Delivered, Status: 250}
	}
	w.deliverAlerts()
	w.tell("/test", "")
	w.soon(func() bool { return len(w.post.all()) == 1 })
	w.deliverAlerts() // of another process
	release := sync.OnceFunc(func() { close(held) })
	t.Cleanup(release) // before the deliveries end, which wait for it
	w.Later(mailFate - time.Second)
	w.becomes("test email waiting 1")
	w.Later(time.Minute)
	w.becomes("test email unknown 1")
	release()
	w.becomes("test email delivered 1")
	require.Len(t, w.post.all(), 1)
}

// TestWhatCameOfAMailIsSaidUntilItIsHeard, and the mail is not sent again meanwhile.
func TestWhatCameOfAMailIsSaidUntilItIsHeard(t *testing.T) {
	t.Parallel()
	w := watch(t)
	w.tell("", `{"on":true,"email":"ada@example.com"}`)
	deaf, begun := 2, 1
	w.Before(func(kind engine.Kind) engine.Outcome {
		switch {
		case kind == workspace.KindNoteAlert && deaf > 0:
			deaf--
			return engine.OutcomeUnknown
		case kind == workspace.KindBeginAlert && begun > 0:
			begun--
			return engine.OutcomeUnavailable
		}
		return engine.OutcomeNone
	})
	w.deliverAlerts()
	w.tell("/test", "")
	w.becomes("test email delivered 1")
	require.Len(t, w.post.all(), 1)
}

// TestMailsThatFail: what a mail server refuses for good is not sent again, what it may take later
// is, and what nobody knows is not.
func TestMailsThatFail(t *testing.T) {
	t.Parallel()
	w := watch(t)
	w.tell("", `{"on":true,"email":"ada@example.com"}`)
	outcomes := []mail.Result{
		{Outcome: mail.Retry, Status: 451, Reason: "the mail server answered 451"},
		{Outcome: mail.Delivered, Status: 250},
		{Outcome: mail.Refused, Status: 550, Reason: "the mail server answered 550"},
		{Outcome: mail.Unknown, Reason: "nobody knows"},
	}
	w.post.answer = func(*mail.Message) mail.Result {
		w.post.mu.Lock()
		defer w.post.mu.Unlock()
		return outcomes[len(w.post.sent)-1]
	}
	w.deliverAlerts()
	for range 3 {
		w.tell("/test", "")
	}
	w.becomes("test email waiting 1", "test email waiting 0", "test email waiting 0")
	w.Later(time.Minute)
	w.becomes("test email delivered 2", "test email failed 1", "test email unknown 1")
	w.Later(time.Hour)
	require.Len(t, w.post.all(), 4)
	require.Equal(t, w.post.all()[0].ID, w.post.all()[1].ID, "the same Message-ID")
}

// TestAnOldAlertIsNoNews: what could not be sent in a day is not sent.
func TestAnOldAlertIsNoNews(t *testing.T) {
	w := watch(t)
	w.tell("", `{"on":true,"email":"ada@example.com","webhookUrl":"`+w.hook.server.URL+`"}`)
	w.tell("/test", "")
	w.Later(alertLife + time.Minute)
	w.deliverAlerts()
	w.becomes("test email failed 1", "test webhook failed 1")
	require.Empty(t, w.post.all())
	require.Empty(t, w.hook.all())
}

// TestWhoSetsAlerts: an operator for the owner, of a workspace that is claimed; a key sees the
// watch and the deliveries, never where they go. What is not an address changes nothing.
func TestWhoSetsAlerts(t *testing.T) {
	w := watch(t)
	path := operatorTools + "/" + w.workspace + "/flows/" + w.flow + "/alerts"
	for body, status := range map[string]int{
		`{}`: 400, `{"on":1}`: 400, `{"on":true}`: 409, `{"on":true,"x":1}`: 400,
		`{"on":true,"email":"ada"}`:                                     400,
		`{"on":true,"email":"a@b.example,c@d.example"}`:                 400,
		`{"on":true,"email":"a@b.example\r\nBcc: c@d.example"}`:         400,
		`{"on":true,"webhookUrl":"http://10.0.0.1/"}`:                   400,
		`{"on":true,"webhookUrl":"https://u:p@hooks.example/"}`:         400,
		`{"on":true,"webhookUrl":"javascript:alert(1)"}`:                400,
		`{"on":true,"webhookUrl":"https://hooks.example:9/"}`:           400,
		`{"on":true,"email":5}`:                                         400,
		`{"on":true,"email":"` + strings.Repeat("a", 300) + `@b.test"}`: 400,
	} {
		a := w.send("POST", path, body, "", jsonBody)
		require.Equal(t, status, a.status, "%s: %s", body, a.raw)
	}
	require.Equal(t, 409, w.send("POST", path+"/secret", "", "", jsonBody).status)
	_, _, set, _ := w.Machine.Alerts(w.Machine.WorkspaceRow(id(t, markWorkspace, w.workspace)),
		id(t, markFlow, w.flow))
	require.False(t, set)

	w.tell("", `{"on":true,"email":"ada@example.com"}`)
	seen := w.call("GET", "/v1/flows/"+w.flow+"/alerts", "").is(200, "")
	require.NotContains(t, string(seen.raw), "ada@")
	require.Nil(t, seen.body["settings"])
	w.tell("", `{"on":false}`)
	require.Equal(t, "off", w.call("GET", "/v1/flows/"+w.flow+"/alerts", "").at("watch", "state"))
	w.tell("", `{"on":false,"email":null}`)
	a := w.send("POST", path+"/test", "", "", jsonBody)
	require.Equal(t, "alerts_off", a.at("error", "code"))
	acts := w.send("GET", operatorTools+"/"+w.workspace+"/acts", "", "", nil).told("acts").([]any)
	require.Equal(t, "set_alerts", acts[0].(map[string]any)["action"])
	require.Equal(t, w.flow, acts[0].(map[string]any)["subject"])

	stranger := w.signUp("")
	free := stranger.flow(plainFlow)
	a = w.send("POST", operatorTools+"/"+stranger.workspace+"/flows/"+free+"/alerts", `{"on":false}`,
		"", jsonBody)
	require.Equal(t, "alerts_claim_required", a.at("error", "code"))
	a = w.send("POST", operatorTools+"/"+stranger.workspace+"/flows/"+w.flow+"/alerts/test", "", "",
		jsonBody)
	require.Equal(t, 404, a.status)
}

func id(t *testing.T, mark, text string) [16]byte {
	t.Helper()
	parsed, ok := parseID(mark, text)
	require.True(t, ok)
	return parsed
}

// TestAlertsNeedAWay: a deployment without a mail server takes no e-mail address.
func TestAlertsNeedAWay(t *testing.T) {
	w := watch(t, func(c *Config) { c.Mail = nil })
	path := operatorTools + "/" + w.workspace + "/flows/" + w.flow + "/alerts"
	a := w.send("POST", path, `{"on":true,"email":"ada@example.com"}`, "", jsonBody)
	require.Equal(t, 503, a.status)
	require.Equal(t, "hosting_not_configured", a.at("error", "code"))
}

// TestAlertsSayNothingForStrangers: what products, agents and names say is one line, cut, without
// links, and never markup.
func TestAlertsSayNothingForStrangers(t *testing.T) {
	w := watch(t)
	const hostile = "<script>alert(1)</script>\r\nBcc: eve@evil.example \u202ehttps://evil.example/pay" +
		" www.evil.example WWW.EVIL.EXAMPLE evil.example/pay bücher.example 1.evil.example\u0000\u200b"
	d := &workspace.DueAlert{
		DeliveryView: workspace.DeliveryView{
			ID: [16]byte{1}, Kind: workspace.AlertFailing, Outcome: workspace.OutcomeBlocked,
			Run:  [16]byte{2},
			Flow: hostile, Step: hostile, Code: hostile, Why: hostile + strings.Repeat("é", 1000),
		},
		FlowID: [16]byte{3}, Workspace: [16]byte{4}, Label: hostile, Email: "ada@example.com",
	}
	m := w.api.Alerts.alertMail(d)
	for _, text := range []string{m.Subject, m.Text, m.HTML} {
		require.NotContains(t, text, "https://evil")
		require.NotContains(t, text, "evil.")
		require.NotContains(t, strings.ToLower(text), "www.")
		require.NotContains(t, text, "bücher.")
		require.NotContains(t, text, "\u202e")
		require.NotContains(t, text, "\nBcc")
		require.NotContains(t, text, "\x00")
		require.Less(t, len(text), 5000)
	}
	require.NotContains(t, m.HTML, "<script>")
	require.Contains(t, m.HTML, publicURL+"/v1/runs/run_", "nobody can sign in: there are no pages")
	require.True(t, json.Valid(alertBody(d)))
}

// TestMailsLeadToTheOwnersPages: to the run with its evidence, and to where alerts are ended.
func TestMailsLeadToTheOwnersPages(t *testing.T) {
	t.Parallel()
	w := watch(t, func(c *Config) { c.Console = publicURL + "/console" })
	w.tell("", `{"on":true,"email":"ada@example.com"}`)
	w.deliverAlerts()
	w.comes("passed")
	w.comes("blocked")
	w.becomes("failing email delivered 1")
	m := w.post.all()[0]
	run := w.call("GET", "/v1/runs?limit=1", "").at("runs").([]any)[0].(map[string]any)["id"].(string)
	for _, text := range []string{m.Text, m.HTML} {
		require.Contains(t, text, publicURL+"/console/runs/"+run)
		require.Contains(t, text, publicURL+"/console/flows/"+w.flow+"/alerts")
		require.NotContains(t, text, "/v1/")
	}
}

// TestAnOwnerSetsAlerts: a person who owns the workspace, and neither a key, nor an agent, nor
// another person; what they do is kept with their name, and the secret is shown once.
func TestAnOwnerSetsAlerts(t *testing.T) {
	w := watch(t)
	free := w.signUp("")
	path := "/v1/flows/" + free.flow(plainFlow) + "/alerts"
	free.call("PATCH", path, `{"on":false}`).is(409, "alerts_claim_required")
	ada := w.signIn("ada")
	ada.call("POST", "/v1/claims", `{"code":"`+free.code+`"}`).is(200, "")
	free.call("PATCH", path, `{"on":false}`).is(403, "person_required")

	set := ada.call("PATCH", path,
		`{"on":true,"email":"ada@acme.example","webhookUrl":"`+w.hook.server.URL+`"}`).is(200, "")
	secret := set.at("secret").(string)
	require.Equal(t, "ada@acme.example", set.at("settings", "email"))
	seen := ada.call("GET", path, "").is(200, "")
	require.Equal(t, true, seen.at("settings", "on"))
	require.NotContains(t, string(seen.raw), secret)
	require.NotContains(t, string(free.call("GET", path, "").is(200, "").raw), "ada@acme")
	next := ada.call("POST", path+"/secret", "").is(200, "").at("secret")
	require.NotEqual(t, secret, next)
	ada.call("POST", path+"/test", `{"x":1}`).is(400, "unexpected_field")
	ada.call("POST", path+"/test", "").is(200, "")
	require.Len(t, ada.call("GET", path, "").at("deliveries"), 2)
	for _, body := range []string{
		`{"on":true,"email":"no"}`, `{}`, `{"on":"yes"}`, `{"on":true,"email":"a@b.example\r\nBcc: c@d.e"}`,
	} {
		ada.call("PATCH", path, body).is(400, "invalid_field")
	}
	ada.call("PATCH", path, `{"on":true,"webhookUrl":"http://10.0.0.1/"}`).is(400, "invalid_url")

	bob := w.signIn("bob")
	bob.call("POST", "/v1/workspaces", `{"label":"bob's"}`)
	bob.call("PATCH", path, `{"on":false}`).is(404, "not_found")
	acts := w.send("GET", operatorTools+"/"+free.workspace+"/acts", "", "", nil).told("acts").([]any)
	require.Equal(t, "test_alert", acts[0].(map[string]any)["action"])
	require.Equal(t, "owner", acts[0].(map[string]any)["actor"])
}

// refuseAlerts provokes what only an owner's session can.
func refuseAlerts(t *testing.T, is provoked) {
	w := watch(t)
	ada := w.signIn("ada")
	free := w.signUp("")
	path := "/v1/flows/" + free.flow(plainFlow) + "/alerts"
	ada.call("POST", "/v1/claims", `{"code":"`+free.code+`"}`).is(200, "")
	is(ada.call("PATCH", path, `{"on":true}`), 409, "alerts_off")
	is(ada.call("POST", path+"/test", ""), 409, "alerts_off")
	ada.call("PATCH", path, `{"on":true,"email":"ada@acme.example"}`).is(200, "")
	for range workspace.MaxAlertTests {
		ada.call("POST", path+"/test", "").is(200, "")
	}
	a := is(ada.call("POST", path+"/test", ""), 429, "alert_test_limit")
	require.NotEmpty(t, a.header.Get("Retry-After"))
}
