package client

import (
	"strconv"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
	"tollgate/server/billingview"
	"tollgate/server/form"
	"tollgate/server/zone"
)

// maxBudgets is the largest page of budgets, which is also the usual one.
const maxBudgets = 100

// budgetRoutes are the rows about budgets.
func (a budgets) budgetRoutes() []server.Route {
	const one = "/budgets/{budget}"
	budget := server.RefTo("Budget")
	windows := server.ArrayOf(server.ArrayOf(server.AnswerSchema[billing.BudgetWindowView]()))
	return []server.Route{
		row("PUT", one, "putBudget", "Create a budget, or replace its name, customer and limits",
			server.AccessFull, byName(a.putBudget), server.Asks(server.RequestKey),
			server.Takes(server.RefTo("BudgetRequest")), answers(budget)),
		row("GET", one, "getBudget", "A budget with what is used, held and left of its limits",
			server.AccessRead, byName(a.getBudget), reads, answers(budget)),
		row("GET", "/budgets", "listBudgets", "The budgets directly below one, or those at the top",
			server.AccessRead, a.listBudgets, reads,
			server.Asks(
				server.InQuery("parent", text(1, maxID), "the budget above; none when absent"),
				server.InQuery("customerReferenceId", text(1, maxID),
					"the one that is this customer's own, alone"),
				server.InQuery("limit", server.IntSchema(1, maxBudgets), "100 when absent"),
				server.InQuery("cursor", text(1, maxID), "nextCursor of the page before")),
			answers(server.Object(server.Must("budgets", server.ArrayOf(budget)),
				server.May("nextCursor", text(1, maxID))))),
		row("GET", one+"/windows", "listBudgetWindows",
			"The past windows of each limit, in the order of limits, newest first", server.AccessRead,
			byName(a.listWindows), reads, answers(server.Object(server.Must("windows", windows)))),
		row("POST", one+"/move", "moveBudget", "Move a budget, with all below it, under another one",
			server.AccessFull, byName(a.moveBudget), server.Asks(server.RequestKey),
			server.Takes(server.RefTo("BudgetMove")), answers(budget)),
		row("POST", one+"/freeze", "freezeBudget",
			"Stop usage and reservations in a budget and below it", server.AccessFull,
			byName(a.freezing(true)), server.Asks(server.RequestKey), answers(budget)),
		row("POST", one+"/unfreeze", "unfreezeBudget", "Accept usage again", server.AccessFull,
			byName(a.freezing(false)), server.Asks(server.RequestKey), answers(budget)),
		row("DELETE", one, "archiveBudget", "Archive a budget, with all below it, for good",
			server.AccessFull, byName(a.archiveBudget), server.Asks(server.RequestKey), answers(budget)),
	}
}

// budgetSchemas describe budgets, and what is read by hand.
func budgetSchemas(to map[string]*server.Schema) {
	to["Budget"] = server.AnswerSchema[billing.BudgetView]()
	to["BudgetRequest"] = server.RequestSchema[billing.PutBudget]()
	to["BudgetMove"] = server.Object(server.May("parent", text(1, maxID)))
	to["BudgetRefusal"], to["Shortage"] = server.RefusalSchema, server.ShortageSchema
}

// Fields of requests about budgets.
const (
	fieldBudgetParent = iota
	fieldBudgetName
	fieldBudgetCustomer
	fieldBudgetLimits
	fieldBudgetExpects
	fieldLimitOf
	fieldLimitFeature
	fieldLimitCurrency
	fieldLimitLimit
	fieldLimitWindow
	fieldLimitZone
	fieldLimitMode
	fieldLimitThresholds
)

var (
	measures = billing.Measure(0).Names()
	windows  = billing.Window(0).Names()
	modes    = []string{"hard", "soft"}
)

