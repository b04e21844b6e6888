package billing_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

// TestQueriesBesideApply: queries of every kind run while entries are applied, snapshots written
// and catalogs changed. Counters only grow, a snapshot restores to what was there when it began,
// and the race detector has nothing to say.
func TestQueriesBesideApply(t *testing.T) {
	m, l := opened()
	l.Keep = false
	src := &enginetest.Source{Journal: m.Journal()}
	key := [32]byte{7}
	l.Do(billing.KindCreateKey, &billing.CreateKey{
		Env: enginetest.Sandbox, ID: enginetest.ID("key"), Hash: key, Scope: billing.ScopeFull,
	})
	var stop atomic.Bool
	var readers sync.WaitGroup
	for n := range 3 {
		readers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(n), 1))
			for !stop.Load() {
				readEverything(t, m, src, r, key)
			}
		})
	}
	for i := range 150 {
		write(l, i)
		if i%50 == 25 {
			snapshotBeside(t, m, l, i)
		}
	}
	stop.Store(true)
	readers.Wait()
	require.Equal(t, "1800", check(m, "ada", "requests").Used.String())
}

func write(l *enginetest.Log, i int) {
	l.Stamp += 10
	enginetest.NewCustomer(l, fmt.Sprint("c", i), "llm-team")
	if i%20 == 0 {
		doc := enginetest.TokenPlan()
		doc.Plans[0].PriceAmount, _ = doc.Plans[0].PriceAmount.MulInt(int64(i + 1))
		l.Do(billing.KindApplyCatalog, enginetest.ApplyCatalog(enginetest.Sandbox, doc))
	}
	var records []engine.Record
	for j := range 12 {
		records = append(records, engine.Record{
			Kind: billing.KindRecordUsage, Payload: enginetest.Usage(
				l, fmt.Sprint("k", i, "-", j), "ada", "requests", 1).Seal(nil),
		})
	}
	if _, err := l.Apply(records...); err != nil {
		panic(err)
	}
}

// snapshotBeside writes a snapshot while entries are applied.
func snapshotBeside(t *testing.T, m *billing.Machine, l *enginetest.Log, i int) {
	used := check(m, "ada", "requests").Used
	want := enginetest.StateHash(m)
	sn, err := m.Snapshot()
	require.NoError(t, err)
	var b bytes.Buffer
	var persister sync.WaitGroup
	persister.Go(func() {
		_, err = sn.WriteTo(&b)
	})
	for j := range 5 {
		l.Stamp += 10
		enginetest.NewCustomer(l, fmt.Sprint("beside", i, "-", j), "llm-team")
		l.DoPayload(billing.KindRecordUsage, enginetest.Usage(
			l, fmt.Sprint("b", i, "-", j), "ada", "output-tokens", 1).Seal(nil))
		l.Do(billing.KindRevokeKey, &billing.RevokeKey{
			Env: enginetest.Sandbox, ID: enginetest.ID("other"),
		})
	}
	persister.Wait()
	require.NoError(t, err)
	sn.Release()
	again := restored(t, b.Bytes())
	require.Equal(t, want, enginetest.StateHash(again))
	require.Equal(t, used, check(again, "ada", "requests").Used)
}

func readEverything(
	t *testing.T, m *billing.Machine, src *enginetest.Source, r *rand.Rand, key [32]byte,
) {
	var last billing.Decision
	for range 20 {
		d := check(m, "ada", "requests")
		if d.Used.Less(last.Used) || d.LogIndex < last.LogIndex {
			t.Errorf("a check saw %v at %d after %v at %d", d.Used, d.LogIndex, last.Used, last.LogIndex)
		}
		last = d
	}
	name := fmt.Sprint("c", r.IntN(150))
	if c, ok := m.Customer(enginetest.Sandbox, name); ok {
		views := m.Subscriptions(c.Row)
		if invoices := m.Invoices(enginetest.Sandbox, c.Row); len(views) < len(invoices) &&
			len(views) != 0 {
			t.Errorf("%d subscriptions, then %d invoices", len(views), len(invoices))
		}
		if d := check(m, name, "requests"); d.Allowed() && d.SubscriptionID == ([16]byte{}) {
			t.Error("allowed without a subscription")
		}
	}
	if _, ok := m.Authenticate(key); !ok {
		t.Error("the key is gone")
	}
	if _, _, err := m.Events(src, billing.EventQuery{Customer: 1, To: 1 << 60, Limit: 5}); err != nil {
		t.Error(err)
	}
	for _, by := range rankings {
		m.RankCustomers(&billing.Ranking{
			Env: enginetest.Sandbox, Currency: "USD", By: by, Limit: 5,
		})
	}
	m.Plans(enginetest.Sandbox)
	m.Keys(enginetest.Sandbox)
	m.Accounts()
	m.Stats()
	m.StateHash()
}

