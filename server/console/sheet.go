package console

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"tollgate/engine/billing"
	api "tollgate/sdk/go"
	"tollgate/server"
)

const (
	// maxSheetRows bounds the rows of a file, and maxSheetReads the pages that are read for it: where
	// an environment is thin among others, pages may be short, and workspaces come 100 at a time.
	maxSheetRows  = 10_000
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

// sheet is a list for a spreadsheet.
type sheet struct {
	rows [][]string // the first names the columns
	// more reports whether rows had no room, short whether pages were not read.
	more, short bool
}

func newSheet(columns ...string) *sheet { return &sheet{rows: [][]string{columns}} }

// add adds a row where there is room: texts so that none is a formula, times as the APIs write
// them.
func (s *sheet) add(cells ...any) {
	if s.full() {
		s.more = true
		return
	}
	row := make([]string, len(cells))
	for i, c := range cells {
		switch c := c.(type) {
		case string:
			row[i] = cell(c)
		case time.Time:
			row[i] = written(c)
		default: // numbers of answers are texts, too
			row[i] = fmt.Sprint(c)
		}
	}
	s.rows = append(s.rows, row)
}

// full reports whether the sheet has room for no more rows.
func (s *sheet) full() bool { return len(s.rows) > maxSheetRows }

// missing says so where rows are left out; else it is empty.
func (s *sheet) missing() string {
	switch {
	case s.more:
		return "Rows are missing: a file has up to " + strconv.Itoa(maxSheetRows) +
			" rows. Choose less of the list."
	case s.short:
		return "Rows may be missing: not all of the list was searched. Choose less of it."
	}
	return ""
}

// cell is a text that a spreadsheet does not take for a formula.
func cell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}

// readAll reads a list page by page, as far as there is room; take adds a page, and returns the
// next one's cursor.
func readAll[T any](
	v *visit, s *sheet, ask func(server.Call) server.Reply, call server.Call, take func(*T) string,
) {
	if call.Query == nil {
		call.Query = url.Values{}
	}
	if !call.Query.Has("limit") {
		call.Query.Set("limit", sheetPage)
	}
	for range maxSheetReads {
		page := need[T](v, ask, call)
		next := take(&page)
		if v.fault != nil || next == "" {
			return
		}
		if s.full() {
			s.more = true
			return
		}
		call.Query.Set("cursor", next)
	}
	s.short = true
}

// download answers with a sheet as a file. Its last row says so where rows are left out.
func download(v *visit, name string, s *sheet) {
	if v.fails() {
		return
	}
	if missing := s.missing(); missing != "" {
		s.rows = append(s.rows, []string{missing})
	}
	var text bytes.Buffer
	if err := csv.NewWriter(&text).WriteAll(s.rows); err != nil {
		v.x.Refuse(server.FaultInternal)
		return
	}
	v.console.site.Guard(v.x)
	v.x.Ctx.Response.Header.Set("Content-Disposition", `attachment; filename="`+name+`.csv"`)
	v.x.Bare(200, "text/csv; charset=utf-8", text.Bytes())
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
	s := newSheet("start", "feature", "units", "events")
	for _, u := range totals.Series {
		for _, p := range u.Points {
			s.add(p.Start.UTC().Format(time.RFC3339), u.FeatureKey, p.UsageUnits, p.Events)
		}
	}
	download(v, "usage", s)
}

// downloadChecks is the denied checks of each bucket by reason.
func downloadChecks(v *visit) {
	call, _ := v.usageCall()
	totals := need[api.UsageTotals](v, v.admin, call)
	s := newSheet("start", "reason", "checks")
	for _, c := range totals.Checks {
		if c.Reason == billing.ReasonAllowed.String() {
			continue
		}
		for _, p := range c.Points {
			s.add(p.Start, c.Reason, p.Checks)
		}
	}
	download(v, "checks", s)
}

