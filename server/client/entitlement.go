package client

import (
	"sync"
	"time"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
	"tollgate/server"
	"tollgate/server/billingview"
	"tollgate/server/form"
)

// checking is the memory of one entitlement check.
type checking struct {
	form     form.Reader
	query    billing.CheckQuery
	decision billing.Decision
	audit    billing.AuditCheck
	key      []byte
	flow     []byte
	hasFlow  bool
	name     []byte
	meta     []byte
	question []byte
}

var checkings = sync.Pool{New: func() any { return new(checking) }}

func (c *checking) begin(env uint32, body []byte) {
	c.form.Reset(body)
	c.query = billing.CheckQuery{Env: env}
	c.key, c.flow, c.name, c.meta, c.hasFlow = nil, nil, nil, nil, false
}

func (c *checking) release() {
	c.begin(0, nil)
	c.audit = billing.AuditCheck{}
	checkings.Put(c)
}

func (a *API) checkEntitlement(x *server.Exchange) *server.Fault {
	c := checkings.Get().(*checking)
	defer c.release()
	c.begin(principal(x).Env, nil)
	c.query.KeyBudget, c.query.Budget = principal(x).Budget, x.Ctx.QueryArgs().Peek("budget")
	if wrong, ok := form.CheckText(c.query.Budget, 0, maxID); !ok {
		c.form.Problem("budget", wrong)
	}
	c.query.Customer, c.query.Feature = x.Param(0), x.Param(1)
	for i, name := range [2]string{"customerReferenceId", "feature-key"} {
		if wrong, ok := form.CheckText(x.Param(i), 1, maxID); !ok {
			c.form.Problem(name, wrong)
		}
	}
	if fault := c.form.Fault(); fault != nil {
		return fault
	}
	return a.check(x, c)
}

func (a *API) evaluateEntitlement(x *server.Exchange) *server.Fault {
	c := checkings.Get().(*checking)
	defer c.release()
	c.begin(principal(x).Env, x.Body)
	c.query.KeyBudget = principal(x).Budget
	c.read()
	if fault := c.form.Leave(); fault != nil {
		return fault
	}
	if !a.own(x, c.query.Customer) {
		return server.FaultScope
	}
	return a.check(x, c)
}

// check decides, hands the audit event over, and only then answers.
func (a *API) check(x *server.Exchange, c *checking) *server.Fault {
	stale, fault := consistency(x)
	if fault == nil {
		fault = a.limits.TakeItems(x, principal(x).KeyID, 1)
	}
	if fault != nil {
		return fault
	}
	deadline := a.readDeadline()
	if !a.decide(c, stale, deadline) {
		return server.FaultConsistency
	}
	if stale {
		server.NoteStaleness(x, a.reader)
	}
	if fault := a.audits.Record(c.event(), deadline, stale); fault != nil {
		return fault
	}
	c.answer(x.Begin())
	return x.End(200)
}

// event is the audit event of the decision.
func (c *checking) event() *billing.AuditCheck {
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
	c.figure()
	return &c.audit
}

// figure adds to the audit event the limit that denies the check.
func (c *checking) figure() {
	d, f := &c.decision, &c.audit.Figures
	switch d.Reason {
	case billing.ReasonLimitReached, billing.ReasonWouldExceed:
		f.Used, f.Held, f.Limit = d.Used, d.Held, d.Limit
	case billing.ReasonBudgetExceeded:
		f.Used, f.Held, f.Limit = d.Refused.Used, d.Refused.Held, d.Refused.Limit
		f.Budget = d.Refused.Budget
	default:
		return
	}
	f.Limited = true
	if c.query.Track {
		f.Asked = c.query.Units
	}
}

// decide fills in the decision at the consistency asked for; false when no leader vouched in time.
func (a *API) decide(c *checking, stale bool, deadline time.Time) bool {
	if !stale && a.reader.Behind() && a.ask(c, deadline) {
		return true
	}
	for {
		var ticket engine.ReadTicket
		if !stale {
			var outcome engine.Outcome
			ticket, outcome = a.reader.BeginRead(deadline)
			if outcome != engine.OutcomeDone {
				return false
			}
		}
		c.query.Now = a.machine.Clock(a.nowMS())
		a.machine.Check(&c.query, &c.decision)
		if stale || a.reader.ReadStands(ticket) {
			return true
		}
		if !time.Now().Before(deadline) {
			return false
		}
	}
}

