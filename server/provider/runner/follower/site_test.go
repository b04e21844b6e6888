package follower

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// decode reads a JSON answer.
func decode(answer *http.Response, v any) error {
	body, err := io.ReadAll(answer.Body)
	return errors.Join(err, json.Unmarshal(body, v))
}

// site is a product of a few answers: by "GET /path" or "POST /path" a body, or a status and a body.
// {base} in a body is the site's address.
type site struct {
	*httptest.Server
	answers map[string]string
	// special are handlers of their own.
	special map[string]http.HandlerFunc

	mu   sync.Mutex
	sent []string // bodies of POST requests, with their paths
}

func newSite(t *testing.T, answers map[string]string, special map[string]http.HandlerFunc) *site {
	s := &site{answers: answers, special: special}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	what := r.Method + " " + r.URL.Path
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if r.Method == http.MethodPost {
		s.mu.Lock()
		s.sent = append(s.sent, r.URL.Path+" "+string(body))
		s.mu.Unlock()
	}
	if do := s.special[what]; do != nil {
		do(w, r)
		return
	}
	text, ok := s.answers[what]
	if !ok && what == "GET /" {
		text, ok = "# A product\n\nIt is.\n", true
	}
	if !ok {
		http.NotFound(w, r)
		return
	}
	status := 200
	for _, known := range []int{201, 202, 400, 401, 402, 403, 404, 422, 429, 500} {
		if rest, is := strings.CutPrefix(text, http.StatusText(known)+": "); is {
			status, text = known, rest
		}
	}
	w.WriteHeader(status)
	if _, err := io.WriteString(w, strings.ReplaceAll(text, "{base}", s.URL)); err != nil {
		return
	}
}

// described is a description with a sign-up whose body has a schema.
func described(schema string) string {
	return `{"openapi":"3.1.0","info":{"title":"A product","version":"1"},"paths":{"/signup":{"post":{
"operationId":"signUp","requestBody":{"content":{"application/json":{"schema":` + schema + `}}},
"responses":{"200":{"description":"Done."}}}}}}`
}

