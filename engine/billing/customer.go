package billing

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// CreateCustomer adds a customer. An existing customer with this ExternalID and the same ID is the
// same success (a re-sent command); with another ID it is OutcomeCustomerExists.
type CreateCustomer struct {
	Env uint32   `wire:"1"`
	ID  [16]byte `wire:"2"`
	// ExternalID is the caller's own identifier, or a UUID that the server minted.
	ExternalID  string `wire:"3" json:"externalClientCustomerId" rule:"min=1,max=128"`
	FirstName   string `wire:"4" json:"firstName" rule:"required,min=1,max=128"`
	LastName    string `wire:"5" json:"lastName" rule:"required,min=1,max=128"`
	Email       string `wire:"6" json:"email" rule:"required,email,min=3,max=254"`
	PhoneNumber string `wire:"7" json:"phoneNumber" rule:"max=64" bit:"CustomerPhoneNumber"`
	Address     string `wire:"8" json:"address" rule:"max=500" bit:"CustomerAddress"`
	// Blank are the bits of CustomerPhoneNumber and CustomerAddress that were given as "", which is
	// a value and differs from none.
	Blank uint8 `wire:"9" bits:"empty"`
}

func (c *CreateCustomer) apply(t *turn, e *accounts.Environment) engine.Outcome {
	external := []byte(c.ExternalID)
	if row := t.CustomerNamed(c.Env, external); row != 0 {
		if t.Customers.Read(row).ID == c.ID {
			return engine.OutcomeDone
		}
		return engine.OutcomeCustomerExists
	}
	if t.CustomerWith(&c.ID) != 0 {
		return engine.OutcomeIDsContradict
	}
	if o := t.TakesCustomer(e); o != engine.OutcomeDone {
		return o
	}

	now := e.Now(t.Stamp)
	e.Account.Held.Customers.Add(1)
	e.Customers.Add(1)
	row, r := t.Customers.Append()
	r.HotCustomer = book.HotCustomer{ID: c.ID, Env: c.Env, CreatedAt: now}
	p := book.Profile{
		FirstName: c.FirstName, LastName: c.LastName,
		Email: c.Email, PhoneNumber: c.PhoneNumber, Address: c.Address,
		Blank: c.Blank,
	}
	if len(external) <= len(r.External) {
		r.ExternalLen = uint8(copy(r.External[:], external))
	} else {
		long, cold := t.LongIDs.Append()
		cold.Data = c.ExternalID
		binary.LittleEndian.PutUint32(r.External[:], long)
	}
	_, cold := t.Profiles.Append()
	cold.Data = string(wire.Encode(nil, &p))
	t.CustomerByID.Insert(t.IDHash(&r.ID), row)
	t.IndexCustomer(row)
	t.Fold(uint64(row))
	return engine.OutcomeDone
}

// customerView requires the customer's lock.
func (s *state) customerView(row uint32) CustomerView {
	return viewAs(s, row, s.Profile(row))
}

// viewAs requires the customer's lock.
func viewAs(s *state, row uint32, p book.Profile) CustomerView {
	c := s.Customers.Read(row)
	return CustomerView{
		CustomerCore: CustomerCore{
			Row: row, ID: c.ID, ExternalID: string(s.ExternalID(c)),
			FirstName: p.FirstName, LastName: p.LastName,
			Email: p.Email, PhoneNumber: p.PhoneNumber,
			HasPhoneNumber: p.PhoneNumber != "" || p.Blank&CustomerPhoneNumber != 0,
			HasAddress:     p.Address != "" || p.Blank&CustomerAddress != 0,
			CreatedAt:      c.CreatedAt, ModifiedAt: s.Customers.ColdOf(c).ModifiedAt,
		},
		Address: p.Address, ArchivedAt: p.ArchivedAt, ErasedAt: p.ErasedAt,
	}
}

// Customer finds a customer by the caller's own identifier.
func (m *customerReader) Customer(env uint32, externalID string) (CustomerView, bool) {
	s := m.state.Load()
	return s.customer(s.CustomerNamed(env, []byte(externalID)))
}

