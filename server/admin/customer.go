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
	// rankedCustomers is how many customers a list that is sorted by amounts has at most, and a page
	// of it: each page ranks all customers anew, so a reader of the whole list asks once.
	rankedCustomers = 10_000
)

// The orders of customers other than the newest first.
const (
	sortOwed      = "owed"
	sortPastDue   = "pastDue"
	sortRecurring = "monthlyRecurring"
)

// orders are those that the orders of customers rank by.
var orders = map[string]billing.RankedBy{
	sortOwed: billing.RankedByOwed, sortPastDue: billing.RankedByPastDue,
	sortRecurring: billing.RankedByRecurring,
}

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
				server.InQuery("sort", server.EnumSchema(sortOwed, sortPastDue, sortRecurring),
					"those with the largest amount first, of the first 10,000; without an amount they are left out"),
				server.InQuery("currency", text(3, 3),
					"of what is sorted by; absent: the plans' with most subscriptions"),
				server.InQuery("limit", server.IntSchema(1, rankedCustomers),
					"100 when absent; without sort 1,000 at most"),
				server.InQuery("cursor", text(1, 10), "nextCursor of the page before")),
			answers(server.Object(server.Must("customers", server.ArrayOf(server.RefTo("Customer"))),
				server.May("nextCursor", text(1, 10)), server.May("omitted", server.IntegerSchema)))),
	}
}

func (a *customers) listCustomers(x *server.Exchange) *server.Fault {
	var w walk
	sort, maximum := string(x.Ctx.QueryArgs().Peek("sort")), maxCustomers
	if sort != "" {
		maximum = rankedCustomers
	}
	limit, cursor := pageOf(x, &w, defaultCustomers, maximum)
	find, currency := w.query(x, "find", maxID), w.query(x, "currency", 3)
	by, ranked := orders[sort]
	w.when(sort != "" && !ranked, "sort", server.FieldNotAllowed,
		"must be "+sortOwed+", "+sortPastDue+" or "+sortRecurring)
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
	return a.environment(x, func(env uint32) *server.Fault {
		var page customerPage
		if sort == "" {
			before := uint32(min(cmp.Or(cursor, math.MaxUint32), math.MaxUint32))
			list, next := a.machine.CustomersLike(env, before, limit, scannedCustomers, like)
			page.list, page.next = list, uint64(next)
		} else {
			page = a.ranked(&billing.Ranking{
				Env: env, Currency: currency, By: by, From: int(cursor), Limit: limit,
			}, like)
		}
		return x.Object(200, func(data *server.JSON) {
			data.Array("customers")
			for i := range page.list {
				c := &page.list[i]
				writeListedCustomer(data, &listedCustomer{
					c.ID, c.ExternalID, c.FirstName, c.LastName, c.Email, c.CreatedAt, c.ArchivedAt,
					c.ErasedAt, a.machine.Standing(c.Row),
				})
			}
			data.Close(']')
			data.TextIf("nextCursor", cursorAt(page.next))
			if sort != "" {
				data.Uint("omitted", uint64(page.omitted))
			}
		})
	})
}

// customerPage is a page of customers. Of a sorted list, omitted are those that it has no room for.
type customerPage struct {
	list    []billing.CustomerView
	next    uint64
	omitted int
}

// ranked is a page of the customers with the largest amounts. What like selects is sought among
// those that the list has, once their rank is known.
func (a *customers) ranked(
	q *billing.Ranking, like func(*billing.CustomerView) bool,
) (p customerPage) {
	if all := a.machine.Currencies(q.Env); q.Currency == "" && len(all) > 0 {
		q.Currency = all[0]
	}
	limit := q.Limit
	if q.Limit = rankedCustomers - q.From; like == nil {
		q.Limit = min(q.Limit, limit)
	}
	list, others := a.machine.RankCustomers(q)
	through := q.From + len(list)
	p.omitted = max(through+others-rankedCustomers, 0)
	if like == nil {
		if p.list = list; others > 0 && through < rankedCustomers {
			p.next = uint64(through)
		}
		return p
	}
	for i := range list {
		if !like(&list[i]) {
			continue
		}
		if len(p.list) == limit {
			p.next = uint64(q.From + i)
			break
		}
		p.list = append(p.list, list[i])
	}
	return p
}

func (a *customers) listUnmatched(x *server.Exchange, env uint32) *server.Fault {
	return server.Page(x, "names", a.machine.Unmatched(env), writeUnmatchedName, "")
}

// listedCustomer is a customer with what it is subscribed to, and owes.
//
//schema:answer admin ListedCustomer
type listedCustomer struct {
	ID         [16]byte `json:"id"`
	ExternalID string   `json:"externalClientCustomerId" rule:"max=128"`
	FirstName  string   `json:"firstName"`
	LastName   string   `json:"lastName"`
	Email      string   `json:"email"`
	CreatedAt  int64    `json:"createdAt" as:"time"`
	ArchivedAt int64    `json:"archivedAt,omitzero" as:"time"`
	ErasedAt   int64    `json:"erasedAt,omitzero" as:"time"`
	billing.Standing
}
