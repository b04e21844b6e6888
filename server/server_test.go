package server_test

import (
	"cmp"
	"context"
	"math"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
	"pgregory.net/rapid"

	"tollgate/engine"
	"tollgate/engine/decimal"
	"tollgate/server"
)

func TestKeysCarryTheirOwnProof(t *testing.T) {
	seen := map[string]bool{}
	for _, prefix := range []string{
		server.KeyPrefixLive, server.KeyPrefixSandbox, server.KeyPrefixAdmin,
	} {
		for range 200 {
			require.True(t, server.WellFormedKey([]byte(server.DeriveKey(prefix, [32]byte{1}))))
			key := server.MintKey(prefix)
			require.Len(t, key, len(prefix)+34)
			require.True(t, server.WellFormedKey([]byte(key)))
			require.Equal(t, prefix, server.KeyPrefix([]byte(key)))
			require.False(t, seen[key])
			seen[key] = true
		}
	}
	// 28 digits of base62 are more than 160 bits.
	require.Greater(t, 28*math.Log2(62), 160.0)
	key := server.MintKey(server.KeyPrefixLive)
	for i := range key {
		changed := []byte(key)
		if changed[i]++; changed[i] == '/' || changed[i] == ':' {
			changed[i]++
		}
		require.False(t, server.WellFormedKey(changed), "%s", changed)
	}
	for _, text := range []string{"", "sk_live_", key[:len(key)-1], key + "0", strings.ToUpper(key), " " + key} {
		require.False(t, server.WellFormedKey([]byte(text)), text)
	}
}

var grammar = regexp.MustCompile(
	`^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

func FuzzInstantAgreesWithTime(f *testing.F) {
	for _, text := range []string{
		"2026-01-31T15:00:00Z", "2026-01-31T15:00:00.123456+05:30", "2024-02-29T23:59:59.9-23:59",
		"2023-02-29T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z", "2026-01-31t15:00:00z",
		"2026-13-01T00:00:00Z", "2026-01-31T24:00:00Z", "2026-01-31T15:00:00", "2026-01-31 15:00:00Z",
		"2026-01-31T15:00:00.Z", "2026-01-31T15:00:00+0530", "1900-03-01T00:00:00Z", "2016-12-31T23:59:60Z",
		"2026-01-31T15:00:00+05:60",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ms, ok := server.ParseInstant([]byte(text))
		want, err := time.Parse(time.RFC3339, strings.ToUpper(text))
		if !ok {
			// time.Parse takes more than the grammar of RFC 3339.
			require.False(t, err == nil && want.Year() > 0 && grammar.MatchString(text), "%q", text)
			return
		}
		require.NoError(t, err, "%q", text)
		require.Equal(t, want.UnixMilli(), ms, "%q", text)
	})
}

func TestTimesAreWrittenToTheMillisecond(t *testing.T) {
	ms := time.Date(2026, 1, 31, 15, 0, 0, 7_999_999, time.UTC).UnixMilli()
	require.Equal(t, "2026-01-31T15:00:00.007Z", string(server.AppendTime(nil, ms)))
}

func TestUUIDs(t *testing.T) {
	const text = "018f3c2e-0000-7abc-8def-0123456789ab"
	id, ok := server.ParseUUID(strings.ToUpper(text))
	require.True(t, ok)
	require.Equal(t, text, string(server.AppendUUID(nil, id)))
	for _, bad := range []string{"", text[1:], text + "0", strings.Replace(text, "-", "0", 1), "g" + text[1:]} {
		_, ok := server.ParseUUID(bad)
		require.False(t, ok, bad)
	}
}

func TestStringsAreWrittenAsJSONv2ReadsThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		var back string
		require.NoError(t, json.Unmarshal(server.AppendString(nil, text), &back))
		require.Equal(t, strings.ToValidUTF8(text, "\ufffd"), back)
	})
	require.Equal(t, `"a`+"\ufffd"+`b\u0000\n"`, string(server.AppendString(nil, "a\xffb\x00\n")))
}

func TestAnswersAreAppended(t *testing.T) {
	var j server.JSON
	j.Open('{')
	j.Text("a", "x")
	j.TextIf("left out", "")
	j.Time("none", 0)
	j.UUID("none", [16]byte{})
	j.Raw("none", nil)
	j.Array("b")
	j.Open('{')
	j.Bool("c", false)
	j.Uint("d", 0)
	j.Close('}')
	j.String("e")
	j.Close(']')
	j.Object("f")
	j.Decimal("g", decimal.MustParse("1e-12"))
	j.Close('}')
	j.Close('}')
	require.Equal(t, `{"a":"x","b":[{"c":false,"d":0},"e"],"f":{"g":0.000000000001}}`, string(j))
}

// TestEveryOutcomeHasAnAnswer: for every outcome but those that no caller sees, a row of outcome.go
// has what each API says whose machine comes to it.
func TestEveryOutcomeHasAnAnswer(t *testing.T) {
	unseen := []engine.Outcome{
		engine.OutcomeNone, engine.OutcomeDone, engine.OutcomeLimitReached, engine.OutcomeUnpriced,
		engine.OutcomeDeferred, engine.OutcomeFenced, engine.OutcomeNothingQueued,
	}
	billing := func(o engine.Outcome) *server.Fault {
		f := server.FaultOf(o)
		if o != engine.OutcomeUnknown && f == server.FaultOf(engine.OutcomeUnknown) {
			return nil
		}
		return f
	}
	workspace := func(o engine.Outcome) *server.Fault {
		// Removing a workspace belongs to the operations API.
		return cmp.Or(server.WorkspaceFault(o), server.PageFault(o), map[engine.Outcome]*server.Fault{
			engine.OutcomeWorkspaceClaimed: billing(engine.OutcomeWorkspaceClaimed),
		}[o])
	}
	codes := map[string]bool{}
	for n := range 256 {
		o := engine.Outcome(n)
		named := !strings.HasPrefix(o.String(), "outcome_")
		answered := cmp.Or(billing(o), workspace(o)) != nil
		require.Equal(t, named && !slices.Contains(unseen, o), answered, "a row for %s", o)
		f := billing(o)
		if f == nil {
			continue
		}
		require.False(t, codes[f.Code], "%s appears twice", f.Code)
		codes[f.Code] = true
		require.NotEmpty(t, f.Message)
		require.Equal(t, f.Status == 503 || f.Status == 429, f.RetryAfter > 0, f.Code)
		require.Contains(t, []int{400, 402, 404, 409, 413, 429, 503}, f.Status)
		if o != engine.OutcomeUnknown && f.Status != 409 {
			require.Regexp(t, "Nothing (was|is) ", f.Detail, f.Code)
		}
	}
	require.Equal(t, "outcome_unknown", server.FaultOf(engine.OutcomeNone).Code)
	require.Equal(t, "outcome_unknown", server.FaultOf(engine.Outcome(255)).Code)

	numbers := map[string]engine.Outcome{}
	each(t, "../engine/outcome.go", `(?m)^\t(Outcome\w+)\s+Outcome = (\d+) // `, func(m []string) {
		n, err := strconv.Atoi(m[2])
		require.NoError(t, err)
		numbers[m[1]] = engine.Outcome(n)
	})
	require.Greater(t, len(numbers), 100)
	for pattern, answer := range map[string]func(engine.Outcome) *server.Fault{
		"../engine/billing/*.go": billing, "../engine/billing/internal/*/*.go": billing,
		"../engine/workspace/*.go": workspace,
	} {
		found := 0
		each(t, pattern, `\bengine\.(Outcome[A-Z]\w+)`, func(m []string) {
			o := numbers[m[1]]
			require.True(t, slices.Contains(unseen, o) || answer(o) != nil, "%s says %s", pattern, m[1])
			found++
		})
		require.Greater(t, found, 40, pattern)
	}
}

