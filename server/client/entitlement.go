package client

import (
	"sync"
	"time"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/server"
	"tollgate/server/scan"
)

// checking is the memory of one entitlement check.
type checking struct {
	form     form
	query    billing.CheckQuery
	decision billing.Decision
	audit    billing.AuditCheck
	key      []byte
	flow     []byte
	hasFlow  bool
	name     []byte
	meta     []byte
	units    bool
}

var checkings = sync.Pool{New: func() any { return new(checking) }}

func (c *checking) begin(env uint32, body []byte) {
	c.form.reset(body)
	c.query = billing.CheckQuery{Env: env}
	c.key, c.flow, c.name, c.hasFlow, c.units = nil, nil, nil, false, false
}

func (c *checking) release() {
	c.begin(0, nil)
	c.audit = billing.AuditCheck{}
	checkings.Put(c)
}

// checkEntitlement is GET /entitlements/{customerReferenceId}/{feature-key}.
func (a *API) checkEntitlement(x *server.Exchange) {
	c := checkings.Get().(*checking)
	defer c.release()
	c.begin(x.Principal.Env, nil)
	c.query.Customer, c.query.Feature = x.Param(0), x.Param(1)
	for i, name := range [2]string{"customerReferenceId", "feature-key"} {
		if code, reason := textProblem(x.Param(i), 1, longestID); reason != "" {
			c.form.problem(name, code, reason)
		}
	}
	if fault := c.form.fault(); fault != nil {
		x.Refuse(*fault)
		return
	}
	a.check(x, c)
}

// evaluateEntitlement is POST /entitlements.
func (a *API) evaluateEntitlement(x *server.Exchange) {
	c := checkings.Get().(*checking)
	defer c.release()
	c.begin(x.Principal.Env, x.Body)
	fault := c.read()
	if fault == nil {
		fault = c.form.leave()
	}
	if fault != nil {
		x.Refuse(*fault)
		return
	}
	if !a.own(x, c.query.Customer) {
		x.Refuse(server.FaultScope)
		return
	}
	a.check(x, c)
}

// check decides, hands the audit event over, and only then answers.
func (a *API) check(x *server.Exchange, c *checking) {
	stale, fault := consistency(x)
	if fault == nil {
		fault = a.limits.TakeItems(x, x.Principal.KeyID, 1)
	}
	if fault != nil {
		x.Refuse(*fault)
		return
	}
	deadline := a.readDeadline()
	if !a.decide(c, stale, deadline) {
		x.Refuse(server.FaultConsistency)
		return
	}
	if stale {
		server.NoteStaleness(x, a.config.Reader)
	}
	d := &c.decision
	c.audit = billing.AuditCheck{
		Env: c.query.Env, CustomerRow: d.CustomerRow, FeatureNumber: d.FeatureNumber,
		Reason: d.Reason, At: d.EnvironmentTime, IdempotencyKey: c.key, FlowID: c.flow,
	}
	if d.CustomerRow == 0 {
		c.audit.CustomerText = c.query.Customer
	}
	if d.FeatureNumber == 0 {
		c.audit.FeatureText = c.query.Feature
	}
	if fault := a.audits.record(&c.audit, deadline, stale); fault != nil {
		x.Refuse(*fault)
		return
	}
	c.answer(x.Begin())
	x.End(200)
}

// decide fills in the decision at the consistency asked for; false when no leader vouched in time.
func (a *API) decide(c *checking, stale bool, deadline time.Time) bool {
	for {
		var ticket engine.ReadTicket
		if !stale {
			var outcome engine.Outcome
			ticket, outcome = a.config.Reader.BeginRead(deadline)
			if outcome != engine.OutcomeDone {
				return false
			}
		}
		c.query.Now = a.machine.Clock(a.nowMS())
		a.machine.Check(&c.query, &c.decision)
		if stale || a.config.Reader.ReadStands(ticket) {
			return true
		}
		if !time.Now().Before(deadline) {
			return false
		}
	}
}

