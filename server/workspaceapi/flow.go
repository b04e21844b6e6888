package workspaceapi

import (
	"net/url"
	"slices"

	"tollgate/engine"
	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/form"
	"tollgate/server/provider/fetch"
)

// flowRequest is what a flow is to say.
//
//schema:described workspaceapi FlowRequest
//schema:described workspaceapi FlowChange patch
type flowRequest struct {
	Name            string `json:"name" rule:"required,min=1,max=120"`
	URL             string `json:"url" rule:"required,min=1"`
	Task            string `json:"task" rule:"required,min=1,max=2000"`
	SuccessCriteria string `json:"successCriteria" rule:"required,min=1,max=1000"`
	// Access is public or test_account.
	Access       string           `json:"access" rule:"required"`
	Verification flowVerification `json:"verification" rule:"null"`
	// Credential is what the agent is to obtain: bearer, token or x-api-key.
	Credential string `json:"credential" rule:"null"`
	// Agent is the name of a configured agent; empty is the default one.
	Agent    string       `json:"agent" rule:"null,min=1,max=64"`
	Schedule flowSchedule `json:"schedule" rule:"null"`
}

// flowSchedule is when a flow's runs begin by themselves.
//
//schema:described workspaceapi FlowSchedule
type flowSchedule struct {
	EveryHours uint32 `json:"everyHours" rule:"required"`
}

// The bodies of a new flow and of a change, in which null takes away what is there.
var (
	newFlow = server.RequestSchema[flowRequest](server.Must("access", accessSchema()),
		server.May("verification", verificationSchema()),
		server.May("credential", credentialSchema()), server.May("schedule", scheduleBody()))
	changedFlow = server.ChangeSchema[flowRequest](server.May("access", accessSchema()),
		server.May("verification", server.OrNull(verificationSchema())),
		server.May("credential", server.OrNull(credentialSchema())),
		server.May("schedule", scheduleBody()))
)

func (f *Flows) listFlows(x *server.Exchange) *server.Fault {
	return list(f.base, x, "flows", markFlow, f.machine.Flows, writeFlow,
		func(v *workspace.FlowView) [16]byte { return v.ID })
}

func (f *Flows) createFlow(x *server.Exchange) *server.Fault {
	doc, schedule, refused := f.flowBody(x, &workspace.FlowView{
		FlowDocument: workspace.FlowDocument{Access: "public"},
	}, false)
	if refused != nil {
		return refused
	}
	c := &workspace.SaveFlow{Workspace: tenant(x).Workspace, ID: mint(), Document: doc}
	if refused = f.saveFlow(x, c, true, schedule); refused != nil {
		return refused
	}
	return f.answerFlow(x, c.ID, 201)
}

func (f *Flows) answerFlow(x *server.Exchange, id [16]byte, status int) *server.Fault {
	return one(f.base, x, "flow", status, func() (workspace.FlowView, bool) {
		return f.machine.Flow(tenant(x).Workspace, id)
	}, writeFlow)
}

func (f *Flows) getFlow(x *server.Exchange, id [16]byte) *server.Fault {
	return f.answerFlow(x, id, 200)
}

// flow finds a flow in memory that holds every acknowledged write.
func (b *base) flow(x *server.Exchange, id [16]byte) (workspace.FlowView, *server.Fault) {
	if !b.fresh() {
		return workspace.FlowView{}, no("workspace_busy")
	}
	v, known := b.machine.Flow(tenant(x).Workspace, id)
	if !known {
		return v, no("not_found")
	}
	return v, nil
}

// changeFlow is PATCH /v1/flows/{flow_id}: what is not named stays.
func (f *Flows) changeFlow(x *server.Exchange, id [16]byte) *server.Fault {
	before, fault := f.flow(x, id)
	if fault != nil {
		return fault
	}
	doc, schedule, fault := f.flowBody(x, &before, true)
	if fault != nil {
		return fault
	}
	c := &workspace.SaveFlow{Workspace: tenant(x).Workspace, ID: id, Replace: true, Document: doc}
	if fault = f.saveFlow(x, c, doc != before.FlowDocument, schedule); fault != nil {
		return fault
	}
	return f.answerFlow(x, id, 200)
}

func (f *Flows) archiveFlow(x *server.Exchange, id [16]byte) *server.Fault {
	c := &workspace.ArchiveFlow{Workspace: tenant(x).Workspace, ID: id}
	if fault := f.do(x, workspace.KindArchiveFlow, c); fault != nil {
		return fault
	}
	return x.BareObject(200, func(j *server.JSON) { j.Bool("archived", true) })
}

