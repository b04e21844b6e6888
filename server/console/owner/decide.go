package owner

import (
	"strconv"
	"strings"

	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/console/page"
	"tollgate/server/workspaceapi"
)

// finish ends a form: errors are shown on the page that again shows, success on the page that is
// next.
func (v *visit) finish(fault *server.Fault, again func(*visit), next, what string) {
	if fault != nil {
		v.problem(fault)
		again(v)
		return
	}
	v.site.Redirect(v.x, next+"?done="+what)
}

// happenings are the results of forms; the address of the page after a form names one.
var happenings = map[string]page.Notice{
	"cap":     {Title: "The cap is set", Detail: "Spending in a month stays below it."},
	"pause":   {Title: "Purchases are paused", Detail: "Every purchase now asks you first, also those that the cap would allow."},
	"unpause": {Title: "Purchases go on", Detail: "Purchases within your cap are charged to the saved card without asking you."},
	"approve": {Title: "You approved the purchase"},
	"payment": {Title: "You are back from the payment page", Detail: "If you have paid, it shows as paid here as soon as the payment provider has confirmed " +
		"it. Nothing is charged twice."},
	"deny":         {Title: "You denied the purchase", Detail: "Nothing was charged."},
	"cancel":       {Title: "The purchase is cancelled", Detail: "Nothing was charged, its link and its payment page are closed."},
	"confirm":      {Title: "You confirmed the sign-up", Detail: "An agent may sign up at this product. A changed flow asks you again."},
	"alerts":       {Title: "The alerts are set", Detail: "Next: send a test, and see it arrive."},
	"alerts-asked": {Title: "The alerts are set", Detail: "Mails go out once the address is confirmed. If the link does not arrive, send it again below."},
	"asked-before": {Tone: page.Hint, Title: "A link was asked for before", Detail: "No other one was sent by this form. If none arrives, send it again below."},
	"asked":        {Title: "The link is on its way", Detail: "Its recipient opens it and confirms; until then nothing else is mailed there."},
	"test":         {Title: "A test is on its way", Detail: "Its result appears below in a moment."},
	"scheduled":    {Title: "The schedule is set", Detail: "Each run is charged like any other."},
	"unscheduled":  {Title: "The schedule has ended", Detail: "No more runs start automatically."},
	"access":       {Title: "The test credentials are stored", Detail: "Runs that begin from now on sign in with them."},
	"access-gone":  {Title: "The test credentials are forgotten", Detail: "Flows that need them run once others are stored."},
	"choose":       {Title: "These pages now show this workspace"},
	"open":         {Title: "The workspace is yours", Detail: "Next: create a flow and start a run of it; or a key for an agent, on the page Keys."},
	"claim":        {Title: "The workspace is yours", Detail: "Its keys go on working."},
	"link":         {Title: "Your answer is noted"},
	"ready":        {Title: "The issue awaits a run that proves it fixed"},
	"save":         {Title: "The flow is saved", Detail: "Next: start a run of it. Its quote shows the price."},
	"archive":      {Title: "The flow is archived", Detail: "Its runs stay, and no new ones start."},
	"start":        {Title: "The run was started", Detail: "Its progress and result are shown here."},
	"answer":       {Title: "The run goes on", Detail: "What you answered is kept nowhere but in its memory."},
	"answered":     {Title: "The run goes on", Detail: "The question was answered before: by this form, if you sent it twice. What it sent now was not used."},
	"stop":         {Title: "The run is cancelled", Detail: "Its charge is returned."},
	"inspect":      {Title: "The product was read"},
}

