package enginetest

import (
	"fmt"
	"strings"
	"testing"

	"tollgate/engine"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
)

// RunWorkspace plays one scenario file against a fresh workspace machine, as RunBilling does.
func RunWorkspace(t *testing.T, path string) (entries [][]byte) {
	m := workspace.New(workspace.Config{Shard: 1})
	s := &workspaceScenario{m: m, log: NewLog(m, Epoch), persons: map[string]uint32{}}
	s.log.Shard = 1
	play(t, path, s, workspaceWords)
	return s.log.Entries
}

var workspaceWords = map[string]func(*workspaceScenario, *line) string{
	"now":              (*workspaceScenario).now,
	"policy":           (*workspaceScenario).policy,
	"signup":           (*workspaceScenario).signup,
	"authenticate":     (*workspaceScenario).authenticate,
	"revoke":           (*workspaceScenario).revoke,
	"rotate":           (*workspaceScenario).rotate,
	"claim":            (*workspaceScenario).claim,
	"flow":             (*workspaceScenario).flow,
	"archive":          (*workspaceScenario).archive,
	"confirm":          (*workspaceScenario).confirm,
	"preflight":        (*workspaceScenario).preflight,
	"flows":            listing("", (*workspaceScenario).flows),
	"start":            (*workspaceScenario).start,
	"request":          (*workspaceScenario).request,
	"cancel":           (*workspaceScenario).cancel,
	"resume":           (*workspaceScenario).resume,
	"work":             (*workspaceScenario).work,
	"heartbeat":        (*workspaceScenario).heartbeat,
	"await":            (*workspaceScenario).await,
	"finish":           (*workspaceScenario).finish,
	"run":              (*workspaceScenario).run,
	"purchase":         (*workspaceScenario).purchase,
	"approve":          (*workspaceScenario).approve,
	"deny":             (*workspaceScenario).deny,
	"cancel-purchase":  (*workspaceScenario).cancelPurchase,
	"link":             (*workspaceScenario).link,
	"payment":          (*workspaceScenario).payment,
	"page":             (*workspaceScenario).page,
	"refund":           (*workspaceScenario).refund,
	"surplus":          (*workspaceScenario).surplus,
	"retry":            (*workspaceScenario).retry,
	"returns":          listing("", (*workspaceScenario).returns),
	"payment-tasks":    listing("", (*workspaceScenario).paymentTasks),
	"purchases":        listing("", (*workspaceScenario).purchases),
	"billing":          (*workspaceScenario).billing,
	"grant":            (*workspaceScenario).grant,
	"account":          (*workspaceScenario).account,
	"issues":           listing("", (*workspaceScenario).issues),
	"ready":            (*workspaceScenario).ready,
	"notifications":    listing("", (*workspaceScenario).notifications),
	"read":             (*workspaceScenario).read,
	"alerts":           withWorkspaces(alertLines.alerts),
	"set-alerts":       withWorkspaces(alertLines.setAlerts),
	"rotate-secret":    withWorkspaces(alertLines.rotateSecret),
	"test-alert":       withWorkspaces(alertLines.testAlert),
	"due-alerts":       withWorkspaces(alertLines.dueAlerts),
	"begin-alert":      withWorkspaces(alertLines.beginAlert),
	"note-alert":       withWorkspaces(alertLines.noteAlert),
	"local":            (*workspaceScenario).local,
	"finish-local":     (*workspaceScenario).finishLocal,
	"inspect":          (*workspaceScenario).inspect,
	"part":             (*workspaceScenario).part,
	"inspection":       (*workspaceScenario).inspection,
	"sign-in":          withWorkspaces(personLines.signIn),
	"session":          withWorkspaces(personLines.session),
	"end-session":      withWorkspaces(personLines.endSession),
	"use-session":      withWorkspaces(personLines.useSession),
	"choose":           withWorkspaces(personLines.choose),
	"open":             withWorkspaces(personLines.open),
	"owned":            withWorkspaces(listing("", personLines.owned)),
	"links":            withWorkspaces(listing("", personLines.links)),
	"answer":           withWorkspaces(personLines.answer),
	"act":              withWorkspaces(personLines.act),
	"acts":             withWorkspaces(listing("", personLines.acts)),
	"agents":           (*workspaceScenario).agents,
	"schedule":         (*workspaceScenario).schedule,
	"scheduled":        (*workspaceScenario).scheduled,
	"finish-scheduled": (*workspaceScenario).finishScheduled,
}

