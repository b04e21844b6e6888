package billing

import (
	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/period"
	"tollgate/engine/uuid"
)

// CreateKey adds an API key to an environment. It has only the key's hash. Repeating the ID and
// hash is the same success.
type CreateKey struct {
	Env   uint32         `wire:"1"`
	ID    [16]byte       `wire:"2"`
	Hash  [32]byte       `wire:"3"` // SHA-256 of the whole key
	Scope accounts.Scope `wire:"4"`
	Label string         `wire:"5"` // ≤ 80 characters
	Hint  string         `wire:"6"` // the key's prefix and first characters, for listings
	// Actor requested the key; the record of admin changes names it.
	Actor string `wire:"7"`
	// Customer is the ExternalID of the customer who owns a key of ScopeCustomer.
	Customer string `wire:"8"`
	// Replaces is the key that this one replaces; zero: none. Scope, label, customer and budget are
	// then that key's. The replaced key stays valid for OverlapMS.
	Replaces  [16]byte `wire:"9"`
	OverlapMS int64    `wire:"10"`
}

// MaxKeyOverlapMS bounds how long a key goes on that another one has replaced.
const MaxKeyOverlapMS = 30 * accounts.DayMS

func (c *CreateKey) apply(t *turn, e *accounts.Environment) engine.Outcome {
	if k := t.APIKey(&c.Hash); k != nil {
		if k.ID == c.ID && k.Env == c.Env {
			return engine.OutcomeDone
		}
		return engine.OutcomeIDsContradict
	}
	if t.KeyWith(c.Env, &c.ID) != nil {
		return engine.OutcomeIDsContradict
	}
	if o := c.fits(t, e); o != engine.OutcomeDone {
		return o
	}
	facts := accounts.KeyFacts{
		ID: c.ID, Hash: c.Hash, Scope: c.Scope, Label: c.Label, Hint: c.Hint, CreatedAt: t.Stamp,
		CreatedBy: c.Actor,
	}
	if c.Replaces != ([16]byte{}) {
		return t.rollKey(c, facts)
	}

	if c.Scope == accounts.ScopeCustomer {
		if facts.Customer = t.CustomerNamed(c.Env, []byte(c.Customer)); facts.Customer == 0 {
			return engine.OutcomeCustomerUnknown
		}
		if p := t.Profile(facts.Customer); p.Gone() {
			return engine.OutcomeCustomerArchived
		}
	}

	t.AddKey(&accounts.APIKey{Env: c.Env, KeyFacts: facts})
	t.Fold(accounts.KeyHash(&c.Hash)) // not its number: a restore numbers keys anew
	t.NoteChange(c.Env, c.Actor, "key.created", uuid.Text(c.ID),
		accounts.Given("scope", c.Scope.String()), accounts.Given("label", c.Label),
		accounts.Given("hint", c.Hint), accounts.Given("customer", c.Customer))
	return engine.OutcomeDone
}

// fits reports whether there may be one more key in use. One that replaces another without an
// overlap is not one more.
func (c *CreateKey) fits(t *turn, e *accounts.Environment) engine.Outcome {
	if c.Replaces != ([16]byte{}) && c.OverlapMS == 0 {
		return engine.OutcomeDone
	}
	if e.KeysInUse() >= accounts.MaxAPIKeys {
		return engine.OutcomeAccountLimit
	}
	return t.TakesKey(e)
}

