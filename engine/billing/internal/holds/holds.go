package holds

import (
	"sync"

	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
	"tollgate/engine/page"
	"tollgate/engine/uuid"
)

// Holds has the reservations of all customers. Apply writes it; whoever else reads holds the
// customer's lock.
type Holds struct {
	book *book.Book

	Rows  *page.Table[Hold]
	Items Items
	Texts *rows.ChangingTexts // row = hold row: Words
	Lists

	// Mu guards the ids of rows, which are used again: lookups by id and by key; and Next of those
	// that are closed, which other customers' may be.
	Mu   sync.RWMutex
	byID *page.Index
	// byKey and byEvent are for Apply alone. byEvent has the rows of Taken keys.
	byKey, byEvent *page.Index

	// What follows is not state. Rows of holders are not used again, those of totals are. holding
	// leads from customers to their holders.
	holders   *page.Table[holder]
	holding   rows.Links
	totals    *page.Table[total]
	freeTotal uint32
	room      []byte // in which SetWords encodes
}

// Lists are heads of lists of rows.
type Lists struct {
	FreeHold uint32 `wire:"1"`
	FreeItem uint32 `wire:"2"`
	// FirstClosed is the one that was closed first, of those that are kept.
	FirstClosed uint32 `wire:"3"`
	LastClosed  uint32 `wire:"4"`
	// Kept counts the reservations that are kept, open and closed. Apply writes it under Mu.
	Kept uint32 `wire:"5"`
}

// Saved are the lists for a snapshot; empty where there was never a reservation.
func (h *Holds) Saved() []Lists {
	if h.Lists == (Lists{}) {
		return nil
	}
	return []Lists{h.Lists}
}

// holder is what is known of a customer who has, or had, a reservation.
type holder struct {
	customer          uint32 // never changes
	first, last, open uint32 // the open ones, by the instant of expiry, and how many
	newest            uint32 // of all that are kept
	// one and totals are what the open ones hold. Most customers hold one subject; keeping it
	// inline makes a holder fit in one cache line.
	totals uint32
	one    total
}

// total is what a customer's open reservations hold of a feature of a subscription, or of the
// credits of pools of one name.
type total struct {
	subscription, feature uint32
	pool                  catalogs.PoolName
	held                  decimal.Decimal
	items, next           uint32
}

// subject is of what a total is.
type subject struct {
	subscription, feature uint32
	pool                  catalogs.PoolName
}

func (t *total) of() subject { return subject{t.subscription, t.feature, t.pool} }

// Open makes the tables.
func (h *Holds) Open(b *book.Book) {
	h.book, b.Held = b, h
	h.Rows = page.NewTable(b.Store, accounts.TableHolds, HoldCodec)
	h.Items = openItems(b.Store)
	h.Texts = rows.OpenChangingTexts(b.Store, accounts.TableHoldTexts)
	h.byID, h.byKey, h.byEvent = page.NewRoomyIndex(), page.NewRoomyIndex(), page.NewIndex()
	h.holders = page.NewTable(page.NewStore(), 0, page.Codec[holder]{})
	h.totals = page.NewTable(page.NewStore(), 0, page.Codec[total]{})
}

// Bytes is the memory of all reservations, without the bytes of texts.
func (h *Holds) Bytes() uint64 {
	return h.Rows.Bytes() + h.Items.Bytes() + h.Texts.Bytes() + h.byID.Bytes() + h.byKey.Bytes() +
		h.byEvent.Bytes() +
		h.holders.Bytes() + h.totals.Bytes() + h.holding.Bytes()
}

// Counted is Kept for readers.
func (h *Holds) Counted() uint64 {
	h.Mu.RLock()
	defer h.Mu.RUnlock()
	return uint64(h.Kept)
}

// holderOf finds what is known of a customer; 0 where it never had a reservation.
func (h *Holds) holderOf(customer uint32) uint32 { return h.holding.At(customer) }

// Find finds a reservation of an environment by its id, and whose it is; 0 where there is none.
// The row may be another's once its customer's lock is taken: read it with At.
func (h *Holds) Find(env uint32, id *[16]byte) (row, customer uint32) {
	h.Mu.RLock()
	defer h.Mu.RUnlock()
	return h.Known(env, id, 0)
}

