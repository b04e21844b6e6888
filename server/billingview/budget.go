package billingview

import (
	"tollgate/engine/billing"
	"tollgate/server"
)

// WriteBudget writes a budget with its limits, as both APIs have it.
func WriteBudget(data *server.JSON, v *billing.BudgetView) {
	data.Open('{')
	data.Text("budget", v.Key)
	data.Text("name", v.Name)
	data.TextIf("parent", v.Parent)
	data.TextIf("customerReferenceId", v.Customer)
	data.Text("status", v.Status)
	data.Uint("children", uint64(v.Children))
	data.Array("limits")
	for i := range v.Limits {
		data.Open('{')
		writeBudgetLimit(data, &v.Limits[i])
		data.Close('}')
	}
	data.Close(']')
	if v.BindingBudget != "" {
		data.Object("binding")
		data.Text("budget", v.BindingBudget)
		writeBudgetLimit(data, &v.Binding)
		data.Close('}')
	}
	data.Time("createdAt", v.CreatedAt)
	data.Time("modifiedAt", v.ModifiedAt)
	data.Close('}')
}

func writeBudgetLimit(data *server.JSON, l *billing.BudgetLimitView) {
	data.Text("of", l.Of.String())
	data.TextIf("featureKey", l.FeatureKey)
	data.TextIf("currency", l.Currency)
	data.Decimal("limit", l.Limit)
	data.Text("window", l.Window.String())
	data.Text("timeZone", l.TimeZone)
	mode := "hard"
	if l.Soft {
		mode = "soft"
	}
	data.Text("mode", mode)
	data.Uints("thresholds", l.Thresholds)
	data.Decimal("used", l.Used)
	data.Decimal("held", l.Held)
	data.Decimal("remaining", l.Remaining)
	data.Time("windowStart", l.Start)
	data.Time("windowEnd", l.End)
	if l.Overrun {
		data.Bool("overrun", true)
	}
}

// budgetLimit are the fields of a limit in an answer.
func budgetLimit() []server.Property {
	return append(BudgetLimitProperties(),
		server.Must("used", server.NumberSchema), server.Must("held", server.NumberSchema),
		server.Must("remaining", server.NumberSchema), server.May("windowStart", server.TimeSchema),
		server.May("windowEnd", server.TimeSchema), server.May("overrun", server.BoolSchema))
}

// BudgetLimitProperties are the fields of a limit as a request has it.
func BudgetLimitProperties() []server.Property {
	return []server.Property{
		server.Must("of", server.EnumSchema("units", "price", "cost")),
		server.May("featureKey", server.TextSchema(1, 128)),
		server.May("currency", server.TextSchema(3, 3)),
		server.Must("limit", server.NumberSchema),
		server.Must("window", server.EnumSchema(BudgetWindows...)),
		server.May("timeZone", server.TextSchema(1, 64)),
		server.May("mode", server.EnumSchema("hard", "soft")),
		server.May("thresholds", server.ArrayOf(server.IntSchema(1, 100))),
	}
}

// BudgetWindows are the names of windows.
var BudgetWindows = []string{"hour", "day", "week", "month", "year", "lifetime"}

// BudgetSchema describes what WriteBudget writes.
func BudgetSchema() *server.Schema {
	return server.Object(
		server.Must("budget", server.TextSchema(1, 128)),
		server.Must("name", server.TextSchema(1, 128)),
		server.May("parent", server.TextSchema(1, 128)),
		server.May("customerReferenceId", server.TextSchema(1, 128)),
		server.Must("status", server.EnumSchema("ACTIVE", "FROZEN", "ARCHIVED")),
		server.Must("children", server.IntegerSchema),
		server.Must("limits", server.ArrayOf(server.Object(budgetLimit()...))),
		server.May("binding", server.Object(append([]server.Property{
			server.Must("budget", server.TextSchema(1, 128)),
		}, budgetLimit()...)...)),
		server.Must("createdAt", server.TimeSchema), server.Must("modifiedAt", server.TimeSchema))
}

// WriteBudgetWindow writes a window of a limit that is over.
func WriteBudgetWindow(data *server.JSON, w *billing.BudgetWindowView) {
	data.Open('{')
	data.Time("windowStart", w.Start)
	data.Time("windowEnd", w.End)
	data.Decimal("used", w.Used)
	data.Decimal("limit", w.Limit)
	if w.Overrun {
		data.Bool("overrun", true)
	}
	data.Close('}')
}
