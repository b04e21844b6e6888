package holds

import (
	"encoding/binary"
	"sync/atomic"

	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
)

// Add adds an open reservation with its items, and returns its row. Its Hash is x.
func (h *Holds) Add(t *book.Keeper, v *Hold, items []Item, w *Words, x Hashes) (row uint32) {
	lock := h.book.WriteLock(v.Customer)
	defer lock.Unlock()
	h.Mu.Lock()
	row = h.takeHold()
	*h.Rows.Write(row) = *v
	h.byID.Insert(x.id, row)
	h.Kept++
	h.Mu.Unlock()
	h.byKey.Insert(x.key, row)
	h.SetWords(row, w)
	h.heldOf(v.Customer).Add(1)

	last := uint32(0)
	for i := range items {
		at := h.takeItem()
		items[i].Next = 0
		h.Items.Write(at, &items[i])
		if last == 0 {
			h.Rows.Write(row).FirstItem = at
		} else {
			h.Items.link(last, at)
		}
		last = at
	}
	k := h.holder(v.Customer)
	if h.Rows.Write(row).Older = k.newest; k.newest != 0 {
		h.Rows.Write(k.newest).Newer = row
	}
	k.newest = row
	h.open(t, k, row)
	for i := range items {
		h.count(k, &items[i], 1)
	}
	h.reschedule(row)
	h.fold(t, row, items)
	return row
}

// Put replaces what may change of a reservation and of its items: number and subjects stay. A state
// other than Open closes it, at the entry's log time. The customer's lock is held.
func (h *Holds) Put(t *book.Keeper, row uint32, next *Hold, items []Item) {
	v := h.Rows.Write(row)
	k := h.holder(v.Customer)
	if v.State == ReservationOpen {
		h.close(k, row)
		for at := v.FirstItem; at != 0; {
			i := h.Items.Read(at)
			h.count(k, &i, -1)
			at = i.Next
		}
		if next.State != ReservationOpen {
			h.end(t, row)
		}
	}
	v.State, v.ExpiresAt, v.Events = next.State, next.ExpiresAt, next.Events
	v.SettleOnExpiry = next.SettleOnExpiry
	at := v.FirstItem
	for i := range items {
		stored := h.Items.Read(at)
		if stored.Granted = items[i].Granted; !keepsTotal(v.State) {
			stored.Settled = items[i].Settled
		}
		stored.Pool, stored.Cost = items[i].Pool, items[i].Cost
		if stored.Credits = items[i].Credits; v.State != ReservationOpen {
			stored.Credits = decimal.Decimal{}
		}
		h.Items.Write(at, &stored)
		if v.State == ReservationOpen {
			h.count(k, &stored, 1)
		}
		at = stored.Next
	}
	if v.State == ReservationOpen {
		h.open(t, k, row)
	}
	h.reschedule(row)
	h.fold(t, row, items)
}

// Take adds an event key to those that a reservation has taken, in its texts. The caller writes
// them, and holds the customer's lock.
func (h *Holds) Take(t *book.Keeper, row uint32, w *Words, key *[16]byte) {
	w.Taken, w.TakenAt = append(w.Taken, key[:]...), t.Stamp
	h.Rows.Write(row).TookKeys = true
	h.byEvent.Insert(h.book.IDHash(key), row)
	h.book.TakenKeys++
	t.Fold(binary.LittleEndian.Uint64(key[:]))
}

// indexTaken finds, or with add false no longer finds, a reservation by the event keys that it has
// taken.
func (h *Holds) indexTaken(row uint32, add bool) {
	w := h.WordsOf(row)
	for rest := w.Taken; len(rest) >= 16; rest = rest[16:] {
		hash := h.book.IDHash((*[16]byte)(rest))
		if add {
			h.byEvent.Insert(hash, row)
			h.book.TakenKeys++
		} else {
			h.byEvent.Remove(hash, row)
			h.book.TakenKeys--
		}
	}
}

// forgotten is how many closed reservations Forget drops at most.
const forgotten = 4

