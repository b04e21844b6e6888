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
		fields := slices.DeleteFunc(o.fields(t), func(f field) bool { return f.Name == "" })
		o.use("server")
		o.line("func write%s(data *server.JSON, v *%s) {", name, o.qualified(t.pack, t.name))
		o.line("data.Open('{')")
		within := ""
		for _, f := range fields {
			if f.Within != within {
				o.close(within)
				if f.Within != "" {
					o.line("data.Object(%q)", f.Within)
				}
				within = f.Within
			}
			o.value(f)
		}
		o.close(within)
		o.line("data.Close('}')\n}\n")
	})
}

func (o *output) close(object string) {
	if object != "" {
		o.line("data.Close('}')")
	}
}

// value writes what writes a field.
func (o *output) value(f field) {
	line := o.write(f)
	switch {
	case f.If != "":
		line = fmt.Sprintf("if v.%s {\n%s\n}", f.If, line)
	case f.OmitZero && f.ptr:
		line = fmt.Sprintf("if v.%s != nil {\n%s\n}", f.name, line)
	}
	o.line("%s", line)
}

// write returns the statements that write a field. Times, UUIDs and objects leave out what is zero.
func (o *output) write(f field) string {
	v := "v." + f.name
	call := func(method, value string) string {
		return fmt.Sprintf("data.%s(%q, %s)", method, f.Name, value)
	}
	writer := f.With
	if writer == "" && f.Ref != "" {
		writer = "write" + f.Ref
	}
	if pack, _, found := strings.Cut(writer, "."); found {
		o.use("server/" + pack)
	}
	switch {
	case f.class == isList && writer != "":
		return fmt.Sprintf("data.Array(%q)\nfor i := range %s {\n%s(data, &%s[i])\n}\ndata.Close(']')",
			f.Name, v, writer, v)
	case writer != "":
		if !f.ptr {
			v = "&" + v
		}
		return fmt.Sprintf("data.Name(%q)\n%s(data, %s)", f.Name, writer, v)
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
	case f.String:
		o.imports["strconv"] = ""
		return call("Text", "strconv.FormatUint(uint64("+v+"), 10)")
	}
	if f.of.names() != nil || f.As == "text" {
		f.class, v = isString, v+".String()"
	}
	switch f.class {
	case isString:
		switch {
		case f.Null:
			return fmt.Sprintf("textOrNull(data, %q, %s)", f.Name, v)
		case f.OmitZero:
			return call("TextIf", v)
		}
		return call("Text", v)
	case isBool:
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
