package billing

import (
	"encoding/binary"

	"tollgate/engine"
	"tollgate/engine/billing/internal/budgets"
	"tollgate/engine/billing/internal/holds"
	"tollgate/engine/idempotency"
	"tollgate/engine/journal"
	"tollgate/engine/wire"
)

// ReservationQuery asks for the reservations of an environment, the newest first: of a customer, at
// a budget or below it, of both, or all.
type ReservationQuery struct {
	Env      uint32
	Customer string // empty: of CustomerID
	// CustomerID is zero where neither it nor Customer is asked for.
	CustomerID [16]byte
	Budget     string // empty: at any and at none
	// States are those that are wanted, one bit for each; 0: all.
	States uint8
	// After is where the page before ended; zero: from the newest on.
	After [16]byte
	Limit int
	Now   int64 // log time
}

// reservationsWalked bounds how many reservations one page of a customer looks at.
const reservationsWalked = 1000

// Reservations returns a page of reservations. next is where the following page begins, zero on the
// last page. The outcome is OutcomeDone, or names what does not exist: the customer, the budget, or
// the reservation After.
func (m *customerReader) Reservations(q *ReservationQuery) (
	list []ReservationView, next [16]byte, o engine.Outcome,
) {
	s := m.state.Load()
	customer := uint32(0)
	switch {
	case q.Customer != "":
		customer = s.CustomerNamed(q.Env, []byte(q.Customer))
	case q.CustomerID != [16]byte{}:
		customer = s.CustomerIn(q.Env, &q.CustomerID)
	default:
		return m.reservationsAt(s, q)
	}
	if customer == 0 {
		return nil, next, engine.OutcomeCustomerUnknown
	}
	within, ok := q.within(s)
	if !ok {
		return nil, next, engine.OutcomeBudgetUnknown
	}
	from := uint32(0)
	if q.After != ([16]byte{}) {
		row, owner := s.holds.Find(q.Env, &q.After)
		if from = row; row == 0 || owner != customer {
			return nil, next, engine.OutcomeReservationUnknown
		}
	}
	lock := s.ReadLock(customer)
	defer lock.RUnlock()
	if from != 0 {
		v, ok := s.holds.At(from, &q.After)
		if !ok {
			return nil, next, engine.OutcomeReservationUnknown
		}
		if from = v.Older; from == 0 {
			return nil, next, engine.OutcomeDone
		}
	}
	walked := 0
	var last [16]byte
	s.holds.Listed(customer, from, func(row uint32, v *holds.Hold) bool {
		if walked == reservationsWalked || len(list) == q.Limit {
			next = last
			return false
		}
		walked++
		last = v.ID
		view := m.wholeReservation(s, row, v, q.Now)
		if q.wants(&view) && within(view.Budget) {
			list = append(list, view)
		}
		return true
	})
	return list, next, engine.OutcomeDone
}

// budgetReservationsWalked bounds the work of a page of a budget's reservations: 1 for each row
// that it passes, reservationStep for one that it looks at. It is some 4 ms.
const (
	budgetReservationsWalked = 1_000_000
	reservationStep          = 64
)

// within returns a filter by the key of the budget at which a reservation holds. ok is false where
// the environment has no budget of that key.
func (q *ReservationQuery) within(s *state) (asked func(key string) bool, ok bool) {
	if q.Budget == "" {
		return func(string) bool { return true }, true
	}
	return budgets.Below(&s.budgets.Forest, q.Env, q.Budget)
}

// reservationsAt is Reservations of all customers, by their rows, the
// newest first: a row that is used again comes early.
func (m *customerReader) reservationsAt(s *state, q *ReservationQuery) (
	list []ReservationView, next [16]byte, o engine.Outcome,
) {
	within, ok := q.within(s)
	if !ok {
		return nil, next, engine.OutcomeBudgetUnknown
	}
	row := s.holds.Rows.Len()
	if q.After != ([16]byte{}) {
		row = min(row, binary.BigEndian.Uint32(q.After[12:])-1)
	}
	for walked := 0; row > 0; row-- {
		if walked >= budgetReservationsWalked || len(list) == q.Limit {
			binary.BigEndian.PutUint32(next[12:], row+1)
			break
		}
		walked++
		id, customer := s.holds.IDOf(row)
		if customer == 0 || s.Customers.Read(customer).Env != q.Env {
			continue
		}
		walked += reservationStep
		lock := s.ReadLock(customer)
		if v, ok := s.holds.At(row, &id); ok {
			view := m.wholeReservation(s, row, &v, q.Now)
			if within(view.Budget) && q.wants(&view) {
				list = append(list, view)
			}
		}
		lock.RUnlock()
	}
	return list, next, engine.OutcomeDone
}

