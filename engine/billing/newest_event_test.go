package billing_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine/billing"
	"tollgate/engine/journal"
)

// TestNewestEventsAreThoseOfAllCustomers: the list of an environment is the lists of its customers
// by when they were recorded, whatever the size of its pages, and nothing of another environment.
func TestNewestEventsAreThoseOfAllCustomers(t *testing.T) {
	m := billing.New(billing.Config{})
	l := enginetest.NewLog(m, enginetest.Epoch)
	enginetest.NewAccount(l, enginetest.TokenPlan())
	names := []string{"ada", "ben", "cy"}
	rows := map[string]uint32{}
	for _, name := range names {
		enginetest.NewCustomer(l, name, "llm-team")
		customer, _ := m.Customer(enginetest.Sandbox, name)
		rows[name] = customer.Row
	}
	src := &enginetest.Source{Journal: m.Journal()}
	var block billing.AuditBlock
	sequence := uint64(0)
	for i := range 30 {
		l.Stamp += 1000
		u := enginetest.Usage(l, fmt.Sprint("k", i), names[i%3], "input-tokens", 1)
		if i%4 == 0 {
			u.OccurredAt -= 60_000
		}
		l.DoPayload(billing.KindRecordUsage, u.Seal(nil))
		if i%5 == 2 {
			ref, found, err := m.FindUsage(src, src, enginetest.Sandbox, u.Key)
			require.True(t, found && err == nil)
			l.Do(billing.KindVoidUsage, &billing.VoidUsage{
				Env: enginetest.Sandbox, Key: u.Key, Original: ref,
			})
		}
		if i%6 != 5 {
			continue
		}
		sequence++
		block.Reset(1, 1, sequence)
		for j := range 5 {
			c := billing.AuditCheck{
				Env: enginetest.Sandbox, CustomerRow: rows[names[j%3]], FeatureNumber: 1,
				Reason: billing.ReasonLimitReached, At: l.Stamp,
			}
			switch j {
			case 3:
				c.CustomerRow, c.CustomerText, c.Reason = 0, []byte("who"), billing.ReasonCustomerUnknown
			case 4:
				c.Env, c.CustomerRow, c.CustomerText = enginetest.Sandbox+1, 0, []byte("other")
			}
			block.Add(&c)
		}
		l.DoPayload(billing.KindRecordAudits, block.Encode(nil))
	}

	wide := billing.EventQuery{From: -1 << 62, To: 1 << 62, Limit: 1000}
	var want []billing.EventView
	for _, name := range names {
		q := wide
		q.Customer = rows[name]
		events, _, err := m.Events(src, q)
		require.NoError(t, err)
		for _, e := range events {
			e.Customer = name
			want = append(want, e)
		}
	}
	slices.SortFunc(want, func(a, b billing.EventView) int {
		return cmp.Or(cmp.Compare(b.Index, a.Index), cmp.Compare(b.Position, a.Position),
			cmp.Compare(b.Ordinal, a.Ordinal))
	})
	for _, limit := range []int{1, 2, 3, 7, 1000} {
		q := wide
		q.Limit = limit
		var got, strangers []billing.EventView
		for pages := 0; ; pages++ {
			require.Less(t, pages, 100)
			page, err := m.NewestEvents(src, enginetest.Sandbox, &q)
			require.NoError(t, err)
			require.LessOrEqual(t, len(page.Events), limit)
			require.Equal(t, pages == 0, page.Newest.Index != 0)
			for _, e := range page.Events {
				if e.Reason == billing.ReasonCustomerUnknown {
					require.Equal(t, "who", e.Customer)
					strangers = append(strangers, e)
				} else {
					got = append(got, e)
				}
			}
			if q.After = page.Next; q.After.Index == 0 {
				break
			}
		}
		require.Equal(t, want, got, "limit %d", limit)
		require.Len(t, strangers, 5)
	}

	narrow := wide
	narrow.Kinds, narrow.Denied = []billing.EventKind{billing.EventAudit}, true
	page, err := m.NewestEvents(src, enginetest.Sandbox, &narrow)
	require.NoError(t, err)
	require.Zero(t, page.Next)
	require.Len(t, page.Events, 20)
	page, err = m.NewestEvents(src, enginetest.Sandbox+1, &wide)
	require.NoError(t, err)
	require.Len(t, page.Events, 5)
	_, err = m.NewestEvents(failing{src}, enginetest.Sandbox, &wide)
	require.ErrorContains(t, err, "list events of environment")
}

// failing is a source that cannot be read backwards.
type failing struct{ *enginetest.Source }

func (failing) Back(journal.BackQuery, func(journal.Record) (bool, error)) error {
	return journal.ErrData
}

// TestALookForARareKindIsBounded: a page passes over so many records of other kinds, and its cursor
// leads to the older ones.
func TestALookForARareKindIsBounded(t *testing.T) {
	m := billing.New(billing.Config{})
	l := enginetest.NewLog(m, enginetest.Epoch)
	enginetest.NewAccount(l, enginetest.TokenPlan())
	enginetest.NewCustomer(l, "ada", "llm-team")
	src := &crowded{Source: &enginetest.Source{Journal: m.Journal()}, count: 100_100}
	u := enginetest.Usage(l, "k", "ada", "input-tokens", 1)
	l.DoPayload(billing.KindRecordUsage, u.Seal(nil))
	ref, found, err := m.FindUsage(src, src, enginetest.Sandbox, u.Key)
	require.True(t, found && err == nil)
	l.Do(billing.KindVoidUsage, &billing.VoidUsage{
		Env: enginetest.Sandbox, Key: u.Key, Original: ref,
	})
	customer, _ := m.Customer(enginetest.Sandbox, "ada")
	src.owner = customer.Row

	q := billing.EventQuery{
		Kinds: []billing.EventKind{billing.EventVoid}, From: -1 << 62, To: 1 << 62, Limit: 10,
	}
	page, err := m.NewestEvents(src, enginetest.Sandbox, &q)
	require.NoError(t, err)
	require.Empty(t, page.Events)
	require.NotZero(t, page.Next.Index)
	require.LessOrEqual(t, src.yielded, 100_001)
	until := page.Newest
	q.After = page.Next
	page, err = m.NewestEvents(src, enginetest.Sandbox, &q)
	require.NoError(t, err)
	require.Len(t, page.Events, 1)
	require.Equal(t, billing.EventVoid, page.Events[0].Kind)
	require.Zero(t, page.Next)

	// Who goes on from the newest of before looks at nothing twice, found or not.
	src.yielded, q.After, q.Until = 0, journal.Cursor{}, until
	page, err = m.NewestEvents(src, enginetest.Sandbox, &q)
	require.NoError(t, err)
	require.Equal(t, billing.EventPage{Events: []billing.EventView{}, Newest: until}, page)
	require.Equal(t, 1, src.yielded)
}

// crowded is a source with many usage records of a customer after the others.
type crowded struct {
	*enginetest.Source
	owner          uint32
	count, yielded int
}

func (c *crowded) Back(q journal.BackQuery, yield func(journal.Record) (bool, error)) error {
	for i := range c.count {
		r := journal.Record{Kind: journal.KindUsage, Index: 1<<40 - uint64(i), Owner: c.owner}
		if !q.Reaches(&r) {
			continue
		}
		c.yielded++
		if more, err := yield(r); err != nil || !more {
			return err
		}
	}
	return c.Source.Back(q, yield)
}