// each calls do for what matches in the files of a pattern, without tests.
func each(t *testing.T, pattern, expression string, do func(groups []string)) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	require.NoError(t, err)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		source, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(expression).FindAllStringSubmatch(string(source), -1) {
			do(m)
		}
	}
}

func TestShapesByPath(t *testing.T) {
	for path, want := range map[string]server.Shape{
		"/api/v1/client": server.ShapeEnvelope, "/api/v1/client/x": server.ShapeEnvelope,
		"/api/v1/admin/x": server.ShapeEnvelope, "/api/v1/clients": server.ShapeWorkspace,
		"/api/v1": server.ShapeWorkspace, "/": server.ShapeWorkspace, "": server.ShapeWorkspace,
	} {
		require.Equal(t, want, server.ShapeOf([]byte(path)), path)
	}
}

func TestPercentDecodingIsDoneOnce(t *testing.T) {
	for text, want := range map[string]string{"a%2Fb": "a/b", "%252F": "%2F", "a+b": "a+b", "": ""} {
		got, ok := server.AppendUnescaped(nil, []byte(text))
		require.True(t, ok)
		require.Equal(t, want, string(got))
	}
	for _, text := range []string{"%", "%2", "%zz", "a%2"} {
		_, ok := server.AppendUnescaped(nil, []byte(text))
		require.False(t, ok, text)
	}
}

// request runs one request through a table, without a network.
func request(table *server.Table, method, target string) *fasthttp.RequestCtx {
	var ctx fasthttp.RequestCtx
	var r fasthttp.Request
	r.Header.SetMethod(method)
	r.SetRequestURI(target)
	ctx.Init(&r, nil, nil)
	table.Serve(&ctx)
	return &ctx
}

