package billing_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// desk is a machine with a customer.
type desk struct {
	*enginetest.Log
	t testing.TB
	m *billing.Machine
}

func newDesk(t testing.TB) *desk {
	t.Helper()
	m := billing.New(billing.Config{})
	d := &desk{Log: enginetest.NewLog(m, enginetest.Epoch), t: t, m: m}
	d.is(engine.OutcomeDone, billing.KindCreateAccount,
		&billing.CreateAccount{ID: enginetest.ID("acme"), Name: "acme", Actor: "ops"})
	d.is(engine.OutcomeDone, billing.KindApplyCatalog,
		enginetest.ApplyCatalog(enginetest.Sandbox, enginetest.TokenPlan()))
	d.is(engine.OutcomeDone, billing.KindCreateCustomer, d.ada())
	return d
}

func (d *desk) ada() *billing.CreateCustomer {
	return &billing.CreateCustomer{
		Env: enginetest.Sandbox, ID: enginetest.ID("ada"), ExternalID: "ada", FirstName: "Ada",
		LastName: "Lovelace", Email: "ada@example.com", PhoneNumber: "+44 20", Address: "St James's",
	}
}

// changes lists the admin changes that a machine's journal has, newest first.
func (d *desk) changes(m *billing.Machine, before uint64, limit int) []billing.ChangeView {
	d.t.Helper()
	changes, _, err := m.Changes(&enginetest.Source{Journal: m.Journal()}, billing.ChangeQuery{
		Before: before, Limit: limit, Scan: limit,
	})
	require.NoError(d.t, err)
	return changes
}

func (d *desk) is(o engine.Outcome, kind engine.Kind, c wire.Fielder) engine.Result {
	d.t.Helper()
	r := d.Do(kind, c)
	require.Equal(d.t, o, r.Outcome)
	return r
}

func (d *desk) subscribe() *billing.CreateSubscription {
	return &billing.CreateSubscription{
		Env: enginetest.Sandbox, ID: enginetest.ID("s"), InvoiceID: enginetest.ID("i"),
		Customer: "ada", Plan: "llm-team", GraceDays: 7,
	}
}

func TestUpdateCustomerChangesWhatItNames(t *testing.T) {
	d := newDesk(t)
	d.Stamp += 1000
	d.is(engine.OutcomeDone, billing.KindUpdateCustomer, &billing.UpdateCustomer{
		Env: enginetest.Sandbox, ExternalID: "ada",
		Set:   billing.CustomerEmail | billing.CustomerPhoneNumber,
		Email: "countess@example.com", LastName: "King",
	})
	c, ok := d.m.Customer(enginetest.Sandbox, "ada")
	require.True(t, ok)
	require.Equal(t, "countess@example.com", c.Email)
	require.Empty(t, c.PhoneNumber)
	require.Equal(t, "Lovelace", c.LastName)
	require.Equal(t, c.CreatedAt+1000, c.ModifiedAt)
	d.is(engine.OutcomeCustomerUnknown, billing.KindUpdateCustomer,
		&billing.UpdateCustomer{Env: enginetest.Sandbox, ExternalID: "nobody"})
}

func TestArchivedCustomersTakeNothingNew(t *testing.T) {
	d := newDesk(t)
	archive := &billing.ArchiveCustomer{Env: enginetest.Sandbox, ExternalID: "ada"}
	d.is(engine.OutcomeDone, billing.KindCreateSubscription, d.subscribe())
	d.is(engine.OutcomeCustomerSubscribed, billing.KindArchiveCustomer, archive)
	d.m.Cancel(enginetest.ID("s"), d.Stamp)
	d.is(engine.OutcomeDone, billing.KindArchiveCustomer, archive)
	d.is(engine.OutcomeDone, billing.KindArchiveCustomer, archive)
	d.is(engine.OutcomeCustomerArchived, billing.KindUpdateCustomer,
		&billing.UpdateCustomer{Env: enginetest.Sandbox, ExternalID: "ada"})
	again := d.subscribe()
	again.ID, again.InvoiceID = enginetest.ID("s2"), enginetest.ID("i2")
	d.is(engine.OutcomeCustomerArchived, billing.KindCreateSubscription, again)
	other := d.ada()
	other.ID = enginetest.ID("other")
	d.is(engine.OutcomeCustomerExists, billing.KindCreateCustomer, other)
	require.NotEmpty(t, d.m.Invoices(enginetest.Sandbox, 1), "what it has stays")
}

