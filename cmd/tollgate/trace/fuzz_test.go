package trace_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/trace"
)

// FuzzRead: a trace is read, and is the same once it is written and read again, or refused.
func FuzzRead(f *testing.F) {
	f.Add("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n")
	f.Add("2023-11-16 18:17:03,1,2,3\n")
	f.Fuzz(func(t *testing.T, text string) {
		rows, err := trace.Read(strings.NewReader(text))
		if err != nil {
			return
		}
		again, err := trace.Read(written(rows))
		require.NoError(t, err)
		require.Equal(t, rows, again)
	})
}
