// Package holds has reservations: units of features that are held for a customer until they are
// settled or released, or expire. It decides nothing about limits, prices or credits, and records
// no usage. See DESIGN.md.
package holds

import (
	"bytes"

	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// ReservationState is what became of a reservation.
//
//schema:enum state_
type ReservationState uint8

const (
	// ReservationOpen holds what is granted and not settled.
	ReservationOpen ReservationState = 1 // open
	// ReservationSettled was settled for good.
	ReservationSettled ReservationState = 2 // settled
	// ReservationReleased was given up by its caller.
	ReservationReleased ReservationState = 3 // released
	// ReservationExpired ended at its instant; what was held was free again.
	ReservationExpired ReservationState = 4 // expired
	// ReservationBilled ended at its instant, and what was held became usage.
	ReservationBilled ReservationState = 5 // billed
)

// MaxItems is how many features one reservation may hold.
const MaxItems = 8

// Hold is a reservation. Its texts are the text of the same row.
//
//schema:row
type Hold struct {
	ID [16]byte
	// Key is a hash of the environment and the caller's reservationKey, Body one of the request.
	Key  [16]byte
	Body uint64
	// Customer is the customer's row, FirstItem the row of the first item.
	Customer, FirstItem uint32
	// Newer and Older link all of the customer's that are kept, by creation.
	Newer, Older uint32
	// Next and Previous link the customer's open ones, by the instant of expiry. Of one that is
	// closed Next is the one that was closed after it; of a free row, the next free one.
	Next, Previous uint32
	// CreatedAt and ExpiresAt are on the environment's clock.
	CreatedAt, ExpiresAt int64
	// ClosedAt is the log time at which it was closed; 0 while it is open.
	ClosedAt int64
	// Events counts the usage events that were recorded for it.
	Events uint32
	State  ReservationState // 0: the row is free
	// RefuseOverrun refuses to settle what goes beyond the hold and does not fit; else it is
	// recorded. SettleOnExpiry bills what is held when the reservation expires; else it is released.
	RefuseOverrun, SettleOnExpiry bool
	// TookKeys reports whether Words has Taken.
	TookKeys bool
}

// Over is when an open reservation expires into nothing; Never: into usage.
func (v *Hold) Over() int64 {
	if v.SettleOnExpiry {
		return rows.Never
	}
	return v.ExpiresAt
}

// Item is what a reservation holds of one feature.
//
//schema:row
type Item struct {
	// Subscription and Feature are where the units are held.
	Subscription, Feature uint32
	// Next is the reservation's next item; of a free row, the next free one.
	Next uint32
	// Pool is the name of the pools of which Credits are held; 0: of none.
	Pool    catalogs.PoolName
	Credits decimal.Decimal
	// Granted is the hold in all, Settled how much of it is usage, and what was settled beyond.
	Granted, Settled decimal.Decimal
	// Cost is the provider's cost that the caller expects, where HasCost is set.
	Cost    decimal.Decimal
	HasCost bool
}

// CostOf is how much of the expected cost falls to some of the granted units.
func (i *Item) CostOf(units decimal.Decimal) decimal.Decimal {
	return Share(i.Cost, units, i.Granted)
}

// Share is how much of the cost of some units falls to some of these.
func Share(cost, units, of decimal.Decimal) decimal.Decimal {
	if units.Less(of) {
		if share, ok := cost.Mul(units); ok {
			share, _ = share.FloorDiv(of)
			return share
		}
	}
	return cost
}

// Held is how many units of an open reservation the item still holds.
func (i *Item) Held() decimal.Decimal { return sums.Remaining(i.Granted, i.Settled) }

// Words is the cold part of a reservation.
//
//schema:quick
//schema:straight
type Words struct {
	Key string `wire:"1"`
	// Meta is the caller's JSON object.
	Meta []byte `wire:"2"`
	// Answer is what the reservation was answered with, where it was changed since; else that follows
	// from its rows and Begun, an encoded Beginning.
	Answer []byte `wire:"3"`
	// Overruns are the units of each item that went beyond the hold and did not fit; empty: none.
	Overruns []Overrun `wire:"4"`
	// Event is the idempotency key that settled it for good, where the caller named one; Recorded
	// reports whether that event was there before, and nothing was recorded.
	Event    string `wire:"5"`
	Recorded bool   `wire:"6"`
	// Late reports whether it was settled after it had expired.
	Late bool `wire:"7"`
	// Budget is the key of the budget at which it is held; empty: at none. KeyNode is the node
	// that the API key was bound to.
	Budget  string `wire:"8"`
	KeyNode uint32 `wire:"9"`
	// Parts are the event keys under which partial settlements were recorded, the newest ones; Taken
	// those that settlements named of what expiry had billed: an event under none of them is recorded
	// any more. Both have 16 bytes a key.
	Parts []byte `wire:"10"`
	Taken []byte `wire:"11"`
	// TakenAt is the log time at which the newest of Taken was taken.
	TakenAt int64 `wire:"12"`
	// LateCosts are what late settlements say of each item; empty: nothing.
	LateCosts []LateCost `wire:"13"`
	Begun     []byte     `wire:"14"`
}

// Beginning is what of a reservation's first answer its rows do not say.
//
//schema:quick
//schema:straight
type Beginning struct {
	// Index is the log entry that made it.
	Index uint64 `wire:"1"`
	// Rooms are what there was for each item.
	Rooms []Room `wire:"2"`
	// Limit is the limit of a budget that binds it most, an encoded budgets.Binding; empty: none.
	Limit []byte `wire:"3"`
}

// Append appends the encoding.
func (b *Beginning) Append(dst []byte) []byte { return b.append(dst) }

// Beginning decodes Begun. False: there is none.
func (w *Words) Beginning() (b Beginning, ok bool) {
	if len(w.Begun) == 0 || wire.Decode(w.Begun, &b) != nil {
		return b, false
	}
	for i := range b.Rooms {
		if int(b.Rooms[i].Rule) >= len(Rules) {
			return b, false
		}
	}
	return b, true
}

// Rules are what may decide about an item, by their numbers in Room, which are never reused; the
// first one is none.
var Rules = [...]string{"", RuleLimit, RulePool, RuleBudget}

const (
	RuleLimit  = "limit"
	RulePool   = "pool"
	RuleBudget = "budget"
)

// Room is what there was of a feature for an item when it was reserved.
//
//schema:quick
//schema:straight
type Room struct {
	// Rule is the number of what decided how much is granted; of an item that got all that it asked
	// for, of the first level that bounds it.
	Rule uint8 `wire:"1"`
	// Limit is that of the feature, Remaining what it leaves after the item, where HasLimit is set.
	HasLimit  bool            `wire:"2"`
	Limit     decimal.Decimal `wire:"3"`
	Remaining decimal.Decimal `wire:"4"`
	// Credits are those that the item's pools have left behind the reservation, where HasCredits is
	// set: not where one of the pools has no limit.
	HasCredits bool            `wire:"5"`
	Credits    decimal.Decimal `wire:"6"`
}

// MaxParts is how many of Parts are kept, MaxTaken how many of Taken there may be.
const (
	MaxParts = 32
	MaxTaken = 64
)

// Own reports whether an event key is one of the reservation's own.
func (w *Words) Own(key *[16]byte) bool { return hasKey(w.Parts, key) || hasKey(w.Taken, key) }

func hasKey(keys []byte, key *[16]byte) bool {
	for ; len(keys) >= len(key); keys = keys[len(key):] {
		if bytes.Equal(keys[:len(key)], key[:]) {
			return true
		}
	}
	return false
}

// AddPart notes the event key of a partial settlement.
func (w *Words) AddPart(key *[16]byte) {
	w.Parts = append(w.Parts, key[:]...)
	w.Parts = w.Parts[max(0, len(w.Parts)-MaxParts*len(key)):]
}

// Overrun is what an item recorded beyond its hold although it did not fit.
//
//schema:quick
//schema:straight
type Overrun struct {
	Units decimal.Decimal `wire:"1"`
}

// LateCost is what late settlements, up to a running total of units, say that an item costs the
// provider.
//
//schema:quick
//schema:straight
type LateCost struct {
	Units decimal.Decimal `wire:"1"`
	Cost  decimal.Decimal `wire:"2"`
	// Unstated is set while none has stated a cost: Cost is 0, and follows from the units.
	Unstated bool `wire:"3"`
}

// Stated reports whether a settlement has stated a cost.
func (l *LateCost) Stated() bool { return !l.Units.IsZero() && !l.Unstated }