// rollKey adds a key that replaces another one, which goes on for a time.
func (t *turn) rollKey(c *CreateKey, facts accounts.KeyFacts) engine.Outcome {
	old := t.KeyWith(c.Env, &c.Replaces)
	switch {
	case old == nil || old.Revoked.Load() != nil:
		return engine.OutcomeKeyUnknown
	case c.OverlapMS < 0 || c.OverlapMS > MaxKeyOverlapMS:
		return engine.OutcomeOverflow
	}

	facts.Scope, facts.Label = old.Scope, old.Label
	facts.Customer, facts.Budget = old.Customer, old.Budget
	t.AddKey(&accounts.APIKey{Env: c.Env, KeyFacts: facts})
	end := t.Stamp + c.OverlapMS
	t.EndKey(old, end)
	t.Fold(accounts.KeyHash(&c.Hash))
	t.Fold(accounts.KeyHash(&old.Hash) ^ uint64(end))
	end = t.KeyWith(c.Env, &old.ID).EndsAt // which may be before
	t.NoteChange(c.Env, c.Actor, "key.rolled", uuid.Text(c.ID),
		accounts.Given("scope", facts.Scope.String()), accounts.Given("label", facts.Label),
		accounts.Changed("hint", old.Hint, c.Hint),
		accounts.Given("replaced", uuid.Text(old.ID)),
		accounts.Given("replacedEnds", period.Format(end)))
	t.endKeys() // without an overlap
	return engine.OutcomeDone
}

// RevokeKey ends an API key permanently. Revoking it again is the same success while it is listed.
type RevokeKey struct {
	Env   uint32   `wire:"1"`
	ID    [16]byte `wire:"2"`
	Actor string   `wire:"3"`
}

func (c *RevokeKey) apply(t *turn, _ *accounts.Environment) engine.Outcome {
	k := t.KeyWith(c.Env, &c.ID)
	if k == nil {
		return engine.OutcomeKeyUnknown
	}
	if k.Revoked.Load() != nil {
		return engine.OutcomeDone
	}

	t.RevokeKey(k, t.Stamp, t.Index)
	t.NoteChange(c.Env, c.Actor, "key.revoked", uuid.Text(c.ID),
		accounts.Changed("revoked", "false", "true"))
	return engine.OutcomeDone
}

// revokeKeysOf ends a customer's keys and returns how many there were. They have no records of
// their own: the change to the customer is one.
func (t *turn) revokeKeysOf(customer uint32) (count uint64) {
	for _, slot := range t.Environment(t.Customers.Read(customer).Env).Keys.All() {
		if k := slot.Key.Load(); k.Customer == customer && k.Revoked.Load() == nil {
			t.RevokeKey(k, t.Stamp, t.Index)
			count++
		}
	}
	t.Fold(count)
	return count
}

// Authenticate returns the principal of the API key with this SHA-256; false if there is no such
// key or it was revoked. It takes no lock and allocates nothing.
func (m *accountReader) Authenticate(hash [32]byte) (Principal, bool) {
	s := m.state.Load()
	for {
		k := s.APIKey(&hash)
		if k == nil || k.Revoked.Load() != nil {
			return Principal{}, false
		}
		e := s.Environment(k.Env)
		p := Principal{
			Account: e.Account.Name, Env: k.Env, Environment: e.Kind, Scope: k.Scope, KeyID: k.ID,
			CustomerRow: k.Customer, Budget: k.Budget, UsedAt: k.UsedAt,
		}
		if s.budgets.Forest.Any(k.Env) {
			if p.Bindings = e.Bindings(); s.APIKey(&hash) != k { // bound in between
				continue
			}
		}
		return p, true
	}
}

// KeysUsed is Keys with how often each was used lately, counted back from an instant of log time.
func (m *accountReader) KeysUsed(env uint32, now int64) []UsedKeyView {
	s := m.state.Load()
	all := listedKeys(s, env)
	views := make([]UsedKeyView, len(all))
	for i, slot := range all {
		k := slot.Key.Load()
		day, month := k.Used(now)
		views[i] = UsedKeyView{
			KeyView:     keyView(s, k),
			DayRequests: day.Requests, DayEvents: day.Events,
			MonthRequests: month.Requests, MonthEvents: month.Events,
		}
	}
	return views
}

// Keys lists an environment's API keys, oldest first: all in use, and revoked ones up to
// MaxListedKeys in all.
func (m *accountReader) Keys(env uint32) []KeyView {
	s := m.state.Load()
	all := listedKeys(s, env)
	views := make([]KeyView, len(all))
	for i, slot := range all {
		views[i] = keyView(s, slot.Key.Load())
	}
	return views
}

