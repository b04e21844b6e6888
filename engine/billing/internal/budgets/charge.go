package budgets

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/decimal"
	"tollgate/engine/machine"
	"tollgate/engine/wire"
)

// Refusal is the limit that refuses a charge, or the node, where that is frozen or archived.
type Refusal struct {
	Budget string  `wire:"40"` // the node's key
	Of     Measure `wire:"41"`
	// Feature is the key of the feature whose usage the limit counts; empty: of all.
	Feature  string          `wire:"42"`
	Currency string          `wire:"43"` // of a price
	Window   Window          `wire:"44"`
	Used     decimal.Decimal `wire:"45"`
	Held     decimal.Decimal `wire:"46"`
	Limit    decimal.Decimal `wire:"47"`
	Start    int64           `wire:"48"`
	End      int64           `wire:"49"`
	// Index is the log entry that refused.
	Index uint64 `wire:"50"`
	// Stays is set where a settlement is refused: the reservation stays open, and is billed when it
	// expires.
	Stays bool `wire:"51"`

	// Number is that of the feature, Row the limit's.
	Number, Row uint32
}

// For says whom a charge is for: the node that the request names, the customer, and the node that
// the request's API key is bound to.
type For struct {
	Env, Customer uint32
	Named         []byte
	KeyNode       uint32
}

// Choose is the node that a request counts at: the one that it names, else the lower one of the
// customer's and the API key's; 0: no budget applies. It must be at or below both of these, and
// where there are none, none can be named: false. It allocates nothing, and takes a pointer, since
// a copy of what was just written would wait for that.
func (f *Forest) Choose(w *For) (node uint32, ok bool) {
	if !f.Any(w.Env) {
		return 0, len(w.Named) == 0 && w.KeyNode == 0
	}
	node = f.Own(w.Customer)
	if w.KeyNode != 0 {
		switch {
		case w.KeyNode > f.nodes.Len() || f.nodes.Read(w.KeyNode).Env != w.Env:
			return 0, false
		case node == 0 || f.Within(w.KeyNode, node):
			node = w.KeyNode
		case !f.Within(node, w.KeyNode):
			return 0, false
		}
	}
	if len(w.Named) == 0 {
		return node, true
	}
	named := f.Named(w.Env, w.Named)
	return named, named != 0 && node != 0 && f.Within(named, node)
}

// Within reports whether a node is another one, or below it.
func (f *Forest) Within(node, other uint32) bool {
	for ; node != 0; node = f.nodes.Read(node).Parent {
		if node == other {
			return true
		}
	}
	return false
}

// Plan decides whether charges may count at a node, together: the first that refuses, from the
// node up to its root, of each its limits in the order of its document. Ask and Charge keep to the
// same order, and so does what an event's record names. It changes nothing, and allocates nothing.
// A charge of nothing is refused only by a node that is frozen or archived.
func (f *Forest) Plan(node uint32, charges []Charge, now int64) (r Refusal, o engine.Outcome) {
	return plan(f, node, charges, now, planning{})
}

// Foresee is Plan for checks: with full set a hard limit that is reached refuses a charge of
// nothing, too, and holds that are over hold nothing, whether or not a tick has ended them. Where
// it refuses and the forest is Behind, it may admit once that has been caught up with.
func (f *Forest) Foresee(node uint32, charges []Charge, now int64, full bool) (
	r Refusal, o engine.Outcome,
) {
	return plan(f, node, charges, now, planning{check: true, full: full})
}

// planning says how plan asks limits: see Foresee.
type planning struct{ check, full bool }

