package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"tollgate/engine/decimal"
)

// table prints aligned columns. Its methods need no error handling but of end.
type table struct {
	w     *tabwriter.Writer
	err   error
	out   io.Writer
	paint *painting // nil where nothing is painted
}

// NewTable begins a table with the heads of its columns; without any it has no head.
func NewTable(out io.Writer, heads ...string) *table {
	t := &table{out: out}
	if Colours(out) {
		t.paint = &painting{}
		out = &t.paint.laidOut
	}
	t.w = tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	if len(heads) > 0 {
		t.Row(heads...)
	}
	return t
}

func (t *table) Row(cells ...string) {
	if t.paint != nil {
		t.paint.rows = append(t.paint.rows, cells)
	}
	if t.err == nil {
		_, t.err = fmt.Fprintln(t.w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
	}
}

// End prints what was collected.
func (t *table) End() error {
	if t.err == nil {
		t.err = t.w.Flush()
	}
	if t.err == nil && t.paint != nil {
		_, t.err = io.WriteString(t.out, t.paint.text())
	}
	if t.err != nil {
		return fmt.Errorf("print: %w", t.err)
	}
	return nil
}

// Say prints a line.
func Say(out io.Writer, format string, args ...any) error {
	if _, err := fmt.Fprintf(out, format+"\n", args...); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// OutputFlags choose between a table for people and JSON for scripts.
type OutputFlags struct {
	JSON bool `name:"json" help:"Print the data as JSON, for scripts."`
}

func (f *OutputFlags) json() bool { return f.JSON }

// Print prints data as JSON where that is asked for, and else whatever people shall read of it.
func (f *OutputFlags) Print(out io.Writer, data json.RawMessage, people func() error) error {
	if f.JSON {
		return Say(out, "%s", data)
	}
	return people()
}

// answer is Print of an answer, or the error that came instead.
func (f *OutputFlags) answer(
	out io.Writer, data json.RawMessage, err error, people func() error,
) error {
	if err != nil {
		return err
	}
	return f.Print(out, data, people)
}

// printValue is print for data that was decoded.
func (f *OutputFlags) printValue(out io.Writer, v any, people func() error) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return f.Print(out, data, people)
}

// quantity is an exact number with its thousands apart: 1,234,567.5.
func quantity(n json.Number) string {
	sign, digits := "", n.String()
	if rest, negative := strings.CutPrefix(digits, "-"); negative {
		sign, digits = "-", rest
	}
	whole, fraction, exact := strings.Cut(digits, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if exact {
		whole += "." + fraction
	}
	return sign + whole
}

// money is an amount with at least the places of its currency: 1,234.50 USD.
func money(n json.Number, currency string) string {
	text := quantity(n)
	if places, known := decimal.MinorUnits(currency); known && places > 0 {
		_, fraction, exact := strings.Cut(text, ".")
		if !exact {
			text += "."
		}
		text += strings.Repeat("0", max(0, places-len(fraction)))
	}
	return strings.TrimSpace(text + " " + currency)
}

// Size is a number of bytes in the unit in which it is short: 512 B, 3.4 KiB, 1.2 MiB.
func Size(bytes int64) string {
	if bytes < 1<<10 {
		return strconv.FormatInt(bytes, 10) + " B"
	}
	value, unit := float64(bytes)/(1<<10), 0
	for value >= 1023.95 && unit < len(sizeUnits)-1 {
		value, unit = value/(1<<10), unit+1
	}
	return fmt.Sprintf("%.1f %s", value, sizeUnits[unit])
}

var sizeUnits = [...]string{"KiB", "MiB", "GiB", "TiB"}

// instant is a time without milliseconds that are zero.
func instant(text string) string { return strings.Replace(text, ".000Z", "Z", 1) }

// moment is an instant as instant writes it; empty if there is none.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return instant(t.UTC().Format("2006-01-02T15:04:05.000Z"))
}

// either is the first text that is not empty.
func either(texts ...string) string { return cmp.Or(texts...) }
