package server

// Schema is a JSON schema as OpenAPI 3.0 has it, as far as the APIs need it.
type Schema struct {
	Ref        string // the name of a shared schema; excludes all else
	OneOf      []*Schema
	Type       string
	Format     string
	About      string
	Enum       []string
	Properties []Property
	// Free reports whether an object may have properties that are not listed.
	Free      bool
	Items     *Schema
	MinLength int
	MaxLength int
	Minimum   *int
	Maximum   *int
	Default   any
	// Null reports whether the value may be null; only OpenAPI 3.1 documents can say so.
	Null bool
}

// Property is one property of an object. In answers, what is not Required is left out when null.
type Property struct {
	Name     string
	Required bool
	Schema   *Schema
}

// Object is a schema of an object with exactly these properties.
func Object(properties ...Property) *Schema {
	return &Schema{Type: "object", Properties: properties}
}

// FreeObject is a schema of an object with any properties.
func FreeObject() *Schema { return &Schema{Type: "object", Free: true} }

// Must is a property that is always there.
func Must(name string, s *Schema) Property { return Property{name, true, s} }

// May is a property that may be left out.
func May(name string, s *Schema) Property { return Property{name, false, s} }

// ArrayOf is a schema of an array.
func ArrayOf(items *Schema) *Schema { return &Schema{Type: "array", Items: items} }

// RefTo refers to a shared schema.
func RefTo(name string) *Schema { return &Schema{Ref: name} }

// OrNull is a schema whose value may be null.
func OrNull(s *Schema) *Schema {
	if s.Ref != "" || len(s.Enum) > 0 {
		return &Schema{OneOf: []*Schema{s, {Type: "null"}}}
	}
	or := *s
	or.Null = true
	return &or
}

// TextSchema is a string of at most maximum characters; 0 means no bound.
func TextSchema(minimum, maximum int) *Schema {
	return &Schema{Type: "string", MinLength: minimum, MaxLength: maximum}
}

// EnumSchema is a string out of a list.
func EnumSchema(values ...string) *Schema { return &Schema{Type: "string", Enum: values} }

// IntSchema is a whole number within bounds.
func IntSchema(minimum, maximum int) *Schema {
	return &Schema{Type: "integer", Minimum: &minimum, Maximum: &maximum}
}

// Schemas without parameters.
var (
	BoolSchema    = &Schema{Type: "boolean"}
	NumberSchema  = &Schema{Type: "number", About: "exact, up to 12 decimal places"}
	IntegerSchema = &Schema{Type: "integer"}
	// DocumentNumberSchema is a number where an operator writes it.
	DocumentNumberSchema = &Schema{OneOf: []*Schema{
		NumberSchema, {Type: "string", About: "an exact number"},
	}}
	UUIDSchema = &Schema{Type: "string", Format: "uuid"}
	TimeSchema = &Schema{Type: "string", Format: "date-time", About: "RFC 3339, to the millisecond"}
)

func (s *Schema) document() map[string]any {
	if s.Ref != "" {
		return map[string]any{"$ref": "#/components/schemas/" + s.Ref}
	}
	if len(s.OneOf) > 0 {
		choices := make([]any, 0, len(s.OneOf))
		for _, choice := range s.OneOf {
			choices = append(choices, choice.document())
		}
		return map[string]any{"oneOf": choices}
	}
	d := map[string]any{"type": s.Type}
	if s.Null {
		d["type"] = []string{s.Type, "null"}
	}
	put := func(name string, value any, set bool) {
		if set {
			d[name] = value
		}
	}
	put("format", s.Format, s.Format != "")
	put("description", s.About, s.About != "")
	put("enum", s.Enum, len(s.Enum) > 0)
	put("minLength", s.MinLength, s.MinLength > 0)
	put("maxLength", s.MaxLength, s.MaxLength > 0)
	put("minimum", s.Minimum, s.Minimum != nil)
	put("maximum", s.Maximum, s.Maximum != nil)
	put("default", s.Default, s.Default != nil)
	if s.Items != nil {
		d["items"] = s.Items.document()
	}
	if s.Type != "object" {
		return d
	}
	d["additionalProperties"] = s.Free
	properties, required := map[string]any{}, []string{}
	for _, p := range s.Properties {
		properties[p.Name] = p.Schema.document()
		if p.Required {
			required = append(required, p.Name)
		}
	}
	put("properties", properties, len(properties) > 0)
	put("required", required, len(required) > 0)
	return d
}