func plan(f *Forest, node uint32, charges []Charge, now int64, as planning) (
	r Refusal, o engine.Outcome,
) {
	for at := node; at != 0; {
		n := f.nodes.Read(at)
		switch {
		case n.Archived:
			return Refusal{Budget: f.Key(at)}, engine.OutcomeBudgetArchived
		case n.Frozen:
			return Refusal{Budget: f.Key(at)}, engine.OutcomeBudgetFrozen
		}
		for row := n.FirstLimit; row != 0; {
			l := f.limits.Read(row)
			held := l.Held
			o = l.admits(charges, held, now, as.full)
			if o != engine.OutcomeDone && as.check {
				held = unexpired(f, row)
				o = l.admits(charges, held, now, as.full)
			}
			if o != engine.OutcomeDone {
				return f.refusal(row, held, now), o
			}
			row = l.Next
		}
		at = n.Parent
	}
	return r, engine.OutcomeDone
}

// admits reports whether charges fit a limit that holds so much.
func (l *Limit) admits(
	charges []Charge, held decimal.Exact, now int64, full bool,
) engine.Outcome {
	sum, asked, ok := decimal.Exact{}, false, true
	for i := range charges {
		if amount, takes := l.takes(&charges[i]); takes {
			if sum, ok = sum.Add(amount); !ok {
				return engine.OutcomeOverflow
			}
			asked = true
		}
	}
	if !asked {
		return engine.OutcomeDone
	}
	return l.admit(sum, held, now, full)
}

// admit reports whether a sum fits a limit that holds so much.
func (l *Limit) admit(sum, held decimal.Exact, now int64, full bool) engine.Outcome {
	total, ok := l.used(now).Add(held)
	if !ok {
		return engine.OutcomeOverflow
	}
	limit := l.Max.Exact()
	if full && !l.Soft && total.Cmp(limit) >= 0 {
		return engine.OutcomeBudgetExceeded
	}
	if total, ok = total.Add(sum); !ok || !total.InRange() {
		return engine.OutcomeOverflow
	}
	if !l.Soft && sum.Sign() > 0 && total.Cmp(limit) > 0 {
		return engine.OutcomeBudgetExceeded
	}
	return engine.OutcomeDone
}

// Ask is Plan of one charge, in its order, which Charge may count next. A refusal is nil where
// there is none.
func (f *Forest) Ask(node uint32, c *Charge, now int64) (refused *Refusal, o engine.Outcome) {
	f.taken, f.visited = 0, 0
	currency, price := c.short()
	taken, visited := 0, 0
	for row := f.first.At(node); row != 0; visited++ {
		if row == shut {
			return refuse(f, node, c, now)
		}
		l := f.limits.Read(row)
		if !l.plain(currency, price, now) {
			if l.code == refusing {
				return refuse(f, node, c, now)
			}
			amount, takes := l.takes(c)
			if !takes {
				row = l.above
				continue
			}
			if refused, o = ask(f, row, &amount, now); o != engine.OutcomeDone {
				return refused, o
			}
		}
		f.takings[taken&(len(f.takings)-1)] = row
		taken++
		row = l.above
	}
	f.taken, f.visited = taken, visited
	return nil, engine.OutcomeDone
}

// refuse is Ask where a node on the way is frozen or archived.
func refuse(f *Forest, node uint32, c *Charge, now int64) (*Refusal, engine.Outcome) {
	r, o := f.Plan(node, []Charge{*c}, now)
	return &r, o
}

// ask is Ask of a limit.
func ask(f *Forest, row uint32, amount *decimal.Exact, now int64) (*Refusal, engine.Outcome) {
	l := f.limits.Read(row)
	if now < l.End && decimal.Within(l.Max, &l.Used, &l.Held, amount) {
		return nil, engine.OutcomeDone
	}
	o := l.admit(*amount, l.Held, now, false)
	if o == engine.OutcomeDone {
		return nil, o
	}
	r := f.refusal(row, l.Held, now)
	return &r, o
}

