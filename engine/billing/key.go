package billing

import (
	"encoding/binary"
	"sync/atomic"

	"tollgate/engine"
)

// Scope is what an API key may do.
type Scope uint8

const (
	// ScopeFull may do everything in its environment.
	ScopeFull Scope = 1
	// ScopeRead may GET, and evaluate entitlements.
	ScopeRead Scope = 2
	// ScopeCustomer may read what belongs to one customer, and evaluate that customer's entitlements.
	ScopeCustomer Scope = 3
)

// String is the scope's name in the admin API.
func (s Scope) String() string {
	switch s {
	case ScopeFull:
		return "full"
	case ScopeRead:
		return "read"
	case ScopeCustomer:
		return "customer"
	}
	return "none"
}

// Bounds of an environment's API keys.
const (
	// MaxAPIKeys is how many may be in use at a time.
	MaxAPIKeys = 1000
	// MaxListedKeys is how many are held, revoked ones included. Where there are as many, a new one
	// takes the place of the one that was revoked first.
	MaxListedKeys = 2 * MaxAPIKeys
)

// CreateKey adds an API key to an environment. Only the key's hash is known here. A key of the same
// ID and hash is the same success again.
type CreateKey struct {
	Env   uint32   `wire:"1"`
	ID    [16]byte `wire:"2"`
	Hash  [32]byte `wire:"3"` // SHA-256 of the whole key
	Scope Scope    `wire:"4"`
	Label string   `wire:"5"` // ≤ 80 characters
	Hint  string   `wire:"6"` // the key's prefix and first characters, for listings
	// Actor is who asked for it, for the record of admin changes.
	Actor string `wire:"7"`
	// Customer is the ExternalID of the customer that a key of ScopeCustomer belongs to.
	Customer string `wire:"8"`
}

func (c *CreateKey) apply(t *turn) engine.Outcome {
	e := t.environment(c.Env)
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	if k := t.apiKey(&c.Hash); k != nil {
		if k.id == c.ID && k.env == c.Env {
			return engine.OutcomeDone
		}
		return engine.OutcomeIDsContradict
	}
	if e.apiKey(c.ID) != nil {
		return engine.OutcomeIDsContradict
	}
	if e.keysInUse() >= MaxAPIKeys {
		return engine.OutcomeAccountLimit
	}
	if o := t.takesKey(e); o != engine.OutcomeDone {
		return o
	}

	customer := uint32(0)
	if c.Scope == ScopeCustomer {
		if customer = t.customerNamed(c.Env, []byte(c.Customer)); customer == 0 {
			return engine.OutcomeCustomerUnknown
		}
		if p := t.profile(customer); p.gone() {
			return engine.OutcomeCustomerArchived
		}
	}

	t.addKey(&apiKey{
		id: c.ID, hash: c.Hash, env: c.Env, scope: c.Scope, customer: customer,
		label: c.Label, hint: c.Hint, createdAt: t.Stamp,
	})
	t.Fold(keyHash(&c.Hash)) // not its number: a restore numbers keys anew
	t.note(change{
		Env: c.Env, Actor: c.Actor, Action: "key.created", Subject: uuidText(c.ID),
		Values: []FieldChange{
			{"scope", "", c.Scope.String()},
			{"label", "", c.Label},
			{"hint", "", c.Hint},
			{"customer", "", c.Customer},
		},
	})
	return engine.OutcomeDone
}

// RevokeKey ends an API key for good. Revoking a revoked key is the same success again, as long as
// it is listed.
type RevokeKey struct {
	Env   uint32   `wire:"1"`
	ID    [16]byte `wire:"2"`
	Actor string   `wire:"3"`
}

func (c *RevokeKey) apply(t *turn) engine.Outcome {
	e := t.environment(c.Env)
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	k := e.apiKey(c.ID)
	if k == nil {
		return engine.OutcomeKeyUnknown
	}
	if k.revoked.Load() != nil {
		return engine.OutcomeDone
	}

	k.revoked.Store(&revocation{at: t.Stamp, index: t.Index})
	t.note(change{
		Env: c.Env, Actor: c.Actor, Action: "key.revoked", Subject: uuidText(c.ID),
		Values: []FieldChange{{"revoked", "false", "true"}},
	})
	return engine.OutcomeDone
}

// revokeKeysOf ends the keys that belong to a customer, and says how many there were. There is no
// record of each: what was done to the customer is one.
func (t *turn) revokeKeysOf(customer uint32) (count uint64) {
	for _, k := range t.environment(t.customers.Read(customer).env).keys.All() {
		if k.customer == customer && k.revoked.Load() == nil {
			k.revoked.Store(&revocation{at: t.Stamp, index: t.Index})
			count++
		}
	}
	t.Fold(count)
	return count
}