// Forget drops closed reservations that were closed before a log time, and took no event key since:
// some of them, more than one command adds.
func (h *Holds) Forget(t *book.Keeper, before int64) {
	for range forgotten {
		row := h.FirstClosed
		if row == 0 || h.Rows.Read(row).ClosedAt >= before {
			return
		}
		h.forget(t, row, before)
		t.Fold(uint64(row))
	}
}

// forget drops the reservation that was closed first. One that has taken an event key since then is
// closed anew: the key is known as long as those of events.
func (h *Holds) forget(t *book.Keeper, row uint32, before int64) {
	v := *h.Rows.Read(row)
	lock := h.book.WriteLock(v.Customer)
	defer lock.Unlock()
	if h.FirstClosed = v.Next; v.Next == 0 {
		h.LastClosed = 0
	}
	if v.TookKeys && h.WordsOf(row).TakenAt >= before {
		h.Mu.Lock()
		h.Rows.Write(row).Next = 0
		h.Mu.Unlock()
		h.end(t, row)
		return
	}
	if v.Older != 0 {
		h.Rows.Write(v.Older).Newer = v.Newer
	}
	if v.Newer != 0 {
		h.Rows.Write(v.Newer).Older = v.Older
	} else {
		h.holder(v.Customer).newest = v.Older
	}
	for at := v.FirstItem; at != 0; {
		next := h.Items.Next(at)
		h.Items.Write(at, &Item{Next: h.FreeItem})
		h.FreeItem, at = at, next
	}
	h.byKey.Remove(h.book.IDHash(&v.Key), row)
	if v.TookKeys {
		h.indexTaken(row, false)
	}
	h.Texts.Set(row, nil)
	h.Mu.Lock()
	defer h.Mu.Unlock()
	h.byID.Remove(h.book.IDHash(&v.ID), row)
	*h.Rows.Write(row) = Hold{Next: h.FreeHold}
	h.FreeHold = row
	h.Kept--
	h.heldOf(v.Customer).Add(^uint64(0))
}

// HeldOf is how many reservations are kept of a customer's account.
func (h *Holds) HeldOf(customer uint32) uint64 { return h.heldOf(customer).Load() }

// heldOf counts the reservations that are kept of a customer's account.
func (h *Holds) heldOf(customer uint32) *atomic.Uint64 {
	return &h.book.Environment(h.book.Customers.Read(customer).Env).Account.Held.Reservations
}

func (h *Holds) takeHold() (row uint32) {
	if row = h.FreeHold; row != 0 {
		h.FreeHold = h.Rows.Read(row).Next
		return row
	}
	row, _ = h.Rows.Append()
	h.Texts.Append()
	return row
}

func (h *Holds) takeItem() (row uint32) {
	if row = h.FreeItem; row != 0 {
		h.FreeItem = h.Items.Next(row)
		return row
	}
	return h.Items.Append()
}

// holder finds or makes what is known of a customer. The customer's lock is held.
func (h *Holds) holder(customer uint32) *holder {
	if row := h.holderOf(customer); row != 0 {
		return h.holders.Write(row)
	}
	row, k := h.holders.Append()
	k.customer = customer
	h.holding.Set(customer, row)
	return k
}

// stepsPerUnit is how many reservations open passes for a unit of an entry's work.
const stepsPerUnit = 4

// open links an open reservation in, in the order in which the environment lets them expire: by
// (instant, row). It looks from both ends: most have the same time to live, so it comes last or
// nearly so, and one that lives for less than all others first.
func (h *Holds) open(t *book.Keeper, k *holder, row uint32) {
	v := h.Rows.Write(row)
	before, next, steps := k.last, k.first, 0
	for before != 0 && later(h.Rows.Read(before).ExpiresAt, before, v.ExpiresAt, row) {
		if later(h.Rows.Read(next).ExpiresAt, next, v.ExpiresAt, row) {
			before = h.Rows.Read(next).Previous
			break
		}
		before, next = h.Rows.Read(before).Previous, h.Rows.Read(next).Next
		steps += 2
	}
	t.Spend(steps / stepsPerUnit)
	next = k.first
	if before != 0 {
		next = h.Rows.Read(before).Next
		h.Rows.Write(before).Next = row
	} else {
		k.first = row
	}
	if next != 0 {
		h.Rows.Write(next).Previous = row
	} else {
		k.last = row
	}
	v.Previous, v.Next = before, next
	k.open++
	h.mark(k)
}

