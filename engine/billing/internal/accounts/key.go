package accounts

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"sync/atomic"
)

// Scope is what an API key may do.
//
//schema:enum
type Scope uint8

const (
	// ScopeFull can do everything in its environment.
	ScopeFull Scope = 1 // full
	// ScopeRead may GET, and evaluate entitlements.
	ScopeRead Scope = 2 // read
	// ScopeCustomer may read what belongs to one customer, and evaluate that customer's entitlements.
	ScopeCustomer Scope = 3 // customer
)

// Bounds of an environment's API keys.
const (
	// MaxAPIKeys bounds the keys in use.
	MaxAPIKeys = 1000
	// MaxListedKeys bounds all keys, revoked ones included. When it is reached, a new key replaces
	// the one that was revoked first.
	MaxListedKeys = 2 * MaxAPIKeys
)

// Uses of a key are counted by hour and by day of log time, the present one included.
const (
	hourMS       = 60 * 60 * 1000
	keyUsedHours = 24
	keyUsedDays  = 30
)

// KeyUse counts the uses of a key in an hour or a day that begins at Start.
type KeyUse struct {
	Start    int64  `wire:"1"`
	Requests uint64 `wire:"2"`
	Events   uint64 `wire:"3"` // usage events that they recorded
}

// within adds up the uses from an instant on.
func within(list []KeyUse, from int64) (sum KeyUse) {
	for _, u := range list {
		if u.Start >= from {
			sum.Requests += u.Requests
			sum.Events += u.Events
		}
	}
	return sum
}

// using returns a copy of a list with one more use, of which those from an instant on are left.
func using(list []KeyUse, u KeyUse, from int64) []KeyUse {
	made := make([]KeyUse, 0, len(list)+1)
	for _, before := range list {
		switch {
		case before.Start == u.Start:
			u.Requests += before.Requests
			u.Events += before.Events
		case before.Start >= from:
			made = append(made, before)
		}
	}
	return append(made, u)
}

// KeyFacts are an API key in its environment, as snapshots have it.
//
//schema:part
type KeyFacts struct {
	ID        [16]byte `wire:"1"`
	Hash      [32]byte `wire:"2"`
	Scope     Scope    `wire:"3"`
	Label     string   `wire:"4"`
	Hint      string   `wire:"5"`
	CreatedAt int64    `wire:"6"`
	Customer  uint32   `wire:"9"` // customer's row, for ScopeCustomer
	// Budget is the node of budgets that its requests count at, or below; 0: it is bound to none.
	Budget uint32 `wire:"10"`
	// UsedAt is its newest noted use; 0 is none.
	UsedAt int64 `wire:"11"`
	// EndsAt is the log time from which it is revoked; 0: never.
	EndsAt int64 `wire:"12"`
	// UsedHours and UsedDays count its uses, the oldest first; no list is ever changed.
	UsedHours []KeyUse `wire:"13"`
	UsedDays  []KeyUse `wire:"14"`
	CreatedBy string   `wire:"15"`
	// Noted has the newest note of each source, the one that noted last at the end.
	Noted []KeyNote `wire:"16"`
}

// KeyNote is the newest note of a key's uses that came from a source: a process of a node.
type KeyNote struct {
	Source uint64 `wire:"1"`
	Number uint64 `wire:"2"` // greater than those of the source before
}

// maxKeyNotes bounds the sources of a key: a start of a node makes a new one. The one that noted
// least recently makes room; a repetition of its last note comes within seconds, or never.
const maxKeyNotes = 16

// noted returns a copy of the notes with one more; false where that, or a later one of its source,
// has come before. What has no source is always new.
func (k *KeyFacts) noted(note KeyNote) (list []KeyNote, fresh bool) {
	if note.Source == 0 {
		return k.Noted, true
	}
	list = make([]KeyNote, 0, len(k.Noted)+1)
	for _, before := range k.Noted {
		if before.Source != note.Source {
			list = append(list, before)
		} else if before.Number >= note.Number {
			return k.Noted, false
		}
	}
	list = append(list, note)
	return list[max(0, len(list)-maxKeyNotes):], true
}

// usedHour and usedDay are where the first of the hours and days that are counted at an instant
// begins.
func usedHour(at int64) int64 { return at - at%hourMS - (keyUsedHours-1)*hourMS }

