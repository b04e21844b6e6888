package holds

import (
	"bytes"
	"encoding/binary"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
)

const (
	customers = 3
	features  = 3
)

// projection is a book with customers, their reservations, and a turn over both.
type projection struct {
	book  *book.Book
	holds *Holds
	turn  book.Keeper
}

func newProjection() *projection {
	l := &projection{book: &book.Book{}, holds: &Holds{}}
	l.book.Open()
	l.holds.Open(l.book)
	l.book.AddAccount(&accounts.Account{Name: "acme"})
	c := catalogs.NewCatalog()
	for n := uint32(1); n <= features; n++ {
		c.Features = append(c.Features, &catalogs.Feature{Number: n})
	}
	l.book.Environment(1).Catalog.Store(c)
	for n := uint32(1); n <= customers; n++ {
		_, v := l.book.Customers.Append()
		v.Env = 1
		l.book.Subscriptions.Append(&book.Subscription{
			HotSubscription: book.HotSubscription{Customer: n},
		})
	}
	l.turn = book.Keeper{
		Tx: accounts.Tx{S: &l.book.Directory, Entry: &accounts.Entry{}}, S: l.book,
	}
	return l
}

// restored is the projection as a snapshot has it.
func (l *projection) restored(t require.TestingT) *projection {
	var b bytes.Buffer
	_, err := l.book.Store.Begin().WriteTo(&b)
	require.NoError(t, err)
	next := newProjection()
	require.NoError(t, next.book.Store.Restore(&b))
	next.holds.Lists = l.holds.Lists
	next.book.Environment(1).Catalog.Store(l.book.Environment(1).Catalog.Load())
	require.NoError(t, next.holds.Consistent())
	next.holds.Reindex()
	next.turn.Stamp = l.turn.Stamp
	return next
}

func number(n uint64) (id [16]byte) {
	binary.BigEndian.PutUint64(id[8:], n)
	return id
}

// modelled is a reservation as the model knows it.
type modelled struct {
	row   uint32
	hold  Hold
	items []Item
	words Words
	taken map[[16]byte]int64 // event keys, and when
}

// units and credits are what the model's open reservations of a customer hold at an instant.
func units(all []modelled, customer, feature uint32, now int64) (sum decimal.Decimal) {
	for _, m := range all {
		if m.counts(customer, now) {
			for i := range m.items {
				if m.items[i].Feature == feature {
					sum = sums.Of(sum, m.items[i].Held())
				}
			}
		}
	}
	return sum
}

func creditsOf(
	all []modelled, customer uint32, pool catalogs.PoolName, now int64,
) (sum decimal.Decimal) {
	for _, m := range all {
		if m.counts(customer, now) {
			for i := range m.items {
				if m.items[i].Pool == pool {
					sum = sums.Of(sum, m.items[i].Credits)
				}
			}
		}
	}
	return sum
}

func (m *modelled) counts(customer uint32, now int64) bool {
	return m.hold.Customer == customer && m.hold.State == ReservationOpen &&
		(m.hold.ExpiresAt > now || m.hold.SettleOnExpiry)
}

