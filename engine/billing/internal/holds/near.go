package holds

import "tollgate/engine/prefetch"

// The functions below append where the memory lies that commands about reservations need, so that
// the misses of several commands overlap. They are for Apply.

// NewLines bounds what NearNew appends, FoundLines what each of the others does and a little more.
const (
	NewLines   = 4
	FoundLines = 10
)

// NearNew appends what Keyed and Add of a reservation begin with.
func NearNew(h *Holds, lines []prefetch.Address, x Hashes) []prefetch.Address {
	return append(lines, prefetch.Of(h.byKey.Near(x.key)), prefetch.Of(h.byID.Near(x.id)))
}

// NearCustomer appends a customer's lock, and what leads to its reservations.
func NearCustomer(h *Holds, lines []prefetch.Address, customer uint32) []prefetch.Address {
	return append(lines, prefetch.Of(h.book.Stripe(customer)), h.holding.Near(customer))
}

// NearTotals appends what is known of a customer who has, or had, a reservation.
func NearTotals(h *Holds, lines []prefetch.Address, customer uint32) []prefetch.Address {
	row := h.holderOf(customer)
	if row == 0 {
		return lines
	}
	return append(lines, prefetch.Of(h.holders.Read(row)))
}

// NearFirst appends when the customer's next reservation expires.
func NearFirst(h *Holds, lines []prefetch.Address, customer uint32) []prefetch.Address {
	if row := h.holderOf(customer); row != 0 {
		if first := h.holders.Read(row).first; first != 0 {
			lines = append(lines, prefetch.Of(&h.Rows.Read(first).ExpiresAt))
		}
	}
	return lines
}

// NearLists appends the reservations of a customer that a new one is linked to: the newest, and
// those that expire first and last.
func NearLists(h *Holds, lines []prefetch.Address, customer uint32) []prefetch.Address {
	if row := h.holderOf(customer); row != 0 {
		k := h.holders.Read(row)
		if k.newest != 0 {
			lines = append(lines, prefetch.Of(&h.Rows.Read(k.newest).Newer))
		}
		if k.last != 0 {
			v := h.Rows.Read(k.last)
			lines = append(lines, prefetch.Of(&v.Next), prefetch.Of(&v.ExpiresAt))
		}
	}
	return NearFirst(h, lines, customer)
}

// NearLinks appends the reservations that are linked to an open one.
func NearLinks(h *Holds, lines []prefetch.Address, v *Hold) []prefetch.Address {
	if v.Previous != 0 {
		lines = append(lines, prefetch.Of(&h.Rows.Read(v.Previous).Next))
	}
	if v.Next != 0 {
		lines = append(lines, prefetch.Of(&h.Rows.Read(v.Next).Previous))
	}
	return lines
}

// NearID appends what Find of a reservation begins with.
func NearID(h *Holds, lines []prefetch.Address, id *[16]byte) []prefetch.Address {
	return append(lines, prefetch.Of(h.byID.Near(h.book.IDHash(id))))
}

// Likely is the row that Find most likely returns; 0: there is none.
func (h *Holds) Likely(id *[16]byte) uint32 { return h.byID.Guess(h.book.IDHash(id)) }

// NearRow appends a reservation's row, whose end may lie in the line after, and its texts' place.
func NearRow(h *Holds, lines []prefetch.Address, row uint32) []prefetch.Address {
	v := h.Rows.Read(row)
	return append(lines, prefetch.Of(&v.ID), prefetch.Of(&v.Events), h.Texts.Near(row))
}

// NearItem appends a reservation's first item.
func NearItem(h *Holds, lines []prefetch.Address, v *Hold) []prefetch.Address {
	if v.FirstItem == 0 {
		return lines
	}
	return append(lines, h.Items.Near(v.FirstItem))
}

// SubscriptionOf is the subscription of the first item of a row's reservation; 0 where it has none.
func (h *Holds) SubscriptionOf(row uint32) uint32 {
	if row == 0 || h.Rows.Read(row).FirstItem == 0 {
		return 0
	}
	return h.Items.Read(h.Rows.Read(row).FirstItem).Subscription
}
