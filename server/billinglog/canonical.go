package billinglog

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"tollgate/engine/decimal"
	"tollgate/server"
)

// Canonical is a JSON value in a form that equal values share; what is not JSON stays as it is.
func Canonical(text []byte) []byte {
	if value, ok := appendCanonical(nil, text); ok {
		return value
	}
	return text
}

// appendCanonical appends a JSON value in a form that equal values share: members in the order of
// their names, numbers and strings in one spelling, no blanks. False: the text is not JSON.
func appendCanonical(dst, text []byte) ([]byte, bool) {
	dec := jsontext.NewDecoder(bytes.NewReader(text))
	value, err := dec.ReadValue()
	if err != nil {
		return dst, false
	}
	switch value.Kind() {
	case '{':
		return appendCanonicalObject(dst, value)
	case '[':
		items := jsontext.NewDecoder(bytes.NewReader(value))
		if _, err := items.ReadToken(); err != nil {
			return dst, false
		}
		dst = append(dst, '[')
		for items.PeekKind() != ']' {
			item, err := items.ReadValue()
			if err != nil {
				return dst, false
			}
			var ok bool
			if dst, ok = appendCanonical(dst, item); !ok {
				return dst, false
			}
			dst = append(dst, ',')
		}
		return append(dst, ']'), true
	case '"':
		plain, err := jsontext.AppendUnquote(nil, value)
		return server.AppendString(dst, plain), err == nil
	case '0':
		if number, err := decimal.Parse([]byte(value)); err == nil {
			return number.AppendTo(dst), true
		}
	}
	return append(dst, value...), true
}

func appendCanonicalObject(dst []byte, object jsontext.Value) ([]byte, bool) {
	type member struct {
		name  string
		value jsontext.Value
	}
	var members []member
	dec := jsontext.NewDecoder(bytes.NewReader(object))
	if _, err := dec.ReadToken(); err != nil {
		return dst, false
	}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return dst, false
		}
		text := name.String()
		value, err := dec.ReadValue()
		if err != nil {
			return dst, false
		}
		members = append(members, member{text, value.Clone()})
	}
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	dst = append(dst, '{')
	for _, m := range members {
		dst = append(server.AppendString(dst, m.name), ':')
		var ok bool
		if dst, ok = appendCanonical(dst, m.value); !ok {
			return dst, false
		}
		dst = append(dst, ',')
	}
	return append(dst, '}'), true
}