// TestHeldIsTheSumOfOpenReservations draws histories of reservations, and compares everything that
// can be asked with a list of them; every now and then a snapshot takes the place of the state.
func TestHeldIsTheSumOfOpenReservations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newProjection()
		var all []modelled
		serial := uint64(0)
		amount := func(name string) decimal.Decimal {
			return decimal.FromInt(rapid.Int64Range(0, 50).Draw(t, name))
		}
		pick := func() *modelled {
			if len(all) == 0 {
				return nil
			}
			return &all[rapid.IntRange(0, len(all)-1).Draw(t, "which")]
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				serial++
				m := modelled{hold: Hold{
					ID: number(serial), Key: number(serial + 1000), State: ReservationOpen,
					Customer:       rapid.Uint32Range(1, customers).Draw(t, "customer"),
					ExpiresAt:      rapid.Int64Range(1, 100).Draw(t, "expires"),
					SettleOnExpiry: rapid.Bool().Draw(t, "bills"), CreatedAt: int64(serial),
				}, words: Words{Key: "k"}}
				n := rapid.Uint32Range(1, features).Draw(t, "items")
				for f := uint32(1); f <= n; f++ {
					i := Item{Subscription: m.hold.Customer, Feature: f, Granted: amount("granted")}
					if rapid.Bool().Draw(t, "credited") {
						i.Pool, i.Credits = catalogs.PoolName(f), amount("credits")
					}
					m.items = append(m.items, i)
				}
				m.row = l.add(&m.hold, append([]Item(nil), m.items...), &m.words)
				all = append(all, m)
			},
			"update": func(t *rapid.T) {
				m := pick()
				if m == nil {
					return
				}
				if m.hold.State == ReservationOpen {
					m.hold.ExpiresAt = rapid.Int64Range(1, 100).Draw(t, "expires")
					m.hold.State = rapid.SampledFrom(
						[]ReservationState{
							ReservationOpen, ReservationOpen, ReservationSettled, ReservationReleased,
							ReservationExpired, ReservationBilled,
						}).Draw(t, "state")
				}
				m.hold.Events++
				for i := range m.items {
					m.items[i].Settled = sums.Of(m.items[i].Settled, amount("settled"))
					if m.hold.State == ReservationOpen && m.items[i].Pool != 0 {
						m.items[i].Credits = amount("credits")
					}
				}
				l.holds.Put(&l.turn, m.row, &m.hold, m.items)
			},
			"take": func(*rapid.T) {
				m := pick()
				if m == nil || m.hold.State == ReservationOpen {
					return
				}
				serial++
				key := number(serial)
				w := l.holds.WordsOf(m.row)
				l.holds.Take(&l.turn, m.row, &w, &key)
				l.holds.SetWords(m.row, &w)
				if m.taken == nil {
					m.taken = map[[16]byte]int64{}
				}
				m.taken[key] = l.turn.Stamp
			},
			"forget": func(*rapid.T) {
				l.turn.Stamp++
				l.holds.Forget(&l.turn, l.turn.Stamp-3)
				kept := all[:0]
				for _, m := range all {
					if v, ok := l.holds.At(m.row, &m.hold.ID); ok {
						kept = append(kept, m)
						require.True(t, v.State == ReservationOpen || v.State == m.hold.State)
					} else {
						require.NotEqual(t, ReservationOpen, m.hold.State)
						for key, at := range m.taken {
							require.Less(t, at, l.turn.Stamp-3)
							require.False(t, l.holds.Took(&key))
						}
					}
				}
				all = kept
			},
			"snapshot": func(t *rapid.T) { l = l.restored(t) },
			"": func(t *rapid.T) {
				l.turn.Stamp++
				require.NoError(t, l.holds.Consistent())
				require.EqualValues(t, len(all), l.holds.Kept)
				l.compare(t, all)
			},
		})
	})
}

// compare compares what is asked of reservations with the model.
func (l *projection) compare(t *rapid.T, all []modelled) {
	now := rapid.Int64Range(0, 100).Draw(t, "now")
	for customer := uint32(1); customer <= customers; customer++ {
		next, open := rows.Due{At: rows.Never}, uint32(0)
		var listed, wanted []uint32
		for i := len(all) - 1; i >= 0; i-- {
			m := &all[i]
			if m.hold.Customer != customer {
				continue
			}
			wanted = append(wanted, m.row)
			if m.hold.State == ReservationOpen {
				open++
				if d := (rows.Due{At: m.hold.ExpiresAt, Row: m.row}); d.At < next.At ||
					d.At == next.At && d.Row < next.Row {
					next = d
				}
			}
		}
		l.holds.Listed(customer, 0, func(row uint32, _ *Hold) bool {
			listed = append(listed, row)
			return true
		})
		require.Equal(t, wanted, listed)
		require.Equal(t, next, l.holds.NextOf(customer))
		require.Equal(t, open, l.holds.OpenOf(customer))
		require.Equal(t, open > 0, l.book.Customers.Read(customer).Held)
		for n := uint32(1); n <= features; n++ {
			require.Equal(t, units(all, customer, n, now),
				l.holds.Units(customer, customer, n, now))
			require.Equal(t, creditsOf(all, customer, catalogs.PoolName(n), now),
				l.holds.Credits(customer, catalogs.PoolName(n), now))
		}
	}
	first := rows.Due{At: rows.Never}
	for i := range all {
		m := &all[i]
		row, customer := l.holds.Find(1, &m.hold.ID)
		require.Equal(t, m.row, row)
		require.Equal(t, m.hold.Customer, customer)
		require.Equal(t, m.row, l.keyed(&m.hold.Key))
		v, ok := l.holds.At(row, &m.hold.ID)
		require.True(t, ok)
		require.Len(t, l.holds.ItemsOf(&v, nil), len(m.items))
		for key := range m.taken {
			require.True(t, l.holds.Took(&key))
		}
		if d := (rows.Due{At: m.hold.ExpiresAt, Row: row}); m.hold.State == ReservationOpen &&
			(d.At < first.At || d.At == first.At && d.Row < first.Row) {
			first = d
		}
	}
	require.Equal(t, first, l.book.Environment(1).HoldDues.First())
}