// Known is Find for Apply, which needs no lock. It looks first at the row that is likely; 0: at
// none.
func (h *Holds) Known(env uint32, id *[16]byte, likely uint32) (row, customer uint32) {
	if row = likely; row == 0 || h.Rows.Read(row).ID != *id {
		row = h.byID.Find(h.book.IDHash(id), func(row uint32) bool {
			return h.Rows.Read(row).ID == *id
		})
	}
	if row == 0 {
		return 0, 0
	}
	customer = h.Rows.Read(row).Customer
	if h.book.Customers.Read(customer).Env != env {
		return 0, 0
	}
	return row, customer
}

// IDOf is whose reservation is in a row, and its id; 0 where the row is free. Read it with At.
func (h *Holds) IDOf(row uint32) (id [16]byte, customer uint32) {
	h.Mu.RLock()
	defer h.Mu.RUnlock()
	v := h.Rows.Read(row)
	if v.ID == ([16]byte{}) {
		return id, 0
	}
	return v.ID, v.Customer
}

// At reads a reservation that Find has found; false where it has left since. The customer's lock
// is held.
func (h *Holds) At(row uint32, id *[16]byte) (v Hold, ok bool) {
	h.Mu.RLock()
	defer h.Mu.RUnlock()
	v = *h.Rows.Read(row)
	return v, v.ID == *id && v.State != 0
}

// Hashes are those of a reservation's id and key in their indexes.
type Hashes struct{ id, key uint64 }

// Hash returns the hashes of an id and a key.
func (h *Holds) Hash(id, key *[16]byte) Hashes {
	return Hashes{h.book.IDHash(id), h.book.IDHash(key)}
}

// Keyed finds a reservation by its key; 0 where there is none. For Apply.
func (h *Holds) Keyed(key *[16]byte, x Hashes) uint32 {
	if forgets() {
		return 0
	}
	return h.byKey.Find(x.key, func(row uint32) bool {
		return h.Rows.Read(row).Key == *key
	})
}

// ItemsOf appends a reservation's items to list. The customer's lock is held.
func (h *Holds) ItemsOf(v *Hold, list []Item) []Item {
	for row := v.FirstItem; row != 0; {
		i := h.Items.Read(row)
		list, row = append(list, i), i.Next
	}
	return list
}

// EachItem visits the rows of a reservation's items.
func (h *Holds) EachItem(v *Hold, visit func(row uint32)) {
	for row := v.FirstItem; row != 0; row = h.Items.Next(row) {
		visit(row)
	}
}

// EachOver visits the items of the open reservations that expire into nothing, with the instant.
func (h *Holds) EachOver(visit func(item uint32, at int64)) {
	for _, v := range h.Rows.All() {
		if at := v.Over(); v.State == ReservationOpen && at != rows.Never {
			h.EachItem(v, func(item uint32) { visit(item, at) })
		}
	}
}

// ItemRow is the row of a reservation's n-th item. For Apply.
func (h *Holds) ItemRow(v *Hold, n int) (row uint32) {
	for row = v.FirstItem; n > 0; n-- {
		row = h.Items.Next(row)
	}
	return row
}

// WordsOf reads a reservation's texts. The customer's lock is held.
func (h *Holds) WordsOf(row uint32) (w Words) {
	h.ReadWords(row, &w, nil)
	return w
}

// ReadWords is WordsOf into w, which is zero: its bytes are in room, which it returns as long as
// they need. The customer's lock is held.
func (h *Holds) ReadWords(row uint32, w *Words, room []byte) []byte {
	if room = append(room[:0], h.Texts.Get(row)...); w.quick(room) {
		return room
	}
	var whole Words
	rows.DecodeText(string(room), &whole)
	*w = whole
	return room
}

// SetWords replaces a reservation's texts. For Apply, under the customer's lock.
func (h *Holds) SetWords(row uint32, w *Words) {
	h.room = w.append(h.room[:0])
	h.Texts.Set(row, h.room)
}

// Took reports whether a reservation has taken an event key, without an event under it. For Apply.
func (h *Holds) Took(key *[16]byte) bool { return h.TakerOf(key) != 0 }

// TakerOf finds the reservation that has taken an event key; 0 where none has. For Apply, and for
// queries that keep it waiting.
func (h *Holds) TakerOf(key *[16]byte) (row uint32) {
	return h.byEvent.Find(h.book.IDHash(key), func(row uint32) bool {
		w := h.WordsOf(row)
		return hasKey(w.Taken, key)
	})
}

