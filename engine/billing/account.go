package billing

import (
	"slices"
	"strings"
	"sync/atomic"

	"tollgate/engine"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/fair"
)

// EnvironmentKind tells the two environments of an account apart. They share nothing.
type EnvironmentKind uint8

const (
	EnvironmentSandbox EnvironmentKind = 1
	EnvironmentLive    EnvironmentKind = 2
)

// MaxAccounts is how many accounts one group holds: a snapshot fixes each of their environments.
const MaxAccounts = 10_000

// CreateAccount makes an account with its two environments. An account of that name that was made
// with the same ID is the same success again; another is OutcomeAccountExists.
type CreateAccount struct {
	ID   [16]byte `wire:"1"`
	Name string   `wire:"2"` // 1–64 of a-z, 0-9, '-', beginning with a letter or digit
	// Actor is who asked for it, for the record of admin changes.
	Actor string `wire:"3"`
}

func (c *CreateAccount) apply(t *turn) engine.Outcome {
	if a, ok := t.accountNamed(c.Name); ok {
		if a.id == c.ID {
			return engine.OutcomeDone
		}
		return engine.OutcomeAccountExists
	}
	if len(t.accounts.All()) >= MaxAccounts {
		return engine.OutcomeAccountLimit
	}

	t.addAccount(&account{id: c.ID, name: c.Name, createdAt: t.Stamp})
	t.Fold(uint64(len(t.accounts.All())))
	t.note(change{
		Actor: c.Actor, Action: "account.created", Subject: c.Name,
		Values: []FieldChange{{"name", "", c.Name}},
	})
	return engine.OutcomeDone
}

// account never changes once it is made, but for what it holds.
type account struct {
	id        [16]byte
	name      string
	createdAt int64
	// number is that of its sandbox; its live environment has the next.
	number uint32
	held   held
}

// environment is one of an account's two. Account n (from 1) has the environments 2n−1 (sandbox)
// and 2n (live).
type environment struct {
	number  uint32
	account *account
	kind    EnvironmentKind
	// catalog is replaced whole by ApplyCatalog, and immutable otherwise.
	catalog atomic.Pointer[catalog]
	// offset is how far the environment's clock runs ahead of log time, in milliseconds.
	offset atomic.Int64
	// origins is replaced whole by SetOrigins; nil is none.
	origins atomic.Pointer[[]string]
	// payment is replaced whole by SetPaymentProvider; nil is none.
	payment atomic.Pointer[PaymentSettings]
	// unmatched are the names of usage events that no feature had; the list is replaced whole.
	unmatched atomic.Pointer[[]*unmatchedName]
	// terms is replaced whole by SetPaymentTerms; nil is the default.
	terms atomic.Pointer[paymentTerms]
	// keys are the environment's API keys, oldest first.
	keys rows.Series[*apiKey]
	// invoices is the number of invoices issued so far. Only Apply reads and writes it.
	invoices uint64
	// hooks are the rows of its webhook endpoints, in order; the outbox's lock guards them. wanted
	// is what those that are on want to hear, one bit for each event.
	hooks  []uint32
	wanted atomic.Uint32
	// dues are its subscriptions by what falls due next, poolDues its pools by what expires next,
	// due the earliest instant of both, for queries; all on the environment's clock.
	dues, poolDues rows.Dues
	due            atomic.Int64
}

// now is the one place where an environment's clock is made of log time.
func (e *environment) now(logTime int64) int64 { return logTime + e.offset.Load() }

// addAccount appends an account and its environments, here and at restore.
func (s *directory) addAccount(a *account) {
	for _, kind := range [...]EnvironmentKind{EnvironmentSandbox, EnvironmentLive} {
		e := &environment{number: uint32(len(s.environments.All())) + 1, account: a, kind: kind}
		a.number = (e.number+1)/2*2 - 1
		e.catalog.Store(newCatalog())
		e.due.Store(rows.Never)
		s.environments.Append(e)
	}
	number := s.accounts.Append(a)
	s.namesMu.Lock()
	s.names[a.name] = number
	s.accountIDs[a.id] = number
	s.namesMu.Unlock()
}

