package console

import (
	"cmp"
	"net/url"
	"slices"

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
		asking(customerPath+"/subscriptions", "subscribe", askSubscribe, subscribe),
		asking(customerPath+"/cancel", "cancel subscription", askCancel, cancelSubscription),
		asking(customerPath+"/change", "change plan", askChange, changePlan),
		asking(customerPath+"/keep", "revert cancellation", askRevert, revertCancellation),
		asking(customerPath+"/stay", "drop plan change", askDropChange, dropChange),
		form(customerPath+"/usage", "record usage", recordUsage),
		form(customerPath+"/pools", "create pool", createPool),
		form(customerPath+"/portal-link", "create portal link", createPortalLink),
		asked(form(customerPath+"/portal-revoke", "revoke portal links", revokePortalLinks)),
	}
}

// customerURL is a customer's page.
func (v *visit) customerURL(id string) string {
	return v.base() + "/customers/" + url.PathEscape(id)
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
	v.finish(reply.Fault, showCustomer, back, what)
}