// Owns reports whether an event key is for the own events of a reservation that is kept. For
// Apply.
func (h *Holds) Owns(env uint32, key []byte) bool {
	const id = len(EventPrefix)
	if len(key) <= id+36 || string(key[:id]) != EventPrefix || key[id+36] != ':' {
		return false
	}
	named, ok := uuid.Parse(key[id : id+36])
	if !ok {
		return false
	}
	row, _ := h.Find(env, &named)
	return row != 0
}

// OpenOf is how many open reservations a customer has.
func (h *Holds) OpenOf(customer uint32) uint32 {
	if row := h.holderOf(customer); row != 0 {
		return h.holders.Read(row).open
	}
	return 0
}

// NextOf is the customer's open reservation that expires next; at never where there is none.
func (h *Holds) NextOf(customer uint32) rows.Due {
	if row := h.holderOf(customer); row != 0 {
		if first := h.holders.Read(row).first; first != 0 {
			return rows.Due{At: h.Rows.Read(first).ExpiresAt, Row: first}
		}
	}
	return rows.Due{At: rows.Never}
}

// Units is what a customer's reservations hold of a feature of a subscription at an instant. The
// customer's lock is held.
func (h *Holds) Units(customer, subscription, feature uint32, now int64) decimal.Decimal {
	return h.held(customer, subject{subscription: subscription, feature: feature}, now)
}

// Credits is what a customer's reservations hold of the credits of pools of a name at an instant.
// The customer's lock is held.
func (h *Holds) Credits(customer uint32, pool catalogs.PoolName, now int64) decimal.Decimal {
	return h.held(customer, subject{pool: pool}, now)
}

// held is what a customer's reservations hold of a subject: the total, less what those hold whose
// instant has come and that expire into nothing.
func (h *Holds) held(customer uint32, of subject, now int64) (sum decimal.Decimal) {
	at := h.holderOf(customer)
	if at == 0 {
		return sum
	}
	k := h.holders.Read(at)
	if t := &k.one; t.items > 0 && t.of() == of {
		sum = t.held
	} else {
		for row := k.totals; row != 0; row = t.next {
			if t = h.totals.Read(row); t.of() == of {
				sum = t.held
				break
			}
		}
	}
	if sum.IsZero() {
		return sum
	}
	for row := k.first; row != 0; {
		v := h.Rows.Read(row)
		if v.ExpiresAt > now {
			break
		}
		for item := v.FirstItem; item != 0 && !v.SettleOnExpiry; {
			i := h.Items.Read(item)
			for _, part := range i.parts() {
				if part.of == of {
					sum = sums.Difference(sum, part.held)
				}
			}
			item = i.Next
		}
		row = v.Next
	}
	return sum
}

// CreditsBy is what a customer's open reservations that were made by an instant hold of the credits
// of pools of a name, and how many reservations it has looked at. The customer's lock is held.
func (h *Holds) CreditsBy(
	customer uint32, pool catalogs.PoolName, at int64,
) (sum decimal.Decimal, looked int) {
	holder := h.holderOf(customer)
	if holder == 0 {
		return sum, 0
	}
	for row := h.holders.Read(holder).first; row != 0; looked++ {
		v := h.Rows.Read(row)
		for item := v.FirstItem; item != 0 && v.CreatedAt <= at; {
			i := h.Items.Read(item)
			if i.Pool == pool {
				sum = sums.Of(sum, i.Credits)
			}
			item = i.Next
		}
		row = v.Next
	}
	return sum, looked
}

// part is what an item adds to a total.
type part struct {
	of   subject
	held decimal.Decimal
}

// parts are what an open reservation's item adds to totals.
func (i *Item) parts() [2]part {
	return [2]part{
		{subject{subscription: i.Subscription, feature: i.Feature}, i.Held()},
		{subject{pool: i.Pool}, i.Credits},
	}
}

// Listed visits a customer's reservations, the newest first, from one on, or from the newest where
// from is 0, until visit says no more. The customer's lock is held.
func (h *Holds) Listed(customer, from uint32, visit func(row uint32, v *Hold) bool) {
	if at := h.holderOf(customer); from == 0 && at != 0 {
		from = h.holders.Read(at).newest
	}
	for row := from; row != 0; {
		v := h.Rows.Read(row)
		if !visit(row, v) {
			return
		}
		row = v.Older
	}
}
