package budgets

import (
	"slices"
	"strconv"
	"strings"

	"tollgate/engine/decimal"
)

// Names says what the forest refers to by number.
type Names struct {
	Feature, Customer func(number uint32) string
}

// Description is a node in words, for the record of changes.
type Description struct{ Name, Parent, Customer, Limits string }

// Describe describes a node; the zero Description where there is none.
func (f *Forest) Describe(env uint32, key string, names Names) (d Description) {
	row := f.Named(env, []byte(key))
	if row == 0 {
		return d
	}
	n := f.nodes.Read(row)
	d.Name = f.names.Read(row).Data
	if n.Parent != 0 {
		d.Parent = f.Key(n.Parent)
	}
	if n.Customer != 0 {
		d.Customer = names.Customer(n.Customer)
	}
	var limits []string
	for at := n.FirstLimit; at != 0; at = f.limits.Read(at).Next {
		limits = append(limits, f.limits.Read(at).words(f, names))
	}
	d.Limits = strings.Join(limits, "; ")
	return d
}

// words are a limit's: "price of tokens 40 USD a day (Europe/Berlin), soft, told at 50 %, 90 %".
func (l *Limit) words(f *Forest, names Names) string {
	var b strings.Builder
	b.WriteString(l.Of.String())
	if l.Feature != 0 {
		b.WriteString(" of " + names.Feature(l.Feature))
	}
	b.WriteString(" " + l.Max.String())
	if l.Of == MeasurePrice {
		b.WriteString(" " + currencyText(l.Currency))
	}
	b.WriteString(" a " + l.Window.String())
	if l.Zone != 0 {
		b.WriteString(" (" + f.zone(l.Zone).Name + ")")
	}
	if l.Soft {
		b.WriteString(", soft")
	}
	for i, percent := range l.percents() {
		if i == 0 {
			b.WriteString(", told at ")
		} else {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Itoa(int(percent)) + " %")
	}
	return b.String()
}

// percents are the limit's thresholds.
func (l *Limit) percents() (percents []uint8) {
	for _, percent := range l.Thresholds {
		if percent != 0 {
			percents = append(percents, percent)
		}
	}
	return percents
}

// BudgetLimitView is a limit with what its present window has used.
//
//schema:answer billingview BudgetLimit
type BudgetLimitView struct {
	Of         Measure         `json:"of"`
	FeatureKey string          `json:"featureKey,omitzero" rule:"min=1,max=128"`
	Currency   string          `json:"currency,omitzero" rule:"min=3,max=3"` // of a price
	Limit      decimal.Decimal `json:"limit"`
	Window     Window          `json:"window"`
	TimeZone   string          `json:"timeZone,omitzero" rule:"min=1,max=64"`
	Mode       string          `json:"mode,omitzero" rule:"oneof=hard|soft"`
	Thresholds []byte          `json:"thresholds,omitzero" as:"list" rule:"min=1,max=100"`
	// Used and Held are rounded to 12 decimals; Remaining is what is left, never below zero.
	Used      decimal.Decimal `json:"used"`
	Held      decimal.Decimal `json:"held"`
	Remaining decimal.Decimal `json:"remaining"`
	// Start is when the window begins that the query is in; End is 0 where it never ends.
	Start   int64 `json:"windowStart,omitzero" as:"time"`
	End     int64 `json:"windowEnd,omitzero" as:"time"`
	Overrun bool  `json:"overrun"`
}

// BindingLimitView is the hard limit of a budget, or of one above it, that has the smallest part
// left.
//
//schema:answer billingview BindingLimit
type BindingLimitView struct {
	Budget string `json:"budget" rule:"min=1,max=128"`
	BudgetLimitView
}

// ClosedBudgetView is a budget that takes nothing, at itself and below it.
//
//schema:answer billingview ClosedBudget
type ClosedBudgetView struct {
	Budget string `json:"budget" rule:"min=1,max=128"`
	Status string `json:"status" rule:"oneof=FROZEN|ARCHIVED"`
}

// BudgetView is a budget with its limits.
//
//schema:answer billingview Budget
type BudgetView struct {
	Key      string `json:"budget" rule:"min=1,max=128"`
	Name     string `json:"name" rule:"min=1,max=128"`
	Parent   string `json:"parent,omitzero" rule:"min=1,max=128"`
	Customer string `json:"customerReferenceId,omitzero" rule:"min=1,max=128"`
	Status   string `json:"status" rule:"oneof=ACTIVE|FROZEN|ARCHIVED"`
	// ClosedBy is the nearest budget above this one that is frozen or archived, and so refuses here,
	// too; nil where none is.
	ClosedBy *ClosedBudgetView `json:"closedBy,omitzero"`
	Children uint32            `json:"children"`
	Limits   []BudgetLimitView `json:"limits"`
	// Binding is the hard limit of this node or of one above it that has the smallest part left;
	// nil where there is no hard limit.
	Binding    *BindingLimitView `json:"binding,omitzero"`
	CreatedAt  int64             `json:"createdAt" as:"time"`
	ModifiedAt int64             `json:"modifiedAt" as:"time"`
}

// View describes a node as of an instant; false where there is none. The caller holds the lock that
// Current returns, as for all that follows.
func (f *Forest) View(env uint32, key []byte, now int64, names Names) (v BudgetView, ok bool) {
	row := f.Named(env, key)
	if row == 0 {
		return v, false
	}
	return f.view(row, now, names), true
}

// OwnView describes a customer's own node as of an instant; false where there is none. The caller
// holds the lock.
func (f *Forest) OwnView(customer uint32, now int64, names Names) (v BudgetView, ok bool) {
	row := f.Own(customer)
	if row == 0 {
		return v, false
	}
	return f.view(row, now, names), true
}

