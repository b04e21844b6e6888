package main

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
)

// aliasNouns declares the types that lines //schema:nouns name, so that others find them.
func (p *pack) aliasNouns(m *module) {
	for _, words := range p.nouns {
		from := m.packages[p.path+"/internal/"+words[0]]
		for _, name := range words[1:] {
			if from != nil && from.types[name] != nil {
				p.types[name] = &typ{
					pack: p, name: name, alias: true,
					imports: map[string]string{words[0]: modulePath + from.path},
					expr:    &ast.SelectorExpr{X: ast.NewIdent(words[0]), Sel: ast.NewIdent(name)},
				}
			}
		}
	}
}

// nouns writes, for the lines //schema:nouns package Name …, the types, constants and variables of
// internal packages under the same names: users of this package name them so.
func (o *output) nouns() {
	groups := map[string][]string{}
	for _, words := range o.pack.nouns {
		from := o.packages[o.pack.path+"/internal/"+words[0]]
		if from == nil {
			o.fail("%s: there is no internal package %s", o.pack.path, words[0])
			return
		}
		o.use(from.path)
		for _, name := range words[1:] {
			kind := "type"
			if from.types[name] == nil {
				kind = from.values[name].String() // const or var
			}
			groups[kind] = append(groups[kind], fmt.Sprintf("%s = %s.%[1]s", name, words[0]))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(groups)) {
		o.line("// Names of the packages below.\n%s (\n%s\n)\n", kind, strings.Join(groups[kind], "\n"))
	}
}
