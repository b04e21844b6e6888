package load

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A record stands in a document between these lines, a row of the table on each.
const (
	recordBegin = "<!-- rows of `tollgate-bench table --record` -->\n"
	recordEnd   = "<!-- end of rows -->\n"
	recordHead  = "| what | target | stands | measured | on |\n|---|---|---|---|---|\n"
)

// A document with the rows that users care about has them between these lines.
const (
	excerptBegin = "<!-- an excerpt of docs/speed.md -->\n"
	excerptEnd   = "<!-- end of excerpt -->\n"
	excerptHead  = "| what | target | measured | stands |\n|---|---|---|---|\n"
)

// IsExcerpt reports whether a document has an excerpt of another one's rows.
func IsExcerpt(document []byte) bool { return bytes.Contains(document, []byte(excerptBegin)) }

// Excerpt renews the rows of a document from those of a record, without the details that stand in
// brackets there. A row of the document that the record does not have is an error.
func Excerpt(document, record []byte) ([]byte, error) {
	before, rest, begun := bytes.Cut(document, []byte(excerptBegin))
	old, after, ended := bytes.Cut(rest, []byte(excerptEnd))
	if !begun || !ended {
		return nil, fmt.Errorf("no place for rows: want lines %q and %q", excerptBegin, excerptEnd)
	}
	rows := map[string][]string{}
	for line := range strings.Lines(string(record)) {
		if cells := strings.Split(strings.Trim(line, "|\n "), " | "); len(cells) == 5 {
			rows[cells[0]] = cells
		}
	}
	var out bytes.Buffer
	out.Write(before)
	out.WriteString(excerptBegin + excerptHead)
	for line := range strings.Lines(strings.TrimPrefix(string(old), excerptHead)) {
		what, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		cells := rows[what]
		if cells == nil {
			return nil, fmt.Errorf("no row %q was recorded", what)
		}
		measured, _, _ := strings.Cut(cells[3], " (")
		stands, _, _ := strings.Cut(cells[2], ": bench/")
		fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", what, cells[1], measured, stands)
	}
	out.WriteString(excerptEnd)
	out.Write(after)
	return out.Bytes(), nil
}

// Recordable says why the figures cannot be kept: nothing where they can. Rows of a part that
// others disturbed, or in which too little was measured, would be read for years.
func (f *Figures) Recordable() error {
	var all []error
	told := map[string]bool{}
	for _, row := range f.Rows() {
		switch {
		case row.Verdict == VerdictUnknown:
		case row.Disturbed != "" && !told[row.Part]:
			told[row.Part] = true
			all = append(all, fmt.Errorf("%s was disturbed by %s: measure it again when the machine is "+
				"quiet", row.Part, row.Disturbed))
		case row.Verdict == VerdictSmall:
			all = append(all, fmt.Errorf("%q: too little was measured: %s", row.What, row.Measured))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return fmt.Errorf("refused to record: %w", errors.Join(all...))
}

// Record replaces a document's rows by what was measured, and keeps rows that were not. It returns
// Recordable's error if the figures cannot be kept.
func (f *Figures) Record(document []byte) ([]byte, error) {
	if err := f.Recordable(); err != nil {
		return nil, err
	}
	before, rest, begun := bytes.Cut(document, []byte(recordBegin))
	old, after, ended := bytes.Cut(rest, []byte(recordEnd))
	if !begun || !ended {
		return nil, fmt.Errorf("no place for rows: want lines %q and %q", recordBegin, recordEnd)
	}
	known := map[string]string{}
	for line := range strings.Lines(string(old)) {
		if cells := strings.Split(line, " | "); len(cells) > 1 {
			known[strings.TrimPrefix(cells[0], "| ")] = line
		}
	}
	var out bytes.Buffer
	out.Write(before)
	out.WriteString(recordBegin + recordHead)
	for _, row := range f.Rows() {
		line, was := known[row.What]
		if row.Verdict != VerdictUnknown || !was {
			line = row.line(f.Environment)
		}
		out.WriteString(line)
	}
	out.WriteString(recordEnd)
	out.Write(after)
	return out.Bytes(), nil
}

func (r Row) line(e Environment) string {
	on := e.At.Format(time.DateOnly)
	if r.Verdict == VerdictUnknown {
		on = "–"
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s |\n", r.What, r.Target, r.Stands(), r.Measured, on)
}
