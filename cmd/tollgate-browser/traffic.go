package main

import (
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
)

// traffic is what a tab loads: whether it is done, and what was answered.
type traffic struct {
	mu    sync.Mutex // guards all below
	frame cdp.FrameID
	// open are the requests under way, sends those by which a script sends something.
	open, sends map[network.RequestID]bool
	last        time.Time
	// page is the status of the page, called of the last request that a script of it has sent
	// something by; 0 if there was none since begin.
	page, called int
	// byProxy reports whether the page is the proxy's refusal.
	byProxy bool
	dialog  string
}

func newTraffic() *traffic {
	return &traffic{open: map[network.RequestID]bool{}, sends: map[network.RequestID]bool{}}
}

// of sets the frame that is the page.
func (t *traffic) of(frame cdp.FrameID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.frame = frame
}

// begin forgets what was answered before something is done.
func (t *traffic) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last, t.page, t.called, t.dialog, t.byProxy = time.Now(), 0, 0, "", false
	clear(t.open)
	clear(t.sends)
}

// idle reports whether nothing is being loaded, and nothing was for a time. Connections that are
// made to stay, and pictures, are not waited for.
func (t *traffic) idle(since time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.open) == 0 && time.Since(t.last) >= since
}

// status is what was answered since begin: to a form that a script sends, else to the page.
func (t *traffic) status() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.page == 0 {
		return t.called
	}
	return t.page
}

// refused reports whether the page is the proxy's refusal, not the product's.
func (t *traffic) refused() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byProxy
}

// told notes what a dialog says; said is it.
func (t *traffic) told(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dialog, t.last = text, time.Now()
}

func (t *traffic) said() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dialog
}

func (t *traffic) note(event any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		switch e.Type {
		case network.ResourceTypeDocument, network.ResourceTypeXHR, network.ResourceTypeFetch,
			network.ResourceTypeScript:
			t.open[e.RequestID] = true
		}
		if e.Request.Method != "GET" {
			t.sends[e.RequestID] = true
		}
	case *network.EventResponseReceived:
		t.answered(e)
	case *network.EventLoadingFinished:
		delete(t.open, e.RequestID)
	case *network.EventLoadingFailed:
		delete(t.open, e.RequestID)
	default:
		return
	}
	t.last = time.Now()
}

func (t *traffic) answered(e *network.EventResponseReceived) {
	status := int(e.Response.Status)
	switch {
	case e.Type == network.ResourceTypeDocument && e.FrameID == t.frame:
		t.page, t.byProxy = status, ofProxy(e.Response.Headers)
	case t.sends[e.RequestID]:
		t.called = status
	}
}

// ofProxy reports whether an answer is the run's proxy's own (RFC 9209); it lets no other say so.
func ofProxy(header network.Headers) bool {
	for name := range header {
		if strings.EqualFold(name, "Proxy-Status") {
			return true
		}
	}
	return false
}
