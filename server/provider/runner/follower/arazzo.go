package follower

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"tollgate/server/inspect/extract"
	"tollgate/server/inspect/fill"
	"tollgate/server/inspect/openapi"
	"tollgate/server/inspect/signup"
	"tollgate/server/inspect/tree"
)

// maxSteps is how many steps a workflow may have.
const maxSteps = 6

// workflow is an Arazzo workflow that signs somebody up (Arazzo 1.0.1): its steps are operations of
// descriptions, and what one answers goes into the next.
type workflow struct {
	paper *paper
	node  *tree.Node
	steps []step
	fill  fill.Filler
	// values are the runtime expressions that are known: $inputs.…, $steps.….outputs.….
	values map[string]any
}

// step is one step, with its operation.
type step struct {
	id        string
	node      *tree.Node
	api       *api
	operation *openapi.Operation
}

// workflows are the workflows that sign somebody up by what they are called.
func (p *published) workflows() (ways []way) {
	for i := range p.arazzo {
		m := &p.arazzo[i]
		for _, n := range signup.Workflows(m.root) {
			w := way{kind: "arazzo", at: m.url, quote: n.Of("workflowId").Quote(m.text, maxQuote)}
			w.flow, w.why = p.workflow(m, n)
			ways = append(ways, w)
		}
	}
	return ways
}

func (p *published) workflow(m *paper, n *tree.Node) (*workflow, *stop) {
	f := &workflow{paper: m, node: n, fill: p.fill, values: map[string]any{}}
	f.fill.Resolve = referenceIn(m.root)
	list := n.Of("steps").List()
	if len(list) == 0 || len(list) > maxSteps {
		return nil, broken(fmt.Sprintf("it has %d steps, and 1 to %d are taken", len(list), maxSteps))
	}
	for i := range list {
		s := step{id: list[i].TextOf("stepId"), node: &list[i]}
		if s.api, s.operation = p.operationOf(m, s.node); s.operation == nil {
			why := broken("the operation of step " + head(s.id, 60) + " is not in a description")
			why.quote = s.node.Quote(m.text, maxQuote)
			return nil, why
		}
		f.steps = append(f.steps, s)
	}
	inputs, at, unsent := p.fill.Inputs(m.root, n)
	if why := unmade(unsent); why != nil {
		why.quote = at.Quote(m.text, maxQuote)
		return nil, why
	}
	for name, value := range inputs {
		f.values["$inputs."+name] = value
	}
	return f, nil
}

func broken(why string) *stop {
	return &stop{
		step: stepAcquire, rule: "workflow_broken", reason: "The workflow cannot be gone: " + why + ".",
	}
}

var (
	pathOf = regexp.MustCompile(`#/paths/([^/]+)/(\w+)$`)
	idOf   = regexp.MustCompile(`^\$sourceDescriptions\.([^.]+)\.(.+)$`)
)

// operationOf is the operation of a step: by its operationId, alone or with its source, or by its
// path within a source.
func (p *published) operationOf(m *paper, n *tree.Node) (*api, *openapi.Operation) {
	id := n.TextOf("operationId")
	source, path, method := "", "", ""
	if named := idOf.FindStringSubmatch(id); named != nil {
		source, id = named[1], named[2]
	}
	if where := n.TextOf("operationPath"); where != "" {
		if found := pathOf.FindStringSubmatch(where); found != nil {
			path = strings.ReplaceAll(strings.ReplaceAll(found[1], "~1", "/"), "~0", "~")
			method = strings.ToUpper(found[2])
		}
		if _, rest, ok := strings.Cut(where, "$sourceDescriptions."); ok {
			source, _, _ = strings.Cut(rest, ".")
		}
	}
	for i := range p.apis {
		a := &p.apis[i]
		if at := sourceAddress(m, source); at != "" && at != a.url {
			continue
		}
		if o := a.Named(id); o != nil && id != "" {
			return a, o
		}
		for j := range a.Operations {
			if o := &a.Operations[j]; path != "" && o.Path == path && o.Method == method {
				return a, o
			}
		}
	}
	return nil, nil
}

// sourceAddress is where a named source is; empty where it is not named, or unknown.
func sourceAddress(m *paper, name string) string {
	for i := range m.root.Of("sourceDescriptions").List() {
		n := &m.root.Of("sourceDescriptions").Items[i]
		if n.TextOf("name") == name {
			return extract.Resolved(m.url, n.TextOf("url"))
		}
	}
	return ""
}

