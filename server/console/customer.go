package console

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/bill"
	"tollgate/server/console/page"
	"tollgate/server/console/spend"
)

const customerPath = "/accounts/{account}/{environment}/customers/{customer}"

func (s *Console) customerRows() []row {
	list := "/accounts/{account}/{environment}"
	return []row{
		within(reachAccount, "GET", "/accounts/{account}", "account", func(v *visit) {
			s.site.Redirect(v.x, Root+"/accounts/"+url.PathEscape(v.account)+"/live")
		}),
		look(list, "environment", func(v *visit) {
			s.site.Redirect(v.x, v.base()+"/overview")
		}),
		look(list+"/customers", "customers", showCustomers),
		form(list+"/customers", "create customer", createCustomer),
		look(customerPath, "customer", showCustomer),
		live(look(customerPath+"/live", "customer live", showUsage)),
		look(customerPath+"/events", "events", showEvents),
		live(look(customerPath+"/events/live", "events live", showNewEvents)),
		asked(form(customerPath+"/subscriptions", "subscribe", subscribe)),
		asked(form(customerPath+"/cancel", "cancel subscription", cancelSubscription)),
		asked(form(customerPath+"/change", "change plan", changePlan)),
		asked(form(customerPath+"/keep", "revert cancellation", revertCancellation)),
		asked(form(customerPath+"/stay", "drop plan change", dropChange)),
		form(customerPath+"/usage", "record usage", recordUsage),
		form(customerPath+"/pools", "create pool", createPool),
		form(customerPath+"/portal-link", "create portal link", createPortalLink),
		asked(form(customerPath+"/portal-revoke", "revoke portal links", revokePortalLinks)),
	}
}

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
type listedCustomer struct {
	api.Customer
	Plans   []api.StandingPlan   `json:"plans"`
	Amounts []api.StandingAmount `json:"amounts"`
}

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

// customerURL is a customer's page.
func (v *visit) customerURL(id string) string {
	return v.base() + "/customers/" + url.PathEscape(id)
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
	v.finish(reply.Fault, func() { showCustomers(v) }, next, "customer")
}

type customerData struct {
	Environment   string
	Base          string
	Manage        bool
	Sandbox       bool
	Customer      api.Customer
	Subscriptions []api.Subscription
	More          int // subscriptions that are not listed
	Running       int // subscriptions that have not ended
	Entitlements  []entitlement
	Blocked       blockedFeatures
	Gone          bool         // archived or erased: nothing new begins
	Details       []api.Detail // that a subscription may have
	Invoices      []invoice
	Upcoming      []invoice
	Recurring     []billing.StandingAmount // in the currencies of the subscriptions
	Owed          []money
	LatePayment   *latePayment
	AllInvoices   string
	Usage         *page.Chart
	TopUps        map[string]*api.TopUp // by pool
	Holds         spend.Holds
	Own           []*budgetNode // budgets of their own
	Activity      activityList
	Fields        url.Values
	planForms
}

// planForms are the forms of a customer's subscriptions, which name plans.
type planForms struct {
	Plans     []api.Plan // that they offer
	ManyPlans bool       // they are too many for a choice: their key is typed
	// Chosen is the subscription whose form is open, Many whether the others have none: each names
	// all plans.
	Chosen string
	Many   bool
}

// Alone reports whether a subscription's row has its forms.
func (d planForms) Alone(id string) bool { return !d.Many || id == d.Chosen }

const (
	// maxPlanChoice bounds the names and keys of the plans of a choice together, in bytes, and
	// maxPlanChoices those of the choices of all rows.
	maxPlanChoice  = 8 << 10
	maxPlanChoices = 16 << 10
)

// choose decides how the forms name plans: a page of many would be heavy.
func (d *planForms) choose(v *visit, running int) {
	size := 0
	for i := range d.Plans {
		size += len(d.Plans[i].Key) + len(d.Plans[i].Name) + 60
	}
	d.ManyPlans = size > maxPlanChoice
	d.Many = running*size > maxPlanChoices
	d.Chosen = cmp.Or(v.fields.Get("subscription"), v.query("subscription"))
}

