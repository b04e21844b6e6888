package console

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/bill"
	"tollgate/server/console/page"
	"tollgate/server/document"
)

const (
	invoicesPath = "/accounts/{account}/{environment}/invoices"
	invoicePath  = invoicesPath + "/{invoice}"
)

func (s *Console) invoiceRows() []row {
	return []row{
		look(customerPath+"/invoices", "invoices", showInvoices),
		look(customerPath+"/invoices/verify", "verify invoices", verifyInvoices),
		look(invoicesPath, "all invoices", showAllInvoices),
		look(invoicesPath+"/verify", "verify all invoices", verifyAllInvoices),
		live(look(invoicePath+"/pdf", "invoice pdf", downloadInvoice)),
		look(invoicePath, "invoice", func(v *visit) { showInvoice(v, false) }),
		look(invoicePath+"/explain", "explain invoice", func(v *visit) { showInvoice(v, true) }),
		asking(invoicePath+"/paid", "mark invoice paid", askPaid, func(v *visit) {
			call := server.Call{
				Operation: "markInvoicePaid", Path: []string{string(v.x.Param(2))},
				OnceKey: page.OnceKey(v.fields),
			}
			if note := v.typed("note"); note != "" {
				call.Body = body(map[string]any{"note": note})
			}
			v.invoiceForm(v.client(call), "paid")
		}),
		asking(invoicePath+"/void", "void invoice", askVoid, func(v *visit) {
			v.invoiceForm(v.admin(v.adminCall("voidInvoice", string(v.x.Param(2)))), "void")
		}),
	}
}

// askPaid asks before an invoice is marked as paid, and tells where its subscription goes on.
func askPaid(v *visit) {
	q := question{Button: "Mark as paid", Notes: []string{
		"Do this only for money that has arrived outside of the payment provider. It cannot be undone.",
	}}
	if note := v.typed("note"); note != "" {
		q.Facts = []fact{{"Note", note}}
	}
	const goesOn = "becomes active at once, whichever invoice suspended it. Other invoices of it " +
		"that are past due get a fresh grace from now on."
	m := v.console.config.Machine
	id, known := server.ParseUUID(v.x.Param(2))
	resumes, outcome := false, engine.OutcomeInvoiceUnknown
	if known {
		resumes, outcome = m.PreviewPayment(v.env, id, m.Clock(v.console.config.Now().UnixMilli()))
	}
	switch {
	case resumes:
		q.Notes = append(q.Notes, "Its subscription, which is suspended, "+goesOn)
	case outcome == engine.OutcomeInvoiceUnknown: // it may be issued, and not stored yet
		q.Notes = append(q.Notes, "Its subscription, if it is suspended, "+goesOn)
	}
	askInvoice(v, "Mark", " as paid?", q)
}

// askVoid asks before an invoice is made void, and says what becomes of its money.
func askVoid(v *visit) {
	q := question{Button: "Void for good", Danger: true, Notes: []string{
		"A void invoice is never paid, and its usage is not billed again. It cannot be undone.",
	}}
	reply := v.admin(v.adminCall("previewVoid", string(v.x.Param(2))))
	shown, fault := dataOf[api.VoidPreview](v, reply)
	if fault != nil && fault.Code == server.FaultOf(engine.OutcomeInvoiceUnknown).Code {
		askInvoice(v, "Void", "?", q) // it may be issued, and not stored yet
		return
	}
	if fault != nil {
		v.invoiceForm(server.Reply{Fault: fault}, "void")
		return
	}
	credit, err := decimal.Parse(string(shown.Credit))
	if err != nil {
		v.invoiceForm(server.Reply{Fault: server.FaultInternal}, "void")
		return
	}
	if shown.Resumes {
		q.Notes = append(q.Notes, "The subscription that this invoice has suspended becomes active.")
	}
	askInvoice(v, "Void", "?", q, func(i *invoice) []fact {
		facts := []fact{{"Not collected", page.Money(i.Amount, i.Currency)}}
		switch credit.Sign() {
		case 1:
			facts = append(facts, fact{
				"Returned to the customer's credit", page.Money(credit.String(), i.Currency),
			})
		case -1:
			facts = append(facts, fact{
				"Taken from the customer's credit", page.Money(credit.Neg().String(), i.Currency),
			})
		}
		return facts
	})
}