func readBudget(f *form.Reader, c *billing.PutBudget) {
	for f.Next() {
		switch string(f.Name) {
		case "parent":
			f.Text(fieldBudgetParent, &c.Parent, 1, maxID)
		case "name":
			f.Text(fieldBudgetName, &c.Name, 1, maxID)
		case "customerReferenceId":
			f.Text(fieldBudgetCustomer, &c.Customer, 1, maxID)
		case "limits":
			f.Each(fieldBudgetLimits, "limits", billing.MaxLimits, func() {
				c.Limits = append(c.Limits, readLimit(f))
			})
		case "expects":
			readExpects(f, &c.Expects)
		default:
			f.Unknown()
		}
	}
	f.Need(fieldBudgetName, "name")
	loadZones(f, c)
}

// readExpects reads which budget a request replaces: its modifiedAt, or none.
func readExpects(f *form.Reader, to *int64) {
	var text []byte
	if !f.Bytes(fieldBudgetExpects, &text, 1, maxID) {
		return
	}
	at, valid := server.ParseInstant(text)
	switch {
	case string(text) == "none":
		*to = billing.ExpectsNone
	case !valid || at <= 0:
		f.Problem("expects", form.Mistake{
			Code: server.FieldFormat, Text: "must be none, or the budget's modifiedAt",
		})
	default:
		*to = at
	}
}

func readLimit(f *form.Reader) (d billing.LimitDocument) {
	var soft uint8
	for f.Next() {
		switch string(f.Name) {
		case "of":
			form.Enum(f, fieldLimitOf, &d.Of, measures)
		case "featureKey":
			f.Text(fieldLimitFeature, &d.Feature, 1, maxID)
		case "currency":
			f.Text(fieldLimitCurrency, &d.Currency, 3, 3)
		case "limit":
			f.Number(fieldLimitLimit, &d.Limit)
		case "window":
			form.Enum(f, fieldLimitWindow, &d.Window, windows)
		case "timeZone":
			f.Text(fieldLimitZone, &d.TimeZone, 1, 64)
		case "mode":
			form.Enum(f, fieldLimitMode, &soft, modes)
		case "thresholds":
			form.Uints(f, fieldLimitThresholds, "thresholds", &d.Thresholds, billing.MaxThresholds, 1,
				100)
		default:
			f.Unknown()
		}
	}
	d.Soft = soft == 1
	f.Need(fieldLimitOf, "of")
	f.Need(fieldLimitLimit, "limit")
	f.Need(fieldLimitWindow, "window")
	f.NotNegative("limit", d.Limit)
	for i := range d.Thresholds[:max(len(d.Thresholds)-1, 0)] {
		if d.Thresholds[i] >= d.Thresholds[i+1] {
			f.Problem("thresholds", form.Mistake{Code: server.FieldConflict, Text: "must ascend"})
		}
	}
	units := f.Right(fieldLimitOf) && d.Of == billing.MeasureUnits
	if units && !f.Given(fieldLimitFeature) {
		f.Problem("featureKey", form.Mistake{
			Code: server.FieldRequired, Text: "is required of a limit of units",
		})
	}
	if f.Right(fieldLimitOf) && d.Of != billing.MeasurePrice && f.Given(fieldLimitCurrency) {
		f.Problem("currency", form.Mistake{
			Code: server.FieldConflict, Text: "is only for a limit of price",
		})
	}
	return d
}

// loadZones adds the time zones of limits as this node knows them.
func loadZones(f *form.Reader, c *billing.PutBudget) {
	known := map[string]bool{"": true, "UTC": true}
	for i := range c.Limits {
		name := c.Limits[i].TimeZone
		if known[name] {
			continue
		}
		known[name] = true
		z, err := zone.Load(name)
		if err != nil {
			f.Problem("limits["+strconv.Itoa(i)+"].timeZone", form.Mistake{
				Code: server.FieldNotAllowed,
				Text: "must be a name of the time zone database, such as Europe/Berlin",
			})
			continue
		}
		c.Zones = append(c.Zones, *z)
	}
}

