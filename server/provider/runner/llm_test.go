package runner

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"tollgate/examples/sampleproduct"
	"tollgate/server/provider/fetch"
)

const modelKey = "mk-0123456789abcdef"

// action is what a scripted model does: the tools that it calls, or a status instead of an answer.
type action struct {
	calls  []string // name and arguments in turn
	text   string
	status int
	tokens int
}

func act(calls ...string) action { return action{calls: calls} }

// scripted is an endpoint of a model that follows a script, whatever it is told; {key} in it is the
// newest key of the product that it was shown.
type scripted struct {
	t       *testing.T
	dialect Dialect
	script  []action
	asked   []string // bodies
	after   action   // when the script is at its end
}

var shownKey = regexp.MustCompile(sampleproduct.KeyPrefix + `[A-Z0-9]+`)

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	require.NoError(s.t, err)
	require.NotContains(s.t, string(body), modelKey, "the model's key is in its header alone")
	s.conversation(body, r)
	s.asked = append(s.asked, string(body))
	now := s.after
	if n := len(s.asked); n <= len(s.script) {
		now = s.script[n-1]
	}
	if now.status != 0 {
		w.WriteHeader(now.status)
		return
	}
	keys := shownKey.FindAllString(string(body), -1)
	for i := range now.calls {
		if len(keys) > 0 {
			now.calls[i] = strings.ReplaceAll(now.calls[i], "{key}", keys[len(keys)-1])
		}
	}
	text, err := json.Marshal(s.reply(now))
	require.NoError(s.t, err)
	_, err = w.Write(text)
	require.NoError(s.t, err)
}

// conversation checks that a request is what the dialect wants: the key, and every call answered.
func (s *scripted) conversation(body []byte, r *http.Request) {
	var sent struct {
		Model     string
		MaxTokens int `json:"max_tokens"`
		Tools     []any
		System    string
		Messages  []struct {
			Role    string
			Content any
			Calls   []any  `json:"tool_calls"`
			Call    string `json:"tool_call_id"`
		}
	}
	require.NoError(s.t, json.Unmarshal(body, &sent, json.MatchCaseInsensitiveNames(true)))
	require.Equal(s.t, "m-1", sent.Model)
	require.Len(s.t, sent.Tools, 4)
	require.Equal(s.t, maxAnswerTokens, sent.MaxTokens)
	open := 0
	for i, m := range sent.Messages {
		if s.dialect == DialectOpenAI {
			switch require.Equal(s.t, i == 0, m.Role == "system"); m.Role {
			case "tool":
				open--
			case "user":
				require.Zero(s.t, open)
			case "assistant":
				require.Zero(s.t, open)
				open = len(m.Calls)
			}
			continue
		}
		require.Equal(s.t, []string{"user", "assistant"}[i%2], m.Role, "they take turns")
		blocks := m.Content.([]any)
		require.NotEmpty(s.t, blocks)
		for _, b := range blocks {
			switch b.(map[string]any)["type"] {
			case "tool_use":
				require.IsType(s.t, map[string]any{}, b.(map[string]any)["input"])
				open++
			case "tool_result":
				open--
			}
		}
		require.True(s.t, m.Role == "assistant" || open == 0)
	}
	require.Zero(s.t, open, "every call is answered")
	if s.dialect == DialectAnthropic {
		require.Equal(s.t, modelKey, r.Header.Get("X-Api-Key"))
		require.NotEmpty(s.t, r.Header.Get("Anthropic-Version"))
		require.Contains(s.t, sent.System, "customer's agent")
	} else {
		require.Equal(s.t, "Bearer "+modelKey, r.Header.Get("Authorization"))
	}
}

