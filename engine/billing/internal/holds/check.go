package holds

import (
	"fmt"

	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/wire"
)

// Consistent checks rows, owners, and lists after a restore: every row that is in use is in the
// lists that it belongs to, once.
func (h *Holds) Consistent() error {
	if h.Texts.Len() != h.Rows.Len() {
		return fmt.Errorf("%w: %d reservations with %d texts", rows.ErrSnapshot,
			h.Rows.Len(), h.Texts.Len())
	}
	items := make([]bool, h.Items.Len()+1)
	kept, closed := uint32(0), uint32(0)
	for row, v := range h.Rows.All() {
		if v.State == 0 {
			continue
		}
		kept++
		if v.State != ReservationOpen {
			closed++
		}
		if !h.fits(row, v) || !h.owned(v, items) {
			return fmt.Errorf("%w: reservation %d does not fit", rows.ErrSnapshot, row)
		}
	}
	if kept != h.Kept || !h.endsMeet(closed) || !h.freeRows(kept, items) {
		return fmt.Errorf("%w: reservations' lists do not fit", rows.ErrSnapshot)
	}
	return h.listed(kept)
}

// within reports whether a row is 0 or one of the table's reservations.
func (h *Holds) within(at ...uint32) bool {
	for _, row := range at {
		if row > h.Rows.Len() || row != 0 && h.Rows.Read(row).State == 0 {
			return false
		}
	}
	return true
}

// fits reports whether a reservation's values are possible, and its links lead back to it.
func (h *Holds) fits(row uint32, v *Hold) bool {
	if v.State > ReservationBilled || (v.State == ReservationOpen) != (v.ClosedAt == 0) ||
		v.Customer == 0 ||
		v.Customer > h.book.Customers.Len() ||
		!h.within(v.Newer, v.Older, v.Next, v.Previous) {
		return false
	}
	if v.Older != 0 {
		if o := h.Rows.Read(v.Older); o.Newer != row || o.Customer != v.Customer {
			return false
		}
	}
	var w Words
	return (v.Newer == 0 || h.Rows.Read(v.Newer).Older == row) &&
		wire.Decode(h.Texts.Get(row), &w) == nil &&
		h.answers(v, &w) && len(w.Parts)%16 == 0 && len(w.Taken)%16 == 0 &&
		v.TookKeys == (len(w.Taken) > 0) && (v.TookKeys || w.TakenAt == 0)
}

// answers reports whether texts say what a reservation was answered with.
func (h *Holds) answers(v *Hold, w *Words) bool {
	items := 0
	for at := v.FirstItem; at != 0 && at <= h.Items.Len() && items < MaxItems; items++ {
		at = h.Items.Next(at)
	}
	b, ok := w.Beginning()
	return len(w.Answer) > 0 || ok && len(b.Rooms) == items
}

// owned marks a reservation's items; false where one is another's, too, or does not fit.
func (h *Holds) owned(v *Hold, items []bool) bool {
	count, customer := 0, h.book.Customers.Read(v.Customer)
	catalog := h.book.Environment(customer.Env).Catalog.Load()
	for at := v.FirstItem; at != 0; count++ {
		if at > h.Items.Len() || items[at] || count == MaxItems {
			return false
		}
		i := h.Items.Read(at)
		if i.Subscription == 0 || i.Subscription > h.book.Subscriptions.Len() ||
			h.book.Subscriptions.Read(i.Subscription).Customer != v.Customer ||
			catalog.Feature(i.Feature) == nil || i.Granted.Sign() < 0 ||
			i.Settled.Sign() < 0 && v.State == ReservationOpen || // late settlements of once left such
			i.Credits.Sign() < 0 || !i.Credits.IsZero() && (i.Pool == 0 || v.State != ReservationOpen) {
			return false
		}
		items[at], at = true, i.Next
	}
	return count > 0
}

// endsMeet reports whether those that are closed are in one line, in the order of their closing.
func (h *Holds) endsMeet(closed uint32) bool {
	n, last := uint32(0), uint32(0)
	for row := h.FirstClosed; row != 0 && n <= closed; n++ {
		if !h.within(row) {
			return false
		}
		v := h.Rows.Read(row)
		if v.State == ReservationOpen || last != 0 && h.Rows.Read(last).ClosedAt > v.ClosedAt {
			return false
		}
		last, row = row, v.Next
	}
	return n == closed && last == h.LastClosed
}

// freeRows reports whether all rows that are not in use are in the lists of free ones.
func (h *Holds) freeRows(kept uint32, items []bool) bool {
	free := h.Rows.Len() - kept
	for row := h.FreeHold; row != 0; free-- {
		if row > h.Rows.Len() || free == 0 || h.Rows.Read(row).State != 0 {
			return false
		}
		row = h.Rows.Read(row).Next
	}
	for row := h.FreeItem; row != 0; {
		if row > h.Items.Len() || items[row] {
			return false
		}
		items[row], row = true, h.Items.Next(row)
	}
	for _, used := range items[1:] {
		if !used {
			return false
		}
	}
	return free == 0
}

// listed checks that each customer's newest one leads to all of its kept ones, and that open ones
// that expire one after the other are linked so. It walks from the ends, so no list is a circle.
func (h *Holds) listed(kept uint32) error {
	newest := map[uint32]bool{}
	for row, v := range h.Rows.All() {
		if v.State == 0 {
			continue
		}
		if v.Newer == 0 {
			if newest[v.Customer] {
				return fmt.Errorf("%w: customer %d has two newest reservations", rows.ErrSnapshot,
					v.Customer)
			}
			newest[v.Customer] = true
			for at := row; at != 0; at = h.Rows.Read(at).Older {
				kept--
			}
		}
		if v.State == ReservationOpen && v.Next != 0 {
			o := h.Rows.Read(v.Next)
			if o.State != ReservationOpen || o.Customer != v.Customer || o.Previous != row ||
				!later(o.ExpiresAt, v.Next, v.ExpiresAt, row) {
				return fmt.Errorf("%w: reservation %d leads to one of others", rows.ErrSnapshot, row)
			}
		}
		if v.State == ReservationOpen && v.Previous != 0 && h.Rows.Read(v.Previous).Next != row ||
			v.State != ReservationOpen && v.Previous != 0 {
			return fmt.Errorf("%w: reservation %d does not follow another", rows.ErrSnapshot, row)
		}
	}
	if kept != 0 {
		return fmt.Errorf("%w: %d reservations are in no list", rows.ErrSnapshot, kept)
	}
	return nil
}

// Reindex rebuilds what is not state, after a restore.
func (h *Holds) Reindex() {
	for row, v := range h.Rows.All() {
		if v.State == 0 {
			continue
		}
		h.heldOf(v.Customer).Add(1)
		h.byID.Insert(h.book.IDHash(&v.ID), row)
		h.byKey.Insert(h.book.IDHash(&v.Key), row)
		if v.TookKeys {
			h.indexTaken(row, true)
		}
		k := h.holder(v.Customer)
		if v.Newer == 0 {
			k.newest = row
		}
		if v.State != ReservationOpen {
			continue
		}
		if v.Previous == 0 {
			k.first = row
		}
		if v.Next == 0 {
			k.last = row
		}
		k.open++
		for at := v.FirstItem; at != 0; {
			i := h.Items.Read(at)
			h.count(k, &i, 1)
			at = i.Next
		}
		h.mark(k)
		h.reschedule(row)
	}
}
