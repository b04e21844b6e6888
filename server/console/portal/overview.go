package portal

import (
	"cmp"
	"html/template"
	"slices"
	"strconv"

	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/billingview"
	"tollgate/server/console/bill"
	"tollgate/server/console/page"
	"tollgate/server/console/spend"
)

// maxInvoices is how many invoices the page lists, the newest.
const maxInvoices = 36

type overviewData struct {
	Base          string
	Customer      api.Customer
	TopUps        map[string]*api.TopUp // by pool
	Subscriptions []shownSubscription
	Usage         []usage
	Holds         spend.Holds
	Budgets       []shownBudget
	Owed          []money
	Invoices      []bill.Invoice
	Older         int
	CanPay        bool
	// Late is the oldest invoice that is past due; nil where none is.
	Late *bill.Invoice
}

type shownSubscription struct {
	api.Subscription
	Price string
	// Offers are the plans that it may change to; Cancel reports whether it may be ended, Keep
	// whether that may be taken back.
	Offers       []api.Plan
	Cancel, Keep bool
}

type money struct {
	Amount, Currency string
	sum              decimal.Decimal
}

type usage struct {
	// Name is what the plan calls the feature.
	Name string `json:"-"`
	api.Entitlement
}

// Meter draws usage against its limit.
func (u usage) Meter() template.HTML {
	used, err := strconv.ParseFloat(string(u.Usage.Used), 64)
	limit, err2 := strconv.ParseFloat(string(u.Usage.Limit), 64)
	if err != nil || err2 != nil {
		return ""
	}
	return page.Meter(used, limit, u.Name+": "+page.Amount(u.Usage.Used)+" of "+
		page.Amount(u.Usage.Limit)+" used")
}

// Why says to a customer why the feature is blocked: budgets are their merchant's.
func (u usage) Why() string {
	switch u.Code {
	case billing.ReasonBudgetFrozen.String(), billing.ReasonBudgetArchived.String(),
		billing.ReasonBudgetUnknown.String():
		return "Your provider has paused this. Contact them to resume."
	case billing.ReasonBudgetExceeded.String():
		return "You have used all that was agreed for now. Contact your provider for more."
	case billing.ReasonSuspended.String():
		return "An invoice is unpaid. Pay it to go on."
	case billing.ReasonCreditsEmpty.String():
		return "Your credits for this are used up."
	case billing.ReasonLimitReached.String():
		return "What your plan has of this is used up, or held by calls that are running."
	}
	return u.Description
}

// showOverview is the first page: what the customer has, uses and owes.
func showOverview(v *visit) {
	data := overviewData{Base: v.base, CanPay: v.canPay()}
	var ok bool
	if data.Customer, ok = dataOf[api.Customer](v, v.call(v.of("getCustomer"))); !ok {
		return
	}
	if data.TopUps, ok = v.topUps(data.Customer.CreditPools); !ok {
		return
	}
	list, ok := v.subscriptions()
	if !ok {
		return
	}
	plans, ok := dataOf[[]api.Plan](v, v.call(server.Call{Operation: "listPlans"}))
	if !ok {
		return
	}
	names := map[string]string{}
	for _, s := range list {
		for _, f := range s.Plan.Features {
			names[f.Key] = f.Name
		}
		shown := shownSubscription{Subscription: s, Price: bill.PerInterval(&s.Plan)}
		if !v.stale {
			shown.Offers = offers(&s, plans)
			shown.Cancel = allows(&s.Plan).Cancel && s.CancelMode == "" && s.Status() == "active"
			shown.Keep = v.mayKeep(&s) && s.Status() == "active"
		}
		data.Subscriptions = append(data.Subscriptions, shown)
	}
	if data.Usage, ok = dataOf[[]usage](v, v.call(v.of("listEntitlements"))); !ok {
		return
	}
	for i := range data.Usage {
		data.Usage[i].Name = cmp.Or(names[data.Usage[i].FeatureKey], data.Usage[i].FeatureKey)
	}
	if data.Holds, ok = v.holds(list); !ok {
		return
	}
	if data.Budgets, ok = v.budgets(); !ok {
		return
	}
	all, ok := dataOf[[]bill.Invoice](v, v.call(v.of("listCustomerInvoices")))
	if !ok {
		return
	}
	slices.Reverse(all)
	data.owe(all)
	data.Invoices = all[:min(len(all), maxInvoices)]
	data.Older = len(all) - len(data.Invoices)
	v.show("overview", "Your account", data)
}

// canPay reports whether invoices can be paid on these pages now.
func (v *visit) canPay() bool {
	return !v.stale &&
		v.portal.config.Machine.PaymentSettings(v.link.Env).Provider != billing.ProviderNone
}

// maxTopUps is of how many pools the page says how they are topped up.
const maxTopUps = 20

// topUps are how pools are topped up, but for those that are not.
func (v *visit) topUps(pools []api.CreditPool) (all map[string]*api.TopUp, ok bool) {
	all = map[string]*api.TopUp{}
	for i := range pools[:min(len(pools), maxTopUps)] {
		reply := v.call(server.Call{Operation: "getTopUp", Path: []string{pools[i].ID}})
		if reply.Fault != nil && reply.Fault.Code == billingview.FaultNoTopUp.Code {
			continue
		}
		t, ok := dataOf[api.TopUp](v, reply)
		if !ok {
			return nil, false
		}
		if t.State != "OFF" || t.Pending {
			all[pools[i].ID] = &t
		}
	}
	return all, true
}

// owe adds up what is unpaid, by currency.
func (d *overviewData) owe(all []bill.Invoice) {
	for i := range all {
		amount, err := decimal.Parse(string(all[i].Amount))
		if !all[i].Open() || err != nil {
			continue
		}
		if all[i].Status == "PAST_DUE" { // they are newest first
			d.Late = &all[i]
		}
		at := slices.IndexFunc(d.Owed, func(m money) bool { return m.Currency == all[i].Currency })
		if at < 0 {
			d.Owed = append(d.Owed, money{Currency: all[i].Currency})
			at = len(d.Owed) - 1
		}
		if sum, ok := d.Owed[at].sum.Add(amount); ok {
			d.Owed[at].sum, d.Owed[at].Amount = sum, sum.String()
		}
	}
}
