package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"tollgate/engine/schema"
)

// module is the source that the generator reads. It reads syntax only, so it also works while a
// package does not compile because generated code is missing.
type module struct {
	root     string
	packages map[string]*pack // by path from the root
	err      error            // the first
}

// pack is one package: its types, and which functions and methods are written by hand.
type pack struct {
	path, name string
	types      map[string]*typ
	funcs      map[string]bool // "f"; "T.m" for methods
	// found is, for each type with a method apply, the type of its last parameter: what its row found.
	found     map[string]string
	constants []*ast.ValueSpec
	values    map[string]token.Token // VAR or CONST
	nouns     [][]string             // the words of its //schema:nouns lines
}

// sorted returns the package's types by name, so that moving one does not change the output.
func (p *pack) sorted() []*typ {
	all := make([]*typ, 0, len(p.types))
	for _, t := range p.types {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *typ) int { return strings.Compare(a.name, b.name) })
	return all
}

type typ struct {
	pack       *pack
	name       string
	doc        string
	directives [][]string // the words of its //schema: lines
	expr       ast.Expr
	imports    map[string]string
	alias      bool
}

// class is how the generator treats a field, by its type.
type class uint8

const (
	isBool class = iota + 1
	isUint
	isInt
	isString
	isBytes
	isID
	isHash
	isDecimal
	isStruct
	isList
	isStrings
)

// field is a field of a struct, or of one embedded in it.
type field struct {
	schema.Tag
	name  string // a selector, such as "Credits.Pool", for a field of an inlined struct
	class class
	size  int  // bits of an isUint
	own   bool // not an embedded struct's
	extra bool // an embedded details struct's
	from  *typ // the embedded struct that has it
	of    *typ // the declared type, where it has one; of a list, its items'
	in    *pack
	doc   string
	ptr   bool
}

func load(root string) (*module, error) {
	m := &module{root: root, packages: map[string]*pack{}}
	for _, folder := range folders {
		visit := func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") ||
				strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, suffix) {
				return err
			}
			return m.parse(path)
		}
		if err := filepath.WalkDir(filepath.Join(root, folder), visit); err != nil {
			return nil, err
		}
	}
	for _, p := range m.packages {
		p.aliasNouns(m)
	}
	return m, nil
}

func (m *module) fail(format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf(format, args...)
	}
}

func (m *module) parse(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, text,
		parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	path, err := filepath.Rel(m.root, filepath.Dir(name))
	if err != nil {
		return err
	}
	path = filepath.ToSlash(path)
	p := m.packages[path]
	if p == nil {
		p = &pack{
			path: path, name: file.Name.Name, types: map[string]*typ{}, funcs: map[string]bool{},
			found: map[string]string{}, values: map[string]token.Token{},
		}
		m.packages[path] = p
	}
	p.declare(file)
	return nil
}

func (p *pack) declare(file *ast.File) {
	imports := map[string]string{}
	for _, spec := range file.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		name := path[strings.LastIndex(path, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imports[name] = path
	}
	for _, group := range file.Comments {
		for _, line := range group.List {
			if rest, ok := strings.CutPrefix(line.Text, "//schema:nouns "); ok {
				p.nouns = append(p.nouns, strings.Fields(rest))
			}
		}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = strings.TrimPrefix(text(d.Recv.List[0].Type), "*") + "." + name
			}
			p.funcs[name] = true
			if of, ok := strings.CutSuffix(name, ".apply"); ok {
				p.found[of] = text(d.Type.Params.List[len(d.Type.Params.List)-1].Type)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					doc := cmp.Or(spec.Doc, d.Doc)
					t := &typ{
						pack: p, name: spec.Name.Name, expr: spec.Type, imports: imports,
						alias: spec.Assign.IsValid(),
					}
					t.direct(doc)
					p.types[t.name] = t
				case *ast.ValueSpec:
					p.constants = append(p.constants, spec)
					for _, name := range spec.Names {
						p.values[name.Name] = d.Tok
					}
				}
			}
		}
	}
}

func (t *typ) direct(doc *ast.CommentGroup) {
	if doc == nil {
		return
	}
	t.doc = doc.Text()
	for _, line := range doc.List {
		if rest, ok := strings.CutPrefix(line.Text, "//schema:"); ok {
			t.directives = append(t.directives, strings.Fields(rest))
		}
	}
}

