package server

import (
	"reflect"

	"tollgate/engine/decimal"
	"tollgate/engine/schema"
)

// RequestSchema returns the schema of a request, from the tags of the struct that it is read into.
func RequestSchema[T any]() *Schema {
	s := Object()
	s.addTagged(reflect.TypeFor[T]())
	return s
}

func (s *Schema) addTagged(of reflect.Type) {
	for f := range of.Fields() {
		if f.Anonymous {
			s.addTagged(f.Type)
			continue
		}
		tag, err := schema.Parse(f.Tag)
		if err != nil {
			panic("server: " + of.Name() + "." + f.Name + ": " + err.Error()) // cmd/generate refuses it
		}
		if tag.Name != "" {
			s.Properties = append(s.Properties, Property{tag.Name, tag.Required, schemaOf(f.Type, &tag)})
		}
	}
}

// schemaOf returns the schema of a field's value.
func schemaOf(of reflect.Type, tag *schema.Tag) *Schema {
	if enum, ok := reflect.Zero(of).Interface().(interface{ Names() []string }); ok {
		var values []string
		for _, name := range enum.Names() {
			if name != "" {
				values = append(values, name)
			}
		}
		return EnumSchema(values...)
	}
	switch {
	case of == reflect.TypeFor[decimal.Decimal]():
		return NumberSchema
	case of.Kind() == reflect.String:
		return TextSchema(tag.Min, tag.Max)
	}
	return IntSchema(tag.Min, tag.Max)
}