// CustomerOn is Customer, as their invoice of a number states them; of 0, as they are.
func (m *customerReader) CustomerOn(
	env uint32, externalID string, number uint64,
) (CustomerView, bool) {
	s := m.state.Load()
	row := s.CustomerNamed(env, []byte(externalID))
	if row == 0 {
		return CustomerView{}, false
	}
	lock := s.ReadLock(row)
	defer lock.RUnlock()
	p := s.Profile(row)
	return viewAs(s, row, p.On(number)), true
}

// CustomerByID finds a customer by its UUID.
func (m *customerReader) CustomerByID(env uint32, id [16]byte) (CustomerView, bool) {
	s := m.state.Load()
	return s.customer(s.CustomerIn(env, &id))
}

func (s *state) customer(row uint32) (CustomerView, bool) {
	if row == 0 {
		return CustomerView{}, false
	}
	lock := s.ReadLock(row)
	defer lock.RUnlock()
	return s.customerView(row), true
}

// CustomerNames are what people find a customer by.
type CustomerNames struct{ ExternalID, FirstName, LastName, Email string }

// CustomerNames reads a row; false where it is of another environment, or none.
func (m *customerReader) CustomerNames(env, row uint32) (n CustomerNames, ok bool) {
	s := m.state.Load()
	if row == 0 || row > s.whole.customers.Load() {
		return n, false
	}
	c := s.Customers.Read(row)
	if c.Env != env {
		return n, false
	}
	lock := s.ReadLock(row)
	defer lock.RUnlock()
	p := s.Profile(row)
	return CustomerNames{string(s.ExternalID(c)), p.FirstName, p.LastName, p.Email}, true
}

// CustomerRows lists an environment's rows among the scan rows behind one; through is the last that
// was looked at, and more reports whether there are others.
func (m *customerReader) CustomerRows(env, after uint32, scan int) (
	rows []uint32, through uint32, more bool,
) {
	s := m.state.Load()
	last := s.whole.customers.Load()
	through = uint32(min(uint64(after)+uint64(scan), uint64(max(after, last))))
	for row := uint64(after) + 1; row <= uint64(min(through, last)); row++ {
		if row := uint32(row); s.Customers.Read(row).Env == env {
			rows = append(rows, row)
		}
	}
	return rows, through, through < last
}

// Customers lists at most limit rows of an environment's customers that come after one.
func (m *customerReader) Customers(env, after uint32, limit int) (rows []uint32) {
	s := m.state.Load()
	for row := uint64(after) + 1; row <= uint64(s.whole.customers.Load()) && len(rows) < limit; row++ {
		if row := uint32(row); s.Customers.Read(row).Env == env {
			rows = append(rows, row)
		}
	}
	return rows
}

// CustomerCount is how many customers an environment has, archived ones too.
func (m *customerReader) CustomerCount(env uint32) int64 {
	if e := m.state.Load().Environment(env); e != nil {
		return e.Customers.Load()
	}
	return 0
}

// Standing is what a customer is subscribed to, and owes.
type Standing struct {
	// Plans are those of subscriptions that have not ended, the oldest first.
	Plans   []StandingPlan   `json:"plans"`
	Amounts []StandingAmount `json:"amounts"` // in the order of currencies
}

// StandingPlan is the plan of a subscription that has not ended.
//
//schema:answer admin StandingPlan
type StandingPlan struct {
	Key    string `json:"key" rule:"min=1,max=128"`
	Name   string `json:"name" rule:"max=128"`
	Status string `json:"status" rule:"oneof=active|suspended"`
}

// StandingAmount is what a customer pays and owes in one currency.
//
//schema:answer admin StandingAmount
type StandingAmount struct {
	Currency string `json:"currency" rule:"min=3,max=3"`
	// MonthlyRecurring is that of RevenueSeries, of this customer's subscriptions.
	MonthlyRecurring decimal.Decimal `json:"monthlyRecurring"`
	// Owed is the sum of the unpaid invoices, PastDue that of those which are past due.
	Owed    decimal.Decimal `json:"owed"`
	PastDue decimal.Decimal `json:"pastDue"`
	// PastDueSince is when the oldest of those fell due.
	PastDueSince int64 `json:"pastDueSince,omitzero" as:"time"`
}

