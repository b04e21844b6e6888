package enginetest

import (
	"fmt"
	"strings"

	"tollgate/engine"
	"tollgate/engine/workspace"
)

// inspect reads `inspect WORKSPACE RUN TEXT [size=] [host=] [key=] [body=] [flow=] [assess] [api=]
// [mcp=] [auth=]`: the text is the document, or its first part; api, mcp and auth, which is whether
// operations need a credential, are what its rules say.
func (s *workspaceScenario) inspect(l *line) string {
	name, part := l.word(0), []byte(l.word(2))
	c := &workspace.SaveInspection{
		Workspace: s.row(name), ID: ID("run " + l.word(1)), Kind: workspace.RunInspection,
		Body: ID("body " + l.value("body", "")), Host: l.value("host", "acme.example"),
		BeganAt: s.log.Stamp - 2000, Size: uint32(l.number("size", int64(len(part)))), Part: part,
	}
	if key := l.value("key", ""); key != "" {
		c.Key = ID("request " + name + " " + key)
	}
	if verdict := l.value("auth", ""); verdict != "" {
		c.Findings = append(c.Findings, workspace.Finding{
			Field: "authentication.requirement", Verdict: verdict, Rule: "auth_" + verdict,
			Quote: "about " + verdict,
		})
	}
	if l.value("flow", "") != "" {
		c.Flow = s.flowID(l)
	}
	if l.has("assess") {
		c.Kind = workspace.RunAssessment
	}
	for _, field := range []string{"api", "mcp"} {
		if verdict := l.value(field, ""); verdict != "" {
			c.Findings = append(c.Findings, workspace.Finding{
				Field: field, Verdict: verdict, Rule: field + "_" + verdict, Quote: "about " + verdict,
			})
		}
	}
	r := s.do(workspace.KindSaveInspection, c)
	if r.Outcome != engine.OutcomeDone {
		return s.outcome(r)
	}
	var made workspace.RunReply
	mustDecode(r.Value, &made)
	return fmt.Sprintf("done same-id=%t repeated=%t", made.ID == c.ID, made.Repeated)
}

// part reads `part RUN TEXT from=`.
func (s *workspaceScenario) part(l *line) string {
	return s.outcome(s.do(workspace.KindAddInspectionPart, &workspace.AddInspectionPart{
		Run: ID("run " + l.word(0)), From: uint32(l.number("from", 0)), Part: []byte(l.word(1)),
	}))
}

// inspection reads `inspection WORKSPACE RUN`.
func (s *workspaceScenario) inspection(l *line) string {
	v, ok := s.m.Inspection(s.row(l.word(0)), ID("run "+l.word(1)))
	if !ok {
		return "unknown"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s %q compared=%t", v.Kind, v.Document, v.Previous != [16]byte{})
	for _, c := range v.Changes {
		fmt.Fprintf(&text, "\n%s: %s (%q) → %s (%q)",
			c.After.Field, c.Before.Rule, c.Before.Quote, c.After.Rule, c.After.Quote)
	}
	return text.String()
}
