package admin

import (
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
)

func (a *customers) customerRoutes() []server.Route {
	return []server.Route{{
		Method: "GET", Path: environment + "/unmatched-events", Operation: "listUnmatchedNames",
		Summary: "Names of recorded usage events that match no feature and so are not billed: the 50 " +
			"seen last",
		Access: server.AccessOperator, Handle: a.listUnmatched, Params: environmentParams,
		Responses: answers(server.Object(server.Must("names",
			server.ArrayOf(server.AnswerSchema[billing.UnmatchedName]())))),
	}, {
		Method: "GET", Path: environment + "/customers", Operation: "listCustomers",
		Summary: "The environment's customers, newest first, archived ones too",
		Access:  server.AccessOperator, Handle: a.listCustomers,
		Params: environmentAnd(
			inQuery("find", text(1, maxID), "only those whose id, name or e-mail has this text"),
			inQuery("limit", server.IntSchema(1, maxCustomers), "100 when absent"),
			inQuery("cursor", text(1, 10), "nextCursor of the page before")),
		Responses: answers(pageSchema("customers", "Customer", 10)),
	}}
}

// listCustomers is GET …/customers.
func (a *customers) listCustomers(x *server.Exchange) {
	var w walk
	limit, cursor := pageOf(x, &w, defaultCustomers, maxCustomers)
	find := w.query(x, "find", maxID)
	if fault := w.fault(); fault != nil {
		x.Refuse(fault)
		return
	}
	var like func(*billing.CustomerView) bool
	if find = strings.ToLower(find); find != "" {
		like = func(c *billing.CustomerView) bool {
			return strings.Contains(strings.ToLower(c.ExternalID), find) ||
				strings.Contains(strings.ToLower(c.FirstName+" "+c.LastName), find) ||
				strings.Contains(strings.ToLower(c.Email), find)
		}
	}
	if cursor == 0 {
		cursor = math.MaxUint32
	}
	before := uint32(min(cursor, math.MaxUint32))
	a.environment(x, func(env uint32) *server.Fault {
		found, next := a.machine.CustomersLike(env, before, limit, scannedCustomers, like)
		return server.Page(x, "customers", found, writeCustomer, cursorAt(uint64(next)))
	})
}

// listUnmatched is GET …/unmatched-events.
func (a *customers) listUnmatched(x *server.Exchange) {
	a.environment(x, func(env uint32) *server.Fault {
		return server.Page(x, "names", a.machine.Unmatched(env), writeUnmatchedName, "")
	})
}

func writeCustomer(data *server.JSON, c *billing.CustomerView) {
	data.Open('{')
	data.UUID("id", c.ID)
	data.Text("externalClientCustomerId", c.ExternalID)
	data.Text("firstName", c.FirstName)
	data.Text("lastName", c.LastName)
	data.Text("email", c.Email)
	data.Time("createdAt", c.CreatedAt)
	data.Time("archivedAt", c.ArchivedAt)
	data.Time("erasedAt", c.ErasedAt)
	data.Close('}')
}

func customerSchema() *server.Schema {
	return server.Object(
		server.Must("id", server.UUIDSchema),
		server.Must("externalClientCustomerId", text(0, maxID)),
		server.Must("firstName", text(0, 0)), server.Must("lastName", text(0, 0)),
		server.Must("email", text(0, 0)), server.Must("createdAt", server.TimeSchema),
		server.May("archivedAt", server.TimeSchema), server.May("erasedAt", server.TimeSchema),
	)
}