// in returns the amounts of a currency, in their order, and makes missing ones.
func (v *Standing) in(currency string) *StandingAmount {
	at, found := slices.BinarySearchFunc(v.Amounts, currency, func(a StandingAmount, c string) int {
		return cmp.Compare(a.Currency, c)
	})
	if !found {
		v.Amounts = slices.Insert(v.Amounts, at, StandingAmount{Currency: currency})
	}
	return &v.Amounts[at]
}

// owes adds an unpaid invoice.
func (v *Standing) owes(currency string, i *book.Invoice) {
	a := v.in(currency)
	a.Owed = sums.Of(a.Owed, i.Amount)
	if i.Status == book.InvoicePastDue {
		a.PastDue = sums.Of(a.PastDue, i.Amount)
		if a.PastDueSince == 0 || i.DueAt < a.PastDueSince {
			a.PastDueSince = i.DueAt
		}
	}
}

// Standing returns what the customer of a row is subscribed to, and owes, at the log's time.
func (m *customerReader) Standing(row uint32) Standing {
	v := Standing{Plans: []StandingPlan{}, Amounts: []StandingAmount{}}
	s := m.state.Load()
	if row == 0 || row > s.Customers.Len() {
		return v
	}
	lock := s.ReadLock(row)
	defer lock.RUnlock()
	c := s.Customers.Read(row)
	catalog := s.Environment(c.Env).Catalog.Load()
	due := s.ProjectionsNow(row).Due
	var recurring catalogs.Recurring
	for at := c.FirstSubscription; at != 0; {
		b := s.Subscriptions.Whole(at)
		if len(due) > 0 && due[0].Row == at { // in the order of rows, as the list is
			for i := range due[0].Unpaid {
				v.owes(catalog.Version(due[0].Unpaid[i].Version).Currency, &due[0].Unpaid[i].Invoice)
			}
			b, due = due[0].Sub, due[1:]
		} else {
			for unpaid := b.FirstUnpaid; unpaid != 0; {
				i := s.Invoices.Read(unpaid)
				v.owes(catalog.Version(i.Version).Currency, &i)
				unpaid = i.NextUnpaid
			}
		}
		if b.EndedAt == 0 {
			version := catalog.Version(b.Version)
			plan := &catalog.Plans[version.Plan-1].Document
			status := "active"
			if !b.Active() {
				status = "suspended"
			}
			v.Plans = append(v.Plans, StandingPlan{Key: plan.Key, Name: plan.Name, Status: status})
			recurring.Add(version, 1)
		}
		at = b.Next
	}
	for _, r := range recurring.Amounts() {
		v.in(r.Currency).MonthlyRecurring = r.Amount
	}
	return v
}

// RankedBy is the amount that customers are ranked by.
type RankedBy uint8

const (
	RankedByOwed      RankedBy = 0 // StandingAmount.Owed
	RankedByPastDue   RankedBy = 1 // StandingAmount.PastDue
	RankedByRecurring RankedBy = 2 // StandingAmount.MonthlyRecurring
)

// Ranking asks for the customers of an environment with the largest amounts in a currency.
type Ranking struct {
	Env      uint32
	Currency string
	By       RankedBy
	// From is how many of the first to leave out, Limit how many to list then.
	From, Limit int
}

// RankCustomers ranks the customers that have an amount, those of the same from the oldest on, and
// returns how many follow the listed ones. It reads all customers of all environments; what it
// keeps grows with From and Limit alone.
func (m *customerReader) RankCustomers(q *Ranking) (list []CustomerView, others int) {
	s := m.state.Load()
	e := s.Environment(q.Env)
	if e == nil {
		return nil, 0
	}
	type place struct {
		amount decimal.Decimal
		row    uint32
	}
	r := ranker{customerReader: m, q: q, state: s, env: e, now: e.Now(s.Log.Stamp())}
	first := foremost[place]{most: q.From + q.Limit, order: func(a, b place) int {
		return cmp.Or(b.amount.Cmp(a.amount), cmp.Compare(a.row, b.row))
	}}
	for row := uint32(1); row <= uint32(s.whole.customers.Load()); row++ {
		if s.Customers.Read(row).Env != q.Env {
			continue
		}
		amount := r.amount(row)
		if amount.Sign() <= 0 {
			continue
		}
		first.add(place{amount, row})
	}
	ranked := first.sorted()
	for _, p := range ranked[min(q.From, len(ranked)):] {
		view, _ := s.customer(p.row)
		list = append(list, view)
	}
	return list, first.added - len(ranked)
}

