package book

import (
	"encoding/binary"
	"sync"

	"tollgate/engine/decimal"
	"tollgate/engine/prefetch"
	"tollgate/engine/wire"
)

// Hint notes a customer's oldest subscription and its first counter in the index of customers. So a
// check loads all three at once and not one after the other: with many customers each is a cache
// miss. Every change of the two calls Hint. Only Ahead relies on the note.
func (s *Book) Hint(customer uint32) {
	c := s.Customers.Read(customer)
	hash := s.ExternalHash(c.Env, s.ExternalID(c))
	s.CustomerByExternal.Note(hash, customer, s.hint(c))
}

// hint returns a customer's note; 0 if it has no subscription.
func (s *Book) hint(c *CustomerRow) uint64 {
	if c.FirstSubscription == 0 {
		return 0
	}
	counter := s.Subscriptions.Read(c.FirstSubscription).FirstCounter
	return uint64(c.FirstSubscription)<<32 | uint64(counter)
}

// IndexCustomer adds a customer to the index of identifiers.
func (s *Book) IndexCustomer(row uint32) {
	c := s.Customers.Read(row)
	hash := s.ExternalHash(c.Env, s.ExternalID(c))
	s.CustomerByExternal.Insert(hash, row)
	s.CustomerByExternal.Note(hash, row, s.hint(c))
}

const (
	// Prefetched is how many customers are prefetched together: few enough to be still in the
	// processor's second cache when they are read.
	Prefetched = 64
	// neededLines bounds how many lines appendNeeded appends.
	neededLines = 5
)

// Prefetch prefetches the memory that checks or events of customers need. The hashes, at most
// Prefetched, are those of their identifiers. It reads nothing and needs no lock.
func (s *Book) Prefetch(hashes []uint64) {
	if s.Customers.Len() <= cachedCustomers {
		return
	}
	var room [neededLines * Prefetched]prefetch.Address
	lines := room[:0]
	for _, hash := range hashes {
		lines = append(lines, prefetch.Of(s.CustomerByExternal.Near(hash)))
	}
	prefetch.Lines(lines)
	lines = room[:0]
	for _, hash := range hashes {
		row, hint := s.CustomerByExternal.Likely(hash)
		if row != 0 {
			lines = s.appendNeeded(lines, row, hint, true)
		}
	}
	prefetch.Lines(lines)
}

// usualID bounds the identifiers whose last byte is prefetched.
const usualID = 20

// appendNeeded appends the addresses of a customer's row, and by its note those of its oldest
// subscription and that one's first counter. ends asks for both cache lines where the part of a row
// that checks read crosses lines: this pays among many customers, while the loads of a single check
// overlap anyway.
func (s *Book) appendNeeded(
	lines []prefetch.Address, row uint32, hint uint64, ends bool,
) []prefetch.Address {
	c := s.Customers.Read(row)
	lines = append(lines, prefetch.Of(c))
	if ends {
		lines = append(lines, prefetch.Of(&c.External[usualID]))
	}
	if subscription := uint32(hint >> 32); subscription != 0 {
		b := s.Subscriptions.Read(subscription)
		lines = append(lines, prefetch.Of(b))
		if ends {
			lines = append(lines, prefetch.Of(&b.PeriodEnd))
		}
	}
	if counter := uint32(hint); counter != 0 { // a plan may have no feature
		lines = append(lines, prefetch.Of(s.Counters.Near(counter)))
	}
	return lines
}

// cachedCustomers is the number of customers whose data fits the processor's caches. Below it
// prefetching costs more than it saves.
const cachedCustomers = 1 << 13

// HoldNamed finds a customer by the caller's identifier and takes its lock for reading; 0 and nil
// if there is none. Among many customers it prefetches what a check needs, unless fetched tells
// that Prefetch did.
func (s *Book) HoldNamed(
	env uint32, external []byte, fetched bool,
) (row uint32, lock *sync.RWMutex) {
	hash := s.ExternalHash(env, external)
	row, hint := s.CustomerByExternal.Likely(hash)
	if row == 0 {
		return 0, nil
	}
	if !fetched && s.Customers.Len() > cachedCustomers {
		var lines [neededLines]prefetch.Address
		prefetch.Lines(s.appendNeeded(lines[:0], row, hint, false))
	}
	// The lock is taken while the row is on its way: behind the comparison it would be waited for.
	lock = &s.Stripe(row).RWMutex
	if lock.RLock(); s.isNamed(row, env, external) {
		return row, lock
	}
	lock.RUnlock()
	if row = s.CustomerUnder(hash, env, external); row == 0 {
		return 0, nil // what was found has 32 bits of the hash alone
	}
	lock = &s.Stripe(row).RWMutex
	lock.RLock()
	return row, lock
}

// Profile is the cold part of a customer. Number 1 was an identifier and is not reused.
type Profile struct {
	FirstName   string `wire:"2"`
	LastName    string `wire:"3"`
	Email       string `wire:"4"`
	PhoneNumber string `wire:"5"`
	Address     string `wire:"6"`
	// ArchivedAt and ErasedAt are 0 as long as the customer is neither.
	ArchivedAt int64 `wire:"7"`
	ErasedAt   int64 `wire:"8"`
	Blank      uint8 `wire:"9"` // see CreateCustomer
	// Former is who they were when invoices were issued, before that changed: oldest first.
	Former []FormerProfile `wire:"10"`
}