// refusal describes a limit that holds so much, as of an instant.
func (f *Forest) refusal(row uint32, held decimal.Exact, now int64) Refusal {
	l := f.limits.Read(row)
	r := Refusal{
		Budget: f.Key(l.Node), Of: l.Of, Window: l.Window, Limit: l.Max, Number: l.Feature, Row: row,
		Used: rounded(l.used(now)), Held: rounded(held),
	}
	if l.Of == MeasurePrice {
		r.Currency = currencyText(l.Currency)
	}
	r.Start, r.End = f.bounds(l, now)
	return r
}

// rounded is an amount as answers have it, with 12 decimals.
func rounded(x decimal.Exact) decimal.Decimal {
	d, ok := x.Round(decimal.Scale)
	if !ok {
		return decimal.Largest()
	}
	return d
}

// Counted is what an event counted, for its journal record: so much in each of its limits, in the
// windows of At.
type Counted struct {
	Feature  uint32          `wire:"1"`
	Currency string          `wire:"2"`
	Units    decimal.Decimal `wire:"3"`
	Cost     decimal.Decimal `wire:"4"`
	// Price is that of the charge, in as few bytes as it takes: see exactOf.
	Price []byte `wire:"5"`
	At    int64  `wire:"6"`
	// Limits has the row and the number Born of each, as uvarints.
	Limits []byte `wire:"7"`
	// Node is where a correction by a bound key made the event count; 0: the event's request says.
	Node uint32 `wire:"8"`
}

// appendHead appends the fields of Counted but for Limits, which follow, and Node.
func appendHead(f *Forest, dst []byte, c *Charge, now int64) []byte {
	dst = wire.AppendUint(dst, 1, uint64(c.Feature))
	if c.Currency != [3]byte{} {
		dst = append(dst, 2<<3|2, 3, c.Currency[0], c.Currency[1], c.Currency[2])
	}
	dst = wire.AppendDecimal(dst, 3, c.Units)
	dst = wire.AppendDecimal(dst, 4, c.Cost)
	begin := len(dst) + 2
	dst = appendExact(wire.OpenMessage(dst, 5), c.Price)
	if len(dst) > begin {
		dst[begin-1] = byte(len(dst) - begin)
	} else {
		dst = dst[:begin-2]
	}
	if f.at.now != now {
		var text [binary.MaxVarintLen64 + 1]byte
		f.at.now, f.at.text = now, briefOf(wire.AppendInt(text[:0], 6, now))
	}
	if f.at.text == 0 {
		return wire.AppendInt(dst, 6, now)
	}
	return f.at.text.append(dst)
}

// AppendNode appends Node to a Counted that has none.
func AppendNode(record []byte, node uint32) []byte {
	return wire.AppendUint(record, 8, uint64(node))
}

// Charge is the charge that was counted.
func (k *Counted) Charge() (c Charge) {
	c = Charge{Feature: k.Feature, Units: k.Units, Cost: k.Cost, Price: exactOf(k.Price)}
	copy(c.Currency[:], k.Currency)
	return c
}

// set replaces the charge.
func (k *Counted) set(c *Charge) {
	k.Feature, k.Units, k.Cost, k.Price = c.Feature, c.Units, c.Cost, appendExact(k.Price[:0], c.Price)
	k.Currency = ""
	if c.Currency != [3]byte{} {
		k.Currency = currencyText(c.Currency)
	}
}

// exactOf is the amount that has these bytes in two's complement, little endian: those that are
// missing repeat the sign, and none are 0.
func exactOf(b []byte) decimal.Exact {
	var whole [32]byte
	if n := copy(whole[:], b); n > 0 && b[n-1] >= 0x80 {
		for i := n; i < len(whole); i++ {
			whole[i] = 0xff
		}
	}
	var words [4]uint64
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(whole[8*i:])
	}
	return decimal.ExactOf(words)
}

