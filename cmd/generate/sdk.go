package main

import (
	"go/ast"
	"slices"
	"strings"
)

const (
	// sdk is the folder of the Go client.
	sdk = "sdk/go"
	// billingview is the package of the nouns that the admin and the client API share.
	billingview = "server/billingview"
)

// apis are the APIs whose nouns the client has, each in its own file.
var apis = []string{"admin", "billingview", "client", "workspaceapi"}

// nouns are the kinds of types that others have as a field or embed.
var nouns = []string{"answer", "described"}

// clients writes the client's structs of the requests and answers of an API.
func (m *module) clients(api string) *output {
	o := m.output(&pack{path: "server/" + api, name: "tollgate"})
	var details []*typ
	for _, kind := range []string{"request", "described", "answer"} {
		o.api(kind, func(t *typ, name string, options []string) {
			if slices.Contains(options, "server") {
				return
			}
			o.comment(t.doc, t.name, name)
			o.line("type %s struct {", name)
			within, option, embedded := "", "", ""
			for _, f := range o.members(t) {
				if f.extra {
					continue
				}
				if noun := f.from.called(o.pack, nouns...); noun != "" {
					if noun != embedded {
						o.line("%s", noun)
					}
					embedded = noun
					continue
				}
				if f.Within != within {
					o.end(within, option)
					if option = ""; f.Whole {
						option = ",omitzero"
					}
					if f.Within != "" {
						o.line("%s struct {", exported(f.Within))
					}
					within = f.Within
				}
				o.comment(f.doc, f.name, exported(f.Name))
				o.member(f, kind != "answer", slices.Contains(options, "patch"))
			}
			o.end(within, option)
			for _, d := range m.details(t) {
				o.line("%s", d.name)
				if !slices.Contains(details, d) {
					details = append(details, d)
				}
			}
			o.line("}\n")
		})
	}
	for _, d := range details {
		o.detailsOf(d)
	}
	return o
}

// copies writes the client's structs of what nodes say of themselves: those with a line
// //schema:client Name, field by field as encoding/json writes them.
func (m *module) copies() *output {
	o := m.output(&pack{path: sdk, name: "tollgate"})
	for _, p := range m.sorted() {
		for _, t := range p.sorted() {
			if name := t.client(); name != "" {
				o.comment(t.doc, t.name, name)
				o.line("type %s struct {", name)
				o.copy(t)
				o.line("}\n")
			}
		}
	}
	return o
}

// client returns the name that the client has for a struct of a node, "" for none.
func (t *typ) client() string {
	if d := t.directive("client"); len(d) > 1 {
		return d[1]
	}
	return ""
}

// copy writes a struct's fields, with those of the structs embedded in it.
func (o *output) copy(t *typ) {
	s, ok := t.expr.(*ast.StructType)
	if !ok {
		o.fail("%s.%s: the client has copies of structs alone", t.pack.path, t.name)
		return
	}
	for _, f := range s.Fields.List {
		if len(f.Names) == 0 {
			if of := o.find(t, text(f.Type)); of != nil {
				o.copy(of)
			} else {
				o.fail("%s.%s: the embedded %s is not found", t.pack.path, t.name, text(f.Type))
			}
			continue
		}
		if f.Tag == nil {
			o.fail("%s.%s.%s: no json tag", t.pack.path, t.name, f.Names[0].Name)
			return
		}
		for line := range strings.Lines(f.Doc.Text()) {
			o.line("// %s", strings.TrimSpace(line))
		}
		var names []string
		for _, name := range f.Names {
			names = append(names, name.Name)
		}
		o.line("%s %s %s", strings.Join(names, ", "), o.copied(t, f.Type), f.Tag.Value)
	}
}

// copied returns a field's type in the client: a struct under the client's name, a named text or
// number as what it is.
func (o *output) copied(t *typ, e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return "*" + o.copied(t, e.X)
	case *ast.ArrayType:
		return "[]" + o.copied(t, e.Elt)
	case *ast.MapType:
		return "map[" + o.copied(t, e.Key) + "]" + o.copied(t, e.Value)
	}
	name := text(e)
	if name == "" {
		o.fail("%s.%s: cannot generate a client's field of this type", t.pack.path, t.name)
	}
	if name == "time.Time" {
		o.imports["time"] = ""
		return name
	}
	of := o.find(t, name)
	if of == nil {
		return name
	}
	if client := of.client(); client != "" {
		return client
	}
	return o.copied(of, of.expr)
}

