package billing

import (
	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
)

// maxMemberText bounds what NoteMembership takes of one text, in bytes.
const maxMemberText = 512

// NoteMembership remembers, for the record of admin changes, that the nodes of the cluster have
// changed. The change itself is the cluster's, and has happened.
type NoteMembership struct {
	Actor string `wire:"1"`
	// Action is member.joined, member.promoted, member.removed or leadership.transferred.
	Action string `wire:"2"`
	// Node is the member; Raft, HTTP and Ops are its addresses, of one that was joined.
	Node string `wire:"3"`
	Raft string `wire:"4"`
	HTTP string `wire:"5"`
	Ops  string `wire:"6"`
}

func (c *NoteMembership) apply(t *turn) engine.Outcome {
	for _, text := range []string{c.Actor, c.Action, c.Node, c.Raft, c.HTTP, c.Ops} {
		if len(text) > maxMemberText {
			return engine.OutcomeTooLarge
		}
	}
	t.NoteChange(0, c.Actor, c.Action, c.Node,
		accounts.Given("raft", c.Raft), accounts.Given("http", c.HTTP),
		accounts.Given("ops", c.Ops))
	return engine.OutcomeDone
}
