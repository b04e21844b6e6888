package clustertest

import (
	"context"
	"encoding/json"
	"math/big"
	"net/url"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/cmd/tollgate/replay"
	api "tollgate/sdk/go"
)

// tracePlan prices the features of a trace as the demo's plan llm-team does, in math/big.
var tracePlan = map[string]enginetest.OracleModel{
	"input-tokens": {
		Name: "graduated", IncludedUnits: new(big.Rat),
		Tiers: []enginetest.OracleTier{
			{UpTo: rat("100000"), PricePerUnit: rat("0.000003"), FlatFee: rat("0")},
			{UpTo: rat("500000"), PricePerUnit: rat("0.0000025"), FlatFee: rat("1")},
			{PricePerUnit: rat("0.000002"), FlatFee: rat("0")},
		},
	},
	"output-tokens": {
		Name: "per_unit", IncludedUnits: new(big.Rat), PricePerUnit: rat("0.000015"),
	},
}

func rat(text string) *big.Rat { return enginetest.Rat(text) }

// oracleLines is what the lines of a period must say that counted so much.
func oracleLines(used [replay.EventsPerRow]string) map[string]string {
	lines := map[string]string{}
	for f, feature := range replay.Features {
		if model, priced := tracePlan[feature]; priced {
			lines[feature] = model.Line(rat(used[f]), 2).FloatString(2)
		}
	}
	return lines
}

// checkInvoices closes the period on the sandbox's clock. The lines of the invoices that close it
// must be the expected ones, for every customer, and the journal must explain them all.
func (d *development) checkInvoices(m metering) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	admin, err := api.New([]string{d.node(d.leader()).Ops}, d.AdminKey, 1)
	require.NoError(d.t, err)
	defer admin.Close()
	const sandbox = "/api/v1/admin/accounts/demo/environments/sandbox/"
	var clock struct{ Settled bool }
	_, err = admin.Call(ctx, "POST", sandbox+"clock",
		map[string]time.Time{"advanceTo": time.Now().AddDate(0, 0, 32)}, &clock)
	require.NoError(d.t, err)
	require.True(d.t, clock.Settled)

	client := d.client(d.followers()[0], d.ReadKey)
	for name, used := range m.used {
		var invoices []struct {
			Type   string
			Amount json.Number
			Items  []struct {
				FeatureKey       string
				Quantity, Amount json.Number
			}
		}
		path := "/api/v1/client/billing/invoices/" + url.PathEscape(name)
		_, err := client.Call(ctx, "GET", path, nil, &invoices)
		require.NoError(d.t, err)
		require.Len(d.t, invoices, 2, "the initial invoice, and the one that closes the period")
		require.Equal(d.t, "REGULAR", invoices[1].Type)
		total, lines, base := rat("20"), map[string]string{}, 0
		for _, item := range invoices[1].Items {
			if item.FeatureKey == "" {
				base++
				require.Zero(d.t, rat(item.Amount.String()).Cmp(rat("20")), name)
				continue
			}
			amount := rat(item.Amount.String())
			total.Add(total, amount)
			lines[item.FeatureKey] = amount.FloatString(2)
			for f, feature := range replay.Features {
				if feature == item.FeatureKey {
					require.Equal(d.t, used[f], item.Quantity.String(), "%s %s", name, feature)
				}
			}
		}
		require.Equal(d.t, 1, base, "the base price comes on top")
		require.Equal(d.t, m.lines[name], lines, name)
		require.Zero(d.t, total.Cmp(rat(invoices[1].Amount.String())), name)
	}
	var verified struct {
		Differences []any
		Invoices    int
	}
	_, err = admin.Call(ctx, "GET", sandbox+"invoices/verify?limit=100", nil, &verified)
	require.NoError(d.t, err)
	require.Empty(d.t, verified.Differences)
	require.GreaterOrEqual(d.t, verified.Invoices, 2*m.customers)
}