// ask has the leader decide where this node is behind it.
func (a *API) ask(c *checking, deadline time.Time) bool {
	c.query.Now = a.nowMS()
	c.question = wire.Encode(c.question[:0], &c.query)
	answer, ok := a.reader.Ask(deadline, c.question)
	if !ok {
		return false
	}
	var d billing.Decision
	if wire.Decode(answer, &d) != nil {
		return false
	}
	c.decision = d
	return true
}

// Fields of an evaluation.
const (
	fieldEvalCustomer = iota
	fieldEvalFeature
	fieldEvalTrack
	fieldEvalContext
	fieldEvalBudget
)

func (c *checking) read() {
	f := &c.form
	if !f.Enter() {
		return
	}
	for f.Next() {
		switch string(f.Name) {
		case "customerReferenceId":
			f.Bytes(fieldEvalCustomer, &c.query.Customer, 1, maxID)
		case "featureKey":
			f.Bytes(fieldEvalFeature, &c.query.Feature, 1, maxID)
		case "track":
			c.readTrack()
		case "context":
			c.readContext()
		case "budget":
			f.Bytes(fieldEvalBudget, &c.query.Budget, 1, maxID)
		default:
			f.Unknown()
		}
	}
	f.Need(fieldEvalCustomer, "customerReferenceId")
	f.Need(fieldEvalFeature, "featureKey")
}

func (c *checking) readTrack() {
	const name, units, meta = 0, 1, 2
	f, given := &c.form, false
	o := f.Open(fieldEvalTrack, "track")
	for f.Inside(&o) {
		switch string(f.Name) {
		case "eventName":
			f.Bytes(name, &c.name, 0, maxName)
		case "usageUnits":
			given = f.Number(units, &c.query.Units)
			if given && c.query.Units.Sign() <= 0 {
				f.Problem("usageUnits", form.NotPositive)
			}
		case "meta":
			f.Object(meta, &c.meta)
		default:
			f.Unknown()
		}
	}
	if c.query.Track = f.Close(o); c.query.Track && !given {
		c.query.Units = one
	}
}

func (c *checking) readContext() {
	const key, flow = 0, 1
	f := &c.form
	o := f.Open(fieldEvalContext, "context")
	for f.Inside(&o) {
		switch string(f.Name) {
		case "idempotencyKey":
			f.Bytes(key, &c.key, 0, maxID)
		case "flowId":
			c.hasFlow = f.Bytes(flow, &c.flow, 0, maxID)
		default:
			f.Unknown()
		}
	}
	f.Close(o)
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
		"subscription_suspended", "suspended", "The subscription is suspended: an invoice is unpaid beyond its grace period.",
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
	billing.ReasonBudgetUnknown: {
		"budget_unknown", "unknown budget",
		"There is no such budget, or it is not the customer's nor below it.",
	},
	billing.ReasonBudgetArchived: {
		"budget_archived", "budget archived", "The budget, or one above it, is archived.",
	},
	billing.ReasonBudgetFrozen: {
		"budget_frozen", "budget frozen", "The budget, or one above it, is frozen.",
	},
	billing.ReasonBudgetExceeded: {
		"budget_exceeded", "used + held + requested > limit of a budget",
		"A limit of the budget, or of one above it, does not allow it.",
	},
}

func textOf(r billing.Reason) reasonText {
	if int(r) < len(reasonTexts) && reasonTexts[r].code != "" {
		return reasonTexts[r]
	}
	return reasonText{"denied", "denied", "The feature may not be used."}
}

