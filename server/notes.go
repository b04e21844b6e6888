package server

import "sync"

// maxNotes bounds what is being noted at one time; what comes beyond is noted by a later request.
const maxNotes = 64

// Notes are commands that requests leave behind and do not wait for: that something was used. Of
// each thing one is under way at a time, and 64 in all, so that requests which come while the log
// is slow do not pile up behind it. The zero value is ready. Safe for concurrent use.
type Notes[K comparable] struct {
	mu    sync.Mutex
	noted map[K]bool
}

// Begin lets note run concurrently with the caller, unless one of the same thing does, or too many
// do. note ends by itself, within the time that a command has.
func (n *Notes[K]) Begin(of K, note func()) {
	if !n.begin(of) {
		return
	}
	go func() {
		defer n.end(of)
		note()
	}()
}

// UnderWay is how many there are now.
func (n *Notes[K]) UnderWay() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.noted)
}

func (n *Notes[K]) begin(of K) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.noted[of] || len(n.noted) >= maxNotes {
		return false
	}
	if n.noted == nil {
		n.noted = map[K]bool{}
	}
	n.noted[of] = true
	return true
}

func (n *Notes[K]) end(of K) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.noted, of)
}
