package owner

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"

	"tollgate/engine/workspace"
	sdk "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/page"
	"tollgate/server/workspaceapi"
)

// startPage is what a run of a flow would cost and do, before it is started.
type startPage struct {
	Flow    workspace.FlowView
	Quote   quote
	Billing billing
	// Why is the reason why it cannot start, in words; empty where it can.
	Why string
}

type quote struct{ sdk.Quote }

// Buys reports whether a run is bought before the flow can run.
func (q *quote) Buys() bool { return q.Charge == "none" && q.PriceCents > 0 }

// Refuses describes the verification's answer to strangers.
func (q *quote) Refuses() string {
	word := func(answer string) string {
		return cmp.Or(strings.ReplaceAll(answer, "_", " "), "not called")
	}
	return "without a key: " + word(q.Preflight.NoKey) + "; with a wrong key: " +
		word(q.Preflight.WrongKey)
}

// By is the agent that would run it; the zero Agent is none.
func (q *quote) By() (by sdk.Agent) {
	if q.Agent != nil {
		by = *q.Agent
	}
	return by
}

// Called is when the verification was called; empty where it was not.
func (q *quote) Called() string {
	if at := q.Preflight.CheckedAt; !at.IsZero() {
		return when(at.UnixMilli())
	}
	return ""
}

// showStart reads a quote, which calls the flow's verification where that was long ago.
func showStart(v *visit) {
	id, ok := v.id(workspaceapi.NounFlow)
	if !ok {
		return
	}
	var answer struct{ Quote sdk.Quote }
	fault := v.ask("getQuote", nil, &answer, workspaceapi.NounFlow.Text(id))
	flow, known := v.config.Machine.Flow(v.who.Workspace, id)
	switch {
	case !known:
		v.fail(faultUnknown)
		return
	case fault != nil:
		v.problem(fault)
		showFlow(v)
		return
	}
	data := &startPage{Flow: flow, Quote: quote{answer.Quote}, Billing: v.billing()}
	if data.Why = unreadiness[answer.Quote.Reason]; !answer.Quote.ExecutionAvailable &&
		data.Why == "" {
		data.Why = "The flow is not ready to run."
	}
	v.show(page.View{
		Page: "start", Title: "Run " + flow.Name, Data: data,
		Crumbs: []page.Link{
			{Text: "Flows", URL: Root + "/flows"},
			{Text: flow.Name, URL: Root + "/flows/" + workspaceapi.NounFlow.Text(id)},
		},
	})
}

// startRun starts a run at its quoted price. Where none is left, the purchase is next.
func startRun(v *visit, id [16]byte) {
	var made sdk.Started
	fault := v.ask("startRun",
		sdk.StartRequest{Fingerprint: v.fields.Get("fingerprint")}, &made,
		workspaceapi.NounFlow.Text(id))
	if fault != nil && fault.Code == "payment_required" && made.Purchase.ID == "" {
		fault.Detail = "Nothing was charged. Buy a run on the page Purchases: the saved card pays it."
	}
	v.went(fault, &made, showStart, "start")
}

// The fields of the form that buys have what was shown: without a price it is asked about first.
const (
	shownField = "cents"
	asksField  = "asks"
)

// faultReasked is what a form gets whose purchase is not what it showed.
var faultReasked = server.NewFault(409, "quote_changed", "The price or the payment has changed").
	With("Nothing was bought. Below is how it is now.")

// buyPage is what a purchase of runs would cost, before it is made.
type buyPage struct {
	Runs, Cents uint32
	// Asks reports whether it must be approved, and Why says why; else the saved card is charged at
	// once.
	Asks bool
	Why  string
	// Open is the page of the purchase that waits or is being charged: another one buys nothing.
	Open    string
	Billing billing
	// Once is the key of the form that buys: going back to it buys nothing more.
	Once string
}