// later reports whether a reservation expires after another one.
func later(at int64, row uint32, other int64, otherRow uint32) bool {
	return at > other || at == other && row > otherRow
}

// close takes an open reservation out of the customer's list.
func (h *Holds) close(k *holder, row uint32) {
	v := h.Rows.Write(row)
	if v.Previous != 0 {
		h.Rows.Write(v.Previous).Next = v.Next
	} else {
		k.first = v.Next
	}
	if v.Next != 0 {
		h.Rows.Write(v.Next).Previous = v.Previous
	} else {
		k.last = v.Previous
	}
	v.Previous, v.Next = 0, 0
	k.open--
	h.mark(k)
}

// mark says in the customer's record whether it has open reservations.
func (h *Holds) mark(k *holder) {
	if held := k.open > 0; h.book.Customers.Read(k.customer).Held != held {
		h.book.Customers.Write(k.customer).Held = held
	}
}

// end puts a reservation behind those that were closed before it.
func (h *Holds) end(t *book.Keeper, row uint32) {
	h.Rows.Write(row).ClosedAt = t.Stamp
	if h.LastClosed != 0 {
		h.Mu.Lock()
		h.Rows.Write(h.LastClosed).Next = row
		h.Mu.Unlock()
	} else {
		h.FirstClosed = row
	}
	h.LastClosed = row
}

// reschedule notes when a reservation expires.
func (h *Holds) reschedule(row uint32) {
	v, at := h.Rows.Read(row), int64(rows.Never)
	if v.State == ReservationOpen {
		at = v.ExpiresAt
	}
	h.book.RescheduleHold(h.book.Environment(h.book.Customers.Read(v.Customer).Env), row, at)
}

// count adds an item of an open reservation to the customer's totals, or with -1 takes it off.
func (h *Holds) count(k *holder, i *Item, by int64) {
	for _, p := range i.parts() {
		if p.held.IsZero() {
			continue
		}
		if by < 0 {
			p.held = p.held.Neg()
		}
		h.add(k, p, by)
	}
}

func (h *Holds) add(k *holder, p part, by int64) {
	if k.one.items > 0 && k.one.of() == p.of {
		k.one.held = sums.Of(k.one.held, p.held)
		if left := k.one.count(by); !left {
			k.one = total{}
		}
		return
	}
	previous := uint32(0)
	for row := k.totals; row != 0; {
		t := h.totals.Write(row)
		if t.of() != p.of {
			previous, row = row, t.next
			continue
		}
		t.held = sums.Of(t.held, p.held)
		if left := t.count(by); left {
			return
		}
		if previous == 0 {
			k.totals = t.next
		} else {
			h.totals.Write(previous).next = t.next
		}
		*t = total{next: h.freeTotal}
		h.freeTotal = row
		return
	}
	added := total{
		subscription: p.of.subscription, feature: p.of.feature, pool: p.of.pool,
		held: p.held, items: 1,
	}
	if k.one.items == 0 {
		k.one = added
		return
	}
	row := h.freeTotal
	if row != 0 {
		h.freeTotal = h.totals.Read(row).next
	} else {
		row, _ = h.totals.Append()
	}
	added.next, k.totals = k.totals, row
	*h.totals.Write(row) = added
}

// count counts an item more, or with -1 less, and reports whether there is one left.
func (t *total) count(by int64) (left bool) {
	t.items = uint32(int64(t.items) + by)
	return t.items > 0
}

// fold mixes what became of a reservation into the rolling hash.
func (h *Holds) fold(t *book.Keeper, row uint32, items []Item) {
	v := h.Rows.Read(row)
	t.Fold(uint64(row)<<8 | uint64(v.State))
	t.Fold(uint64(v.ExpiresAt))
	for i := range items {
		t.FoldDecimal(items[i].Granted)
		t.FoldDecimal(items[i].Settled)
		t.FoldDecimal(items[i].Credits)
	}
}