// Fields of an evaluation, of its track and of its context.
const (
	fieldEvalCustomer = iota
	fieldEvalFeature
	fieldEvalTrack
	fieldEvalContext
	fieldTrackName
	fieldTrackUnits
	fieldTrackMeta
	fieldContextKey
	fieldContextFlow
)

func (c *checking) read() *server.Fault {
	if fault := c.form.enter(); fault != nil {
		return fault
	}
	if fault := c.fields((*checking).evaluationField); fault != nil {
		return fault
	}
	f := &c.form
	if len(c.query.Customer) == 0 && f.seen&(1<<fieldEvalCustomer) == 0 {
		f.problem("customerReferenceId", server.FieldRequired, "is required")
	}
	if len(c.query.Feature) == 0 && f.seen&(1<<fieldEvalFeature) == 0 {
		f.problem("featureKey", server.FieldRequired, "is required")
	}
	if c.query.Track && !c.units {
		c.query.Units = one
	} else if c.query.Track && c.query.Units.Sign() <= 0 {
		f.problem("track.usageUnits", server.FieldOutOfRange, "must be greater than 0")
	}
	return f.fault()
}

// fields reads the fields of the object that the form has entered.
func (c *checking) fields(field func(*checking, []byte) (ok, fresh bool)) *server.Fault {
	for first := true; ; first = false {
		name, more := c.form.scanner.Name(first)
		if !more {
			break
		}
		ok, fresh := field(c, name)
		if !fresh {
			return c.form.duplicate(name)
		}
		if !ok {
			break
		}
	}
	if c.form.scanner.Err() != nil {
		return c.form.fault()
	}
	return nil
}

func (c *checking) evaluationField(name []byte) (ok, fresh bool) {
	f := &c.form
	switch string(name) {
	case "customerReferenceId":
		if fresh = f.once(fieldEvalCustomer); fresh {
			ok = f.required("customerReferenceId", longestID, &c.query.Customer)
		}
	case "featureKey":
		if fresh = f.once(fieldEvalFeature); fresh {
			ok = f.required("featureKey", longestID, &c.query.Feature)
		}
	case "track":
		if fresh = f.once(fieldEvalTrack); fresh {
			c.query.Track, ok, fresh = c.nested("track", (*checking).trackField)
		}
	case "context":
		if fresh = f.once(fieldEvalContext); fresh {
			_, ok, fresh = c.nested("context", (*checking).contextField)
		}
	default:
		return f.unknown(name), true
	}
	return ok, fresh
}

// nested reads an optional object of known fields.
func (c *checking) nested(
	name string, field func(*checking, []byte) (ok, fresh bool),
) (given, ok, fresh bool) {
	f := &c.form
	if f.absent() {
		return false, true, true
	}
	if f.scanner.Peek() != scan.KindObject {
		return false, f.wrong(name, "an object"), true
	}
	if !f.scanner.Object() {
		return false, false, true
	}
	for first := true; ; first = false {
		inner, more := f.scanner.Name(first)
		if !more {
			return true, f.scanner.Err() == nil, true
		}
		ok, fresh := field(c, inner)
		if !ok || !fresh {
			if !fresh {
				f.inner = inner
			}
			return true, ok, fresh
		}
	}
}

func (c *checking) trackField(name []byte) (ok, fresh bool) {
	f := &c.form
	switch string(name) {
	case "eventName":
		if fresh = f.once(fieldTrackName); fresh {
			_, ok = f.text("track.eventName", 0, longestName, &c.name)
		}
	case "usageUnits":
		if fresh = f.once(fieldTrackUnits); fresh {
			c.units, ok = f.number("track.usageUnits", &c.query.Units)
		}
	case "meta":
		if fresh = f.once(fieldTrackMeta); fresh {
			c.meta, ok = f.object("track.meta", c.meta)
		}
	default:
		return f.unknown(name), true
	}
	return ok, fresh
}

