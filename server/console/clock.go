package console

import (
	"net/url"
	"time"

	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/page"
)

const clockPath = "/accounts/{account}/{environment}/clock"

func (s *Console) clockRows() []row {
	return []row{
		look(clockPath, "clock", showClock),
		live(look(clockPath+"/live", "clock live", func(v *visit) {
			v.fragment("clock", "settling", need[api.Clock](v, v.admin, v.adminCall("showClock")))
		})),
		asking(clockPath, "advance clock", askClock, advanceClock),
	}
}

type clockData struct {
	Base    string
	Manage  bool
	Clock   api.Clock
	Choices []clockChoice
	To      string
}

type clockChoice struct{ Text, To string }

// showClock is the sandbox's clock, with the steps that one wants most.
func showClock(v *visit) {
	shown := need[api.Clock](v, v.admin, v.adminCall("showClock"))
	data := clockData{
		Base: v.base() + "/clock", Manage: v.manage, Clock: shown, To: v.fields.Get("to"),
	}
	for _, step := range []struct {
		text         string
		months, days int
	}{{"One day", 0, 1}, {"One week", 0, 7}, {"One month", 1, 0}, {"One year", 12, 0}} {
		data.Choices = append(data.Choices, clockChoice{
			step.text, shown.Now.AddDate(0, step.months, step.days).UTC().Format(time.RFC3339),
		})
	}
	v.show(v.environmentPage("clock", "Test clock", "Test clock",
		"Moving the sandbox's clock lets periods end, invoices fall due, and graces run out, at once.",
		data))
}

// askClock shows from when to when the clock will move. Invalid times are refused at once.
func askClock(v *visit) {
	shown := need[api.Clock](v, v.admin, v.adminCall("showClock"))
	if v.fails() {
		return
	}
	then, err := time.Parse(time.RFC3339, v.typed("to"))
	if err != nil || !then.After(shown.Now) {
		v.wrong("to", "Enter an instant after "+written(shown.Now)+", such as 2027-01-31T00:00:00Z")
		showClock(v)
		return
	}
	m := v.console.config.Machine
	if outcome := m.Advances(v.env, then.UnixMilli(), v.stamp()); outcome.Refused() {
		v.wrong("to", server.FaultOf(outcome).Message)
		showClock(v)
		return
	}
	v.ask(question{
		Title: "Advance the test clock?", Button: "Advance the clock",
		Facts: []fact{{"Now", page.When(shown.Now)}, {"Afterwards", page.When(then)}},
		Found: func() []fact { return v.clockFacts(then) },
		Notes: []string{"Renewals, invoices, suspensions and expiries that are due by then happen, in " +
			"their order. The clock cannot be moved back."},
		Back: v.base() + "/clock",
	})
}

// stamp is log time now.
func (v *visit) stamp() int64 {
	return v.console.config.Machine.Clock(v.console.config.Now().UnixMilli())
}

// clockFacts are the effects of moving the clock, as the engine predicts them.
func (v *visit) clockFacts(to time.Time) (facts []fact) {
	p := v.console.config.Machine.PreviewClock(v.env, to.UnixMilli(), v.stamp())
	least := ""
	if !p.Whole {
		least = "at least "
	}
	count := func(n int) string { return least + page.Amount(n) }
	facts = append(facts, fact{"Invoices issued", count(p.Invoices)})
	for _, a := range p.Amounts {
		facts = append(facts, fact{"They come to", least + page.Money(a.Amount.String(), a.Currency)})
	}
	for _, what := range []struct {
		name string
		n    int
	}{{"Subscriptions suspended", p.Suspended}, {"Subscriptions ended", p.Ended}} {
		if what.n > 0 {
			facts = append(facts, fact{what.name, count(what.n)})
		}
	}
	return facts
}

// advanceClock moves the clock. Work that falls due by then may take longer than a request may: the
// page then shows the progress.
func advanceClock(v *visit) {
	reply := v.admin(server.Call{
		Operation: "advanceClock", Path: []string{v.account, v.environment}, Actor: v.who.Name,
		Body:  body(map[string]any{"advanceTo": v.typed("to")}),
		Query: url.Values{"waitSeconds": {"1"}},
	})
	fault := reply.Fault
	// It did move, and the page shows the progress; or the same form was sent before: the confirmed
	// time was ahead of the clock.
	if fault != nil && (fault.Code == "clock_settling" || fault.Code == "clock_backwards") {
		fault = nil
	}
	v.finish(fault, showClock, v.base()+"/clock", "clock")
}
