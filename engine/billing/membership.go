package billing

import (
	"tollgate/engine"
	"tollgate/engine/wire"
)

// longestMemberText bounds what NoteMembership takes of one text, in bytes.
const longestMemberText = 512

// NoteMembership remembers, for the record of admin changes, that the nodes of the cluster have
// changed. The change itself is the cluster's, and has happened.
type NoteMembership struct {
	Actor string
	// Action is member.joined, member.promoted, member.removed or leadership.transferred.
	Action string
	// Node is the member; Raft, HTTP and Ops are its addresses, of one that was joined.
	Node, Raft, HTTP, Ops string
}

// Fields states the command's fields.
func (c *NoteMembership) Fields(w *wire.Codec) {
	w.String(1, &c.Actor)
	w.String(2, &c.Action)
	w.String(3, &c.Node)
	w.String(4, &c.Raft)
	w.String(5, &c.HTTP)
	w.String(6, &c.Ops)
}

func (c *NoteMembership) apply(t *turn) engine.Outcome {
	for _, text := range []string{c.Actor, c.Action, c.Node, c.Raft, c.HTTP, c.Ops} {
		if len(text) > longestMemberText {
			return engine.OutcomeTooLarge
		}
	}
	t.note(change{Actor: c.Actor, Action: c.Action, Subject: c.Node, Values: []FieldChange{
		{"raft", "", c.Raft}, {"http", "", c.HTTP}, {"ops", "", c.Ops},
	}})
	return engine.OutcomeDone
}
