package admin

import (
	"cmp"
	"math"
	"strings"

	"tollgate/engine/billing"
	"tollgate/server"
)

// Pages of customers.
const (
	defaultCustomers = 100
	maxCustomers     = 1000
	// scannedCustomers bounds how many rows one page looks at: those of other environments are passed
	// over, so that a page may be short, or empty, and still have a next one.
	scannedCustomers = 100_000
	// rankedCustomers is how many customers a list that is sorted by amounts has at most.
	rankedCustomers = 10_000
)

// The orders of customers other than the newest first.
const (
	sortOwed      = "owed"
	sortRecurring = "monthlyRecurring"
)

func (a *customers) customerRoutes() []server.Route {
	return []server.Route{
		row("GET", environment+"/unmatched-events", "listUnmatchedNames",
			"Names of recorded usage events that match no feature and so are not billed: the 50 seen last",
			a.within(a.listUnmatched), answers(server.Object(server.Must("names",
				server.ArrayOf(server.AnswerSchema[billing.UnmatchedName]()))))),
		row("GET", environment+"/customers", "listCustomers",
			"The environment's customers, newest first, archived ones too, with their plans and what they owe", a.listCustomers,
			server.Asks(server.InQuery("find", text(1, maxID),
				"only those whose id, name or e-mail has this text"),
				server.InQuery("sort", server.EnumSchema(sortOwed, sortRecurring),
					"those with the largest amount first, of the first 10,000; without an amount they are left out"),
				server.InQuery("currency", text(3, 3),
					"of what is sorted by; absent: the plans' with most subscriptions")),
			pages("customers", "Customer", maxCustomers, "100", 10)),
	}
}

func (a *customers) listCustomers(x *server.Exchange) *server.Fault {
	var w walk
	limit, cursor := pageOf(x, &w, defaultCustomers, maxCustomers)
	find, currency := w.query(x, "find", maxID), w.query(x, "currency", 3)
	sort := string(x.Ctx.QueryArgs().Peek("sort"))
	w.when(sort != "" && sort != sortOwed && sort != sortRecurring, "sort", server.FieldNotAllowed,
		"must be "+sortOwed+" or "+sortRecurring)
	w.when(sort != "" && cursor >= rankedCustomers, "cursor", server.FieldFormat,
		"must be nextCursor of the page before")
	if fault := w.fault(); fault != nil {
		return fault
	}
	var like func(*billing.CustomerView) bool
	if find = strings.ToLower(find); find != "" {
		like = func(c *billing.CustomerView) bool {
			return strings.Contains(strings.ToLower(c.ExternalID), find) ||
				strings.Contains(strings.ToLower(c.FirstName+" "+c.LastName), find) ||
				strings.Contains(strings.ToLower(c.Email), find)
		}
	}
	before := uint32(min(cmp.Or(cursor, math.MaxUint32), math.MaxUint32))
	return a.environment(x, func(env uint32) *server.Fault {
		found, next := a.sorted(sort, &billing.Ranking{
			Env: env, Currency: currency, Like: like, From: int(min(cursor, rankedCustomers)), Limit: limit,
		}, before)
		return server.Page(x, "customers", found, func(data *server.JSON, c *billing.CustomerView) {
			standing := a.machine.Standing(c.Row)
			writeCustomer(data, c, &standing)
		}, cursorAt(next))
	})
}

// sorted reads a page of customers: the newest first, of rows before one, or in another order.
func (a *customers) sorted(sort string, q *billing.Ranking, before uint32) (
	found []billing.CustomerView, next uint64,
) {
	if sort == "" {
		list, row := a.machine.CustomersLike(q.Env, before, q.Limit, scannedCustomers, q.Like)
		return list, uint64(row)
	}
	q.Recurring, q.Limit = sort == sortRecurring, min(q.Limit, rankedCustomers-q.From)
	if all := a.machine.Currencies(q.Env); q.Currency == "" && len(all) > 0 {
		q.Currency = all[0]
	}
	found, others := a.machine.RankCustomers(q)
	if through := q.From + len(found); others > 0 && through < rankedCustomers {
		next = uint64(through)
	}
	return found, next
}

func (a *customers) listUnmatched(x *server.Exchange, env uint32) *server.Fault {
	return server.Page(x, "names", a.machine.Unmatched(env), writeUnmatchedName, "")
}

func writeCustomer(data *server.JSON, c *billing.CustomerView, s *billing.Standing) {
	data.Open('{')
	data.UUID("id", c.ID)
	data.Text("externalClientCustomerId", c.ExternalID)
	data.Text("firstName", c.FirstName)
	data.Text("lastName", c.LastName)
	data.Text("email", c.Email)
	data.Time("createdAt", c.CreatedAt)
	data.Time("archivedAt", c.ArchivedAt)
	data.Time("erasedAt", c.ErasedAt)
	data.Array("plans")
	for i := range s.Plans {
		writeStandingPlan(data, &s.Plans[i])
	}
	data.Close(']')
	data.Array("amounts")
	for i := range s.Amounts {
		writeStandingAmount(data, &s.Amounts[i])
	}
	data.Close(']')
	data.Close('}')
}

func customerSchema() *server.Schema {
	return server.Object(
		server.Must("id", server.UUIDSchema),
		server.Must("externalClientCustomerId", text(0, maxID)),
		server.Must("firstName", text(0, 0)), server.Must("lastName", text(0, 0)),
		server.Must("email", text(0, 0)), server.Must("createdAt", server.TimeSchema),
		server.May("archivedAt", server.TimeSchema), server.May("erasedAt", server.TimeSchema),
		server.Must("plans", server.ArrayOf(server.AnswerSchema[billing.StandingPlan]())),
		server.Must("amounts", server.ArrayOf(server.AnswerSchema[billing.StandingAmount]())),
	)
}