// apiKey changes once at most: when it is revoked.
type apiKey struct {
	id          [16]byte
	hash        [32]byte
	env         uint32
	scope       Scope
	customer    uint32 // row, of ScopeCustomer
	label, hint string
	createdAt   int64
	revoked     atomic.Pointer[revocation]
}

// revocation says when a key was revoked, and by which log entry: a snapshot leaves out what came
// after it began.
type revocation struct {
	at    int64
	index uint64
}

// keySlot is the place of a key among all; the number of a place is what the index has.
type keySlot struct{ key atomic.Pointer[apiKey] }

// addKey appends a key, here and at restore. In an environment that holds as many as one may it
// takes the place of the one that was revoked first: where fewer are in use there is one.
func (s *directory) addKey(k *apiKey) {
	e := s.environment(k.env)
	number := uint32(0)
	if gone := e.firstRevoked(); gone != nil && len(e.keys.All()) >= MaxListedKeys {
		number = s.keyNumber(&gone.hash)
		s.apiKeyByHash.Remove(keyHash(&gone.hash), number)
		e.keys.Remove(func(other *apiKey) bool { return other == gone })
	} else {
		number = s.apiKeys.Append(new(keySlot))
	}
	slot, _ := s.apiKeys.At(number)
	slot.key.Store(k)
	s.apiKeyByHash.Insert(keyHash(&k.hash), number)
	e.keys.Append(k)
}

// apiKey finds a key by its SHA-256; nil when there is none.
func (s *directory) apiKey(hash *[32]byte) (found *apiKey) {
	all := s.apiKeys.All()
	s.apiKeyByHash.Find(keyHash(hash), func(number uint32) bool {
		if int(number) > len(all) {
			return false
		}
		k := all[number-1].key.Load()
		if k.hash != *hash {
			return false
		}
		found = k
		return true
	})
	return found
}

// keyNumber is the number of the place of a key that there is. Only Apply may ask.
func (s *directory) keyNumber(hash *[32]byte) uint32 {
	all := s.apiKeys.All()
	return s.apiKeyByHash.Find(keyHash(hash), func(number uint32) bool {
		return all[number-1].key.Load().hash == *hash
	})
}

// keyHash needs no seed: the bytes are those of a SHA-256.
func keyHash(hash *[32]byte) uint64 { return binary.LittleEndian.Uint64(hash[:]) }

// keysInUse counts the keys that were not revoked.
func (e *environment) keysInUse() (n int) {
	for _, k := range e.keys.All() {
		if k.revoked.Load() == nil {
			n++
		}
	}
	return n
}

// firstRevoked is the key that was revoked before all others, of several in one entry the oldest;
// nil when none was.
func (e *environment) firstRevoked() (first *apiKey) {
	for _, k := range e.keys.All() {
		r := k.revoked.Load()
		if r != nil && (first == nil || r.index < first.revoked.Load().index) {
			first = k
		}
	}
	return first
}

// apiKey finds a key by its id; nil when there is none.
func (e *environment) apiKey(id [16]byte) *apiKey {
	for _, k := range e.keys.All() {
		if k.id == id {
			return k
		}
	}
	return nil
}

// Authenticate finds whom the API key with this SHA-256 speaks for; false when there is no such
// key or it was revoked. It takes no lock and allocates nothing.
func (m *Machine) Authenticate(hash [32]byte) (Principal, bool) {
	s := m.state.Load()
	k := s.apiKey(&hash)
	if k == nil || k.revoked.Load() != nil {
		return Principal{}, false
	}
	e := s.environment(k.env)
	return Principal{
		Account: e.account.name, Env: k.env, Environment: e.kind, Scope: k.scope, KeyID: k.id,
		CustomerRow: k.customer,
	}, true
}

// Keys lists an environment's API keys, oldest first: those in use, and of the revoked ones those
// that have a place, at most MaxListedKeys.
func (m *Machine) Keys(env uint32) []KeyView {
	s := m.state.Load()
	e := s.environment(env)
	if e == nil {
		return nil
	}
	all := e.keys.All()
	views := make([]KeyView, len(all))
	for i, k := range all {
		views[i] = KeyView{
			ID: k.id, Hash: k.hash, Scope: k.scope, Label: k.label, Hint: k.hint,
			CreatedAt: k.createdAt,
		}
		if k.customer != 0 {
			views[i].Customer = string(s.externalID(s.customers.Read(k.customer)))
		}
		if r := k.revoked.Load(); r != nil {
			views[i].RevokedAt = r.at
		}
	}
	return views
}
