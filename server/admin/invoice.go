package admin

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
	"tollgate/server"
	"tollgate/server/billingview"
	"tollgate/server/form"
)

// invoiceRoutes are the rows about invoices: as stored, and as the journal explains them.
func (a *invoices) invoiceRoutes() []server.Route {
	const invoices = environment + "/invoices"
	return []server.Route{
		row("GET", invoices, "listInvoices",
			"The invoices of one customer, oldest first; the pending ones last", a.listInvoices,
			server.Asks(must(server.InQuery("customer", text(1, maxID), "externalClientCustomerId"))),
			answers(server.ArrayOf(server.RefTo("Invoice")))),
		row("GET", invoices+"/search", "searchInvoices",
			"The environment's issued invoices, newest first or by when they are due", a.searchInvoices,
			server.Asks(server.InQuery("status", server.EnumSchema(issuedStatuses...),
				"all when absent"),
				server.InQuery("order", server.EnumSchema(orderNewest, orderDue),
					"due: the oldest debt first, with status DUE or PAST_DUE; newest when absent"),
				server.InQuery("limit", server.IntSchema(1, maxCustomers), "100 when absent"),
				server.InQuery("cursor", text(1, maxDueCursor), "nextCursor of the page before")),
			answers(server.Object(
				server.Must("invoices", server.ArrayOf(server.RefTo("Invoice"))),
				server.Must("order", server.EnumSchema(orderNewest, orderDue)),
				server.May("nextCursor", text(1, maxDueCursor))))),
		row("GET", invoices+"/{invoice}", "showInvoice",
			"An invoice with its lines and what their events cost", of(a.showInvoice),
			answers(server.RefTo("Invoice"))),
		row("GET", invoices+"/{invoice}/explain", "explainInvoice",
			"An invoice alongside what the journal's records alone make of it", of(a.explainInvoice),
			answers(server.RefTo("Explanation"))),
		row("GET", invoices+"/{invoice}/void-preview", "previewVoid",
			"What voiding an invoice would do to money. Nothing is changed.", of(a.previewVoid),
			answers(server.AnswerSchema[billing.VoidPreview]())),
		row("POST", invoices+"/{invoice}/void", "voidInvoice",
			"Void an unpaid invoice, for good; its usage is not billed again", of(a.voidInvoice),
			nothing("Void, or it was before")),
		row("GET", invoices+"/verify", "verifyInvoices",
			"Recompute the invoices of a page of customers, and list those that differ", a.verifyInvoices,
			server.Asks(server.InQuery("customer", text(1, maxID), "only this customer's"),
				server.InQuery("limit", server.IntSchema(1, maxVerified),
					"customers of a page, which are verified in one pass over the journal; 10,000 when absent"),
				server.InQuery("cursor", text(1, 10), "nextCursor of the page before")),
			answers(server.RefTo("Verification"))),
	}
}

var faultUnexplained = server.NewFault(500, "invoice_unexplained",
	"The journal's records do not explain the invoice").With(
	"Records are missing or damaged. Ask another node, and compare it with a backup.")

var faultJournal = server.NewFault(503, "journal_unavailable",
	"The journal cannot be read at the moment").With("Nothing was changed. Repeat the request, or " +
	"ask another node.").Retry(1)

// query reads a query parameter.
func (w *walk) query(x *server.Exchange, name string, maximum int) string {
	value := string(x.Ctx.QueryArgs().Peek(name))
	wrong, ok := form.CheckText(value, 0, maximum)
	w.wrong(!ok, name, wrong)
	return value
}

func (a *invoices) listInvoices(x *server.Exchange) *server.Fault {
	var w walk
	customer := w.query(x, "customer", maxID)
	w.wrong(customer == "", "customer", form.Required)
	if fault := w.fault(); fault != nil {
		return fault
	}
	return a.environment(x, func(env uint32) *server.Fault {
		view, found := a.machine.Customer(env, customer)
		if !found {
			return server.FaultOf(engine.OutcomeCustomerUnknown)
		}
		return server.List(x, append(a.machine.Invoices(env, view.Row),
			a.machine.PendingInvoices(env, view.Row)...), billingview.WriteInvoice)
	})
}

// issuedStatuses are those of invoices that were issued.
var issuedStatuses = billing.InvoiceStatus(0).Names()[2:]

