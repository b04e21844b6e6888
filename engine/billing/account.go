package billing

import (
	"bytes"
	"cmp"
	"iter"
	"slices"
	"strconv"
	"strings"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/fair"
)

// CreateAccount makes an account with its two environments. Repeating it with the same ID is the
// same success; an account of that name with another ID is OutcomeAccountExists.
type CreateAccount struct {
	ID   [16]byte `wire:"1"`
	Name string   `wire:"2"` // 1–64 of a-z, 0-9, '-', beginning with a letter or digit
	// Actor requested the account; the record of admin changes names it.
	Actor string `wire:"3"`
}

func (c *CreateAccount) apply(t *turn) engine.Outcome {
	if a, ok := t.AccountNamed(c.Name); ok {
		if a.ID == c.ID {
			return engine.OutcomeDone
		}
		return engine.OutcomeAccountExists
	}
	if len(t.Accounts.All()) >= accounts.MaxAccounts {
		return engine.OutcomeAccountLimit
	}

	t.AddAccount(&accounts.Account{ID: c.ID, Name: c.Name, CreatedAt: t.Stamp})
	t.Fold(uint64(len(t.Accounts.All())))
	t.NoteChange(0, c.Actor, "account.created", c.Name, accounts.Given("name", c.Name))
	return engine.OutcomeDone
}

// Account finds an account by name.
func (m *accountReader) Account(name string) (accounts.AccountView, bool) {
	a, ok := m.state.Load().AccountNamed(name)
	if !ok {
		return accounts.AccountView{}, false
	}
	return a.View(), true
}

// Accounts lists all accounts, oldest first.
func (m *accountReader) Accounts() []accounts.AccountView {
	all := m.state.Load().Accounts.All()
	views := make([]accounts.AccountView, len(all))
	for i, a := range all {
		views[i] = a.View()
	}
	return views
}

// AccountNames are the names of all accounts, in the order in which they were created.
func (m *accountReader) AccountNames() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, a := range m.state.Load().Accounts.All() {
			if !yield(a.Name) {
				return
			}
		}
	}
}

// Environment finds the number of one of an account's environments; the account is named by its
// name or its id.
func (m *accountReader) Environment(
	account string, kind accounts.EnvironmentKind,
) (env uint32, ok bool) {
	number := m.state.Load().AccountNumber(account)
	switch {
	case number == 0:
		return 0, false
	case kind == accounts.EnvironmentSandbox:
		return 2*number - 1, true
	case kind == accounts.EnvironmentLive:
		return 2 * number, true
	}
	return 0, false
}

// AccountOf returns the name of the account that owns the flow, or "" for another flow.
func (m *accountReader) AccountOf(f fair.Flow) string {
	if f >= 1<<31 { // without an account
		return ""
	}
	e := m.state.Load().Environment(2 * uint32(f))
	if e == nil {
		return ""
	}
	return e.Account.Name
}

// SetOrigins replaces the list of origins (scheme://host[:port]) whose pages may use the customer
// keys of an environment. Setting the present list again is the same success.
type SetOrigins struct {
	Env     uint32   `wire:"1"`
	Origins []string `wire:"2"`
	Actor   string   `wire:"3"`
}

func (c *SetOrigins) apply(t *turn, e *accounts.Environment) engine.Outcome {
	if len(c.Origins) > accounts.MaxOrigins {
		return engine.OutcomeAccountLimit
	}
	if slices.Equal(e.ListedOrigins(), c.Origins) {
		return engine.OutcomeDone
	}

	before := strings.Join(e.ListedOrigins(), " ")
	origins := append([]string(nil), c.Origins...)
	e.Origins.Store(&origins)
	t.NoteChange(c.Env, c.Actor, "origins.set", "",
		accounts.Changed("origins", before, strings.Join(origins, " ")))
	return engine.OutcomeDone
}

// Origins returns the origins that an environment lists.
func (m *accountReader) Origins(env uint32) []string {
	e := m.state.Load().Environment(env)
	if e == nil {
		return nil
	}
	return e.ListedOrigins()
}

// OriginListed reports whether any environment lists an origin. Browsers ask before they send a
// key, so they cannot name an environment.
func (m *accountReader) OriginListed(origin string) bool {
	for _, e := range m.state.Load().Environments.All() {
		if slices.Contains(e.ListedOrigins(), origin) {
			return true
		}
	}
	return false
}

