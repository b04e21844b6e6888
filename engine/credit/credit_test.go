package credit_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine/credit"
	"tollgate/engine/decimal"
)

type worked struct {
	ID, Kind, Consume, Policy, Cap, Balance string
	Grants                                  []struct {
		ID, Amount, ExpiresAt string
		Priority              int32
	}
	Expect map[string]any
}

func cases(t *testing.T, kind string) (found []worked) {
	t.Helper()
	data, err := os.ReadFile("../testdata/billing-cases.json")
	require.NoError(t, err)
	var file struct {
		Cases []json.RawMessage `json:"cases"`
	}
	require.NoError(t, json.Unmarshal(data, &file))
	for _, raw := range file.Cases {
		var head struct{ Kind string }
		require.NoError(t, json.Unmarshal(raw, &head))
		if head.Kind != kind {
			continue
		}
		var c worked
		require.NoError(t, json.Unmarshal(raw, &c))
		found = append(found, c)
	}
	require.NotEmpty(t, found)
	return found
}

// burn burns grants in order, and returns the remainder of each and the amount that none paid.
func burn(grants []*credit.Grant, amount decimal.Decimal, now int64) decimal.Decimal {
	slices.SortFunc(grants, credit.Compare)
	return credit.Burn(slices.All(grants), amount, now, func(i int, paid decimal.Decimal) {
		grants[i].Remaining = credit.Less(grants[i].Remaining, paid)
	})
}

func TestWorkedBurns(t *testing.T) {
	for _, c := range cases(t, "credit_burn") {
		byID := map[string]*credit.Grant{}
		var grants []*credit.Grant
		for _, g := range c.Grants {
			grant := &credit.Grant{Remaining: decimal.MustParse(g.Amount), Priority: g.Priority}
			copy(grant.ID[:], g.ID)
			if g.ExpiresAt != "" {
				at, err := time.Parse(time.RFC3339, g.ExpiresAt)
				require.NoError(t, err)
				grant.ExpiresAt = at.UnixMilli()
			}
			byID[g.ID] = grant
			grants = append(grants, grant)
		}
		require.True(t, burn(grants, decimal.MustParse(c.Consume), 1).IsZero())
		for id, left := range c.Expect {
			require.Equal(t, left, byID[id].Remaining.String(), "%s: grant %s", c.ID, id)
		}
	}
}

func TestWorkedRollovers(t *testing.T) {
	for _, c := range cases(t, "rollover") {
		policy, ok := credit.PolicyOf(c.Policy)
		require.True(t, ok)
		limit := decimal.Decimal{}
		if c.Cap != "" {
			limit = decimal.MustParse(c.Cap)
		}
		kept, expired := policy.Keep(decimal.MustParse(c.Balance), limit)
		require.Equal(t, c.Expect["kept"], kept.String(), c.ID)
		require.Equal(t, c.Expect["expired"], expired.String(), c.ID)
	}
}

func TestOrder(t *testing.T) {
	order := []credit.Grant{
		{Priority: -1, CreatedAt: 9},
		{Priority: 1, ExpiresAt: 5, CreatedAt: 9},
		{Priority: 1, ExpiresAt: 6, CreatedAt: 1},
		{Priority: 1, CreatedAt: 1},
		{Priority: 1, CreatedAt: 2},
		{Priority: 1, CreatedAt: 2, ID: [16]byte{1}},
		{Priority: 2, ExpiresAt: 1},
	}
	for i := range order {
		for j := range order {
			require.Equal(t, cmpInt(i, j), credit.Compare(&order[i], &order[j]), "%d, %d", i, j)
		}
	}
}

func cmpInt(a, b int) int { return min(1, max(-1, a-b)) }

// TestBurnTakesWhatIsThere: burnt and missing credits add up to the amount, whatever the grants; an
// expired grant keeps what it has.
func TestBurnTakesWhatIsThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var grants []*credit.Grant
		before := decimal.Decimal{}
		for i := range rapid.IntRange(0, 6).Draw(t, "grants") {
			g := &credit.Grant{
				ID:        [16]byte{byte(i)},
				Remaining: decimal.FromInt(rapid.Int64Range(0, 50).Draw(t, "amount")),
				Priority:  rapid.Int32Range(0, 2).Draw(t, "priority"),
				ExpiresAt: rapid.Int64Range(0, 3).Draw(t, "expiry"),
			}
			grants = append(grants, g)
			before, _ = before.Add(g.Remaining)
		}
		amount := decimal.FromInt(rapid.Int64Range(0, 200).Draw(t, "consume"))
		rest := burn(grants, amount, 2)
		after, live := decimal.Decimal{}, false
		for _, g := range grants {
			after, _ = after.Add(g.Remaining)
			live = live || g.Live(2)
		}
		require.Equal(t, credit.Less(before, after), credit.Less(amount, rest))
		require.False(t, live && !rest.IsZero(), "credits are left, and yet some are missing")
	})
}

func TestCovered(t *testing.T) {
	for _, c := range []struct{ units, rest, weight, covered string }{
		{"10", "0", "3", "10"},
		{"10", "30", "3", "0"},
		{"10", "15", "3", "5"},
		{"10", "20", "3", "3.333333333334"},
		{"1", "0.000000000001", "1000", "1"},
	} {
		got := credit.Covered(decimal.MustParse(c.units), decimal.MustParse(c.rest),
			decimal.MustParse(c.weight))
		require.Equal(t, c.covered, got.String(), "%v", c)
	}
}

func TestDebtStays(t *testing.T) {
	kept, expired := credit.PolicyNone.Keep(decimal.FromInt(-5), decimal.Decimal{})
	require.Equal(t, "-5", kept.String())
	require.True(t, expired.IsZero())
}
