package workspaceapi

import (
	"bytes"
	"context"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
	"tollgate/server/provider/runner"
)

// leaks are the ways in which a text may hold a key.
func leaks(key string) map[string]string {
	reversed := ""
	for _, r := range key {
		reversed = string(r) + reversed
	}
	all := map[string]string{
		"as it is": key, "percent": url.QueryEscape(key), "path": url.PathEscape(key),
		"quoted": strings.Trim(fmt.Sprintf("%q", key), `"`), "html": html.EscapeString(key),
		"hex": hex.EncodeToString([]byte(key)), "HEX": fmt.Sprintf("%X", key), "backwards": reversed,
	}
	percent, numbers, points := "", "", ""
	for _, b := range []byte(key) {
		percent += fmt.Sprintf("%%%02x", b)
	}
	for _, r := range key {
		numbers, points = numbers+fmt.Sprintf("&#%d;", r), points+fmt.Sprintf(`\u%04x`, r)
	}
	all["every byte"], all["HTML numbers"], all["JSON points"] = percent, numbers, points
	all["twice"] = url.QueryEscape(url.QueryEscape(key))
	for before := range 5 {
		text := []byte(strings.Repeat("x", before) + key + "yzzzz")
		all[fmt.Sprint("base32 ", before)] = base32.StdEncoding.EncodeToString(text)
	}
	for before := range 3 {
		text := []byte(strings.Repeat("x", before) + key + "yz")
		all[fmt.Sprint("base64 ", before)] = base64.StdEncoding.EncodeToString(text)
		all[fmt.Sprint("base64url ", before)] = base64.URLEncoding.EncodeToString(text)
	}
	return all
}

func TestKeysAreScrubbedInEveryEncoding(t *testing.T) {
	for _, key := range []string{productKey, `a b+c/"d"&<é>?ÿþ~`, "12345678"} {
		s := scrubberOf(key)
		for name, text := range leaks(key) {
			cleaned := s.clean("it says " + text + " and more")
			require.Contains(t, cleaned, scrubbed, name)
			require.NotContains(t, cleaned, text, name)
			require.NotContains(t, cleaned, key, name)
		}
	}
	require.Equal(t, "nothing", scrubberOf("").clean("nothing"))
	require.Equal(t, "a [key] b", scrubberOf("x1").clean("a x1 b"))
	// One may be within another, and escapes may be mixed.
	two := scrubberOf(productKey, "x-"+productKey)
	require.Equal(t, "[key] [key]", two.clean(productKey+" x-"+productKey))
	require.Equal(t, "[key]!", two.clean(`%70k\u005f&#48;12%2533456789ABCDEF!`))
	require.Equal(t, "[key]", scrubberOf("100%25 sure").clean("100%252525%20sure"))
	require.Equal(t, productKey[:18], two.clean(productKey[:18]))
}

// TestASpelledKeyIsAKey: whatever stands between its characters, and in whichever encoding.
func TestASpelledKeyIsAKey(t *testing.T) {
	const key = "pk_sample_7Q2Z-XYabc"
	s := scrubberOf(key)
	raw := hex.EncodeToString([]byte(key))
	var pairs, numbered []string
	for i := 0; i < len(raw); i += 2 {
		pairs, numbered = append(pairs, raw[i:i+2]), append(numbered, "0x"+raw[i:i+2])
	}
	encoded := base64.StdEncoding.EncodeToString([]byte(key))
	encoded = encoded[:10] + "\n" + encoded[10:20] + "\r\n " + encoded[20:]
	for _, between := range []string{
		" ", "  ", "\n", "\t", "-", ".", ", ", "','", "\u00a0", "\u200b", "·", " | ", "%20", "&nbsp;", `\n`,
		`\u0020`, "+", "…",
	} {
		text := strings.Join(strings.Split(key, ""), between)
		require.Equal(t, "it is [key], so", s.clean("it is "+text+", so"), "%q", between)
		text = strings.Join(strings.Split(backwards(key), ""), between)
		require.Equal(t, "it is [key], so", s.clean("it is "+text+", so"), "backwards %q", between)
	}
	for _, text := range []string{
		strings.Join(pairs, " "), strings.Join(pairs, ":"), strings.Join(numbered, ", ")[2:],
		"pk_sample_ 7Q2Z-XYabc", "pk_sample_7Q2Z\nXYabc"[:14] + "- XYabc",
	} {
		require.Equal(t, "it is [key], so", s.clean("it is "+text+", so"), text)
	}
	// Of the last character of base64 not all bits are the key's.
	require.Regexp(t, `^it is \[key\].{0,4}, so$`, s.clean("it is "+encoded+", so"))
	// What does not say all of it stays.
	for _, text := range []string{"pk_sample_ and 7Q2Z", "p k s a m p l e", "7Q2Z XYabc"} {
		require.Equal(t, text, s.clean(text))
	}

	// Of a key that nobody knows yet, as far as it looks like one.
	spelled := strings.Join(strings.Split("sk_live_0123456789abcdef", ""), " ")
	require.Equal(t, "it is [key] there", masked("it is "+spelled+" there"))
	require.Equal(t, "it is [key] there", veiled("it is a b c d 1 f g H there"))
	require.Equal(t, "choose a b c d e f g or h", veiled("choose a b c d e f g or h"))
}