// parties are who an invoice says it is from, and for.
func parties(m *billing.Machine, number uint64) string {
	c, _ := m.CustomerOn(enginetest.Sandbox, "ada", number)
	return m.SellerOf(enginetest.Sandbox, number).Name + ", " + c.LastName
}

// rename names the customer, and the seller.
func (d *desk) rename(name string) {
	d.is(engine.OutcomeDone, billing.KindUpdateCustomer, &billing.UpdateCustomer{
		Env: enginetest.Sandbox, ExternalID: "ada", Set: billing.CustomerLastName, LastName: name,
	})
	d.sells(name)
}

func (d *desk) sells(name string) {
	seller := billing.Seller{Name: name}
	if name != "" {
		seller.Name += " Ltd"
	}
	d.is(engine.OutcomeDone, billing.KindSetSeller, &billing.SetSeller{
		Env: enginetest.Sandbox, Seller: seller, Actor: "ops",
	})
}

// invoice issues one at once.
func (d *desk) invoice(name string) {
	c := d.subscribe()
	c.ID, c.InvoiceID = enginetest.ID("s"+name), enginetest.ID("i"+name)
	d.is(engine.OutcomeDone, billing.KindCreateSubscription, c)
}

// TestInvoicesKeepTheirParties: seller and customer are those of when an invoice was issued, also
// in the same millisecond, and after a restore; of the customer's many changes the newest are kept.
func TestInvoicesKeepTheirParties(t *testing.T) {
	d := newDesk(t)
	d.rename("Byron") // before any invoice
	wanted := []string{}
	for i := range 25 {
		name := fmt.Sprint("Name", i)
		for edit := range 3 {
			d.rename(fmt.Sprint("unused by any invoice", edit))
		}
		d.rename(name)
		d.invoice(name)
		wanted = append(wanted, name)
		d.Stamp += int64(i % 2)
	}
	for edit := range 30 {
		d.rename(fmt.Sprint("half typed", edit))
	}
	d.rename("King")
	for _, m := range []*billing.Machine{d.m, restored(t, enginetest.Snapshot(t, d.m))} {
		c, _ := m.Customer(enginetest.Sandbox, "ada")
		require.Equal(t, "King", c.LastName)
		require.Equal(t, "ada@example.com", c.Email)
		require.Len(t, m.Invoices(enginetest.Sandbox, c.Row), 25)
		for i, v := range m.Invoices(enginetest.Sandbox, c.Row) {
			// 20 changes of a customer are kept
			require.Equal(t, wanted[i]+" Ltd, "+wanted[max(5, i)], parties(m, v.Number))
		}
		require.Equal(t, "King Ltd, King", parties(m, 0))
		require.Equal(t, "King Ltd, King", parties(m, 26))
		_, known := m.CustomerOn(enginetest.Sandbox, "bob", 0)
		require.False(t, known)
		require.Empty(t, m.SellerOf(99, 0))
	}
}

// TestInvoicesOfNoSeller: the first seller applies to all earlier invoices; later on, none is one
// like the others.
func TestInvoicesOfNoSeller(t *testing.T) {
	d := newDesk(t)
	for _, name := range []string{"", "A", "", "B"} {
		if name != "" || d.m.Seller(enginetest.Sandbox) != (billing.Seller{}) {
			d.sells(name)
		}
		d.invoice("of " + name + fmt.Sprint(d.Index))
	}
	for number, want := range []string{"B Ltd", "A Ltd", "A Ltd", "", "B Ltd"} {
		require.Equal(t, want, d.m.SellerOf(enginetest.Sandbox, uint64(number)).Name, "%d", number)
	}
}

