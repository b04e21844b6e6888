package workspace

import (
	"tollgate/engine"
	"tollgate/engine/machine"
)

// command is a row of the table: see machine.Command.
type command struct {
	machine.Command[*Machine, *turn]
	// act is the name of a command that Act carries; empty for the others.
	act string
	// ownersOnly and operatorsOnly report who alone may do it.
	ownersOnly, operatorsOnly bool
}

// of is the row of a command that an owner applies.
func of[O, C any, P machine.Payload[C]](owner func(*state) *O,
	apply func(P, *O, *machine.Turn) engine.Outcome,
) command {
	return command{Command: machine.Of[*Machine](func(c P, t *turn) engine.Outcome {
		return apply(c, owner(t.state), &t.Turn)
	})}
}

// existing is the effect of a command about something that has to exist: what find finds by the
// command's method about. Where that is nothing, the command is refused.
func existing[O, C any, P interface {
	machine.Payload[C]
	about() (workspace uint32, id [16]byte)
}](find func(x *O, workspace uint32, id [16]byte) uint32,
	apply func(c P, x *O, t *machine.Turn, row uint32) engine.Outcome,
) func(P, *O, *machine.Turn) engine.Outcome {
	return func(c P, x *O, t *machine.Turn) engine.Outcome {
		workspace, id := c.about()
		row := find(x, workspace, id)
		if row == 0 {
			return engine.OutcomeRecordUnknown
		}
		return apply(c, x, t, row)
	}
}

// The owners whose commands there are.
func ofSpaces(s *state) *spaces { return &s.spaces }

func ofNotices(s *state) *notices { return &s.notices }

func ofMoney(s *state) *money { return &s.money }

func ofFlows(s *state) *flowStore { return &s.flowStore }

func ofRuns(s *state) *runner { return &s.runner }

func ofPeople(s *state) *people { return &s.people }

// act is the row of a command that Act carries.
func act[O, C any, P interface {
	machine.Payload[C]
	deed
}](owner func(*state) *O, apply func(P, *O, *machine.Turn) engine.Outcome, name string) command {
	c := of(owner, apply)
	c.act = name
	return c
}

// personal states that no operator may do it, operators that no owner may.
func (c command) personal() command {
	c.ownersOnly = true
	return c
}

func (c command) operators() command {
	c.operatorsOnly = true
	return c
}

func (c command) growing() command { return c.growingBy(func([]byte) bool { return true }) }

func (c command) growingBy(grows func(payload []byte) bool) command {
	c.Grows = grows
	return c
}

// turn is one entry's turn in Apply: the state that it may change, and the record that is carried
// out.
type turn struct {
	machine.Turn
	*state
}
