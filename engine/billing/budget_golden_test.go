package billing_test

import (
	"tollgate/bench/enginetest"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
	"tollgate/engine/zone"
)

// goldenBudgets are the commands of budgets.
func goldenBudgets() map[string]wire.Fielder {
	return map[string]wire.Fielder{
		"command-208-put-budget": &billing.PutBudget{
			Env: 1, Key: "team:search", Parent: "team", Name: "Search", Customer: "ada",
			Limits: []billing.LimitDocument{
				{
					Of: billing.MeasurePrice, Currency: "EUR", Limit: decimal.FromInt(40),
					Window: billing.WindowDay, TimeZone: "Europe/Berlin", Thresholds: []byte{50, 90},
				},
				{
					Of: billing.MeasureUnits, Feature: "tokens", Limit: decimal.MustParse("0.5"),
					Window: billing.WindowLifetime, Soft: true,
				},
			},
			Zones: []zone.Zone{{
				Name: "Europe/Berlin", Offset: 3_600_000,
				Changes: []zone.Change{{At: 1774746000000, Offset: 7_200_000}},
			}},
			Actor: "admin",
		},
		"command-213-note-key-use": &billing.NoteKeyUse{Env: 1, ID: enginetest.ID("k")},
		"command-213-note-key-uses": &billing.NoteKeyUse{
			Env: 1, ID: enginetest.ID("k"), Requests: 300, Events: 2,
		},
		"command-213-note-key-uses-of-a-node": &billing.NoteKeyUse{
			Env: 1, ID: enginetest.ID("k"), Requests: 300, Events: 2, Source: 1 << 60, Number: 17,
		},
		"command-209-move-budget": &billing.MoveBudget{
			Env: 1, Key: "team:search", Parent: "org", Actor: "admin",
		},
		"command-210-archive-budget": &billing.ArchiveBudget{Env: 1, Key: "team", Actor: "admin"},
		"command-211-freeze-budget": &billing.FreezeBudget{
			Env: 1, Key: "team", Frozen: true, Actor: "admin",
		},
		"command-212-bind-key": &billing.BindKey{
			Env: 1, ID: enginetest.ID("k"), Budget: "team", Actor: "admin",
		},
		"reply-budget-refusal": &billing.Refusal{
			Budget: "team", Of: billing.MeasurePrice, Feature: "tokens", Currency: "USD",
			Window: billing.WindowDay, Used: decimal.FromInt(40), Held: decimal.FromInt(1),
			Limit: decimal.FromInt(40), Start: 1769871600000, End: 1769958000000, Index: 9,
		},
	}
}