// TestDueInvoicesKeepTheirParties: an invoice that is due before a change is issued before it, even
// if nothing has stored it yet.
func TestDueInvoicesKeepTheirParties(t *testing.T) {
	for _, first := range []func(d *desk, name string){
		(*desk).rename,
		func(d *desk, name string) {
			d.sells(name)
			d.rename(name + " and")
		},
	} {
		d := newDesk(t)
		d.rename("Byron")
		d.invoice("one")
		d.rename("King")
		d.Stamp += 32 * dayMS
		first(d, "Lovelace")
		d.DoPayload(engine.KindTick, nil)
		require.Equal(t, "Byron Ltd, Byron", parties(d.m, 1))
		require.Equal(t, "King Ltd, King", parties(d.m, 2))
	}
}

// TestErasureLeavesNoTrace: none of the data is in a later snapshot, whatever held a copy.
func TestErasureLeavesNoTrace(t *testing.T) {
	d := newDesk(t)
	d.is(engine.OutcomeDone, billing.KindCreateSubscription, d.subscribe())
	d.is(engine.OutcomeDone, billing.KindUpdateCustomer, &billing.UpdateCustomer{
		Env: enginetest.Sandbox, ExternalID: "ada", Set: billing.CustomerLastName, LastName: "King",
	})
	for _, text := range []string{"Lovelace", "ada@example.com", "+44 20", "St James's"} {
		require.Contains(t, string(enginetest.Snapshot(t, d.m)), text)
	}
	d.is(engine.OutcomeDone, billing.KindEraseCustomer,
		&billing.EraseCustomer{Env: enginetest.Sandbox, ExternalID: "ada", Actor: "ops"})
	snapshot := enginetest.Snapshot(t, d.m)
	for _, text := range []string{"Lovelace", "ada@example.com", "+44 20", "St James's"} {
		require.NotContains(t, string(snapshot), text)
	}
	restored := restored(t, snapshot)
	c, ok := restored.Customer(enginetest.Sandbox, "ada")
	require.True(t, ok)
	require.Equal(t, billing.ErasedEmail, c.Email)
	require.Equal(t, billing.ErasedName, c.FirstName)
	require.Empty(t, c.PhoneNumber+c.Address)
	require.NotZero(t, c.ErasedAt)
	require.Len(t, restored.Invoices(enginetest.Sandbox, c.Row), 1, "numbers stay")
	d.is(engine.OutcomeCustomerArchived, billing.KindUpdateCustomer, &billing.UpdateCustomer{
		Env: enginetest.Sandbox, ExternalID: "ada", Set: billing.CustomerFirstName, FirstName: "Ada",
	})
}

func once(key, body string, kind engine.Kind, c wire.Fielder) *billing.Once {
	return &billing.Once{
		Env: enginetest.Sandbox, Key: enginetest.ID(key), Body: enginetest.ID(body), Kind: kind,
		Payload: wire.Encode(nil, c),
	}
}

func reply(t *testing.T, r engine.Result) (got billing.OnceReply) {
	require.NoError(t, wire.Decode(r.Value, &got))
	return got
}