// askInvoice asks about one invoice; more are further facts about it.
func askInvoice(
	v *visit, before, after string, q question, more ...func(*invoice) []fact,
) {
	id := string(v.x.Param(2))
	shown := need[invoice](v, v.admin, v.adminCall("showInvoice", id))
	q.Title = before + " " + strings.ToLower(shown.Title()[:1]) + shown.Title()[1:] + after
	q.Facts = append([]fact{
		{"Amount", page.Money(shown.Amount, shown.Currency)},
		{"Customer", shown.CustomerReferenceID},
		{"State", page.Words(shown.Status)},
	}, q.Facts...)
	for _, facts := range more {
		q.Facts = append(q.Facts, facts(&shown)...)
	}
	q.Back = v.base() + "/invoices/" + url.PathEscape(id)
	v.ask(q)
}

func (v *visit) invoiceForm(reply server.Reply, what string) {
	back := v.base() + "/invoices/" + url.PathEscape(string(v.x.Param(2)))
	v.finish(reply.Fault, func(v *visit) { showInvoice(v, false) }, back, what)
}

// invoices are a customer's, newest first.
func (v *visit) invoices(customer string) []invoice {
	call := v.adminCall("listInvoices")
	call.Query = url.Values{"customer": {customer}}
	list := need[[]invoice](v, v.admin, call)
	slices.Reverse(list)
	return list
}

// invoice and invoiceItem are those of answers.
type (
	invoice     = bill.Invoice
	invoiceItem = bill.Item
)

type invoicesData struct {
	Environment string
	Verify      string // has all of them recomputed
	Invoices    []invoice
	Pager       page.Pager
}

func showInvoices(v *visit) {
	id := string(v.x.Param(2))
	list := v.invoices(id)
	base := v.customerURL(id)
	data := invoicesData{Environment: v.base(), Verify: base + "/invoices/verify"}
	data.Invoices, data.Pager = pageOf(v, base+"/invoices", list, nil, "invoice")
	p := v.environmentPage("invoices", "Customers", "Invoices", "All invoices of "+id+".", data)
	v.show(v.below(p, id, base))
}

// verifyInvoices has all of a customer's invoices recomputed from the journal, and reports
// whether they are as stored.
func verifyInvoices(v *visit) {
	verify(v, url.Values{"customer": {string(v.x.Param(2))}}, "of this customer")
	showInvoices(v)
}

// maxVerified is how many customers' invoices a page has recomputed, in one pass over the journal.
const maxVerified = "1000"

// verifyAllInvoices does so for a page of the environment's customers; the notice leads on to the
// next ones.
func verifyAllInvoices(v *visit) {
	query := url.Values{"limit": {maxVerified}}
	if after := v.query("after"); after != "" {
		query.Set("cursor", after)
	}
	if next := verify(v, query, "of these customers"); next != "" {
		v.notice.Detail += " " + page.Amount(maxVerified) + " customers were looked at; there are more."
		v.notice.Next = page.Link{
			Text: "Verify the next customers' invoices",
			URL:  v.base() + "/invoices/verify?" + url.Values{"after": {next}}.Encode(),
		}
	}
	showAllInvoices(v)
}

// verify notes on the page whether the invoices of whose they are, in words, are as the journal
// explains them, and returns where the next page of customers begins; empty after the last.
func verify(v *visit, query url.Values, whose string) (next string) {
	call := v.adminCall("verifyInvoices")
	call.Query = query
	type verification struct {
		Invoices   int    `json:"invoices"`
		Different  int    `json:"different"`
		NextCursor string `json:"nextCursor"`
	}
	made, fault := dataOf[verification](v, v.admin(call))
	switch {
	case fault != nil:
		v.problem(fault)
	case made.Different > 0:
		v.notice = &page.Notice{
			Tone: page.Problem, Title: page.Amount(made.Different) + " of " + page.Amount(made.Invoices) +
				" invoices " + whose + " differ from what the journal explains",
			Detail: "tollgate invoice verify names them, and what differs.",
		}
	default:
		v.notice = &page.Notice{
			Tone: page.Done, Title: "Every invoice " + whose + " is the same, to the last unit",
			Detail: page.Amount(made.Invoices) + " were recomputed from the recorded events alone.",
		}
	}
	return made.NextCursor
}

type explanation struct {
	Equal      bool          `json:"equal"`
	Problem    string        `json:"problem"`
	Recomputed []invoiceItem `json:"recomputed"`
	First      number        `json:"firstLogIndex"`
	Last       number        `json:"lastLogIndex"`
}

