package rows

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"tollgate/engine/wire"
)

// DecodeText decodes a text that this machine has encoded: strings of v alias it.
func DecodeText(data string, v wire.Fielder) {
	if err := wire.DecodeText(data, v); err != nil {
		panic("billing: a text in memory does not decode: " + err.Error())
	}
}

// Plain reports whether a text has least to most characters and no control characters.
func Plain(text string, least, most int) bool {
	n := utf8.RuneCountInString(text)
	return n >= least && n <= most && utf8.ValidString(text) &&
		!strings.ContainsFunc(text, unicode.IsControl)
}
