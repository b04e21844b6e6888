package billing_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// TestTheRecordOfChangesDoesNotEnd: every change is listed, page by page, whichever segment of the
// journal it is in; what the state keeps of a change is a third of a byte.
func TestTheRecordOfChangesDoesNotEnd(t *testing.T) {
	d := newDesk(t)
	src := &enginetest.Source{Journal: d.m.Journal()}
	long := strings.Repeat("x", 900)
	origins := func(n int) engine.Record {
		return engine.Record{Kind: billing.KindSetOrigins, Payload: wire.Encode(nil, &billing.SetOrigins{
			Env: enginetest.Sandbox, Actor: "ops", Origins: []string{fmt.Sprint("https://", n, long)},
		})}
	}
	const changes = 10_000
	for made := 2; made < changes; { // the account and the catalog were the first two
		var entry []engine.Record
		for range min(50, changes-made) {
			made++
			entry = append(entry, origins(made))
		}
		d.Stamp += 1000
		_, err := d.Apply(entry...)
		require.NoError(t, err)
		src.Keep(&d.Applied)
	}
	require.Greater(t, len(src.Sealed), 1, "they are in more than one segment")

	again := restored(t, enginetest.Snapshot(t, d.m))
	for _, m := range []*billing.Machine{d.m, again} {
		src.Journal = m.Journal()
		next, pages := uint64(changes), 0
		for before := uint64(0); next > 0; pages++ {
			page, after, err := m.Changes(src, billing.ChangeQuery{
				Before: before, Limit: 999, Scan: changes,
			})
			require.NoError(t, err)
			require.NotEmpty(t, page)
			for i := range page {
				require.Equal(t, next, page[i].Number)
				if next > 3 {
					require.Contains(t, page[i].Values[0].After, fmt.Sprint("https://", next, "x"))
				}
				next--
			}
			require.Equal(t, after == 0, next == 0)
			before = after
		}
		require.Equal(t, 11, pages)
	}
	src.Sealed = src.Sealed[1:]
	_, _, err := d.m.Changes(src, billing.ChangeQuery{Before: 3, Limit: 1, Scan: 1})
	require.ErrorIs(t, err, billing.ErrChanges, "a journal with a gap is not taken for the whole")
}

// TestAPageOfChangesIsBounded: a page ends once it is some megabytes; the next one goes on there.
func TestAPageOfChangesIsBounded(t *testing.T) {
	d := newDesk(t)
	for i := range 120 {
		var doc billing.CatalogDocument
		for n := range 25 {
			doc.Features = append(doc.Features, billing.FeatureDocument{
				Key:  fmt.Sprint("f", n),
				Name: strings.Repeat(fmt.Sprint(i%10), 128), HasCost: true,
				CostPerUnit: decimal.FromInt(int64(i)),
				Description: strings.Repeat(fmt.Sprint(i%10), 1000),
			})
		}
		d.is(engine.OutcomeDone, billing.KindApplyCatalog,
			enginetest.ApplyCatalog(enginetest.Sandbox, doc))
	}
	page := d.changes(d.m, 0, 1000)
	last := page[len(page)-1].Number
	require.Greater(t, last, uint64(1))
	require.Equal(t, last-1, d.changes(d.m, last, 1000)[0].Number)
}

// catalogValues applies a catalog and returns what is remembered of it: what was named, and fields.
func (d *desk) catalogValues(doc billing.CatalogDocument) (named, fields []billing.FieldChange) {
	d.t.Helper()
	d.is(engine.OutcomeDone, billing.KindApplyCatalog,
		enginetest.ApplyCatalog(enginetest.Sandbox, doc))
	values := d.changes(d.m, 0, 1)[0].Values
	for i, v := range values {
		if strings.Count(v.Name, " ") == 2 || strings.HasPrefix(v.Name, "more fields") {
			return values[:i], values[i:]
		}
	}
	return values, nil
}

// TestWhatIsRememberedOfACatalogSaysWhatItLeavesOut: at each bound everything is there; beyond it
// the record says how much more there was.
func TestWhatIsRememberedOfACatalogSaysWhatItLeavesOut(t *testing.T) {
	features := func(from, n int) (doc billing.CatalogDocument) {
		for i := range n {
			doc.Features = append(doc.Features, billing.FeatureDocument{
				Key: fmt.Sprint("g", from+i), Name: "N", Description: "D",
				Labels: []string{fmt.Sprint("l", from+i)}, HasCost: true,
			})
		}
		return doc
	}
	left := func(n int) billing.FieldChange {
		return billing.FieldChange{
			Name:  "more fields",
			After: fmt.Sprintf("of %d more changes are not, or not all, recorded", n),
		}
	}
	d := newDesk(t)
	named, fields := d.catalogValues(features(0, 25))
	require.Len(t, named, 25)
	require.Len(t, fields, 100, "25 features of 4 fields, and nothing is left out")
	_, fields = d.catalogValues(features(100, 26))
	require.Len(t, fields, 101)
	require.Equal(t, left(1), fields[100])

	named, fields = d.catalogValues(features(200, 100))
	require.Len(t, named, 100)
	require.Equal(t, left(75), fields[len(fields)-1])
	named, fields = d.catalogValues(features(400, 101))
	require.Len(t, named, 101)
	require.Equal(t, billing.FieldChange{Name: "more", After: "1 more changes"}, named[100])
	require.Equal(t, left(76), fields[len(fields)-1])
}

// TestComparingACatalogForTheRecordIsBounded: plans of 100 features each are compared up to a
// thousand looks, nine and a part of them, and the record says that two are left.
func TestComparingACatalogForTheRecordIsBounded(t *testing.T) {
	d := newDesk(t)
	var doc billing.CatalogDocument
	for i := range 100 {
		doc.Features = append(doc.Features, billing.FeatureDocument{Key: fmt.Sprint("w", i)})
	}
	for i := range 11 {
		p := billing.PlanDocument{Key: fmt.Sprint("wide", i), Currency: "USD", IntervalMonths: 1}
		for n := range 100 {
			p.Features = append(p.Features, billing.PlanFeatureDocument{
				Key: fmt.Sprint("w", n), PricingType: "included",
			})
		}
		doc.Plans = append(doc.Plans, p)
	}
	d.catalogValues(doc)
	reprice := func(plans int, to int64) []billing.FieldChange {
		next := billing.CatalogDocument{Plans: append([]billing.PlanDocument(nil), doc.Plans[:plans]...)}
		for i := range next.Plans {
			next.Plans[i].PriceAmount = decimal.FromInt(to)
		}
		_, fields := d.catalogValues(next)
		return fields
	}
	require.Len(t, reprice(9, 1), 9)
	fields := reprice(11, 2)
	require.Len(t, fields, 11)
	require.Equal(t, "plan wide9 price", fields[9].Name)
	require.Equal(t, "of 2 more changes are not, or not all, recorded", fields[10].After)
}