// withWorkspaces is with for a machine of workspaces.
func withWorkspaces[L ~struct{ *workspaceScenario }](
	f func(L, *line) string,
) func(*workspaceScenario, *line) string {
	return func(s *workspaceScenario, l *line) string { return f(L{s}, l) }
}

// workspaceScenario is a machine that a text drives. Ids are made of names.
type workspaceScenario struct {
	m   *workspace.Machine
	log *Log
	// persons are the rows of who has signed in; acts counts them.
	persons map[string]uint32
	acts    int
}

// do applies a command and prints its outcome.
func (s *workspaceScenario) do(kind engine.Kind, c wire.Fielder) string {
	return s.outcome(s.log.Do(kind, c))
}

func (s *workspaceScenario) row(name string) uint32 {
	return s.m.WorkspaceRow(ID("workspace " + name))
}

// outcome prints a result, and the reply of one that was refused.
func (s *workspaceScenario) outcome(r engine.Result) string {
	text := r.Outcome.String()
	if len(r.Value) == 0 {
		return text
	}
	var retry workspace.RetryReply
	var short workspace.CreditsReply
	var unready workspace.UnreadyReply
	switch r.Outcome {
	case engine.OutcomeSignupLimited, engine.OutcomeRunLimit, engine.OutcomeFreeCapacity,
		engine.OutcomeCancelLimit, engine.OutcomeAlertTestLimit, engine.OutcomeSignInLimit,
		engine.OutcomeActLimit:
		mustDecode(r.Value, &retry)
		return fmt.Sprintf("%s limit=%d resets=%s", text, retry.Limit, show(retry.ResetsAt))
	case engine.OutcomeCreditsShort:
		mustDecode(r.Value, &short)
		return fmt.Sprintf("%s required=%d balance=%d", text, short.Required, short.Balance)
	case engine.OutcomeExecutionUnavailable:
		mustDecode(r.Value, &unready)
		return text + " " + unready.Reason.String()
	}
	return text
}

func mustDecode(data []byte, v wire.Fielder) {
	if err := wire.Decode(data, v); err != nil {
		panic(fmt.Sprintf("enginetest: %v", err))
	}
}

func (s *workspaceScenario) now(l *line) string {
	s.log.Stamp = l.instant(l.word(0), s.log.Stamp)
	s.log.DoPayload(engine.KindTick, nil)
	return show(s.log.Stamp)
}

func (s *workspaceScenario) policy(l *line) string {
	p := s.m.Policy()
	for name, field := range map[string]*uint32{
		"signups": &p.SignupsPerHour, "runs": &p.RunsPerDay, "free-day": &p.FreeRunsPerDay,
		"free-month": &p.FreeRunsPerMonth, "cents": &p.RunCents, "credits": &p.CreditsRun,
		"inspection": &p.CreditsInspection, "evaluation": &p.CreditsEvaluation,
		"queue": &p.QueueLimit, "local": &p.LocalRunsPerDay,
	} {
		*field = uint32(l.number(name, int64(*field)))
	}
	return s.do(workspace.KindSetPolicy, &p)
}

func (s *workspaceScenario) signup(l *line) string {
	name := l.word(0)
	scopes := workspace.ScopesAll
	if text := l.value("scopes", ""); text != "" {
		scopes = 0
		for _, name := range strings.Split(text, ",") {
			scope, _ := workspace.ParseScope(strings.TrimSpace(name))
			scopes |= scope
		}
	}
	return s.do(workspace.KindSignUp, &workspace.SignUp{
		ID: ID("workspace " + name), KeyID: ID("key " + name), KeyHash: secret("key " + name),
		ClaimHash: secret("code " + name), Scopes: scopes, Label: name,
		Source: ID("source " + l.value("source", "one")),
	})
}