// Orders of the environment's invoices.
const (
	orderNewest = "newest"
	orderDue    = "due"
	// maxSorted is how many invoices are sorted by when they are due, sortedRows how many of all
	// environments are looked at for them.
	maxSorted  = 2000
	sortedRows = 1_000_000
	// dueMark begins the cursors of the order by when invoices are due; maxDueCursor bounds them.
	dueMark      = "due."
	maxDueCursor = 45
)

// otherOrder is what is wrong with a cursor of a listing in the other order.
const otherOrder = "is of a listing in the other order: begin again, without it"

// invoiceSearch is a search of an environment's invoices.
type invoiceSearch struct {
	status billing.InvoiceStatus
	due    bool
	limit  int
	// Either cursor begins at a place; byDue reports which one does.
	before uint32
	after  billing.DuePlace
	byDue  bool
}

// readInvoiceSearch reads a search's parameters.
func readInvoiceSearch(x *server.Exchange, w *walk) (s invoiceSearch) {
	args := x.Ctx.QueryArgs()
	s.limit, s.before = pageSize(x, w, defaultCustomers, maxCustomers), math.MaxUint32
	if name := string(args.Peek("status")); name != "" {
		w.when(!slices.Contains(issuedStatuses, name), "status", server.FieldNotAllowed,
			"must be DUE, PAST_DUE, PAID or VOID")
		s.status, _ = billing.InvoiceStatusNamed(name)
	}
	switch order := string(args.Peek("order")); order {
	case "", orderNewest:
	case orderDue:
		s.due = true
		w.when(s.status != billing.InvoiceDue && s.status != billing.InvoicePastDue, "order",
			server.FieldConflict, "due needs status DUE or PAST_DUE")
	default:
		w.problem("order", server.FieldNotAllowed, "must be newest or due")
	}
	cursor := string(args.Peek("cursor"))
	if cursor == "" {
		return s
	}
	ok := false
	var place string
	if place, s.byDue = strings.CutPrefix(cursor, dueMark); s.byDue {
		s.after, ok = parseDuePlace(place)
	} else {
		var row uint64
		row, ok = server.WholeNumber(cursor, 1, math.MaxUint32)
		s.before = uint32(row)
	}
	w.wrong(!ok, "cursor", form.NotCursor)
	w.when(ok && s.byDue && !s.due, "cursor", server.FieldConflict, otherOrder)
	return s
}

// parseDuePlace reads what dueCursor wrote behind its mark.
func parseDuePlace(text string) (p billing.DuePlace, ok bool) {
	at, number, _ := strings.Cut(text, ".")
	var errs [2]error
	p.DueAt, errs[0] = strconv.ParseInt(at, 10, 64)
	p.Number, errs[1] = strconv.ParseUint(number, 10, 64)
	return p, errs == [2]error{}
}

// dueCursor continues behind an invoice of the order by when they are due.
func dueCursor(v *billing.InvoiceView) string {
	return dueMark + strconv.FormatInt(v.DueDate, 10) + "." + strconv.FormatUint(v.Number, 10)
}

// searchInvoices is GET …/invoices/search. A page of the newest may be short, or empty, and still
// have a next one: see scannedCustomers. Where too many are due to be sorted, the newest come
// first.
func (a *invoices) searchInvoices(x *server.Exchange) *server.Fault {
	var w walk
	s := readInvoiceSearch(x, &w)
	if fault := w.fault(); fault != nil {
		return fault
	}
	return a.environment(x, func(env uint32) *server.Fault {
		order, cursor, sorted := orderNewest, "", false
		var found []billing.InvoiceView
		if s.due {
			var more bool
			found, more, sorted = a.machine.InvoicesByDue(&billing.DueQuery{
				Env: env, Status: s.status, After: s.after, Limit: s.limit,
				Max: maxSorted, Scan: sortedRows,
			})
			if more {
				cursor = dueCursor(&found[len(found)-1])
			}
		}
		switch {
		case sorted && s.before != math.MaxUint32, !sorted && s.byDue:
			return server.FieldFault("cursor", server.FieldConflict, otherOrder)
		case sorted:
			order = orderDue
		default:
			var next uint32
			found, next = a.machine.InvoicesBefore(env, s.before, s.status, s.limit, scannedCustomers)
			cursor = cursorAt(uint64(next))
		}
		return x.Object(200, func(data *server.JSON) {
			data.Array("invoices")
			for i := range found {
				billingview.WriteInvoice(data, &found[i])
			}
			data.Close(']')
			data.Text("order", order)
			data.TextIf("nextCursor", cursor)
		})
	})
}