// downloadRanking is who used most.
func downloadRanking(v *visit) {
	call, keep := v.usageCall()
	call.Query.Set("limit", strconv.Itoa(maxSheetRows))
	var found usageRanking
	if found, v.fault = v.mostUsing(call.Query, keep); v.fails() {
		return
	}
	s := newSheet("customer", "events", "units", "currency", "price")
	for _, c := range found.Customers {
		units := c.UsageUnits
		if !call.Query.Has("feature") {
			units = "" // those of several features do not add up
		}
		s.add(c.CustomerReferenceID, c.Events, units, c.Currency, c.Price)
	}
	s.more = found.Others > 0
	download(v, "ranking", s)
}

func downloadDenials(v *visit) {
	call := denialCall(v, strconv.Itoa(maxSheetRows))
	found := need[denialRanking](v, v.admin, call)
	s := newSheet("customer", "reason", "checks")
	for _, c := range found.Customers {
		s.add(c.CustomerReferenceID, c.Reason, c.Checks)
	}
	s.more = found.Others > 0
	download(v, "denied", s)
}

func downloadMargin(v *visit) {
	data := marginOf(v)
	s := newSheet(data.By, "currency", "revenue", "cost", "margin", "events")
	rows, fault := data.report(v)
	v.fault = fault
	for _, r := range rows {
		s.add(r.Key, r.Currency, r.Revenue, r.Cost, r.Margin, r.Events)
	}
	download(v, "margin", s)
}

// downloadCustomers has a row for each currency in which a customer pays or owes, or one.
func downloadCustomers(v *visit) {
	s := newSheet("id", "first name", "last name", "e-mail", "created", "archived", "erased", "plans",
		"state", "currency", "monthly recurring", "owed", "past due", "past due since")
	call := v.adminCall("listCustomers")
	if call.Query = customerOrder(v); call.Query.Has("sort") { // each page would rank all anew
		call.Query.Set("limit", strconv.Itoa(maxSheetRows))
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
				s.add(append(row[:len(row):len(row)], a.Currency, a.MonthlyRecurring, a.Owed, a.PastDue,
					a.PastDueSince)...)
			}
			if len(c.Amounts) == 0 {
				s.add(append(row, "", "", "", "", "")...)
			}
		}
		s.more = s.more || p.Omitted > 0
		return p.NextCursor
	})
	download(v, "customers", s)
}