// verdict is what the page begins with: the comparison is at its end.
func (e *explanation) verdict() *page.Notice {
	n := &page.Notice{
		Tone: page.Done, Title: "Verified: the invoice is what its events make of it",
		Next: page.Link{Text: "The lines, recomputed", URL: "#explanation"},
	}
	if !e.Equal {
		n.Tone, n.Title, n.Detail = page.Problem, "The invoice differs from what its events make of it",
			e.Problem
	}
	return n
}

type invoiceData struct {
	Base, CustomerURL string
	Manage            bool
	Invoice           invoice
	Bill              *document.Invoice
	Explanation       *explanation
}

// Counted reports whether lines say how many events they count: those of an invoice do once it is
// recomputed.
func (invoiceData) Counted(items []invoiceItem) bool {
	return slices.ContainsFunc(items, func(i invoiceItem) bool { return i.Counted != "" })
}

// Costed reports whether lines say what they cost.
func (invoiceData) Costed(items []invoiceItem) bool {
	return slices.ContainsFunc(items, func(i invoiceItem) bool { return i.CostAmount != "" })
}

// showInvoice is one invoice with its lines; explained, it is shown next to its computation from
// the journal's records alone.
func showInvoice(v *visit, explained bool) {
	id := string(v.x.Param(2))
	data := invoiceData{
		Base: v.base() + "/invoices/" + url.PathEscape(id), Manage: v.manage,
	}
	shown := need[invoice](v, v.admin, v.adminCall("showInvoice", id))
	if explained {
		data.Explanation = new(need[explanation](v, v.admin, v.adminCall("explainInvoice", id)))
		v.notice = data.Explanation.verdict()
	}
	data.Invoice = shown
	data.CustomerURL = v.customerURL(shown.CustomerReferenceID)
	if v.fails() {
		return
	}
	data.Bill = v.bill(&shown)
	p := v.environmentPage("invoice", "Invoices", shown.Title(), "", data)
	v.show(v.below(p, "Invoices", v.base()+"/invoices"))
}

// allInvoices is the list of an environment's invoices.
type allInvoices struct {
	Environment, Base string
	Chips, Orders     []page.Link
	Customer, Status  string
	Totals            []invoiceTotal
	CSV               string
	Invoices          []invoice
	// Unsorted reports whether too many are past due to be listed by when they were due, Restarted
	// whether the cursor was one of another order.
	Unsorted, Restarted bool
	Pager               page.Pager
}

// invoiceChips are the filters of the list of invoices.
var invoiceChips = []struct{ name, status string }{
	{"All", ""}, {"Past due", "PAST_DUE"}, {"Due", "DUE"}, {"Paid", "PAID"}, {"Void", "VOID"},
}

// showAllInvoices lists the environment's invoices, or a customer's, of one state or of all.
func showAllInvoices(v *visit) {
	data := allInvoices{
		Environment: v.base(), Base: v.base() + "/invoices",
		Customer: strings.TrimSpace(v.query("customer")), Status: v.query("status"),
		CSV: csvOf(v, "invoices", "status", "customer", "order"),
	}
	status := data.Status
	for _, chip := range invoiceChips {
		keep := url.Values{}
		for name, value := range map[string]string{"status": chip.status, "customer": data.Customer} {
			if value != "" {
				keep.Set(name, value)
			}
		}
		at := data.Base
		if len(keep) > 0 {
			at += "?" + keep.Encode()
		}
		data.Chips = append(data.Chips, page.Link{
			Text: chip.name, URL: at, Here: chip.status == status,
		})
	}
	keep := url.Values{}
	if status != "" {
		keep.Set("status", status)
	}
	if data.Customer != "" {
		keep.Set("customer", data.Customer)
		data.list(v, status, keep)
	} else {
		data.search(v, status, keep)
		data.Totals = invoiceTotals(v)
	}
	v.show(v.environmentPage("all-invoices", "Invoices", "Invoices", "", data))
}

// foundInvoices is a page of an environment's invoices.
type foundInvoices struct {
	Invoices   []invoice `json:"invoices"`
	Order      string    `json:"order"`
	NextCursor string    `json:"nextCursor"`
}