func (s *workspaceScenario) authenticate(l *line) string {
	p, ok := s.m.Authenticate(secret("key " + l.word(0)))
	if !ok {
		return "unknown"
	}
	return fmt.Sprintf("row=%d scopes=[%s] claimed=%t", p.Workspace, p.Scopes, p.Claimed)
}

func (s *workspaceScenario) revoke(l *line) string {
	name := l.word(0)
	return s.do(workspace.KindRevokeKey, &workspace.RevokeKey{
		Workspace: s.row(name), ID: ID("key " + l.value("key", name)),
	})
}

func (s *workspaceScenario) rotate(l *line) string {
	name, next := l.word(0), l.value("key", "")
	return s.do(workspace.KindRotateKeys, &workspace.RotateKeys{
		Workspace: s.row(name), KeyID: ID("key " + next), KeyHash: secret("key " + next),
	})
}

func (s *workspaceScenario) claim(l *line) string {
	c := &workspace.ClaimWorkspace{Owner: l.value("owner", "ada")}
	if code := l.value("code", ""); code != "" {
		c.Code = secret("code " + code)
	} else {
		c.ID = ID("workspace " + l.word(0))
	}
	return s.do(workspace.KindClaimWorkspace, c)
}

// flow reads `flow WORKSPACE [flow=] [replace] [name=] [url=] [credential] [unverified]
// [test-account]`.
func (s *workspaceScenario) flow(l *line) string {
	name := l.word(0)
	c := &workspace.SaveFlow{
		Workspace: s.row(name), ID: ID("flow " + l.value("flow", "one")), Replace: l.has("replace"),
		Document: workspace.FlowDocument{
			Name: l.value("name", "Sign up"), Task: "Sign up.",
			URL:             l.value("url", "https://product.example/"),
			SuccessCriteria: "There is an account.", Access: "public",
			VerificationURL:    "https://product.example/me",
			VerificationStatus: 200, VerificationContains: l.value("contains", "ok"),
		},
	}
	if l.has("credential") {
		c.Document.Credential = "bearer"
	}
	if l.has("unverified") {
		c.Document.VerificationURL = ""
	}
	if l.has("test-account") {
		c.Document.Access = "test_account"
	}
	return s.do(workspace.KindSaveFlow, c)
}

func (s *workspaceScenario) flowID(l *line) [16]byte { return ID("flow " + l.value("flow", "one")) }

func (s *workspaceScenario) archive(l *line) string {
	return s.do(workspace.KindArchiveFlow, &workspace.ArchiveFlow{
		Workspace: s.row(l.word(0)), ID: s.flowID(l),
	})
}

func (s *workspaceScenario) confirm(l *line) string {
	return s.do(workspace.KindConfirmSignup, &workspace.ConfirmSignup{
		Workspace: s.row(l.word(0)), ID: s.flowID(l),
	})
}

func (s *workspaceScenario) preflight(l *line) string {
	return s.do(workspace.KindNotePreflight, &workspace.NotePreflight{
		Workspace: s.row(l.word(0)), ID: s.flowID(l), Version: uint32(l.number("version", 1)),
		NoKey:       named[workspace.Called](l.value("none", "refused")),
		WrongKey:    named[workspace.Called](l.value("wrong", "refused")),
		AlreadyTrue: l.has("true-already"),
	})
}

func (s *workspaceScenario) flows(l *printer) {
	views, more := s.m.Flows(s.row(l.word(0)), workspace.Page{Limit: int(l.number("limit", 100))})
	for _, v := range views {
		fmt.Fprintf(l, "%s v%d watch=%s unready=%q busy=%t confirmed=%t\n", v.URL, v.Version,
			v.Watch, v.Unready, v.Open != [16]byte{}, v.SignupConfirmed)
	}
	l.WriteString(when(more, "more\n"))
}
