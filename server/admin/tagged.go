package admin

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"tollgate/engine/decimal"
	"tollgate/engine/schema"
	"tollgate/server"
	"tollgate/server/form"
)

// tagged reads a request's document into a struct by its tags, from which its schema is made, too.
// Fields in others are read as these say: what no tag can say of them.
func tagged(x *server.Exchange, w *walk, v any, others map[string]reader) *server.Fault {
	fields, required := map[string]reader{}, []string(nil)
	eachTagged(reflect.ValueOf(v).Elem(), func(tag *schema.Tag, v reflect.Value) {
		if fields[tag.Name] = others[tag.Name]; fields[tag.Name] == nil {
			fields[tag.Name] = w.byTag(v, tag)
		}
		if tag.Required {
			required = append(required, tag.Name)
		}
	})
	return body(x, w, fields, required...)
}

// eachTagged calls do for each field that has a name in JSON.
func eachTagged(v reflect.Value, do func(*schema.Tag, reflect.Value)) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		tag, err := schema.Parse(f.Tag)
		switch {
		case err != nil:
			panic("admin: " + f.Name + ": " + err.Error()) // cmd/generate refuses it
		case f.Anonymous:
			eachTagged(v.Field(i), do)
		case tag.Name != "":
			do(&tag, v.Field(i))
		}
	}
}

// byTag is the reader of a field's value, within the bounds of its tag; the field gets its default.
func (w *walk) byTag(v reflect.Value, tag *schema.Tag) reader {
	switch dst := v.Addr().Interface().(type) {
	case *string:
		if tag.OneOf != "" {
			return w.word(dst, strings.Split(tag.OneOf, "|")...)
		}
		return w.plain(dst, tag.Min, tag.Max)
	case *decimal.Decimal:
		if tag.HasMin {
			return w.amount(dst)
		}
	case *int64:
		if tag.As == "time" {
			return w.instant(dst)
		}
	case *uint32:
		if tag.Default != "" {
			n, _ := strconv.ParseUint(tag.Default, 10, 32)
			*dst = uint32(n)
		}
		return w.between(dst, tag.Min, tag.Max)
	}
	return w.value(v)
}

// between reads a whole number from minimum to maximum.
func (w *walk) between(dst *uint32, minimum, maximum int) reader {
	return func(t *tree, place string) {
		before := len(w.problems)
		w.whole(dst)(t, place)
		wrong := int64(*dst) < int64(minimum) || int64(*dst) > int64(maximum)
		w.wrong(len(w.problems) == before && wrong, place, form.Outside(minimum, maximum))
	}
}

// right reports whether nothing is wrong with a field.
func (w *walk) right(name string) bool {
	return !slices.ContainsFunc(w.problems, func(p server.FieldError) bool { return p.Field == name })
}
