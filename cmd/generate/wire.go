package main

import (
	"maps"
	"slices"
	"strconv"
)

var codecCalls = map[class]string{
	isUint: "wire.Uint(w, %d, &v.%s)", isInt: "w.Int(%d, &v.%s)", isBool: "w.Bool(%d, &v.%s)",
	isString: "w.String(%d, &v.%s)", isBytes: "w.Blob(%d, &v.%s)", isID: "w.ID(%d, &v.%s)",
	isHash: "w.Hash(%d, &v.%s)", isDecimal: "w.Decimal(%d, &v.%s)",
	isStruct: "w.Message(%d, &v.%s)", isList: "wire.List(w, %d, &v.%s)",
	isStrings: "w.Strings(%d, &v.%s)",
}

// codecs writes a Fields method for each struct with numbered fields of its own. Directives:
//
//	//schema:part      none: others embed or inline the struct
//	//schema:declared  in order of declaration, not of the numbers
//	//schema:split head body 5  two methods more, of the fields before and from number 5 on
//	//schema:quick     one more that decodes the usual form without a loop
//	//schema:straight  one more that encodes without a Codec; items of its lists have it, too
//	//schema:straight parts  the same for each part of a struct that is split
//	//schema:details   also where the struct has no field yet
//
// A hand-written method bounds is called at the end. A command whose hand-written method apply
// takes what its row found gets a method environment or about, for the row to find it by.
func (o *output) codecs() {
	for _, t := range o.pack.sorted() {
		fields := slices.DeleteFunc(o.fields(t), func(f field) bool { return f.Wire == 0 })
		own := slices.ContainsFunc(fields, func(f field) bool { return f.own })
		details := t.directive("details") != nil
		if (own || details) && t.directive("part") == nil {
			o.use("engine/wire")
			o.codec(t, fields)
			if o.later(t, nil) {
				o.since(t, fields)
			}
			if !o.pack.funcs[t.name+".about"] {
				o.about(t, fields)
			}
			if t.directive("quick") != nil {
				o.quick(t, fields)
			}
			if t.directive("straight") != nil {
				o.straight(t, fields)
			}
		}
	}
}

func (o *output) codec(t *typ, fields []field) {
	if t.directive("declared") == nil {
		slices.SortStableFunc(fields, func(a, b field) int { return a.Wire - b.Wire })
	}
	numbers := map[int]bool{}
	for _, f := range fields {
		if numbers[f.Wire] {
			o.fail("%s.%s: two fields have number %d", t.pack.path, t.name, f.Wire)
		}
		numbers[f.Wire] = true
	}
	split := t.directive("split")
	o.line("// Fields implements wire.Fielder.")
	o.line("func (v *%s) Fields(w *wire.Codec) {", t.name)
	if split != nil {
		o.line("v.%s(w)\nv.%s(w)", split[1], split[2])
	} else {
		o.calls(fields)
	}
	if o.pack.funcs[t.name+".bounds"] {
		o.line("v.bounds(w)")
	}
	o.line("}\n")
	if split == nil {
		return
	}
	at := slices.IndexFunc(fields, func(f field) bool { return strconv.Itoa(f.Wire) == split[3] })
	if at < 0 {
		o.fail("%s.%s: split at a number that no field has", t.pack.path, t.name)
		return
	}
	for n, part := range [][]field{fields[:at], fields[at:]} {
		o.line("func (v *%s) %s(w *wire.Codec) {", t.name, split[n+1])
		o.calls(part)
		o.line("}\n")
	}
}

func (o *output) calls(fields []field) {
	for _, f := range fields {
		if f.class == 0 {
			o.fail("%s: cannot generate a codec for %s", o.pack.path, f.name)
		}
		o.line(codecCalls[f.class], f.Wire, f.name)
	}
}

// quickReads read a field whose tag is %[2]d bytes long, and move on.
var quickReads = map[class]string{
	isInt: "v.%[1]s, at = q.Int(at + %[2]d)", isBool: "v.%[1]s, at = q.Bool(at + %[2]d)",
	isString: "v.%[1]s, at = q.Text(at + %[2]d)", isBytes: "v.%[1]s, at = q.Blob(at + %[2]d)",
	isID:      "at = q.ID(at+%[2]d, &v.%[1]s)",
	isDecimal: "v.%[1]s, at = q.Decimal(at + %[2]d)",
}

// quick writes a decoder that reads straight ahead. It gives up where the bytes are unusual.
func (o *output) quick(t *typ, fields []field) {
	const varint, bytes = 0, 2 // wire types
	o.line("// quick decodes the usual form. False: Fields must decode, into a zero value.")
	o.line("func (v *%s) quick(src []byte) bool {\nq, at := wire.Quick(src), 0", t.name)
	for _, f := range fields {
		if f.class == isList && f.of.directive("quick") == nil {
			continue // Fields decodes it
		}
		kind, check := bytes, "if"
		read, known := quickReads[f.class]
		switch f.class {
		case isUint:
			kind, known = varint, true
			size := strconv.Itoa(f.size)
			name := "uint" + size
			if f.of != nil {
				name = o.qualified(f.of.pack, f.of.name)
			}
			read = "n, next := q.Uint(at+%[2]d, 1<<" + size + "-1)\nv.%[1]s, at = " + name + "(n), next"
		case isInt, isBool:
			kind = varint
		case isList:
			check, known = "for", true
			read = "item, next := q.Blob(at + %[2]d)\nv.%[1]s = append(v.%[1]s, " + f.of.name + "{})\n" +
				"if !v.%[1]s[len(v.%[1]s)-1].quick(item) {\nreturn false\n}\nat = next"
		}
		if !known {
			o.fail("%s.%s: %s cannot be decoded quickly", t.pack.path, t.name, f.name)
		}
		length := 1
		if tag := f.Wire<<3 | kind; tag < 0x80 {
			o.line(check+" q.Is(at, %#x) {", tag)
		} else {
			length = 2
			o.line(check+" q.IsHigh(at, %#x, %#x) {", tag&0x7f|0x80, tag>>7)
		}
		o.line(read+"\n}", f.name, length)
	}
	o.line("return at == len(q)\n}\n")
}

