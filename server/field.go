package server

import "strings"

// FieldCode names what is wrong with a field of a request.
type FieldCode string

// What can be wrong with a field. Clients may rely on these names.
const (
	FieldRequired   FieldCode = "required"
	FieldUnknown    FieldCode = "unknown"
	FieldRepeated   FieldCode = "repeated"
	FieldType       FieldCode = "invalid_type"
	FieldFormat     FieldCode = "invalid_format"
	FieldEmpty      FieldCode = "empty"
	FieldTooLong    FieldCode = "too_long"
	FieldOutOfRange FieldCode = "out_of_range"
	FieldNotAllowed FieldCode = "not_allowed"
	FieldConflict   FieldCode = "conflict"
)

// FieldCodes are all of them, for the OpenAPI documents.
var FieldCodes = []FieldCode{
	FieldRequired, FieldUnknown, FieldRepeated, FieldType, FieldFormat, FieldEmpty, FieldTooLong,
	FieldOutOfRange, FieldNotAllowed, FieldConflict,
}

// FieldError says what is wrong with one field of a body, one parameter, or one header.
type FieldError struct {
	// Field is its name; within a document its place, such as plans[0].key.
	Field string
	Code  FieldCode
	// Message is a clause that names the field.
	Message string
}

// MoreThanOnce follows the name of what a request must not repeat.
const MoreThanOnce = "appears more than once"

// UnknownField is the mistake of a field that a request does not have; its name is quoted.
func UnknownField(field string) FieldError {
	return FieldError{field, FieldUnknown, "unknown field " + field}
}

// RepeatedHeader refuses a request that has a header twice, with different values.
func RepeatedHeader(name string) *Fault {
	return FieldFault(name, FieldRepeated, MoreThanOnce+", with different values")
}

// FieldFault refuses a request for one field; what says what is wrong with it, as in "must be a
// UUID".
func FieldFault(field string, code FieldCode, what string) *Fault {
	return FieldsFault([]FieldError{{field, code, field + " " + what}})
}

// FieldsFault refuses a request for all its fields that are wrong. It keeps the list.
func FieldsFault(wrong []FieldError) *Fault {
	clauses := make([]string, len(wrong))
	for i := range wrong {
		clauses[i] = wrong[i].Message
	}
	fault := FaultFields.With(strings.Join(clauses, "; "))
	fault.Fields = wrong
	return fault
}

// appendFields writes error.fields, which only validation errors have.
func appendFields(j *JSON, wrong []FieldError) {
	if len(wrong) == 0 {
		return
	}
	j.Array("fields")
	for i := range wrong {
		j.Open('{')
		j.Text("field", wrong[i].Field)
		j.Text("code", string(wrong[i].Code))
		j.Text("message", wrong[i].Message)
		j.Close('}')
	}
	j.Close(']')
}

func fieldErrorSchema() *Schema {
	codes := make([]string, len(FieldCodes))
	for i, code := range FieldCodes {
		codes[i] = string(code)
	}
	return Object(
		Must("field", TextSchema(1, 0)),
		Must("code", EnumSchema(codes...)),
		Must("message", TextSchema(1, 0)),
	)
}
