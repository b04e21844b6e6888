package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/server/provider/runner"
)

const madeKey = "sk_test_made_0123456789"

// site is a product of pages: each case's own at /case/signup; what is posted to /case/… is noted,
// and answered with the key unless the case says something else.
type site struct {
	*httptest.Server
	pages   map[string]string
	special map[string]http.HandlerFunc

	mu   sync.Mutex
	sent []string
}

func newSite(t *testing.T) *site {
	s := &site{pages: map[string]string{}, special: map[string]http.HandlerFunc{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	what := r.Method + " " + r.URL.Path
	if r.Method == http.MethodPost {
		if err := r.ParseForm(); err != nil {
			return
		}
		s.mu.Lock()
		s.sent = append(s.sent, r.URL.Path+" "+r.PostForm.Encode())
		s.mu.Unlock()
	}
	text, known := s.pages[what]
	switch {
	case s.special[what] != nil:
		s.special[what](w, r)
		return
	case known:
	case r.Method == http.MethodPost:
		text = "<h1>Your key</h1><code>" + madeKey + "</code>"
	default:
		w.WriteHeader(http.StatusNotFound)
	}
	if _, err := io.WriteString(w, "<!doctype html>"+text); err != nil {
		return
	}
}

// posted is what was posted to a case's pages.
func (s *site) posted(name string) (posted []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sent := range s.sent {
		if strings.HasPrefix(sent, "/"+name+"/") {
			posted = append(posted, sent)
		}
	}
	return posted
}

const (
	mailField = `<input type="email" name="email" required>`
	button    = `<button>Sign up</button>`
	mailSent  = "email=tollgate-37ddff8ee1%40agents.example"
	// byScript sends a form by a script, and shows what comes of it on the same page.
	byScript = `<div id="out"></div><script>
document.forms[0].addEventListener("submit", async e => {
  e.preventDefault();
  const r = await fetch("keys", {method: "POST", body: new URLSearchParams(new FormData(e.target))});
  document.getElementById("out").innerHTML = await r.text();
  done();
});
function done() {}
</script>`
	signUpForm = `<form method="post" action="keys">` + mailField + button + `</form>`
)

// TestForms: forms as products make them. Whichever way one is sent, the run sees what comes of it,
// in seconds, and sends it once.
func TestForms(t *testing.T) {
	s := newSite(t)
	key, other := "key "+madeKey, strings.Replace(s.URL, "127.0.0.1", "127.0.0.2", 1)
	for name, c := range map[string]struct{ page, wanted, sent string }{
		"script": {signUpForm + byScript, key, mailSent},
		"dialog": {
			signUpForm + byScript + `<script>done = () => alert("Thank you!")</script>`, key, mailSent,
		},
		"dialog_before": {
			`<form method="post" action="keys" onsubmit="return confirm('Sure?')">` + mailField + button +
				`</form>`, key, mailSent,
		},
		"ticked": {
			`<form method="post" action="keys">` + mailField + `<input type="checkbox" name="terms" required
			checked><input type="checkbox" name="age" required style="display:none" id="a"><label
			for="a">I agree</label>` + button + `</form>`, key, "age=on&" + mailSent + "&terms=on",
		},
		"no_button": {
			`<form method="post" action="register">` + mailField + `</form>`, key, mailSent,
		},
		"plain_button": {
			`<form method="post" action="keys" id="f">` + mailField + `<button type="button"
			onclick="this.form.submit()">Create account</button></form>`, key, mailSent,
		},
		"trap": {
			`<form method="post" action="keys">` + mailField + `<input type="email" name="website_mail"
			style="display:none">` + button + `</form>`, key, mailSent + "&website_mail=",
		},
		"example": {
			`<p>Send it so: <code>sk_test_example_0123456789</code></p>` + signUpForm + byScript, key,
			mailSent,
		},
		"clobbered": {
			`<form method="post" action="keys">` + mailField + `<input name="elements" required>
			<input name="requestSubmit" required>` + button + `</form>`, key,
			"elements=tollgate-37ddff8ee1&" + mailSent + "&requestSubmit=tollgate-37ddff8ee1",
		},
		"hostile": {signUpForm + `<script>
			document.querySelectorAll = () => [];
			document.querySelector = () => document.body;
			Array.from = () => [{innerText: "sk_test_of_the_page_01234", getClientRects: () => [1]}];
			HTMLFormElement.prototype.requestSubmit = HTMLElement.prototype.click = () => {};
			Object.getOwnPropertyDescriptor = () => ({get: () => []});
			JSON.stringify = () => "{}";
			</script>`, key, mailSent},
		"late": {`<p>One moment.</p><script>setTimeout(() => document.body.innerHTML = '` + signUpForm +
			`', 1500)</script>`, key, mailSent},
		"password": {
			`<form method="post" action="keys">` + mailField + `<input type="password" name="field_7">` +
				button + `</form>`, `password_wanted: The form wants "field_7", which`, "",
		},
		"card": {
			`<form method="post" action="keys">` + mailField + `<label>Card number <input name="f3"
			required></label>` + button + `</form>`, `payment_required: The form wants "Card number"`, "",
		},
		"refused": {
			signUpForm + byScript, `signup_refused: The page says "Sign up · Taken already." (422).`, mailSent,
		},
		"again": {
			signUpForm, `signup_refused: The form is shown again after it was sent. The page says ` +
				`"Sign up · Use another address."`, mailSent,
		},
		"nothing": {
			signUpForm + `<script>document.forms[0].onsubmit = () => false</script>`,
			`signup_refused: The form is shown again after it was sent. The page says "Sign up".`, "",
		},
		"elsewhere": {
			strings.Replace(signUpForm, "keys", other+"/keys", 1),
			"other_host: The page leads to a host that is none of the task's", "",
		},
	} {
		s.pages["GET /"+name+"/signup"] = "<h1>Sign up</h1>" + c.page
		s.special["POST /refused/keys"] = func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, err := io.WriteString(w, `<p role="alert">Taken already.</p>`)
			require.NoError(t, err)
		}
		s.special["POST /again/keys"] = func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/again/again", http.StatusSeeOther)
		}
		s.pages["GET /"+name+"/again"] = s.pages["GET /"+name+"/signup"] +
			`<p role="alert">Use another address.</p>`
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report, events, err := trip(t, s.URL, s.URL+"/"+name+"/signup")
			require.NoError(t, err, events)
			said := report.Code + ": " + report.Reason
			if report.Credential != "" {
				said = "key " + report.Credential
			}
			require.True(t, strings.HasPrefix(said, c.wanted), "%s\n%v", said, events)
			require.Equal(t, c.sent == "", len(s.posted(name)) == 0, "%v", s.posted(name))
			if c.sent != "" {
				require.Len(t, s.posted(name), 1, "a form is sent once")
				require.Equal(t, c.sent, strings.Fields(s.posted(name)[0])[1])
			}
		})
	}
}

