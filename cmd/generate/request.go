package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// requests writes, for each type with a line //schema:request API Name, the function that reads the
// request from JSON. Options after the name:
//
//	patch  fields that are absent stay as they are; null is a mistake unless its tag allows it
//	check  checkName, by hand, judges what was read
func (o *output) requests() {
	o.api("request", func(t *typ, name string, options []string) {
		r := reading{output: o, patch: slices.Contains(options, "patch"), bits: map[string]string{}}
		var fields []field
		for _, f := range o.fields(t) {
			if f.Bits != "" {
				r.bits[f.Bits] = f.name
			}
			if f.Name != "" {
				fields = append(fields, f)
			}
		}
		o.use("server/form")
		o.line("func read%s(f *form.Reader, v *%s) {", name, o.qualified(t.pack, t.name))
		for _, f := range fields {
			if f.Default != "" {
				o.line("v.%s = %s", f.name, f.Default)
			}
		}
		o.line("for f.Next() {\nswitch string(f.Name) {")
		var names []string
		for bit, f := range fields {
			o.line("case %q:", f.Name)
			r.field(bit, f)
			names = append(names, strconv.Quote(f.Name))
		}
		o.line("default:\nf.Unknown(%s)\n}\n}", strings.Join(names, ", "))
		o.judge(fields)
		if slices.Contains(options, "check") {
			o.line("check%s(f, v)", name)
		}
		o.line("}\n")
	})
}

// reading is a function that reads a request.
type reading struct {
	*output
	patch bool
	bits  map[string]string // "given", "empty": the field that holds the flags
}

// field writes what reads a field and sets its flags.
func (r *reading) field(bit int, f field) {
	call, then := r.call(bit, f), ""
	given, empty := r.bits["given"], r.bits["empty"]
	if f.Bit != "" && given != "" {
		then += fmt.Sprintf("v.%s |= %s\n", given, r.qualified(f.in, f.Bit))
	}
	if f.Bit != "" && empty != "" && least(f) == 0 {
		then += fmt.Sprintf("if v.%s == \"\" {\nv.%s |= %s\n}\n", f.name, empty,
			r.qualified(f.in, f.Bit))
	}
	switch {
	case r.patch && f.Null:
		r.line("if f.Null(%d) {\nv.%s |= %s\n} else if %s {\n%s}", bit, given,
			r.qualified(f.in, f.Bit), call, then)
	case r.patch:
		r.line("if f.NotNull(%d) && %s {\n%s}", bit, call, then)
	case then != "":
		r.line("if %s {\n%s}", call, then)
	default:
		r.line("%s", call)
	}
}

// call returns the call that reads a field's value.
func (r *reading) call(bit int, f field) string {
	switch f.class {
	case isString:
		return fmt.Sprintf("f.Text(%d, &v.%s, %d, %d)", bit, f.name, least(f), f.Max)
	case isUint:
		if f.of.names() != nil {
			return fmt.Sprintf("form.Enum(f, %d, &v.%s, v.%s.Names())", bit, f.name, f.name)
		}
		return fmt.Sprintf("form.Uint(f, %d, &v.%s, %d, %d)", bit, f.name, f.Min, f.Max)
	case isDecimal:
		return fmt.Sprintf("f.Number(%d, &v.%s)", bit, f.name)
	}
	r.fail("%s: cannot generate a reader for %s", f.in.path, f.name)
	return ""
}

// least returns the fewest characters of a text. What is too short for an address is refused as no
// address.
func least(f field) int {
	if f.Email || f.Required {
		return 1
	}
	return f.Min
}

// judge writes what is judged when all fields were read.
func (o *output) judge(fields []field) {
	for bit, f := range fields {
		if f.Required {
			o.line("f.Need(%d, %q)", bit, f.Name)
		}
	}
	for bit, f := range fields {
		switch {
		case f.Email:
			o.line("if f.Right(%d) {\nf.Email(%q, v.%s)\n}", bit, f.Name, f.name)
		case f.class == isDecimal && f.HasMin:
			o.line("f.NotNegative(%q, v.%s)", f.Name, f.name)
		}
	}
}
