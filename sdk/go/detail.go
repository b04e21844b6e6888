package tollgate

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode"
)

// Detail is a field of details, for programs that print it, or ask people for it.
type Detail struct {
	// Name is the field's name in JSON, Label its name for people, Help a sentence about it.
	Name, Label, Help string
	// Value is its value as text; "" if it has none.
	Value string
	// Max is the most characters of a text, or the largest number; 0 means no limit.
	Max int
	// Number reports whether the field is a number.
	Number bool
}

// Details lists the fields of a struct of details, such as SubscriptionDetails.
func Details(details any) (all []Detail) {
	value := reflect.ValueOf(details)
	for i := range value.NumField() {
		field := value.Type().Field(i)
		d := Detail{Help: field.Tag.Get("help"), Number: field.Type.Kind() == reflect.Int}
		d.Name, _, _ = strings.Cut(field.Tag.Get("json"), ",")
		d.Label = label(d.Name)
		d.Max, _ = strconv.Atoi(field.Tag.Get("max"))
		if !value.Field(i).IsZero() {
			d.Value = fmt.Sprint(value.Field(i).Interface())
		}
		all = append(all, d)
	}
	return all
}

// label returns a name in words: purchaseOrder is Purchase order.
func label(name string) string {
	var b strings.Builder
	for i, r := range name {
		switch {
		case i == 0:
			r = unicode.ToUpper(r)
		case unicode.IsUpper(r):
			b.WriteByte(' ')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}
