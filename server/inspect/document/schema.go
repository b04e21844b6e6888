package document

import (
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
)

// Field describes one field of the document.
type Field struct {
	Path     string   `json:"path"`
	Type     string   `json:"type"`
	Nullable bool     `json:"nullable"`
	About    string   `json:"about"`
	Values   []string `json:"values,omitempty"`
}

// Description is the answer of GET /v1/schema.
type Description struct {
	Version    string         `json:"version"`
	Fields     []Field        `json:"fields"`
	JSONSchema map[string]any `json:"jsonSchema"`
}

// Describe describes the document from its Go types: there is no second definition that could
// differ from it.
func Describe() *Description {
	whole := reflect.TypeFor[Document]()
	d := &Description{Version: Version, JSONSchema: schemaOf(whole)}
	d.JSONSchema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	d.JSONSchema["title"] = Version
	d.list("", whole)
	return d
}

// Bytes is the description as JSON; the same bytes each time.
func (d *Description) Bytes() ([]byte, error) { return json.Marshal(d, json.Deterministic(true)) }

// Bytes is the document as JSON; the same bytes each time.
func (d *Document) Bytes() ([]byte, error) { return json.Marshal(d, json.Deterministic(true)) }

// list appends the fields of a struct, depth first.
func (d *Description) list(prefix string, t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		path, inner := prefix+f.Tag.Get("json"), f.Type
		field := Field{Path: path, About: f.Tag.Get("about"), Values: values(f)}
		if inner.Kind() == reflect.Pointer {
			field.Nullable, inner = true, inner.Elem()
		}
		field.Type = kindName(inner)
		d.Fields = append(d.Fields, field)
		for inner.Kind() == reflect.Slice {
			if path, inner = path+"[]", inner.Elem(); inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
		}
		if inner.Kind() == reflect.Struct {
			d.list(path+".", inner)
		}
	}
}

func values(f reflect.StructField) []string {
	if list := f.Tag.Get("enum"); list != "" {
		return strings.Split(list, ",")
	}
	return nil
}

func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct:
		return "object"
	case reflect.Slice:
		return "array"
	case reflect.Int:
		return "integer"
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "string"
	default:
		panic("document: the description knows no " + t.String())
	}
}

// schemaOf is the JSON Schema of a type.
func schemaOf(t reflect.Type) map[string]any {
	schema := map[string]any{"type": kindName(t)}
	switch t.Kind() {
	case reflect.Slice:
		item := t.Elem()
		if item.Kind() == reflect.Pointer { // a list holds no null
			item = item.Elem()
		}
		schema["items"] = schemaOf(item)
	case reflect.Struct:
		properties, required := map[string]any{}, []string{}
		for i := range t.NumField() {
			f := t.Field(i)
			name := f.Tag.Get("json")
			properties[name] = schemaOfField(f)
			required = append(required, name)
		}
		schema["properties"], schema["required"] = properties, required
		schema["additionalProperties"] = false
	}
	return schema
}

func schemaOfField(f reflect.StructField) map[string]any {
	inner, nullable := f.Type, f.Type.Kind() == reflect.Pointer
	if nullable {
		inner = inner.Elem()
	}
	schema := schemaOf(inner)
	if nullable {
		schema["type"] = []string{kindName(inner), "null"}
	}
	schema["description"] = f.Tag.Get("about")
	if list := values(f); list != nil {
		schema["enum"] = list
	}
	if format := f.Tag.Get("format"); format != "" {
		schema["format"] = format
	}
	return schema
}