// TestWhereItStops: each answer to a sign-up, and each thing that is missing, has its rule and its
// quote.
func TestWhereItStops(t *testing.T) {
	plain := described(`{"type":"object"}`)
	for name, c := range map[string]struct {
		answers map[string]string
		wanted  string
	}{
		"paid": {
			map[string]string{"GET /openapi.json": plain, "POST /signup": "Payment Required: buy first"},
			"payment_required: The product wants to be paid first (POST /signup → 402). It says: buy first",
		},
		"busy": {
			map[string]string{"GET /openapi.json": plain, "POST /signup": "Too Many Requests: later"},
			"rate_limited: The product takes no more requests now (POST /signup → 429). It says: later",
		},
		"fails": {
			map[string]string{"GET /openapi.json": plain, "POST /signup": "Internal Server Error: oops"},
			"product_error: The product fails (POST /signup → 500). It says: oops",
		},
		"login": {
			map[string]string{"GET /openapi.json": plain, "POST /signup": "Unauthorized: sign in"},
			"signup_needs_login: Signing up needs a credential already (POST /signup → 401). " +
				"It says: sign in",
		},
		"refused": {
			map[string]string{
				"GET /openapi.json": plain, "POST /signup": `Unprocessable Entity: {"error":"name"}`,
			},
			"signup_refused: The product does not take the request (POST /signup → 422). " +
				`It says: {"error":"name"}`,
		},
		"gone": {
			map[string]string{"GET /openapi.json": plain},
			"way_absent: What is published is not there (POST /signup → 404). " +
				"It says: 404 page not found",
		},
		"no key, and what it says stays with us": {
			map[string]string{
				"GET /openapi.json": plain, "POST /signup": `Created: {"id":"acc_1","note":"private"}`,
			},
			"no_credential_in_answer: It was taken, and the answer holds no key " +
				"(POST /signup → 201). It says: fields id, note",
		},
		"mail": {
			map[string]string{"GET /openapi.json": plain, "POST /signup": `{"next":"check your inbox"}`},
			"email_code: The product wants an e-mail address confirmed (POST /signup → 200). " +
				"It says: fields next",
		},
		"password": {
			map[string]string{"GET /openapi.json": described(
				`{"type":"object","required":["password"],"properties":{"password":{"type":"string"}}}`,
			)},
			`password_wanted: Signing up wants a "password", which this agent does not have. It says: ` +
				`"post":{ "operationId":"signUp",`,
		},
		"other host": {
			map[string]string{"GET /openapi.json": strings.Replace(plain, `"paths"`,
				`"servers":[{"url":"https://other.example/"}],"paths"`, 1)},
			`other_host: The way leads to a host that is none of the task's. It says: "post":{`,
		},
		"sales": {
			map[string]string{"GET /": "# A product\n\nContact sales to begin.\n"},
			"contact_sales: Nothing published says how a program gets a key. It says: Contact sales to begin.",
		},
		"needs a key": {
			map[string]string{
				"GET /openapi.json": strings.Replace(plain, `"paths"`, `"security":[{"key":[]}],"components":`+
					`{"securitySchemes":{"key":{"type":"http","scheme":"bearer"}}},"paths"`, 1),
				"POST /signup": `{"key":"k-12345678"}`,
			},
			"no_way_published: Nothing published says how a program gets a key.",
		},
		"nothing": {nil, "no_way_published: Nothing published says how a program gets a key. " +
			"It says: # A product It is."},
		"identity": {
			map[string]string{"GET /.well-known/oauth-authorization-server": `{"agent_auth":{` +
				`"register_uri":"/agent/auth","identity_types_supported":["identity_assertion"]}}`},
			"identity_required: The product registers no agent without an identity that somebody " +
				`vouches for. It says: "identity_types_supported":["identity_assertion"]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, c.answers, nil)
			got := follow(t, s.URL, s.URL+"/")
			require.True(t, got.Blocked)
			require.True(t, got.Reached)
			require.True(t, strings.HasPrefix(got.Code+": "+got.Reason, c.wanted),
				"%s: %s\n%v", got.Code, got.Reason, got.events)
		})
	}
}

// TestNobodyAnswers: then the agent has not reached the product, as what carries its requests saw.
func TestNobodyAnswers(t *testing.T) {
	s := newSite(t, nil, nil)
	s.Close()
	got := follow(t, s.URL, s.URL+"/")
	require.True(t, got.Blocked)
	require.False(t, got.Reached)
}

// TestOtherWaysAreTried: what is published and not there leads on to the next way; what may have
// made an account does not.
func TestOtherWaysAreTried(t *testing.T) {
	answers := map[string]string{
		"GET /openapi.json": described(`{"type":"object"}`),
		"GET /auth.md":      "# Keys\n\n1. POST {base}/v1/register with {\"name\": \"<name>\", \"n\": 2}.\n",
		"POST /v1/register": `{"data":{"api_key":"abcdefgh-1234"}}`,
	}
	s := newSite(t, answers, nil)
	got := follow(t, s.URL, s.URL+"/")
	require.Equal(t, "key", got.said(), got.events)
	require.Equal(t, "abcdefgh-1234", got.Credential)
	require.Equal(t, []string{"/signup {}", `/v1/register {"n":2,"name":"tollgate-37ddff8ee1"}`}, s.sent)

	answers["POST /signup"] = `{"id":"1"}`
	s = newSite(t, answers, nil)
	got = follow(t, s.URL, s.URL+"/")
	require.Equal(t, "no_credential_in_answer", got.Code)
	require.Equal(t, []string{"/signup {}"}, s.sent)
}

// TestAnAssertionIsExchanged: where registration gives an assertion, the token endpoint takes it.
func TestAnAssertionIsExchanged(t *testing.T) {
	s := newSite(t, map[string]string{
		"GET /.well-known/oauth-authorization-server": `{"token_endpoint":"{base}/oauth2/token",` +
			`"agent_auth":{"identity_endpoint":"{base}/agent/identity",` +
			`"identity_types_supported":["anonymous"]}}`,
		"POST /agent/identity": `{"registration_id":"r1","identity_assertion":"e30.e30.sig"}`,
		"POST /oauth2/token":   `{"access_token":"at_0123456789abcdef","token_type":"Bearer"}`,
	}, nil)
	got := follow(t, s.URL, s.URL+"/")
	require.Equal(t, "at_0123456789abcdef", got.Credential, got.events)
	require.Equal(t, `/agent/identity {"type":"anonymous"}`, s.sent[0])
	require.Equal(t, "/oauth2/token assertion=e30.e30.sig&"+
		"grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer", s.sent[1])
}

// TestHostileProducts: whatever a product publishes or answers, a run ends with a rule, within its
// bounds.
func TestHostileProducts(t *testing.T) {
	endless := func(w http.ResponseWriter, _ *http.Request) {
		for block := make([]byte, 64<<10); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
	bomb := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		if _, err := w.Write(bombed); err != nil {
			return
		}
	}
	to := func(where string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, where, http.StatusFound)
		}
	}
	long := described(`{"type":"object","description":"` + strings.Repeat("x", 10<<20) + `"}`)
	plain := described(`{"type":"object"}`)
	for name, c := range map[string]struct {
		description string
		special     map[string]http.HandlerFunc
		wanted      string
	}{
		"endless answer":  {plain, map[string]http.HandlerFunc{"POST /signup": endless}, "answer_unusable"},
		"bomb as answer":  {plain, map[string]http.HandlerFunc{"POST /signup": bomb}, "answer_unusable"},
		"endless page":    {"", map[string]http.HandlerFunc{"GET /": endless}, "answer_unusable"},
		"bomb as a page":  {"", map[string]http.HandlerFunc{"GET /": bomb}, "answer_unusable"},
		"10 MB":           {long, nil, ruleTooLarge},
		"bombed document": {"", map[string]http.HandlerFunc{"GET /openapi.json": bomb}, ruleTooLarge},
		"no description":  {`{"openapi":"3.1.0","paths":[`, nil, "description_unreadable"},
		"a schema in a circle": {
			described(`{"type":"object","required":["a"],"properties":{"a":` +
				`{"$ref":"#/paths/~1signup/post/requestBody/content/application~1json/schema"}}}`), nil,
			"body_not_fillable",
		},
		"a reference to itself": {described(`{"$ref":"#/paths/~1signup/post/requestBody/content/` +
			`application~1json/schema"}`), nil, "body_not_fillable"},
		"parts of parts": {described(`{"allOf":[{"$ref":"#/paths/~1signup/post/requestBody/content/` +
			`application~1json/schema"},{"$ref":"#/paths/~1signup/post/requestBody/content/` +
			`application~1json/schema"}]}`), nil, "body_not_fillable"},
		"many items": {
			described(`{"type":"array","minItems":1000000000,"items":{"type":"string"}}`), nil,
			"body_not_fillable",
		},
		"long text": {described(`{"type":"object","required":["a"],"properties":{"a":` +
			`{"type":"string","minLength":1000000000}}}`), nil, "way_absent"},
		"redirects": {"", map[string]http.HandlerFunc{"GET /": to("/")}, "answer_unusable"},
		"a post elsewhere": {
			plain, map[string]http.HandlerFunc{"POST /signup": to("http://me:secret@10.0.0.1/a?key=secret#secret")}, "redirected",
		},
	} {
		t.Run(name, func(t *testing.T) {
			answers := map[string]string{}
			if c.description != "" {
				answers["GET /openapi.json"] = c.description
			}
			s := newSite(t, answers, c.special)
			got := follow(t, s.URL, s.URL+"/")
			require.Equal(t, c.wanted, got.Code, "%s %v", got.Reason, got.events)
			require.Equal(t, c.wanted != ruleTooLarge, got.Blocked, "what we do not read blocks nobody")
			require.NotRegexp(t, "secret|10\\.0", got.Reason)
			for _, body := range s.sent {
				require.Less(t, len(body), 4096)
			}
		})
	}
}

// TestShownAddresses: one that nobody writes is passed over, and the first field that cannot be
// filled is the same each time.
func TestShownAddresses(t *testing.T) {
	const after = "\n\n    curl -X POST /signup -d 'password=x&invite_code=y'\n"
	for _, text := range []string{
		"POST https://acme.example/" + strings.Repeat("x", 5000), "POST" + strings.Repeat(" ", 5000) + "/signup",
	} {
		reasons := map[string]bool{}
		for range 10 {
			s := newSite(t, map[string]string{"GET /llms.txt": "# Acme\n\n" + text + after}, nil)
			got := follow(t, s.URL, s.URL+"/")
			require.True(t, got.Blocked)
			reasons[got.Code] = true
		}
		require.Len(t, reasons, 1)
		require.True(t, reasons["approval"], "%v", reasons)
	}
}

// TestAKeyThatIsRefused is handed over all the same, for the verification decides; what answers to
// it is not repeated.
func TestAKeyThatIsRefused(t *testing.T) {
	s := newSite(t, map[string]string{
		"GET /openapi.json": `{"openapi":"3.1.0","components":{"securitySchemes":{"key":{"type":"http",` +
			`"scheme":"bearer"}}},"paths":{"/signup":{"post":{}},"/me":{"get":{"security":[{"key":[]}]}}}}`,
		"POST /signup": `{"key":"k-12345678"}`,
		"GET /me":      "Unauthorized: what is k-12345678?",
	}, nil)
	got := follow(t, s.URL, s.URL+"/")
	require.Equal(t, "key, then authenticate key_refused", got.said(), got.events)
	require.NotContains(t, got.Reason, "k-12345678")
}
