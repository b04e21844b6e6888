package billing

import (
	"fmt"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/machine"
	"tollgate/engine/page"
	"tollgate/engine/wire"
)

// Submit carries out another command once, however often the record reaches the log: a proposer
// that lost its answer sends it again, and must not undo what others changed meanwhile. Commands
// that mint ids, carry keys or end in a final state recognize their repetition. Submitted commands
// of the table state a result, and cannot. A repetition is the same success, without a reply.
type Submit struct {
	ID      [16]byte    `wire:"1"` // of the request, made by its proposer
	Kind    engine.Kind `wire:"2"`
	Payload []byte      `wire:"3"`

	inner op
}

// Repeatable makes a record of a command that may be sent again at any time: the command itself, or
// a Submit around it, which mint names.
func (m *Machine) Repeatable(kind engine.Kind, payload []byte, mint func() [16]byte) engine.Record {
	if row := table.Find(kind); row == nil || !row.Submitted {
		return engine.Record{Kind: kind, Payload: payload}
	}
	c := Submit{ID: mint(), Kind: kind, Payload: payload}
	return engine.Record{Kind: KindSubmit, Payload: wire.Encode(nil, &c)}
}

// open reads the command that it carries.
func (c *Submit) open(m *Machine) (err error) {
	row := m.kernel.Table.Find(c.Kind)
	if row == nil || !row.Submitted {
		return fmt.Errorf("a command of kind %d is not carried by Submit", c.Kind)
	}
	c.inner, err = row.Open(m, c.Payload)
	return err
}

// Carried is part of machine.Carrier.
func (c *Submit) Carried() engine.Record { return engine.Record{Kind: c.Kind, Payload: c.Payload} }

// Apply implements machine.Op.
func (c *Submit) Apply(t *turn) engine.Outcome {
	if t.submissions.Newest(&c.ID) != 0 {
		return engine.OutcomeDone
	}
	if outcome := c.inner.Apply(t); outcome != engine.OutcomeDone {
		return outcome
	}

	t.submissions.Keep(submission{c.ID})
	t.Fold(t.submissions.To)
	return engine.OutcomeDone
}

// MaxSubmissions bounds the submissions that one group remembers; a new one replaces the oldest. A
// proposer gives up after seconds, and by then none of its frames or entries can arrive any more.
const MaxSubmissions = 65_536

// submission is one that was carried out.
//
//schema:row
type submission struct{ id [16]byte }

// openSubmissions makes the ring of submissions, which keeps as many as fit.
func openSubmissions(s *state) machine.Ring[submission] {
	return machine.Ring[submission]{
		Table: page.NewTable(s.Store, accounts.TableSubmissions, submissionCodec), Max: MaxSubmissions,
		By: page.NewIndex(), Hash: s.IDHash, Key: func(r *submission) [16]byte { return r.id },
	}
}