// accountNumber finds an account by its name, else by its id; 0 where there is none.
func (s *directory) accountNumber(name string) uint32 {
	s.namesMu.RLock()
	defer s.namesMu.RUnlock()
	if number := s.names[name]; number != 0 {
		return number
	}
	if id, ok := parseUUID(name); ok {
		return s.accountIDs[id]
	}
	return 0
}

// accountNamed finds an account by its name or its id. So no account is created whose name is
// another one's id.
func (s *directory) accountNamed(name string) (*account, bool) {
	return s.accounts.At(s.accountNumber(name))
}

// environment finds an environment by number; nil when there is none.
func (s *directory) environment(number uint32) *environment {
	e, _ := s.environments.At(number)
	return e
}

// view describes the account.
func (a *account) view() AccountView {
	return AccountView{ID: a.id, Name: a.name, CreatedAt: a.createdAt}
}

// Account finds an account by name.
func (m *Machine) Account(name string) (AccountView, bool) {
	a, ok := m.state.Load().accountNamed(name)
	if !ok {
		return AccountView{}, false
	}
	return a.view(), true
}

// Accounts lists all accounts, oldest first.
func (m *Machine) Accounts() []AccountView {
	all := m.state.Load().accounts.All()
	views := make([]AccountView, len(all))
	for i, a := range all {
		views[i] = a.view()
	}
	return views
}

// Environment finds the number of one of an account's environments; the account is named by its
// name or its id.
func (m *Machine) Environment(account string, kind EnvironmentKind) (env uint32, ok bool) {
	number := m.state.Load().accountNumber(account)
	switch {
	case number == 0:
		return 0, false
	case kind == EnvironmentSandbox:
		return 2*number - 1, true
	case kind == EnvironmentLive:
		return 2 * number, true
	}
	return 0, false
}

// AccountOf is the name of the account whose flow it is; empty of any other.
func (m *Machine) AccountOf(f fair.Flow) string {
	if f >= 1<<31 { // of those who have no account
		return ""
	}
	e := m.state.Load().environment(2 * uint32(f))
	if e == nil {
		return ""
	}
	return e.account.name
}

// FlowOf is whose work an environment's is: its account's. 0 means no account.
func FlowOf(env uint32) fair.Flow { return fair.Flow((env + 1) / 2) }

// MaxOrigins is how many origins an environment lists.
const MaxOrigins = 50

// SetOrigins replaces the list of origins (scheme://host[:port]) whose pages may use the customer
// keys of an environment. The list that is there already is the same success again.
type SetOrigins struct {
	Env     uint32   `wire:"1"`
	Origins []string `wire:"2"`
	Actor   string   `wire:"3"`
}

func (c *SetOrigins) apply(t *turn) engine.Outcome {
	e := t.environment(c.Env)
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	if len(c.Origins) > MaxOrigins {
		return engine.OutcomeAccountLimit
	}
	if slices.Equal(e.listedOrigins(), c.Origins) {
		return engine.OutcomeDone
	}

	before := strings.Join(e.listedOrigins(), " ")
	origins := append([]string(nil), c.Origins...)
	e.origins.Store(&origins)
	t.note(change{Env: c.Env, Actor: c.Actor, Action: "origins.set", Values: []FieldChange{
		{"origins", before, strings.Join(origins, " ")},
	}})
	return engine.OutcomeDone
}

// listedOrigins are those of SetOrigins.
func (e *environment) listedOrigins() []string {
	if p := e.origins.Load(); p != nil {
		return *p
	}
	return nil
}

// Origins are the origins that an environment lists.
func (m *Machine) Origins(env uint32) []string {
	e := m.state.Load().environment(env)
	if e == nil {
		return nil
	}
	return e.listedOrigins()
}

// OriginListed reports whether any environment lists an origin: what a browser asks before it sends
// a key cannot name an environment.
func (m *Machine) OriginListed(origin string) bool {
	for _, e := range m.state.Load().environments.All() {
		for _, listed := range e.listedOrigins() {
			if listed == origin {
				return true
			}
		}
	}
	return false
}