// change proposes a command about a budget, and answers with the budget as it is then. A key that
// is bound to a budget may not change any: it would get past its own.
func (a budgets) change(
	x *server.Exchange, key string, kind engine.Kind, c wire.Fielder,
) *server.Fault {
	if principal(x).Budget != 0 {
		return server.FaultScope.With("An API key that is bound to a budget may not change budgets.")
	}
	r, _, fault := a.once(x, kind, c)
	if fault != nil {
		return fault
	}
	if r.Outcome != engine.OutcomeDone {
		return billingview.BudgetFault(server.FaultOf(r.Outcome), r)
	}
	return a.getBudget(x, key)
}

func (a budgets) putBudget(x *server.Exchange, key string) *server.Fault {
	a.named(x)
	c := billing.PutBudget{Env: principal(x).Env, Key: key, Actor: x.By()}
	if fault := form.Read(x.Body, &c, readBudget); fault != nil {
		return fault
	}
	return a.change(x, key, billing.KindPutBudget, &c)
}

func (a budgets) moveBudget(x *server.Exchange, key string) *server.Fault {
	a.named(x)
	c := billing.MoveBudget{Env: principal(x).Env, Key: key, Actor: x.By()}
	fault := form.Read(x.Body, &c, func(f *form.Reader, c *billing.MoveBudget) {
		for f.Next() {
			if string(f.Name) != "parent" {
				f.Unknown()
			} else if !f.Null(fieldBudgetParent) {
				f.Text(fieldBudgetParent, &c.Parent, 1, maxID)
			}
		}
	})
	if fault != nil {
		return fault
	}
	return a.change(x, key, billing.KindMoveBudget, &c)
}

func (a budgets) freezing(frozen bool) func(x *server.Exchange, key string) *server.Fault {
	return func(x *server.Exchange, key string) *server.Fault {
		a.named(x)
		return a.change(x, key, billing.KindFreezeBudget, &billing.FreezeBudget{
			Env: principal(x).Env, Key: key, Frozen: frozen, Actor: x.By(),
		})
	}
}

func (a budgets) archiveBudget(x *server.Exchange, key string) *server.Fault {
	a.named(x)
	return a.change(x, key, billing.KindArchiveBudget, &billing.ArchiveBudget{
		Env: principal(x).Env, Key: key, Actor: x.By(),
	})
}

func (a budgets) getBudget(x *server.Exchange, key string) *server.Fault {
	return a.read(x, func() *server.Fault {
		v, found := a.machine.Budget(principal(x).Env, key, a.nowMS())
		if !found {
			return server.FaultOf(engine.OutcomeBudgetUnknown)
		}
		return server.One(x, 200, &v, billingview.WriteBudget)
	})
}

func (a budgets) listBudgets(x *server.Exchange) *server.Fault {
	var f form.Reader
	limit := maxBudgets
	queryLimit(x, &f, maxBudgets, &limit)
	if fault := f.Fault(); fault != nil {
		return fault
	}
	return a.read(x, func() *server.Fault {
		if customer := query(x.Ctx, "customerReferenceId"); customer != "" {
			own, found := a.machine.BudgetsOf(principal(x).Env, customer, a.nowMS())
			if !found {
				return server.FaultOf(engine.OutcomeCustomerUnknown)
			}
			return server.Page(x, "budgets", own, billingview.WriteBudget, "")
		}
		list, next, found := a.machine.Budgets(principal(x).Env, query(x.Ctx, "parent"),
			query(x.Ctx, "cursor"), limit, a.nowMS())
		if !found {
			return server.FaultOf(engine.OutcomeBudgetUnknown)
		}
		return server.Page(x, "budgets", list, billingview.WriteBudget, next)
	})
}

func (a budgets) listWindows(x *server.Exchange, key string) *server.Fault {
	return a.read(x, func() *server.Fault {
		limits, found := a.machine.BudgetWindows(principal(x).Env, key, a.nowMS())
		if !found {
			return server.FaultOf(engine.OutcomeBudgetUnknown)
		}
		return x.Object(200, func(data *server.JSON) {
			data.Array("windows")
			for i := range limits {
				data.Open('[')
				for j := range limits[i] {
					billingview.WriteBudgetWindow(data, &limits[i][j])
				}
				data.Close(']')
			}
			data.Close(']')
		})
	})
}