// ranker reads the amounts that customers are ranked by.
type ranker struct {
	*customerReader
	q       *Ranking
	state   *state
	env     *accounts.Environment
	now     int64
	monthly map[uint32]decimal.Decimal // by version
}

// amount is that of the customer of a row, as Standing adds it up.
func (r *ranker) amount(row uint32) decimal.Decimal {
	sum, due := r.stored(row)
	if !due {
		return sum
	}
	standing := r.Standing(row)
	own := standing.in(r.q.Currency)
	switch r.q.By {
	case RankedByRecurring:
		return own.MonthlyRecurring
	case RankedByPastDue:
		return own.PastDue
	}
	return own.Owed
}

// stored is amount by the records alone, unless something has fallen due since.
func (r *ranker) stored(row uint32) (sum decimal.Decimal, due bool) {
	lock := r.state.ReadLock(row)
	defer lock.RUnlock()
	c := r.env.Catalog.Load() // under the lock: it has the versions of the subscriptions
	for at := r.state.Customers.Read(row).FirstSubscription; at != 0 && !due; {
		b := r.state.Subscriptions.Read(at)
		due = b.Due <= r.now
		if r.q.By != RankedByRecurring {
			for unpaid := b.FirstUnpaid; unpaid != 0; {
				i := r.state.Invoices.Read(unpaid)
				counts := r.q.By == RankedByOwed || i.Status == book.InvoicePastDue
				if counts && c.Version(i.Version).Currency == r.q.Currency {
					sum = sums.Of(sum, i.Amount)
				}
				unpaid = i.NextUnpaid
			}
		} else if c.Version(b.Version).Currency == r.q.Currency {
			if b.ColdPart == 0 || r.state.Subscriptions.Cold(at).EndedAt == 0 {
				sum = sums.Of(sum, r.monthlyOf(c, b.Version))
			}
		}
		at = b.Next
	}
	return sum, due
}

// monthlyOf is the price of a version, divided by its months: exact to 12 places, which is enough
// to rank by.
func (r *ranker) monthlyOf(c *catalogs.Catalog, version uint32) decimal.Decimal {
	price, known := r.monthly[version]
	if !known {
		v := c.Version(version)
		price, _ = v.Price.FloorDiv(decimal.FromInt(int64(max(v.Interval, 1))))
		if r.monthly == nil {
			r.monthly = map[uint32]decimal.Decimal{}
		}
		r.monthly[version] = price
	}
	return price
}

// Currencies are those of an environment's plans, the ones with most subscriptions first.
func (m *customerReader) Currencies(env uint32) []string {
	e := m.state.Load().Environment(env)
	if e == nil {
		return nil
	}
	subscriptions := map[string]int64{}
	for _, v := range e.Catalog.Load().Versions {
		subscriptions[v.Currency] += v.Subscribers.Load()
	}
	return slices.SortedFunc(maps.Keys(subscriptions), func(a, b string) int {
		return cmp.Or(cmp.Compare(subscriptions[b], subscriptions[a]), cmp.Compare(a, b))
	})
}

// CustomersLike lists an environment's customers with rows before one that match like (nil matches
// all), newest first. It lists at most limit customers and examines at most scan rows. next
// continues the list; 0 ends it.
func (m *customerReader) CustomersLike(
	env, before uint32, limit, scan int, like func(*CustomerView) bool,
) (list []CustomerView, next uint32) {
	s := m.state.Load()
	row := uint32(min(uint64(before), uint64(s.whole.customers.Load())+1))
	for ; row > 1 && scan > 0 && len(list) < limit; scan-- {
		row--
		if s.Customers.Read(row).Env == env {
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