// search are the invoices of all customers: those that are past due begin with the oldest debt,
// where not too many are.
func (d *allInvoices) search(v *visit, status string, keep url.Values) {
	call := v.paged(invoiceCall(v), "50")
	byDue := call.Query.Get("order") == "due"
	if status == pastDue || status == "DUE" {
		newest, debts := withParam(keep, "order", "newest"), withParam(keep, "order", "due")
		d.Orders = []page.Link{
			{Text: "Due first", URL: d.Base + "?" + debts.Encode(), Here: byDue},
			{Text: "Newest first", URL: d.Base + "?" + newest.Encode(), Here: !byDue},
		}
		keep.Set("order", call.Query.Get("order"))
	}
	list, fault := dataOf[foundInvoices](v, v.admin(call))
	if fault != nil && call.Query.Has("cursor") { // of the order that the list had before
		d.Restarted = true
		call.Query.Del("cursor")
		list, fault = dataOf[foundInvoices](v, v.admin(call))
	}
	if fault != nil {
		v.problem(fault)
		return
	}
	d.Invoices, d.Unsorted = list.Invoices, byDue && list.Order != "due"
	d.Pager = v.pages(d.Base, list.NextCursor, keep).Of(len(list.Invoices), "invoice")
}

// invoiceCall asks for the environment's invoices that the page's address selects. Those that are
// past due begin with the oldest debt, unless it says otherwise.
func invoiceCall(v *visit) server.Call {
	call := v.adminCall("searchInvoices")
	call.Query = url.Values{}
	status, order := v.query("status"), v.query("order")
	if status != "" {
		call.Query.Set("status", status)
	}
	switch {
	case status == pastDue:
		call.Query.Set("order", cmp.Or(order, "due"))
	case status == "DUE":
		call.Query.Set("order", cmp.Or(order, "newest"))
	}
	return call
}

// invoiceTotal is what invoices of a state come to, in one currency.
type invoiceTotal struct {
	Status, Currency string
	Amount           decimal.Decimal
	Invoices         int64
}

// invoiceTotals are those of all invoices of the environment, whenever they were issued.
func invoiceTotals(v *visit) (list []invoiceTotal) {
	for _, r := range v.console.config.Machine.Revenue(&billing.UsageQuery{Env: v.env}) {
		for _, t := range []invoiceTotal{
			{pastDue, r.Currency, r.PastDue, r.PastDueInvoices},
			{"DUE", r.Currency, r.Due, r.DueInvoices},
			{"PAID", r.Currency, r.Paid, r.PaidInvoices},
			{"VOID", r.Currency, r.Void, r.VoidInvoices},
		} {
			if t.Invoices > 0 {
				list = append(list, t)
			}
		}
	}
	return list
}

// totalsOf adds up a customer's invoices.
func totalsOf(invoices []invoice) (list []invoiceTotal) {
	for i := range invoices {
		v := &invoices[i]
		amount, err := decimal.Parse(string(v.Amount))
		if err != nil {
			continue
		}
		at := slices.IndexFunc(list, func(t invoiceTotal) bool {
			return t.Status == v.Status && t.Currency == v.Currency
		})
		if at < 0 {
			at, list = len(list), append(list, invoiceTotal{Status: v.Status, Currency: v.Currency})
		}
		if sum, fits := list[at].Amount.Add(amount); fits {
			list[at].Amount = sum
		}
		list[at].Invoices++
	}
	slices.SortFunc(list, func(a, b invoiceTotal) int {
		return cmp.Or(cmp.Compare(a.Currency, b.Currency), cmp.Compare(a.Status, b.Status))
	})
	return list
}

// pastDue is the status of invoices that are past due.
const pastDue = "PAST_DUE"

// list are the invoices of one customer. A customer who is not there has none.
func (d *allInvoices) list(v *visit, status string, keep url.Values) {
	list, fault := issuedTo(v, d.Customer, "")
	if fault != nil {
		v.problem(fault)
		return
	}
	d.Totals = totalsOf(list)
	list = slices.DeleteFunc(list, func(i invoice) bool { return status != "" && i.Status != status })
	d.Invoices, d.Pager = pageOf(v, d.Base, list, keep, "invoice")
}

// issuedTo are the invoices of a customer that were issued, of a state or of all, the newest first;
// none of one who is not there.
func issuedTo(v *visit, customer, status string) ([]invoice, *server.Fault) {
	call := v.adminCall("listInvoices")
	call.Query = url.Values{"customer": {customer}}
	list, fault := dataOf[[]invoice](v, v.admin(call))
	if fault != nil && fault.Code == server.FaultOf(engine.OutcomeCustomerUnknown).Code {
		return nil, nil
	}
	slices.Reverse(list)
	return slices.DeleteFunc(list, func(i invoice) bool {
		return i.Number == 0 || status != "" && i.Status != status
	}), fault
}