func (s *scripted) reply(a action) any {
	n := len(s.asked)
	if s.dialect == DialectAnthropic {
		blocks := []any{map[string]any{"type": "text", "text": a.text}}
		for i := 0; i < len(a.calls); i += 2 {
			var input any
			require.NoError(s.t, json.Unmarshal([]byte(a.calls[i+1]), &input))
			blocks = append(blocks, map[string]any{
				"type": "tool_use", "id": fmt.Sprint(n, i), "name": a.calls[i], "input": input,
			})
		}
		return map[string]any{"content": blocks, "usage": map[string]any{"output_tokens": a.tokens}}
	}
	var calls []any
	for i := 0; i < len(a.calls); i += 2 {
		calls = append(calls, map[string]any{"id": fmt.Sprint(n, i), "function": map[string]any{
			"name": a.calls[i], "arguments": a.calls[i+1],
		}})
	}
	return map[string]any{
		"choices": []any{map[string]any{"message": map[string]any{"content": a.text, "tool_calls": calls}}},
		"usage":   map[string]any{"total_tokens": a.tokens},
	}
}

// modelRun is a run of a scripted model on a variant of the sample product.
type modelRun struct {
	*scripted
	agent  *LLM
	task   Task
	events []string
}

func newModelRun(t *testing.T, d Dialect, v sampleproduct.Variant, script ...action) *modelRun {
	s := &scripted{t: t, dialect: d, script: script, after: act("finish", `{"blocked":false}`)}
	endpoint, product := httptest.NewServer(s), httptest.NewServer(sampleproduct.New(v))
	t.Cleanup(endpoint.Close)
	t.Cleanup(product.Close)
	client, err := fetch.New(fetch.Config{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		AllowHosts:   []string{"127.0.0.1:*"},
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return &modelRun{
		scripted: s,
		agent: &LLM{Endpoint: Endpoint{
			URL: endpoint.URL + "/v1/messages", Dialect: d, Model: "m-1", Key: modelKey, Client: client,
			Pause: time.Millisecond,
		}, Web: client},
		task: Task{
			RunID: "run_1", URL: product.URL + "/", Task: "Get a key.", Credential: "bearer",
			Hosts: []string{strings.TrimPrefix(product.URL, "http://")},
		},
	}
}

func (m *modelRun) run() (Report, error) {
	return m.agent.Run(context.Background(), m.task, func(e Event) {
		m.events = append(m.events, e.Text)
	})
}

var bothDialects = []Dialect{DialectOpenAI, DialectAnthropic}

// TestAModelObtainsAKey, over either dialect; what is told of it holds no text of anybody's.
func TestAModelObtainsAKey(t *testing.T) {
	for _, d := range bothDialects {
		m := newModelRun(t, d, sampleproduct.Hostile,
			action{text: "I shall look.", calls: []string{"http_request", `{"method":"GET","url":"/?secret=1"}`}},
			action{text: "No tool this time."},
			action{}, // it says nothing at all
			act("http_request", `{"method":"POST","url":"keys","body":"{}"}`,
				"http_request", `{"method":"GET","url":"me","authorization":"Bearer none"}`),
			act("obtained_key", `{"key":"{key}"}`),
			act("finish", `{"blocked":false}`),
		)
		r, err := m.run()
		require.NoError(t, err)
		require.Regexp(t, shownKey, r.Credential)
		require.Equal(t, Report{Credential: r.Credential, Reached: true}, r)
		require.Equal(t, []string{
			"GET / → 200", "POST /keys → 200", "GET /me → 401", "hands a key over",
		}, m.events)
		require.Len(t, m.asked, 6)
		require.Contains(t, m.asked[0], "Get a key.")
	}
}

// TestAModelIsToldNoPassword: a flow with a test account ends before the model is asked anything,
// and it does not sign up in place of signing in.
func TestAModelIsToldNoPassword(t *testing.T) {
	asked := func(Event) { t.Error("the model did something") }
	report, err := new(LLM).Run(t.Context(), Task{
		Account: &Account{Host: "a.example", Username: "qa", Password: "p"},
	}, asked)
	require.NoError(t, err)
	require.Equal(t, "signs_up_only", report.Code)
	require.False(t, report.Blocked)
	require.Zero(t, report.Steps)
}

// TestAModelIsKeptWithinItsTask: other hosts, other tools, no keys, a person after a key.
func TestAModelIsKeptWithinItsTask(t *testing.T) {
	var reached atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		reached.Add(1)
	}))
	defer other.Close()
	for _, d := range bothDialects {
		m := newModelRun(t, d, sampleproduct.Private,
			act("http_request", `{"method":"GET","url":"`+other.URL+`/"}`),
			act("http_request", `{"method":"GET","url":"me"}`),
			act("http_request", `{"method":"GET","url":"http://10.0.0.1/"}`),
			act("http_request", `{"method":"CONNECT","url":"/"}`),
			act("http_request", `{"method":"GET","url":"/","authorization":"a\r\nX-Evil: 1"}`),
			act("shell", `{"command":"id"}`),
			act("obtained_key", `{"key":"a b"}`),
			act("http_request", `[]`),
			act("obtained_key", `{"key":"pk_1"}`),
			act("ask_person", `{"question":"And now?"}`),
			act("finish", `{"blocked":true,"reason":"It is enough."}`, "obtained_key", `{"key":"pk_2"}`),
		)
		r, err := m.run()
		require.NoError(t, err)
		require.Zero(t, reached.Load())
		require.Equal(t, Report{
			Credential: "pk_1", Blocked: true, Code: "error", Reason: "It is enough.", Reached: true,
		}, r)
		require.Equal(t, []string{
			"was kept from another host", "GET /me → 302", "was kept from another host", "GET / → 200",
			"hands a key over",
		}, m.events, "a redirect is an answer, and not followed")
	}
}