// appendExact appends the bytes of an amount.
func appendExact(dst []byte, x decimal.Exact) []byte {
	if above, ok := x.Above(); ok && above>>63 == 0 { // nearly always
		low, _ := x.Low()
		n := (bits.Len64(low) + 8) / 8 // with a bit for the sign
		if above != 0 {
			n = 8 + (bits.Len64(above)+8)/8
		} else if low == 0 {
			n = 0
		}
		dst = binary.LittleEndian.AppendUint64(dst, low)
		return binary.LittleEndian.AppendUint64(dst, above)[:len(dst)-8+n]
	}
	words := x.Words()
	sign := uint64(int64(words[3]) >> 63)
	top := len(words) - 1
	for top > 0 && words[top] == sign {
		top--
	}
	n := 8*top + (bits.Len64(words[top]^sign)+8)/8 // with a bit for the sign
	for _, word := range words {                   // all of them: a copy of n bytes takes longer
		dst = binary.LittleEndian.AppendUint64(dst, word)
	}
	return dst[:len(dst)-8*len(words)+n]
}

// Crossing is a threshold that a charge has reached.
type Crossing struct {
	Refusal // the limit, as it is now
	Name    string
	Percent uint8
	Soft    bool
}

// Charge counts a charge at a node and each above it, at an instant, whatever limits say. asked is
// set where Ask has admitted it last: it counts where it was asked for, and is beyond no limit. It
// appends to record what counted where, as Counted.
func (f *Forest) Charge(
	t *accounts.Tx, env, node uint32, c *Charge, now int64, asked bool, record []byte,
) (described []byte, crossed []Crossing) {
	if !asked {
		all(f, node)
	}
	currency, price := c.short()
	low, _ := c.Price.Low()
	limits := appendHead(f, slices.Grow(record, recordBytes), c, now)
	head := len(limits)
	limits = wire.OpenMessage(limits, 7)
	begin := len(limits)
	mixed := uint64(0)
	lock := f.Lock(env)
	lock.Lock()
	handing := f.limits.Handing()
	for _, row := range f.takings[:f.taken] {
		l := f.limits.Read(row)
		if handing {
			l = f.limits.Write(row)
		}
		if l.plain(currency, price, now) {
			l.Used.IncreaseLow(low, price)
		} else {
			var takes bool
			if crossed, takes = count(f, t, row, c, now, asked, crossed); !takes {
				continue
			}
		}
		if l.text != 0 {
			limits = l.text.append(limits)
		} else {
			limits = binary.AppendUvarint(limits, uint64(row))
			limits = binary.AppendUvarint(limits, l.Born)
		}
		used, above := l.Used.Low()
		mixed = bits.RotateLeft64(mixed, 23) ^ uint64(row)<<32 ^ used ^ above<<1
	}
	lock.Unlock()
	t.Fold(mixed)
	t.Spend(f.visited / limitsPerUnit)
	if len(limits) == begin {
		return limits[:head], crossed
	}
	return wire.CloseMessage(limits, begin), crossed
}

// recordBytes is room for a Counted of the usual number of limits.
const recordBytes = 256

// all notes all limits at a node and above it.
func all(f *Forest, node uint32) {
	f.taken, f.visited = 0, 0
	for at := node; at != 0; at = f.nodes.Read(at).Parent {
		for row := f.nodes.Read(at).FirstLimit; row != 0; row = f.limits.Read(row).Next {
			f.takings[f.taken] = row
			f.taken++
		}
	}
	f.visited = f.taken
}

// count counts what a limit takes of a charge; false: nothing.
func count(
	f *Forest, t *accounts.Tx, row uint32, c *Charge, now int64, asked bool, crossed []Crossing,
) ([]Crossing, bool) {
	l := f.limits.Write(row)
	amount, takes := l.takes(c)
	if !takes {
		return crossed, false
	}
	if now >= l.End {
		f.roll(row, l, now)
		t.Hash = l.fold(t.Hash, row) // for the window: Charge mixes in only what it has used
	}
	l.Used.Increase(&amount)
	l.Touched = true
	if !asked {
		l.Overrun = l.Overrun || amount.Sign() > 0 && l.over(l.Held)
	}
	if l.Thresholds[0] != 0 {
		crossed = cross(f, crossed, row, l, &amount, now)
	}
	l.measure()
	return crossed, true
}

