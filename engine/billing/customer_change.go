package billing

import (
	"strconv"
	"sync"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/charging"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/lifecycle"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/uuid"
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

// UpdateCustomer changes the fields of a customer's profile that Set names. An empty phone number
// or address means none, unless Blank marks it as given. For an archived or erased customer it is
// OutcomeCustomerArchived.
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
	e, row, outcome := t.customer(c.Env, c.ExternalID)
	if outcome != engine.OutcomeDone {
		return outcome
	}
	p := t.Profile(row)
	if p.Gone() {
		return engine.OutcomeCustomerArchived
	}

	now := e.Now(t.Stamp)
	if !t.AdvanceCustomer(row, now) { // invoices that are due state who the customer was
		return engine.OutcomeDeferred
	}
	before, newest := p, uint64(0)
	if last := t.Customers.Read(row).LastInvoice; last != 0 {
		newest = t.Invoices.Read(last).Number
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
	p.Supersede(&before, newest)
	t.setProfile(row, &p, now)
	return engine.OutcomeDone
}

// ArchiveCustomer takes a customer out of use permanently. It takes no more changes or
// subscriptions, and its own keys end. It stays readable, and its identifier stays taken. A
// customer with a subscription that is not cancelled is OutcomeCustomerSubscribed; an archived one
// is the same success.
type ArchiveCustomer struct {
	Env        uint32 `wire:"1"`
	ExternalID string `wire:"2"`
	// Actor is the operator who requested it, if one did.
	Actor string `wire:"3"`
}

func (c *ArchiveCustomer) apply(t *turn) engine.Outcome {
	e, row, outcome := t.customer(c.Env, c.ExternalID)
	if outcome != engine.OutcomeDone {
		return outcome
	}
	p := t.Profile(row)
	if p.ArchivedAt != 0 {
		return engine.OutcomeDone
	}
	now := e.Now(t.Stamp)
	if !t.AdvanceCustomer(row, now) {
		return engine.OutcomeDeferred
	}
	for sub := t.Customers.Read(row).FirstSubscription; sub != 0; {
		b := t.Subscriptions.Whole(sub)
		if b.EndedAt == 0 {
			return engine.OutcomeCustomerSubscribed
		}
		sub = b.Next
	}

	p.ArchivedAt = now
	t.setProfile(row, &p, now)
	revoked := t.revokeKeysOf(row)
	if c.Actor != "" {
		t.NoteChange(c.Env, c.Actor, "customer.archived", uuid.Text(t.Customers.Read(row).ID),
			accounts.Changed("archived", "false", "true"),
			accounts.Given("keys", revokedKeys(revoked)))
	}
	return engine.OutcomeDone
}

// Placeholders for an erased customer's data. The address can never exist (RFC 2606).
const (
	ErasedName  = "erased"
	ErasedEmail = "erased@erased.invalid"
)

// EraseCustomer replaces a customer's name, e-mail, phone number and address permanently, here and
// in every later snapshot, also as their invoices stated them, with the saved cards that top pools
// up. Nothing else in the state holds a copy. Subscriptions, numbers and identifiers stay. Like an
// archived customer it takes nothing new, and its own keys end. Repeating it is the same success.
type EraseCustomer struct {
	Env        uint32 `wire:"1"`
	ExternalID string `wire:"2"`
	Actor      string `wire:"3"`
}

func (c *EraseCustomer) apply(t *turn) engine.Outcome {
	e, row, outcome := t.customer(c.Env, c.ExternalID)
	if outcome != engine.OutcomeDone {
		return outcome
	}
	p := t.Profile(row)
	if p.ErasedAt != 0 {
		return engine.OutcomeDone
	}

	now := e.Now(t.Stamp)
	t.setProfile(row, &book.Profile{
		FirstName: ErasedName, LastName: ErasedName, Email: ErasedEmail,
		ArchivedAt: p.ArchivedAt, ErasedAt: now,
	}, now)
	t.requests.forgetCustomer(row)
	t.ForgetTopUps(row)
	revoked := t.revokeKeysOf(row)
	t.NoteChange(c.Env, c.Actor, "customer.erased", uuid.Text(t.Customers.Read(row).ID),
		accounts.Changed("erased", "false", "true"), accounts.Given("keys", revokedKeys(revoked)))
	return engine.OutcomeDone
}

// customer finds a customer of an environment by the caller's identifier.
func (t *turn) customer(env uint32, externalID string) (
	e *accounts.Environment, row uint32, outcome engine.Outcome,
) {
	if e = t.Environment(env); e == nil {
		return nil, 0, engine.OutcomeAccountUnknown
	}
	if row = t.CustomerNamed(env, []byte(externalID)); row == 0 {
		return e, 0, engine.OutcomeCustomerUnknown
	}
	return e, row, engine.OutcomeDone
}

// revokedKeys formats the number of revoked keys for the record of changes; empty if there were
// none.
func revokedKeys(count uint64) string {
	if count == 0 {
		return ""
	}
	return strconv.FormatUint(count, 10) + " revoked"
}

// setProfile replaces a customer's profile.
func (t *turn) setProfile(row uint32, p *book.Profile, now int64) {
	data := string(wire.Encode(nil, p))
	t.profiles.note(row) // before it is changed: a reader of the new text knows of the change
	lock := t.WriteLock(row)
	t.Profiles.Write(row).Data = data
	t.Customers.Write(row).Archived = p.ArchivedAt != 0
	cold := t.Customers.Cold(row)
	cold.ModifiedAt = now
	t.Customers.SetCold(row, cold)
	lock.Unlock()
	t.profiles.note(row) // and after: one that read the old text may have taken note of the first
	t.Fold(uint64(row))
}

// notedProfiles is how many changes of profiles are remembered.
const notedProfiles = 4096

// profileNotes records the customers whose profiles changed last, for indexes of profiles outside
// the state. Snapshots omit it, because a restore makes a new state.
type profileNotes struct {
	mu   sync.Mutex
	rows [notedProfiles]uint32
	n    uint64
}

func (p *profileNotes) note(row uint32) {
	p.mu.Lock()
	p.rows[p.n%notedProfiles] = row
	p.n++
	p.mu.Unlock()
}

// ProfileMark is a place in the order in which profiles change.
type ProfileMark struct {
	state *state
	n     uint64
}

// ProfilesSince lists the customers' rows whose profiles have changed since a mark, and marks what
// it has listed. It is not ok where that is not known: begin anew with all customers. Customers
// that were added are not listed.
func (m *customerReader) ProfilesSince(mark ProfileMark) (rows []uint32, now ProfileMark, ok bool) {
	s := m.state.Load()
	p := &s.profiles
	p.mu.Lock()
	defer p.mu.Unlock()
	now = ProfileMark{s, p.n}
	if mark.state != s || p.n-mark.n > notedProfiles {
		return nil, now, false
	}
	for n := mark.n; n < p.n; n++ {
		rows = append(rows, p.rows[n%notedProfiles])
	}
	return rows, now, true
}

// named reports whether the index finds a customer.
func (s *state) named(c *book.CustomerRow) bool {
	if c.ExternalLen > 0 {
		return true
	}
	r := rows.Reader{Rest: c.External[:]}
	return r.U32() <= s.LongIDs.Len()
}

// keysBelong reports whether every customer key has a customer.
func (s *state) keysBelong() bool {
	for _, slot := range s.APIKeys.All() {
		k := slot.Key.Load()
		if (k.Scope == accounts.ScopeCustomer) != (k.Customer != 0) || k.Customer > s.Customers.Len() ||
			k.Customer != 0 && s.Customers.Read(k.Customer).Env != k.Env {
			return false
		}
	}
	return true
}

// CustomerRow finds a customer by the caller's own identifier; 0 if there is none. It takes no lock
// and allocates nothing.
func (m *customerReader) CustomerRow(env uint32, externalID []byte) uint32 {
	return m.state.Load().CustomerNamed(env, externalID)
}

// EntitlementView is a feature within a subscription that is not cancelled.
type EntitlementView struct {
	ID             [16]byte
	SubscriptionID [16]byte
	FeatureKey     string
	Decision       Decision
}

// Entitlements lists the features of each of a customer's subscriptions that are not cancelled,
// with their usage. now is the log time of the question. It returns false for an unknown customer.
func (m *customerReader) Entitlements(
	env uint32, externalID string, now int64,
) ([]EntitlementView, bool) {
	s := m.state.Load()
	e := s.Environment(env)
	row := s.CustomerNamed(env, []byte(externalID))
	if e == nil || row == 0 {
		return nil, false
	}
	now = e.Now(now)
	for look := 1; ; look++ {
		s.budgets.CatchUp(env, now)
		if views, behind := entitlementsOf(s, row, now, look == maxLooks); !behind {
			return views, true
		}
	}
}

// entitlementsOf lists those of the customer of a row. behind is set where a budget was put or
// moved behind CatchUp, which keeps Apply waiting under the customer's lock.
func entitlementsOf(
	s *state, row uint32, now int64, last bool,
) (views []EntitlementView, behind bool) {
	lock := s.ReadLock(row)
	defer lock.RUnlock()
	views = []EntitlementView{}
	projections := s.Projections(row, now)
	for sub := s.Customers.Read(row).FirstSubscription; sub != 0; {
		l := projections.Of(sub)
		if l.Sub.EndedAt == 0 {
			if views, behind = s.entitlements(views, l, now, last); behind {
				return nil, true
			}
		}
		sub = l.Sub.Next
	}
	return views, false
}

// entitlements appends those of the projection's subscription, unless behind. It requires the
// customer's lock.
func (s *state) entitlements(
	views []EntitlementView, l *lifecycle.Projection, now int64, last bool,
) (list []EntitlementView, behind bool) {
	for i := range l.Version().Features {
		f := &l.Version().Features[i]
		feature := l.Catalog.Feature(f.Feature)
		d := Decision{Ruling: Ruling{SubscriptionID: l.Sub.ID, FeatureNumber: f.Feature}}
		if l.Sub.SuspendedAt != 0 {
			d.Reason = ReasonSuspended
		}
		at := book.Place{Subscription: l.Row, Counter: l.Sub.FirstCounter + uint32(i), Feature: f}
		var u credits.Purse
		if at.Credited() {
			u = s.Purse(l.Sub.Customer, at, now)
		}
		if s.Customers.Read(l.Sub.Customer).Held {
			d.Held = s.Held.Units(l.Sub.Customer, l.Row, f.Feature, now)
			u.Keep(s.Held.Credits(l.Sub.Customer, f.Credits.Pool, now))
		}
		d.judge(&CheckQuery{}, at, l.Counters[i].Reading(f), &u)
		if s.Customers.Read(l.Sub.Customer).Budgeted && d.Reason == ReasonAllowed {
			d.EnvironmentTime = now
			w := charging.Usage{
				For:     charging.For{Env: l.Env.Number, Customer: l.Sub.Customer},
				Feature: f.Feature, Place: at,
			}
			if d.judgeBudget(s, w.For, new(s.budgets.Foresee(&w, &u)), true, last) {
				return nil, true
			}
		}
		views = append(views, EntitlementView{
			ID: entitlementID(l.Sub.ID, feature.ID), SubscriptionID: l.Sub.ID,
			FeatureKey: feature.Document.Key, Decision: d,
		})
	}
	return views, false
}