// flowBody reads a flow's fields over what it was; in a change every field may be left out, and
// null takes away what a flow need not have.
func (f *Flows) flowBody(x *server.Exchange, before *workspace.FlowView, change bool,
) (workspace.FlowDocument, wantedSchedule, *server.Fault) {
	b, d := open(x, false), before.FlowDocument
	if b.schema = newFlow; change {
		b.schema = changedFlow
	}
	b.noSecrets("")
	read := func(name string, dst *string) {
		if !change || b.given(name) {
			*dst = b.stated(name)
		}
	}
	read("name", &d.Name)
	if !change || b.given("url") {
		d.URL = b.address(f.base, "url", 0, true)
	}
	read("task", &d.Task)
	read("successCriteria", &d.SuccessCriteria)
	if !change || b.given("access") {
		if d.Access = b.text("access", 1, 40); d.Access != "public" && d.Access != "test_account" {
			b.fail(badField("invalid_access", "access"))
		}
	}
	f.optional(b, &d)
	d.Host = accessHost(&d)
	schedule := b.schedule(x, before.EveryHours != 0)
	if change && d == before.FlowDocument && schedule.hours == 0 {
		return d, schedule, b.close() // it was judged when it was saved, and nothing new begins
	}
	if b.wrong == nil {
		b.fail(flowOptions(&d))
	}
	if schedule.hours > 0 && d.VerificationURL == "" {
		b.fail(unverified())
	}
	if u, err := url.Parse(d.VerificationURL); b.wrong == nil && d.VerificationURL != "" &&
		(err != nil || !f.reachable(u, portIn(d.URL))) {
		b.fail(badField("invalid_url", "verification.url")) // it had the port that the url had
	}
	return d, schedule, b.close()
}

// optional reads what a flow need not have.
func (f *Flows) optional(b *body, d *workspace.FlowDocument) {
	switch {
	case b.taken("credential"):
		d.Credential = ""
	case b.given("credential"):
		switch d.Credential = b.text("credential", 1, 40); d.Credential {
		case "bearer", "token", "x-api-key":
		default:
			b.mistake("credential", form.NotAllowed("bearer", "token", "x-api-key"))
		}
	}
	switch {
	case b.taken("agent"):
		d.Agent = ""
	case b.given("agent"):
		d.Agent = b.stated("agent")
		if _, known := f.agentNamed(d.Agent); !known {
			b.fail(badField("invalid_field", "agent"))
		}
	}
	if b.taken("verification") {
		d.VerificationURL, d.VerificationStatus, d.VerificationContains = "", 0, ""
	}
	f.verification(b, d)
}

func (f *Flows) verification(b *body, d *workspace.FlowDocument) {
	inner := b.inner("verification")
	if inner == nil {
		return
	}
	d.VerificationURL = inner.address(f.base, "url", portIn(d.URL), false)
	d.VerificationStatus, d.VerificationContains = 0, ""
	if inner.has("status") {
		d.VerificationStatus = uint32(inner.number("status", 100, 599))
	}
	if inner.has("contains") {
		d.VerificationContains = inner.stated("contains")
		if d.VerificationContains != "" && !visible(d.VerificationContains) {
			inner.mistake("contains", form.Blank)
		}
	}
	if refused := inner.close(); refused != nil {
		b.fail(refused)
	}
}

// flowOptions says what does not go together: a credential without a verification, or a
// verification with neither a text nor a credential to prove anything by.
func flowOptions(d *workspace.FlowDocument) *server.Fault {
	switch {
	case d.Credential != "" && d.VerificationURL == "":
		return badField("invalid_flow_options", "credential")
	case d.VerificationURL != "" && d.VerificationContains == "" && d.Credential == "":
		return badField("invalid_flow_options", "verification")
	}
	return nil
}

// confirmSignup is POST /v1/flows/{flow_id}/confirm-signup: a person's alone.
func (f *Flows) confirmSignup(x *server.Exchange, id [16]byte) *server.Fault {
	if _, known := f.machine.Flow(tenant(x).Workspace, id); !known && f.fresh() {
		return no("not_found")
	}
	if !person(x) {
		return no("person_required")
	}
	fault := fieldless(x)
	if fault == nil {
		c := &workspace.ConfirmSignup{Workspace: tenant(x).Workspace, ID: id}
		fault = f.actAsOwner(x, c.Workspace, workspace.KindConfirmSignup, c)
	}
	if fault != nil {
		return fault
	}
	return f.answerFlow(x, id, 200)
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

// putFlow is what a page calls: it makes the flow of this id, or changes the one that is there, by
// a body of POST or PATCH /v1/flows. Sent again it is the same flow.
func (f *Flows) putFlow(x *server.Exchange, id [16]byte) *server.Fault {
	if !f.fresh() {
		return no("workspace_busy")
	}
	c := &workspace.SaveFlow{Workspace: tenant(x).Workspace, ID: id}
	before, known := f.machine.Flow(c.Workspace, id)
	if c.Replace = known; !known {
		before.Access = "public"
	}
	doc, schedule, fault := f.flowBody(x, &before, known)
	if fault != nil {
		return fault
	}
	c.Document = doc
	if fault = f.saveFlow(x, c, true, schedule); fault != nil {
		return fault
	}
	return f.answerFlow(x, id, 200)
}

// Agents are what can run flows, the default one first.
func (f *Flows) Agents() []Agent { return slices.Clone(f.agents) }

// NewFlow is the id of a flow that a form is to make.
func NewFlow() [16]byte { return mint() }