func (l *projection) add(v *Hold, items []Item, w *Words) (row uint32) {
	b := Beginning{Index: 1, Rooms: make([]Room, len(items))}
	w.Begun = b.Append(nil)
	return l.holds.Add(&l.turn, v, items, w, l.holds.Hash(&v.ID, &v.Key))
}

func (l *projection) keyed(key *[16]byte) uint32 {
	return l.holds.Keyed(key, l.holds.Hash(key, key))
}

// TestAListIsEnteredFromItsNearerEnd: a customer's open reservations are in the order of their
// expiry, whatever order they came in, and one that expires near either end passes few others.
func TestAListIsEnteredFromItsNearerEnd(t *testing.T) {
	const many = 4000
	l := newProjection()
	n := uint64(0)
	add := func(at int64) (work int) {
		n++
		v := Hold{
			ID: number(n), Key: number(n), Customer: 1, State: ReservationOpen, ExpiresAt: at,
		}
		before := l.turn.Entry.Work
		l.add(&v, []Item{{Subscription: 1, Feature: 1}}, &Words{})
		return l.turn.Entry.Work - before
	}
	for at := range int64(many) {
		add(10 * (at + 1))
	}
	for _, near := range []int64{
		1, 15, 10*many + 1, 10*many - 5, // the ends, and next to them
	} {
		require.LessOrEqual(t, add(near), 2, "%d", near)
	}
	middle := add(10 * many / 2)
	require.GreaterOrEqual(t, middle, many/stepsPerUnit/2, "the work is counted")
	require.LessOrEqual(t, middle, many/stepsPerUnit+2, "it looks from both ends")
	require.LessOrEqual(t, add(10*many/10), many/10*2/stepsPerUnit+2)
	require.LessOrEqual(t, add(10*many*9/10), many/10*2/stepsPerUnit+2)

	require.NoError(t, l.holds.Consistent())
	k, last, seen := l.holds.holders.Read(l.holds.holderOf(1)), rows.Due{}, 0
	for row := k.first; row != 0; row = l.holds.Rows.Read(row).Next {
		v := l.holds.Rows.Read(row)
		require.True(t, later(v.ExpiresAt, row, last.At, last.Row), "%d behind %d", v.ExpiresAt, last.At)
		last, seen = rows.Due{At: v.ExpiresAt, Row: row}, seen+1
		if v.Next == 0 {
			require.Equal(t, k.last, row)
		}
	}
	require.EqualValues(t, n, seen)
}

func TestOthersReservationsAreNotFound(t *testing.T) {
	l := newProjection()
	v := Hold{ID: number(1), Key: number(2), Customer: 1, State: ReservationOpen, ExpiresAt: 5}
	l.add(&v, []Item{{Subscription: 1, Feature: 1}}, &Words{})
	row, _ := l.holds.Find(2, &v.ID)
	require.Zero(t, row, "it is another environment's")
	other := number(9)
	row, _ = l.holds.Find(1, &other)
	require.Zero(t, row)
	require.Zero(t, l.keyed(&other))
	require.Equal(t, rows.Never, int(l.holds.NextOf(2).At))
}

// TestRowsAreSmall: a hold and an item take no more than 96 bytes each.
func TestRowsAreSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(Hold{}), uintptr(96))
	require.LessOrEqual(t, unsafe.Sizeof(Item{}), uintptr(96))
	require.LessOrEqual(t, unsafe.Sizeof(itemRow{}), uintptr(32))
}

