package billing_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/bench/enginetest"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

// TestHistoriesKeepTopUpsBounded: among all other commands, too, a pool has one purchase on its way
// at a time, spends no more than its cap in a month, and gets a grant with each payment, once.
func TestHistoriesKeepTopUpsBounded(t *testing.T) {
	asked, paid := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.SampledFrom([]func(*rapid.T) [][]byte{
			enginetest.CreditEntries, enginetest.BillingEntries,
		}).Draw(t, "histories")
		m := billing.New(billing.Config{})
		for i, e := range draw(t) {
			enginetest.Outcomes(t, m, uint64(i)+1, [][]byte{e})
			for _, pool := range enginetest.TopUpPools() {
				v, _ := m.TopUp(enginetest.Sandbox, pool)
				require.False(t, decimal.FromInt(enginetest.TopUpCap).Less(v.Spent), "%s are spent", v.Spent)
			}
		}
		src := &enginetest.Source{Journal: m.Journal()}
		changes, _, err := m.Changes(src, billing.ChangeQuery{Limit: 100_000, Scan: 100_000})
		require.NoError(t, err)
		slices.Reverse(changes)
		for _, pool := range enginetest.TopUpPools() {
			pending, grants := false, 0
			for _, c := range changes {
				if c.Subject != billing.UUIDText(pool) {
					continue
				}
				switch c.Action {
				case "top-up.asked":
					require.False(t, pending, "two are on their way")
					pending = true
					asked++
				case "top-up.paid":
					require.True(t, pending, "paid twice, or never asked for")
					pending = false
					grants++
					paid++
				case "top-up.failed":
					pending = false
				}
			}
			v, known := m.TopUp(enginetest.Sandbox, pool)
			require.Equal(t, pending, v.Pending)
			if known {
				requireBought(t, m, src, pool, grants)
			}
		}
	})
	if testing.Short() { // these draw two histories
		return
	}
	require.Positive(t, asked, "purchases of all histories")
	require.Positive(t, paid, "grants of all histories")
}

// requireBought: a pool has so many grants of purchases, each with an id of its own.
func requireBought(
	t *rapid.T, m *billing.Machine, src *enginetest.Source, pool [16]byte, grants int,
) {
	ids := map[[16]byte]bool{}
	page, found, err := m.Transactions(src, billing.TransactionQuery{
		Env: enginetest.Sandbox, Pool: pool, Limit: 1000,
	})
	require.NoError(t, err)
	require.True(t, found)
	for i := range page.List {
		x := &page.List[i]
		if x.Kind == "GRANT" && strings.HasPrefix(x.Note, "top-up, ") {
			require.False(t, ids[x.ID], "granted twice")
			ids[x.ID] = true
		}
	}
	require.Len(t, ids, grants)
}
