package portal

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/bill"
	"tollgate/server/console/page"
)

// allowed is what a plan's metadata lets its customers do themselves: portal: {change: true} that
// they may change to it, cancel: true that they may end it, release: true that they may give up
// what reservations hold under it. Without it they may do none of this.
type allowed struct {
	Change  bool `json:"change"`
	Cancel  bool `json:"cancel"`
	Release bool `json:"release"`
}

func allows(p *api.Plan) allowed {
	var m struct {
		Portal allowed `json:"portal"`
	}
	if json.Unmarshal(p.Metadata, &m) != nil {
		return allowed{}
	}
	return m.Portal
}

// offers are the plans that a subscription may change to.
func offers(s *api.Subscription, plans []api.Plan) (list []api.Plan) {
	if s.CancelMode != "" || s.ScheduledChange != nil || s.Status() != "active" {
		return nil
	}
	for i := range plans {
		if p := &plans[i]; p.Key != s.Plan.Key && p.Currency == s.Plan.Currency && allows(p).Change {
			list = append(list, *p)
		}
	}
	return list
}

// changeType is an upgrade, at once, to a plan that costs as much a month or more, and otherwise a
// downgrade, when the period ends: a customer keeps what is paid for.
func changeType(from, to *api.Plan) billing.ChangeType {
	old, err := decimal.Parse(string(from.PriceAmount))
	price, err2 := decimal.Parse(string(to.PriceAmount))
	a, ok := price.Mul(decimal.FromInt(int64(from.IntervalMonths)))
	b, ok2 := old.Mul(decimal.FromInt(int64(to.IntervalMonths)))
	if err != nil || err2 != nil || !ok || !ok2 || a.Cmp(b) < 0 {
		return billing.ChangeDowngrade
	}
	return billing.ChangeUpgrade
}

// kindName is a change's type in the API.
func kindName(kind billing.ChangeType) string {
	if kind == billing.ChangeDowngrade {
		return "DOWNGRADE"
	}
	return "UPGRADE"
}

// question is what a form asks before it is carried out.
type question struct {
	Facts    []fact
	Invoices []bill.Invoice
	Note     string
	Button   string
	Danger   bool
	Action   string
	Plan     string
	// Kind and Version are those of the plan and the change that the page shows; the form must
	// mean the same.
	Kind    string
	Version int
	Back    string
}

type fact struct{ Name, Value string }

// wanted are the subscription of the path and the plan that is asked for, which it may change to.
func (v *visit) wanted(key string) (s api.Subscription, to api.Plan, ok bool) {
	if s, ok = v.own(); !ok {
		return s, to, false
	}
	plans, ok := dataOf[[]api.Plan](v, v.call(server.Call{Operation: "listPlans"}))
	if !ok {
		return s, to, false
	}
	list := offers(&s, plans)
	at := slices.IndexFunc(list, func(p api.Plan) bool { return p.Key == key })
	if at < 0 {
		v.x.Refuse(faultNotOffered)
		return s, to, false
	}
	return s, list[at], true
}

var faultNotOffered = server.NewFault(403, "not_offered", "This cannot be done here").With(
	"Nothing was changed. Ask the sender of your invoices.")

func askChange(v *visit) {
	key := string(v.x.Ctx.QueryArgs().Peek("plan"))
	s, ok := v.own()
	if !ok || v.taken(&s, key) { // going back to a question that was answered
		return
	}
	s, to, ok := v.wanted(key)
	if !ok {
		return
	}
	kind := changeType(&s.Plan, &to)
	q := question{
		Facts: []fact{
			{"Now", s.Plan.Name + ", " + bill.PerInterval(&s.Plan)},
			{"Then", to.Name + ", " + bill.PerInterval(&to)},
		},
		Button: "Change to " + to.Name, Action: v.base + "/subscriptions/" + s.ID + "/change",
		Plan: to.Key, Kind: kindName(kind), Version: to.Version, Back: v.base,
		Note: "The change takes effect now.",
	}
	if kind == billing.ChangeDowngrade {
		q.Note = "The change takes effect on " + page.Day(s.CurrentPeriodEnd) +
			", when the period that is paid for ends. Nothing is charged now."
	}
	id, _ := server.ParseUUID(s.ID)
	m := v.portal.config.Machine
	views, outcome := m.PreviewPlanChange(v.link.Env, id, to.Key, kind,
		m.Clock(v.portal.config.Now().UnixMilli()))
	if outcome != engine.OutcomeDone {
		v.finish(server.Reply{Fault: server.FaultOf(outcome)}, "")
		return
	}
	q.Invoices = previews(views)
	v.show("confirm", "Change to "+to.Name+"?", q)
}