// TestARunsConnectionsAreItsOwn: no request of a model goes by a connection that another run, or
// anything else, has used or may use.
func TestARunsConnectionsAreItsOwn(t *testing.T) {
	m := newModelRun(t, DialectOpenAI, sampleproduct.Good)
	var mu sync.Mutex
	from := map[string]int{}
	product := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		from[r.RemoteAddr]++
	}))
	defer product.Close()
	m.task.URL, m.task.Hosts = product.URL, []string{strings.TrimPrefix(product.URL, "http://")}
	look := func() {
		_, err := m.agent.Web.Do(t.Context(), &fetch.Request{URL: product.URL})
		require.NoError(t, err)
	}
	look()
	for range 2 {
		m.asked = nil
		m.script = []action{
			act("http_request", `{"method":"GET","url":"/"}`, "http_request", `{"method":"GET","url":"/"}`),
		}
		_, err := m.run()
		require.NoError(t, err)
	}
	look()
	require.Len(t, from, 5, "%v", from)
}

// TestAModelHandsOverWhatIsAskedFor: a key is told at once, and none where the task asks for none.
func TestAModelHandsOverWhatIsAskedFor(t *testing.T) {
	for _, wanted := range []string{"bearer", ""} {
		m := newModelRun(t, DialectOpenAI, sampleproduct.Good, act("obtained_key", `{"key":"pk_1"}`),
			act("finish", `{"blocked":false}`))
		m.task.Credential = wanted
		var told []string
		r, err := m.agent.Run(t.Context(), m.task, func(e Event) { told = append(told, e.Credential) })
		require.NoError(t, err)
		if wanted == "" {
			require.Empty(t, r.Credential)
			require.Empty(t, told)
			continue
		}
		require.Equal(t, "pk_1", r.Credential)
		require.Equal(t, []string{"pk_1"}, told)
	}
}

// TestPathsAreToldWhole: nothing is cut off a path before what stands in it can be scrubbed, and a
// checkpoint has a short one or none. Questions and notes that are too long are not cut either.
func TestPathsAreToldWhole(t *testing.T) {
	path := "/" + strings.Repeat("x", 110) + "/pk_0123456789abcdef"
	m := newModelRun(t, DialectOpenAI, sampleproduct.Good,
		act("http_request", `{"method":"GET","url":"`+path+`"}`),
		act("ask_person", `{"question":"`+strings.Repeat("q", maxNotes+1)+`"}`),
		act("ask_person", `{"question":"q","notes":"`+strings.Repeat("n", maxNotes+1)+`"}`),
		act("ask_person", `{"question":"q","notes":"n"}`),
	)
	r, err := m.run()
	require.NoError(t, err)
	require.Equal(t, []string{"GET " + path + " → 404"}, m.events)
	require.Equal(t, "q", r.Question)
	require.JSONEq(t, `{"question":"q","notes":"n","did":["GET (131 bytes, left out) → 404"]}`,
		string(r.Checkpoint))
}

