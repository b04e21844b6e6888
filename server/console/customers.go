package console

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/page"
)

type customersData struct {
	Base      string
	Manage    bool
	Customers []listedCustomer
	// Count is how many there are; 0 where some are sought.
	Count  int64
	CSV    string
	Sought string
	// Orders are the ways to sort the list; Sorted reports whether it is not the newest first.
	Orders []page.Link
	Sorted bool
	// ByPastDue reports whether it is by what is past due, whose column is then shown.
	ByPastDue bool
	now       time.Time
	Omitted   int // customers that a sorted list has no room for
	// Refused reports whether the list was not read, since its query has a mistake.
	Refused   bool
	Unmatched []api.UnmatchedName
	Pager     page.Pager
	// Fields are what the form to create one was left with.
	Fields url.Values
	// First is the request that creates the first one, where there is none.
	First string
}

// customerList is a page of customers.
type customerList struct {
	Customers  []listedCustomer `json:"customers"`
	NextCursor string           `json:"nextCursor"`
	// Omitted is how many customers a sorted list has no room for.
	Omitted int `json:"omitted"`
}

// listedCustomer is a customer as lists have them.
type listedCustomer struct{ api.ListedCustomer }

// State is what pages say of a customer in one word.
func (c listedCustomer) State() string {
	switch {
	case !c.ErasedAt.IsZero():
		return "erased"
	case !c.ArchivedAt.IsZero():
		return "archived"
	}
	for _, p := range c.Plans {
		if p.Status == "suspended" {
			return p.Status
		}
	}
	if len(c.Plans) > 0 {
		return "active"
	}
	return "no plan"
}

// PlanKeys are those of the plans that a customer is subscribed to.
func (c listedCustomer) PlanKeys() string {
	var keys []string
	for _, p := range c.Plans {
		keys = append(keys, p.Key)
	}
	return strings.Join(keys, " ")
}

// PlanNames are their names, so many at most.
func (c listedCustomer) PlanNames() string {
	var names []string
	for _, p := range c.Plans[:min(len(c.Plans), maxPlanNames)] {
		names = append(names, p.Name)
	}
	if more := len(c.Plans) - len(names); more > 0 {
		names = append(names, "and "+strconv.Itoa(more)+" more")
	}
	return strings.Join(names, ", ")
}

// maxPlanNames is how many plans of a customer a list names.
const maxPlanNames = 3

// Owes are the amounts that are unpaid.
func (c listedCustomer) Owes() (list []api.StandingAmount) {
	for _, a := range c.Amounts {
		if drawnAs(a.Owed) != 0 {
			list = append(list, a)
		}
	}
	return list
}

// Late are the amounts of which something is past due.
func (c listedCustomer) Late() (list []api.StandingAmount) {
	for _, a := range c.Amounts {
		if late(a) {
			list = append(list, a)
		}
	}
	return list
}

// DaysLate is for how many days something has been past due, in words.
func (d customersData) DaysLate(a api.StandingAmount) string {
	days := int(d.now.Sub(a.PastDueSince) / (24 * time.Hour))
	if days == 0 {
		return "less than a day"
	}
	return page.Count(days, "day")
}

// Pays are the amounts of its subscriptions in a month.
func (c listedCustomer) Pays() (list []api.StandingAmount) {
	for _, a := range c.Amounts {
		if drawnAs(a.MonthlyRecurring) != 0 {
			list = append(list, a)
		}
	}
	return list
}

// Late reports whether some of an amount is past due.
func late(a api.StandingAmount) bool { return drawnAs(a.PastDue) > 0 }

// holding is how many records of a kind an account holds, and may hold.
type holding struct {
	What        string
	Used, Limit uint64
	Full        bool
}

func (v *visit) holdings() []holding {
	use, bounds, _ := v.console.config.Machine.Use(v.account)
	all := []holding{
		{What: "Customers", Used: use.Customers, Limit: bounds.Customers},
		{What: "API keys in use", Used: use.Keys, Limit: bounds.Keys},
		{What: "Features, plans and versions", Used: use.Catalog, Limit: bounds.Catalog},
		{What: "Webhook endpoints", Used: use.Endpoints, Limit: bounds.Endpoints},
	}
	for i := range all {
		all[i].Full = all[i].Used >= all[i].Limit
	}
	return all
}

