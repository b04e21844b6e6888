package console

import (
	"crypto/rand"
	"encoding/base64"
	"sync"
	"time"

	"tollgate/server/console/page"
)

// A secret that a form made is kept for as long as its page takes to load, and shown once.
const (
	revealFor   = 2 * time.Minute
	mostReveals = 256
)

// reveals are secrets between the form that made them and the page that shows them. They are in
// memory only. Safe for concurrent use.
type reveals struct {
	now  func() time.Time
	mu   *sync.Mutex
	held map[string]reveal
}

type reveal struct {
	notice page.Notice
	token  string // of the session that may see it
	until  time.Time
}

func newReveals(now func() time.Time) reveals {
	return reveals{now: now, mu: new(sync.Mutex), held: map[string]reveal{}}
}

// put keeps a notice for a session, and returns the name that takes it out again.
func (r *reveals) put(token string, notice page.Notice) string {
	var drawn [18]byte
	if _, err := rand.Read(drawn[:]); err != nil {
		panic("console: no randomness: " + err.Error())
	}
	name, now := base64.RawURLEncoding.EncodeToString(drawn[:]), r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for other, kept := range r.held {
		if !now.Before(kept.until) || len(r.held) >= mostReveals {
			delete(r.held, other)
		}
	}
	r.held[name] = reveal{notice: notice, token: token, until: now.Add(revealFor)}
	return name
}

// take hands a notice out, once, to the session that it is for.
func (r *reveals) take(name, token string) (page.Notice, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept, known := r.held[name]
	if !known || kept.token != token {
		return page.Notice{}, false
	}
	delete(r.held, name)
	return kept.notice, r.now().Before(kept.until)
}