func downloadInvoices(v *visit) {
	s := newSheet("number", "id", "customer", "type", "state", "currency", "amount", "issued", "due",
		"paid", "period start", "period end", "subscription")
	add := func(list []invoice) {
		for i := range list {
			i := &list[i]
			s.add(i.Digits(), i.ID, i.CustomerReferenceID, i.Type, i.Status, i.Currency, i.Amount,
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
	s := newSheet("occurred", "recorded", "customer", "kind", "feature", "event name", "units", "key",
		"allowed", "reason", "billed", "voided", "cost")
	call, _ := eventCall(v, customer)
	readAll(v, s, v.client, call, func(p *eventList) string {
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
			s.add(e.OccurredAt, e.RecordedAt, of, e.Kind, e.FeatureKey, e.EventName, e.UsageUnits,
				e.EventIdempotencyKey, allowed, e.Reason, billed, e.VoidedAt, e.CostAmount)
		}
		return p.NextCursor
	})
	download(v, "events", s)
}

func downloadTransactions(v *visit) {
	s := newSheet("created", "sequence", "id", "kind", "amount", "balance", "feature", "note",
		"reverses", "expires")
	readAll(v, s, v.admin, v.adminCall("listTransactions", string(v.x.Param(2))),
		func(p *poolTransactions) string {
			for i := range p.List {
				t := &p.List[i]
				s.add(t.CreatedAt, t.Sequence, t.ID, t.Kind, t.Amount, t.Balance, t.FeatureKey, t.Note,
					t.Reverses, t.ExpiresAt)
			}
			return p.NextCursor
		})
	download(v, "transactions", s)
}

// downloadKeys are the keys in use, then those that were revoked.
func downloadKeys(v *visit) {
	s := newSheet("key", "label", "scope", "customer", "budget", "created", "created by", "last used",
		"ends", "revoked", "requests 24 hours", "requests 30 days", "events 30 days")
	for _, k := range inUseFirst(need[[]api.Key](v, v.admin, v.adminCall("listKeys"))) {
		s.add(k.Hint, k.Label, k.Scope, k.Customer, k.Budget, k.CreatedAt, k.CreatedBy, k.LastUsedAt,
			k.EndsAt, k.RevokedAt, k.RequestsDay, k.RequestsMonth, k.EventsMonth)
	}
	download(v, "keys", s)
}

// downloadSubscribers are those of a plan, or of one of its versions.
func downloadSubscribers(v *visit) {
	s := newSheet("customer", "subscription", "version", "since")
	call := v.adminCall("listSubscribers", string(v.x.Param(2)))
	if version := v.query("version"); version != "" {
		call.Query = url.Values{"version": {version}}
	}
	readAll(v, s, v.admin, call, func(p *subscriberList) string {
		for _, c := range p.Subscribers {
			s.add(c.CustomerReferenceID, c.SubscriptionID, c.Version, c.CreatedAt)
		}
		return p.NextCursor
	})
	download(v, "subscribers", s)
}

// downloadDeliveries are what an endpoint was sent, or what waits for it.
func downloadDeliveries(v *visit) {
	s := newSheet("created", "id", "event", "customer", "state", "attempts", "next attempt",
		"finished", "occurred")
	call, _ := deliveryCall(v, string(v.x.Param(2)))
	call.Query.Set("limit", "500") // the most that its row answers
	readAll(v, s, v.admin, call, func(p *deliveryList) string {
		for i := range p.List {
			d := &p.List[i]
			s.add(d.CreatedAt, d.ID, d.Type, d.CustomerReferenceID, d.Status, d.Attempts,
				d.NextAttemptAt, d.FinishedAt, d.OccurredAt)
		}
		return p.NextCursor
	})
	download(v, "deliveries", s)
}

// downloadChanges has what was changed, a row for each value.
func downloadChanges(v *visit) {
	call, _, _ := changeCall(v)
	s := newSheet("at", "number", "actor", "action", "account", "environment", "workspace", "subject",
		"field", "before", "after")
	readAll(v, s, v.admin, call, func(p *changeList) string {
		for i := range p.Changes {
			c := &p.Changes[i]
			row := []any{
				c.At, c.Number, c.Actor, c.Action, c.Account, c.Environment, c.Workspace, c.Subject,
			}
			fields := changedFields(*c)
			for _, f := range fields {
				s.add(append(row[:len(row):len(row)], f.Name, f.Before, f.After)...)
			}
			if len(fields) == 0 {
				s.add(append(row, "", "", "")...)
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
	s := newSheet("account", "created")
	for _, a := range need[[]account](v, v.admin, server.Call{Operation: "listAccounts"}) {
		if look, _ := v.who.on(a.Name); look {
			s.add(a.Name, a.CreatedAt)
		}
	}
	download(v, "accounts", s)
}

func downloadWorkspaces(v *visit) {
	s := newSheet("id", "label", "owner", "runs left", "purchase", "bytes", "network", "created",
		"used", "ends")
	call := server.Call{Operation: "listWorkspaces", Query: url.Values{}}
	if v.query("unclaimed") == "true" {
		call.Query.Set("unclaimed", "true")
	}
	call.Query.Set("limit", "100") // the most that its row answers
	readAll(v, s, v.admin, call, func(p *api.Tenants) string {
		for i := range p.Workspaces {
			w := &p.Workspaces[i]
			s.add(w.ID, w.Label, w.Owner, w.RunsLeft, w.Purchase, w.Bytes, w.Network, w.CreatedAt,
				w.UsedAt, w.EndsAt)
		}
		return p.NextCursor
	})
	download(v, "workspaces", s)
}