// walk goes a workflow's steps.
func (s *session) walk(ctx context.Context, f *workflow) (*obtained, *stop) {
	var said *answer
	var named []string
	for i := range f.steps {
		at := &f.steps[i]
		var why *stop
		if said, why = s.stride(ctx, f, at); why != nil {
			why.final = why.final || i > 0
			if why.quote == "" {
				why.quote = at.node.Quote(f.paper.text, maxQuote)
			}
			return nil, why
		}
		of := signup.AnswerOf(at.api.Source, at.operation).Names
		named = slices.Concat(of, named) // the newest answer's first
	}
	outputs := f.node.Of("outputs")
	if outputs.Is(tree.Map) {
		for _, wanted := range signup.CredentialNames {
			for i, name := range outputs.Keys {
				value, _ := f.values[outputs.Items[i].AsText()].(string)
				if signup.PlainName(name) == wanted && isKey(value) {
					return &obtained{key: value}, nil
				}
			}
		}
	}
	if key, _ := credentialIn(said.root, named); key != "" {
		return &obtained{key: key}, nil
	}
	return nil, said.stop(ruleNoKey, "The workflow ends, and nothing in it is a key")
}

// stride goes one step of a workflow.
func (s *session) stride(ctx context.Context, f *workflow, at *step) (*answer, *stop) {
	r, why := f.request(at)
	if why != nil {
		return nil, why
	}
	if !s.web.allows(r.URL) {
		return nil, &stop{
			step: stepAcquire, rule: ruleOtherHost,
			reason: "The step " + head(at.id, 60) + " leads to a host that is none of the task's.",
		}
	}
	said, why := s.send(ctx, r)
	if why == nil {
		why = f.took(at, said)
	}
	return said, why
}

// request is the request of a step: its operation's, with what the step says.
func (f *workflow) request(s *step) (*fill.Request, *stop) {
	made := f.fill
	made.Resolve, made.Known = s.api.Resolve, map[string]string{}
	for i := range s.node.Of("parameters").List() {
		n := &s.node.Of("parameters").Items[i]
		value, why := f.put(n.Of("value"), 0)
		if why != nil {
			return nil, why
		}
		made.Known[signup.PlainName(n.TextOf("name"))] = fmt.Sprint(value)
	}
	payload := s.node.Of("requestBody").Of("payload")
	if payload == nil {
		r, why := made.Request(s.api.Source, s.api.url, s.operation)
		return r, unmade(why)
	}
	r, unsent := made.Request(s.api.Source, s.api.url, s.operation)
	if unsent != nil { // the step says it all itself
		r = &fill.Request{Method: s.operation.Method, URL: s.operation.Address(s.api.url)}
	}
	if media := s.node.Of("requestBody").TextOf("contentType"); media != "" {
		r.Media = media
	}
	var why *stop
	r.Body, why = f.put(payload, 0)
	return r, why
}

var embedded = regexp.MustCompile(`\{(\$[^{}]+)\}`)

// put is a value of a step, with its runtime expressions as what they stand for.
func (f *workflow) put(n *tree.Node, depth int) (any, *stop) {
	switch {
	case n == nil || depth > fill.MaxDepth:
		return nil, broken("a value is missing, or too deep")
	case n.Is(tree.Map):
		made := map[string]any{}
		for i, name := range n.Keys {
			value, why := f.put(&n.Items[i], depth+1)
			if why != nil {
				return nil, why
			}
			made[name] = value
		}
		return made, nil
	case n.Is(tree.Text) && strings.HasPrefix(n.Value, "$"):
		value, is := f.values[n.Value]
		if !is {
			return nil, broken(head(n.Value, 100) + " is not known")
		}
		return value, nil
	case n.Is(tree.Text):
		return embedded.ReplaceAllStringFunc(n.Value, func(text string) string {
			if value, is := f.values[text[1:len(text)-1]]; is {
				return fmt.Sprint(value)
			}
			return text
		}), nil
	default:
		return fill.Plain(n, depth), nil
	}
}

var statusIs = regexp.MustCompile(`^\s*\$statusCode\s*==\s*(\d{3})\s*$`)

// took checks what a step wants of its answer, and keeps its outputs.
func (f *workflow) took(s *step, said *answer) *stop {
	for i := range s.node.Of("successCriteria").List() {
		wanted := statusIs.FindStringSubmatch(s.node.Of("successCriteria").Items[i].TextOf("condition"))
		if wanted != nil && wanted[1] != fmt.Sprint(said.status) {
			return said.stop("criterion_failed", "The step "+head(s.id, 60)+" wants status "+wanted[1])
		}
	}
	outputs := s.node.Of("outputs")
	if !outputs.Is(tree.Map) {
		return nil
	}
	for i, name := range outputs.Keys {
		pointer, ok := strings.CutPrefix(outputs.Items[i].AsText(), "$response.body#")
		if !ok || said.root == nil {
			continue
		}
		if n := said.root.Follow("#" + pointer); n != nil {
			f.values["$steps."+s.id+".outputs."+name] = fill.Plain(n, 0)
		}
	}
	return nil
}