// setBilling sets the cap, or pauses and unpauses purchases.
func setBilling(v *visit) {
	var fault *server.Fault
	what := v.fields.Get("action")
	switch what {
	case "pause", "unpause":
		fault = v.ask("pausePurchases", map[string]bool{"paused": what == "pause"}, nil)
	default:
		what = "cap"
		amount := -1 // which the row refuses
		if cents, ok := parseCents(v.fields.Get("cap")); ok {
			amount = int(cents)
		}
		if fault = v.ask("lowerCap", map[string]int{"capCents": amount}, nil); fault != nil &&
			fault.Code == "invalid_field" {
			fault = fault.Saying("Invalid cap").With("Nothing was changed. Write an amount in dollars, " +
				"such as 50 or 49.50, of at most " +
				page.Cents(v.config.Machine.Policy().MaxCapCents) + ".")
		}
	}
	v.finish(fault, showPurchases, Root+"/purchases", what)
}

// parseCents reads dollars with at most two decimals.
func parseCents(text string) (uint32, bool) {
	text = strings.TrimPrefix(strings.TrimSpace(text), "$")
	whole, rest, pointed := strings.Cut(text, ".")
	if pointed && len(rest) != 1 && len(rest) != 2 {
		return 0, false
	}
	n, err := strconv.ParseUint(whole, 10, 24)
	fraction, err2 := strconv.ParseUint((rest + "00")[:2], 10, 8)
	return uint32(n*100 + fraction), err == nil && err2 == nil
}

// decidePurchase approves, denies or cancels a purchase of the workspace.
func decidePurchase(v *visit) {
	found, ok := v.purchase()
	if !ok {
		return
	}
	what, id := v.fields.Get("action"), workspaceapi.NounPurchase.Text(found.ID)
	fault := faultForm
	switch what {
	case "approve", "deny":
		fault = v.ask("decidePurchase", map[string]string{"action": what}, nil, id)
	case "cancel":
		fault = v.ask("cancelPurchase", nil, nil, id)
	}
	v.finish(fault, showPurchase, Root+"/purchases/"+id, what)
}

var faultForm = server.NewFault(400, "invalid_field", "The form has no action").With(
	"Nothing was changed. Load the page again, and press one of its buttons.")

// rotateKeys replaces all keys by one, which this answer alone shows.
func rotateKeys(v *visit) {
	var made struct{ Key string }
	fault := v.ask("rotateKeys", nil, &made)
	switch {
	case fault != nil:
		v.problem(fault)
	case made.Key == "":
		v.notice = &page.Notice{
			Tone: page.Hint, Title: "This form was sent before",
			Detail: "The keys were replaced then, and the new one was shown then. If you have not got " +
				"it, replace the keys once more.",
		}
	default:
		v.notice = &page.Notice{
			Tone: page.Done, Title: "All keys were replaced by this one", Secret: made.Key,
			Detail: "Copy it now: it is not stored, and is shown this once. Agents that have an older " +
				"key get 401 from now on.",
		}
	}
	showKeys(v)
}

// confirmSignup confirms that an agent may sign up at a flow's product.
func confirmSignup(v *visit, id [16]byte) {
	fault := v.ask("confirmSignup", nil, nil, workspaceapi.NounFlow.Text(id))
	v.finish(fault, showFlow, Root+"/flows/"+workspaceapi.NounFlow.Text(id), "confirm")
}

// markReady reports whether an issue is fixed; the next run decides.
func markReady(v *visit, id [16]byte) {
	note := v.typed("note")
	fault := v.ask("changeIssue", map[string]string{"status": "fix_ready", "note": note}, nil,
		workspaceapi.NounIssue.Text(id))
	if fault != nil && fault.Code == "invalid_issue_status" && v.said(id, note) {
		fault = nil // by the same form, which was sent twice
	}
	if fault != nil {
		v.fields.Set("issue", workspaceapi.NounIssue.Text(id)) // whose form keeps the note
	}
	v.finish(fault, showIssues, Root+"/issues", "ready")
}

// said reports whether an issue waits for its verifying run, with this note.
func (v *visit) said(id [16]byte, note string) bool {
	issue, known := v.config.Machine.Issue(v.who.Workspace, id)
	return known && issue.Status == workspace.IssueFixReady && issue.Note == note
}
