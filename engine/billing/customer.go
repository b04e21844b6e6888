package billing

import (
	"encoding/binary"

	"tollgate/engine"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/decimal"
	"tollgate/engine/page"
	"tollgate/engine/wire"
)

// CreateCustomer adds a customer. A customer with this ExternalID and another ID is
// OutcomeCustomerExists; with the same ID it is the same success again (a re-sent command).
type CreateCustomer struct {
	Env uint32   `wire:"1"`
	ID  [16]byte `wire:"2"`
	// ExternalID is the caller's own identifier; the server mints a UUID when the caller gave none.
	ExternalID  string `wire:"3" json:"externalClientCustomerId" rule:"min=1,max=128"`
	FirstName   string `wire:"4" json:"firstName" rule:"required,min=1,max=128"`
	LastName    string `wire:"5" json:"lastName" rule:"required,min=1,max=128"`
	Email       string `wire:"6" json:"email" rule:"required,email,min=3,max=254"`
	PhoneNumber string `wire:"7" json:"phoneNumber" rule:"max=64" bit:"CustomerPhoneNumber"`
	Address     string `wire:"8" json:"address" rule:"max=500" bit:"CustomerAddress"`
	// Blank are the bits, of CustomerPhoneNumber and CustomerAddress, that were given as "": that
	// is a value, and not the same as none.
	Blank uint8 `wire:"9" bits:"empty"`
}

func (c *CreateCustomer) apply(t *turn) engine.Outcome {
	e := t.environment(c.Env)
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	external := []byte(c.ExternalID)
	if row := t.customerNamed(c.Env, external); row != 0 {
		if t.customers.Read(row).id == c.ID {
			return engine.OutcomeDone
		}
		return engine.OutcomeCustomerExists
	}
	if t.customerWith(&c.ID) != 0 {
		return engine.OutcomeIDsContradict
	}
	if o := t.takesCustomer(e); o != engine.OutcomeDone {
		return o
	}

	now := e.now(t.Stamp)
	e.account.held.customers.Add(1)
	row, r := t.customers.Append()
	*r = customer{id: c.ID, env: c.Env, createdAt: now, modifiedAt: now}
	p := profile{
		FirstName: c.FirstName, LastName: c.LastName,
		Email: c.Email, PhoneNumber: c.PhoneNumber, Address: c.Address,
		Blank: c.Blank,
	}
	if len(external) <= len(r.external) {
		r.externalLen = uint8(copy(r.external[:], external))
	} else {
		long, cold := t.longIDs.Append()
		cold.Data = c.ExternalID
		binary.LittleEndian.PutUint32(r.external[:], long)
	}
	_, cold := t.profiles.Append()
	cold.Data = string(wire.Encode(nil, &p))
	t.customerByID.Insert(t.idHash(&r.id), row)
	t.customerByExternal.Insert(t.externalHash(c.Env, external), row)
	t.Fold(uint64(row))
	return engine.OutcomeDone
}

// customer is the hot record of a customer: what a check needs, in its first bytes, so that short
// identifiers cost one cache line. id, env and external never change, so that the indexes may
// compare them without the customer's lock.
type customer struct {
	env uint32
	// Rows of the customer's subscriptions and invoices, both linked from the oldest.
	firstSubscription uint32
	// Copies of what the oldest subscription says, see hint; no state.
	hintVersion, hintCounter uint32
	// external is the caller's identifier where it fits. Where externalLen is 0 it does not:
	// external begins with its row in longIDs (little endian), 0 of the empty identifier.
	externalLen                                 uint8
	external                                    [39]byte
	id                                          [16]byte
	createdAt, modifiedAt                       int64
	lastSubscription, firstInvoice, lastInvoice uint32
	subscriptions                               uint32
	firstBalance                                uint32 // its balances, one for each currency
	archived                                    bool   // a copy of what the profile says; no state
}