// listedKeys returns an environment's keys; nil if the environment does not exist.
func listedKeys(s *state, env uint32) []*accounts.KeySlot {
	if e := s.Environment(env); e != nil {
		return e.Keys.All()
	}
	return nil
}

func keyView(s *state, k *accounts.APIKey) KeyView {
	v := KeyView{
		ID: k.ID, Hash: k.Hash, Scope: k.Scope, Label: k.Label, Hint: k.Hint,
		CreatedAt: k.CreatedAt, CreatedBy: k.CreatedBy, UsedAt: k.UsedAt, EndsAt: k.EndsAt,
	}
	if k.Budget != 0 {
		v.Budget = s.budgets.Forest.Key(k.Budget)
	}
	if k.Customer != 0 {
		v.Customer = string(s.ExternalID(s.Customers.Read(k.Customer)))
	}
	if r := k.Revoked.Load(); r != nil {
		v.RevokedAt = r.At
	}
	return v
}

// NoteKeyUse keeps that an API key was used, at the instant of its entry, and how often since the
// same source noted it last. A note that the cluster proposes again, since its answer was lost with
// a leader, changes nothing; nor does one that comes behind a later one of its source.
type NoteKeyUse struct {
	Env      uint32   `wire:"1"`
	ID       [16]byte `wire:"2"`
	Requests uint64   `wire:"3"`
	Events   uint64   `wire:"4"` // usage events that they recorded
	// Source is the process of a node that counted, a number that it made at random; 0: the note is
	// always a new one. Number is greater than those of its notes before.
	Source uint64 `wire:"5"`
	Number uint64 `wire:"6"`
}

// keyUseWork is the work of a NoteKeyUse: the key is copied, with its hours and days.
const keyUseWork = 4

func (c *NoteKeyUse) apply(t *turn) engine.Outcome {
	if t.Environment(c.Env) == nil {
		return engine.OutcomeAccountUnknown
	}
	k := t.KeyWith(c.Env, &c.ID)
	if k == nil || k.Revoked.Load() != nil {
		return engine.OutcomeKeyUnknown
	}
	t.Spend(keyUseWork)
	note := accounts.KeyNote{Source: c.Source, Number: c.Number}
	if !t.NoteKeyUse(k, t.Stamp, note, c.Requests, c.Events) {
		return engine.OutcomeDone
	}
	t.Fold(accounts.KeyHash(&k.Hash) ^ uint64(t.Stamp))
	t.Fold(c.Requests)
	t.Fold(c.Events)
	if c.Source != 0 {
		t.Fold(c.Source ^ c.Number)
	}
	return engine.OutcomeDone
}

// BindKey makes requests with an API key count at a budget, or below it.
type BindKey struct {
	Env uint32   `wire:"1"`
	ID  [16]byte `wire:"2"`
	// Budget is its key; empty: the API key is bound to none.
	Budget string `wire:"3" json:"budget" rule:"min=1,max=128"`
	Actor  string `wire:"4"`
}

func (c *BindKey) apply(t *turn, _ *accounts.Environment) engine.Outcome {
	k := t.KeyWith(c.Env, &c.ID)
	if k == nil || k.Revoked.Load() != nil {
		return engine.OutcomeKeyUnknown
	}
	node, before := uint32(0), ""
	if c.Budget != "" {
		if node = t.budgets.Forest.Named(c.Env, []byte(c.Budget)); node == 0 {
			return engine.OutcomeBudgetUnknown
		}
	}
	if k.Budget == node {
		return engine.OutcomeDone
	}
	if k.Budget != 0 {
		before = t.budgets.Forest.Key(k.Budget)
	}
	t.BindKey(k, node)
	t.Fold(accounts.KeyHash(&k.Hash) ^ uint64(node))
	t.NoteChange(c.Env, c.Actor, "key.bound", uuid.Text(c.ID),
		accounts.Changed("budget", before, c.Budget))
	return engine.OutcomeDone
}
