package workspace

import (
	"tollgate/engine/fair"
	state "tollgate/engine/workspace"
	"tollgate/server"
)

// Caller is whom a key or session of the workspace API speaks for.
type Caller state.Principal

// Reset implements server.Caller.
func (c *Caller) Reset() { *c = Caller{} }

// Flow is the workspace's, or the person's.
func (c *Caller) Flow() fair.Flow { return FlowOf(c.Workspace, c.Person) }

// Flows of requests that no account of the billing API makes.
const (
	flowWorkspaces fair.Flow = 1 << 30
	flowPersons    fair.Flow = 1 << 29
)

// FlowOf is the flow of a workspace; of a person who works in none (row 0), that person's; 0 of
// neither.
func FlowOf(workspace, person uint32) fair.Flow {
	switch {
	case workspace != 0:
		return flowWorkspaces | fair.Flow(workspace)
	case person != 0:
		return flowPersons | fair.Flow(person)
	}
	return 0
}

// tenant is whom the request's key or session speaks for; of a row on the operators' listener it is
// nobody.
func tenant(x *server.Exchange) *state.Principal {
	c, ok := x.Caller.(*Caller)
	if !ok {
		c = new(Caller)
	}
	return (*state.Principal)(c)
}

// person reports whether a person asks, and neither a key nor an agent.
func person(x *server.Exchange) bool { return tenant(x).Person != 0 && !tenant(x).Agent }