var customerCodec = page.Codec[customer]{
	Append: func(dst []byte, c *customer) []byte {
		dst = append(dst, c.id[:]...)
		dst = rows.AppendI64(rows.AppendI64(dst, c.createdAt), c.modifiedAt)
		dst = rows.AppendU32(dst, c.env)
		dst = rows.AppendU32(rows.AppendU32(dst, c.firstSubscription), c.lastSubscription)
		dst = rows.AppendU32(rows.AppendU32(dst, c.firstInvoice), c.lastInvoice)
		dst = append(rows.AppendU32(rows.AppendU32(dst, c.subscriptions), c.firstBalance), c.externalLen)
		return append(dst, c.external[:]...)
	},
	Read: func(src []byte, c *customer) ([]byte, error) {
		r := rows.Reader{Rest: src}
		c.id = r.ID()
		c.createdAt, c.modifiedAt = r.I64(), r.I64()
		c.env = r.U32()
		c.firstSubscription, c.lastSubscription = r.U32(), r.U32()
		c.firstInvoice, c.lastInvoice = r.U32(), r.U32()
		c.subscriptions, c.firstBalance, c.externalLen = r.U32(), r.U32(), r.U8()
		copy(c.external[:], r.Take(len(c.external)))
		if int(c.externalLen) > len(c.external) {
			return nil, rows.ErrRecord
		}
		return r.Rest, r.Err
	},
}

// hint copies the oldest subscription's version and first counter into its customer, so that a
// check loads the counter while it waits for the subscription, and not after it: with many
// customers each is a cache miss. Whatever changes the two in a subscription calls it; the
// customer's lock is held. A query for which advance says otherwise than the stored subscription
// must not go by the hint.
func (s *book) hint(row uint32, b *subscription) {
	if c := s.customers.Write(b.customer); c.firstSubscription == row {
		c.hintVersion, c.hintCounter = b.version, b.firstCounter
	}
}

// profile is the cold part of a customer. Number 1 was an identifier and is not given again.
type profile struct {
	FirstName   string `wire:"2"`
	LastName    string `wire:"3"`
	Email       string `wire:"4"`
	PhoneNumber string `wire:"5"`
	Address     string `wire:"6"`
	// ArchivedAt and ErasedAt are 0 as long as the customer is neither.
	ArchivedAt int64 `wire:"7"`
	ErasedAt   int64 `wire:"8"`
	Blank      uint8 `wire:"9"` // see CreateCustomer
}

// gone reports whether the customer is archived or erased: it takes nothing new.
func (p *profile) gone() bool { return p.ArchivedAt != 0 || p.ErasedAt != 0 }

// profile decodes a customer's profile. Readers hold the customer's lock.
func (s *book) profile(row uint32) (p profile) {
	if err := wire.Decode([]byte(s.profiles.Read(row).Data), &p); err != nil {
		panic("billing: profile in memory does not decode: " + err.Error())
	}
	return p
}

// externalID returns the caller's identifier of a customer. It takes no lock: it never changes.
func (s *book) externalID(c *customer) []byte {
	if c.externalLen > 0 {
		return c.external[:c.externalLen]
	}
	return []byte(s.longID(c))
}

func (s *book) longID(c *customer) string {
	row := binary.LittleEndian.Uint32(c.external[:])
	if row == 0 {
		return ""
	}
	return s.longIDs.Read(row).Data
}

// customerNamed finds a customer by the caller's identifier; 0 when there is none. It takes no
// lock: what it compares never changes.
func (s *book) customerNamed(env uint32, external []byte) uint32 {
	return s.customerByExternal.Find(s.externalHash(env, external), func(row uint32) bool {
		c := s.customers.Read(row)
		if c.env != env {
			return false
		}
		if c.externalLen > 0 {
			return string(c.external[:c.externalLen]) == string(external)
		}
		return s.longID(c) == string(external)
	})
}

// customerWith finds a customer by its UUID in any environment; 0 when there is none.
func (s *book) customerWith(id *[16]byte) uint32 {
	return s.customerByID.Find(s.idHash(id), func(row uint32) bool {
		return s.customers.Read(row).id == *id
	})
}

// customerIn finds a customer of one environment by its UUID; 0 when there is none.
func (s *book) customerIn(env uint32, id *[16]byte) uint32 {
	row := s.customerWith(id)
	if row != 0 && s.customers.Read(row).env != env {
		return 0
	}
	return row
}

// customerView must be called under the customer's lock.
func (s *state) customerView(row uint32) CustomerView {
	c := s.customers.Read(row)
	p := s.profile(row)
	return CustomerView{
		CustomerCore: CustomerCore{
			Row: row, ID: c.id, ExternalID: string(s.externalID(c)),
			FirstName: p.FirstName, LastName: p.LastName,
			Email: p.Email, PhoneNumber: p.PhoneNumber,
			HasPhoneNumber: p.PhoneNumber != "" || p.Blank&CustomerPhoneNumber != 0,
			HasAddress:     p.Address != "" || p.Blank&CustomerAddress != 0,
			CreatedAt:      c.createdAt, ModifiedAt: c.modifiedAt,
		},
		Address: p.Address, ArchivedAt: p.ArchivedAt, ErasedAt: p.ErasedAt,
	}
}

