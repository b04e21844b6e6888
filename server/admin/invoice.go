package admin

import (
	"errors"
	"math"
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
	invoice := environmentAnd(path("invoice", server.UUIDSchema, ""))
	return []server.Route{
		{
			Method: "GET", Path: environment + "/invoices", Operation: "listInvoices",
			Summary: "The invoices of one customer, oldest first; the pending ones last",
			Access:  server.AccessOperator, Handle: a.listInvoices,
			Params: environmentAnd(
				must(inQuery("customer", text(1, maxID), "externalClientCustomerId"))),
			Responses: answers(server.ArrayOf(server.RefTo("Invoice"))),
		},
		{
			Method: "GET", Path: environment + "/invoices/{invoice}", Operation: "showInvoice",
			Summary: "An invoice with its lines and what their events cost",
			Access:  server.AccessOperator, Handle: a.showInvoice, Params: invoice,
			Responses: answers(server.RefTo("Invoice")),
		},
		{
			Method: "GET", Path: environment + "/invoices/{invoice}/explain",
			Operation: "explainInvoice",
			Summary:   "An invoice beside what the journal's records alone make of it",
			Access:    server.AccessOperator, Handle: a.explainInvoice, Params: invoice,
			Responses: answers(server.RefTo("Explanation")),
		},
		{
			Method: "POST", Path: environment + "/invoices/{invoice}/void", Operation: "voidInvoice",
			Summary: "Make an unpaid invoice VOID, for good; its usage is not billed again",
			Access:  server.AccessOperator, Handle: a.voidInvoice, Params: invoice,
			Responses: nothing("Void, or it was before"),
		},
		{
			Method: "GET", Path: environment + "/invoices/verify", Operation: "verifyInvoices",
			Summary: "Recompute the invoices of a page of customers, and list those that differ",
			Access:  server.AccessOperator, Handle: a.verifyInvoices,
			Params: environmentAnd(
				inQuery("customer", text(1, maxID), "only this customer's"),
				inQuery("limit", server.IntSchema(1, maxVerified),
					"customers of a page, which are verified in one pass over the journal; 10,000 when absent"),
				inQuery("cursor", text(1, 10), "nextCursor of the page before"),
			),
			Responses: answers(server.RefTo("Verification")),
		},
	}
}

var faultUnexplained = server.NewFault(500, "invoice_unexplained",
	"The journal's records do not explain the invoice").With(
	"Records are missing or damaged. Ask another node, and compare it with a backup.")

var faultJournal = server.NewFault(503, "journal_unavailable",
	"The journal cannot be read at the moment").With("Nothing was changed. Repeat the request, or " +
	"ask another node.").Retry(1)

// pathUUID reads a path parameter that is a UUID; another is answered.
func pathUUID(x *server.Exchange, i int, what string) (id [16]byte, ok bool) {
	if id, ok = server.ParseUUID(x.Param(i)); !ok {
		x.Refuse(server.FieldsFault([]server.FieldError{{
			Field: x.Route.Parameter(i), Code: server.FieldFormat, Message: what + " must be a UUID",
		}}))
	}
	return id, ok
}

// query reads a query parameter.
func (w *walk) query(x *server.Exchange, name string, most int) string {
	value := string(x.Ctx.QueryArgs().Peek(name))
	if wrong, ok := form.CheckText([]byte(value), 0, most); !ok {
		w.problem(name, wrong.Code, "must have at most %d printable characters", most)
	}
	return value
}

// listInvoices is GET …/invoices?customer.
func (a *invoices) listInvoices(x *server.Exchange) {
	var w walk
	customer := w.query(x, "customer", maxID)
	if customer == "" {
		w.problem("customer", server.FieldRequired, "is required")
	}
	if fault := w.fault(); fault != nil {
		x.Refuse(fault)
		return
	}
	a.environment(x, func(env uint32) *server.Fault {
		view, found := a.machine.Customer(env, customer)
		if !found {
			return server.FaultOf(engine.OutcomeCustomerUnknown)
		}
		return server.List(x, append(a.machine.Invoices(env, view.Row),
			a.machine.PendingInvoices(env, view.Row)...), writeInvoice)
	})
}