// TestAModelsKeysAreBounded: each, and all of a run together.
func TestAModelsKeysAreBounded(t *testing.T) {
	key := func(first string, n int) string {
		return `{"key":"` + first + strings.Repeat("k", n-1) + `"}`
	}
	m := newModelRun(t, DialectOpenAI, sampleproduct.Good,
		act("obtained_key", key("a", MaxKey+1)), act("obtained_key", key("b", MaxKey)),
		act("obtained_key", key("c", MaxKey)), act("obtained_key", key("d", 1)),
		act("finish", `{"blocked":false}`))
	m.task.Credential = "bearer"
	r, err := m.run()
	require.NoError(t, err)
	require.Equal(t, "c", r.Credential[:1])
	require.Len(t, m.events, 2)
}

// TestAModelIsBounded: by steps, by tokens, and by calls in one answer.
func TestAModelIsBounded(t *testing.T) {
	look := `{"method":"GET","url":"/"}`
	for _, d := range bothDialects {
		m := newModelRun(t, d, sampleproduct.Good)
		m.after, m.agent.Steps = act("http_request", look), 4
		r, err := m.run()
		require.NoError(t, err)
		require.Equal(t, Report{Step: "budget", Reached: true}, r)
		require.Len(t, m.asked, 4)

		m = newModelRun(t, d, sampleproduct.Good)
		m.after, m.agent.Tokens = action{calls: []string{"http_request", look}, tokens: 400}, 1000
		_, err = m.run()
		require.NoError(t, err)
		require.Len(t, m.asked, 3)

		m = newModelRun(t, d, sampleproduct.Good)
		m.after, m.agent.Tokens = act("http_request", look), 3000 // the endpoint does not count
		_, err = m.run()
		require.NoError(t, err)
		uncounted := len(m.asked)
		require.Less(t, uncounted, 10)

		// One that says that it costs next to nothing is not believed.
		m = newModelRun(t, d, sampleproduct.Good)
		m.after = action{calls: []string{"http_request", look}, tokens: 1}
		m.agent.Tokens = 3000
		_, err = m.run()
		require.NoError(t, err)
		require.InDelta(t, uncounted, len(m.asked), 1)

		var many []string
		for range 50 {
			many = append(many, "http_request", look)
		}
		m = newModelRun(t, d, sampleproduct.Good, act(many...))
		_, err = m.run()
		require.NoError(t, err)
		require.Len(t, m.events, maxCalls)

		m = newModelRun(t, d, sampleproduct.Endless, act("http_request", `{"method":"GET","url":"me"}`))
		m.task.Checkpoint = []byte("not ours")
		_, err = m.run()
		require.ErrorIs(t, err, ErrUnavailable)
	}
}

// TestEndpointsThatFail: overload is tried again, what stays refused is the service's failure.
func TestEndpointsThatFail(t *testing.T) {
	for _, d := range bothDialects {
		m := newModelRun(t, d, sampleproduct.Good, action{status: 429}, action{status: 503})
		_, err := m.run()
		require.NoError(t, err)
		require.Len(t, m.asked, 3)
		for _, status := range []int{401, 500} {
			m = newModelRun(t, d, sampleproduct.Good)
			m.after = action{status: status}
			_, err = m.run()
			require.ErrorIs(t, err, ErrUnavailable)
			require.NotContains(t, err.Error(), modelKey)
			require.Len(t, m.asked, map[int]int{401: 1, 500: maxTries}[status])
		}
	}
	m := newModelRun(t, DialectOpenAI, sampleproduct.Good)
	m.agent.Endpoint.URL = strings.TrimSuffix(m.task.URL, "/") + "/" // answers, and no model
	m.agent.Endpoint.Pause = time.Millisecond
	_, err := m.run()
	require.ErrorIs(t, err, ErrUnavailable)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = m.agent.Run(ctx, m.task, ignore)
	require.ErrorIs(t, err, ErrUnavailable)
}