// minDetail is the least number of a field of details, so that the commands which embed them have
// numbers left for fields of their own.
const minDetail = 32

// detailsOf writes the struct of details, which requests and answers embed. Its tags help and max
// are for programs that ask people for the fields.
func (o *output) detailsOf(t *typ) {
	o.comment(t.doc, t.name, t.name)
	fields := o.fields(t)
	if len(fields) == 0 {
		o.line("type %s struct{}\n", t.name)
		return
	}
	o.line("type %s struct {", t.name)
	for _, f := range fields {
		if f.Wire < minDetail || f.Name == "" || f.Within != "" || !f.OmitZero || f.Required {
			o.fail("%s.%s.%s: a detail has a number from %d on and a name, is omitzero and not required",
				t.pack.path, t.name, f.name, minDetail)
		}
		if f.class != isString && f.class != isUint {
			o.fail("%s.%s.%s: a detail is a text or a number", t.pack.path, t.name, f.name)
		}
		o.comment(f.doc, f.name, exported(f.Name))
		o.line("%s %s `json:%q max:\"%d\" help:%q`", exported(f.Name), o.kind(f),
			f.Name+",omitzero", f.Max, first(f.doc))
	}
	o.line("}\n")
}

func (o *output) end(object, option string) {
	if object != "" {
		o.line("} `json:%q`", object+option)
	}
}

// member writes a field. A zero value is left out of requests where that means the same; a field
// whose zero is a value is a pointer there.
func (o *output) member(f field, request, patch bool) {
	kind, option := o.kind(f), ""
	optional := f.OmitZero || f.If != "" || f.Null || f.Whole
	if request {
		optional = !f.Required
	}
	switch {
	case patch:
		kind, option = "Change["+kind+"]", ",omitzero"
	case request && optional && kind == "int" && f.Min == 0:
		kind, option = "*int", ",omitzero"
	case optional:
		option = ",omitzero"
	}
	o.line("%s %s `json:%q`", exported(f.Name), kind, f.Name+option)
}

// kind returns the type of a field in the client.
func (o *output) kind(f field) string {
	switch {
	case f.As == "time":
		o.imports["time"] = ""
		return "time.Time"
	case f.As == "flag":
		return "bool"
	case f.As == "list":
		return "[]int"
	case f.As == "object":
		o.imports["encoding/json"] = ""
		return "json.RawMessage"
	case f.String, f.of.names() != nil, f.As == "text", f.OneOf != "":
		return "string"
	}
	switch f.class {
	case isStrings:
		return "[]string"
	case isBool:
		if f.ptr {
			return "*bool"
		}
		return "bool"
	case isUint, isInt:
		return "int"
	case isDecimal:
		o.imports["encoding/json"] = ""
		return "json.Number"
	case isString, isBytes, isID:
		return "string"
	case isStruct, isList:
		kind := f.Ref
		if kind == "" {
			kind = f.of.called(o.pack, nouns...)
		}
		if kind == "" {
			kind = strings.TrimSuffix(strings.TrimSuffix(f.of.name, "View"), "Document")
		}
		if f.class == isList {
			return "[]" + kind
		}
		if f.ptr {
			return "*" + kind
		}
		return kind
	}
	o.fail("%s: cannot generate a client's field for %s", f.in.path, f.name)
	return ""
}

// comment writes the first sentence of a doc comment under another name. What follows it is about
// the engine.
func (o *output) comment(doc, name, now string) {
	if text := first(doc); text != "" {
		o.line("// %s", strings.Replace(text, name+" ", now+" ", 1))
	}
}

// first returns the first sentence of a doc comment.
func first(doc string) string {
	text := strings.Join(strings.Fields(doc), " ")
	if end := strings.Index(text, ". "); end >= 0 {
		text = text[:end+1]
	}
	return text
}

// exported returns a JSON name as a Go name: planId is PlanID, approval_url ApprovalURL.
func exported(name string) string {
	words := strings.Split(name, "_")
	for i, word := range words {
		words[i] = strings.ToUpper(word[:1]) + word[1:]
	}
	name = strings.Join(words, "")
	if rest, found := strings.CutPrefix(name, "Ttl"); found {
		name = "TTL" + rest
	}
	for _, end := range []string{"Id", "Url"} {
		if rest, found := strings.CutSuffix(name, end); found {
			name = rest + strings.ToUpper(end)
		}
	}
	return name
}