func usedDay(at int64) int64 { return at - at%DayMS - (keyUsedDays-1)*DayMS }

// Used adds up the uses of the 24 hours and of the 30 days of UTC that end with the present ones.
func (k *KeyFacts) Used(now int64) (day, month KeyUse) {
	return within(k.UsedHours, usedHour(now)), within(k.UsedDays, usedDay(now))
}

// APIKey changes at most once: when it is revoked. Binding it to another budget, or noting its use,
// makes another APIKey.
type APIKey struct {
	KeyFacts
	Env     uint32
	Revoked atomic.Pointer[Revocation]
}

// Revocation is when a key was revoked, and by which log entry: a snapshot omits later ones.
type Revocation struct {
	At    int64
	Index uint64
}

// KeySlot is the place of a key among all; the indexes have its number.
type KeySlot struct{ Key atomic.Pointer[APIKey] }

// AddKey appends a key, also at restore. In a full environment it replaces the key that was revoked
// first; there is one, because fewer may be in use.
func (s *Directory) AddKey(k *APIKey) {
	e := s.Environment(k.Env)
	number := uint32(0)
	if gone := e.firstRevoked(); gone != nil && len(e.Keys.All()) >= MaxListedKeys {
		number = s.keyNumber(&gone.Hash)
		s.APIKeyByHash.Remove(KeyHash(&gone.Hash), number)
		s.APIKeyByID.Remove(s.IDHash(&gone.ID), number)
		e.Keys.Remove(func(other *KeySlot) bool { return other.Key.Load() == gone })
		e.binds(gone)
	} else {
		number = s.APIKeys.Append(new(KeySlot))
	}
	slot, _ := s.APIKeys.At(number)
	slot.Key.Store(k)
	s.APIKeyByHash.Insert(KeyHash(&k.Hash), number)
	s.APIKeyByID.Insert(s.IDHash(&k.ID), number)
	e.Keys.Append(slot)
	e.binds(k)
	if k.EndsAt != 0 && k.Revoked.Load() == nil {
		s.ends(k)
	}
}

// keyEnd is when a key ends.
type keyEnd struct {
	at  int64 // log time
	env uint32
	id  [16]byte
}

func (a keyEnd) compare(b keyEnd) int {
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.env, b.env), bytes.Compare(a.id[:], b.id[:]))
}

// EndKey makes a key end at a log time, unless it ends before.
func (s *Directory) EndKey(k *APIKey, at int64) {
	if k.EndsAt == 0 || at < k.EndsAt {
		s.unends(k)
		s.ends(s.replaceKey(k, func(facts *KeyFacts) { facts.EndsAt = at }))
	}
}

// ends notes when a key ends.
func (s *Directory) ends(k *APIKey) {
	end := keyEnd{k.EndsAt, k.Env, k.ID}
	at, _ := slices.BinarySearchFunc(s.keyEnds, end, keyEnd.compare)
	s.keyEnds = slices.Insert(s.keyEnds, at, end)
	s.noteKeyDue()
}

// unends forgets when a key ends, if it does.
func (s *Directory) unends(k *APIKey) {
	end := keyEnd{k.EndsAt, k.Env, k.ID}
	if at, found := slices.BinarySearchFunc(s.keyEnds, end, keyEnd.compare); found {
		s.keyEnds = slices.Delete(s.keyEnds, at, at+1)
		s.noteKeyDue()
	}
}

func (s *Directory) noteKeyDue() {
	due := int64(0)
	if len(s.keyEnds) > 0 {
		due = s.keyEnds[0].at
	}
	s.KeyDue.Store(due)
}

// RevokeKey revokes a key that is in use. Only Apply may call it.
func (s *Directory) RevokeKey(k *APIKey, at int64, index uint64) {
	k.Revoked.Store(&Revocation{At: at, Index: index})
	s.unends(k)
}

// EndKeys revokes the keys that end by a log time, and returns them in the order of their ends.
// Only Apply may call it.
func (s *Directory) EndKeys(now int64, index uint64) (ended []*APIKey) {
	for len(s.keyEnds) > 0 && s.keyEnds[0].at <= now {
		end := s.keyEnds[0]
		s.keyEnds = s.keyEnds[1:]
		k := s.KeyWith(end.env, &end.id)
		k.Revoked.Store(&Revocation{At: end.at, Index: index})
		ended = append(ended, k)
	}
	s.noteKeyDue()
	return ended
}