// directive returns the words of a line //schema:word …; nil when there is none.
func (t *typ) directive(word string) []string {
	for _, d := range t.directives {
		if d[0] == word {
			return d
		}
	}
	return nil
}

// text returns a type expression as it is written.
func text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return "*" + text(e.X)
	case *ast.SelectorExpr:
		return text(e.X) + "." + e.Sel.Name
	case *ast.BasicLit:
		return e.Value
	case *ast.ArrayType:
		if e.Len == nil {
			return "[]" + text(e.Elt)
		}
		return "[" + text(e.Len) + "]" + text(e.Elt)
	case *ast.IndexExpr:
		return text(e.X)
	}
	return ""
}

// find resolves a type's name where t is declared.
func (m *module) find(t *typ, name string) *typ {
	at, selected, qualified := strings.Cut(name, ".")
	if !qualified {
		return t.pack.types[name]
	}
	p := m.packages[strings.TrimPrefix(t.imports[at], modulePath)]
	if p == nil || p.types[selected] == nil {
		return nil
	}
	if of := p.types[selected]; of.alias {
		return m.find(of, text(of.expr))
	}
	return p.types[selected]
}

var basic = map[string]field{
	"bool": {class: isBool}, "string": {class: isString}, "int64": {class: isInt},
	"uint8": {class: isUint, size: 8}, "uint16": {class: isUint, size: 16},
	"uint32": {class: isUint, size: 32}, "uint64": {class: isUint, size: 64},
	"[]byte": {class: isBytes}, "[16]byte": {class: isID}, "[32]byte": {class: isHash},
	"[]string": {class: isStrings}, "decimal.Decimal": {class: isDecimal},
}

// classify returns the class of a field of t, by its type.
func (m *module) classify(t *typ, name string) field {
	if f, ok := basic[name]; ok {
		return f
	}
	if to, ok := strings.CutPrefix(name, "*"); ok {
		f := m.classify(t, to)
		f.ptr = true
		return f
	}
	if item, ok := strings.CutPrefix(name, "[]"); ok {
		return field{class: isList, of: m.find(t, item)}
	}
	of := m.find(t, name)
	if of == nil {
		return field{}
	}
	if _, ok := of.expr.(*ast.StructType); ok {
		return field{class: isStruct, of: of}
	}
	f := m.classify(of, text(of.expr))
	f.of = of
	return f
}

// fields returns the tagged fields of a struct and of those embedded in it, as declared.
func (m *module) fields(t *typ) (all []field) {
	s, ok := t.expr.(*ast.StructType)
	if !ok {
		return nil
	}
	for _, f := range s.Fields.List {
		v := m.classify(t, text(f.Type))
		var tagged bool
		if f.Tag != nil {
			tags, err := strconv.Unquote(f.Tag.Value)
			if err == nil {
				v.Tag, err = schema.Parse(reflect.StructTag(tags))
			}
			if err != nil {
				m.fail("%s.%s: %w", t.pack.path, t.name, err)
			}
			tagged = v.Tag != schema.Tag{}
			if v.Since > 0 && v.Wire == 0 {
				m.fail("%s.%s: since of a field without a number", t.pack.path, t.name)
			}
		}
		switch {
		case len(f.Names) == 0 && v.class == isStruct && v.Name != "":
			v.own, v.in, v.name = true, t.pack, v.of.name
			all = append(all, v)
		case len(f.Names) == 0 && v.class == isStruct:
			for _, inner := range m.fields(v.of) {
				inner.own, inner.from = false, v.of
				inner.extra = inner.extra || v.of.directive("details") != nil
				all = append(all, inner)
			}
		case v.Inline:
			for _, inner := range m.fields(v.of) {
				inner.name = f.Names[0].Name + "." + inner.name
				all = append(all, inner)
			}
		case tagged:
			v.own, v.in, v.doc = true, t.pack, f.Doc.Text()
			for _, name := range f.Names {
				one := v
				one.name = name.Name
				all = append(all, one)
			}
		}
	}
	return all
}

// details returns the structs with a line //schema:details that a struct embeds.
func (m *module) details(t *typ) (all []*typ) {
	s, ok := t.expr.(*ast.StructType)
	if !ok {
		return nil
	}
	for _, f := range s.Fields.List {
		of := m.classify(t, text(f.Type)).of
		switch {
		case len(f.Names) > 0 || of == nil:
		case of.directive("details") != nil:
			all = append(all, of)
		default:
			all = append(all, m.details(of)...)
		}
	}
	return all
}
