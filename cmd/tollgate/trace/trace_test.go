package trace_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/trace"
)

func TestReadTakesWhatTheFileSays(t *testing.T) {
	rows, err := trace.Read(strings.NewReader("TIMESTAMP,ContextTokens,GeneratedTokens\r\n" +
		"2023-11-16 18:17:03.9799600,4808,10\r\n\r\n2023-11-16 18:17:04,3180,8"))
	require.NoError(t, err)
	require.Equal(t, []trace.Row{
		{Time: "2023-11-16 18:17:03.9799600", Context: 4808, Generated: 10},
		{Time: "2023-11-16 18:17:04", Context: 3180, Generated: 8},
	}, rows)
}

func TestReadNamesTheLineThatIsWrong(t *testing.T) {
	good := "2023-11-16 18:17:03.9,1,1\n"
	for text, want := range map[string]string{
		"":                                     "no rows",
		"TIMESTAMP,a,b\n":                      "no rows",
		good + "2023-11-16 18:17:03.9,1\n":     "line 2",
		good + "2023-11-16 18:17:03.9,1,1,1\n": "line 2",
		"yesterday,1,1\n":                      "line 1: time",
		good + good + "2023-11-16 18:17:03,-1,1\n":  "line 3: context",
		good + good + "2023-11-16 18:17:03,1,1.5\n": "line 3: generated",
	} {
		_, err := trace.Read(strings.NewReader(text))
		require.ErrorIs(t, err, trace.ErrFormat, text)
		require.ErrorContains(t, err, want, text)
	}
}

func TestGenerateIsTheSameForTheSameSeed(t *testing.T) {
	short, long := trace.Generate(200, 7), trace.Generate(2000, 7)
	require.Equal(t, short, long[:200], "a longer trace begins with the shorter one")
	require.NotEqual(t, short, trace.Generate(200, 8))

	read, err := trace.Read(written(long))
	require.NoError(t, err)
	require.Equal(t, long, read)
}

// written is a file of rows.
func written(rows []trace.Row) *bytes.Buffer {
	var file bytes.Buffer
	file.WriteString("TIMESTAMP,ContextTokens,GeneratedTokens\n")
	for _, row := range rows {
		fmt.Fprintf(&file, "%s,%d,%d\n", row.Time, row.Context, row.Generated)
	}
	return &file
}
