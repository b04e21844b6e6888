package cli

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Progress shows on a terminal how far something is that takes longer than a second; elsewhere,
// and within something that shows its own, it shows nothing. Safe for concurrent use.
type Progress struct {
	out   *os.File
	what  string
	total int64
	items bool // whether items are counted, and not bytes
	done  chan struct{}
	ended chan struct{} // nil where nothing is shown

	mu   sync.Mutex
	come int64
}

const (
	progressAfter = time.Second
	progressEvery = 200 * time.Millisecond
)

// StartProgress begins to show what is done, of total bytes; 0: only how long it has taken.
func StartProgress(what string, total int64) *Progress {
	return start(&Progress{what: what, total: total})
}

func start(p *Progress) *Progress {
	p.done = make(chan struct{})
	if Colours(os.Stderr) && showing.CompareAndSwap(false, true) { // a terminal that draws
		p.out, p.ended = os.Stderr, make(chan struct{})
		go p.run(time.Now())
	}
	return p
}

// StartList is StartProgress for a list that is read page by page, of up to total items.
func StartList(what string, total int) *Progress {
	return start(&Progress{what: what, total: int64(total), items: true})
}

// showing reports whether one is shown: there is one line for it.
var showing atomic.Bool

func (p *Progress) run(began time.Time) {
	defer close(p.ended)
	wait := time.NewTimer(progressAfter)
	defer wait.Stop()
	for {
		select {
		case <-p.done:
			return
		case <-wait.C:
			if _, err := p.out.WriteString(eraseLine + p.text(time.Since(began))); err != nil {
				return // the terminal is gone
			}
			wait.Reset(progressEvery)
		}
	}
}

// text is the line that is shown.
func (p *Progress) text(took time.Duration) string {
	p.mu.Lock()
	come := p.come
	p.mu.Unlock()
	text := fmt.Sprintf("%s, %s", p.what, took.Round(time.Second))
	if p.total > 0 {
		text = Bar(uint64(come), uint64(p.total), 24) + " " + text
	}
	switch {
	case come > 0 && p.items:
		text += ", " + strconv.FormatInt(come, 10)
	case come > 0:
		text += ", " + Size(come)
	}
	return text
}

// eraseLine begins the line of a terminal again.
const eraseLine = "\r\x1b[K"

// End takes the line away.
func (p *Progress) End() {
	close(p.done)
	if p.ended != nil {
		<-p.ended
		fmt.Fprint(p.out, eraseLine)
		showing.Store(false)
	}
}

// Write counts bytes that have come through.
func (p *Progress) Write(b []byte) (int, error) {
	p.Add(int64(len(b)))
	return len(b), nil
}

// Add counts so many bytes, or items.
func (p *Progress) Add(n int64) {
	p.mu.Lock()
	p.come += n
	p.mu.Unlock()
}

// Reading counts what is read of r.
func (p *Progress) Reading(r io.Reader) io.Reader { return io.TeeReader(r, p) }

// Bar draws how much of a total is done.
func Bar(done, total uint64, width int) string {
	full := int(min(done, total) * uint64(width) / max(total, 1))
	return "[" + strings.Repeat("█", full) + strings.Repeat("·", width-full) + "]"
}
