package budgets

import (
	"encoding/binary"

	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
)

// Bounds of budgets.
const (
	// MaxLevels is how many nodes lie between a root and a leaf, both included.
	MaxLevels = 8
	// MaxLimits is how many limits a node has.
	MaxLimits = 8
	// MaxThresholds is how many thresholds a limit has.
	MaxThresholds = 8
	// MaxWindows is how many closed windows of a limit are kept: those that counted anything.
	MaxWindows = 24
	// MaxNodes is how many nodes an environment has, archived ones included.
	MaxNodes = 10_000
	// MaxZones is how many time zones the limits of an environment may have named.
	MaxZones = 100
)

// limitsPerUnit is how many limits a charge or a hold visits for a unit of an entry's work. A limit
// takes 0.13 µs: the longest entry of the smallest events takes 5 ms, whatever its budgets.
const limitsPerUnit = 8

// Measure is what a limit counts. Numbers are never reused.
//
//schema:enum
type Measure uint8

const (
	// MeasureUnits counts units of one feature.
	MeasureUnits Measure = 1 // units
	// MeasurePrice counts what usage adds to bills in one currency.
	MeasurePrice Measure = 2 // price
	// MeasureCost counts what the providers of usage take.
	MeasureCost Measure = 3 // cost
)

// Node is a budget. Its environment and its key never change, and it is never removed.
//
//schema:row
type Node struct {
	CreatedAt, ModifiedAt                        int64
	Env, Parent, Customer, FirstLimit, FirstHeld uint32
	// Children counts the nodes right below it, archived ones included.
	Children         uint32
	Frozen, Archived bool
}

// changed notes that the budget was changed, at an instant that no change before it has: PutBudget
// names a change by it in Expects.
func (n *Node) changed(now int64) { n.ModifiedAt = max(now, n.ModifiedAt+1) }

// Status is what a budget's answers call its state.
func (n *Node) Status() string {
	switch {
	case n.Archived:
		return "ARCHIVED"
	case n.Frozen:
		return "FROZEN"
	}
	return "ACTIVE"
}

// Limit is a limit of a node, with what its present window has used. What a usual event needs of it
// is in one line of the cache, its first 64 bytes, and a row is three lines.
//
//schema:row Feature Zone Currency Of Window Max Used Held Start End Born Node Next
//schema:row FirstClosed LastClosed Count Thresholds Told Soft Touched Overrun
//schema:row -room -text -above -code
type Limit struct {
	// Used is what counted in [Start, End), Held what is held whatever the window.
	Used decimal.Exact
	End  int64
	shortcut
	limitKey
	Max   decimal.Decimal
	Held  decimal.Exact
	Start int64
	// Born numbers the limits that there have been: events name by it what they counted in, since
	// rows are used again. 0: the row is free.
	Born                           uint64
	Node, Next                     uint32
	FirstClosed, LastClosed, Count uint32
	Thresholds                     [MaxThresholds]byte
	// Told is the highest threshold that was told in the window.
	Told uint8
	Soft bool
	// Touched reports whether the window counted anything, Overrun whether it counted anything
	// beyond a hard limit.
	Touched, Overrun bool
	_                [16]byte
}

// shortcut is what follows from the rest of a limit, and from the tree, for events that plainly
// fit: they need nothing else of it. It is not state, and never changes an outcome.
type shortcut struct {
	// room bounds Used and a price together, both truncated to units of 2⁶⁴: below it they are below
	// the limit less what is held, and below the next threshold. 0: what an event counts has to be
	// decided, as where the window has counted nothing yet.
	room uint64
	// text is the row and Born as Counted.Limits has them.
	text brief
	// above is the next limit on the way to the root: see Forest.first.
	above uint32
	// code is that of the limit's currency, where it is of the price of all features; 0: it is not;
	// refusing: the limit is the first of a node that is frozen or archived.
	code uint32
}

