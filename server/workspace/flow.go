package workspace

import (
	"net/url"
	"slices"

	"tollgate/engine"
	state "tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/provider/fetch"
)

// listFlows is GET /v1/flows.
func (a *API) listFlows(x *server.Exchange) {
	list(a.base, x, "flows", markFlow, a.machine.Flows, writeFlow,
		func(v *state.FlowView) [16]byte { return v.ID })
}

// createFlow is POST /v1/flows.
func (a *API) createFlow(x *server.Exchange) {
	doc, schedule, refused := a.flowBody(x, &state.FlowView{
		FlowDocument: state.FlowDocument{Access: "public"},
	}, false)
	if refused != nil {
		a.refuse(x, *refused)
		return
	}
	c := &state.SaveFlow{Workspace: x.Tenant.Workspace, ID: mint(), Document: doc}
	if a.saveFlow(x, c, true, schedule) {
		a.answerFlow(x, c.ID, 201)
	}
}

func (a *API) answerFlow(x *server.Exchange, id [16]byte, status int) {
	one(a.base, x, "flow", status, func() (state.FlowView, bool) {
		return a.machine.Flow(x.Tenant.Workspace, id)
	}, writeFlow)
}

// getFlow is GET /v1/flows/{flow_id}.
func (a *API) getFlow(x *server.Exchange) {
	if id, ok := a.id(x, markFlow); ok {
		a.answerFlow(x, id, 200)
	}
}

// changeFlow is PATCH /v1/flows/{flow_id}: what is not named stays.
func (a *API) changeFlow(x *server.Exchange) {
	id, ok := a.id(x, markFlow)
	if !ok {
		return
	}
	if !a.fresh() {
		a.refuse(x, no("workspace_busy"))
		return
	}
	before, known := a.machine.Flow(x.Tenant.Workspace, id)
	if !known {
		a.refuse(x, no("not_found"))
		return
	}
	doc, schedule, refused := a.flowBody(x, &before, true)
	if refused != nil {
		a.refuse(x, *refused)
		return
	}
	c := &state.SaveFlow{Workspace: x.Tenant.Workspace, ID: id, Replace: true, Document: doc}
	if a.saveFlow(x, c, doc != before.FlowDocument, schedule) {
		a.answerFlow(x, id, 200)
	}
}

// archiveFlow is DELETE /v1/flows/{flow_id}.
func (a *API) archiveFlow(x *server.Exchange) {
	id, ok := a.id(x, markFlow)
	if !ok {
		return
	}
	c := &state.ArchiveFlow{Workspace: x.Tenant.Workspace, ID: id}
	if _, ok := a.do(x, state.KindArchiveFlow, c); !ok {
		return
	}
	j := x.BeginBare()
	j.Open('{')
	j.Bool("archived", true)
	j.Close('}')
	x.EndBare(200)
}

// flowBody reads a flow's fields over what it was; in a change every field may be left out, and
// null takes away what a flow need not have.
func (a *API) flowBody(x *server.Exchange, before *state.FlowView, change bool,
) (state.FlowDocument, wantedSchedule, *refusal) {
	b, d := open(x, false), before.FlowDocument
	b.noSecrets("")
	read := func(name string, most int, dst *string) {
		if !change || b.given(name) {
			*dst = b.text(name, 1, most)
		}
	}
	read("name", longestName, &d.Name)
	if !change || b.given("url") {
		d.URL = b.address(a.base, "url", 0, true)
	}
	read("task", longestTask, &d.Task)
	read("successCriteria", longestCriteria, &d.SuccessCriteria)
	if !change || b.given("access") {
		if d.Access = b.text("access", 1, 40); d.Access != "public" && d.Access != "test_account" {
			b.fail(badField("invalid_access", "access"))
		}
	}
	a.optional(b, &d)
	d.Host = accessHost(&d)
	schedule := b.schedule(x, before.EveryHours != 0)
	if b.wrong == nil {
		b.fail(flowOptions(&d))
	}
	if schedule.hours > 0 && d.VerificationURL == "" {
		r := unverified()
		b.fail(&r)
	}
	if u, err := url.Parse(d.VerificationURL); b.wrong == nil && d.VerificationURL != "" &&
		(err != nil || !a.reachable(u, portIn(d.URL))) {
		b.fail(badField("invalid_url", "verification.url")) // it had the port that the url had
	}
	return d, schedule, b.close()
}

// optional reads what a flow need not have.
func (a *API) optional(b *body, d *state.FlowDocument) {
	switch {
	case b.taken("credential"):
		d.Credential = ""
	case b.given("credential"):
		switch d.Credential = b.text("credential", 1, 40); d.Credential {
		case "bearer", "token", "x-api-key":
		default:
			b.fail(badField("invalid_field", "credential"))
		}
	}
	switch {
	case b.taken("agent"):
		d.Agent = ""
	case b.given("agent"):
		d.Agent = b.text("agent", 1, 64)
		if _, known := a.agentNamed(d.Agent); !known {
			b.fail(badField("invalid_field", "agent"))
		}
	}
	if b.taken("verification") {
		d.VerificationURL, d.VerificationStatus, d.VerificationContains = "", 0, ""
	}
	a.verification(b, d)
}