// TestAModelAsksAPerson: the checkpoint says what was done and holds no key, and the answer reaches
// the model when the run goes on.
func TestAModelAsksAPerson(t *testing.T) {
	for _, d := range bothDialects {
		m := newModelRun(t, d, sampleproduct.EmailCode,
			act("http_request", `{"method":"POST","url":"keys"}`),
			act("ask_person", `{"question":"Which code?","notes":"signup su_1"}`),
		)
		r, err := m.run()
		require.NoError(t, err)
		require.Equal(t, "Which code?", r.Question)
		require.LessOrEqual(t, len(r.Checkpoint), 8<<10)
		require.JSONEq(t, `{"question":"Which code?","notes":"signup su_1","did":["POST /keys → 202"]}`,
			string(r.Checkpoint))
		m.task.Checkpoint, m.task.Answer = r.Checkpoint, "CODE42"
		m.asked, m.script = nil, nil
		_, err = m.run()
		require.NoError(t, err)
		require.Contains(t, m.asked[0], "CODE42")
		require.Contains(t, m.asked[0], "su_1")
	}
}

// TestACheckpointOfAModelIsNotCutUnsaid: of many requests the newest are named, with how many are
// not, also those from before it asked the last time.
func TestACheckpointOfAModelIsNotCutUnsaid(t *testing.T) {
	look := act("http_request", `{"method":"GET","url":"/"}`)
	for _, d := range bothDialects {
		ask := act("ask_person", `{"question":"Which code?","notes":"short"}`)
		script := []action{}
		for range remembered + 3 {
			script = append(script, look)
		}
		m := newModelRun(t, d, sampleproduct.Good, append(script, ask)...)
		m.agent.Steps = 2 * remembered
		r, err := m.run()
		require.NoError(t, err)
		require.Equal(t, "Which code?", r.Question)
		kept := func(r Report) (c checkpoint) {
			require.NoError(t, json.Unmarshal(r.Checkpoint, &c))
			return c
		}
		require.Len(t, kept(r).Did, remembered)
		require.Equal(t, 3, kept(r).LeftOut)

		m = newModelRun(t, d, sampleproduct.Good, look, look, ask)
		m.task.Checkpoint = r.Checkpoint
		r, err = m.run()
		require.NoError(t, err)
		require.Len(t, kept(r).Did, remembered)
		require.Equal(t, 5, kept(r).LeftOut)
	}
}

// TestWhatAModelUsedStaysUsed: a run that waited for a person goes on with the steps and tokens
// that are left, and ends when none are.
func TestWhatAModelUsedStaysUsed(t *testing.T) {
	look := `{"method":"GET","url":"/"}`
	for _, d := range bothDialects {
		ask := act("ask_person", `{"question":"Which code?"}`)
		ask.tokens = 1000 // more than an endpoint must count for what was sent
		m := newModelRun(t, d, sampleproduct.Good, ask)
		m.task.Steps, m.task.Tokens = 7, 500
		r, err := m.run()
		require.NoError(t, err)
		require.Equal(t, []int{8, 1500}, []int{r.Steps, r.Tokens})

		again := func(change func(*LLM)) (asked int) {
			m = newModelRun(t, d, sampleproduct.Good)
			m.after = action{calls: []string{"http_request", look}, tokens: 1000}
			m.task.Steps, m.task.Tokens = r.Steps, r.Tokens
			change(m.agent)
			ended, err := m.run()
			require.NoError(t, err)
			require.Equal(t, "budget", ended.Step)
			return len(m.asked)
		}
		require.Equal(t, 2, again(func(a *LLM) { a.Steps = 10 }))
		require.Equal(t, 3, again(func(a *LLM) { a.Tokens = 4500 }))
		require.Zero(t, again(func(a *LLM) { a.Tokens = 1500 }))
	}
}
