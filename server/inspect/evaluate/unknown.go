package evaluate

import (
	"reflect"

	"tollgate/server/inspect/document"
)

// unknowns lists every unknown verdict and every fact that was not found.
func unknowns(d *document.Document) (list []document.Unresolved) {
	document.Walk("", reflect.ValueOf(d).Elem(), func(path string, v reflect.Value) bool {
		add := func(unknown bool, reason string) {
			if unknown {
				list = append(list, document.Unresolved{Field: path, Reason: reason})
			}
		}
		switch value := v.Interface().(type) {
		case document.Evaluation:
			add(value.Verdict == document.Unknown, value.Reason)
			return false
		case document.AuthRequired:
			add(value.Value == document.RequirementUnknown, value.Reason)
		case document.OpRequired:
			add(value.Value == document.RequirementUnknown, value.Reason)
			return false
		case []document.Observation:
			return false
		}
		if v.Kind() == reflect.Pointer {
			add(v.IsNil(), "Nothing that was read states it.")
			return false
		}
		return v.Kind() != reflect.Slice || v.Type().Elem().Kind() == reflect.Struct
	})
	return list
}
