package servertest

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/server"
)

var rewriteExamples = flag.Bool("examples", false, "write the OpenAPI documents' examples anew")

// Examples collects what a test asks and is answered, one exchange for each operation, status and
// code.
type Examples struct {
	t        testing.TB
	refusals bool // whether what is not refused is left out
	mu       sync.Mutex
	seen     map[string]server.Example
}

// recording holds the Examples of running tests, by their names.
var recording sync.Map

// RecordExamples collects all that the test asks from now on.
func RecordExamples(t testing.TB) *Examples {
	e := &Examples{t: t, seen: map[string]server.Example{}}
	recording.Store(t.Name(), e)
	t.Cleanup(func() { recording.Delete(t.Name()) })
	return e
}

// RecordRefusals collects all that is refused to the test from now on.
func RecordRefusals(t testing.TB) *Examples {
	e := RecordExamples(t)
	e.refusals = true
	return e
}

// NoteExample adds an exchange to the Examples of the test, or of the test that it is part of.
func NoteExample(
	t testing.TB, operation string, request *http.Request, status int, answer []byte,
) {
	name, _, _ := strings.Cut(t.Name(), "/")
	found, ok := recording.Load(name)
	if !ok {
		return
	}
	t.Helper()
	e := server.Example{
		Operation: operation, Method: request.Method, Path: request.URL.RequestURI(), Status: status,
	}
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if value := request.Header.Get(name); value != "" {
			e.Headers = map[string]string{name: value}
		}
	}
	if request.GetBody != nil {
		reader, err := request.GetBody()
		require.NoError(t, err)
		body, err := io.ReadAll(reader)
		require.NoError(t, err)
		media, _, _ := strings.Cut(request.Header.Get("Content-Type"), ";")
		if media != "application/json" && media != "" && len(body) > 0 {
			e.Media = media
		}
		e.Body = textOrJSON(t, body)
	}
	e.Answer = textOrJSON(t, answer)
	if status >= 400 {
		e.Code = codeOf(e.Answer)
	}
	found.(*Examples).add(e)
}

// maxExample is the length in bytes of what is not an example: hostile bodies, and whole pages.
const maxExample = 6000

// textOrJSON is a body as JSON: what is not becomes a string.
func textOrJSON(t testing.TB, body []byte) jsontext.Value {
	if len(body) == 0 || len(body) > maxExample {
		return nil
	}
	value := jsontext.Value(bytes.Clone(body))
	if value.Compact() == nil {
		return value
	}
	if !utf8.Valid(body) {
		return nil
	}
	quoted, err := jsontext.AppendQuote(nil, body)
	require.NoError(t, err)
	return quoted
}

func codeOf(answer jsontext.Value) string {
	var refusal struct {
		Error jsontext.Value `json:"error"`
	}
	var fault struct {
		Code string `json:"code"`
	}
	if json.Unmarshal(answer, &refusal) != nil || json.Unmarshal(refusal.Error, &fault) == nil {
		return fault.Code
	}
	var code string
	if json.Unmarshal(refusal.Error, &code) != nil {
		return ""
	}
	return code
}

func keyOf(e server.Example) string { return fmt.Sprint(e.Operation, " ", e.Status, " ", e.Code) }

