package cli

import (
	"bytes"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Colours reports whether a text may have colours: on a terminal, unless NO_COLOR is set.
func Colours(out io.Writer) bool {
	if p, is := out.(*page); is {
		out = p.on
	}
	file, is := out.(*os.File)
	return is && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" &&
		term.IsTerminal(int(file.Fd()))
}

// page collects what is to be shown at once.
type page struct {
	bytes.Buffer
	on io.Writer
}

// The colours of a terminal. A word is never told by its colour alone.
const (
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	red    = "\x1b[31m"
	plain  = "\x1b[0m"
)

// colourOf has the words that are painted where they are a whole cell.
var colourOf = map[string]string{
	"ok": green, "allowed": green, "active": green, "PAID": green, "delivered": green,
	"WARN": yellow, "suspended": yellow, "DUE": yellow, "frozen": yellow,
	"FAIL": red, "denied": red, "down": red, "PAST_DUE": red, "failed": red,
}

// painting paints the cells of a table after it was laid out, so that colours move no column.
type painting struct {
	rows    [][]string
	laidOut bytes.Buffer
}

func (p *painting) text() string {
	lines := strings.SplitAfter(p.laidOut.String(), "\n")
	if len(lines) != len(p.rows)+1 {
		return p.laidOut.String() // a cell has lines of its own
	}
	for i, cells := range p.rows {
		line, from := lines[i], 0
		for _, cell := range cells {
			at := strings.Index(line[from:], cell)
			if at < 0 {
				break
			}
			at += from
			from = at + len(cell)
			if colour := colourOf[cell]; colour != "" {
				line = line[:at] + colour + cell + plain + line[from:]
				from += len(colour) + len(plain)
			}
		}
		lines[i] = line
	}
	return strings.Join(lines, "")
}
