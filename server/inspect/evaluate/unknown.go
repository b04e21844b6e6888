package evaluate

import (
	"fmt"
	"reflect"

	"tollgate/server/inspect/document"
)

// unknowns lists every unknown verdict and every fact that was not found. It walks the document by
// its types, so that no field can be forgotten.
func unknowns(d *document.Document) []document.Unresolved {
	var list []document.Unresolved
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		switch value := v.Interface().(type) {
		case document.Evaluation:
			if value.Verdict == document.Unknown {
				list = append(list, document.Unresolved{Field: path, Reason: value.Reason})
			}
			return
		case document.AuthRequired:
			if value.Value == document.RequirementUnknown {
				list = append(list, document.Unresolved{Field: path, Reason: value.Reason})
			}
		case document.OpRequired:
			if value.Value == document.RequirementUnknown {
				list = append(list, document.Unresolved{Field: path, Reason: value.Reason})
			}
			return
		case []document.Observation:
			return
		}
		switch v.Kind() {
		case reflect.Pointer:
			if v.IsNil() {
				list = append(list, document.Unresolved{
					Field: path, Reason: "Nothing that was read states it.",
				})
			}
		case reflect.Slice:
			if v.Type().Elem().Kind() == reflect.Struct {
				for i := range v.Len() {
					walk(fmt.Sprintf("%s[%d]", path, i), v.Index(i))
				}
			}
		case reflect.Struct:
			for i := range v.NumField() {
				name := v.Type().Field(i).Tag.Get("json")
				if path != "" {
					name = path + "." + name
				}
				walk(name, v.Field(i))
			}
		}
	}
	walk("", reflect.ValueOf(d).Elem())
	return list
}
