package console

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"tollgate/engine/billing"
	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/page"
)

const (
	// maxSheetReads bounds the pages that are read for a file: where an environment is thin among
	// others, pages may be short, and workspaces and reservations come 100 at a time.
	maxSheetReads = 100
	sheetPage     = "1000"
)

// sheetRows are the lists as files for spreadsheets: of the same query as the page, through the
// same row of the API.
func (s *Console) sheetRows() []row {
	const at = "/accounts/{account}/{environment}"
	file := func(path, name string, show func(*visit)) row {
		return live(look(path, name+" as csv", show))
	}
	return []row{
		file(at+"/usage.csv", "usage", downloadUsage),
		file(at+"/ranking.csv", "ranking", downloadRanking),
		file(at+"/customers.csv", "customers", downloadCustomers),
		file(at+"/invoices.csv", "all invoices", downloadInvoices),
		file(at+"/events.csv", "all events", downloadEvents),
		file(customerPath+"/events.csv", "events", downloadEvents),
		file(at+"/reservations.csv", "all reservations", downloadHolds),
		file(customerPath+"/reservations.csv", "reservations", downloadHolds),
		file(at+"/margin.csv", "margin", downloadMargin),
		file(at+"/denied.csv", "denied checks", downloadDenials),
		file(at+"/keys.csv", "keys", downloadKeys),
		file(at+"/catalog/{plan}/subscribers.csv", "subscribers", downloadSubscribers),
		file(webhookPath+"/deliveries.csv", "deliveries", downloadDeliveries),
		file(poolPath+"/transactions.csv", "pool", downloadTransactions),
		file(at+"/checks.csv", "denied checks by day", downloadChecks),
		file(at+"/log.csv", "log", downloadChanges),
		file(at+"/budgets.csv", "budgets", downloadBudgets),
		file(budgetPath+"/windows.csv", "budget windows", downloadWindows),
		live(within(reachAny, "GET", "/accounts.csv", "accounts as csv", downloadAccounts)),
		live(within(reachCluster, "GET", "/workspaces.csv", "workspaces as csv", downloadWorkspaces)),
		live(within(reachCluster, "GET", "/changes.csv", "changes as csv", downloadChanges)),
		local(live(within(reachCluster, "GET", "/load.csv", "load as csv", downloadLoad))),
	}
}

// readAll reads a list page by page, as far as there is room; take adds a page, and returns the
// next one's cursor.
func readAll[T any](
	v *visit, s *page.Sheet, ask func(server.Call) server.Reply, call server.Call,
	take func(*T) string,
) {
	if call.Query == nil {
		call.Query = url.Values{}
	}
	if !call.Query.Has("limit") {
		call.Query.Set("limit", sheetPage)
	}
	for range maxSheetReads {
		some := need[T](v, ask, call)
		next := take(&some)
		if v.fault != nil || next == "" {
			return
		}
		if s.Full() {
			s.More = true
			return
		}
		call.Query.Set("cursor", next)
	}
	s.Short = true
}

// download answers with a sheet as a file.
func download(v *visit, name string, s *page.Sheet) {
	if !v.fails() {
		v.console.site.Download(v.x, name, s)
	}
}

// downloadUsage is all features' figures, a line for each bucket in which one was used.
func downloadUsage(v *visit) {
	call, keep := v.usageCall()
	totals := need[api.UsageTotals](v, v.admin, call)
	if keep.Get("split") == splitCustomer && keep.Get("customer") == "" && v.fault == nil {
		var found usageRanking
		if found, v.fault = v.mostUsing(call.Query, keep); v.fails() {
			return
		}
		feature := keep.Get("feature")
		split := byCustomer(v, &totals, found.Customers, found.Others, feature)
		download(v, "usage", splitSheet(split, feature))
		return
	}
	s := page.NewSheet("start", "feature", "units", "events")
	for _, u := range totals.Series {
		for _, p := range u.Points {
			s.Add(p.Start.UTC().Format(time.RFC3339), u.FeatureKey, p.UsageUnits, p.Events)
		}
	}
	download(v, "usage", s)
}

