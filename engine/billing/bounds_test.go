package billing_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
)

// TestBoundsOutliveASnapshot: a replica that was restored counts what an account holds as the
// others do, and refuses what they refuse.
func TestBoundsOutliveASnapshot(t *testing.T) {
	m := billing.New(billing.Config{})
	l := enginetest.NewLog(m, enginetest.Epoch)
	enginetest.NewAccount(l, enginetest.TokenPlan())
	name := m.Accounts()[0].Name
	use, bounds, ok := m.Use(name)
	require.True(t, ok)
	require.Equal(t, billing.DefaultBounds, bounds)
	require.Positive(t, use.Catalog)
	enginetest.NewCustomer(l, "ada", "llm-team")
	l.Do(billing.KindSetLimits, &billing.SetLimits{AccountCustomers: 1})

	restored := billing.New(billing.Config{})
	require.NoError(t, restored.Restore(bytes.NewReader(enginetest.Snapshot(t, m))))
	for _, m := range []*billing.Machine{m, restored} {
		use, bounds, _ := m.Use(name)
		require.Equal(t, uint64(1), use.Customers)
		require.Equal(t, uint64(1), bounds.Customers)
		require.Equal(t, billing.DefaultBounds.Keys, bounds.Keys)
		l := enginetest.NewLog(m, l.Stamp)
		l.Index = m.Applied()
		r := l.Do(billing.KindCreateCustomer, &billing.CreateCustomer{
			Env: enginetest.Sandbox, ID: enginetest.ID("bob"), ExternalID: "bob", FirstName: "B",
			LastName: "B", Email: "b@example.com",
		})
		require.Equal(t, engine.OutcomeCustomerLimit, r.Outcome)
	}
	_, _, ok = m.Use("nobody")
	require.False(t, ok)
}

func TestUsageRangesAreBounded(t *testing.T) {
	at := func(text string) int64 {
		v, err := time.Parse(time.RFC3339, text)
		require.NoError(t, err)
		return v.UnixMilli()
	}
	for _, c := range []struct {
		by       billing.By
		from, to string
		want     error
	}{
		{billing.ByHour, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", billing.ErrUsageEmpty},
		{billing.ByHour, "2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z", billing.ErrUsageEmpty},
		{billing.ByHour, "2026-01-01T00:00:00Z", "2026-02-11T16:00:00Z", nil},
		{billing.ByHour, "2026-01-01T00:00:00Z", "2026-02-11T16:00:01Z", billing.ErrUsageTooLong},
		{billing.ByDay, "2026-01-01T00:00:00Z", "2126-01-01T00:00:00Z", billing.ErrUsageTooLong},
		{billing.ByMonth, "2026-01-15T00:00:00Z", "2109-04-30T00:00:00Z", nil},
		{billing.ByMonth, "2026-01-15T00:00:00Z", "2109-05-01T00:00:00Z", nil},
		{billing.ByMonth, "2026-01-15T00:00:00Z", "2109-05-01T00:00:01Z", billing.ErrUsageTooLong},
	} {
		q := billing.UsageQuery{By: c.by, From: at(c.from), To: at(c.to)}
		require.ErrorIs(t, q.Widen(), c.want, "%v", c)
	}
	q := billing.UsageQuery{By: billing.ByMonth, From: at("2026-01-15T07:00:00Z"), To: at("2026-02-01T00:00:01Z")}
	require.NoError(t, q.Widen())
	require.Equal(t, at("2026-01-01T00:00:00Z"), q.From)
	require.Equal(t, at("2026-03-01T00:00:00Z"), q.To)
	src := &many{cells: billing.MaxUsagePoints}
	q = billing.UsageQuery{By: billing.ByHour, To: 1 << 60}
	_, err := billing.New(billing.Config{}).Usage(src, &q)
	require.NoError(t, err)
	src.cells *= 10
	_, err = billing.New(billing.Config{}).Usage(src, &q)
	require.Equal(t, billing.ErrUsageTooLarge, err)
	require.Equal(t, billing.MaxUsagePoints, src.yielded, "it reads no further")
}
