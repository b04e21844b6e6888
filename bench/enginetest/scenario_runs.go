package enginetest

import (
	"fmt"
	"strings"

	"tollgate/engine"
	"tollgate/engine/workspace"
)

// start reads `start WORKSPACE RUN key= [flow=] [body=] [version=] [cents=] [credits=] [no-agent]`.
func (s *workspaceScenario) start(l *line) string {
	p, name := s.m.Policy(), l.word(0)
	c := &workspace.StartRun{
		Workspace: s.row(name), Flow: s.flowID(l), ID: ID("run " + l.word(1)),
		Body:        ID("body " + l.value("body", "")),
		FlowVersion: uint32(l.number("version", 1)), Cents: uint32(l.number("cents", int64(p.RunCents))),
		Credits: uint32(l.number("credits", int64(p.CreditsRun))), Agent: "clever exec 1",
		Key: l.id("key", "request "+name+" "),
	}
	if l.has("no-agent") {
		c.Agent = ""
	}
	return s.made(s.log.Do(workspace.KindStartRun, c), c.ID)
}

// made prints the reply of a command that makes a run, which would have this id.
func (s *workspaceScenario) made(r engine.Result, id [16]byte) string {
	if r.Outcome != engine.OutcomeDone {
		return s.outcome(r)
	}
	var made workspace.RunReply
	mustDecode(r.Value, &made)
	return fmt.Sprintf("done same-id=%t repeated=%t", made.ID == id, made.Repeated)
}

func (s *workspaceScenario) request(l *line) string {
	return s.do(workspace.KindRequestRun, &workspace.RequestRun{
		Workspace: s.row(l.word(0)), Flow: s.flowID(l), ID: ID("run " + l.word(1)),
	})
}

func (s *workspaceScenario) cancel(l *line) string {
	c := &workspace.CancelRun{
		Workspace: s.row(l.word(0)), ID: ID("run " + l.word(1)), Kind: workspace.RunHosted,
	}
	if l.has("request") {
		c.Kind = workspace.RunRequest
	}
	return s.do(workspace.KindCancelRun, c)
}

func (s *workspaceScenario) resume(l *line) string {
	return s.do(workspace.KindResumeRun, &workspace.ResumeRun{
		Workspace: s.row(l.word(0)), ID: ID("run " + l.word(1)), Agent: l.value("agent", "clever exec 1"),
		Answer: []byte(l.value("answer", "")),
	})
}

func (s *workspaceScenario) work(l *line) string {
	r := s.log.Do(workspace.KindClaimRun, &workspace.ClaimRun{
		Worker: l.word(0), LeaseMS: l.duration(l.value("lease", "60s")),
	})
	if r.Outcome != engine.OutcomeDone {
		return s.outcome(r)
	}
	var c workspace.ClaimedRun
	mustDecode(r.Value, &c)
	queued, running := s.m.Load()
	text := fmt.Sprintf("done token=%d lease=%s wall=%s queued=%d running=%d",
		c.Token, show(c.LeaseEnd), show(c.WallEnd), queued, running)
	text += when(len(c.Answer) > 0, " answer=%q", c.Answer)
	return text
}

func (s *workspaceScenario) heartbeat(l *line) string {
	c := &workspace.ExtendLease{
		Run: ID("run " + l.word(0)), Token: uint32(l.number("token", 1)),
		LeaseMS: l.duration(l.value("lease", "60s")), Step: l.value("step", ""),
	}
	if text := l.value("event", ""); text != "" {
		c.Events = []workspace.RunEvent{{At: s.log.Stamp, Text: text}}
	}
	return s.do(workspace.KindExtendLease, c)
}

// await reads `await RUN [token=] [question=] [steps=] [tokens=]`.
func (s *workspaceScenario) await(l *line) string {
	return s.do(workspace.KindAwaitPerson, &workspace.AwaitPerson{
		Run: ID("run " + l.word(0)), Token: uint32(l.number("token", 1)),
		Question: l.value("question", "What is the code?"), Checkpoint: []byte("page 2"),
		Steps: uint32(l.number("steps", 0)), Tokens: uint32(l.number("tokens", 0)),
	})
}

// finish reads `finish RUN passed|blocked|inconclusive [failed] [token=] [step=] [code=]`.
func (s *workspaceScenario) finish(l *line) string {
	c := &workspace.FinishRun{
		Run: ID("run " + l.word(0)), Outcome: named[workspace.RunOutcome](l.word(1)),
		Status: workspace.RunCompleted,
		Token:  uint32(l.number("token", 1)), Step: l.value("step", ""), Code: l.value("code", ""),
		Calls: []workspace.Call{{Case: "plain", Status: 200, Matched: true}},
	}
	if l.has("failed") {
		c.Status = workspace.RunFailed
	}
	return s.do(workspace.KindFinishRun, c)
}

// charge prints what pays for a run, and what became of that.
func charge(c *workspace.RunCharge) string {
	return strings.TrimSpace(c.Charge.String() + " " + c.ChargeState.String())
}

