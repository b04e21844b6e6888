package enginetest

import (
	"fmt"
	"strings"

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
		Key: l.id("key", "request "+name+" "), Flow: l.id("flow", "flow "),
	}
	if verdict := l.value("auth", ""); verdict != "" {
		c.Findings = append(c.Findings, workspace.Finding{
			Field: "authentication.requirement", Verdict: verdict, Rule: "auth_" + verdict,
			Quote: "about " + verdict,
		})
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
	return s.made(s.log.Do(workspace.KindSaveInspection, c), c.ID)
}

// part reads `part RUN TEXT from=`.
func (s *workspaceScenario) part(l *line) string {
	return s.do(workspace.KindAddInspectionPart, &workspace.AddInspectionPart{
		Run: ID("run " + l.word(0)), From: uint32(l.number("from", 0)), Part: []byte(l.word(1)),
	})
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