// limitKey is what makes a limit another one: while it stays, the limit goes on counting.
type limitKey struct {
	Feature, Zone uint32
	Currency      [3]byte
	Of            Measure
	Window        Window
}

// Closed is a window of a limit that is over.
//
//schema:row
type Closed struct {
	Start, End  int64
	Used        decimal.Exact
	Max         decimal.Decimal
	Limit, Next uint32
	Overrun     bool
}

// Charge is what usage, or a hold, counts. A price that is not known is 0.
type Charge struct {
	Feature     uint32
	Currency    [3]byte
	Units, Cost decimal.Decimal
	Price       decimal.Exact
}

// takes is how much of a charge a limit counts; false: nothing, and it is not asked.
func (l *limitKey) takes(c *Charge) (amount decimal.Exact, takes bool) {
	if l.Feature != 0 && l.Feature != c.Feature {
		return amount, false
	}
	switch l.Of {
	case MeasureUnits:
		return c.Units.Exact(), true
	case MeasurePrice:
		return c.Price, l.Currency == c.Currency
	}
	return c.Cost.Exact(), true
}

// used is what counts at an instant: nothing once the window is over.
func (l *Limit) used(now int64) decimal.Exact {
	if now >= l.End {
		return decimal.Exact{}
	}
	return l.Used
}

// Neg is the charge that takes c back.
func (c Charge) Neg() Charge {
	c.Units, c.Cost, c.Price = c.Units.Neg(), c.Cost.Neg(), c.Price.Neg()
	return c
}

// Exceeds reports whether a limit may take more of the charge than of another one.
func (c *Charge) Exceeds(other *Charge) bool {
	return other.Units.Less(c.Units) || other.Cost.Less(c.Cost) ||
		c.Currency != other.Currency && c.Price.Sign() > 0 || c.Price.Cmp(other.Price) > 0
}

// Within is the charge, with no more price and cost than another one leaves that was held, once a
// part of that has counted.
func (c Charge) Within(held, part *Charge) Charge {
	c.Cost = decimal.Min(c.Cost, sums.Remaining(held.Cost, part.Cost))
	if c.Currency != held.Currency {
		return c
	}
	left := held.Price
	if part.Currency == held.Currency {
		left, _ = left.Sub(part.Price)
	}
	switch {
	case left.Sign() <= 0:
		c.Price = decimal.Exact{}
	case left.Cmp(c.Price) < 0:
		c.Price = left
	}
	return c
}

// add adds another charge of the same feature and currency. False: a sum leaves the range of
// numbers, and is meaningless.
func (c *Charge) add(other *Charge) bool {
	var ok [3]bool
	c.Units, ok[0] = c.Units.Add(other.Units)
	c.Cost, ok[1] = c.Cost.Add(other.Cost)
	c.Price, ok[2] = c.Price.Add(other.Price)
	return ok == [3]bool{true, true, true}
}

// Tally is the sum of what is held at one node of one feature in one currency. What limits hold
// follows from it wherever the node is.
//
//schema:row
type Tally struct {
	Charge
	Node, Next uint32
}

// Item is what an item of a hold holds at a node; node 0: the row is free.
//
//schema:row
type Item struct {
	Charge
	Node uint32
	// Of is the row of the hold's item; of a free row, the next free one.
	Of uint32
}

func percents(n uint8) decimal.Decimal { return decimal.FromBits(0, uint64(n)*1e10) }

// brief is up to seven bytes of a record that are stored at once, with their number in the highest
// byte; 0: there are none, or more.
type brief uint64

func briefOf(text []byte) (b brief) {
	if len(text) > 7 {
		return 0
	}
	for i, x := range text {
		b |= brief(x) << (8 * i)
	}
	return b | brief(len(text))<<56
}

func (b brief) append(dst []byte) []byte {
	end := len(dst) + int(b>>56)
	return binary.LittleEndian.AppendUint64(dst, uint64(b))[:end]
}
