package enginetest

import (
	"pgregory.net/rapid"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/zone"
)

// budget makes one of the commands about budgets, over five nodes.
func (g *generator) budget() engine.Record {
	env, key := g.env(), g.budgetKey()
	switch g.pick("budget", "put", "put", "put", "put", "move", "freeze", "archive", "bind", "use") {
	case "move":
		return record(billing.KindMoveBudget, &billing.MoveBudget{
			Env: env, Key: key, Parent: g.pick("parent", "", "b1", "b2", "b3"), Actor: "admin",
		})
	case "freeze":
		return record(billing.KindFreezeBudget, &billing.FreezeBudget{
			Env: env, Key: key, Frozen: rapid.IntRange(0, 2).Draw(g.t, "frozen") == 0,
		})
	case "archive":
		if rapid.IntRange(0, 3).Draw(g.t, "archives") > 0 {
			key = "nothing"
		}
		return record(billing.KindArchiveBudget, &billing.ArchiveBudget{Env: env, Key: key})
	case "use":
		g.notes++
		return record(billing.KindNoteKeyUse, &billing.NoteKeyUse{
			Env: env, ID: ID(g.pick("key id", "k1", "k2")),
			Requests: sample[uint64](g.t, "uses", 0, 1, 1e6),
			Source:   sample[uint64](g.t, "source", 1, 2, 1<<63), Number: g.notes,
		})
	case "bind":
		return record(billing.KindBindKey, &billing.BindKey{
			Env: env, ID: ID(g.pick("key id", "k1", "k2")), Budget: g.pick("bound", "", "b1", "b2"),
		})
	}
	c := &billing.PutBudget{
		Env: env, Key: key, Name: g.pick("name", "a budget", "another"),
		Parent:   g.pick("parent", "", "", "b1", "b2", "nothing"),
		Customer: g.pick("owner", "", "ada", "ada", "grace", "nobody"),
		Zones: []zone.Zone{
			{Name: "A", Offset: 3_600_000, Changes: []zone.Change{{At: Epoch + 86_400_000}}},
		},
	}
	for range rapid.IntRange(0, 3).Draw(g.t, "limits") {
		d := billing.LimitDocument{
			Of:     billing.Measure(rapid.Uint8Range(1, 3).Draw(g.t, "of")),
			Limit:  decimal.FromInt(sample[int64](g.t, "limit", 1, 100, 1e9)),
			Window: billing.Window(rapid.Uint8Range(1, 6).Draw(g.t, "window")),
			Soft:   rapid.Bool().Draw(g.t, "soft"), Thresholds: []byte{50, 100},
			TimeZone: g.pick("zone", "", "", "A", "B"),
		}
		if d.Of == billing.MeasureUnits {
			d.Feature = g.pick("feature", "requests", "output-tokens", "none")
		}
		c.Limits = append(c.Limits, d)
	}
	return record(billing.KindPutBudget, c)
}

func (g *generator) budgetKey() string { return g.pick("node", "b1", "b2", "b3", "b4", "b5") }