func TestOnceCarriesOutOneRequest(t *testing.T) {
	d := newDesk(t)
	first := d.is(engine.OutcomeDone, billing.KindOnce,
		once("k", "b", billing.KindCreateSubscription, d.subscribe()))
	want := billing.OnceReply{First: enginetest.ID("s"), Second: enginetest.ID("i")}
	require.Equal(t, want, reply(t, first))
	// Each attempt mints ids of its own; the first one's are answered.
	again := d.subscribe()
	again.ID, again.InvoiceID = enginetest.ID("s2"), enginetest.ID("i2")
	want.Repeated = true
	repeat := once("k", "b", billing.KindCreateSubscription, again)
	require.Equal(t, want, reply(t, d.is(engine.OutcomeDone, billing.KindOnce, repeat)))
	d.is(engine.OutcomeRequestKeyReused, billing.KindOnce,
		once("k", "other", billing.KindCreateSubscription, again))
	require.Len(t, d.m.Subscriptions(1), 1)

	restored := restored(t, enginetest.Snapshot(t, d.m))
	log := enginetest.NewLog(restored, d.Stamp)
	require.Equal(t, want, reply(t, log.Do(billing.KindOnce, repeat)), "kept in snapshots")

	d.Stamp += billing.RequestRetentionMS - 1
	require.Equal(t, want, reply(t, d.is(engine.OutcomeDone, billing.KindOnce, repeat)))
	d.Stamp++
	require.False(t, reply(t, d.is(engine.OutcomeDone, billing.KindOnce, repeat)).Repeated)
	require.Len(t, d.m.Subscriptions(1), 2, "forgotten after 24 hours")
	d.Stamp++
	require.True(t, reply(t, d.is(engine.OutcomeDone, billing.KindOnce, repeat)).Repeated)
}

func TestOnceRefusedLeavesItsKey(t *testing.T) {
	d := newDesk(t)
	bad := d.subscribe()
	bad.Plan = "none"
	d.is(engine.OutcomePlanUnknown, billing.KindOnce,
		once("k", "b", billing.KindCreateSubscription, bad))
	d.is(engine.OutcomeDone, billing.KindOnce,
		once("k", "b2", billing.KindCreateSubscription, d.subscribe()))
}

// TestOnceKeepsAPaidCheckout: a checkout of a paid invoice opens nothing, and uses up its key.
func TestOnceKeepsAPaidCheckout(t *testing.T) {
	d, invoice := payDesk(t)
	d.m.SetInvoiceStatus(invoice.ID, billing.InvoicePaid)
	open := once("k", "b", billing.KindOpenCheckout, &billing.OpenCheckout{
		Env: enginetest.Sandbox, ID: enginetest.ID("c"), InvoiceID: invoice.ID,
	})
	first := reply(t, d.is(engine.OutcomeDone, billing.KindOnce, open))
	require.Equal(t, billing.OnceReply{}, first)
	first.Repeated = true
	require.Equal(t, first, reply(t, d.is(engine.OutcomeDone, billing.KindOnce, open)))
	open.Body = enginetest.ID("other")
	d.is(engine.OutcomeRequestKeyReused, billing.KindOnce, open)
	_, ok := d.m.Checkout(enginetest.Sandbox, enginetest.ID("c"))
	require.False(t, ok)
}

func TestOnceCarriesListedCommandsOnly(t *testing.T) {
	d := newDesk(t)
	payload := wire.Encode(nil, once("k", "b", billing.KindSetLimits, &billing.SetLimits{}))
	_, err := d.Apply(engine.Record{Kind: billing.KindOnce, Payload: payload})
	require.ErrorIs(t, err, engine.ErrHalt)
}

func TestCustomerKeysBelongToOneCustomer(t *testing.T) {
	d := newDesk(t)
	key := &billing.CreateKey{
		Env: enginetest.Sandbox, ID: enginetest.ID("k"), Hash: [32]byte{1},
		Scope: billing.ScopeCustomer, Customer: "nobody",
	}
	d.is(engine.OutcomeCustomerUnknown, billing.KindCreateKey, key)
	key.Customer = "ada"
	d.is(engine.OutcomeDone, billing.KindCreateKey, key)
	restored := restored(t, enginetest.Snapshot(t, d.m))
	p, ok := restored.Authenticate([32]byte{1})
	require.True(t, ok)
	require.Equal(t, restored.CustomerRow(enginetest.Sandbox, []byte("ada")), p.CustomerRow)
	require.Equal(t, "ada", restored.Keys(enginetest.Sandbox)[0].Customer)
}

