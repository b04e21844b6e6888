package document

import (
	"fmt"
	"reflect"
	"slices"
)

// Walk calls do for a value, and where do reports true for what the value holds: a pointer what it
// points to, a list its items, a struct its fields. The path names fields as JSON does. A reader
// that walks by the types forgets no field.
func Walk(path string, v reflect.Value, do func(path string, v reflect.Value) bool) {
	if !do(path, v) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			Walk(path, v.Elem(), do)
		}
	case reflect.Slice:
		for i := range v.Len() {
			Walk(fmt.Sprintf("%s[%d]", path, i), v.Index(i), do)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Tag.Get("json")
			if path != "" {
				name = path + "." + name
			}
			Walk(name, v.Field(i), do)
		}
	}
}

// Cited are the observations that the evidence within a value is from.
func Cited(value any) (ids []string) {
	Walk("", reflect.ValueOf(value), func(_ string, v reflect.Value) bool {
		if e, is := v.Interface().(Evidence); is {
			ids = append(ids, e.Obs)
		}
		return true
	})
	return Distinct(ids)
}

// Distinct are the ids of a list, each once and none empty, in order.
func Distinct(ids []string) (distinct []string) {
	for _, id := range ids {
		if id != "" && !slices.Contains(distinct, id) {
			distinct = append(distinct, id)
		}
	}
	return distinct
}