// Features are those whose usage can be recorded, each once.
func (d customerData) Features() (keys []string) {
	for _, e := range d.Entitlements {
		if !slices.Contains(keys, e.FeatureKey) {
			keys = append(keys, e.FeatureKey)
		}
	}
	return keys
}

// maxShown bounds the lists of a customer's page; longer ones have pages of their own.
const maxShown = 20

// showCustomer is all about one customer.
func showCustomer(v *visit) {
	id := string(v.x.Param(2))
	call := func(operation string) server.Call {
		return server.Call{Operation: operation, Path: []string{id}}
	}
	data := customerData{
		Environment: v.base(), Manage: v.manage, Sandbox: v.environment == "sandbox",
		Fields: v.fields, Details: api.Details(api.SubscriptionDetails{}), Usage: &page.Chart{},
	}
	data.Customer = need[api.Customer](v, v.client, call("getCustomer"))
	data.Base = v.customerURL(id)
	subscriptions := need[[]api.Subscription](v, v.client, server.Call{
		Operation: "listCustomerSubscriptions", Path: []string{id},
		Query: url.Values{"status": {"all"}},
	})
	data.Entitlements = need[[]entitlement](v, v.client, call("listEntitlements"))
	data.Plans = need[[]api.Plan](v, v.client, server.Call{Operation: "listPlans"})
	invoices := v.invoices(id)
	events := v.newestEvents(id, shownActivities)
	if v.fails() {
		return
	}
	for _, s := range subscriptions {
		if s.Status() != "ended" {
			data.Running++
		}
	}
	data.Recurring = recurringOf(v, id)
	data.Blocked = blocked(data.Entitlements)
	data.account(invoices)
	data.Plans = offers(data.Plans, subscriptions)
	data.choose(v, data.Running)
	data.Gone = !data.Customer.ArchivedAt.IsZero() || !data.Customer.ErasedAt.IsZero()
	data.Subscriptions = newest(subscriptions)
	data.More = len(subscriptions) - len(data.Subscriptions)
	data.TopUps = map[string]*api.TopUp{}
	for _, p := range data.Customer.CreditPools[:min(len(data.Customer.CreditPools), maxShown)] {
		if t := v.topUp(p.ID); t != nil {
			data.TopUps[p.ID] = t
		}
	}
	data.Activity = activitiesOf(v, id, events, data.Invoices)
	if len(data.Invoices) > maxShown {
		data.Invoices, data.AllInvoices = data.Invoices[:maxShown], data.Base+"/invoices"
	}
	data.chart(v, id)
	data.Holds = v.holds(id)
	data.Own = v.ownBudgets(id)
	p := v.environmentPage("customer", "Customers", bill.NameOf(&data.Customer), "", data)
	v.show(v.below(p, "Customers", v.customersURL()))
}

// recurringOf is what a customer's subscriptions come to in a month.
func recurringOf(v *visit, id string) []billing.StandingAmount {
	customer, known := v.console.config.Machine.Customer(v.env, id)
	if !known {
		return nil
	}
	standing := v.console.config.Machine.Standing(customer.Row)
	return slices.DeleteFunc(standing.Amounts, func(a billing.StandingAmount) bool {
		return a.MonthlyRecurring.IsZero()
	})
}

// blockedFeatures are the features whose next use is denied, of so many. A check chooses among
// subscriptions, so one of a feature that still allows is enough.
type blockedFeatures struct {
	List []entitlement
	Of   int
}

func blocked(list []entitlement) (b blockedFeatures) {
	allowed := map[string]bool{}
	for _, e := range list {
		allowed[e.FeatureKey] = allowed[e.FeatureKey] || e.IsAllowed
	}
	b.Of = len(allowed)
	for _, e := range list {
		if known, is := allowed[e.FeatureKey]; is && !known {
			b.List = append(b.List, e)
			delete(allowed, e.FeatureKey)
		}
	}
	return b
}