func writeInvoice(data *server.JSON, v *billing.InvoiceView) {
	billingview.WriteInvoice(data, v, nil)
}

// invoiceOf finds the invoice that the path names; what cannot be found is answered.
func (a *invoices) invoiceOf(x *server.Exchange) (env uint32, v billing.InvoiceView, ok bool) {
	id, ok := pathUUID(x, 2, "the invoice's id")
	if !ok {
		return env, v, false
	}
	a.environment(x, func(number uint32) *server.Fault {
		var found bool
		if v, found = a.machine.Invoice(number, id); !found {
			return server.FaultOf(engine.OutcomeInvoiceUnknown)
		}
		env = number
		return nil
	})
	return env, v, !x.Answered()
}

// showInvoice is GET …/invoices/{invoice}. What the events of its lines cost is in the journal.
func (a *invoices) showInvoice(x *server.Exchange) {
	env, v, ok := a.invoiceOf(x)
	if !ok {
		return
	}
	var costs []decimal.Decimal
	if v.Number > 0 && a.events != nil {
		explained, found, err := a.machine.Explain(a.events, env, v.ID)
		switch {
		case errors.Is(err, billing.ErrExplain): // it is shown all the same: explain says so
		case err != nil:
			a.journalFailed(x, err)
			return
		case found:
			v, costs = explained.Invoice, explained.Costs
		}
	}
	billingview.WriteInvoice(x.Begin(), &v, costs)
	x.End(200)
}

// explainInvoice is GET …/invoices/{invoice}/explain.
func (a *invoices) explainInvoice(x *server.Exchange) {
	env, v, ok := a.invoiceOf(x)
	if !ok {
		return
	}
	if a.events == nil {
		x.Refuse(faultJournal)
		return
	}
	if v.Status == billing.InvoicePending {
		x.Refuse(server.FaultOf(engine.OutcomeInvoicePending).
			Saying("A pending invoice has nothing to explain yet"))
		return
	}
	explained, found, err := a.machine.Explain(a.events, env, v.ID)
	switch {
	case err != nil:
		a.verifyFailed(x, err)
	case !found: // it was issued a moment ago, and has no number yet
		x.Refuse(faultJournal)
	default:
		writeExplanation(x.Begin(), &explained)
		x.End(200)
	}
}

func writeExplanation(data *server.JSON, e *billing.Explanation) {
	data.Open('{')
	data.Bool("equal", e.Equal)
	data.TextIf("problem", e.Problem)
	data.Name("invoice")
	billingview.WriteInvoice(data, &e.Invoice, e.Costs)
	data.Array("recomputed")
	for i := range e.Recomputed {
		data.Open('{')
		billingview.WriteInvoiceItem(data, &e.Recomputed[i])
		data.Decimal("costAmount", e.Costs[i])
		data.Uint("eventsCounted", e.Counted[i])
		data.Close('}')
	}
	data.Close(']')
	if e.FirstIndex > 0 {
		data.Uint("firstLogIndex", e.FirstIndex)
		data.Uint("lastLogIndex", e.LastIndex)
	}
	data.Close('}')
}

// voidInvoice is POST …/invoices/{invoice}/void.
func (a *invoices) voidInvoice(x *server.Exchange) {
	id, ok := pathUUID(x, 2, "the invoice's id")
	if !ok || !noFields(x) {
		return
	}
	env, ok := a.locate(x)
	if !ok {
		return
	}
	c := billing.VoidInvoice{Env: env, ID: id, Actor: x.By()}
	result := a.propose(x, billing.KindVoidInvoice, wire.Encode(nil, &c))
	if result.Outcome != engine.OutcomeDone {
		fault := server.FaultOf(result.Outcome)
		switch result.Outcome {
		case engine.OutcomeInvoicePending:
			fault = fault.Saying("A pending invoice cannot be voided yet")
		case engine.OutcomeInvoicePaid:
			fault = fault.Saying("A paid invoice cannot be voided")
		}
		x.Refuse(fault)
		return
	}
	x.Succeed(200)
}

