package dev

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/term"

	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/replay"
)

// display shows how far a replay has come: a bar that is drawn again on a terminal, a plain line
// every few seconds elsewhere.
type display struct {
	out      *os.File
	terminal bool
	next     time.Duration
	drawn    bool
}

// plainEvery is how often a plain line is printed.
const plainEvery = 2 * time.Second

func newDisplay(out *os.File) *display {
	return &display{out: out, terminal: term.IsTerminal(int(out.Fd()))}
}

func (d *display) show(p replay.Progress) {
	text := fmt.Sprintf("%3d%%  %d of %d events  %.0f/s  p50 %s  p99 %s  %d repeated",
		p.Done*100/p.Total, p.Done, p.Total, p.Rate(), round(p.P50), round(p.P99), p.Retries)
	switch {
	case d.terminal:
		d.print("\r\x1b[K" + cli.Bar(p.Done, p.Total, 24) + " " + text)
		d.drawn = true
	case p.Finished || p.Elapsed >= d.next:
		d.print(text + "\n")
		d.next = p.Elapsed + plainEvery
	}
}

// end leaves the bar's line.
func (d *display) end() {
	if d.drawn {
		d.print("\n")
	}
}

func (d *display) print(text string) {
	if _, err := d.out.WriteString(text); err != nil {
		d.terminal, d.next = false, time.Duration(1<<62) // the output is gone
	}
}

func round(d time.Duration) time.Duration {
	if d > 10*time.Millisecond {
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(10 * time.Microsecond)
}
