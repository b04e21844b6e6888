package accounts

import (
	"sync/atomic"

	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/fair"
	"tollgate/engine/machine"
	"tollgate/engine/uuid"
)

// EnvironmentKind tells the two environments of an account apart. They share nothing.
//
//schema:enum
type EnvironmentKind uint8

const (
	EnvironmentSandbox EnvironmentKind = 1 // sandbox
	EnvironmentLive    EnvironmentKind = 2 // live
)

// MaxAccounts bounds the accounts of one group: a snapshot fixes each of their environments.
const MaxAccounts = 10_000

// Account never changes, except for what it holds.
type Account struct {
	ID        [16]byte
	Name      string
	CreatedAt int64
	// number is that of its sandbox; its live environment has the next.
	number uint32
	Held   held
}

// Environment is one of an account's two. Account n (from 1) has the environments 2n−1 (sandbox)
// and 2n (live).
type Environment struct {
	Number  uint32
	Account *Account
	Kind    EnvironmentKind
	// Catalog is replaced whole by ApplyCatalog, and immutable otherwise.
	Catalog atomic.Pointer[catalogs.Catalog]
	// Offset is how far the environment's clock runs ahead of log time, in milliseconds.
	Offset atomic.Int64
	// Origins is replaced whole by SetOrigins; nil is none.
	Origins atomic.Pointer[[]string]
	// Payment is replaced whole by SetPaymentProvider; nil is none.
	Payment atomic.Pointer[PaymentSettings]
	// Unmatched are the names of usage events that no feature had; the list is replaced whole.
	Unmatched atomic.Pointer[[]*UnmatchedTally]
	// Terms is replaced whole by SetPaymentTerms; nil is the default.
	Terms atomic.Pointer[PaymentTerms]
	// Seller is replaced whole by SetSeller, Sellers are those before; nil is none.
	Seller  atomic.Pointer[Seller]
	Sellers atomic.Pointer[[]FormerSeller]
	// Portal is replaced whole by SetPortal, LinkEnds by RevokePortalLinks; nil is none.
	Portal   atomic.Pointer[Portal]
	LinkEnds atomic.Pointer[[]LinksEnd]
	// Keys are the places of the environment's API keys, oldest first.
	Keys rows.Series[*KeySlot]
	// bindings mixes what the keys are bound to: see Bindings.
	bindings atomic.Uint64
	// Invoices is the number of invoices issued so far. Only Apply reads and writes it.
	Invoices uint64
	// Hooks are the rows of its webhook endpoints, in order; the outbox's lock guards them. wanted
	// is what those that are on want to hear, one bit for each event.
	Hooks  []uint32
	Wanted atomic.Uint32
	// Suspended counts its suspended subscriptions. It is not state: see Book.Standing.
	Suspended atomic.Int64
	// Customers counts its customers, archived ones too. It is not state, either.
	Customers atomic.Int64
	// Pools counts its credit pools that need attention. It is not state, either.
	Pools PoolsInTrouble
	// Dues are its subscriptions by what falls due next, PoolDues its pools by what expires next,
	// HoldDues its open reservations by expiry; Due is the earliest instant of all, for queries.
	// All are on the environment's clock.
	Dues, PoolDues rows.Dues
	HoldDues       rows.Queue
	Due            atomic.Int64
}

// PoolsInTrouble counts credit pools that need attention: Depleted were reported as depleted, since
// a hard limit left no credits, and Failed are no longer topped up, since a payment failed.
type PoolsInTrouble struct{ Depleted, Failed atomic.Int64 }

// Now converts log time to the environment's clock. Nothing else does.
func (e *Environment) Now(logTime int64) int64 { return logTime + e.Offset.Load() }

// binds adds what a key is bound to to the environment's bindings, or takes it off.
func (e *Environment) binds(k *APIKey) {
	if k.Budget != 0 {
		e.bindings.Store(e.bindings.Load() ^ machine.Fold(KeyHash(&k.Hash), uint64(k.Budget)))
	}
}

// Bindings is a number that changes with each key that is bound to another budget; never 0. It
// follows from the keys. It has 20 bits: they are few bytes in an event, and a number that comes
// again by chance would have to come within the event's way through the log.
func (e *Environment) Bindings() uint32 { return uint32(e.bindings.Load()>>44) + 1 }

// AddAccount appends an account and its environments, here and at restore.
func (s *Directory) AddAccount(a *Account) {
	for _, kind := range [...]EnvironmentKind{EnvironmentSandbox, EnvironmentLive} {
		e := &Environment{Number: uint32(len(s.Environments.All())) + 1, Account: a, Kind: kind}
		a.number = (e.Number+1)/2*2 - 1
		e.Catalog.Store(catalogs.NewCatalog())
		e.Due.Store(rows.Never)
		s.Environments.Append(e)
	}
	number := s.Accounts.Append(a)
	s.namesMu.Lock()
	s.names[a.Name] = number
	s.accountIDs[a.ID] = number
	s.namesMu.Unlock()
}

// AccountNumber finds an account by its name, else by its id; 0 if there is none.
func (s *Directory) AccountNumber(name string) uint32 {
	s.namesMu.RLock()
	defer s.namesMu.RUnlock()
	if number := s.names[name]; number != 0 {
		return number
	}
	if id, ok := uuid.Parse(name); ok {
		return s.accountIDs[id]
	}
	return 0
}

// AccountNamed finds an account by its name or its id. So no account gets another one's id as its
// name.
func (s *Directory) AccountNamed(name string) (*Account, bool) {
	return s.Accounts.At(s.AccountNumber(name))
}

// Environment finds an environment by number; nil if there is none.
func (s *Directory) Environment(number uint32) *Environment {
	e, _ := s.Environments.At(number)
	return e
}

// View describes the account.
func (a *Account) View() AccountView {
	return AccountView{ID: a.ID, Name: a.Name, CreatedAt: a.CreatedAt}
}

// FlowOf returns the flow of an environment's work: its account. 0 means no account.
func FlowOf(env uint32) fair.Flow { return fair.Flow((env + 1) / 2) }

// MaxOrigins bounds the origins of an environment.
const MaxOrigins = 50

// ListedOrigins are those of SetOrigins.
func (e *Environment) ListedOrigins() []string {
	if p := e.Origins.Load(); p != nil {
		return *p
	}
	return nil
}

// FeatureKey returns the key of a feature by number; empty if there is none.
func (s *Directory) FeatureKey(env, number uint32) string {
	if e := s.Environment(env); e != nil {
		if f := e.Catalog.Load().Feature(number); f != nil {
			return f.Document.Key
		}
	}
	return ""
}

// AccountView is one account.
//
//schema:answer admin Account
type AccountView struct {
	ID        [16]byte `json:"id"`
	Name      string   `json:"name" rule:"min=1,max=64"`
	CreatedAt int64    `json:"createdAt" as:"time"`
}
