package main

import (
	"go/ast"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// cell is a field of a row: its selector, the basic type that it is or has below its own, and its
// own.
type cell struct {
	name, basic string
	of          *typ
}

// rowCalls append a field and read it back, by its basic type.
var rowCalls = map[string]struct{ append, read string }{
	"uint8":  {"append(dst, %s)", "r.U8()"},
	"uint16": {"rows.AppendU16(dst, %s)", "r.U16()"},
	"uint32": {"rows.AppendU32(dst, %s)", "r.U32()"},
	"uint64": {"rows.AppendI64(dst, int64(%s))", "r.U64()"},
	"int32":  {"rows.AppendU32(dst, uint32(%s))", "int32(r.U32())"},
	"int64":  {"rows.AppendI64(dst, %s)", "r.I64()"},

	"decimal.Decimal": {"rows.AppendDecimal(dst, %s)", "r.Decimal()"},
	"decimal.Exact":   {"rows.AppendExact(dst, %s)", "r.Exact()"},
}

// rows writes, for each struct with a line //schema:row, the codec of its bytes in a snapshot: its
// fields in order of declaration, or in that in which the lines name each of them; -Name leaves one
// out. Fields of type bool that follow each other share a byte. A hand-written method fits judges
// what was read.
func (o *output) rows() {
	for _, t := range o.pack.sorted() {
		if t.directive("row") == nil {
			continue
		}
		cells := o.cells(t, "")
		if order := t.rowOrder(); len(order) > 0 {
			cells = o.ordered(t, cells, order)
		}
		o.use("engine/page")
		o.use("engine/billing/internal/rows")
		first, size := utf8.DecodeRuneInString(t.name)
		title := string(unicode.ToUpper(first)) + t.name[size:]
		o.line("// %sCodec states the bytes of a row in a snapshot.", t.name)
		o.line("var %[1]sCodec = page.Codec[%[1]s]{Append: append%[2]s, Read: read%[2]s}\n",
			t.name, title)
		o.line("func append%s(dst []byte, v *%s) []byte {", title, t.name)
		o.eachCell(cells, o.appendCell)
		o.line("return dst\n}\n")
		o.line("func read%s(src []byte, v *%s) ([]byte, error) {", title, t.name)
		o.line("r := rows.Reader{Rest: src}")
		o.eachCell(cells, o.readCell)
		if o.pack.funcs[t.name+".fits"] {
			o.line("if r.Err == nil && !v.fits() {\nreturn nil, rows.ErrRecord\n}")
		}
		o.line("return r.Rest, r.Err\n}\n")
	}
}

// rowOrder returns the names that the lines //schema:row of a struct list.
func (t *typ) rowOrder() (names []string) {
	for _, d := range t.directives {
		if d[0] == "row" {
			names = append(names, d[1:]...)
		}
	}
	return names
}

// ordered returns the cells in the order that the lines name, which is all of them once.
func (o *output) ordered(t *typ, cells []cell, order []string) (sorted []cell) {
	named := map[string]bool{}
	for _, name := range order {
		name, left := strings.CutPrefix(name, "-")
		at := slices.IndexFunc(cells, func(c cell) bool { return c.name == name })
		switch {
		case at < 0:
			o.fail("%s.%s: the row has no field %s", t.pack.path, t.name, name)
			return nil
		case named[name]:
			o.fail("%s.%s: the row has %s twice", t.pack.path, t.name, name)
		case !left:
			sorted = append(sorted, cells[at])
		}
		named[name] = true
	}
	for _, c := range cells {
		if !named[c.name] {
			o.fail("%s.%s: %[3]s is not named: say where in the row it stands, or -%[3]s", t.pack.path,
				t.name, c.name)
		}
	}
	return sorted
}

// cells returns the fields of a struct, and of the structs in it, as declared.
func (m *module) cells(t *typ, prefix string) (all []cell) {
	s, ok := t.expr.(*ast.StructType)
	if !ok {
		m.fail("%s.%s: a row that is not a struct", t.pack.path, t.name)
		return nil
	}
	for _, f := range s.Fields.List {
		c := cell{basic: text(f.Type)}
		if _, known := rowCalls[c.basic]; !known {
			c.of = m.find(t, c.basic)
		}
		if c.of != nil {
			if _, nested := c.of.expr.(*ast.StructType); nested {
				for _, name := range f.Names {
					all = append(all, m.cells(c.of, prefix+name.Name+".")...)
				}
				if len(f.Names) == 0 {
					all = append(all, m.cells(c.of, prefix)...)
				}
				continue
			}
			c.basic = text(c.of.expr)
		}
		if len(f.Names) == 0 {
			m.fail("%s.%s: a row embeds %s, which is not a struct", t.pack.path, t.name, text(f.Type))
		}
		for _, name := range f.Names {
			if name.Name == "_" {
				continue // it fills a line of the cache
			}
			c.name = prefix + name.Name
			all = append(all, c)
		}
	}
	return all
}

// eachCell calls do with each field, and with those together that share a byte.
func (o *output) eachCell(cells []cell, do func(cells []cell)) {
	for len(cells) > 0 {
		n := 1
		for cells[0].basic == "bool" && n < len(cells) && cells[n].basic == "bool" {
			n++
		}
		do(cells[:n])
		cells = cells[n:]
	}
}

func (o *output) appendCell(cells []cell) {
	c := cells[0]
	switch call, known := rowCalls[c.basic]; {
	case c.basic == "bool":
		var flags []string
		for _, c := range cells {
			flags = append(flags, "v."+c.name)
		}
		o.line("dst = append(dst, rows.Flags(%s))", strings.Join(flags, ", "))
	case known && c.of != nil:
		o.line("dst = "+call.append, c.basic+"(v."+c.name+")")
	case known:
		o.line("dst = "+call.append, "v."+c.name)
	case strings.HasSuffix(c.basic, "]byte") && c.basic != "[]byte":
		o.line("dst = append(dst, v.%s[:]...)", c.name)
	default:
		o.fail("%s: cannot write %s as a field of a row", o.pack.path, c.name)
	}
}

func (o *output) readCell(cells []cell) {
	c := cells[0]
	switch call, known := rowCalls[c.basic]; {
	case len(cells) > 1:
		o.line("flags := r.U8()")
		for bit, c := range cells {
			o.line("v.%s = flags&%d != 0", c.name, 1<<bit)
		}
	case c.basic == "bool":
		o.line("v.%s = r.U8() != 0", c.name)
	case known && c.of != nil:
		o.line("v.%s = %s(%s)", c.name, o.qualified(c.of.pack, c.of.name), call.read)
	case known:
		o.line("v.%s = %s", c.name, call.read)
	case c.basic == "[16]byte":
		o.line("v.%s = r.ID()", c.name)
	default:
		o.line("copy(v.%[1]s[:], r.Take(len(v.%[1]s)))", c.name)
	}
}