// TestPageBudget: a product of more pages than a run looks at has not stopped it.
func TestPageBudget(t *testing.T) {
	s := newSite(t)
	for n := range maxPages + 1 {
		s.pages[fmt.Sprintf("GET /%d/signup", n)] = fmt.Sprintf(`<a href="/%d/signup">Sign up</a>`, n+1)
	}
	report, events, err := trip(t, s.URL, s.URL+"/0/signup")
	require.NoError(t, err)
	require.Equal(t, "page_budget", report.Code, events)
	require.False(t, report.Blocked)
}

// TestTheVisitorIsKept while a person looks for the code: the product knows whose it is.
func TestTheVisitorIsKept(t *testing.T) {
	s := newSite(t)
	s.pages["GET /signup"] = strings.ReplaceAll(signUpForm, "keys", "signup")
	s.special["POST /signup"] = func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "visit", Value: "v1", Path: "/", HttpOnly: true})
		http.SetCookie(w, &http.Cookie{Name: "key", Value: madeKey, Path: "/"})
		http.Redirect(w, r, "/code", http.StatusSeeOther)
	}
	s.special["GET /code"] = func(w http.ResponseWriter, r *http.Request) {
		text := `<h1>Who are you?</h1>`
		if c, err := r.Cookie("visit"); err == nil && c.Value == "v1" {
			text = `<form method="post" action="code"><input name="verificationCode"><button>Go on</button>`
		}
		_, err := io.WriteString(w, text)
		require.NoError(t, err)
	}
	asked, events, err := trip(t, s.URL, s.URL+"/signup")
	require.NoError(t, err, events)
	require.Contains(t, asked.Question, `Which one? ("verificationCode")`, events)
	require.NotContains(t, string(asked.Checkpoint), madeKey)
	report, events, err := trip(t, s.URL, s.URL+"/signup", func(t *runner.Task) {
		t.Checkpoint, t.Answer = asked.Checkpoint, "4711"
	})
	require.NoError(t, err, events)
	require.Equal(t, madeKey, report.Credential, "%v %v", report, events)
	require.Equal(t, "/code verificationCode=4711", s.sent[1])
}

