package book

import (
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/page"
)

// Customer is a whole customer without its profile.
//
//schema:row ID CreatedAt ModifiedAt Env FirstSubscription LastSubscription FirstInvoice LastInvoice
//schema:row Subscriptions FirstBalance ExternalLen External -Archived -Held -Budgeted -coldPart
type Customer struct {
	HotCustomer
	ColdCustomer
}

// HotCustomer is a customer's row. Its first bytes have what a check needs, so that short
// identifiers cost one cache line. id, env and external never change, so the indexes compare them
// without the customer's lock.
type HotCustomer struct {
	Env uint32
	// FirstSubscription begins the list of the customer's subscriptions, oldest first.
	FirstSubscription uint32
	// coldPart is, in a row, the number of its cold part, 0 where that is DefaultCold.
	coldPart uint32
	// Held is set while the customer has open reservations, Budgeted while it has a budget of its
	// own. They are not state.
	Held, Budgeted bool
	// external is the caller's identifier if it fits. Otherwise externalLen is 0 and external
	// begins with the identifier's row in LongIDs (little endian); 0 is the empty identifier.
	ExternalLen uint8
	External    [39]byte
	ID          [16]byte
	Archived    bool // a copy from the profile; not state
	// Ends of the list of the customer's invoices, oldest first.
	FirstInvoice, LastInvoice uint32
	CreatedAt                 int64
}

// ColdCustomer has the fields that DefaultCold gives for most customers.
type ColdCustomer struct {
	ModifiedAt       int64
	LastSubscription uint32
	Subscriptions    uint32
	FirstBalance     uint32 // its balances, one per currency
}

// DefaultCold returns the cold part of a customer that was never modified and has at most one
// subscription and no credit.
func (c *HotCustomer) DefaultCold() ColdCustomer {
	r := ColdCustomer{ModifiedAt: c.CreatedAt, LastSubscription: c.FirstSubscription}
	if c.FirstSubscription != 0 {
		r.Subscriptions = 1
	}
	return r
}

func (c *Customer) fits() bool { return int(c.ExternalLen) <= len(c.External) }

// CustomerRow is a customer in memory.
type CustomerRow struct{ HotCustomer }

// Customers are all customers.
type Customers struct {
	*page.Table[CustomerRow]
	ColdParts *page.Parts[ColdCustomer]
}

// OpenCustomers makes the tables.
func OpenCustomers(s *page.Store) Customers {
	t := Customers{ColdParts: page.NewParts[ColdCustomer]()}
	t.Table = page.NewTable(s, accounts.TableCustomers, page.Codec[CustomerRow]{
		Append: func(dst []byte, r *CustomerRow) []byte {
			whole := t.of(r)
			return appendCustomer(dst, &whole)
		},
		Read: func(src []byte, r *CustomerRow) ([]byte, error) {
			var whole Customer
			rest, err := readCustomer(src, &whole)
			if err == nil {
				r.HotCustomer = whole.HotCustomer
				t.put(r, whole.ColdCustomer)
			}
			return rest, err
		},
		Apart: func(r *CustomerRow) bool { return r.coldPart != 0 },
	})
	return t
}

func (t *Customers) of(r *CustomerRow) Customer {
	v := Customer{r.HotCustomer, t.ColdOf(r)}
	v.coldPart = 0
	return v
}

// ColdOf returns the fields that a row lacks. Readers hold the customer's lock.
func (t *Customers) ColdOf(r *CustomerRow) ColdCustomer {
	if r.coldPart != 0 {
		return *t.ColdParts.Read(r.coldPart)
	}
	return r.DefaultCold()
}

// Cold is ColdOf a customer.
func (t *Customers) Cold(row uint32) ColdCustomer { return t.ColdOf(t.Read(row)) }

// Subscriptions returns how many subscriptions a customer has had. For most customers it reads no
// more of the row than a check does.
func (t *Customers) Subscriptions(row uint32) uint32 {
	switch r := t.Read(row); {
	case r.coldPart != 0:
		return t.ColdParts.Read(r.coldPart).Subscriptions
	case r.FirstSubscription != 0:
		return 1
	}
	return 0
}

// Whole returns a whole customer.
func (t *Customers) Whole(row uint32) Customer { return t.of(t.Read(row)) }

// SetCold stores the fields that a row lacks, after the row. For Apply, under the customer's lock.
func (t *Customers) SetCold(row uint32, v ColdCustomer) { t.put(t.Write(row), v) }

func (t *Customers) put(r *CustomerRow, v ColdCustomer) {
	rest := r.coldPart
	if r.coldPart = 0; v == r.DefaultCold() {
		t.ColdParts.Drop(rest)
		return
	}
	r.coldPart = t.ColdParts.Put(rest, v)
}

// Bytes returns the memory of all customers, without their profiles.
func (t *Customers) Bytes() uint64 { return t.Table.Bytes() + t.ColdParts.Bytes() }
