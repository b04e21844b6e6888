package main

import (
	"go/ast"
	"go/token"
)

// aliasNouns declares the types that lines //schema:nouns name, so that others find them.
func (p *pack) aliasNouns(m *module) {
	for _, words := range p.nouns {
		from := m.packages[p.path+"/internal/"+words[0]]
		for _, name := range words[1:] {
			if from != nil && from.types[name] != nil {
				p.types[name] = &typ{
					pack: p, name: name, alias: true, imports: map[string]string{words[0]: modulePath + from.path},
					expr: &ast.SelectorExpr{X: ast.NewIdent(words[0]), Sel: ast.NewIdent(name)},
				}
			}
		}
	}
}

// nouns writes, for each line //schema:nouns package Name …, the types, constants and variables of
// an internal package under the same names: users of this package name them so.
func (o *output) nouns() {
	for _, words := range o.pack.nouns {
		from := o.packages[o.pack.path+"/internal/"+words[0]]
		if from == nil {
			o.fail("%s: there is no internal package %s", o.pack.path, words[0])
			return
		}
		o.use(from.path)
		for _, name := range words[1:] {
			switch {
			case from.types[name] != nil:
				o.line("type %s = %s.%[1]s\n", name, words[0])
			case from.values[name] == token.CONST:
				o.line("const %s = %s.%[1]s\n", name, words[0])
			case from.values[name] == token.VAR:
				o.line("var %s = %s.%[1]s\n", name, words[0])
			default:
				o.fail("%s: package %s has no %s", o.pack.path, words[0], name)
			}
		}
	}
}