func (s *workspaceScenario) run(l *line) string {
	v, ok := s.m.Run(s.row(l.word(0)), ID("run "+l.word(1)))
	if !ok {
		return "unknown"
	}
	text := fmt.Sprintf("%s %s outcome=%q code=%q step=%q charge=%s cents=%d credits=%d",
		v.Kind, v.Status, v.Outcome, v.Code, v.Step, charge(&v.RunCharge),
		v.Cents, v.Credits)
	text += when(v.Question != "", "\nasks %q, goes on from %q", v.Question, v.Checkpoint)
	text += when(v.Steps > 0, "\nhas used %d steps and %d tokens", v.Steps, v.Tokens)
	for _, e := range v.Events {
		text += "\n" + show(e.At) + " " + e.Text
	}
	return text
}

// purchase reads `purchase WORKSPACE NAME [runs=] [key=] [body=] [flow=] [ask] [agent]`.
func (s *workspaceScenario) purchase(l *line) string {
	name, purchase := l.word(0), l.word(1)
	c := &workspace.RequestPurchase{
		Workspace: s.row(name), ID: ID("purchase " + purchase),
		Runs: uint32(l.number("runs", 1)), Body: ID("body " + l.value("body", "")),
		Link: secret("link " + purchase), Ask: l.has("ask"), AgentSession: l.has("agent"),
		Key: l.id("key", "request "+name+" "), Flow: l.id("flow", "flow "),
	}
	r := s.log.Do(workspace.KindRequestPurchase, c)
	if r.Outcome != engine.OutcomeDone {
		return s.outcome(r)
	}
	var reply workspace.PurchaseReply
	mustDecode(r.Value, &reply)
	actions := [...]string{"", "charging", "wait", "approve", "approve earlier", "purchase"}
	return fmt.Sprintf("%s same-id=%t", actions[reply.Action], reply.ID == c.ID)
}

func (s *workspaceScenario) approve(l *line) string {
	return s.do(workspace.KindApprovePurchase, &workspace.ApprovePurchase{
		ID: ID("purchase " + l.word(0)), Owner: l.value("owner", "ada"),
	})
}

func (s *workspaceScenario) deny(l *line) string {
	return s.do(workspace.KindDenyPurchase, &workspace.DenyPurchase{ID: ID("purchase " + l.word(0))})
}

func (s *workspaceScenario) cancelPurchase(l *line) string {
	return s.do(workspace.KindCancelPurchase, &workspace.CancelPurchase{
		Workspace: s.row(l.word(0)), ID: ID("purchase " + l.word(1)), Person: l.has("person"),
	})
}

func (s *workspaceScenario) link(l *line) string {
	name := l.value("link", "")
	answer := s.do(workspace.KindRenewLink, &workspace.RenewLink{
		Workspace: s.row(l.word(0)), ID: ID("purchase " + l.word(1)), Link: secret("link " + name),
		Person: l.has("person"),
	})
	_, works := s.m.PurchaseByLink(secret("link " + name))
	return fmt.Sprintf("%s works=%t", answer, works)
}

func (s *workspaceScenario) payment(l *line) string {
	results := map[string]workspace.PaymentResult{
		"paid": workspace.PaymentPaid, "declined": workspace.PaymentDeclined,
		"failed": workspace.PaymentFailed,
	}
	return s.do(workspace.KindNotePayment, &workspace.NotePayment{
		ID: ID("purchase " + l.word(0)), Result: results[l.word(1)], Card: l.value("card", ""),
		Payment: l.value("payment", "pi_"+l.word(0)),
	})
}

// page reads `page PURCHASE [closed]`.
func (s *workspaceScenario) page(l *line) string {
	c := &workspace.NoteCheckout{ID: ID("purchase " + l.word(0)), Closed: l.has("closed")}
	if !c.Closed {
		c.Checkout, c.URL = "cs_"+l.word(0), "https://pay.example/cs_"+l.word(0)
	}
	return s.do(workspace.KindNoteCheckout, c)
}

// refund reads `refund PURCHASE [payment=] [refused=]`.
func (s *workspaceScenario) refund(l *line) string {
	c := &workspace.NoteRefund{
		ID: ID("purchase " + l.word(0)), Payment: l.value("payment", ""),
		Refused: l.value("refused", ""),
	}
	if c.Refused == "" {
		c.Refund = "re_" + l.word(0) + c.Payment
	}
	return s.do(workspace.KindNoteRefund, c)
}

// surplus reads `surplus PURCHASE PAYMENT`.
func (s *workspaceScenario) surplus(l *line) string {
	return s.do(workspace.KindNoteSurplus, &workspace.NoteSurplus{
		ID: ID("purchase " + l.word(0)), Payment: l.word(1),
	})
}

// retry reads `retry PURCHASE`: its provider is asked again for what it refused to send back.
func (s *workspaceScenario) retry(l *line) string {
	return s.do(workspace.KindRetryRefund, &workspace.RetryRefund{ID: ID("purchase " + l.word(0))})
}