func TestEveryAdminChangeIsRemembered(t *testing.T) {
	d := newDesk(t)
	d.Stamp += 5
	d.is(engine.OutcomeDone, billing.KindSetOrigins, &billing.SetOrigins{
		Env: enginetest.Sandbox, Origins: []string{"https://" + strings.Repeat("é", 1000)}, Actor: "ops",
	})
	d.is(engine.OutcomeDone, billing.KindCreateKey, &billing.CreateKey{
		Env: enginetest.Sandbox, ID: enginetest.ID("k"), Scope: billing.ScopeRead, Actor: "ops",
	})
	d.is(engine.OutcomeDone, billing.KindRevokeKey, &billing.RevokeKey{
		Env: enginetest.Sandbox, ID: enginetest.ID("k"), Actor: "ops",
	})
	restored := restored(t, enginetest.Snapshot(t, d.m))
	changes := d.changes(restored, 0, 100)
	require.Equal(t, d.changes(d.m, 0, 100), changes)
	var actions []string
	for _, c := range changes {
		actions = append(actions, c.Action)
	}
	require.Equal(t, []string{
		"key.revoked", "key.created", "origins.set", "catalog.applied", "account.created",
	}, actions)
	require.Equal(t, "acme", changes[0].Account)
	require.Equal(t, "ops", changes[0].Actor)
	require.Equal(t, d.Stamp, changes[0].At)
	require.Equal(t, []billing.FieldChange{{Name: "revoked", Before: "false", After: "true"}}, changes[0].Values)
	require.Equal(t, "https://"+strings.Repeat("é", 508)+"… and 984 more bytes",
		changes[2].Values[0].After)
	page := d.changes(restored, changes[1].Number, 2)
	require.Equal(t, changes[2:4], page)
	require.Equal(t, []string{"https://" + strings.Repeat("é", 1000)}, restored.Origins(enginetest.Sandbox))
	require.False(t, restored.OriginListed("https://other.example"))
}

// TestVersionsCountTheirSubscribers: through new versions, changes of plan and ends, also behind a
// restore; and those who are counted are listed.
func TestVersionsCountTheirSubscribers(t *testing.T) {
	m, l := opened() // ada is on llm-team
	const plan = "llm-team"
	for i := range 4 {
		enginetest.NewCustomer(l, fmt.Sprint("c", i), plan)
	}
	doc := m.Catalog(enginetest.Sandbox)
	for i := range doc.Plans {
		if doc.Plans[i].Key == plan {
			doc.Plans[i].PriceAmount = decimal.FromInt(77)
		}
	}
	require.Equal(t, engine.OutcomeDone,
		l.Do(billing.KindApplyCatalog, enginetest.ApplyCatalog(enginetest.Sandbox, doc)).Outcome)
	enginetest.NewCustomer(l, "c4", plan)
	require.Equal(t, engine.OutcomeDone, l.Do(billing.KindChangePlan, &billing.ChangePlan{
		Env: enginetest.Sandbox, ID: enginetest.ID("subscription c0 " + plan),
		ChangeID: enginetest.ID("change"), Plan: plan, Type: billing.ChangeUpgrade,
	}).Outcome)
	cancelled := l.Do(billing.KindCancelSubscription, &billing.CancelSubscription{
		Env: enginetest.Sandbox, ID: enginetest.ID("subscription c1 " + plan),
		Mode: billing.CancelImmediate,
	})
	require.Equal(t, engine.OutcomeDone, cancelled.Outcome)

	for _, m := range []*billing.Machine{m, restored(t, enginetest.Snapshot(t, m))} {
		versions, ok := m.PlanVersions(enginetest.Sandbox, plan)
		require.True(t, ok)
		require.Len(t, versions, 2)
		require.Equal(t, []int64{2, 3}, []int64{versions[0].Subscribers, versions[1].Subscribers})
		require.Equal(t, int64(5), m.Subscribers(enginetest.Sandbox)[plan])
		q := billing.SubscriberQuery{
			Env: enginetest.Sandbox, Plan: plan, Version: 2, Before: math.MaxUint32, Limit: 1, Scan: 100,
		}
		var found []string
		for {
			list, next, ok := m.SubscribersOf(&q)
			require.True(t, ok)
			for _, s := range list {
				found = append(found, s.CustomerReferenceID)
			}
			if q.Before = next; next == 0 {
				break
			}
		}
		require.Equal(t, []string{"c4", "c0"}, found)
		q.Before, q.Scan = math.MaxUint32, 1
		list, next, _ := m.SubscribersOf(&q)
		require.Len(t, list, 1)
		require.NotZero(t, next)
		q.Plan = "none"
		_, _, ok = m.SubscribersOf(&q)
		require.False(t, ok)
		q.Plan, q.Env = plan, enginetest.Sandbox+1
		_, _, ok = m.SubscribersOf(&q)
		require.False(t, ok, "of another environment")
	}
}

