package billingview

import (
	"errors"
	"fmt"
	"slices"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/rollup"
	"tollgate/server"
	"tollgate/server/form"
)

var faultCounting = server.NewFault(503, "still_counting",
	"This node is still building its usage index").With(
	"Repeat the request later, or ask another node. If this lasts, the node's log says why: its " +
		"disk may be full.").Retry(10)

var faultRanking = server.NewFault(503, "overloaded",
	"This node is ranking customers by price for other requests").With(
	"It makes one such ranking at a time, and few wait. Repeat the request in some seconds.").Retry(2)

// UsageParams are the parameters of a question about usage.
func UsageParams() []server.Param {
	maximum := grouped(billing.MaxBuckets)
	return []server.Param{
		server.InQuery("customer", server.TextSchema(1, 128),
			"externalClientCustomerId; all customers together when absent"),
		server.InQuery("feature", server.TextSchema(1, 128), "a feature's key; all when absent"),
		server.InQuery("by", server.EnumSchema(billing.By(0).Names()[1:]...),
			"the length of a bucket, day when absent; buckets begin at UTC"),
		server.InQuery("from", server.TimeSchema, "earliest occurredAt, moved back to where its bucket "+
			"begins; when absent 48 hours, 30 days or 12 months before to"),
		server.InQuery("to", server.TimeSchema, "occurredAt before this, moved on to where its bucket "+
			"ends; the environment's time when absent. A range has "+maximum+" buckets at most"),
	}
}

// UsageQuery reads them, for an environment whose clock says now. A customer or a feature that is
// not there is a refusal.
func UsageQuery(
	x *server.Exchange, m *billing.Machine, env uint32, now int64,
) (q billing.UsageQuery, fault *server.Fault) {
	q.Env = env
	args := x.Ctx.QueryArgs()
	text := func(name string) string { return string(args.Peek(name)) }
	var f form.Reader
	if by := text("by"); by != "" {
		names := q.By.Names()
		at := slices.Index(names, by)
		if q.By = billing.By(max(at, 0)); at < 0 {
			f.Problem("by", form.NotAllowed(names[1:]...))
		}
	}
	hasFrom := f.QueryInstant("from", text("from"), &q.From)
	hasTo := f.QueryInstant("to", text("to"), &q.To)
	if fault = f.Fault(); fault != nil {
		return q, fault
	}
	q.Complete(now, hasFrom, hasTo)
	switch err := q.Widen(); err {
	case nil:
	case billing.ErrUsageEmpty:
		if !hasTo {
			return q, server.FieldFault("from", server.FieldConflict,
				"must be before the environment's time, "+string(server.AppendTime(nil, now)))
		}
		return q, server.FieldFault("from", server.FieldConflict, "must be before to")
	default:
		return q, refused("from", "The range has more than "+grouped(billing.MaxBuckets)+
			" buckets; shorten it or use a longer `by`")
	}
	if id := text("customer"); id != "" {
		if q.Customer = m.CustomerRow(env, []byte(id)); q.Customer == 0 {
			return q, server.FaultOf(engine.OutcomeCustomerUnknown)
		}
	}
	if key := text("feature"); key != "" {
		q.HasFeature = true
		if q.Feature = m.FeatureNumber(env, key); q.Feature == 0 {
			return q, server.FaultOf(engine.OutcomeFeatureUnknown)
		}
	}
	return q, nil
}

// UsageFault is the refusal of a question about usage that failed; nil where the journal is at
// fault.
func UsageFault(err error) *server.Fault {
	switch {
	case errors.Is(err, rollup.ErrCounting):
		return faultCounting
	case errors.Is(err, billing.ErrUsageTooLarge):
		return refused("feature", "The answer would have more than "+grouped(billing.MaxUsagePoints)+
			" points. Name a feature or shorten the range")
	case errors.Is(err, billing.ErrRankingTooLarge):
		return refused("sort", "Too many customers used too many features to rank them by price. "+
			"Name a feature, shorten the range or leave sort out")
	case errors.Is(err, billing.ErrRanking):
		return faultRanking
	}
	return nil
}

// refused says what is wrong with a question as a whole, at the field that mends it.
func refused(field, what string) *server.Fault {
	return server.FieldsFault([]server.FieldError{{
		Field: field, Code: server.FieldOutOfRange, Message: what,
	}})
}

// grouped writes a number of four to six digits with a comma.
func grouped(n int) string { return fmt.Sprintf("%d,%03d", n/1000, n%1000) }