// returns lists the payments that bought nothing, or were made more than once.
func (s *workspaceScenario) returns(l *printer) {
	views, _ := s.m.Purchases(s.row(l.word(0)), workspace.Page{Limit: 100})
	for _, v := range views {
		for _, r := range v.Returns {
			fmt.Fprintf(l, "%s %s refund=%q back=%t refused=%q\n", v.Status, r.Payment, r.Refund,
				r.At != 0, r.Refused)
		}
	}
}

// paymentTasks lists what payment providers are to be asked.
func (s *workspaceScenario) paymentTasks(l *printer) {
	for kind, name := range [...]string{"", "charge", "page", "poll", "close", "refund", "end"} {
		for _, v := range s.m.PaymentTasks(workspace.PaymentTask(kind), 0, 100) {
			fmt.Fprintf(l, "%s %s %d cents page=%q paid-by=%q\n", name, v.Status, v.Cents, v.Checkout,
				v.Payment)
		}
	}
}

func (s *workspaceScenario) purchases(l *printer) {
	views, _ := s.m.Purchases(s.row(l.word(0)), workspace.Page{Limit: 100})
	for _, v := range views {
		fmt.Fprintf(l, "%s runs=%d cents=%d reason=%q refund=%t\n", v.Status, v.Runs, v.Cents,
			v.Reason, v.Refund)
	}
}

func (s *workspaceScenario) billing(l *line) string {
	c := &workspace.SetBilling{Workspace: s.row(l.word(0)), Person: l.has("person")}
	if paused := l.value("paused", ""); paused != "" {
		c.HasPaused, c.Paused = true, paused == "true"
	}
	if limit := l.number("cap", -1); limit >= 0 {
		c.HasCap, c.CapCents = true, uint32(limit)
	}
	return s.do(workspace.KindSetBilling, c)
}

func (s *workspaceScenario) grant(l *line) string {
	return s.do(workspace.KindGrantCredits, &workspace.GrantCredits{
		Workspace: s.row(l.word(0)), ID: ID("grant " + l.value("id", "one")),
		Amount: uint64(l.number("amount", 0)), Note: "a gift",
	})
}

func (s *workspaceScenario) account(l *line) string {
	v, ok := s.m.Account(s.row(l.word(0)), s.log.Stamp)
	if !ok {
		return "unknown"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s owner=%q claimed=%t\n", v.Label, v.Owner, v.Claimed)
	fmt.Fprintf(&b, "runs used=%d free=%d paid=%d returned=%d left=%d recent=%d\n",
		v.FreeUsed+v.PaidUsed+v.Returned, v.FreeUsed, v.PaidUsed, v.Returned, v.RunsLeft,
		len(v.RecentRuns))
	fmt.Fprintf(&b, "cents spent=%d charging=%d cap=%d paused=%t resets=%s\n", v.SpentCents,
		v.ChargingCents, v.CapCents, v.Paused, show(v.MonthEnd))
	fmt.Fprintf(&b, "credits balance=%d reserved=%d\n", v.Credits, v.Reserved)
	for _, t := range v.Transactions {
		fmt.Fprintf(&b, "  %s %d\n", t.Kind, t.Amount)
	}
	return b.String()
}

func (s *workspaceScenario) issues(l *printer) {
	views, _ := s.m.Issues(s.row(l.word(0)), workspace.Page{Limit: 100})
	for _, v := range views {
		fmt.Fprintf(l, "%s %s/%s seen=%d note=%q\n", v.Status, v.Step, v.Code, v.Seen, v.Note)
	}
}

// ready marks the newest issue.
func (s *workspaceScenario) ready(l *line) string {
	row := s.row(l.word(0))
	views, _ := s.m.Issues(row, workspace.Page{Limit: 1})
	c := &workspace.MarkIssueReady{Workspace: row, Note: l.value("note", "fixed")}
	if len(views) > 0 {
		c.ID = views[0].ID
	}
	return s.do(workspace.KindMarkIssueReady, c)
}

func (s *workspaceScenario) notifications(l *printer) {
	views, _ := s.m.Notifications(s.row(l.word(0)), workspace.Page{Limit: 100})
	for _, v := range views {
		fmt.Fprintf(l, "%s read=%t", v.Kind, v.ReadAt != 0)
		l.WriteString(when(v.Skip != workspace.SkipNot, " reason=%s", v.Skip))
		l.WriteString("\n")
	}
}

// read reads the newest notification.
func (s *workspaceScenario) read(l *line) string {
	row := s.row(l.word(0))
	c := &workspace.ReadNotification{Workspace: row}
	if views, _ := s.m.Notifications(row, workspace.Page{Limit: 1}); len(views) > 0 {
		c.ID = views[0].ID
	}
	return s.do(workspace.KindReadNotification, c)
}

func (s *workspaceScenario) local(l *line) string {
	return s.do(workspace.KindStartLocalRun, &workspace.StartLocalRun{
		Workspace: s.row(l.word(0)), ID: ID("run " + l.word(1)),
	})
}

func (s *workspaceScenario) finishLocal(l *line) string {
	return s.do(workspace.KindFinishLocalRun, &workspace.FinishLocalRun{
		Workspace: s.row(l.word(0)), ID: ID("run " + l.word(1)), Outcome: workspace.OutcomePassed,
	})
}
