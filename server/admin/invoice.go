package admin

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strconv"

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
			"The environment's issued invoices, newest first", a.searchInvoices,
			server.Asks(server.InQuery("status", server.EnumSchema(issuedStatuses...),
				"all when absent")),
			pages("invoices", "Invoice", maxCustomers, "100", 10)),
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
			"Make an unpaid invoice VOID, for good; its usage is not billed again", of(a.voidInvoice),
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
func (w *walk) query(x *server.Exchange, name string, most int) string {
	value := string(x.Ctx.QueryArgs().Peek(name))
	if wrong, ok := form.CheckText([]byte(value), 0, most); !ok {
		w.problem(name, wrong.Code, "must have at most %d printable characters", most)
	}
	return value
}

func (a *invoices) listInvoices(x *server.Exchange) *server.Fault {
	var w walk
	customer := w.query(x, "customer", maxID)
	w.when(customer == "", "customer", server.FieldRequired, "is required")
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

// searchInvoices is GET …/invoices/search. A page may be short, or empty, and still have a next
// one: see scannedCustomers.
func (a *invoices) searchInvoices(x *server.Exchange) *server.Fault {
	var w walk
	limit, cursor := pageOf(x, &w, defaultCustomers, maxCustomers)
	var status billing.InvoiceStatus
	if name := string(x.Ctx.QueryArgs().Peek("status")); name != "" {
		w.when(!slices.Contains(issuedStatuses, name), "status", server.FieldNotAllowed,
			"must be DUE, PAST_DUE, PAID or VOID")
		status, _ = billing.InvoiceStatusNamed(name)
	}
	if fault := w.fault(); fault != nil {
		return fault
	}
	before := uint32(min(cmp.Or(cursor, math.MaxUint32), math.MaxUint32))
	return a.environment(x, func(env uint32) *server.Fault {
		found, next := a.machine.InvoicesBefore(env, before, status, limit, scannedCustomers)
		return server.Page(x, "invoices", found, billingview.WriteInvoice, cursorAt(uint64(next)))
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
func pageSize(x *server.Exchange, w *walk, standard, most int) (limit int) {
	limit = standard
	if text := string(x.Ctx.QueryArgs().Peek("limit")); text != "" {
		n, ok := server.WholeNumber(text, 1, uint64(most))
		if limit = int(n); !ok {
			w.problem("limit", server.FieldOutOfRange, "must be from 1 to %d", most)
		}
	}
	return limit
}

// pageOf reads limit and cursor of a page whose cursor is a number.
func pageOf(x *server.Exchange, w *walk, standard, most int) (limit int, cursor uint64) {
	limit = pageSize(x, w, standard, most)
	if text := string(x.Ctx.QueryArgs().Peek("cursor")); text != "" {
		n, ok := server.WholeNumber(text, 1, math.MaxUint64)
		if cursor = n; !ok {
			w.problem("cursor", server.FieldFormat, "must be nextCursor of the page before")
		}
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