// find finds an invoice in the environment that the path names.
func (a *invoices) find(x *server.Exchange, id [16]byte) (
	env uint32, v billing.InvoiceView, fault *server.Fault,
) {
	fault = a.environment(x, func(number uint32) *server.Fault {
		var found bool
		if v, found = a.machine.Invoice(number, id); !found {
			return server.FaultOf(engine.OutcomeInvoiceUnknown)
		}
		env = number
		return nil
	})
	return env, v, fault
}

// showInvoice is GET …/invoices/{invoice}. What the events of its lines cost is in the journal.
func (a *invoices) showInvoice(x *server.Exchange, id [16]byte) *server.Fault {
	env, v, fault := a.find(x, id)
	if fault != nil {
		return fault
	}
	if v.Number > 0 && a.events != nil {
		explained, found, err := a.machine.Explain(a.events, env, v.ID)
		switch {
		case errors.Is(err, billing.ErrExplain): // it is shown all the same: explain says so
		case err != nil:
			return a.journalFailed(x, err)
		case found:
			v = explained.Invoice
			costed(v.Items, explained.Costs)
		}
	}
	return server.One(x, 200, &v, billingview.WriteInvoice)
}

// costed says of an invoice's lines what their events cost.
func costed(items []billing.InvoiceItem, costs []decimal.Decimal) {
	for i := range min(len(items), len(costs)) {
		items[i].Cost, items[i].HasCost = costs[i], true
	}
}

func (a *invoices) previewVoid(x *server.Exchange, id [16]byte) *server.Fault {
	return a.environment(x, func(env uint32) *server.Fault {
		p, outcome := a.machine.PreviewVoid(env, id, a.machine.Clock(a.nowMS()))
		if outcome != engine.OutcomeDone {
			return server.FaultOf(outcome)
		}
		return server.One(x, 200, &p, writeVoidPreview)
	})
}

func (a *invoices) explainInvoice(x *server.Exchange, id [16]byte) *server.Fault {
	env, v, fault := a.find(x, id)
	if fault = cmp.Or(fault, a.noJournal()); fault != nil {
		return fault
	}
	if v.Status == billing.InvoicePending {
		return server.FaultOf(engine.OutcomeInvoicePending).
			Saying("A pending invoice has nothing to explain yet")
	}
	explained, found, err := a.machine.Explain(a.events, env, v.ID)
	switch {
	case err != nil:
		return a.verifyFailed(x, err)
	case !found: // it was issued a moment ago, and has no number yet
		return faultJournal
	}
	costed(explained.Invoice.Items, explained.Costs)
	costed(explained.Recomputed, explained.Costs)
	for i := range explained.Recomputed {
		explained.Recomputed[i].Events, explained.Recomputed[i].HasEvents = explained.Counted[i], true
	}
	return server.One(x, 200, &explained, writeExplanation)
}

func (a *invoices) voidInvoice(x *server.Exchange, id [16]byte) *server.Fault {
	env, fault := a.locate(x)
	if fault != nil {
		return fault
	}
	c := billing.VoidInvoice{Env: env, ID: id, Actor: x.By()}
	switch o := a.propose(x, billing.KindVoidInvoice, wire.Encode(nil, &c)).Outcome; o {
	case engine.OutcomeDone:
		return x.Succeed(200)
	case engine.OutcomeInvoicePending:
		return server.FaultOf(o).Saying("A pending invoice cannot be voided yet")
	case engine.OutcomeInvoicePaid:
		return server.FaultOf(o).Saying("A paid invoice cannot be voided")
	default:
		return server.FaultOf(o)
	}
}

// Pages of a verification, in customers.
const (
	defaultVerified = 10_000
	maxVerified     = 50_000
)