// BindKey binds a key to a budget.
func (s *Directory) BindKey(k *APIKey, budget uint32) {
	bound := s.replaceKey(k, func(facts *KeyFacts) { facts.Budget = budget })
	e := s.Environment(k.Env)
	e.binds(k) // behind the slot: whoever reads the new number finds the new key
	e.binds(bound)
}

// NoteKeyUse keeps when a key was used, and how often since its source noted that last. False: the
// note is known, or older than one that is, and nothing changes.
func (s *Directory) NoteKeyUse(
	k *APIKey, at int64, note KeyNote, requests, events uint64,
) (fresh bool) {
	notes, fresh := k.noted(note)
	if !fresh {
		return false
	}
	s.replaceKey(k, func(facts *KeyFacts) {
		facts.UsedAt, facts.Noted = at, notes
		hour, day := KeyUse{at - at%hourMS, requests, events}, KeyUse{at - at%DayMS, requests, events}
		facts.UsedHours = using(facts.UsedHours, hour, usedHour(at))
		facts.UsedDays = using(facts.UsedDays, day, usedDay(at))
	})
	return true
}

// replaceKey puts in a key's place one that is changed, at a cost that does not depend on how many
// keys there are. A running snapshot has the one of before.
func (s *Directory) replaceKey(k *APIKey, change func(*KeyFacts)) *APIKey {
	changed := &APIKey{KeyFacts: k.KeyFacts, Env: k.Env}
	change(&changed.KeyFacts)
	changed.Revoked.Store(k.Revoked.Load())
	slot, _ := s.APIKeys.At(s.keyNumber(&k.Hash))
	slot.Key.Store(changed)
	return changed
}

// APIKey finds a key by its SHA-256; nil if there is none.
func (s *Directory) APIKey(hash *[32]byte) (found *APIKey) {
	all := s.APIKeys.All()
	s.APIKeyByHash.Find(KeyHash(hash), func(number uint32) bool {
		if int(number) > len(all) {
			return false
		}
		k := all[number-1].Key.Load()
		if k.Hash != *hash {
			return false
		}
		found = k
		return true
	})
	return found
}

// KeyWith finds an environment's key by its id; nil if there is none. Any goroutine.
func (s *Directory) KeyWith(env uint32, id *[16]byte) (found *APIKey) {
	all := s.APIKeys.All()
	s.APIKeyByID.Find(s.IDHash(id), func(number uint32) bool {
		if int(number) > len(all) {
			return false
		}
		k := all[number-1].Key.Load()
		if k.Env != env || k.ID != *id {
			return false
		}
		found = k
		return true
	})
	return found
}

// keyNumber returns the number of an existing key's place. Only Apply may call it.
func (s *Directory) keyNumber(hash *[32]byte) uint32 {
	all := s.APIKeys.All()
	return s.APIKeyByHash.Find(KeyHash(hash), func(number uint32) bool {
		return all[number-1].Key.Load().Hash == *hash
	})
}

// KeyHash needs no seed: the bytes are a SHA-256.
func KeyHash(hash *[32]byte) uint64 { return binary.LittleEndian.Uint64(hash[:]) }

// KeysInUse counts the keys that are not revoked.
func (e *Environment) KeysInUse() (n int) {
	for _, slot := range e.Keys.All() {
		if slot.Key.Load().Revoked.Load() == nil {
			n++
		}
	}
	return n
}

// firstRevoked returns the key that was revoked first (the oldest of several in one entry); nil if
// none was.
func (e *Environment) firstRevoked() (first *APIKey) {
	for _, slot := range e.Keys.All() {
		k := slot.Key.Load()
		r := k.Revoked.Load()
		if r != nil && (first == nil || r.Index < first.Revoked.Load().Index) {
			first = k
		}
	}
	return first
}

// FixedKeys are the keys as they are now, for a snapshot. Only Apply's goroutine may call it.
func (e *Environment) FixedKeys() []*APIKey {
	all := e.Keys.All()
	keys := make([]*APIKey, len(all))
	for i, slot := range all {
		keys[i] = slot.Key.Load()
	}
	return keys
}
