package main

import (
	"slices"
	"strconv"
	"strings"
)

// unnamed is the comment of a constant of an enum that the API does not know.
const unnamed = "-"

// names returns the names of the values of a type with a line //schema:enum, by number. The comment
// after a constant is its name: CancelImmediate CancelMode = 1 // IMMEDIATE. A word behind
// schema:enum stands before the number of a value without a name.
func (t *typ) names() (names []string) {
	if t == nil || t.directive("enum") == nil {
		return nil
	}
	for _, spec := range t.pack.constants {
		name := strings.TrimSpace(spec.Comment.Text())
		if text(spec.Type) != t.name || len(spec.Values) != 1 || name == "" || name == unnamed {
			continue
		}
		n, err := strconv.Atoi(text(spec.Values[0]))
		if err != nil {
			continue
		}
		names = append(names, make([]string, max(0, n+1-len(names)))...)
		names[n] = name
	}
	return names
}

// checkNames refuses a constant of an enum that names would pass over, and a number or a name that
// two have. 0 may be without a name, and one with the comment - is so on purpose.
func (o *output) checkNames(t *typ) {
	seen := map[string]bool{}
	for _, spec := range t.pack.constants {
		comment := strings.TrimSpace(spec.Comment.Text())
		if text(spec.Type) != t.name || comment == unnamed {
			continue
		}
		number := ""
		if len(spec.Names) == 1 && len(spec.Values) == 1 {
			number = text(spec.Values[0])
		}
		if number == "0" && comment == "" {
			continue
		}
		_, err := strconv.Atoi(number)
		if err != nil || comment == "" || seen[number] || seen[comment] {
			o.fail("%s.%s: %s needs a number and, as comment, a name of its own, or // %s", t.pack.path,
				t.name, spec.Names[0].Name, unnamed)
		}
		seen[number], seen[comment] = true, true
	}
}

// enums writes the methods Names and String of each enum.
func (o *output) enums() {
	for _, t := range o.pack.sorted() {
		names := t.names()
		if names == nil {
			continue
		}
		o.checkNames(t)
		o.imports["strconv"] = ""
		list := strings.ToLower(t.name[:1]) + t.name[1:] + "Names"
		o.line("var %s = []string{", list)
		for n, name := range names {
			if name != "" {
				o.line("%d: %q,", n, name)
			}
		}
		o.line("}\n\n// Names returns the API's names of the values, by number.")
		o.line("func (%s) Names() []string { return %s }\n", t.name, list)
		o.line("// String returns the value's name in the API, its number where it has none, \"\" for 0.")
		o.line("func (v %s) String() string {", t.name)
		o.line("if int(v) < len(%[1]s) && (v == 0 || %[1]s[v] != \"\") {\nreturn %[1]s[v]\n}", list)
		if prefix := t.directive("enum")[1:]; len(prefix) > 0 {
			o.line("return %q + strconv.Itoa(int(v))\n}\n", prefix[0])
		} else {
			o.line("return strconv.Itoa(int(v))\n}\n")
		}
	}
}

// answers returns the name of the answer that a type is in the API of a package; "" for none.
func (t *typ) answers(p *pack) string { return t.called(p, "answer") }

// called returns the name of a type among those of some kinds of an API; "" is none.
func (t *typ) called(p *pack, kinds ...string) string {
	if t != nil {
		for _, d := range t.directives {
			if len(d) >= 3 && slices.Contains(kinds, d[0]) && "server/"+d[1] == p.path {
				return d[2]
			}
		}
	}
	return ""
}

// api calls do for each type with a line //schema:kind API Name …, where API is the package's
// folder in server.
func (o *output) api(kind string, do func(t *typ, name string, options []string)) {
	word, ok := strings.CutPrefix(o.pack.path, "server/")
	if !ok {
		return
	}
	for _, p := range o.sorted() {
		for _, t := range p.sorted() {
			for _, d := range t.directives {
				if len(d) >= 3 && d[0] == kind && d[1] == word {
					do(t, d[2], d[3:])
				}
			}
		}
	}
}

// sorted returns the packages by path.
func (m *module) sorted() []*pack {
	var all []*pack
	for _, p := range m.packages {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *pack) int { return strings.Compare(a.path, b.path) })
	return all
}