func (a *invoices) verifyInvoices(x *server.Exchange) *server.Fault {
	var w walk
	limit, cursor := pageOf(x, &w, defaultVerified, maxVerified)
	after := uint32(min(cursor, math.MaxUint32))
	customer := w.query(x, "customer", maxID)
	if fault := cmp.Or(w.fault(), a.noJournal()); fault != nil {
		return fault
	}
	var rows []uint32
	var env uint32
	fault := a.environment(x, func(number uint32) *server.Fault {
		env = number
		if customer == "" {
			rows = a.machine.Customers(env, after, limit)
			return nil
		}
		view, found := a.machine.Customer(env, customer)
		if !found {
			return server.FaultOf(engine.OutcomeCustomerUnknown)
		}
		rows = []uint32{view.Row}
		return nil
	})
	if fault != nil {
		return fault
	}
	v, err := a.machine.VerifyInvoices(a.events, env, rows)
	if err != nil {
		return a.verifyFailed(x, err)
	}
	data := x.Begin()
	data.Open('{')
	if err = a.writeVerification(data, env, rows, &v); err != nil {
		return a.verifyFailed(x, err)
	}
	if customer == "" && len(rows) == limit {
		data.Text("nextCursor", strconv.FormatUint(uint64(rows[limit-1]), 10))
	}
	data.Close('}')
	return x.End(200)
}

// verifyFailed is the answer to what keeps invoices from being verified or explained.
func (a *invoices) verifyFailed(x *server.Exchange, err error) *server.Fault {
	a.metrics.unverified.Inc()
	if !errors.Is(err, billing.ErrExplain) && !errors.Is(err, billing.ErrEvent) {
		return a.journalFailed(x, err)
	}
	a.log.Error("invoices cannot be explained", "error", err,
		"request_id", string(x.RequestID()))
	return faultUnexplained
}

// writeVerification writes what was found of invoices, and finds out about pools.
func (a *invoices) writeVerification(
	data *server.JSON, env uint32, rows []uint32, v *billing.Verification,
) error {
	data.Array("differences")
	for i := range v.Differences {
		writeDifference(data, &v.Differences[i])
	}
	pools, different := uint64(0), v.Different
	for _, row := range rows {
		n, problems, err := a.writePoolDifferences(data, env, row)
		if err != nil {
			return err
		}
		pools, different = pools+n, different+problems
	}
	a.metrics.verified.Add(float64(v.Invoices))
	a.metrics.differences.Add(float64(different))
	data.Close(']')
	data.Uint("different", different)
	data.Uint("customers", v.Customers)
	data.Uint("invoices", v.Invoices)
	data.Uint("records", v.Records)
	data.Uint("pools", pools)
	return nil
}

// writePoolDifferences verifies a customer's pools of credits, and counts them and those that
// differ.
func (a *invoices) writePoolDifferences(
	data *server.JSON, env, row uint32,
) (count, different uint64, err error) {
	proofs, err := a.machine.VerifyPools(a.events, env, row)
	for i := range proofs {
		p := &proofs[i]
		if p.Problem == "" {
			continue
		}
		different++
		writeDifference(data, &billing.Difference{
			CustomerRow: row, PoolID: p.ID,
			Problem: "credit pool " + strconv.Quote(p.Name) + ": " + p.Problem,
		})
	}
	return uint64(len(proofs)), different, err
}

// cursorAt is a cursor that is a number; 0 is none.
func cursorAt(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

// pageSize reads the limit of a page.
func pageSize(x *server.Exchange, w *walk, standard, maximum int) (limit int) {
	limit = standard
	if text := string(x.Ctx.QueryArgs().Peek("limit")); text != "" {
		n, ok := server.WholeNumber(text, 1, uint64(maximum))
		limit = int(n)
		w.wrong(!ok, "limit", form.Outside(1, maximum))
	}
	return limit
}

// pageOf reads limit and cursor of a page whose cursor is a number.
func pageOf(x *server.Exchange, w *walk, standard, maximum int) (limit int, cursor uint64) {
	limit = pageSize(x, w, standard, maximum)
	if text := string(x.Ctx.QueryArgs().Peek("cursor")); text != "" {
		n, ok := server.WholeNumber(text, 1, math.MaxUint64)
		cursor = n
		w.wrong(!ok, "cursor", form.NotCursor)
	}
	return limit, cursor
}

func verificationSchema() *server.Schema {
	return server.Object(
		server.Must("customers", server.IntegerSchema),
		server.Must("invoices", server.IntegerSchema),
		server.Must("pools", server.IntegerSchema),
		server.Must("records", server.IntegerSchema),
		server.Must("different", server.IntegerSchema),
		server.Must("differences", server.ArrayOf(server.AnswerSchema[billing.Difference]())),
		server.May("nextCursor", text(1, 10)),
	)
}