func TestWhatAPersonAnswersIsASecret(t *testing.T) {
	for answer, want := range map[string][]string{
		"4711": {"4711"}, "hush": {"hush"}, "yes": nil,
		`the code is "4711".`: {`the code is "4711"`, "4711"},
		"it is Tulip-9, dear": {"it is Tulip-9, dear", "Tulip-9"},
	} {
		require.Equal(t, want, slices.Compact(answerSecrets(answer)), answer)
	}
}

func TestWhatCouldBeAKeyIsVeiled(t *testing.T) {
	require.Equal(t, "POST /keys → 200, acquire_credential of [key] and [key]",
		veiled("POST /keys → 200, acquire_credential of pk_0123456 and abcdEfgh"))
}

func TestWhatLooksLikeAKeyIsMasked(t *testing.T) {
	for _, text := range []string{
		"sk_live_0123456789abcdef", "Authorization: Bearer", "AKIAABCDEFGHIJKLMNOP",
		"Zx81kQpL0vB3nM7tR5yW2cD9fG4hJ6sA",
	} {
		require.Contains(t, masked("it got "+text+" there"), scrubbed, text)
		require.NotContains(t, masked("it got "+text+" there"), text)
	}
	require.Equal(t, "POST /keys → 200", masked("POST /keys → 200"))
	for text, want := range map[string]string{
		"password=hunter2":                      "[key]",
		"a password: hunter2; then":             "a [key]; then",
		`{"api_key":"hunter2 x","a":1}`:         `{[key],"a":1}`,
		`{\"client-secret\":\"hunter2\"}`:       `{[key]}`,
		"/a?access_token=hunter2&b=1":           "/a?[key]&b=1",
		"/a?x%3D1&pwd%3Dhunter2":                "/a?x%3D1&[key]",
		"Authorization: Digest a=1, hunter2\nx": "[key]\nx",
		"Cookie: a=b; c=hunter2":                "[key]",
		"sent Bearer hunter2 there":             "sent [key] there",
		"the token is here, the key, too":       "the token is here, the key, too",
	} {
		require.Equal(t, want, masked(text), text)
	}
}

// beaten is a group that tells of heartbeats, and of what they store.
type beaten struct {
	*group
	beats chan int // events
	// missed is how many heartbeats are not heard first.
	missed atomic.Int32
}

func (b *beaten) Propose(until time.Time, records []engine.Record, results []engine.Result) {
	if records[0].Kind == workspace.KindExtendLease && b.missed.Add(-1) >= 0 {
		results[0] = engine.Result{Outcome: engine.OutcomeUnavailable}
		return
	}
	b.group.Propose(until, records, results)
	var beat workspace.ExtendLease
	if records[0].Kind == workspace.KindExtendLease && wire.Decode(records[0].Payload,
		&beat) == nil {
		b.beats <- len(beat.Events)
	}
}

// often lets heartbeats come without waiting for them.
func often(w *Workers) { w.beat = 20 * time.Millisecond }

// blabber is an agent that says the keys that it obtains in all encodings: before it hands them
// over, before and after heartbeats, while it asks a person, in what it goes on from, at its end,
// and in its death.
type blabber struct {
	t     *testing.T
	beats chan int
}

const otherKey = "pk_fedcba9876543210"

func (b *blabber) Run(_ context.Context, task runner.Task, emit sink) (runner.Report, error) {
	said := "password=hunter2 " + task.Answer + " "
	for _, key := range []string{productKey, otherKey} {
		for _, text := range leaks(key) {
			emit(runner.Event{At: time.Now(), Text: strings.Repeat("a ", 142) + text})
			said += text + " "
		}
		require.Zero(b.t, <-b.beats, "nothing is stored of a run that is about a key while it works")
	}
	if strings.Contains(task.Task, "person") && task.Checkpoint == nil {
		return runner.Report{Question: said, Checkpoint: []byte(said)}, nil
	}
	for _, key := range []string{otherKey, productKey} {
		emit(runner.Event{At: time.Now(), Text: said, Credential: key})
	}
	if strings.Contains(task.Task, "panic") {
		panic(said)
	}
	report := runner.Report{
		Credential: productKey, Step: strings.Repeat("b", 75) + productKey, Code: productKey,
		Reason: said, Blocked: strings.Contains(task.Task, "blocked"),
	}
	if strings.Contains(task.Task, "lost") {
		return runner.Report{}, fmt.Errorf("%w: %s", runner.ErrUnavailable, said)
	}
	return report, nil
}

