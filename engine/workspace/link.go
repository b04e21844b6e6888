package workspace

import (
	"tollgate/engine"
	"tollgate/engine/machine"
	"tollgate/engine/wire"
)

// AnswerLink is a person's answer to an agent that asks to work in one of their workspaces:
// approved (also after another answer), declined, or removed again. Repeating an answer succeeds
// and changes nothing.
type AnswerLink struct {
	Person uint32     `wire:"1"`
	ID     [16]byte   `wire:"2"`
	Answer LinkStatus `wire:"3"`
	// Workspace is the row of the one that an approved agent works in.
	Workspace uint32 `wire:"4"`
}

func (c *AnswerLink) bounds(w *wire.Codec) {
	if w.Decoding() && (c.Answer < LinkApproved || c.Answer > LinkRemoved) {
		w.Fail("an answer of %d", c.Answer)
	}
}

func (c *AnswerLink) apply(x *people, t *machine.Turn) engine.Outcome {
	row := x.linkAsked(c.Person, c.ID)
	if row == 0 {
		return engine.OutcomeRecordUnknown
	}
	l := *x.links.Read(row)
	switch {
	case c.Answer == LinkApproved && !x.ownedBy(c.Workspace, c.Person):
		return engine.OutcomeRecordUnknown
	case c.Answer == l.Status && (c.Answer != LinkApproved || c.Workspace == l.Workspace):
		return engine.OutcomeDone
	case c.Answer == LinkDeclined && l.Status != LinkWaiting,
		c.Answer == LinkRemoved && l.Status != LinkApproved:
		return engine.OutcomeLinkAnswered
	}

	if l.Status == LinkWaiting {
		x.persons.Write(c.Person).Waiting--
	}
	if l.Status, l.AnsweredAt = c.Answer, t.Stamp; c.Answer == LinkApproved {
		l.Workspace = c.Workspace
	}
	*x.links.Write(row) = l
	t.Fold(uint64(row)<<8 | uint64(c.Answer))
	return engine.OutcomeDone
}