// downloadChecks is the denied checks of each bucket by reason.
func downloadChecks(v *visit) {
	call, _ := v.usageCall()
	totals := need[api.UsageTotals](v, v.admin, call)
	s := page.NewSheet("start", "reason", "checks")
	for _, c := range totals.Checks {
		if c.Reason == billing.ReasonAllowed.String() {
			continue
		}
		for _, p := range c.Points {
			s.Add(p.Start, c.Reason, p.Checks)
		}
	}
	download(v, "checks", s)
}

// downloadRanking is who used most.
func downloadRanking(v *visit) {
	call, keep := v.usageCall()
	call.Query.Set("limit", strconv.Itoa(page.MaxSheetRows))
	var found usageRanking
	if found, v.fault = v.mostUsing(call.Query, keep); v.fails() {
		return
	}
	s := page.NewSheet("customer", "events", "units", "currency", "price")
	for _, c := range found.Customers {
		units := c.UsageUnits
		if !call.Query.Has("feature") {
			units = "" // those of several features do not add up
		}
		s.Add(c.CustomerReferenceID, c.Events, units, c.Currency, c.Price)
	}
	s.More = found.Others > 0
	download(v, "ranking", s)
}

func downloadDenials(v *visit) {
	call := denialCall(v, strconv.Itoa(page.MaxSheetRows))
	found := need[denialRanking](v, v.admin, call)
	s := page.NewSheet("customer", "reason", "checks")
	for _, c := range found.Customers {
		s.Add(c.CustomerReferenceID, c.Reason, c.Checks)
	}
	s.More = found.Others > 0
	download(v, "denied", s)
}

func downloadMargin(v *visit) {
	data := marginOf(v)
	s := page.NewSheet(data.By, "currency", "revenue", "cost", "margin", "events")
	rows, fault := data.report(v)
	v.fault = fault
	for _, r := range rows {
		s.Add(r.Key, r.Currency, r.Revenue, r.Cost, r.Margin, r.Events)
	}
	download(v, "margin", s)
}

// downloadCustomers has a row for each currency in which a customer pays or owes, or one.
func downloadCustomers(v *visit) {
	s := page.NewSheet("id", "first name", "last name", "e-mail", "created", "archived", "erased",
		"plans", "state", "currency", "monthly recurring", "owed", "past due", "past due since")
	call := v.adminCall("listCustomers")
	if call.Query = customerOrder(v); call.Query.Has("sort") { // each page would rank all anew
		call.Query.Set("limit", strconv.Itoa(page.MaxSheetRows))
	}
	if find := strings.TrimSpace(v.query("find")); find != "" {
		call.Query.Set("find", find)
	}
	readAll(v, s, v.admin, call, func(p *customerList) string {
		for _, c := range p.Customers {
			row := []any{
				c.ExternalClientCustomerID, c.FirstName, c.LastName, c.Email, c.CreatedAt, c.ArchivedAt,
				c.ErasedAt, c.PlanKeys(), c.State(),
			}
			for _, a := range c.Amounts {
				s.Add(append(row[:len(row):len(row)], a.Currency, a.MonthlyRecurring, a.Owed, a.PastDue,
					a.PastDueSince)...)
			}
			if len(c.Amounts) == 0 {
				s.Add(append(row, "", "", "", "", "")...)
			}
		}
		s.More = s.More || p.Omitted > 0
		return p.NextCursor
	})
	download(v, "customers", s)
}

