package billing

import (
	"strconv"

	"tollgate/engine"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/wire"
)

// Fields of a customer that UpdateCustomer may set, as bits of Set.
const (
	CustomerFirstName uint8 = 1 << iota
	CustomerLastName
	CustomerEmail
	CustomerPhoneNumber
	CustomerAddress
)

// UpdateCustomer changes fields of a customer's profile: those that Set names. An empty phone
// number or address is none, unless Blank says that it was given so. A customer that is
// archived or erased is OutcomeCustomerArchived.
//
//schema:request client CustomerChange patch
type UpdateCustomer struct {
	Env        uint32 `wire:"1"`
	ExternalID string `wire:"2"`
	Set        uint8  `wire:"3" bits:"given"`

	FirstName   string `wire:"4" json:"firstName" rule:"min=1,max=128" bit:"CustomerFirstName"`
	LastName    string `wire:"5" json:"lastName" rule:"min=1,max=128" bit:"CustomerLastName"`
	Email       string `wire:"6" json:"email" rule:"email,min=1,max=254" bit:"CustomerEmail"`
	PhoneNumber string `wire:"7" json:"phoneNumber" rule:"null,max=64" bit:"CustomerPhoneNumber"`
	Address     string `wire:"8" json:"address" rule:"null,max=500" bit:"CustomerAddress"`
	Blank       uint8  `wire:"9" bits:"empty"` // see CreateCustomer
}

func (c *UpdateCustomer) apply(t *turn) engine.Outcome {
	e := t.environment(c.Env)
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	row := t.customerNamed(c.Env, []byte(c.ExternalID))
	if row == 0 {
		return engine.OutcomeCustomerUnknown
	}
	p := t.profile(row)
	if p.gone() {
		return engine.OutcomeCustomerArchived
	}

	for _, f := range [...]struct {
		bit  uint8
		dst  *string
		text string
	}{
		{CustomerFirstName, &p.FirstName, c.FirstName},
		{CustomerLastName, &p.LastName, c.LastName},
		{CustomerEmail, &p.Email, c.Email},
		{CustomerPhoneNumber, &p.PhoneNumber, c.PhoneNumber},
		{CustomerAddress, &p.Address, c.Address},
	} {
		if c.Set&f.bit != 0 {
			*f.dst = f.text
		}
	}
	p.Blank = p.Blank&^c.Set | c.Blank&c.Set
	t.setProfile(row, &p, e.now(t.Stamp))
	return engine.OutcomeDone
}

// ArchiveCustomer takes a customer out of use for good: it takes no change and no subscription any
// more, and its own keys end; what it has stays readable, and its identifier stays taken. One with
// a subscription that is not cancelled is OutcomeCustomerSubscribed; an archived one is the same
// success again.
type ArchiveCustomer struct {
	Env        uint32 `wire:"1"`
	ExternalID string `wire:"2"`
	// Actor is set when an operator asked for it.
	Actor string `wire:"3"`
}

func (c *ArchiveCustomer) apply(t *turn) engine.Outcome {
	e := t.environment(c.Env)
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	row := t.customerNamed(c.Env, []byte(c.ExternalID))
	if row == 0 {
		return engine.OutcomeCustomerUnknown
	}
	p := t.profile(row)
	if p.ArchivedAt != 0 {
		return engine.OutcomeDone
	}
	now := e.now(t.Stamp)
	if !t.advanceCustomer(row, now) {
		return engine.OutcomeDeferred
	}
	for sub := t.customers.Read(row).firstSubscription; sub != 0; {
		b := t.subscriptions.Whole(sub)
		if b.endedAt == 0 {
			return engine.OutcomeCustomerSubscribed
		}
		sub = b.next
	}

	p.ArchivedAt = now
	t.setProfile(row, &p, now)
	revoked := t.revokeKeysOf(row)
	if c.Actor != "" {
		t.note(change{
			Env: c.Env, Actor: c.Actor, Action: "customer.archived",
			Subject: uuidText(t.customers.Read(row).id),
			Values: []FieldChange{
				{"archived", "false", "true"}, {"keys", "", revokedKeys(revoked)},
			},
		})
	}
	return engine.OutcomeDone
}

// What stands for an erased customer's data. The address is one that can never exist (RFC 2606).
const (
	ErasedName  = "erased"
	ErasedEmail = "erased@erased.invalid"
)

// EraseCustomer replaces a customer's name, e-mail, phone number and address for good, here and in
// every later snapshot. Subscriptions, numbers and identifiers stay. Nothing else in the state
// holds a copy of them. As an archived one it takes nothing new, and its own keys end. An erased
// customer is the same success again.
type EraseCustomer struct {
	Env        uint32 `wire:"1"`
	ExternalID string `wire:"2"`
	Actor      string `wire:"3"`
}

