package billing

import (
	"fmt"
	"math"

	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/holds"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
	"tollgate/engine/journal"
	"tollgate/engine/wire"
)

// heldOf is of what something is held: units of a feature, or credits.
type heldOf struct {
	customer, subscription, feature uint32
	pool                            catalogs.PoolName
}

// ReservationRow is the row of a reservation that is kept: of one instant, lower ones expire first.
func ReservationRow(m *Machine, env uint32, id [16]byte) uint32 {
	row, _ := m.state.Load().holds.Find(env, &id)
	return row
}

// MaxHoldText is how many bytes the longest text of a reservation has.
func MaxHoldText(m *Machine) (longest int) {
	h := &m.state.Load().holds
	for row := uint32(1); row <= h.Texts.Len(); row++ {
		longest = max(longest, len(h.Texts.Get(row)))
	}
	return longest
}

// BudgetRow is the row of a budget, as API keys that are bound to it have it.
func BudgetRow(m *Machine, env uint32, key string) uint32 {
	return m.state.Load().budgets.Forest.Named(env, []byte(key))
}

// EntitlementsBehind reports whether a customer's entitlements are not listed before what holds
// that are over hold of budgets is added up.
func EntitlementsBehind(m *Machine, customer string, now int64) bool {
	s := m.state.Load()
	_, behind := entitlementsOf(s, s.CustomerNamed(1, []byte(customer)), now, false)
	return behind
}

// StoppedHeld is what a stopped pool still pays of what reservations held of it.
func StoppedHeld(m *Machine, pool [16]byte) string {
	s := m.state.Load()
	return s.PoolWords(s.PoolWith(&pool)).StoppedHeld.String()
}

// HeldAddsUp says where what is held is not the sum of what open reservations hold: of a feature,
// of credits, or in budgets.
func HeldAddsUp(m *Machine) error {
	s := m.state.Load()
	held := map[heldOf]decimal.Decimal{}
	for row, v := range s.holds.Rows.All() {
		words := s.holds.WordsOf(row)
		for at := v.FirstItem; at != 0; {
			i := s.holds.Items.Read(at)
			node, charge := s.budgets.Forest.HeldBy(at)
			units := heldOf{customer: v.Customer, subscription: i.Subscription, feature: i.Feature}
			credits := heldOf{customer: v.Customer, pool: i.Pool}
			open := decimal.Decimal{}
			if v.State == holds.ReservationOpen {
				open = i.Held()
				held[credits] = sums.Of(held[credits], i.Credits)
			}
			held[units] = sums.Of(held[units], open)
			if charge.Units != open && (node != 0 || words.Budget != "") {
				return fmt.Errorf("reservation %d holds %s in a budget, and %s", row, charge.Units, open)
			}
			at = i.Next
		}
	}
	for of, want := range held {
		got := s.holds.Units(of.customer, of.subscription, of.feature, math.MinInt64)
		if of.subscription == 0 {
			got = s.holds.Credits(of.customer, of.pool, math.MinInt64)
		}
		if got != want && (of.subscription != 0 || of.pool != 0) {
			return fmt.Errorf("%+v: %s are held, reservations hold %s", of, got, want)
		}
	}
	return s.budgets.Check()
}

// HeldCreditsAreThere says which hard pools have less than reservations hold of them.
func HeldCreditsAreThere(m *Machine) error {
	s := m.state.Load()
	for row, v := range s.holds.Rows.All() {
		for at := v.FirstItem; at != 0; at = s.holds.Items.Next(at) {
			pool := s.holds.Items.Read(at).Pool
			if pool == 0 {
				continue
			}
			purse := s.PurseOf(v.Customer, pool, s.Environment(s.Customers.Read(v.Customer).Env).Now(
				s.Log.Stamp()))
			balance, endless := purse.Free()
			kept := s.holds.Credits(v.Customer, pool, math.MinInt64)
			if !endless && balance.Less(kept) {
				return fmt.Errorf("reservation %d: %s credits are held of %s", row, kept, balance)
			}
		}
	}
	return nil
}

// EventsOf is how many events of its own a reservation has.
func EventsOf(m *Machine, env uint32, id [16]byte) uint32 {
	s := m.state.Load()
	row, _ := s.holds.Find(env, &id)
	return s.holds.Rows.Read(row).Events
}

// SettledAddsUp says which reservation's events do not add up to what it is settled at, but for
// those whose events callers have corrected.
func SettledAddsUp(m *Machine, src journal.Source, corrected map[[16]byte]bool) error {
	s := m.state.Load()
	type item struct {
		reservation [16]byte
		feature     uint32
	}
	recorded := map[item]decimal.Decimal{}
	err := src.Walk(nil, 1, func(r journal.Record) error {
		var e usageEntry
		var units decimal.Decimal
		switch r.Kind {
		case journal.KindUsage:
			var c RecordUsage
			if err := wire.Decode(r.Payload, &e); err != nil {
				return err
			}
			if err := wire.Decode(e.Record, &c); err != nil {
				return err
			}
			units = c.Units
		case journal.KindAmend, journal.KindVoid:
			var k correctionEntry
			if err := wire.Decode(r.Payload, &k); err != nil {
				return err
			}
			e, units = k.Original, k.Delta
		}
		of := item{e.Reservation, e.Feature}
		recorded[of] = sums.Of(recorded[of], units)
		return nil
	})
	if err != nil {
		return err
	}
	for row, v := range s.holds.Rows.All() {
		for at := v.FirstItem; at != 0; at = s.holds.Items.Next(at) {
			i := s.holds.Items.Read(at)
			if got := recorded[item{v.ID, i.Feature}]; got != i.Settled && !corrected[v.ID] {
				return fmt.Errorf("reservation %d is settled at %s, its events are %s", row, i.Settled, got)
			}
		}
	}
	return nil
}

func goldenHold() *holds.Hold {
	return &holds.Hold{
		ID: [16]byte{1, 2}, Key: [16]byte{3, 4}, Body: 5, Customer: 6, FirstItem: 7, Newer: 8, Older: 9,
		Next: 10, Previous: 11, CreatedAt: 1769871600000, ExpiresAt: 1769872200000,
		ClosedAt: 1769871600001, Events: 12, State: holds.ReservationBilled, RefuseOverrun: true,
		SettleOnExpiry: true,
	}
}

func goldenHoldItem() *holds.Item {
	return &holds.Item{
		Subscription: 1, Feature: 2, Next: 3, Pool: 4, Credits: goldenDecimal("1.5"),
		Granted: goldenDecimal("75"), Settled: goldenDecimal("0.000000000001"),
		Cost: goldenDecimal("0.02"), HasCost: true,
	}
}

// goldenHoldWords are the text of a reservation.
func goldenHoldWords() []byte {
	return wire.Encode(nil, &holds.Words{
		Key: "call-1", Meta: []byte(`{"a":1}`), Answer: []byte{1, 2},
		Overruns: []holds.Overrun{{}, {Units: goldenDecimal("7")}}, Event: "mine", Recorded: true,
		Late: true,
	})
}
