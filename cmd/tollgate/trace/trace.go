// Package trace reads and makes traces of LLM requests: when each was made, how many context
// tokens it carried and how many it generated. The format is that of the Azure LLM inference
// traces: one header line, then time, context tokens and generated tokens, separated by commas.
package trace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Row is one LLM request.
type Row struct {
	// Time is the request's own time, as the file writes it (TimeLayout).
	Time string
	// Context and Generated are numbers of tokens.
	Context, Generated uint64
}

// TimeLayout is how a trace writes a time; seconds carry any number of decimals.
const TimeLayout = "2006-01-02 15:04:05"

// MaxRows bounds a trace, so that a wrong file cannot take all memory.
const MaxRows = 50_000_000

// ErrFormat means that a file is not a trace.
var ErrFormat = errors.New("trace: not a trace of LLM requests")

// Read returns every row of a trace. The header line may be absent; blank lines are ignored. The
// error wraps ErrFormat and names the line.
func Read(src io.Reader) ([]Row, error) {
	var rows []Row
	lines := bufio.NewScanner(src)
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || (number == 1 && strings.HasPrefix(line, "TIMESTAMP")) {
			continue
		}
		row, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrFormat, number, err)
		}
		if len(rows) == MaxRows {
			return nil, fmt.Errorf("%w: more than %d rows", ErrFormat, MaxRows)
		}
		rows = append(rows, row)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("trace: read: %w", err)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%w: no rows", ErrFormat)
	}
	return rows, nil
}

func parse(line string) (Row, error) {
	at, rest, _ := strings.Cut(line, ",")
	context, generated, ok := strings.Cut(rest, ",")
	if !ok || strings.Contains(generated, ",") {
		return Row{}, errors.New("want time,context tokens,generated tokens")
	}
	if _, err := time.Parse(TimeLayout, at); err != nil {
		return Row{}, fmt.Errorf("time %q: want %s", at, TimeLayout)
	}
	row := Row{Time: at}
	var err error
	if row.Context, err = strconv.ParseUint(context, 10, 48); err != nil {
		return Row{}, fmt.Errorf("context tokens %q: want a whole number", context)
	}
	if row.Generated, err = strconv.ParseUint(generated, 10, 48); err != nil {
		return Row{}, fmt.Errorf("generated tokens %q: want a whole number", generated)
	}
	return row, nil
}