func (f *Forest) view(row uint32, now int64, names Names) (v BudgetView) {
	n := f.nodes.Read(row)
	v = BudgetView{
		Key: f.Key(row), Name: f.names.Read(row).Data, Status: n.Status(), Children: n.Children,
		CreatedAt: n.CreatedAt, ModifiedAt: n.ModifiedAt,
	}
	if n.Parent != 0 {
		v.Parent = f.Key(n.Parent)
	}
	if n.Customer != 0 {
		v.Customer = names.Customer(n.Customer)
	}
	for at := n.FirstLimit; at != 0; at = f.limits.Read(at).Next {
		v.Limits = append(v.Limits, f.limitView(at, now, names))
	}
	for up := n.Parent; up != 0 && v.ClosedBy == nil; up = f.nodes.Read(up).Parent {
		if above := f.nodes.Read(up); above.Frozen || above.Archived {
			v.ClosedBy = &ClosedBudgetView{Budget: f.Key(up), Status: above.Status()}
		}
	}
	for up := row; up != 0; up = f.nodes.Read(up).Parent {
		for at := f.nodes.Read(up).FirstLimit; at != 0; at = f.limits.Read(at).Next {
			l := f.limitView(at, now, names)
			if b := v.Binding; l.Mode == hard &&
				(b == nil || tighter(l.Remaining, l.Limit, b.Remaining, b.Limit)) {
				v.Binding = &BindingLimitView{f.Key(up), l}
			}
		}
	}
	return v
}

// hard is the mode of a limit that refuses.
const hard = "hard"

// limitView describes a limit.
func (f *Forest) limitView(row uint32, now int64, names Names) BudgetLimitView {
	l := f.limits.Read(row)
	held := unexpired(f, row)
	v := BudgetLimitView{
		Of: l.Of, Limit: l.Max, Window: l.Window, TimeZone: UTC, Mode: hard,
		Thresholds: l.percents(), Used: rounded(l.used(now)), Held: rounded(held),
		Remaining: l.left(held, now), Overrun: l.Overrun && now < l.End,
	}
	if l.Soft {
		v.Mode = "soft"
	}
	v.Start, v.End = f.bounds(l, now)
	if l.Zone != 0 {
		v.TimeZone = f.zone(l.Zone).Name
	}
	if l.Feature != 0 {
		v.FeatureKey = names.Feature(l.Feature)
	}
	if l.Of == MeasurePrice {
		v.Currency = currencyText(l.Currency)
	}
	return v
}

// List returns the children of a parent, or the roots if parent is empty, in order of creation. The
// page begins after the key after; next is its last key if more follow. ok is false if the parent
// does not exist. The caller holds the lock.
func (f *Forest) List(
	env uint32, parent, after string, limit int, now int64, names Names,
) (views []BudgetView, next string, ok bool) {
	above := uint32(0)
	if parent != "" {
		if above = f.Named(env, []byte(parent)); above == 0 {
			return nil, "", false
		}
	}
	e := f.in(env)
	if e == nil {
		return nil, "", true
	}
	last := f.Named(env, []byte(after))
	for _, row := range e.nodes {
		if row <= last || f.nodes.Read(row).Parent != above {
			continue
		}
		if len(views) == limit {
			return views, views[limit-1].Key, true
		}
		views = append(views, f.view(row, now, names))
	}
	return views, "", true
}

// Below returns a function that reports whether a budget, by its key, is one of an environment's or
// below it; false where there is none of that key. It takes the lock itself.
func Below(f *Forest, env uint32, key string) (within func(key string) bool, ok bool) {
	lock := f.Lock(env)
	lock.RLock()
	defer lock.RUnlock()
	node := f.Named(env, []byte(key))
	known := map[string]bool{"": false}
	return func(key string) bool {
		at, has := known[key]
		if !has {
			lock.RLock()
			row := f.Named(env, []byte(key))
			at = row != 0 && f.Within(row, node)
			lock.RUnlock()
			known[key] = at
		}
		return at
	}, node != 0
}

// BudgetWindowView is a window of a limit that is over.
//
//schema:answer billingview BudgetWindow
type BudgetWindowView struct {
	Start   int64           `json:"windowStart" as:"time"`
	End     int64           `json:"windowEnd,omitzero" as:"time"`
	Used    decimal.Decimal `json:"used"`
	Limit   decimal.Decimal `json:"limit"`
	Overrun bool            `json:"overrun"`
}

// Windows returns the kept closed windows of each limit of a node, newest first. ok is false if the
// node does not exist. The caller holds the lock.
func (f *Forest) Windows(env uint32, key []byte, now int64) (
	windows [][]BudgetWindowView, ok bool,
) {
	row := f.Named(env, key)
	if row == 0 {
		return nil, false
	}
	for at := f.nodes.Read(row).FirstLimit; at != 0; {
		l := f.limits.Read(at)
		closed := []BudgetWindowView{}
		for w := l.FirstClosed; w != 0; {
			c := f.windows.Read(w)
			closed = append(closed, BudgetWindowView{c.Start, c.End, rounded(c.Used), c.Max, c.Overrun})
			w = c.Next
		}
		if now >= l.End && l.Touched { // closed, but nothing has counted since
			closed = append(closed, BudgetWindowView{l.Start, l.End, rounded(l.Used), l.Max, l.Overrun})
		}
		slices.Reverse(closed)
		windows = append(windows, closed[:min(len(closed), MaxWindows)])
		at = l.Next
	}
	return windows, true
}