// inFull is the text of a decision that names the budget, and counts what open reservations hold.
func inFull(d *billing.Decision) reasonText {
	text := textOf(d.Reason)
	if key := d.Refused.Budget; key != "" {
		switch d.Reason {
		case billing.ReasonBudgetArchived:
			text.description = "The budget " + key + " is archived."
		case billing.ReasonBudgetFrozen:
			text.description = "The budget " + key + " is frozen."
		case billing.ReasonBudgetExceeded:
			text.description = "A limit of the budget " + key + " does not allow it."
		}
		return text
	}
	if d.Held.IsZero() {
		return text
	}
	switch d.Reason {
	case billing.ReasonLimitReached:
		text.rule = "used + held >= limit"
		text.description = "The usage limit of this feature is used up, or held by open reservations."
	case billing.ReasonWouldExceed:
		text.rule = "used + held + requested > limit"
		text.description = "The requested usage, with what open reservations hold, would exceed " +
			"the usage limit of this feature."
	}
	return text
}

// decision is the answer to a check: whether a customer may use a feature.
//
//schema:described client Decision
type decision struct {
	Customer  string `json:"referenceCustomerId" rule:"required,min=1,max=128"`
	Feature   string `json:"featureKey" rule:"required,min=1,max=128"`
	IsAllowed bool   `json:"isAllowed" rule:"required"`
	Reason    reason `json:"meta.reason" rule:"required"`
	FlowID    string `json:"flowId,omitzero" rule:"max=128"`
	// Usage is that of the present period; the zero Counter where none is counted.
	Usage counter `json:"usage,omitzero"`
	// Simulation says what the units of a check that names some would do; else nil.
	Simulation *simulation `json:"simulation,omitzero"`
}

// reason says why a check was decided as it was.
//
//schema:described client Reason
type reason struct {
	Description    string          `json:"description,omitzero" rule:"min=1"`
	Code           string          `json:"code" rule:"required,min=1"`
	Rule           string          `json:"rule" rule:"required,min=1"`
	SubscriptionID [16]byte        `json:"subscriptionId,omitzero"`
	Limit          decimal.Decimal `json:"limit,omitzero"`
	Used           decimal.Decimal `json:"used,omitzero"`
	Held           decimal.Decimal `json:"held,omitzero"`
	LogIndex       uint64          `json:"logIndex" rule:"required"`
	// Budget is the limit of a budget that denies it; nil where none does.
	Budget *billing.Refusal `json:"budget,omitzero" ref:"BudgetRefusal"`
}

// counter is what a customer has used of a feature in the present period, and what open
// reservations hold; Limit and Remaining are empty where there is no limit.
//
//schema:answer client Counter
type counter struct {
	Used      decimal.Decimal `json:"used"`
	Limit     decimal.Decimal `json:"limit" if:"HasLimit"`
	Remaining decimal.Decimal `json:"remaining" if:"HasLimit"`
	Held      decimal.Decimal `json:"held"`
	HasLimit  bool
}

func counterOf(d *billing.Decision) counter {
	return counter{d.Used, d.Limit, d.Remaining, d.Held, d.HasLimit}
}

// simulation is what units would do that a check names.
//
//schema:described client Simulation
type simulation struct {
	Requested   decimal.Decimal `json:"requestedUsage" rule:"required"`
	Projected   decimal.Decimal `json:"projectedUsage" rule:"required"`
	Remaining   decimal.Decimal `json:"projectedRemaining,omitzero"`
	WouldExceed bool            `json:"wouldExceedLimit" rule:"required"`
	Cost        decimal.Decimal `json:"projectedCost,omitzero"`
}

// answer writes a decision.
func (c *checking) answer(data *server.JSON) {
	d, text := &c.decision, inFull(&c.decision)
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
	decimalIf(data, "held", d.Held, d.HasUsage)
	data.Uint("logIndex", d.LogIndex)
	if d.Refused.Budget != "" {
		data.Name("budget")
		billingview.WriteRefusal(data, &d.Refused)
	}
	data.Close('}')
	data.Close('}')
	if c.hasFlow {
		data.Bytes("flowId", c.flow)
	}
	if d.HasUsage {
		used := counterOf(d)
		data.Name("usage")
		writeCounter(data, &used)
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