func TestRouting(t *testing.T) {
	var got string
	row := func(method, path string) server.Route {
		return server.Route{
			Method: method, Path: path, Operation: method + path,
			Handle: func(x *server.Exchange) {
				got = x.Route.Path
				count := strings.Count(path, "{")
				for i := range count {
					got += " " + string(x.Param(i))
				}
				require.Nil(t, x.Param(count), "what another path had there before")
				x.Succeed(200)
			},
		}
	}
	var observed []string
	table, err := server.NewTable([]server.Route{
		row("GET", "/a"), row("POST", "/a"), row("GET", "/a/{x}"), row("DELETE", "/a/{x}"),
		row("GET", "/a/b"), row("GET", "/a/{x}/c/{y}"), row("GET", "/a/b/d"),
	}, server.TableConfig{Observe: func(r *server.Route, status int, _ time.Duration) {
		name := "none"
		if r != nil {
			name = r.Operation
		}
		observed = append(observed, name+" "+strconv.Itoa(status))
	}})
	require.NoError(t, err)
	for target, want := range map[string]string{
		"/a": "/a", "/a/z": "/a/{x} z", "/a/b": "/a/b", "/a/b/c/d": "/a/{x}/c/{y} b d", "/a/b/d": "/a/b/d",
		"/a/%62": "/a/{x} b", "/a/x%2Fy": "/a/{x} x/y", "/a?x=/b": "/a", "/a/..": "/a/{x} ..",
	} {
		got = ""
		require.Equal(t, 200, request(table, "GET", target).Response.StatusCode(), target)
		require.Equal(t, want, got, target)
	}
	for _, target := range []string{"/", "/a/", "/b", "/a/z/", "/a/z/c", "//a", "/a//c/d", "/A"} {
		require.Equal(t, 404, request(table, "GET", target).Response.StatusCode(), target)
	}
	ctx := request(table, "DELETE", "/a")
	require.Equal(t, 405, ctx.Response.StatusCode())
	require.Equal(t, "GET, POST", string(ctx.Response.Header.Peek("Allow")))
	// A literal is preferred, with its own methods.
	require.Equal(t, 405, request(table, "DELETE", "/a/b").Response.StatusCode())
	require.Contains(t, observed, "GET/a/{x}/c/{y} 200")
	require.Contains(t, observed, "none 404")
	require.Contains(t, observed, "none 405")
	_, err = server.NewTable([]server.Route{row("GET", "/a/{x}"), row("GET", "/a/{y}")}, server.TableConfig{})
	require.ErrorContains(t, err, "twice")
	_, err = server.NewTable([]server.Route{{Method: "GET", Path: "/a"}}, server.TableConfig{})
	require.ErrorContains(t, err, "lacks")
}

// A request whose handler panics, or answers nothing, is answered 500, and counted as that.
func TestPanicsAreAnswered(t *testing.T) {
	for name, handle := range map[string]func(*server.Exchange){
		"panics":          func(x *server.Exchange) { x.Begin(); panic("a fault of ours") },
		"answers, panics": func(x *server.Exchange) { x.Succeed(200); panic("a fault of ours") },
		"answers nothing": func(x *server.Exchange) { x.Begin() },
	} {
		var observed []int
		table, err := server.NewTable([]server.Route{{
			Method: "GET", Path: "/api/v1/client/x", Operation: "x", Handle: handle,
		}}, server.TableConfig{Observe: func(_ *server.Route, status int, _ time.Duration) {
			observed = append(observed, status)
		}})
		require.NoError(t, err)
		ctx := request(table, "GET", "/api/v1/client/x")
		require.Equal(t, 500, ctx.Response.StatusCode(), name)
		require.Contains(t, string(ctx.Response.Body()), `"code":"internal_error"`, name)
		require.NotContains(t, string(ctx.Response.Body()), "ours", name)
		require.Equal(t, []int{500}, observed, name)
		reply := table.Call(server.Call{Operation: "x"})
		require.Equal(t, 500, reply.Status, name)
		require.NotNil(t, reply.Fault, name)
	}
}

// A process may be told to stop at the very moment it begins to listen.
func TestShutdownRightAfterServe(t *testing.T) {
	for range 200 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		s := server.Serve(ln, func(*fasthttp.RequestCtx) {}, server.DefaultLimits())
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		stopped := make(chan error, 1)
		go func() { stopped <- s.Shutdown(ctx) }()
		select {
		case err = <-stopped:
			require.NoError(t, err)
		case <-ctx.Done():
			require.Fail(t, "Shutdown waits for a listener that was never closed")
		}
		cancel()
	}
}

// TestDerivedKeysStayWhatTheyAre: keys that were shown are shown again by later versions too.
func TestDerivedKeysStayWhatTheyAre(t *testing.T) {
	require.Equal(t, "sk_test_iiw1H3lRmyFreIO9XhCkbxgqo75BATri31", server.DeriveKey(server.KeyPrefixSandbox, [32]byte{1}))
	require.NotEqual(t, server.DeriveKey(server.KeyPrefixSandbox, [32]byte{1}),
		server.DeriveKey(server.KeyPrefixSandbox, [32]byte{2}))
}