// TestNoWayBesideTheProxy: what a page asks of a peer (WebRTC) does not leave the machine beside
// the proxy, and without a proxy no browser starts.
func TestNoWayBesideTheProxy(t *testing.T) {
	peer, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	heard := make(chan int, 1)
	go func() {
		n, _, err := peer.ReadFrom(make([]byte, 1500))
		if err == nil {
			heard <- n
		}
		close(heard)
	}()
	s := newSite(t)
	s.pages["GET /signup"] = fmt.Sprintf(`<h1>Hello</h1><script>
const c = new RTCPeerConnection({iceServers: [{urls: "stun:%s"}]});
c.createDataChannel("x");
c.onicegatheringstatechange = () => document.querySelector("h1").innerText = "ice " + c.iceGatheringState;
c.createOffer().then(o => c.setLocalDescription(o));
</script>`, peer.LocalAddr())
	report, events, err := trip(t, s.URL, s.URL+"/signup")
	require.NoError(t, err)
	require.Equal(t, "no_way_published", report.Code)
	require.Contains(t, strings.Join(events, " ")+report.Reason, "ice ", "it was tried")
	require.NoError(t, peer.Close())
	for n := range heard {
		require.Zero(t, n, "a peer was asked beside the proxy")
	}

	_, err = openBrowser(t.Context(), "")
	require.ErrorIs(t, err, errNoProxy)
	agent, task := agentFor(t, s.URL, s.URL+"/signup")
	agent.Web = nil
	_, err = agent.Run(t.Context(), task, func(e runner.Event) { events = append(events, e.Text) })
	require.ErrorIs(t, err, runner.ErrUnavailable)
}

// TestTheDefaultLimits of commands are enough for Chromium.
func TestTheDefaultLimits(t *testing.T) {
	s := newSite(t)
	s.pages["GET /signup"] = signUpForm
	agent, task := agentFor(t, s.URL, s.URL+"/signup")
	agent.Limits = runner.Limits{MemoryMiB: 2048, FileMiB: 1024, OpenFiles: 1024}
	report, err := agent.Run(t.Context(), task, func(runner.Event) {})
	require.NoError(t, err)
	require.Equal(t, madeKey, report.Credential, report.Reason)
}

// TestAMachineWithoutChromium is told what to install, and its run is returned.
func TestAMachineWithoutChromium(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := findBrowser()
	require.ErrorContains(t, err, "apt-get install chromium")
	_, _, err = trip(t, "http://127.0.0.1:1", "http://127.0.0.1:1/")
	require.ErrorIs(t, err, runner.ErrUnavailable)
}
