package admin

import (
	"errors"
	"strings"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/form"
)

// marginEvents is how many usage events and corrections one report may read.
const marginEvents = 250_000

var marginKinds = map[string]billing.MarginBy{
	"customer": billing.MarginByCustomer, "feature": billing.MarginByFeature,
	"plan": billing.MarginByPlan,
}

func (a *invoices) margin(x *server.Exchange) *server.Fault {
	q, fault := marginQuery(x)
	if fault == nil {
		q.Env, fault = a.locate(x)
	}
	if fault != nil {
		return fault
	}
	if a.events == nil {
		return server.FaultConsistency.With("This node keeps no journal.")
	}
	rows, err := a.machine.Margin(a.events, q)
	switch {
	case errors.Is(err, billing.ErrMarginTooLarge):
		return server.FieldFault("from", server.FieldOutOfRange,
			"and to span more than 250,000 usage events, which is what a report reads at most: "+
				"ask for less time, and add the reports up")
	case errors.Is(err, billing.ErrMarginOverflow):
		return server.FaultOf(engine.OutcomeOverflow)
	case err != nil:
		a.log.Error("a margin cannot be computed", "error", err,
			"request_id", string(x.RequestID()))
		return server.FaultInternal
	}
	return server.Page(x, "rows", rows, writeMarginRow, "")
}

func marginQuery(x *server.Exchange) (q billing.MarginQuery, fault *server.Fault) {
	q.MaxEvents = marginEvents
	var w walk
	args := x.Ctx.QueryArgs()
	instant := func(name string, dst *int64) {
		// In a query a bare '+' is a space, and offsets are written with it.
		text := strings.ReplaceAll(string(args.Peek(name)), " ", "+")
		ms, ok := server.ParseInstant([]byte(text))
		w.wrong(!ok, name, form.NotTime)
		*dst = ms
	}
	instant("from", &q.From)
	instant("to", &q.To)
	var known bool
	if q.By, known = marginKinds[string(args.Peek("by"))]; !known {
		w.wrong(true, "by", form.NotAllowed("customer", "feature", "plan"))
	}
	w.when(len(w.problems) == 0 && q.From >= q.To, "from", server.FieldConflict, "must be before to")
	return q, w.fault()
}