func (c *EraseCustomer) apply(t *turn) engine.Outcome {
	e := t.environment(c.Env)
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	row := t.customerNamed(c.Env, []byte(c.ExternalID))
	if row == 0 {
		return engine.OutcomeCustomerUnknown
	}
	p := t.profile(row)
	if p.ErasedAt != 0 {
		return engine.OutcomeDone
	}

	now := e.now(t.Stamp)
	t.setProfile(row, &profile{
		FirstName: ErasedName, LastName: ErasedName, Email: ErasedEmail,
		ArchivedAt: p.ArchivedAt, ErasedAt: now,
	}, now)
	t.requests.forgetCustomer(row)
	revoked := t.revokeKeysOf(row)
	t.note(change{
		Env: c.Env, Actor: c.Actor, Action: "customer.erased",
		Subject: uuidText(t.customers.Read(row).id),
		Values:  []FieldChange{{"erased", "false", "true"}, {"keys", "", revokedKeys(revoked)}},
	})
	return engine.OutcomeDone
}

// revokedKeys is how the record of changes says it; empty where there were none.
func revokedKeys(count uint64) string {
	if count == 0 {
		return ""
	}
	return strconv.FormatUint(count, 10) + " revoked"
}

// setProfile replaces a customer's profile.
func (t *turn) setProfile(row uint32, p *profile, now int64) {
	data := string(wire.Encode(nil, p))
	lock := t.stripe(row)
	lock.Lock()
	t.profiles.Write(row).Data = data
	c := t.customers.Write(row)
	c.modifiedAt, c.archived = now, p.ArchivedAt != 0
	lock.Unlock()
	t.Fold(uint64(row))
}

// named reports whether a customer's identifier can be found.
func (s *state) named(c *customer) bool {
	if c.externalLen > 0 {
		return true
	}
	r := rows.Reader{Rest: c.external[:]}
	return r.U32() <= s.longIDs.Len()
}

// keysBelong reports whether every key of a customer has one.
func (s *state) keysBelong() bool {
	for _, slot := range s.apiKeys.All() {
		k := slot.key.Load()
		if (k.scope == ScopeCustomer) != (k.customer != 0) || k.customer > s.customers.Len() ||
			k.customer != 0 && s.customers.Read(k.customer).env != k.env {
			return false
		}
	}
	return true
}

// CustomerRow finds a customer by the caller's own identifier; 0 when there is none. It takes no
// lock and allocates nothing.
func (m *Machine) CustomerRow(env uint32, externalID []byte) uint32 {
	return m.state.Load().customerNamed(env, externalID)
}

// EntitlementView is a feature within a subscription that is not cancelled.
type EntitlementView struct {
	ID             [16]byte
	SubscriptionID [16]byte
	FeatureKey     string
	Decision       Decision
}

// Entitlements lists the features of each of a customer's subscriptions that are not cancelled,
// with the usage that counts there; now is the log time of the question. false: no such customer.
func (m *Machine) Entitlements(env uint32, externalID string, now int64) ([]EntitlementView, bool) {
	s := m.state.Load()
	e := s.environment(env)
	row := s.customerNamed(env, []byte(externalID))
	if e == nil || row == 0 {
		return nil, false
	}
	lock := s.stripe(row)
	lock.RLock()
	defer lock.RUnlock()
	now = e.now(now)
	views := []EntitlementView{}
	for sub := s.customers.Read(row).firstSubscription; sub != 0; {
		l := s.ledgerAt(sub, now)
		if l.b.endedAt == 0 {
			views = s.entitlements(views, l, now)
		}
		sub = l.b.next
	}
	return views, true
}

// entitlements appends those of the ledger's subscription. The customer's lock is held.
func (s *state) entitlements(views []EntitlementView, l *ledger, now int64) []EntitlementView {
	for i := range l.version().features {
		f := &l.version().features[i]
		feature := l.catalog.feature(f.feature)
		d := Decision{SubscriptionID: l.b.id, FeatureNumber: f.feature}
		if l.b.suspendedAt != 0 {
			d.Reason = ReasonSuspended
		}
		at := place{l.row, l.b.firstCounter + uint32(i), f}
		var u purse
		if at.credited() {
			u = s.purse(l.b.customer, at, now)
		}
		d.judge(&CheckQuery{}, at, l.counters[i].reading(f), &u)
		views = append(views, EntitlementView{
			ID: entitlementID(l.b.id, feature.id), SubscriptionID: l.b.id,
			FeatureKey: feature.document.Key, Decision: d,
		})
	}
	return views
}