// Use returns what an account holds and its bounds. It reports false if there is no such account.
func (m *accountReader) Use(account string) (use, bounds accounts.Bounds, ok bool) {
	s := m.state.Load()
	a, ok := s.AccountNamed(account)
	if !ok {
		return use, bounds, false
	}
	s.outbox.Mu.RLock()
	defer s.outbox.Mu.RUnlock()
	return s.Use(a), s.Limits.Load().Bounds(), true
}

// SetPaymentTerms sets how long after their issue invoices fall due, and how long after their
// period's end they are issued. It applies to invoices that are not issued yet. Setting the present
// terms again is the same success.
type SetPaymentTerms struct {
	Env   uint32 `wire:"1"`
	Days  uint32 `wire:"2"` // up to MaxPaymentTermDays
	Actor string `wire:"3"`
	// KeepDays leaves the days unchanged; SetSettle reports whether SettleMinutes,
	// up to MaxSettleMinutes, is set.
	KeepDays      bool   `wire:"4"`
	SetSettle     bool   `wire:"5"`
	SettleMinutes uint32 `wire:"6"`
}

func (c *SetPaymentTerms) apply(t *turn, e *accounts.Environment) engine.Outcome {
	before := e.PaymentTerms()
	after := before
	if !c.KeepDays {
		after.Days = c.Days
	}
	if c.SetSettle {
		after.SettleMinutes = c.SettleMinutes
	}
	if after.Days > accounts.MaxPaymentTermDays || after.SettleMinutes > accounts.MaxSettleMinutes {
		return engine.OutcomeOverflow
	}
	if before == after {
		return engine.OutcomeDone
	}
	// Whatever fell due under the old terms happens first.
	if !t.Sweep(e) {
		return engine.OutcomeDeferred
	}

	after.Set = true
	e.Terms.Store(&after)
	t.Fold(uint64(after.Days)<<32 | uint64(after.SettleMinutes))
	number := func(n uint32) string { return strconv.FormatUint(uint64(n), 10) }
	t.NoteChange(c.Env, c.Actor, "payment-terms.set", "",
		accounts.Changed("days", number(before.Days), number(after.Days)),
		accounts.Changed("settleMinutes", number(before.SettleMinutes), number(after.SettleMinutes)))
	return engine.OutcomeDone
}

// PaymentTerms returns how many days after its issue an environment's invoice falls due, and how
// many minutes after its period's end it is issued.
func (m *accountReader) PaymentTerms(env uint32) (days, settleMinutes uint32) {
	e := m.state.Load().Environment(env)
	if e == nil {
		return accounts.DefaultPaymentTermDays, 0
	}
	p := e.PaymentTerms()
	return p.Days, p.SettleMinutes
}

// SetSeller sets who issues an environment's invoices; those that are issued from then on state it.
// Setting the present seller again is the same success.
type SetSeller struct {
	Env    uint32          `wire:"1"`
	Seller accounts.Seller `wire:"2"`
	Actor  string          `wire:"3"`
}

func (c *SetSeller) apply(t *turn, e *accounts.Environment) engine.Outcome {
	if !c.Seller.Bounded() {
		return engine.OutcomeTooLarge
	}
	before := e.StatedSeller()
	if before == c.Seller {
		return engine.OutcomeDone
	}
	if !t.Sweep(e) { // invoices that are due were issued by the one before
		return engine.OutcomeDeferred
	}
	after := c.Seller
	e.SetSeller(after)
	t.NoteChange(c.Env, c.Actor, "seller.set", "",
		accounts.Changed("name", before.Name, after.Name),
		accounts.Changed("address", before.Address, after.Address),
		accounts.Changed("email", before.Email, after.Email),
		accounts.Changed("taxId", before.TaxID, after.TaxID))
	return engine.OutcomeDone
}

// Seller returns who issues an environment's invoices; empty until one is set.
func (m *accountReader) Seller(env uint32) accounts.Seller {
	e := m.state.Load().Environment(env)
	if e == nil {
		return accounts.Seller{}
	}
	return e.StatedSeller()
}

// SellerOf returns who issued an environment's invoice of a number; of 0, who issues the next one.
func (m *accountReader) SellerOf(env uint32, number uint64) accounts.Seller {
	e := m.state.Load().Environment(env)
	if e == nil {
		return accounts.Seller{}
	}
	return e.SellerOf(number)
}

// SetPortal sets how the pages of an environment's customers look. Setting the present look is the
// same success again.
type SetPortal struct {
	Env    uint32          `wire:"1"`
	Portal accounts.Portal `wire:"2"`
	Actor  string          `wire:"3"`
}