func downloadInvoices(v *visit) {
	s := page.NewSheet("number", "id", "customer", "type", "state", "currency", "amount", "issued",
		"due", "paid", "period start", "period end", "subscription")
	add := func(list []invoice) {
		for i := range list {
			i := &list[i]
			s.Add(i.Digits(), i.ID, i.CustomerReferenceID, i.Type, i.Status, i.Currency, i.Amount,
				i.CreatedAt, i.DueDate, i.PaidAt, i.PeriodStart, i.PeriodEnd, i.SubscriptionID)
		}
	}
	if customer := strings.TrimSpace(v.query("customer")); customer != "" {
		list, fault := issuedTo(v, customer, v.query("status"))
		v.fault = fault
		add(list)
	} else {
		readAll(v, s, v.admin, invoiceCall(v), func(p *foundInvoices) string {
			add(p.Invoices)
			return p.NextCursor
		})
	}
	download(v, "invoices", s)
}

// downloadEvents are those of the customer whose path it is, or of all.
func downloadEvents(v *visit) {
	customer := pathCustomer(v)
	s := page.NewSheet("occurred", "recorded", "customer", "kind", "feature", "event name", "units",
		"key", "allowed", "reason", "billed", "voided", "cost")
	call, _ := eventCall(v, customer)
	readAll(v, s, v.client, call, func(p *api.EventPage) string {
		for i := range p.Events {
			e := &p.Events[i]
			allowed, billed := "", ""
			if e.IsAllowed != nil {
				allowed = strconv.FormatBool(*e.IsAllowed)
			} else {
				billed = strconv.FormatBool(!e.Unbilled)
			}
			of := e.CustomerReferenceID
			if customer != "" {
				of = customer
			}
			s.Add(e.OccurredAt, e.RecordedAt, of, e.Kind, e.FeatureKey, e.EventName, e.UsageUnits,
				e.EventIdempotencyKey, allowed, e.Reason, billed, e.VoidedAt, e.CostAmount)
		}
		return p.NextCursor
	})
	download(v, "events", s)
}

// downloadHolds has a row for each feature of a reservation.
func downloadHolds(v *visit) {
	call, _ := holdCall(v)
	s := page.NewSheet("created", "expires", "id", "key", "customer", "state", "budget", "feature",
		"reserved", "settled", "held", "overrun", "cost")
	call.Query.Set("limit", "100") // the most that its row answers
	readAll(v, s, v.admin, call, func(p *api.ReservationPage) string {
		for i := range p.Reservations {
			r := &p.Reservations[i]
			for _, item := range r.Items {
				s.Add(r.CreatedAt, r.ExpiresAt, r.ID, r.ReservationKey, r.CustomerReferenceID, r.State,
					r.Budget, item.FeatureKey, item.GrantedUnits, item.SettledUnits, item.HeldUnits,
					item.OverrunUnits, item.CostAmount)
			}
		}
		return p.NextCursor
	})
	download(v, "reservations", s)
}

func downloadTransactions(v *visit) {
	s := page.NewSheet("created", "sequence", "id", "kind", "amount", "balance", "feature", "note",
		"reverses", "expires")
	readAll(v, s, v.admin, v.adminCall("listTransactions", string(v.x.Param(2))),
		func(p *api.PoolTransactionPage) string {
			for i := range p.Transactions {
				t := &p.Transactions[i]
				s.Add(t.CreatedAt, t.Sequence, t.ID, t.Kind, t.Amount, t.Balance, t.FeatureKey, t.Note,
					t.Reverses, t.ExpiresAt)
			}
			return p.NextCursor
		})
	download(v, "transactions", s)
}

// downloadKeys are the keys in use, then those that were revoked.
func downloadKeys(v *visit) {
	s := page.NewSheet("key", "label", "scope", "customer", "budget", "created", "created by",
		"last used", "ends", "revoked", "requests 24 hours", "requests 30 days", "events 30 days")
	for _, k := range inUseFirst(need[[]api.Key](v, v.admin, v.adminCall("listKeys"))) {
		s.Add(k.Hint, k.Label, k.Scope, k.Customer, k.Budget, k.CreatedAt, k.CreatedBy, k.LastUsedAt,
			k.EndsAt, k.RevokedAt, k.RequestsDay, k.RequestsMonth, k.EventsMonth)
	}
	download(v, "keys", s)
}