// add keeps the first success of an operation and the shortest of the refusals of a code.
func (x *Examples) add(e server.Example) {
	if e.Status == 405 || x.refusals && e.Status < 400 || e.Status >= 400 && e.Code == "" {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	kept, known := x.seen[keyOf(e)]
	size := func(e server.Example) int { return len(e.Path) + len(e.Body) }
	shorter := cmp.Or(cmp.Compare(size(e), size(kept)), cmp.Compare(e.Path, kept.Path),
		bytes.Compare(e.Body, kept.Body))
	if !known || e.Code != "" && shorter < 0 {
		x.seen[keyOf(e)] = e
	}
}

// Exchange is a request that a test makes, and what its answer must be; Code is empty where it is
// not refused.
type Exchange = struct {
	Method, Path, Body string
	Status             int
	Code               string
}

// Play makes requests in turn and requires their answers.
func Play(
	t testing.TB, all []Exchange, ask func(method, path, body string) (status int, raw []byte),
) {
	t.Helper()
	var unexpected []string
	for _, e := range all {
		status, raw := ask(e.Method, e.Path, e.Body)
		code := ""
		if status >= 400 {
			code = codeOf(textOrJSON(t, raw))
		}
		if status != e.Status || code != e.Code {
			unexpected = append(unexpected, fmt.Sprint(e, " is answered ", status, " ", string(raw)))
		}
	}
	require.Empty(t, unexpected)
}

// Keys with which Refuse asks: none, one that may only read, and one that may do all.
const (
	NoKey   = ""
	ReadKey = "read"
	FullKey = "full"
)

// Refuse asks each operation of a document anew as ask does, from what was recorded of it: without
// a key, with one that may only read, with an unknown identifier, and with a field that does not
// exist.
func (x *Examples) Refuse(document *openapi3.T, ask func(method, path, body, key string)) {
	x.mu.Lock()
	all := maps.Clone(x.seen)
	x.mu.Unlock()
	for _, path := range document.Paths.InMatchingOrder() {
		for method, operation := range document.Paths.Value(path).Operations() {
			for _, e := range all {
				if e.Operation == operation.OperationID && e.Code == "" {
					refuse(e, method, path, operation, ask)
				}
			}
		}
	}
}

func refuse(e server.Example, method, path string, operation *openapi3.Operation,
	ask func(method, path, body, key string),
) {
	body := string(e.Body)
	if operation.Security != nil && len(*operation.Security) > 0 {
		ask(method, e.Path, body, NoKey)
	}
	if method != http.MethodGet {
		ask(method, e.Path, body, ReadKey)
	}
	asked, _, _ := strings.Cut(e.Path, "?")
	names, values := strings.Split(path, "/"), strings.Split(asked, "/")
	for i := len(names) - 1; i > 0; i-- {
		if !strings.HasPrefix(names[i], "{") {
			continue
		}
		if accidental[0].pattern.MatchString(values[i]) {
			values[i] = "018f6b2c-7d1e-7000-8000-00000000ffff"
		} else {
			values[i] = "nobody"
		}
		ask(method, strings.Join(values, "/"), body, FullKey)
		break
	}
	if rest, object := strings.CutPrefix(body, "{"); object {
		ask(method, e.Path, strings.Replace(`{"colour":"red",`+rest, ",}", "}", 1), FullKey)
	}
}

// CompareOf is Compare for what was asked below a path.
func (x *Examples) CompareOf(file, path string) {
	x.t.Helper()
	x.mu.Lock()
	maps.DeleteFunc(x.seen, func(_ string, e server.Example) bool {
		return !strings.HasPrefix(e.Path, path)
	})
	x.mu.Unlock()
	x.Compare(file)
}

// Compare compares what was collected with the examples of a file: the same operations, statuses
// and codes, and answers with the same members. The flag -examples writes the file anew, as far as
// it differs.
func (x *Examples) Compare(file string) {
	x.t.Helper()
	kept := map[string]server.Example{}
	text, err := os.ReadFile(file)
	if !*rewriteExamples || err == nil {
		require.NoError(x.t, err)
		all, err := server.ReadExamples(text)
		require.NoError(x.t, err)
		for _, e := range all {
			kept[keyOf(e)] = e
		}
	}
	var wrong []string
	all := make([]server.Example, 0, len(x.seen))
	for key, seen := range x.seen {
		seen = anonymous(seen)
		old, known := kept[key]
		if !known || shapeOf(x.t, old.Answer) != shapeOf(x.t, seen.Answer) ||
			shapeOf(x.t, old.Body) != shapeOf(x.t, seen.Body) {
			wrong = append(wrong, key)
			old = seen
		}
		all = append(all, old)
		delete(kept, key)
	}
	for key := range kept {
		wrong = append(wrong, key+" (gone)")
	}
	slices.Sort(wrong)
	if !*rewriteExamples {
		require.Empty(x.t, wrong, "%s is not what is answered: go test -run %s -args -examples",
			file, x.t.Name())
		return
	}
	if len(wrong) == 0 {
		return
	}
	slices.SortFunc(all, func(a, b server.Example) int { return strings.Compare(keyOf(a), keyOf(b)) })
	text, err = json.Marshal(all, jsontext.WithIndent("\t"), jsontext.EscapeForHTML(false))
	require.NoError(x.t, err)
	require.NoError(x.t, os.WriteFile(file, append(text, '\n'), 0o600))
}

// shapeOf are the members of a value, whatever they contain. Maps by identifier have none.
func shapeOf(t testing.TB, v jsontext.Value) string {
	if len(v) == 0 {
		return ""
	}
	var value any
	require.NoError(t, json.Unmarshal(v, &value))
	members := map[string]bool{}
	var walk func(path string, value any)
	walk = func(path string, value any) {
		switch value := value.(type) {
		case map[string]any:
			for name, member := range value {
				walk(path+"."+name, member)
			}
		case []any:
			for _, item := range value {
				walk(path+"[]", item)
			}
		default:
			members[path] = true
		}
	}
	walk("", value)
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// accidental are parts of exchanges that are others in each run, with what stands for them.
var accidental = []struct {
	pattern *regexp.Regexp
	stands  func(found string, n int) string
}{
	{
		regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`),
		func(_ string, n int) string { return fmt.Sprintf("018f6b2c-7d1e-7000-8000-%012d", n) },
	},
	{
		regexp.MustCompile(`\breq_[0-9a-z]{24}\b`),
		func(string, int) string { return "req_01j8zq4v6w9x2y3a5b7c9d0e" },
	},
	{
		regexp.MustCompile(`\b[a-z]{2,6}_(live_|test_)?[0-9A-Za-z]{26,}\b`),
		func(found string, n int) string {
			end := strings.LastIndexByte(found, '_') + 1
			return found[:end] + strings.Repeat("0", len(found)-end-4) + fmt.Sprintf("%04d", n)
		},
	},
	{
		regexp.MustCompile(`whsec_[0-9A-Za-z+/=]{20,}`),
		func(string, int) string { return "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3" },
	},
	{
		regexp.MustCompile(`http://127\.0\.0\.1:\d+`),
		func(string, int) string { return "https://tollgate.example" },
	},
}

// anonymous is an example in which the same identifier is replaced by the same one everywhere.
func anonymous(e server.Example) server.Example {
	stands := map[string]string{}
	replace := func(text string) string {
		for i, a := range accidental {
			text = a.pattern.ReplaceAllStringFunc(text, func(found string) string {
				by, known := stands[found]
				if !known {
					n := 1
					for other := range stands {
						if accidental[i].pattern.MatchString(other) {
							n++
						}
					}
					by = a.stands(found, n)
					stands[found], stands[by] = by, by
				}
				return by
			})
		}
		return text
	}
	e.Path = replace(e.Path)
	if len(e.Body) > 0 {
		e.Body = jsontext.Value(replace(string(e.Body)))
	}
	if len(e.Answer) > 0 {
		e.Answer = jsontext.Value(replace(string(e.Answer)))
	}
	return e
}

// RequireIllustrated requires of each operation of a document, but for those that are excused, a
// text, its part, a request, an answer, and of each refusal that is described an answer, too.
func RequireIllustrated(t testing.TB, document *openapi3.T, excused ...string) {
	t.Helper()
	tags := map[string]bool{}
	for _, tag := range document.Tags {
		require.NotEmpty(t, tag.Name)
		tags[tag.Name] = true
	}
	var wrong []string
	for _, path := range document.Paths.InMatchingOrder() {
		for _, o := range document.Paths.Value(path).Operations() {
			lacks := func(what string) { wrong = append(wrong, o.OperationID+" lacks "+what) }
			if len(o.Description) < 40 {
				lacks("a text")
			}
			if len(o.Tags) != 1 || !tags[o.Tags[0]] {
				lacks("its part")
			}
			if slices.Contains(excused, o.OperationID) {
				continue
			}
			if o.Extensions["x-codeSamples"] == nil {
				lacks("a request")
			}
			for status, answer := range o.Responses.Map() {
				for _, content := range answer.Value.Content { // no request causes 500
					if len(content.Examples) == 0 && status != "500" && status > "4" && status != "default" {
						lacks("an answer of " + status)
					}
				}
			}
		}
	}
	slices.Sort(wrong)
	require.Empty(t, wrong)
}

// declaredCodes are the codes that the text of a response names, one a line.
func declaredCodes(response *openapi3.ResponseRef) (codes []string) {
	if response == nil || response.Value.Description == nil {
		return nil
	}
	for line := range strings.Lines(*response.Value.Description) {
		if code, _, found := strings.Cut(line, ": "); found {
			codes = append(codes, code)
		}
	}
	return codes
}

// RequireDeclared requires of a refusal that its operation declares the code, with its status.
func RequireDeclared(t testing.TB, operation *openapi3.Operation, status int, answer []byte) {
	t.Helper()
	if status < 400 {
		return
	}
	code := codeOf(answer)
	if !slices.Contains(declaredCodes(operation.Responses.Value(strconv.Itoa(status))), code) {
		t.Errorf("%s does not declare that it answers %d %s", operation.OperationID, status, code)
	}
}

// refusalsOf calls yield for each code of each operation, in the order of the paths.
func refusalsOf(document *openapi3.T,
	yield func(method, path string, o *openapi3.Operation, status, code string),
) {
	for _, path := range document.Paths.InMatchingOrder() {
		operations := document.Paths.Value(path).Operations()
		for _, method := range slices.Sorted(maps.Keys(operations)) {
			o := operations[method]
			for _, status := range slices.Sorted(maps.Keys(o.Responses.Map())) {
				if status < "4" || status == "default" {
					continue
				}
				for _, code := range declaredCodes(o.Responses.Value(status)) {
					yield(method, path, o, status, code)
				}
			}
		}
	}
}

// DeclaredCodes are the codes that the operations of documents declare.
func DeclaredCodes(documents ...*openapi3.T) map[string]bool {
	all := map[string]bool{}
	for _, d := range documents {
		refusalsOf(d, func(_, _ string, _ *openapi3.Operation, _, code string) { all[code] = true })
	}
	return all
}

// RequireEveryCode requires that each code that operations declare has an example with each of
// them, but for those that are excused, each with a reason.
func RequireEveryCode(t testing.TB, document *openapi3.T, excused map[string]string) {
	t.Helper()
	lacking, declared := map[string]bool{}, map[string]bool{}
	refusalsOf(document, func(_, _ string, o *openapi3.Operation, status, code string) {
		declared[code] = true
		for _, content := range o.Responses.Value(status).Value.Content {
			if content.Examples[code] == nil {
				lacking[code] = true
			}
		}
	})
	require.Greater(t, len(declared), 50)
	for code, reason := range excused {
		require.NotEmpty(t, reason, code)
		require.True(t, lacking[code], "%s needs no excuse", code)
		delete(lacking, code)
	}
	require.Empty(t, slices.Sorted(maps.Keys(lacking)),
		"codes without an example; or the document is older than the examples: run -examples twice")
}

// Provoke asks for what was not asked yet: for each code of a command that has no example, the
// operations that declare it are asked as before, by a cluster that refuses it, until one answers.
func (x *Examples) Provoke(
	document *openapi3.T, refuse func(engine.Outcome), ask func(method, path, body string),
) {
	outcomes := map[string]engine.Outcome{}
	for o := 255; o > 0; o-- {
		if outcome := engine.Outcome(o); server.FaultOf(outcome) != server.FaultOf(engine.OutcomeNone) {
			outcomes[server.FaultOf(outcome).Code] = outcome
		}
	}
	outcomes["outcome_unknown"] = engine.OutcomeUnknown
	refusalsOf(document, func(method, path string, o *openapi3.Operation, status, code string) {
		outcome, known := outcomes[code]
		x.mu.Lock()
		var request *server.Example
		for _, e := range x.seen {
			known = known && e.Code != code
			asked := e.Operation == o.OperationID && e.Code == ""
			if asked && (request == nil || e.Status < request.Status) {
				request = &e
			}
		}
		x.mu.Unlock()
		if !known || request == nil || method == http.MethodGet {
			return
		}
		refuse(outcome)
		ask(method, request.Path, string(request.Body))
		refuse(engine.OutcomeNone)
	})
}