func (c *SetPortal) apply(t *turn, e *accounts.Environment) engine.Outcome {
	if len(c.Portal.Logo) > accounts.MaxPortalLogo {
		return engine.OutcomeTooLarge
	}
	before, after := e.PortalLook(), c.Portal
	if before.Colour == after.Colour && before.LogoMedia == after.LogoMedia &&
		bytes.Equal(before.Logo, after.Logo) {
		return engine.OutcomeDone
	}
	after.Logo = bytes.Clone(after.Logo)
	e.Portal.Store(&after)
	logo := func(p *accounts.Portal) string {
		if p.LogoMedia == "" {
			return ""
		}
		return p.LogoMedia + ", " + strconv.Itoa(len(p.Logo)) + " bytes"
	}
	t.NoteChange(c.Env, c.Actor, "portal.set", "",
		accounts.Changed("colour", before.Colour, after.Colour),
		accounts.Changed("logo", logo(&before), logo(&after)))
	return engine.OutcomeDone
}

// PortalLook returns how the pages of an environment's customers look.
func (m *accountReader) PortalLook(env uint32) accounts.Portal {
	e := m.state.Load().Environment(env)
	if e == nil {
		return accounts.Portal{}
	}
	return e.PortalLook()
}

// RevokePortalLinks ends all links to the portal that a customer has.
type RevokePortalLinks struct {
	Env      uint32 `wire:"1"`
	Customer string `wire:"2"`
	Actor    string `wire:"3"`
}

func (c *RevokePortalLinks) apply(t *turn) engine.Outcome {
	e, row, outcome := t.customer(c.Env, c.Customer)
	if outcome != engine.OutcomeDone {
		return outcome
	}
	e.EndLinks(row, t.Stamp)
	t.Fold(uint64(row))
	t.NoteChange(c.Env, c.Actor, "portal.links-revoked", c.Customer,
		accounts.Changed("links", "valid", "revoked"))
	return engine.OutcomeDone
}

// NotePortalLink records that an operator made a link to the portal. Nothing is kept of a link.
type NotePortalLink struct {
	Env      uint32 `wire:"1"`
	Customer string `wire:"2"`
	Expires  string `wire:"3"`
	Actor    string `wire:"4"`
}

func (c *NotePortalLink) apply(t *turn) engine.Outcome {
	_, row, outcome := t.customer(c.Env, c.Customer)
	if outcome != engine.OutcomeDone {
		return outcome
	}
	t.Fold(uint64(row))
	t.NoteChange(c.Env, c.Actor, "portal.link-made", c.Customer,
		accounts.Given("expires", c.Expires))
	return engine.OutcomeDone
}

// PortalLinkDate is what a link is dated that is made now for a customer: behind all that this node
// has applied, and all that ended links of the customer's.
func (m *customerReader) PortalLinkDate(env uint32, customer [16]byte) int64 {
	s := m.state.Load()
	at := s.Log.Stamp() + 1
	e := s.Environment(env)
	if e == nil {
		return at
	}
	return max(at, e.LinksEnded(s.CustomerIn(env, &customer))+1)
}

// PortalLinkStands reports whether a link that was made at a log time for a customer, by a key or
// by an operator (the zero id), was not ended since: neither by RevokePortalLinks nor with the key.
func (m *customerReader) PortalLinkStands(env, customer uint32, key [16]byte, madeAt int64) bool {
	s := m.state.Load()
	e := s.Environment(env)
	if e == nil || madeAt <= e.LinksEnded(customer) {
		return false
	}
	if key == [16]byte{} {
		return true
	}
	k := s.KeyWith(env, &key)
	return k != nil && k.Revoked.Load() == nil
}

// Unmatched lists the names of usage events that matched no feature, newest first. It omits names
// that the catalog has now.
func (m *accountReader) Unmatched(env uint32) []accounts.UnmatchedName {
	e := m.state.Load().Environment(env)
	if e == nil {
		return nil
	}
	catalog := e.Catalog.Load()
	list := slices.DeleteFunc(e.UnmatchedNames(), func(u accounts.UnmatchedName) bool {
		return catalog.FeatureNamed([]byte(u.Name)) != 0
	})
	slices.SortStableFunc(list, func(a, b accounts.UnmatchedName) int {
		return cmp.Compare(b.LastAt, a.LastAt)
	})
	return list
}
