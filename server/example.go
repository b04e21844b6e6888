package server

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Example is a request that a test made, and the answer that it got: identifiers, keys and
// addresses in it are replaced.
type Example struct {
	Operation string `json:"operation"`
	Method    string `json:"method"`
	Path      string `json:"path"`
	// Headers are those that belong to the operation, such as Idempotency-Key.
	Headers map[string]string `json:"headers,omitzero"`
	// Media is the media type of the body; empty is application/json. A body of another type is a
	// string.
	Media  string         `json:"media,omitzero"`
	Body   jsontext.Value `json:"body,omitzero"`
	Status int            `json:"status"`
	// Code is the code of a refusal.
	Code   string         `json:"code,omitzero"`
	Answer jsontext.Value `json:"answer,omitzero"`
}

// ReadExamples reads a file of examples.
func ReadExamples(text []byte) (all []Example, err error) {
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("server: examples: %w", err)
	}
	return all, nil
}

// Illustrate adds to routes what a guide says about them, and the examples of files. It returns the
// parts of the guide.
func Illustrate(routes []Route, guide string, files ...[]byte) ([]Tag, error) {
	g, err := ReadGuide(guide)
	if err != nil {
		return nil, err
	}
	if err = g.Explain(routes); err != nil {
		return nil, err
	}
	of := map[string][]Example{}
	for _, file := range files {
		all, err := ReadExamples(file)
		if err != nil {
			return nil, err
		}
		for _, e := range all {
			of[e.Operation] = append(of[e.Operation], e)
		}
	}
	for i := range routes {
		routes[i].Examples = of[routes[i].Operation]
	}
	return g.Tags, nil
}

// illustrator puts the examples of routes into a document.
type illustrator struct {
	byCode map[string]*Example // one refusal of each code
	// shared are the answers to refusals, which many operations have in common; names are their
	// names, by content.
	shared map[string]any
	names  map[string]string
}

func newIllustrator(routes []Route) *illustrator {
	l := &illustrator{
		byCode: map[string]*Example{}, shared: map[string]any{}, names: map[string]string{},
	}
	for i := range routes {
		for j := range routes[i].Examples {
			e := &routes[i].Examples[j]
			if e.Code != "" && l.byCode[e.Code] == nil {
				l.byCode[e.Code] = e
			}
		}
	}
	return l
}

// success is the first example that was not refused; nil if there is none.
func (r *Route) success() *Example {
	for i := range r.Examples {
		if r.Examples[i].Code == "" {
			return &r.Examples[i]
		}
	}
	return nil
}

// share is a reference to the answer of a refusal.
func (l *illustrator) share(e *Example) any {
	content := e.Code + string(e.Answer)
	name, known := l.names[content]
	if !known {
		name = e.Code
		for n := 2; l.shared[name] != nil; n++ {
			name = e.Code + "-" + strconv.Itoa(n)
		}
		l.names[content] = name
		l.shared[name] = map[string]any{"summary": e.Code, "value": e.Answer}
	}
	return map[string]any{"$ref": "#/components/examples/" + name}
}

// illustrateParameters adds to each parameter of the path and the query its value in the example.
func (r *Route) illustrateParameters(parameters []any) {
	e := r.success()
	if e == nil {
		return
	}
	path, query, _ := strings.Cut(e.Path, "?")
	segments, values := strings.Split(r.Path, "/"), strings.Split(path, "/")
	if len(segments) != len(values) {
		return
	}
	given := map[string]string{}
	for i, segment := range segments {
		if name, found := strings.CutPrefix(segment, "{"); found {
			given["path "+strings.TrimSuffix(name, "}")] = values[i]
		}
	}
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		given["query "+name] = value
	}
	for i, p := range r.Params {
		value, found := given[p.In+" "+p.Name]
		if !found {
			continue
		}
		if number, err := strconv.Atoi(value); err == nil && p.Schema.Type == "integer" {
			parameters[i].(map[string]any)["example"] = number
			continue
		}
		parameters[i].(map[string]any)["example"] = value
	}
}

