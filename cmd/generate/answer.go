package main

import (
	"fmt"
	"slices"
	"strings"
)

// answers writes, for each type with a line //schema:answer API Name, the function that writes the
// answer as JSON, in the order of the struct's fields.
func (o *output) answers() {
	o.api("answer", func(t *typ, name string, _ []string) {
		o.use("server")
		if o.pack.path == billingview {
			o.line("// %s writes an answer, as both APIs have it.", writer(o.pack, name))
		}
		o.line("func %s(data *server.JSON, v *%s) {", writer(o.pack, name), o.qualified(t.pack, t.name))
		o.line("data.Open('{')")
		within, ends := "", ""
		for _, f := range o.members(t) {
			if f.Within != within {
				o.body.WriteString(ends)
				if within, ends = f.Within, ""; within != "" {
					ends = "data.Close('}')\n"
					if f.Whole {
						o.line("if %s {", o.shown(f))
						ends += "}\n"
					}
					o.line("data.Object(%q)", f.Within)
				}
			}
			o.value(f)
		}
		o.line("%sdata.Close('}')\n}\n", ends)
	})
}

// writer returns the name of the function that writes an answer. A package that serves no API
// exports it.
func writer(p *pack, name string) string {
	if p.path == billingview {
		return "Write" + name
	}
	return "write" + name
}

// members returns the fields that an answer has, in its order.
func (m *module) members(t *typ) (all []field) {
	for _, f := range m.fields(t) {
		at := len(all)
		if f.After != "" {
			at = 1 + slices.IndexFunc(all, func(of field) bool { return of.Name == f.After })
		}
		if f.Name != "" {
			all = slices.Insert(all, at, f)
		}
	}
	return all
}

// shown returns the condition under which an answer has a field that it may leave out.
func (o *output) shown(f field) string {
	v := "v." + f.name
	switch {
	case f.If != "":
		return "v." + f.If
	case f.ptr:
		return v + " != nil"
	}
	switch f.class {
	case isBool:
		return v
	case isUint, isInt:
		return v + " != 0"
	case isString:
		return v + ` != ""`
	case isID:
		return v + " != [16]byte{}"
	case isList, isStrings:
		return "len(" + v + ") > 0"
	case isStruct:
		return v + " != (" + o.qualified(f.of.pack, f.of.name) + "{})"
	}
	o.fail("%s: cannot generate a condition for %s", f.in.path, f.name)
	return ""
}

// value writes what writes a field.
func (o *output) value(f field) {
	line := o.write(f)
	// The call leaves out what is zero.
	leaves := f.As == "time" || f.As == "list" || f.As == "object" && f.With == "" ||
		f.class == isString || f.of.names() != nil || f.class == isID && f.ID == "" || f.As == "text"
	null := f.Null && !leaves && f.ID == ""
	switch {
	case f.Whole:
	case f.If != "", null, f.OmitZero && !leaves:
		line = fmt.Sprintf("if %s {\n%s\n}", o.shown(f), line)
	}
	if null {
		line += fmt.Sprintf(" else {\nnull(data, %q)\n}", f.Name)
	}
	o.line("%s", line)
}

// write returns the statements that write a field. Times, UUIDs and objects leave out what is zero.
func (o *output) write(f field) string {
	v := "v." + f.name
	call := func(method, value string) string {
		return fmt.Sprintf("data.%s(%q, %s)", method, f.Name, value)
	}
	by := f.With
	if by == "" && f.Ref != "" {
		by = writer(o.pack, f.Ref)
	} else if d := f.of.answers(o.pack); by == "" && d != "" {
		by = writer(o.pack, d)
	}
	if pack, _, found := strings.Cut(by, "."); found {
		o.use("server/" + pack)
	}
	switch {
	case f.class == isList && by != "":
		return fmt.Sprintf("data.Array(%q)\nfor i := range %s {\n%s(data, &%s[i])\n}\ndata.Close(']')",
			f.Name, v, by, v)
	case by != "":
		if !f.ptr {
			v = "&" + v
		}
		return fmt.Sprintf("data.Name(%q)\n%s(data, %s)", f.Name, by, v)
	case f.ID != "" && f.Null:
		return fmt.Sprintf("idOrNull(data, %q, %s, %s)", f.Name, f.ID, v)
	case f.ID != "":
		return call("Text", "idText("+f.ID+", "+v+")")
	case f.As == "time" && f.Null:
		return fmt.Sprintf("timeOrNull(data, %q, %s)", f.Name, v)
	case f.As == "time":
		return call("Time", v)
	case f.As == "object":
		return call("Raw", v)
	case f.As == "list":
		return call("Uints", v)
	case f.As == "flag":
		return call("Bool", "true")
	case f.String:
		o.imports["strconv"] = ""
		return call("Text", "strconv.FormatUint(uint64("+v+"), 10)")
	}
	if f.of.names() != nil || f.As == "text" {
		f.class, v = isString, v+".String()"
	}
	switch f.class {
	case isStrings:
		return fmt.Sprintf("data.Array(%q)\nfor _, text := range %s {\ndata.String(text)\n}\n"+
			"data.Close(']')", f.Name, v)
	case isString:
		switch {
		case f.Null:
			return fmt.Sprintf("textOrNull(data, %q, %s)", f.Name, v)
		case f.OmitZero:
			return call("TextIf", v)
		}
		return call("Text", v)
	case isBool:
		if f.ptr {
			v = "*" + v
		}
		return call("Bool", v)
	case isUint:
		return call("Uint", "uint64("+v+")")
	case isInt:
		return call("Int", v)
	case isDecimal:
		return call("Decimal", v)
	case isID:
		return call("UUID", v)
	}
	o.fail("%s: cannot generate a writer for %s", f.in.path, f.name)
	return ""
}