// over reports whether a hard limit's used and so much more are beyond it.
func (l *Limit) over(more decimal.Exact) bool {
	total, ok := l.Used.Add(more)
	return !l.Soft && (!ok || total.Cmp(l.Max.Exact()) > 0)
}

// fold mixes what a limit has counted into a hash.
func (l *Limit) fold(hash uint64, row uint32) uint64 {
	used, above := l.Used.Low()
	held, aboveHeld := l.Held.Low()
	limit := machine.Fold(uint64(row)<<32^used^above<<1, uint64(l.Start)^held^aboveHeld<<1)
	return machine.Fold(hash, limit) // one multiplication waits for the limit before
}

// reached is the highest threshold that the limit's use has come to; 0: none.
func (l *Limit) reached() (percent uint8) {
	if l.Thresholds[0] == 0 || l.Used.Sign() <= 0 {
		return 0
	}
	for _, threshold := range l.Thresholds {
		if threshold == 0 || l.Used.Cmp(decimal.Product(l.Max, percents(threshold))) < 0 {
			break
		}
		percent = threshold
	}
	return percent
}

// each visits the limits in which an event counted and that are still there, with the windows: the
// present one of the limit where closed is nil.
func (f *Forest) each(k *Counted, visit func(row uint32, l *Limit, closed uint32)) {
	for rest := k.Limits; len(rest) > 0; {
		number, n := binary.Uvarint(rest)
		if n <= 0 {
			return
		}
		born, m := binary.Uvarint(rest[n:])
		if m <= 0 {
			return
		}
		rest = rest[n+m:]
		row := uint32(number)
		if row == 0 || row > f.limits.Len() || f.limits.Read(row).Born != born || born == 0 {
			continue
		}
		l := f.limits.Read(row)
		if l.Start <= k.At && k.At < l.End {
			visit(row, l, 0)
			continue
		}
		for at := l.FirstClosed; at != 0; at = f.windows.Read(at).Next {
			if w := f.windows.Read(at); w.Start <= k.At && k.At < w.End {
				visit(row, l, at)
				break
			}
		}
	}
}

// CountedWithin reports whether an event counts at a node or below it: a correction made it count
// there, or one of the limits that have counted it is there.
func CountedWithin(f *Forest, k *Counted, node uint32) (within bool) {
	if k.Node != 0 && f.Within(k.Node, node) {
		return true
	}
	f.each(k, func(_ uint32, l *Limit, _ uint32) { within = within || f.Within(l.Node, node) })
	return within
}

// cross adds the threshold that a limit has reached with an amount, where that was not told in its
// window, and somebody listens.
func cross(
	f *Forest, crossed []Crossing, row uint32, l *Limit, amount *decimal.Exact, now int64,
) []Crossing {
	percent := l.reached()
	if percent <= l.Told {
		return crossed
	}
	before := Limit{Max: l.Max, Thresholds: l.Thresholds}
	before.Used, _ = l.Used.Sub(*amount)
	if percent <= before.reached() || !wanted(f, l) {
		return crossed
	}
	l.Told = percent
	return append(crossed, Crossing{
		Refusal: f.refusal(row, l.Held, now), Name: f.names.Read(l.Node).Data,
		Percent: percent, Soft: l.Soft,
	})
}

// wanted reports whether an endpoint wants the thresholds of a limit.
func wanted(f *Forest, l *Limit) bool {
	return f.Wanted == nil || f.Wanted(f.nodes.Read(l.Node).Env)
}

// currencyText is a currency without an allocation, for those that are usual.
func currencyText(c [3]byte) string {
	switch c {
	case [3]byte{'U', 'S', 'D'}:
		return "USD"
	case [3]byte{'E', 'U', 'R'}:
		return "EUR"
	}
	return string(c[:])
}