// TestNoKeyIsStored: whatever an agent says, whenever, in whichever encoding, and at the place
// where texts are cut: neither the log, nor a snapshot, nor an answer, nor what the node prints has
// a key that it handed over, a password, or what a person answered.
func TestNoKeyIsStored(t *testing.T) {
	t.Parallel()
	n, verifier, base := idleNode(t)
	agent := &blabber{t, make(chan int, 1000)}
	var printed lockedText
	n.workWith(t, WorkersConfig{
		Proposer: &beaten{group: n.group, beats: agent.beats}, Verifier: verifier,
		Agents: map[string]runner.Agent{"clever": agent},
		Log:    slog.New(slog.NewTextHandler(&printed, nil)), Workers: 5,
	}, often)
	c := n.signUp("")
	c.claim()
	ends := map[string]any{
		"Sign up.": "passed", "Be blocked.": "blocked", "Be lost.": "inconclusive",
		"Be in panic.": "inconclusive", "Ask a person.": nil,
	}
	ended := map[string]string{}
	for task := range ends {
		flow := c.keyFlow(base, "clever")
		change := `{"task":"` + task + `"}`
		if task == "Be blocked." {
			// A verification that is never as it should be: the agent's word for why is taken.
			change = `{"task":"Be blocked.","verification":{"url":"` + base + `/me","contains":"never"}}`
		}
		c.call("PATCH", "/v1/flows/"+flow, change).is(200, "")
		ended[task] = c.start(flow, "key-0"+flow[5:]).is(202, "").at("run", "id").(string)
	}
	seen := ""
	for task, id := range ended {
		a := c.until(id, func(s string) bool { return s != "queued" && s != "running" })
		require.Equal(t, ends[task], a.at("run", "outcome"), task)
		seen += string(a.raw)
		if ends[task] == nil {
			c.call("POST", "/v1/runs/"+id+"/resume", `{"answer":"it is Tulip-9"}`).is(202, "")
			a = c.until(id, func(s string) bool { return s != "queued" && s != "running" })
			require.Equal(t, "human_after_credential", a.at("run", "reasonCode"), "it had kept its key")
			require.Equal(t, [2]any{"free", "returned"}, c.charged(a))
			seen += string(a.raw)
		}
	}
	require.Contains(t, seen, scrubbed)
	for _, path := range []string{"/v1/runs", "/v1/issues", "/v1/notifications", "/v1/account"} {
		seen += string(c.call("GET", path, "").is(200, "").raw)
	}
	stored := map[string]string{"log": n.Log(), "answers": seen}
	snapshot, err := n.Machine.Snapshot()
	require.NoError(t, err)
	var written bytes.Buffer
	_, err = snapshot.WriteTo(&written)
	require.NoError(t, err)
	snapshot.Release()
	stored["snapshot"], stored["prints"] = written.String(), printed.String()
	require.Contains(t, stored["prints"], "panicked")
	for where, text := range stored {
		require.NotEmpty(t, text, where)
		for _, key := range []string{productKey, otherKey} {
			for name, leak := range leaks(key) {
				require.NotContains(t, text, leak, "%s: %s", where, name)
			}
			require.NotContains(t, text, key[:len(key)-4], "%s: half a key is one, too", where)
		}
		require.NotContains(t, text, "hunter2", where)
		require.NotContains(t, text, "Tulip", where)
	}
}

// lockedText is a text that is written while it is read.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestHeartbeatsStoreWhatIsSaid of a run that is about no key, masked; those that were not heard,
// with the next.
func TestHeartbeatsStoreWhatIsSaid(t *testing.T) {
	n, verifier, base := idleNode(t)
	beats, release := make(chan int, 1000), make(chan struct{})
	hard := &beaten{group: n.group, beats: beats}
	hard.missed.Store(2)
	n.workWith(t, WorkersConfig{
		Proposer: hard, Verifier: verifier,
		Agents: map[string]runner.Agent{"clever": agentFunc(
			func(ctx context.Context, _ runner.Task, emit sink) (runner.Report, error) {
				emit(runner.Event{Text: `sends {"password": "hunter2 & co"} as Bearer abcdef0`})
				emit(runner.Event{Text: strings.Repeat(productKey, 1000)})
				select {
				case <-release:
				case <-ctx.Done():
				}
				return runner.Report{}, nil
			})},
	}, often)
	c := n.signUp("")
	c.claim()
	flow := c.flow(`{` + strings.Replace(flowText, "https://product.example", base, 1) +
		`,"agent":"clever","verification":{"url":"` + base + `/done","status":200,"contains":"done"}}`)
	id := c.start(flow, "key-00001").is(202, "").at("run", "id").(string)
	said := 0
	require.Eventually(t, func() bool {
		for len(beats) > 0 {
			said += <-beats
		}
		return said >= 2
	}, time.Minute, time.Millisecond)
	events := c.call("GET", "/v1/runs/"+id, "").at("run", "events").([]any)
	require.Equal(t, "sends {[key]} as [key]", events[0].(map[string]any)["text"])
	require.Equal(t, "(19000 bytes, left out)", events[1].(map[string]any)["text"])
	close(release)
	c.until(id, func(s string) bool { return s == "completed" })
}