// TestKeyUsesAreNoted: with how often, by hours of a day and days of a month, also behind a
// snapshot and a restore; of a revoked key, or another environment's, none.
func TestKeyUsesAreNoted(t *testing.T) {
	d := newDesk(t)
	key := &billing.NoteKeyUse{Env: enginetest.Sandbox, ID: enginetest.ID("k")}
	d.is(engine.OutcomeDone, billing.KindCreateKey, &billing.CreateKey{
		Env: key.Env, ID: key.ID, Hash: [32]byte{7}, Scope: billing.ScopeRead, Actor: "ada",
	})
	view := func(m *billing.Machine) billing.UsedKeyView {
		p, ok := m.Authenticate([32]byte{7})
		require.True(t, ok)
		v := m.KeysUsed(key.Env, d.Stamp)[0]
		require.Equal(t, p.UsedAt, v.UsedAt)
		return v
	}
	used := func(requests, events uint64) {
		key.Requests, key.Events = requests, events
		d.is(engine.OutcomeDone, billing.KindNoteKeyUse, key)
		require.Equal(t, d.Stamp, view(d.m).UsedAt)
	}
	counts := func() []uint64 {
		v := view(d.m)
		return []uint64{v.DayRequests, v.DayEvents, v.MonthRequests, v.MonthEvents}
	}
	require.Equal(t, "ada", view(d.m).CreatedBy)
	require.Zero(t, view(d.m).UsedAt)
	day := int64(24 * hourMS)
	d.Stamp = d.Stamp/day*day + day + hourMS/2 // half past midnight
	used(1, 0)
	used(2, 10)
	require.Equal(t, []uint64{3, 10, 3, 10}, counts())
	d.Stamp += 23 * hourMS
	used(100, 0)
	require.Equal(t, []uint64{103, 10, 103, 10}, counts())
	d.Stamp += hourMS
	require.Equal(t, []uint64{100, 0, 103, 10}, counts(), "the first hour is over")
	d.Stamp += 28 * day
	require.Equal(t, []uint64{0, 0, 103, 10}, counts())
	used(1000, 0)
	d.Stamp += day
	require.Equal(t, []uint64{0, 0, 1000, 0}, counts(), "and so is the first day")
	for range 100 {
		d.Stamp += 2 * hourMS
		used(1, 1)
	}
	require.Equal(t, view(d.m), view(restored(t, enginetest.Snapshot(t, d.m))))

	d.is(engine.OutcomeKeyUnknown, billing.KindNoteKeyUse, &billing.NoteKeyUse{
		Env: enginetest.Sandbox + 1, ID: key.ID,
	})
	d.is(engine.OutcomeDone, billing.KindRevokeKey, &billing.RevokeKey{Env: key.Env, ID: key.ID})
	d.is(engine.OutcomeKeyUnknown, billing.KindNoteKeyUse, key)
}

