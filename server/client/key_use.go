package client

import (
	"sync"

	"tollgate/engine/billing"
)

// maxKeyUses bounds the keys that keyUses remembers.
const maxKeyUses = 10_000

// keyUses remembers which keys this node has had noted within the hour. A clock that runs ahead of
// log time finds each noted use old, and would have each request of the key noted. Safe for
// concurrent use.
type keyUses struct {
	mu sync.Mutex
	at map[[16]byte]int64
}

// due reports whether a use of a key is to be noted now, and remembers that it is.
func (u *keyUses) due(key [16]byte, now int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if last, known := u.at[key]; known && last <= now && now < last+billing.KeyNotedMS {
		return false
	}
	if u.at == nil || len(u.at) >= maxKeyUses {
		u.at = map[[16]byte]int64{} // those that are forgotten are noted once more
	}
	u.at[key] = now
	return true
}

// failed forgets a use that was not noted.
func (u *keyUses) failed(key [16]byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.at, key)
}
