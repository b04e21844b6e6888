package holds

import "tollgate/engine/prefetch"

// The functions below append where the memory lies that commands about reservations need, so that
// the misses of several commands overlap. They are for Apply.

// NewLines bounds what NearNew appends, FoundLines what each of the others does and a little more.
const (
	NewLines   = 2
	FoundLines = 5
)

// NearNew appends what Keyed and Add of a reservation begin with.
func (h *Holds) NearNew(lines []prefetch.Address, id, key *[16]byte) []prefetch.Address {
	return append(lines,
		prefetch.Of(h.byKey.Near(h.book.IDHash(key))), prefetch.Of(h.byID.Near(h.book.IDHash(id))))
}

// NearCustomer appends what leads to a customer's reservations.
func (h *Holds) NearCustomer(lines []prefetch.Address, customer uint32) []prefetch.Address {
	return append(lines, h.holding.Near(customer))
}

// NearTotals appends what is known of a customer who has, or had, a reservation.
func (h *Holds) NearTotals(lines []prefetch.Address, customer uint32) []prefetch.Address {
	row := h.holderOf(customer)
	if row == 0 {
		return lines
	}
	return append(lines, prefetch.Of(h.holders.Read(row)))
}

// NearID appends what Find of a reservation begins with.
func (h *Holds) NearID(lines []prefetch.Address, id *[16]byte) []prefetch.Address {
	return append(lines, prefetch.Of(h.byID.Near(h.book.IDHash(id))))
}

// Likely is the row that Find most likely returns; 0: there is none.
func (h *Holds) Likely(id *[16]byte) uint32 { return h.byID.Guess(h.book.IDHash(id)) }

// NearRow appends a reservation's row, whose end may lie in the line after, and its texts' place.
func (h *Holds) NearRow(lines []prefetch.Address, row uint32) []prefetch.Address {
	v := h.Rows.Read(row)
	return append(lines, prefetch.Of(&v.ID), prefetch.Of(&v.Events), prefetch.Of(h.Texts.Read(row)))
}

// NearItem appends a reservation's first item, whose end may lie in the line after.
func (h *Holds) NearItem(lines []prefetch.Address, v *Hold) []prefetch.Address {
	if v.FirstItem == 0 {
		return lines
	}
	i := h.Items.Read(v.FirstItem)
	return append(lines, prefetch.Of(&i.Subscription), prefetch.Of(&i.Cost))
}

// SubscriptionOf is the subscription of the first item of a row's reservation; 0 where it has none.
func (h *Holds) SubscriptionOf(row uint32) uint32 {
	if row == 0 || h.Rows.Read(row).FirstItem == 0 {
		return 0
	}
	return h.Items.Read(h.Rows.Read(row).FirstItem).Subscription
}