// TestANoteOfUsesCountsOnce: one that is proposed again changes nothing, nor does one behind a
// later one of its source, also after a restore. The newest sources are known.
func TestANoteOfUsesCountsOnce(t *testing.T) {
	d := newDesk(t)
	key := [32]byte{7}
	d.is(engine.OutcomeDone, billing.KindCreateKey, &billing.CreateKey{
		Env: enginetest.Sandbox, ID: enginetest.ID("k"), Hash: key, Scope: billing.ScopeRead,
	})
	requests := func(l *enginetest.Log, m *billing.Machine, source, number uint64) uint64 {
		t.Helper()
		require.Equal(t, engine.OutcomeDone, l.Do(billing.KindNoteKeyUse, &billing.NoteKeyUse{
			Env: enginetest.Sandbox, ID: enginetest.ID("k"), Requests: 1, Source: source, Number: number,
		}).Outcome)
		return m.KeysUsed(enginetest.Sandbox, l.Stamp)[0].DayRequests
	}
	require.EqualValues(t, 1, requests(d.Log, d.m, 1, 5))
	require.EqualValues(t, 1, requests(d.Log, d.m, 1, 5), "again")
	require.EqualValues(t, 2, requests(d.Log, d.m, 2, 5), "of another source")
	require.EqualValues(t, 2, requests(d.Log, d.m, 1, 4), "of before")
	require.EqualValues(t, 3, requests(d.Log, d.m, 1, 9))
	again := restored(t, enginetest.Snapshot(t, d.m))
	log := enginetest.NewLog(again, d.Stamp)
	require.EqualValues(t, 3, requests(log, again, 1, 9))
	require.EqualValues(t, 3, requests(log, again, 2, 5))
	for source := uint64(3); source < 18; source++ {
		require.EqualValues(t, source+1, requests(log, again, source, 1))
	}
	require.EqualValues(t, 18, requests(log, again, 1, 9), "one of the 16 newest")
	require.EqualValues(t, 18, requests(log, again, 17, 1))
	require.EqualValues(t, 19, requests(log, again, 2, 5), "the one that noted least recently")
}

// TestRevokedKeysMakeRoom: only keys in use count, so that a key can always be replaced; of the
// revoked ones those stay listed that were revoked last, and a restored machine goes on alike.
func TestRevokedKeysMakeRoom(t *testing.T) {
	d := newDesk(t)
	hashOf := func(i int) (hash [32]byte) {
		binary.BigEndian.PutUint64(hash[:], uint64(i)*0x9e3779b97f4a7c15)
		hash[31] = 1
		return hash
	}
	create := func(i int) *billing.CreateKey {
		return &billing.CreateKey{
			Env: enginetest.Sandbox, ID: enginetest.ID(fmt.Sprint("key ", i)), Hash: hashOf(i),
			Scope: billing.ScopeFull,
		}
	}
	revoke := func(i int) *billing.RevokeKey {
		return &billing.RevokeKey{Env: enginetest.Sandbox, ID: enginetest.ID(fmt.Sprint("key ", i))}
	}
	for i := range billing.MaxAPIKeys {
		d.is(engine.OutcomeDone, billing.KindCreateKey, create(i))
	}
	d.is(engine.OutcomeAccountLimit, billing.KindCreateKey, create(9000))
	// Keys are replaced until there is no room for revoked ones; the oldest of all leaks last.
	const replaced = billing.MaxListedKeys - billing.MaxAPIKeys + 5
	newest := billing.MaxAPIKeys - 1
	for i := 1; i <= replaced; i++ {
		newest++
		d.is(engine.OutcomeDone, billing.KindRevokeKey, revoke(i))
		d.is(engine.OutcomeDone, billing.KindCreateKey, create(newest))
	}
	d.is(engine.OutcomeDone, billing.KindRevokeKey, revoke(0))
	again := restored(t, enginetest.Snapshot(t, d.m))
	log := enginetest.NewLog(again, d.Stamp)
	log.Index = d.Index
	newest++
	d.is(engine.OutcomeDone, billing.KindCreateKey, create(newest))
	require.Equal(t, engine.OutcomeDone, log.Do(billing.KindCreateKey, create(newest)).Outcome)
	require.Equal(t, enginetest.Snapshot(t, d.m), enginetest.Snapshot(t, again))

	for _, m := range []*billing.Machine{d.m, again} {
		keys := m.Keys(enginetest.Sandbox)
		require.Len(t, keys, billing.MaxListedKeys)
		require.Equal(t, enginetest.ID("key 0"), keys[0].ID, "revoked last, so it stays")
		require.NotZero(t, keys[0].RevokedAt)
		require.Equal(t, enginetest.ID("key 7"), keys[1].ID, "six had to go")
		require.EqualValues(t, billing.MaxListedKeys, m.Stats().APIKeys)
		for i := range newest + 1 {
			p, ok := m.Authenticate(hashOf(i))
			require.Equal(t, i > replaced, ok, i)
			if ok {
				require.Equal(t, enginetest.ID(fmt.Sprint("key ", i)), p.KeyID)
			}
		}
	}
	d.is(engine.OutcomeKeyUnknown, billing.KindRevokeKey, revoke(1))
	d.is(engine.OutcomeDone, billing.KindRevokeKey, revoke(7))
	d.is(engine.OutcomeAccountLimit, billing.KindCreateKey, create(9000))
}

