package owner

import (
	"strconv"

	"tollgate/engine/workspace"
	sdk "tollgate/sdk/go"
	"tollgate/server/console/page"
	"tollgate/server/workspaceapi"
)

// draft is a flow as a form holds it: one that is to be made, or a change of one.
type draft struct {
	// ID is the flow's from the form's first showing on: sent again, it is the same flow.
	ID string
	// Saved is the flow as it is; nil of a new one.
	Saved  *workspace.FlowView
	Fields map[string]string
	// Wrong is the field that was refused.
	Wrong  string
	Agents []workspaceapi.Agent
}

// Is reports whether a field of the form has this value.
func (d *draft) Is(name, value string) bool { return d.Fields[name] == value }

// newFlow is the form for a new flow.
func newFlow(v *visit) {
	v.showDraft(&draft{
		ID:     workspaceapi.NounFlow.Text(workspaceapi.NewFlow()),
		Fields: map[string]string{"access": "public", "verification.status": "200"},
	})
}

// editFlow is the form for a change of a flow.
func editFlow(v *visit) {
	flow, ok := flows.record(v, v.config.Machine.Flow)
	if !ok {
		return
	}
	fields := map[string]string{
		"name": flow.Name, "url": flow.URL, "task": flow.Task,
		"successCriteria": flow.SuccessCriteria, "access": flow.Access,
		"credential": flow.Credential, "agent": flow.Agent,
		"verification.url": flow.VerificationURL, "verification.contains": flow.VerificationContains,
	}
	if flow.VerificationStatus != 0 {
		fields["verification.status"] = strconv.Itoa(int(flow.VerificationStatus))
	}
	v.showDraft(&draft{ID: workspaceapi.NounFlow.Text(flow.ID), Saved: &flow, Fields: fields})
}

func (v *visit) showDraft(d *draft) {
	d.Agents = v.config.Workspaces.Flows.Agents()
	p := page.View{
		Page: "draft", Title: "New flow", Data: d,
		Lead:   "A task in a product, and the call that proves that it was done. Saving starts nothing.",
		Crumbs: []page.Link{{Text: "Flows", URL: Root + "/flows"}},
	}
	if d.Saved != nil {
		p.Title = "Change " + d.Saved.Name
		p.Lead = "A change is a new version: results of the previous one do not count for it."
		p.Crumbs = append(p.Crumbs, page.Link{Text: d.ID, URL: Root + "/flows/" + d.ID})
	}
	v.show(p)
}

// saveFlow makes or changes the flow that the form names.
func saveFlow(v *visit) {
	id, ok := workspaceapi.NounFlow.Parse(v.fields.Get("id"))
	if !ok {
		v.problem(faultForm)
		newFlow(v)
		return
	}
	fault := v.ask("saveFlow", v.flowFields(), nil, workspaceapi.NounFlow.Text(id))
	if fault == nil {
		v.finish(nil, nil, Root+"/flows/"+workspaceapi.NounFlow.Text(id), "save")
		return
	}
	d := &draft{ID: workspaceapi.NounFlow.Text(id), Fields: map[string]string{}}
	if len(fault.Fields) > 0 {
		d.Wrong = fault.Fields[0].Field
	}
	for name := range v.fields {
		d.Fields[name] = v.fields.Get(name)
	}
	if saved, known := v.config.Machine.Flow(v.who.Workspace, id); known {
		d.Saved = &saved
	}
	v.problem(fault)
	v.notice.Detail = "Nothing was saved. What you wrote is still here."
	v.showDraft(d)
}

// flowFields is the form as a body of the API. What was left empty is taken away.
func (v *visit) flowFields() sdk.FlowChange {
	body := sdk.FlowChange{
		Name: v.change("name"), URL: v.change("url"), Task: v.change("task"),
		SuccessCriteria: v.change("successCriteria"), Access: v.change("access"),
		Credential: v.change("credential"), Agent: v.change("agent"),
		Verification: sdk.Clear[sdk.FlowVerification](),
	}
	if address := v.typed("verification.url"); address != "" {
		proof := sdk.FlowVerification{URL: address, Contains: v.typed("verification.contains")}
		if status := v.typed("verification.status"); status != "" {
			if proof.Status, _ = strconv.Atoi(status); proof.Status == 0 {
				proof.Status = -1 // which the row refuses in its words
			}
		}
		body.Verification = sdk.Set(proof)
	}
	return body
}

// change makes what a field of the form holds the value of the API's field, or none.
func (v *visit) change(name string) sdk.Change[string] {
	if value := v.typed(name); value != "" {
		return sdk.Set(value)
	}
	return sdk.Clear[string]()
}

// archiveFlow takes a flow out of the list; its runs stay.
func archiveFlow(v *visit, id [16]byte) {
	fault := v.ask("archiveFlow", nil, nil, workspaceapi.NounFlow.Text(id))
	v.finish(fault, showFlow, Root+"/flows", "archive")
}