func (c *checking) contextField(name []byte) (ok, fresh bool) {
	f := &c.form
	switch string(name) {
	case "idempotencyKey":
		if fresh = f.once(fieldContextKey); fresh {
			_, ok = f.text("context.idempotencyKey", 0, longestID, &c.key)
		}
	case "flowId":
		if fresh = f.once(fieldContextFlow); fresh {
			c.hasFlow, ok = f.text("context.flowId", 0, longestID, &c.flow)
		}
	default:
		return f.unknown(name), true
	}
	return ok, fresh
}

// reasonText is how a decision's reason reads in an answer.
type reasonText struct{ code, rule, description string }

var reasonTexts = [...]reasonText{
	billing.ReasonAllowed: {"allowed", "none of the rules denies", ""},
	billing.ReasonCustomerUnknown: {
		"customer_unknown", "unknown customer", "There is no customer with this reference id.",
	},
	billing.ReasonFeatureUnknown: {
		"feature_unknown", "unknown feature", "There is no feature with this key.",
	},
	billing.ReasonNoSubscription: {
		"no_subscription", "no subscription", "The customer has no subscription.",
	},
	billing.ReasonSuspended: {
		"subscription_suspended", "suspended", "The subscription is suspended for lack of payment.",
	},
	billing.ReasonNotInPlan: {
		"feature_not_in_plan", "feature in no plan", "None of the customer's plans has this feature.",
	},
	billing.ReasonCreditsEmpty: {
		"credits_empty", "credits frozen or empty",
		"The customer's credits for this feature are used up.",
	},
	billing.ReasonLimitReached: {
		"limit_reached", "used >= limit", "The usage limit of this feature is reached.",
	},
	billing.ReasonWouldExceed: {
		"would_exceed_limit", "used + requested > limit",
		"The requested usage would exceed the usage limit of this feature.",
	},
}

func textOf(r billing.Reason) reasonText {
	if int(r) < len(reasonTexts) && reasonTexts[r].code != "" {
		return reasonTexts[r]
	}
	return reasonText{"denied", "denied", "The feature may not be used."}
}

func (c *checking) answer(data *server.JSON) {
	d, text := &c.decision, textOf(c.decision.Reason)
	data.Open('{')
	data.Bytes("referenceCustomerId", c.query.Customer)
	data.Bytes("featureKey", c.query.Feature)
	data.Bool("isAllowed", d.Allowed())
	data.Object("meta")
	data.Object("reason")
	data.TextIf("description", text.description)
	data.Text("code", text.code)
	data.Text("rule", text.rule)
	data.UUID("subscriptionId", d.SubscriptionID)
	decimalIf(data, "limit", d.Limit, d.HasUsage && d.HasLimit)
	decimalIf(data, "used", d.Used, d.HasUsage)
	data.Uint("logIndex", d.LogIndex)
	data.Close('}')
	data.Close('}')
	if c.hasFlow {
		data.Bytes("flowId", c.flow)
	}
	if d.HasUsage {
		data.Object("usage")
		data.Decimal("used", d.Used)
		decimalIf(data, "limit", d.Limit, d.HasLimit)
		decimalIf(data, "remaining", d.Remaining, d.HasLimit)
		data.Close('}')
	}
	if c.query.Track {
		data.Object("simulation")
		data.Decimal("requestedUsage", c.query.Units)
		data.Decimal("projectedUsage", d.Projected)
		decimalIf(data, "projectedRemaining", d.ProjectedRemaining, d.HasUsage && d.HasLimit)
		data.Bool("wouldExceedLimit", d.WouldExceed)
		decimalIf(data, "projectedCost", d.ProjectedCost, d.HasCost)
		data.Close('}')
	}
	data.Close('}')
}

func decimalIf(data *server.JSON, name string, value decimal.Decimal, set bool) {
	if set {
		data.Decimal(name, value)
	}
}