// illustrateBody adds the bodies of successful requests to the contents by media type.
func (r *Route) illustrateBody(contents map[string]any) {
	for i := range r.Examples {
		e := &r.Examples[i]
		// A body that is a text, such as YAML, is in the request alone.
		content, ok := contents[e.media()].(map[string]any)
		if ok && e.Code == "" && len(e.Body) > 0 && e.Body.Kind() != '"' {
			addExample(content, strconv.Itoa(e.Status), map[string]any{"value": e.Body})
		}
	}
}

// answers adds what an operation answered. A refusal of a status that the route does not describe
// is described by its code and message.
func (l *illustrator) answers(r *Route, answers map[string]any) {
	add := func(status, name string, value any) {
		contents := answers[status].(map[string]any)["content"].(map[string]any)
		for _, media := range slices.Sorted(maps.Keys(contents)) {
			addExample(contents[media].(map[string]any), name, value)
		}
	}
	seen := map[string]bool{}
	abouts := map[string][]string{}
	for i := range r.Examples {
		e := &r.Examples[i]
		status := strconv.Itoa(e.Status)
		if e.Code == "" {
			if _, described := answers[status]; described && len(e.Answer) > 0 {
				add(status, status, map[string]any{"summary": e.Method + " " + e.Path, "value": e.Answer})
			}
			continue
		}
		seen[e.Code] = true
		if _, described := answers[status]; !described || len(abouts[status]) > 0 {
			abouts[status] = append(abouts[status], e.Code+": "+e.message())
		}
		if answers[status] == nil {
			answers[status] = map[string]any{
				"headers": answerHeaders(), "content": jsonContent(RefTo("Fault")),
			}
		}
		add(status, e.Code, l.share(e))
	}
	for status, lines := range abouts {
		answers[status].(map[string]any)["description"] = strings.Join(lines, "\n")
	}
	for _, response := range r.Responses {
		for _, code := range response.Codes {
			if e := l.byCode[code]; e != nil && !seen[code] && e.Status == response.Status {
				add(strconv.Itoa(response.Status), code, l.share(e))
			}
		}
	}
}

func addExample(content map[string]any, name string, value any) {
	examples, ok := content["examples"].(map[string]any)
	if !ok {
		examples = map[string]any{}
		content["examples"] = examples
	}
	if _, taken := examples[name]; !taken {
		examples[name] = value
	}
}

func (e *Example) media() string {
	if e.Media == "" {
		return "application/json"
	}
	return e.Media
}

// message is that of a refusal, in either of the two shapes.
func (e *Example) message() string {
	var refusal struct {
		Message string         `json:"message"`
		Error   jsontext.Value `json:"error"`
	}
	if err := json.Unmarshal(e.Answer, &refusal); err != nil {
		return http.StatusText(e.Status)
	}
	if refusal.Error.Kind() == '{' {
		if err := json.Unmarshal(refusal.Error, &refusal); err != nil {
			return http.StatusText(e.Status)
		}
	}
	return refusal.Message
}

// curl is the request as a line for a shell. key is what carries the key: a variable.
func (e *Example) curl(key string) string {
	var b strings.Builder
	b.WriteString("curl")
	if e.Method != "GET" && (e.Method != "POST" || len(e.Body) == 0) {
		b.WriteString(" -X " + e.Method)
	}
	b.WriteString(` "$TOLLGATE` + e.Path + `"`)
	if key != "" {
		b.WriteString(" \\\n  -H \"Authorization: Bearer $" + key + `"`)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		b.WriteString(" \\\n  -H '" + name + ": " + e.Headers[name] + "'")
	}
	if len(e.Body) == 0 {
		return b.String()
	}
	body := string(e.Body)
	if e.Body.Kind() == '"' {
		if text, err := jsontext.AppendUnquote(nil, e.Body); err == nil {
			body = string(text)
		}
	}
	b.WriteString(" \\\n  -H 'Content-Type: " + e.media() + "'")
	b.WriteString(" \\\n  -d '" + strings.ReplaceAll(body, "'", `'\''`) + "'")
	return b.String()
}
