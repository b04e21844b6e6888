package server

import (
	"strconv"
	"time"
	"unicode/utf8"

	"tollgate/engine/decimal"
	"tollgate/engine/uuid"
)

// JSON is an answer being written, in append style: no map, no reflection, no garbage. Inside an
// object every method that takes a name writes the comma that is due before it.
type JSON []byte

// Open begins an object or an array: '{' or '['.
func (j *JSON) Open(bracket byte) {
	j.comma()
	*j = append(*j, bracket)
}

// Close ends an object or an array: '}' or ']'.
func (j *JSON) Close(bracket byte) { *j = append(*j, bracket) }

func (j *JSON) comma() {
	b := *j
	if n := len(b); n > 0 && b[n-1] != '{' && b[n-1] != '[' && b[n-1] != ':' {
		*j = append(b, ',')
	}
}

// Name writes a name, which needs no escaping; its value must follow.
func (j *JSON) Name(name string) {
	j.comma()
	*j = append(append(append(*j, '"'), name...), '"', ':')
}

// Object and Array begin a named object or array.
func (j *JSON) Object(name string) {
	j.Name(name)
	*j = append(*j, '{')
}

// Array begins a named array.
func (j *JSON) Array(name string) {
	j.Name(name)
	*j = append(*j, '[')
}

// Text writes a named string, also when it is empty.
func (j *JSON) Text(name, value string) {
	j.Name(name)
	*j = AppendString(*j, value)
}

// TextIf writes a named string unless it is empty: for what is null when it is not set.
func (j *JSON) TextIf(name, value string) {
	if value != "" {
		j.Text(name, value)
	}
}

// String writes an array's element.
func (j *JSON) String(value string) {
	j.comma()
	*j = AppendString(*j, value)
}

// Bytes writes a named string.
func (j *JSON) Bytes(name string, value []byte) {
	j.Name(name)
	*j = AppendString(*j, value)
}

// Bool writes a named boolean.
func (j *JSON) Bool(name string, value bool) {
	j.Name(name)
	*j = strconv.AppendBool(*j, value)
}

// Uint writes a named whole number.
func (j *JSON) Uint(name string, value uint64) {
	j.Name(name)
	*j = strconv.AppendUint(*j, value, 10)
}

// Uints writes a named array of small numbers, unless it is empty.
func (j *JSON) Uints(name string, values []byte) {
	if len(values) == 0 {
		return
	}
	j.Array(name)
	for _, value := range values {
		j.comma()
		*j = strconv.AppendUint(*j, uint64(value), 10)
	}
	j.Close(']')
}

// Int writes a named whole number that may be negative.
func (j *JSON) Int(name string, value int64) {
	j.Name(name)
	*j = strconv.AppendInt(*j, value, 10)
}

// Decimal writes a named exact number.
func (j *JSON) Decimal(name string, value decimal.Decimal) {
	j.Name(name)
	*j = value.AppendTo(*j)
}

// Time writes a named instant (milliseconds since 1970 UTC), unless it is 0, which is none.
func (j *JSON) Time(name string, ms int64) {
	if ms == 0 {
		return
	}
	j.Name(name)
	*j = append(AppendTime(append(*j, '"'), ms), '"')
}

// UUID writes a named UUID, unless it is zero, which is none.
func (j *JSON) UUID(name string, id [16]byte) {
	if id == ([16]byte{}) {
		return
	}
	j.Name(name)
	*j = append(AppendUUID(append(*j, '"'), id), '"')
}

// Raw writes a named value that is JSON already; the empty text is none.
func (j *JSON) Raw(name string, value []byte) {
	if len(value) == 0 {
		return
	}
	j.Name(name)
	*j = append(*j, value...)
}

// AppendTime appends ms (milliseconds since 1970 UTC) as 2026-01-31T15:00:00.000Z.
func AppendTime(dst []byte, ms int64) []byte {
	return time.UnixMilli(ms).UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z")
}

const hexDigits = "0123456789abcdef"

// AppendUUID appends id in its text form.
func AppendUUID(dst []byte, id [16]byte) []byte { return uuid.Append(dst, &id) }

// ParseUUID reads the 36-character text form, in either case.
func ParseUUID[T string | []byte](text T) (id [16]byte, ok bool) { return uuid.Parse(text) }

func hexValue(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	default:
		return -1
	}
}

// AppendString appends text as a JSON string. Invalid UTF-8 becomes U+FFFD.
func AppendString[T string | []byte](dst []byte, text T) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			if c >= 0x20 && c != '"' && c != '\\' {
				i++
				continue
			}
			dst = append(dst, text[start:i]...)
			dst = appendEscape(dst, c)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(string(text[i:min(i+utf8.UTFMax, len(text))]))
		if r == utf8.RuneError && size == 1 {
			dst = append(dst, text[start:i]...)
			dst = append(dst, "\ufffd"...)
			start = i + 1
		}
		i += size
	}
	return append(append(dst, text[start:]...), '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	default:
		return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
	}
}
