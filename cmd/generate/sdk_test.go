package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAClientsCopyHasTaggedFields: what cannot be copied for the client is refused by name.
func TestAClientsCopyHasTaggedFields(t *testing.T) {
	for _, c := range []struct{ declared, failure string }{
		{"type Vitals struct{ Uptime int }", "engine/p.Vitals.Uptime"},
		{"type Vitals struct{ lost }", "engine/p.Vitals: the embedded lost"},
		{"type Vitals struct{ Kind }\n\ntype Kind uint8", "engine/p.Kind"},
		{"type Vitals uint8", "engine/p.Vitals"},
		{"type Vitals struct {\n\tStop chan int `json:\"stop\"`\n}", "engine/p.Vitals"},
	} {
		_, err := generate(t, "//schema:client Vitals\n"+c.declared+"\n")
		require.ErrorContains(t, err, c.failure, c.declared)
	}
}