// Customer finds a customer by the caller's own identifier.
func (m *Machine) Customer(env uint32, externalID string) (CustomerView, bool) {
	s := m.state.Load()
	return s.customer(s.customerNamed(env, []byte(externalID)))
}

// CustomerByID finds a customer by its UUID.
func (m *Machine) CustomerByID(env uint32, id [16]byte) (CustomerView, bool) {
	s := m.state.Load()
	return s.customer(s.customerIn(env, &id))
}

func (s *state) customer(row uint32) (CustomerView, bool) {
	if row == 0 {
		return CustomerView{}, false
	}
	lock := s.stripe(row)
	lock.RLock()
	defer lock.RUnlock()
	return s.customerView(row), true
}

// Customers lists the rows of an environment's customers that come after one, at most limit.
func (m *Machine) Customers(env, after uint32, limit int) (rows []uint32) {
	s := m.state.Load()
	for row := uint64(after) + 1; row <= uint64(s.customers.Len()) && len(rows) < limit; row++ {
		if row := uint32(row); s.customers.Read(row).env == env {
			rows = append(rows, row)
		}
	}
	return rows
}

// CustomersBefore lists an environment's customers whose rows come before one, newest first, at
// most limit of them, and looks at no more than scan rows. next is what to ask for the next page
// with; 0 when there is none.
func (m *Machine) CustomersBefore(
	env, before uint32, limit, scan int,
) (list []CustomerView, next uint32) {
	return m.CustomersLike(env, before, limit, scan, nil)
}

// CustomersLike is CustomersBefore of those whom like finds; nil finds all.
func (m *Machine) CustomersLike(
	env, before uint32, limit, scan int, like func(*CustomerView) bool,
) (list []CustomerView, next uint32) {
	s := m.state.Load()
	row := uint32(min(uint64(before), uint64(s.customers.Len())+1))
	for ; row > 1 && scan > 0 && len(list) < limit; scan-- {
		row--
		if s.customers.Read(row).env == env {
			if view, _ := s.customer(row); like == nil || like(&view) {
				list = append(list, view)
			}
		}
	}
	if row > 1 {
		next = row
	}
	return list, next
}

// balance is what a customer has to its credit in one currency: totals below zero that were
// carried forward. The customer's next invoices in that currency use it up.
type balance struct {
	amount         decimal.Decimal
	currency       [4]byte // ISO 4217
	customer, next uint32
}

var balanceCodec = page.Codec[balance]{
	Append: func(dst []byte, b *balance) []byte {
		dst = append(rows.AppendDecimal(dst, b.amount), b.currency[:]...)
		return rows.AppendU32(rows.AppendU32(dst, b.customer), b.next)
	},
	Read: func(src []byte, b *balance) ([]byte, error) {
		r := rows.Reader{Rest: src}
		b.amount = r.Decimal()
		copy(b.currency[:], r.Take(len(b.currency)))
		b.customer, b.next = r.U32(), r.U32()
		return r.Rest, r.Err
	},
}

// balanceOf finds a customer's balance in a currency; 0 when there is none.
func (s *book) balanceOf(customer uint32, currency string) (row uint32) {
	row = s.customers.Read(customer).firstBalance
	for row != 0 {
		b := s.balances.Read(row)
		if string(b.currency[:len(currency)]) == currency {
			return row
		}
		row = b.next
	}
	return 0
}

// credit returns what the customer has to its credit in a currency.
func (s *book) credit(customer uint32, currency string) decimal.Decimal {
	if row := s.balanceOf(customer, currency); row != 0 {
		return s.balances.Read(row).amount
	}
	return decimal.Decimal{}
}

// setCredit sets a customer's balance. The customer's lock is held.
func (t *keeper) setCredit(customer uint32, currency string, amount decimal.Decimal) {
	row := t.s.balanceOf(customer, currency)
	if row == 0 {
		if amount.IsZero() {
			return
		}
		c := t.s.customers.Write(customer)
		var b *balance
		row, b = t.s.balances.Append()
		*b = balance{customer: customer, next: c.firstBalance}
		copy(b.currency[:], currency)
		c.firstBalance = row
	}
	t.s.balances.Write(row).amount = amount
	t.foldDecimal(amount)
}
