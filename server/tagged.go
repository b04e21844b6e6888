package server

import (
	"reflect"
	"slices"
	"strings"

	"tollgate/engine/decimal"
	"tollgate/engine/schema"
)

// usage is what is described by a struct's tags.
type usage int

const (
	// answer always has what no omitzero or if leaves out.
	answer usage = iota
	request
	// change is a request in which every field may be left out, and null empties some.
	change
	// document is a request that an operator writes, whose numbers may be strings.
	document
)

// RequestSchema returns the schema of a request, from the tags of the struct that states it; by is
// as for AnswerSchema.
func RequestSchema[T any](by ...Property) *Schema { return taggedSchema[T](request, by) }

// ChangeSchema returns the schema of a request that changes what the fields of T say.
func ChangeSchema[T any](by ...Property) *Schema { return taggedSchema[T](change, by) }

// DocumentSchema returns the schema of a document, in which a number may be a string.
func DocumentSchema[T any](by ...Property) *Schema { return taggedSchema[T](document, by) }

// AnswerSchema returns the schema of an answer, from the tags of the struct that it is written
// from. by are the properties that tags do not describe: those that are written by hand, or left
// out, which have no schema. The name of one that is further in is its path.
func AnswerSchema[T any](by ...Property) *Schema { return taggedSchema[T](answer, by) }

func taggedSchema[T any](as usage, by []Property) *Schema {
	s := Object()
	s.addTagged(reflect.TypeFor[T](), as)
	for _, p := range by {
		within := s
		path := strings.Split(p.Name, ".")
		for _, name := range path[:len(path)-1] {
			if within = within.object(name, true); within.Items != nil {
				within = within.Items
			}
		}
		p.Name = path[len(path)-1]
		if p.Schema != nil && p.Schema.Type == "" && p.Schema.About != "" {
			of := within.property(p.Name)
			of.Schema = of.Schema.Explain(p.Schema.About)
			continue
		}
		within.put(p, "")
	}
	return s
}

// Explained explains a property that tags describe.
func Explained(name, about string) Property { return Property{name, false, &Schema{About: about}} }

// Explain returns the schema with an explanation, which stands at the value that is not null.
func (s *Schema) Explain(about string) *Schema {
	of := *s
	if len(s.OneOf) > 0 {
		of.OneOf = slices.Clone(s.OneOf)
		of.OneOf[0] = s.OneOf[0].Explain(about)
		return &of
	}
	of.About = about
	return &of
}

// property returns an object's property of this name; nil if there is none.
func (s *Schema) property(name string) *Property {
	at := slices.IndexFunc(s.Properties, func(p Property) bool { return p.Name == name })
	if at < 0 {
		return nil
	}
	return &s.Properties[at]
}

// Property returns the schema of an object's property.
func (s *Schema) Property(name string) *Schema { return s.property(name).Schema }

// put adds a property, behind the one of this name, or replaces the one of its own name.
func (s *Schema) put(p Property, after string) {
	named := func(name string) int {
		return slices.IndexFunc(s.Properties, func(q Property) bool { return q.Name == name })
	}
	if at := named(p.Name); at >= 0 && p.Schema == nil {
		s.Properties = slices.Delete(s.Properties, at, at+1)
	} else if at >= 0 {
		s.Properties[at] = p
	} else if at = named(after); at >= 0 {
		s.Properties = slices.Insert(s.Properties, at+1, p)
	} else {
		s.Properties = append(s.Properties, p)
	}
}

func (s *Schema) addTagged(of reflect.Type, as usage) {
	for f := range of.Fields() {
		tag, err := schema.Parse(f.Tag)
		if err != nil {
			panic("server: " + of.Name() + "." + f.Name + ": " + err.Error()) // cmd/generate refuses it
		}
		if (f.Anonymous || tag.Inline) && tag.Name == "" {
			s.addTagged(f.Type, as)
		} else if tag.Name != "" {
			value, required := schemaOf(f.Type, &tag, as), tag.Required && as != change
			if as == answer {
				required = !tag.OmitZero && tag.If == "" || tag.Whole
			}
			if tag.Null && (as == answer || as == change) {
				value = OrNull(value)
			}
			s.object(tag.Within, !tag.Whole).put(Property{tag.Name, required, value}, tag.After)
		}
	}
}

// object returns the schema of the object within s that has this name; s if it has none.
func (s *Schema) object(name string, required bool) *Schema {
	if name == "" {
		return s
	}
	if p := s.property(name); p != nil {
		return p.Schema
	}
	inner := Object()
	s.put(Property{name, required, inner}, "")
	return inner
}

// schemaOf returns the schema of a field's value.
func schemaOf(of reflect.Type, tag *schema.Tag, as usage) *Schema {
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch {
	case tag.Ref != "" && of.Kind() == reflect.Slice:
		return ArrayOf(RefTo(tag.Ref))
	case tag.Ref != "":
		return RefTo(tag.Ref)
	case tag.OneOf != "":
		return EnumSchema(strings.Split(tag.OneOf, "|")...)
	case tag.As == "text", tag.ID != "":
		return TextSchema(1, 0)
	case tag.As == "time":
		return TimeSchema
	case tag.As == "object":
		return FreeObject()
	case tag.As == "list":
		return ArrayOf(IntSchema(tag.Min, tag.Max))
	case tag.As == "flag":
		return BoolSchema
	}
	if enum, ok := reflect.Zero(of).Interface().(interface{ Names() []string }); ok {
		return EnumSchema(slices.DeleteFunc(slices.Clone(enum.Names()), func(name string) bool {
			return name == ""
		})...)
	}
	switch of {
	case reflect.TypeFor[[]string]():
		return ArrayOf(TextSchema(tag.Min, tag.Max))
	case reflect.TypeFor[decimal.Decimal]():
		if as == document {
			return DocumentNumberSchema
		}
		return NumberSchema
	case reflect.TypeFor[[16]byte]():
		return UUIDSchema
	}
	switch {
	case of.Kind() == reflect.Struct:
		s := Object()
		if as == request || as == change {
			as = answer
		}
		s.addTagged(of, as)
		return s
	case of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.Struct:
		return ArrayOf(schemaOf(of.Elem(), &schema.Tag{}, as))
	case of.Kind() == reflect.String, of == reflect.TypeFor[[]byte](), tag.String:
		return TextSchema(tag.Min, tag.Max)
	case of.Kind() == reflect.Bool:
		return BoolSchema
	case tag.Max > 0:
		return IntSchema(tag.Min, tag.Max)
	}
	return IntegerSchema
}