// straightWrites append a field with the tag %[2]s, where it has a value.
var straightWrites = map[class]string{
	isUint:    "dst = wire.AppendUint(dst, %[2]s, uint64(v.%[1]s))",
	isInt:     "dst = wire.AppendInt(dst, %[2]s, v.%[1]s)",
	isBool:    "dst = wire.AppendBool(dst, %[2]s, v.%[1]s)",
	isBytes:   "dst = wire.AppendBlob(dst, %[2]s, v.%[1]s)",
	isID:      "dst = wire.AppendID(dst, %[2]s, &v.%[1]s)",
	isHash:    "dst = wire.AppendHash(dst, %[2]s, &v.%[1]s)",
	isDecimal: "dst = wire.AppendDecimal(dst, %[2]s, v.%[1]s)",
	isString:  "dst = wire.AppendText(dst, %[2]s, v.%[1]s)",
	isList: "for i := range v.%[1]s {\ndst = wire.OpenMessage(dst, %[2]s)\nbegin := len(dst)\n" +
		"dst = wire.CloseMessage(v.%[1]s[i].append(dst), begin)\n}",
}

// straight writes an encoder that keeps the bytes in registers.
func (o *output) straight(t *typ, fields []field) {
	parts := map[string][]field{"append": fields}
	if split := t.directive("split"); len(t.directive("straight")) > 1 {
		at := slices.IndexFunc(fields, func(f field) bool { return strconv.Itoa(f.Wire) == split[3] })
		parts = map[string][]field{
			"append" + exported(split[1]): fields[:at], "append" + exported(split[2]): fields[at:],
		}
	}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		o.line("// %s appends the fields as Fields encodes them.", name)
		o.line("func (v *%s) %s(dst []byte) []byte {", t.name, name)
		o.straightly(t, parts[name])
	}
}

// straightly writes the rest of such an encoder.
func (o *output) straightly(t *typ, fields []field) {
	for _, f := range fields {
		write, known := straightWrites[f.class]
		if !known || f.class == isList && f.of.directive("straight") == nil {
			o.fail("%s.%s: %s cannot be encoded straight ahead", t.pack.path, t.name, f.name)
		}
		o.line(write, f.name, strconv.Itoa(f.Wire))
	}
	o.line("return dst\n}\n")
}

// about writes what the row of a command looks up before it calls apply: the environment, or what
// the fields Workspace and ID name.
func (o *output) about(t *typ, fields []field) {
	names := func(name string) bool {
		return slices.ContainsFunc(fields, func(f field) bool { return f.name == name })
	}
	switch o.pack.found[t.name] {
	case "*accounts.Environment":
		o.line("func (v *%s) environment() uint32 { return v.Env }\n", t.name)
	case "uint32":
		workspace, id := "0", "[16]byte{}"
		if names("Workspace") {
			workspace = "v.Workspace"
		}
		if names("ID") {
			id = "v.ID"
		}
		o.line("func (v *%s) about() (uint32, [16]byte) { return %s, %s }\n", t.name, workspace, id)
	}
}

// later reports whether a field of a struct, or one within a field, came with a cluster version;
// within are the structs that it is in. Such a struct has Since.
func (m *module) later(t *typ, within []*typ) bool {
	if slices.Contains(within, t) {
		return false
	}
	within = append(within, t)
	return slices.ContainsFunc(m.fields(t), func(f field) bool {
		return f.Since > 0 || f.Wire > 0 && m.laterIn(f, within)
	})
}

// laterIn reports whether what is nested in a field has Since.
func (m *module) laterIn(f field, within []*typ) bool {
	return (f.class == isStruct || f.class == isList) && f.of != nil && m.later(f.of, within)
}

// since writes what returns the first cluster version that knows all the fields which are set.
func (o *output) since(t *typ, fields []field) {
	o.line("// Since returns the first cluster version that knows all the fields which are set.")
	o.line("func (v *%s) Since() (version uint32) {", t.name)
	for _, f := range fields {
		if f.Since > 0 {
			o.line("if %s {\nversion = max(version, %d)\n}", o.isSet(t, f), f.Since)
		}
		switch {
		case !o.laterIn(f, nil):
		case f.class == isList:
			o.line("for i := range v.%[1]s {\nversion = max(version, v.%[1]s[i].Since())\n}", f.name)
		default:
			o.line("version = max(version, v.%s.Since())", f.name)
		}
	}
	o.line("return version\n}\n")
}

// isSet is the condition that a field has a value.
func (o *output) isSet(t *typ, f field) string {
	set := "v." + f.name
	switch f.class {
	case isBool:
		return set
	case isUint, isInt:
		return set + " != 0"
	case isString:
		return set + ` != ""`
	case isBytes, isList, isStrings:
		return "len(" + set + ") > 0"
	case isDecimal:
		return "!" + set + ".IsZero()"
	}
	o.fail("%s.%s: %s cannot have since", t.pack.path, t.name, f.name)
	return ""
}