// wants reports whether a reservation is in a state that is asked for.
func (q *ReservationQuery) wants(v *ReservationView) bool {
	return q.States == 0 || q.States&(1<<v.State) != 0
}

// RecordedEvent is the usage event of a reference, as it counts now; empty where it is none of the
// environment's, or its key was dropped.
func (m *journalReader) RecordedEvent(env uint32, ref *UsageRef) (v RecordedEvent) {
	m.applying.RLock()
	defer m.applying.RUnlock()
	s := m.state.Load()
	var u usageEntry
	var c RecordUsage
	if wire.Decode(ref.Payload, &u) != nil || wire.Decode(u.Record, &c) != nil {
		return v
	}
	k, outcome := decodeCorrection(s, env, &c.Key, ref, s.Log.Stamp())
	if outcome != engine.OutcomeDone {
		return v
	}
	k.load(s, ref, s.Log.Stamp())
	v.RecordedKey, v.RecordedUnits = string(c.KeyText), k.units
	v.RecordedCustomer = string(s.ExternalID(s.Customers.Read(ref.Owner)))
	if v.RecordedFeature = s.FeatureKey(env, u.Feature); v.RecordedFeature == "" {
		v.RecordedFeature = string(c.FeatureKey)
	}
	v.RecordedOccurred, v.RecordedAt = c.OccurredAt, u.RecordedAt
	return v
}

// FindCounted is FindUsage, and where a late settlement has named the key it finds the event that
// counts for it, which its reservation's expiry has billed, and changes key to that one's. Where
// the expiry has billed several, it finds none, and others are their keys.
func (m *journalReader) FindCounted(
	src journal.Source, keys idempotency.Finder, env uint32, key *[16]byte,
) (ref UsageRef, found bool, others []string, err error) {
	ref, found, err = m.FindUsage(src, keys, env, *key)
	if found || err != nil {
		return ref, found, nil, err
	}
	last, expired := m.countedFor(env, key)
	for _, text := range last {
		event, is, err := m.FindUsage(src, keys, env, UsageKey(env, []byte(text)))
		if err != nil {
			return ref, false, nil, err
		}
		if is && recordedAt(&event) == expired {
			ref, others = event, append(others, text)
		}
	}
	if len(others) != 1 {
		return UsageRef{}, false, others, nil
	}
	*key = UsageKey(env, []byte(others[0]))
	return ref, true, nil, nil
}

// recordedAt is the log time at which the event of a reference was recorded.
func recordedAt(ref *UsageRef) int64 {
	var u usageEntry
	if wire.Decode(ref.Payload, &u) != nil {
		return 0
	}
	return u.RecordedAt
}

// countedFor are the keys of the last own events of the reservation that has taken an event key,
// and when it expired: no more than one for each feature was billed then. None where no reservation
// has taken the key.
func (m *journalReader) countedFor(env uint32, key *[16]byte) (keys []string, expired int64) {
	m.applying.RLock()
	defer m.applying.RUnlock()
	s := m.state.Load()
	row := s.holds.TakerOf(key)
	if row == 0 {
		return nil, 0
	}
	v := s.holds.Rows.Read(row)
	if s.Customers.Read(v.Customer).Env != env {
		return nil, 0
	}
	before := v.Events - min(v.Events, uint32(len(s.holds.ItemsOf(v, nil))))
	for n := before + 1; n <= v.Events; n++ {
		keys = append(keys, string(holds.AppendEventKey(nil, &v.ID, n)))
	}
	return keys, v.ExpiresAt
}

// ReservationEventKeys are the keys under which the events of a reservation that was billed when it
// expired were recorded.
func (m *customerReader) ReservationEventKeys(env uint32, id [16]byte) (keys [][16]byte) {
	s := m.state.Load()
	row, customer := s.holds.Find(env, &id)
	if row == 0 {
		return nil
	}
	lock := s.ReadLock(customer)
	defer lock.RUnlock()
	v, ok := s.holds.At(row, &id)
	if !ok || v.State != holds.ReservationBilled {
		return nil
	}
	for n := v.Events; n > 0 && len(keys) < len(s.holds.ItemsOf(&v, nil)); n-- {
		keys = append(keys, holds.EventKey(env, &v.ID, n))
	}
	return keys
}
