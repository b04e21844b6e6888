package cli

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestColoursMoveNoColumn: words are painted after the table was laid out, whole cells alone.
func TestColoursMoveNoColumn(t *testing.T) {
	rows := [][]string{
		{"LEVEL", "WHAT"}, {"ok", "the word FAIL within"}, {"FAIL", "ok", "denied"}, {"", "WARN", "x"},
	}
	var bare bytes.Buffer
	print := func(table *table) string {
		for _, row := range rows {
			table.Row(row...)
		}
		require.NoError(t, table.End())
		return bare.String()
	}
	want := print(NewTable(&bare))
	require.NotContains(t, want, "\x1b", "this is not a terminal")
	p := &painting{rows: rows}
	p.laidOut.WriteString(want)
	painted := p.text()
	require.Equal(t, 5, bytes.Count([]byte(painted), []byte(plain)))
	require.Contains(t, painted, green+"ok"+plain+"     the word FAIL within\n"+red+"FAIL"+plain+"   ")
	for _, code := range []string{green, yellow, red, plain} {
		painted = string(bytes.ReplaceAll([]byte(painted), []byte(code), nil))
	}
	require.Equal(t, want, painted)
}

func TestProgressSaysHowFarItIs(t *testing.T) {
	p := StartProgress("checking", 4096)
	defer p.End()
	n, err := p.Write(make([]byte, 1024))
	require.NoError(t, err)
	require.Equal(t, 1024, n)
	require.Equal(t, "[██████··················] checking, 3s, 1.0 KiB", p.text(3*time.Second))
	list := StartList("reading customers", 4000)
	defer list.End()
	list.Add(1000)
	require.Equal(t, "[██████··················] reading customers, 2s, 1000", list.text(2*time.Second))
	require.Equal(t, "[████]", Bar(9, 3, 4), "more than was expected")
	require.Equal(t, "[····]", Bar(0, 0, 4))
}

// TestProgressCountsWhatSeveralWrite: parts of a file come at once, while the line is drawn.
func TestProgressCountsWhatSeveralWrite(t *testing.T) {
	p := StartProgress("fetching", 64<<10)
	defer p.End()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 8 {
				p.Write(make([]byte, 1<<10)) // never fails
				p.text(time.Second)
			}
		})
	}
	group.Wait()
	require.Equal(t, "["+strings.Repeat("█", 24)+"] fetching, 1s, 64.0 KiB", p.text(time.Second))
}