// TestCustomersAreRankedBesideCatalogsThatChange: each by the catalog of when it is read, which has
// the version that it subscribed to meanwhile. Whoever subscribed before a ranking began is in it.
func TestCustomersAreRankedBesideCatalogsThatChange(t *testing.T) {
	const rankedMeanwhile, most = 10, 3_000
	m, l := opened()
	l.Keep = false
	for i := range 3_000 { // to be read before those who subscribe
		enginetest.NewCustomer(l, fmt.Sprint("first", i), "")
	}
	var subscribed atomic.Int64
	var rankers sync.WaitGroup
	var left atomic.Int32
	for _, by := range []billing.RankedBy{billing.RankedByOwed, billing.RankedByRecurring} {
		left.Add(1)
		rankers.Go(func() {
			defer left.Add(-1)
			for meanwhile := 0; meanwhile < rankedMeanwhile && subscribed.Load() < most; {
				before := subscribed.Load()
				list, others := m.RankCustomers(&billing.Ranking{
					Env: enginetest.Sandbox, Currency: "USD", By: by, Limit: 2 * most,
				})
				after := subscribed.Load() + 1 // or the next one, which is not counted yet
				if err := rankedByPrice(list, before, after); err != nil || others != 0 {
					t.Errorf("ranked by %d: %v, %d others", by, err, others)
					return
				}
				if int64(len(list)) > before+1 {
					meanwhile++
				}
			}
		})
	}
	for left.Load() > 0 && subscribed.Load() < most {
		n := subscribed.Load() + 1
		doc := enginetest.TokenPlan()
		doc.Plans[0].PriceAmount = decimal.FromInt(100 + n)
		l.Do(billing.KindApplyCatalog, enginetest.ApplyCatalog(enginetest.Sandbox, doc))
		enginetest.NewCustomer(l, fmt.Sprint(n), "llm-team")
		subscribed.Add(1)
		runtime.Gosched() // where there is one processor, a ranking is interrupted
	}
	rankers.Wait()
	require.Less(t, subscribed.Load(), int64(most), "too few subscribed while others were ranked")
}

// rankedByPrice compares a ranking of the customers 1, 2 and so on, of whom each pays more than the
// one before, and of ada, who pays least. All up to before are there, and none beyond after.
func rankedByPrice(list []billing.CustomerView, before, after int64) error {
	if len(list) == 0 || list[len(list)-1].ExternalID != "ada" {
		return errors.New("ada is not the last one")
	}
	last, early := after+1, int64(0)
	for _, c := range list[:len(list)-1] {
		n, err := strconv.ParseInt(c.ExternalID, 10, 64)
		if err != nil || n >= last {
			return fmt.Errorf("%s follows %d", c.ExternalID, last)
		}
		if last = n; n <= before {
			early++
		}
	}
	if early != before {
		return fmt.Errorf("%d of the first %d are missing", before-early, before)
	}
	return nil
}

// TestRevokedWhileASnapshotIsWritten: the snapshot holds the key as it was when it began.
func TestRevokedWhileASnapshotIsWritten(t *testing.T) {
	m, l := opened()
	hash := [32]byte{7}
	l.Do(billing.KindCreateKey, &billing.CreateKey{
		Env: enginetest.Sandbox, ID: enginetest.ID("key"), Hash: hash, Scope: billing.ScopeFull,
	})
	sn, err := m.Snapshot()
	require.NoError(t, err)
	defer sn.Release()
	l.Do(billing.KindRevokeKey, &billing.RevokeKey{Env: enginetest.Sandbox, ID: enginetest.ID("key")})
	var b bytes.Buffer
	_, err = sn.WriteTo(&b)
	require.NoError(t, err)
	_, ok := m.Authenticate(hash)
	require.False(t, ok)
	_, ok = restored(t, b.Bytes()).Authenticate(hash)
	require.True(t, ok)
}

// TestQueriesBesideRestore: a restore replaces the state under running queries.
func TestQueriesBesideRestore(t *testing.T) {
	m, l := opened()
	small := enginetest.Snapshot(t, m)
	for i := range 50 {
		enginetest.NewCustomer(l, fmt.Sprint("c", i), "llm-team")
	}
	large := enginetest.Snapshot(t, m)
	var stop atomic.Bool
	var readers sync.WaitGroup
	readers.Go(func() {
		for !stop.Load() {
			if d := check(m, "ada", "requests"); !d.Allowed() {
				t.Error("ada was away")
			}
			m.Stats()
			m.Customer(enginetest.Sandbox, "c49")
		}
	})
	for i := range 20 {
		snapshot := small
		if i%2 == 0 {
			snapshot = large
		}
		require.NoError(t, m.Restore(bytes.NewReader(snapshot)))
	}
	stop.Store(true)
	readers.Wait()
}

// together is what billing.Config.Together is in a process.
func together(parts ...func() error) error {
	var all sync.WaitGroup
	failed := make([]error, len(parts))
	for i, part := range parts {
		all.Go(func() { failed[i] = part() })
	}
	all.Wait()
	return errors.Join(failed...)
}

// TestPartsOfARestoreGoTogether: none needs what another does, in a state that fits or one that
// does not.
func TestPartsOfARestoreGoTogether(t *testing.T) {
	sound := enginetest.Snapshot(t, lived(t))
	target := billing.New(billing.Config{Together: together})
	require.NoError(t, target.Restore(bytes.NewReader(sound)))
	for what, damage := range billing.Damages() {
		m := lived(t)
		damage(m)
		err := target.Restore(bytes.NewReader(enginetest.Snapshot(t, m)))
		require.ErrorIs(t, err, billing.ErrSnapshot, what)
		require.ErrorContains(t, err, what)
	}
	require.Equal(t, sound, enginetest.Snapshot(t, target))
}
