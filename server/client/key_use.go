package client

import (
	"container/list"
	"sync"

	"tollgate/engine/billing"
)

// maxKeyUses bounds the keys that keyUses remembers.
const maxKeyUses = 10_000

// keyUses remembers which keys this node has had noted within the hour. A clock that runs ahead of
// log time finds each noted use old, and would have each request of the key noted. Safe for
// concurrent use.
type keyUses struct {
	mu    sync.Mutex
	known map[[16]byte]*list.Element
	order list.List // of keyUse, the oldest first
}

type keyUse struct {
	key [16]byte
	at  int64
}

// due reports whether a use of a key is to be noted now, and remembers that it is. The oldest give
// way: such a key is noted once more.
func (u *keyUses) due(key [16]byte, now int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	recent := func(e *list.Element) bool {
		at := e.Value.(keyUse).at
		return at <= now && now < at+billing.KeyNotedMS
	}
	if e := u.known[key]; e != nil {
		if recent(e) {
			return false
		}
		u.forget(e)
	}
	for len(u.known) > 0 {
		oldest := u.order.Front()
		if len(u.known) < maxKeyUses && recent(oldest) {
			break
		}
		u.forget(oldest)
	}
	if u.known == nil {
		u.known = map[[16]byte]*list.Element{}
	}
	u.known[key] = u.order.PushBack(keyUse{key, now})
	return true
}

// failed forgets a use that was not noted.
func (u *keyUses) failed(key [16]byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if e := u.known[key]; e != nil {
		u.forget(e)
	}
}

func (u *keyUses) forget(e *list.Element) {
	delete(u.known, e.Value.(keyUse).key)
	u.order.Remove(e)
}