// TestWhatAReservationTakes: 248 bytes in all where its key is a UUID, of one feature and without
// meta, with its indexes and its customer's part; closed or open.
func TestWhatAReservationTakes(t *testing.T) {
	l := newProjection()
	const many = 50_000
	before := l.holds.Bytes()
	limit := decimal.FromInt(1_000_000_000)
	begun := (&Beginning{Index: 1 << 40, Rooms: []Room{{
		Rule: 1, HasLimit: true, Limit: limit, Remaining: limit,
	}}}).Append(nil)
	for n := uint64(1); n <= many; n++ {
		v := Hold{
			ID: number(n), Key: number(n + many), State: ReservationOpen, CreatedAt: int64(n),
			ExpiresAt: int64(n), Customer: 1,
		}
		l.add(&v, []Item{{Subscription: 1, Feature: 1, Granted: decimal.FromInt(1200)}},
			&Words{Key: "018f6b2c-7d1e-7000-8000-000000000001", Begun: begun})
	}
	require.LessOrEqual(t, (l.holds.Bytes()-before)/many, uint64(248))
}

// item changes the first item.
func (h *Holds) item(change func(i *Item)) {
	i := h.Items.Read(1)
	change(&i)
	h.Items.Write(1, &i)
}

// TestDamageIsFound: a state that no log could have led to is refused at restore.
func TestDamageIsFound(t *testing.T) {
	for name, damage := range map[string]func(h *Holds){
		"no customer":       func(h *Holds) { h.Rows.Write(1).Customer = 9 },
		"no state":          func(h *Holds) { h.Rows.Write(1).State = 9 },
		"open and closed":   func(h *Holds) { h.Rows.Write(1).ClosedAt = 3 },
		"no item":           func(h *Holds) { h.Rows.Write(1).FirstItem = 0 },
		"another's item":    func(h *Holds) { h.Rows.Write(1).FirstItem = 2 },
		"item of a circle":  func(h *Holds) { h.item(func(i *Item) { i.Next = 1 }) },
		"item nowhere":      func(h *Holds) { h.item(func(i *Item) { i.Next = 77 }) },
		"no subscription":   func(h *Holds) { h.item(func(i *Item) { i.Subscription = 8 }) },
		"not its own":       func(h *Holds) { h.item(func(i *Item) { i.Subscription = 2 }) },
		"no feature":        func(h *Holds) { h.item(func(i *Item) { i.Feature = 8 }) },
		"credits of none":   func(h *Holds) { h.item(func(i *Item) { i.Credits = decimal.FromInt(1) }) },
		"below zero":        func(h *Holds) { h.item(func(i *Item) { i.Settled = decimal.FromInt(-1) }) },
		"wrong count":       func(h *Holds) { h.Kept++ },
		"older nowhere":     func(h *Holds) { h.Rows.Write(2).Older = 3 },
		"two newest":        func(h *Holds) { h.Rows.Write(2).Older, h.Rows.Write(1).Newer = 0, 0 },
		"next nowhere":      func(h *Holds) { h.Rows.Write(1).Next = 44 },
		"next is earlier":   func(h *Holds) { h.Rows.Write(1).ExpiresAt = 50 },
		"previous of none":  func(h *Holds) { h.Rows.Write(1).Previous = 2 },
		"closed, not last":  func(h *Holds) { h.LastClosed = 1 },
		"closed is open":    func(h *Holds) { h.FirstClosed, h.LastClosed = 1, 1 },
		"free is used":      func(h *Holds) { h.FreeHold = 1 },
		"free item is used": func(h *Holds) { h.FreeItem = 1 },
		"texts":             func(h *Holds) { h.Texts.Append() },
		"a text":            func(h *Holds) { h.Texts.Set(1, []byte{0xff}) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newProjection()
			for n := uint64(1); n <= 3; n++ {
				v := Hold{
					ID: number(n), Key: number(n), Customer: 1, State: ReservationOpen, ExpiresAt: int64(10 * n),
				}
				if n == 3 {
					v.Customer = 2
				}
				row := l.add(&v,
					[]Item{{Subscription: v.Customer, Feature: 1}}, &Words{Key: "k"})
				if l.turn.Stamp = int64(n); n == 3 {
					v.State = ReservationSettled
					l.holds.Put(&l.turn, row, &v, l.holds.ItemsOf(l.holds.Rows.Read(row), nil))
				}
			}
			require.NoError(t, l.holds.Consistent())
			damage(l.holds)
			require.ErrorIs(t, l.holds.Consistent(), rows.ErrSnapshot)
		})
	}
}