// downloadSubscribers are those of a plan, or of one of its versions.
func downloadSubscribers(v *visit) {
	s := page.NewSheet("customer", "subscription", "version", "since")
	call := v.adminCall("listSubscribers", string(v.x.Param(2)))
	if version := v.query("version"); version != "" {
		call.Query = url.Values{"version": {version}}
	}
	readAll(v, s, v.admin, call, func(p *api.SubscriberPage) string {
		for _, c := range p.Subscribers {
			s.Add(c.CustomerReferenceID, c.SubscriptionID, c.Version, c.CreatedAt)
		}
		return p.NextCursor
	})
	download(v, "subscribers", s)
}

// downloadDeliveries are what an endpoint was sent, or what waits for it.
func downloadDeliveries(v *visit) {
	s := page.NewSheet("created", "id", "event", "customer", "state", "attempts", "next attempt",
		"finished", "occurred")
	call, _ := deliveryCall(v, string(v.x.Param(2)))
	call.Query.Set("limit", "500") // the most that its row answers
	readAll(v, s, v.admin, call, func(p *api.WebhookDeliveryPage) string {
		for i := range p.Deliveries {
			d := &p.Deliveries[i]
			s.Add(d.CreatedAt, d.ID, d.Type, d.CustomerReferenceID, d.Status, d.Attempts,
				d.NextAttemptAt, d.FinishedAt, d.OccurredAt)
		}
		return p.NextCursor
	})
	download(v, "deliveries", s)
}

// downloadChanges has what was changed, a row for each value.
func downloadChanges(v *visit) {
	call, _, _ := changeCall(v)
	s := page.NewSheet("at", "number", "actor", "action", "account", "environment", "workspace",
		"subject", "field", "before", "after")
	readAll(v, s, v.admin, call, func(p *api.AdminChangePage) string {
		for i := range p.Changes {
			c := &p.Changes[i]
			row := []any{
				c.At, c.Number, c.Actor, c.Action, c.Account, c.Environment, c.Workspace, c.Subject,
			}
			fields := changedFields(*c)
			for _, f := range fields {
				s.Add(append(row[:len(row):len(row)], f.Name, f.Before, f.After)...)
			}
			if len(fields) == 0 {
				s.Add(append(row, "", "", "")...)
			}
		}
		return p.NextCursor
	})
	download(v, "changes", s)
}

// downloadAccounts are those that the operator may see.
func downloadAccounts(v *visit) {
	type account struct {
		Name      string    `json:"name"`
		CreatedAt time.Time `json:"createdAt"`
	}
	s := page.NewSheet("account", "created")
	for _, a := range need[[]account](v, v.admin, server.Call{Operation: "listAccounts"}) {
		if look, _ := v.who.on(a.Name); look {
			s.Add(a.Name, a.CreatedAt)
		}
	}
	download(v, "accounts", s)
}

func downloadWorkspaces(v *visit) {
	s := page.NewSheet("id", "label", "owner", "runs left", "purchase", "bytes", "network", "created",
		"used", "ends")
	call := server.Call{Operation: "listWorkspaces", Query: url.Values{}}
	if v.query("unclaimed") == "true" {
		call.Query.Set("unclaimed", "true")
	}
	call.Query.Set("limit", "100") // the most that its row answers
	readAll(v, s, v.admin, call, func(p *api.Tenants) string {
		for i := range p.Workspaces {
			w := &p.Workspaces[i]
			s.Add(w.ID, w.Label, w.Owner, w.RunsLeft, w.Purchase, w.Bytes, w.Network, w.CreatedAt,
				w.UsedAt, w.EndsAt)
		}
		return p.NextCursor
	})
	download(v, "workspaces", s)
}