// TestKeysOfReservationsLeaveRoom: they take no room of others' keys and answers, have little of
// their own, and are never refused for want of it.
func TestKeysOfReservationsLeaveRoom(t *testing.T) {
	d := newDesk(t)
	sub := d.subscribe()
	d.is(engine.OutcomeDone, billing.KindCreateSubscription, sub)
	reserve := func(key, name, body string) billing.OnceReply {
		c := enginetest.Reservation(name, "ada", "output-tokens", 1)
		return reply(t, d.is(engine.OutcomeDone, billing.KindOnce,
			once(key, body, billing.KindReserve, c)))
	}
	answer := func(key string) (status uint32) {
		d.is(engine.OutcomeDone, billing.KindKeepAnswer, &billing.KeepAnswer{
			Env: enginetest.Sandbox, Key: enginetest.ID(key), Status: 201,
			Answer: make([]byte, billing.MaxAnswer),
		})
		return reply(t, d.is(engine.OutcomeDone, billing.KindOnce,
			once(key, "b", billing.KindReserve, &billing.Reserve{}))).Status
	}
	const answers = billing.MaxIdempotentAnswers / billing.MaxAnswer
	for n := range answers + 1 {
		require.False(t, reserve(fmt.Sprint("k", n), "r", "b").Unkept)
		require.Equal(t, n < answers, answer(fmt.Sprint("k", n)) == 201, n)
	}
	require.True(t, reserve("k0", "r", "b").Repeated)
	d.is(engine.OutcomeRequestKeyReused, billing.KindOnce,
		once("k0", "other", billing.KindReserve, &billing.Reserve{}))

	d.m.KeepRequests(billing.Idempotents, billing.MaxIdempotentRequests-answers-1, d.Stamp)
	for _, m := range []*billing.Machine{d.m, restored(t, enginetest.Snapshot(t, d.m))} {
		d.m, d.Log = m, enginetest.NewLog(m, d.Stamp)
		for range 2 {
			got := reserve("beyond", "r", "b")
			require.Equal(t, []bool{true, false}, []bool{got.Unkept, got.Repeated})
			require.NotEmpty(t, got.Reply)
		}
		require.True(t, reserve("beyond", "s", "other").Unkept, "the key is unused")
	}

	// Others have as much room as without these.
	const much, third = billing.MaxEnvironmentRequests - 10, billing.OtherRequests / 3
	for env, count := range []int{much, much, much, 2*third - 3*much - 3} {
		d.m.KeepRequests(uint32(10+env), count, d.Stamp)
	}
	for n, want := range []engine.Outcome{
		engine.OutcomeDone, engine.OutcomeDone, engine.OutcomeDone, engine.OutcomeKeysFull,
	} {
		c := d.ada()
		c.ID, c.ExternalID = enginetest.ID(fmt.Sprint("c", n)), fmt.Sprint("c", n)
		o := once(fmt.Sprint("c", n), "b", billing.KindCreateCustomer, c)
		o.Env = 10
		d.is(want, billing.KindOnce, o)
	}
}