// FormerProfile is who a customer was whose invoices have numbers up to one, from that of the one
// before.
type FormerProfile struct {
	Invoice     uint64 `wire:"1"`
	FirstName   string `wire:"2"`
	LastName    string `wire:"3"`
	Email       string `wire:"4"`
	PhoneNumber string `wire:"5"`
	Address     string `wire:"6"`
}

// maxFormer bounds Former: of more changes the oldest are forgotten.
const maxFormer = 20

// Supersede notes who the customer was before a change, if the newest invoice, of a number, says
// so; 0: there is none. Most changes are noted nowhere.
func (p *Profile) Supersede(before *Profile, newest uint64) {
	f := FormerProfile{
		newest, before.FirstName, before.LastName, before.Email, before.PhoneNumber, before.Address,
	}
	same := f == FormerProfile{newest, p.FirstName, p.LastName, p.Email, p.PhoneNumber, p.Address}
	n := len(p.Former)
	if newest == 0 || same || n > 0 && newest <= p.Former[n-1].Invoice {
		return
	}
	p.Former = append(p.Former[max(0, n+1-maxFormer):], f)
}

// On is the profile as the customer's invoice of a number states it; of 0, as it is.
func (p *Profile) On(number uint64) Profile {
	was := *p
	for _, f := range p.Former {
		if number != 0 && number <= f.Invoice {
			was.FirstName, was.LastName, was.Email = f.FirstName, f.LastName, f.Email
			was.PhoneNumber, was.Address = f.PhoneNumber, f.Address
			break
		}
	}
	return was
}

// Gone reports whether the customer is archived or erased: it takes nothing new.
func (p *Profile) Gone() bool { return p.ArchivedAt != 0 || p.ErasedAt != 0 }

// Profile decodes a customer's profile. Readers hold the customer's lock.
func (s *Book) Profile(row uint32) (p Profile) {
	d := wire.NewTextDecoder(s.Profiles.Read(row).Data)
	p.Fields(&d)
	if err := d.Close(); err != nil {
		panic("billing: profile in memory does not decode: " + err.Error())
	}
	return p
}

// ExternalID returns the caller's identifier of a customer. It takes no lock, because it never
// changes.
func (s *Book) ExternalID(c *CustomerRow) []byte {
	if c.ExternalLen > 0 {
		return c.External[:c.ExternalLen]
	}
	return []byte(s.longID(c))
}

func (s *Book) longID(c *CustomerRow) string {
	row := binary.LittleEndian.Uint32(c.External[:])
	if row == 0 {
		return ""
	}
	return s.LongIDs.Read(row).Data
}

// CustomerNamed finds a customer by the caller's identifier; 0 if there is none. It takes no lock:
// what it compares never changes.
func (s *Book) CustomerNamed(env uint32, external []byte) uint32 {
	return s.CustomerUnder(s.ExternalHash(env, external), env, external)
}

// CustomerUnder is CustomerNamed with a known hash of the identifier.
func (s *Book) CustomerUnder(hash uint64, env uint32, external []byte) uint32 {
	return s.CustomerByExternal.Find(hash, func(row uint32) bool {
		return s.isNamed(row, env, external)
	})
}

func (s *Book) isNamed(row, env uint32, external []byte) bool {
	c := s.Customers.Read(row)
	if c.Env != env {
		return false
	}
	if c.ExternalLen > 0 {
		return string(c.External[:c.ExternalLen]) == string(external)
	}
	return s.longID(c) == string(external)
}

// CustomerWith finds a customer by its UUID in any environment; 0 if there is none.
func (s *Book) CustomerWith(id *[16]byte) uint32 {
	return s.CustomerByID.Find(s.IDHash(id), func(row uint32) bool {
		return s.Customers.Read(row).ID == *id
	})
}

// CustomerIn finds a customer of one environment by its UUID; 0 if there is none.
func (s *Book) CustomerIn(env uint32, id *[16]byte) uint32 {
	row := s.CustomerWith(id)
	if row != 0 && s.Customers.Read(row).Env != env {
		return 0
	}
	return row
}

// Balance is a customer's credit in one currency: negative totals that were carried forward. The
// customer's next invoices in that currency use it up.
//
//schema:row
type Balance struct {
	Amount         decimal.Decimal
	Currency       [4]byte // ISO 4217
	Customer, Next uint32
}

// balanceOf finds a customer's balance in a currency; 0 if there is none.
func (s *Book) balanceOf(customer uint32, currency string) (row uint32) {
	row = s.Customers.Cold(customer).FirstBalance
	for row != 0 {
		b := s.Balances.Read(row)
		if string(b.Currency[:len(currency)]) == currency {
			return row
		}
		row = b.Next
	}
	return 0
}

// Credit returns the customer's credit in a currency.
func (s *Book) Credit(customer uint32, currency string) decimal.Decimal {
	if row := s.balanceOf(customer, currency); row != 0 {
		return s.Balances.Read(row).Amount
	}
	return decimal.Decimal{}
}

// SetCredit sets a customer's balance. Callers hold the customer's lock.
func (t *Keeper) SetCredit(customer uint32, currency string, amount decimal.Decimal) {
	row := t.S.balanceOf(customer, currency)
	if row == 0 {
		if amount.IsZero() {
			return
		}
		cold := t.S.Customers.Cold(customer)
		var b *Balance
		row, b = t.S.Balances.Append()
		*b = Balance{Customer: customer, Next: cold.FirstBalance}
		copy(b.Currency[:], currency)
		cold.FirstBalance = row
		t.S.Customers.SetCold(customer, cold)
	}
	t.S.Balances.Write(row).Amount = amount
	t.FoldDecimal(amount)
}
