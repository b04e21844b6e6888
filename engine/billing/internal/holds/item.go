package holds

import (
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/decimal"
	"tollgate/engine/page"
	"tollgate/engine/prefetch"
)

// Items are the items of all reservations. Most hold units alone, in short numbers, and their rows
// are half as long as a cache line; the others are parts.
type Items struct {
	rows  *page.Table[itemRow]
	whole *page.Parts[Item]
}

// itemRow is an item, or the number of its part.
type itemRow struct {
	subscription, feature, next uint32
	part                        uint32 // 0: there is none
	granted, settled            decimal.Short
}

func openItems(s *page.Store) Items {
	t := Items{whole: page.NewParts[Item]()}
	t.rows = page.NewTable(s, accounts.TableHoldItems, page.Codec[itemRow]{
		Append: func(dst []byte, r *itemRow) []byte {
			i := t.of(r)
			return appendItem(dst, &i)
		},
		Read: func(src []byte, r *itemRow) ([]byte, error) {
			var i Item
			rest, err := readItem(src, &i)
			if err == nil {
				t.put(r, &i)
			}
			return rest, err
		},
		Apart: func(r *itemRow) bool { return r.part != 0 },
		Rows:  4, // as many as of Item: snapshots copy pages
	})
	return t
}

func (t *Items) of(r *itemRow) (i Item) {
	if r.part != 0 {
		return *t.whole.Read(r.part)
	}
	i.Subscription, i.Feature, i.Next = r.subscription, r.feature, r.next
	i.Granted, i.Settled = r.granted.Decimal(), r.settled.Decimal()
	return i
}

func (t *Items) put(r *itemRow, i *Item) {
	r.subscription, r.feature, r.next = i.Subscription, i.Feature, i.Next
	granted, short := i.Granted.Short()
	settled, also := i.Settled.Short()
	if short && also && i.Pool == 0 && !i.HasCost && i.Credits.IsZero() && i.Cost.IsZero() {
		t.whole.Drop(r.part)
		r.part, r.granted, r.settled = 0, granted, settled
		return
	}
	r.part, r.granted, r.settled = t.whole.Put(r.part, *i), 0, 0
}

// Len is the number of rows.
func (t *Items) Len() uint32 { return t.rows.Len() }

// Bytes is the memory of all items.
func (t *Items) Bytes() uint64 { return t.rows.Bytes() + t.whole.Bytes() }

// Read returns an item.
func (t *Items) Read(row uint32) Item { return t.of(t.rows.Read(row)) }

// Next is the row of the reservation's next item; of a free row, the next free one.
func (t *Items) Next(row uint32) uint32 { return t.rows.Read(row).next }

// Write replaces an item. For Apply.
func (t *Items) Write(row uint32, i *Item) { t.put(t.rows.Write(row), i) }

// Append adds a row. For Apply.
func (t *Items) Append() (row uint32) {
	row, _ = t.rows.Append()
	return row
}

// Near is where an item's row lies.
func (t *Items) Near(row uint32) prefetch.Address { return prefetch.Of(t.rows.Read(row)) }

// link makes an item lead to the next one.
func (t *Items) link(row, next uint32) {
	r := t.rows.Write(row)
	if r.next = next; r.part != 0 {
		i := *t.whole.Read(r.part)
		i.Next = next
		t.whole.Put(r.part, i)
	}
}