// askRuns shows the price of runs, and what pays it.
func askRuns(v *visit) {
	runs, err := strconv.Atoi(cmp.Or(v.query("runs"), "1"))
	if err != nil || runs < 1 || runs > workspace.MaxPurchaseRuns {
		v.fail(faultNoPage)
		return
	}
	v.askAbout(uint32(runs), cmp.Or(v.query("once"), page.MintOnce()))
}

// askAbout shows the price of so many runs, with the key of the form that buys them.
func (v *visit) askAbout(runs uint32, once string) {
	data := buyPage{Runs: runs, Billing: v.billing(), Once: once}
	data.Cents = runs * v.config.Machine.Policy().RunCents
	why, open := v.config.Machine.PurchaseAsks(v.who.Workspace, data.Cents, v.now())
	data.Asks, data.Why = why != workspace.ReasonNone, reasonWords(why.String())
	if open != ([16]byte{}) {
		data.Open = Root + "/purchases/" + workspaceapi.NounPurchase.Text(open)
	}
	v.show(page.View{
		Page:  "buy",
		Title: "Buy " + page.Count(int(runs), "run") + " for " + page.Cents(data.Cents) + "?",
		Data:  data, Crumbs: []page.Link{{Text: "Purchases", URL: Root + "/purchases"}, {Text: "Buy"}},
	})
}

// buyRuns asks about the price of runs, and once that is confirmed buys them, with the saved card
// or on the provider's page. Where they would not be bought as was shown, it asks again.
func buyRuns(v *visit) {
	runs, err := strconv.Atoi(v.typed("runs"))
	if err != nil {
		runs = 0 // which the row refuses in its words
	}
	countable := 0 < runs && runs <= workspace.MaxPurchaseRuns
	cents, err := strconv.ParseUint(v.typed(shownField), 10, 32)
	if countable && (err != nil || cents == 0) {
		query := url.Values{"runs": {strconv.Itoa(runs)}, "once": {page.OnceKey(v.fields)}}
		v.site.Redirect(v.x, Root+"/purchases/buy?"+query.Encode())
		return
	}
	v.shown = workspaceapi.Shown{Cents: uint32(cents), Approval: v.typed(asksField) != ""}
	var made sdk.Started
	fault := v.ask("buyRuns", sdk.PurchaseRequest{Runs: runs}, &made)
	if fault != nil && fault.Code == faultReasked.Code {
		v.problem(faultReasked)
		v.askAbout(uint32(runs), page.OnceKey(v.fields))
		return
	}
	v.went(fault, &made, showPurchases, "")
}

// cancelRun cancels a run that has not ended.
func cancelRun(v *visit, id [16]byte) {
	fault := v.ask("cancelRun", nil, nil, workspaceapi.NounRun.Text(id))
	if run, _ := v.config.Machine.Run(v.who.Workspace, id); fault != nil &&
		fault.Code == "cannot_cancel" && run.Status == workspace.RunCancelled {
		fault = nil // by the same form, which was sent twice
	}
	v.finish(fault, showRun, Root+"/runs/"+workspaceapi.NounRun.Text(id), "stop")
}

// answerRun lets a run go on that waits for a person.
func answerRun(v *visit, id [16]byte) {
	answer := sdk.ResumeRequest{Answer: v.typed("answer")}
	fault, what := v.ask("resumeRun", answer, nil, workspaceapi.NounRun.Text(id)), "answer"
	if run, _ := v.config.Machine.Run(v.who.Workspace, id); fault != nil &&
		fault.Code == "cannot_resume" && run.Question != "" &&
		(run.Status == workspace.RunQueued || run.Status == workspace.RunRunning) {
		fault, what = nil, "answered" // by the same form, as a rule
	}
	v.finish(fault, showRun, Root+"/runs/"+workspaceapi.NounRun.Text(id), what)
}

// inspect reads what a product publishes, which takes up to a minute.
func inspect(v *visit) {
	var made sdk.Started
	fault := v.ask("inspectProduct", sdk.InspectionRequest{URL: v.typed("url")}, &made)
	v.went(fault, &made, showInspections, "inspect")
}