// showCustomers lists customers, newest first, or finds them: one by its id, or all whose id, name
// or e-mail has the text.
func showCustomers(v *visit) {
	data := customersData{Base: v.base(), Manage: v.manage, Fields: v.fields}
	call := v.adminCall("listCustomers")
	keep := customerOrder(v)
	call.Query, data.Sorted = maps.Clone(keep), len(keep) > 0
	call = v.paged(call, "50")
	if data.Sought = strings.TrimSpace(v.query("find")); data.Sought != "" {
		found, fault := dataOf[api.Customer](v, v.client(server.Call{
			Operation: "getCustomer", Path: []string{data.Sought},
		}))
		if fault == nil {
			v.console.site.Redirect(v.x, v.customerURL(found.ExternalClientCustomerID))
			return
		}
		call.Query.Set("find", data.Sought)
		keep.Set("find", data.Sought)
	}
	data.Orders = customerOrders(v, keep)
	list, fault := dataOf[customerList](v, v.admin(call))
	if data.Refused = fault != nil && fault.Code == server.FaultFields.Code; data.Refused {
		v.problem(fault)
	} else {
		v.fault = fault
	}
	if data.Sought == "" && v.query("cursor") == "" && !data.Sorted {
		data.Unmatched = v.unmatched()
	}
	if data.Sought == "" {
		data.Count = v.console.config.Machine.CustomerCount(v.env)
	}
	data.Omitted, data.ByPastDue, data.now = list.Omitted, keep.Get("sort") == "pastDue", clockOf(v)
	data.Customers, data.CSV = list.Customers, csvOf(v, "customers", "find", "sort", "currency")
	data.Pager = v.pages(v.customersURL(), list.NextCursor, keep)
	if data.Sought != "" || data.Sorted {
		data.Pager = data.Pager.Of(len(list.Customers), "customer")
	}
	if len(data.Customers) == 0 && data.Sought == "" && !data.Sorted && fault == nil {
		data.First = request(v, "/customers", `{"externalClientCustomerId": "acme", "firstName": "Ada",`+
			"\n"+`  "lastName": "Berg", "email": "ada@acme.example"}`)
	}
	v.show(v.environmentPage("customers", "Customers", "Customers", "", data))
}

// customerOrder is the order of customers that the page's address names, as the row's query has it.
func customerOrder(v *visit) url.Values {
	query := url.Values{}
	for _, name := range []string{"sort", "currency"} {
		if text := v.query(name); text != "" {
			query.Set(name, text)
		}
	}
	if !query.Has("sort") {
		query.Del("currency")
	}
	return query
}

// sortedCurrencies is how many of the currencies of an environment the list of customers offers to
// sort by.
const sortedCurrencies = 2

// customerOrders are the ways to sort the list of customers; none where nothing is paid.
func customerOrders(v *visit, keep url.Values) (orders []page.Link) {
	currencies := v.console.config.Machine.Currencies(v.env)
	if len(currencies) == 0 {
		return nil
	}
	here := cmp.Or(keep.Get("currency"), currencies[0])
	offered := slices.Clone(currencies[:min(len(currencies), sortedCurrencies)])
	if slices.Contains(currencies, here) && !slices.Contains(offered, here) {
		offered = append(offered, here)
	}
	add := func(text, sort, currency string) {
		query := withParam(withParam(keep, "sort", sort), "currency", currency)
		orders = append(orders, page.Link{
			Text: text, URL: v.customersURL() + "?" + query.Encode(),
			Here: keep.Get("sort") == sort && (sort == "" || here == currency),
		})
	}
	add("Newest", "", "")
	for _, currency := range offered {
		add("Most owed, "+currency, "owed", currency)
		add("Most past due, "+currency, "pastDue", currency)
		add("Highest MRR, "+currency, "monthlyRecurring", currency)
	}
	return orders
}

func createCustomer(v *visit) {
	id := v.fields.Get("id")
	reply := v.client(server.Call{
		Operation: "createCustomer", OnceKey: page.OnceKey(v.fields), Body: body(map[string]any{
			"externalClientCustomerId": id, "firstName": v.fields.Get("first"),
			"lastName": v.fields.Get("last"), "email": v.fields.Get("email"),
		}),
	})
	next := v.customerURL(id)
	if id == "" { // it was given one, which the list shows first
		next = v.customersURL()
	}
	v.finish(reply.Fault, showCustomers, next, "customer")
}