// Pages of a verification, in customers.
const (
	defaultVerified = 10_000
	maxVerified     = 50_000
)

// verifyInvoices is GET …/invoices/verify.
func (a *invoices) verifyInvoices(x *server.Exchange) {
	var w walk
	limit, cursor := pageOf(x, &w, defaultVerified, maxVerified)
	after := uint32(min(cursor, math.MaxUint32))
	customer := w.query(x, "customer", maxID)
	if fault := w.fault(); fault != nil {
		x.Refuse(fault)
		return
	}
	if a.events == nil {
		x.Refuse(faultJournal)
		return
	}
	var rows []uint32
	var env uint32
	a.environment(x, func(number uint32) *server.Fault {
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
	if x.Answered() {
		return
	}
	v, err := a.machine.VerifyInvoices(a.events, env, rows)
	if err != nil {
		a.verifyFailed(x, err)
		return
	}
	data := x.Begin()
	data.Open('{')
	if err = a.writeVerification(data, env, rows, &v); err != nil {
		a.verifyFailed(x, err)
		return
	}
	if customer == "" && len(rows) == limit {
		data.Text("nextCursor", strconv.FormatUint(uint64(rows[limit-1]), 10))
	}
	data.Close('}')
	x.End(200)
}

// verifyFailed answers what keeps invoices from being verified or explained.
func (a *invoices) verifyFailed(x *server.Exchange, err error) {
	a.metrics.unverified.Inc()
	if !errors.Is(err, billing.ErrExplain) && !errors.Is(err, billing.ErrEvent) {
		a.journalFailed(x, err)
		return
	}
	a.log.Error("invoices cannot be explained", "error", err,
		"request_id", string(x.RequestID()))
	x.Refuse(faultUnexplained)
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

func writeDifference(data *server.JSON, d *billing.Difference) {
	data.Open('{')
	data.Uint("customerRow", uint64(d.CustomerRow))
	data.Text("customerReferenceId", d.Customer)
	if d.InvoiceID != ([16]byte{}) {
		data.UUID("invoiceId", d.InvoiceID)
		data.Uint("number", d.Number)
	}
	data.Text("problem", d.Problem)
	data.Close('}')
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
		data.Open('{')
		data.Uint("customerRow", uint64(row))
		data.UUID("poolId", p.ID)
		data.Text("problem", "credit pool "+strconv.Quote(p.Name)+": "+p.Problem)
		data.Close('}')
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

func explanationSchema() *server.Schema {
	return server.Object(
		server.Must("equal", server.BoolSchema),
		server.May("problem", text(1, 0)),
		server.Must("invoice", server.RefTo("Invoice")),
		server.Must("recomputed", server.ArrayOf(billingview.InvoiceItemSchema(
			server.Must("costAmount", server.NumberSchema),
			server.Must("eventsCounted", server.IntegerSchema),
		))),
		server.May("firstLogIndex", server.IntegerSchema),
		server.May("lastLogIndex", server.IntegerSchema),
	)
}

func verificationSchema() *server.Schema {
	return server.Object(
		server.Must("customers", server.IntegerSchema),
		server.Must("invoices", server.IntegerSchema),
		server.Must("pools", server.IntegerSchema),
		server.Must("records", server.IntegerSchema),
		server.Must("different", server.IntegerSchema),
		server.Must("differences", server.ArrayOf(server.Object(
			server.Must("customerRow", server.IntegerSchema),
			server.May("customerReferenceId", text(1, maxID)),
			server.May("invoiceId", server.UUIDSchema),
			server.May("number", server.IntegerSchema),
			server.May("poolId", server.UUIDSchema),
			server.Must("problem", text(1, 0)),
		))),
		server.May("nextCursor", text(1, 10)),
	)
}
