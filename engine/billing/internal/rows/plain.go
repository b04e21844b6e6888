package rows

import (
	"tollgate/engine/schema"
	"tollgate/engine/wire"
)

// DecodeText decodes a text that this machine has encoded: strings of v alias it.
func DecodeText(data string, v wire.Fielder) {
	if err := wire.DecodeText(data, v); err != nil {
		panic("billing: a text in memory does not decode: " + err.Error())
	}
}

// Plain reports whether a text has least (0 or 1) to most characters and no control characters.
func Plain(text string, minimum, maximum int) bool {
	return schema.CheckText(text, minimum, maximum) == ""
}