// account sorts a customer's invoices, which are newest first: what is issued, what comes next, and
// what is owed.
func (d *customerData) account(invoices []invoice) {
	for i := range invoices {
		v := &invoices[i]
		if v.Number == 0 {
			d.Upcoming = append(d.Upcoming, *v)
			continue
		}
		d.Invoices = append(d.Invoices, *v)
		if v.Open() {
			d.Owed = owed(d.Owed, v)
		}
		if v.Status == pastDue {
			if d.LatePayment == nil {
				d.LatePayment = &latePayment{}
			}
			d.LatePayment.invoice = v
			d.LatePayment.Count++
		}
	}
}

// latePayment is the oldest invoice that is past due, and how many are.
type latePayment struct {
	*invoice
	Count int
}

// MoreLate is how many other invoices are past due, in words; empty where none is.
func (d customerData) MoreLate() string {
	if d.LatePayment == nil || d.LatePayment.Count < 2 {
		return ""
	}
	return page.Count(d.LatePayment.Count-1, "other")
}

// chart draws what the customer used in the last 30 days. Where this node is still counting, the
// page is shown without it.
func (d *customerData) chart(v *visit, id string) {
	call := v.adminCall("showUsage")
	call.Query = url.Values{"customer": {id}}
	totals, fault := dataOf[api.UsageTotals](v, v.admin(call))
	if fault == nil {
		d.Usage = usageChart(&totals)
	}
}

// UsageURL is the explorer of the customer's usage.
func (d customerData) UsageURL() string {
	return d.Environment + "/usage?" + url.Values{
		"customer": {d.Customer.ExternalClientCustomerID},
	}.Encode()
}

// UsageCSV is where the chart's numbers are.
func (d customerData) UsageCSV() string {
	return d.Environment + "/usage.csv?" + url.Values{
		"customer": {d.Customer.ExternalClientCustomerID},
	}.Encode()
}

// money is an amount of a currency.
type money struct {
	Amount   decimal.Decimal
	Currency string
	Late     decimal.Decimal // what of it is past due
}

// IsLate reports whether some of it is past due, and AllLate whether all is.
func (m money) IsLate() bool  { return !m.Late.IsZero() }
func (m money) AllLate() bool { return m.Late == m.Amount }

// owed adds an invoice to sums by currency. An amount beyond what can be added leaves them.
func owed(sums []money, v *invoice) []money {
	amount, err := decimal.Parse(string(v.Amount))
	if err != nil {
		return sums
	}
	var late decimal.Decimal
	if v.Status == pastDue {
		late = amount
	}
	for i := range sums {
		if sums[i].Currency == v.Currency {
			if sum, ok := sums[i].Amount.Add(amount); ok {
				sums[i].Amount = sum
				sums[i].Late, _ = sums[i].Late.Add(late) // no larger than Amount
			}
			return sums
		}
	}
	return append(sums, money{amount, v.Currency, late})
}

// customersURL is the path of this environment's list of customers.
func (v *visit) customersURL() string { return v.base() + "/customers" }

// newest are the last of a list that is oldest first, turned round, as many as a page shows.
func newest[T any](list []T) (shown []T) {
	for i := len(list) - 1; i >= 0 && len(shown) < maxShown; i-- {
		shown = append(shown, list[i])
	}
	return shown
}

// below puts a page under another one: a crumb leads there.
func (v *visit) below(p page.View, text, path string) page.View {
	p.Crumbs = []page.Link{{Text: text, URL: path}}
	return p
}

// customerForm ends a form of a customer's page.
func (v *visit) customerForm(reply server.Reply, what string) {
	back := v.customerURL(string(v.x.Param(2)))
	v.finish(reply.Fault, func() { showCustomer(v) }, back, what)
}