// previews are invoices that the engine says would be issued.
func previews(views []billing.InvoiceView) (list []bill.Invoice) {
	for i := range views {
		made := bill.Invoice{Invoice: api.Invoice{
			Amount: json.Number(views[i].Amount.String()), Currency: views[i].Currency,
		}}
		for k := range views[i].Items {
			made.Items = append(made.Items, bill.Item{InvoiceItem: api.InvoiceItem{
				Description: views[i].Items[k].Description,
				Amount:      json.Number(views[i].Items[k].Amount.String()),
			}})
		}
		list = append(list, made)
	}
	return list
}

func changePlan(v *visit) {
	s, ok := v.own()
	if !ok {
		return
	}
	if v.taken(&s, v.fields.Get("plan")) { // the same form, sent twice
		return
	}
	s, to, ok := v.wanted(v.fields.Get("plan"))
	if !ok {
		return
	}
	kind, what := changeType(&s.Plan, &to), "changed"
	name := kindName(kind)
	// The plan was published anew since the page said what happens.
	if name != v.fields.Get("kind") || strconv.Itoa(to.Version) != v.fields.Get("version") {
		v.finish(server.Reply{Fault: bill.FaultRepriced}, "")
		return
	}
	if kind == billing.ChangeDowngrade {
		what = "scheduled"
	}
	v.finish(v.call(server.Call{
		Operation: "changeSubscriptionPlan", Path: []string{s.ID}, OnceKey: v.once(),
		Body: []byte(`{"changeToPlanId":` + strconv.Quote(to.ID) + `,"changeType":"` + name + `"}`),
	}), what)
}

// taken reports whether a change to a plan was made already, and then says so.
func (v *visit) taken(s *api.Subscription, key string) bool {
	switch {
	case s.Plan.Key == key:
		v.finish(server.Reply{}, "changed")
	case s.ScheduledChange != nil && s.ScheduledChange.ToPlan.Key == key:
		v.finish(server.Reply{}, "scheduled")
	default:
		return false
	}
	return true
}

func askCancel(v *visit) {
	s, ok := v.endable()
	if !ok {
		return
	}
	if s.CancelMode != "" { // going back to a question that was answered
		v.finish(server.Reply{}, "cancelled")
		return
	}
	note := "The subscription goes on until then, and usage until then is billed. Until then you " +
		"can keep it after all. Nothing is refunded."
	if s.ScheduledChange != nil {
		note += " The change to " + s.ScheduledChange.ToPlan.Name + " that is scheduled is dropped."
	}
	v.show("confirm", "Cancel "+s.Plan.Name+"?", question{
		Facts: []fact{
			{"Plan", s.Plan.Name + ", " + bill.PerInterval(&s.Plan)},
			{"Ends", page.Day(s.CurrentPeriodEnd)},
		},
		Note: note, Button: "Cancel at the period's end", Danger: true, Back: v.base,
		Action: v.base + "/subscriptions/" + s.ID + "/cancel",
	})
}

// endable is the subscription of the path, which its customer may cancel.
func (v *visit) endable() (s api.Subscription, ok bool) {
	if s, ok = v.own(); ok && !allows(&s.Plan).Cancel {
		v.x.Refuse(faultNotOffered)
		return s, false
	}
	return s, ok
}

func cancelPlan(v *visit) {
	s, ok := v.endable()
	if !ok {
		return
	}
	v.finish(v.call(server.Call{
		Operation: "cancelSubscription", Path: []string{s.ID}, OnceKey: v.once(),
		Query: url.Values{"cancelMode": {"END_OF_PERIOD"}},
	}), "cancelled")
}

// mayKeep reports whether the customer may take a cancellation back: their own, of a plan that lets
// them cancel.
func (v *visit) mayKeep(s *api.Subscription) bool {
	id, _ := server.ParseUUID(s.ID)
	shown, known := v.portal.config.Machine.Subscription(v.link.Env, id)
	return known && shown.CancelledByCustomer && allows(&s.Plan).Cancel
}

func keepPlan(v *visit) {
	s, ok := v.own()
	if !ok {
		return
	}
	if s.CancelMode == "" && allows(&s.Plan).Cancel { // the same form, sent twice
		v.finish(server.Reply{}, "kept")
		return
	}
	if !v.mayKeep(&s) {
		v.x.Refuse(faultNotOffered)
		return
	}
	v.finish(v.call(server.Call{
		Operation: "revertScheduledCancellation", Path: []string{s.ID},
	}), "kept")
}