// verification reads the flow's verification.
func (a *API) verification(b *body, d *state.FlowDocument) {
	inner := b.inner("verification")
	if inner == nil {
		return
	}
	d.VerificationURL = inner.address(a.base, "url", portIn(d.URL), false)
	d.VerificationStatus, d.VerificationContains = 0, ""
	if inner.has("status") {
		d.VerificationStatus = uint32(inner.number("status", 100, 599))
	}
	if inner.has("contains") {
		d.VerificationContains = inner.text("contains", 0, longestContains)
		if d.VerificationContains != "" && !visible(d.VerificationContains) {
			inner.wants("contains", "a text that is not blank: every page has blanks")
		}
	}
	if refused := inner.close(); refused != nil {
		b.fail(refused)
	}
}

// flowOptions says what does not go together: a credential without a verification, or a
// verification with neither a text nor a credential to prove anything by.
func flowOptions(d *state.FlowDocument) *refusal {
	switch {
	case d.Credential != "" && d.VerificationURL == "":
		return badField("invalid_flow_options", "credential")
	case d.VerificationURL != "" && d.VerificationContains == "" && d.Credential == "":
		return badField("invalid_flow_options", "verification")
	}
	return nil
}

func writeFlow(j *server.JSON, v *state.FlowView) {
	j.Open('{')
	j.Text("id", idText(markFlow, v.ID))
	j.Text("name", v.Name)
	j.Text("url", v.URL)
	j.Text("task", v.Task)
	j.Text("successCriteria", v.SuccessCriteria)
	j.Text("access", v.Access)
	if v.VerificationURL != "" {
		j.Object("verification")
		j.Text("url", v.VerificationURL)
		if v.VerificationStatus != 0 {
			j.Uint("status", uint64(v.VerificationStatus))
		}
		j.TextIf("contains", v.VerificationContains)
		j.Close('}')
	}
	j.TextIf("credential", v.Credential)
	j.TextIf("agent", v.Agent)
	writeSchedule(j, v)
	j.Uint("version", uint64(v.Version))
	j.Bool("signupConfirmed", v.SignupConfirmed)
	idOrNull(j, "openRun", markRun, v.Open)
	j.Time("createdAt", v.CreatedAt)
	j.Time("updatedAt", v.ChangedAt)
	j.Close('}')
}

// confirmSignup is POST /v1/flows/{flow_id}/confirm-signup: a person's alone.
func (a *API) confirmSignup(x *server.Exchange) {
	id, ok := a.id(x, markFlow)
	if !ok {
		return
	}
	if _, known := a.machine.Flow(x.Tenant.Workspace, id); !known && a.fresh() {
		a.refuse(x, no("not_found"))
		return
	}
	if !person(x) {
		a.refuse(x, no("person_required"))
		return
	}
	if refused := open(x, true).close(); refused != nil {
		a.refuse(x, *refused)
		return
	}
	c := &state.ConfirmSignup{Workspace: x.Tenant.Workspace, ID: id}
	if _, ok := a.actAsOwner(x, c.Workspace, state.KindConfirmSignup, c); ok {
		a.answerFlow(x, id, 200)
	}
}

// portIn is the port that a url's text names; 0 is none.
func portIn(text string) uint16 {
	u, err := url.Parse(text)
	if err != nil {
		return 0
	}
	return fetch.PortIn(u)
}

// outcomeDone reports whether a command was carried out.
func outcomeDone(r engine.Result) bool { return r.Outcome == engine.OutcomeDone }

// SaveFlow makes the flow of this id, or changes the one that is there: fields is a body of POST or
// PATCH /v1/flows. Sent again it is the same flow. Refused, field is the one that is wrong, where
// it is one.
func (a *API) SaveFlow(d *Decision, id [16]byte, fields []byte) (field string, f *server.Fault) {
	if !a.fresh() {
		return "", new(no("workspace_busy")).fault()
	}
	x := &server.Exchange{Tenant: a.principal(d), Body: fields}
	before, known := a.machine.Flow(d.Workspace, id)
	if !known {
		before.Access = "public"
	}
	doc, schedule, refused := a.flowBody(x, &before, known)
	if refused != nil {
		return refused.field, refused.fault()
	}
	if schedule.given {
		return "", a.Decide(d, state.KindScheduleFlow, &state.ScheduleFlow{
			Workspace: d.Workspace, Flow: id, EveryHours: schedule.hours, Save: true, Replace: known,
			Document: doc,
		})
	}
	return "", a.Order(d.flow(), state.KindSaveFlow, &state.SaveFlow{
		Workspace: d.Workspace, ID: id, Replace: known, Document: doc,
	})
}

// Agents are what can run flows, the default one first.
func (a *API) Agents() []Agent { return slices.Clone(a.agents) }

// NewFlow is the id of a flow that a form is to make.
func NewFlow() [16]byte { return mint() }
