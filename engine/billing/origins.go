package billing

import (
	"slices"
	"strings"

	"tollgate/engine"
)

// MaxOrigins is how many origins an environment lists.
const MaxOrigins = 50

// SetOrigins replaces the list of origins (scheme://host[:port]) whose pages may use the customer
// keys of an environment. The list that is there already is the same success again.
type SetOrigins struct {
	Env     uint32   `wire:"1"`
	Origins []string `wire:"2"`
	Actor   string   `wire:"3"`
}

func (c *SetOrigins) apply(t *turn) engine.Outcome {
	e := t.environment(c.Env)
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	if len(c.Origins) > MaxOrigins {
		return engine.OutcomeAccountLimit
	}
	if slices.Equal(e.listedOrigins(), c.Origins) {
		return engine.OutcomeDone
	}

	before := strings.Join(e.listedOrigins(), " ")
	origins := append([]string(nil), c.Origins...)
	e.origins.Store(&origins)
	t.note(change{Env: c.Env, Actor: c.Actor, Action: "origins.set", Values: []FieldChange{
		{"origins", before, strings.Join(origins, " ")},
	}})
	return engine.OutcomeDone
}

func (e *environment) listedOrigins() []string {
	if p := e.origins.Load(); p != nil {
		return *p
	}
	return nil
}

// Origins are the origins that an environment lists.
func (m *Machine) Origins(env uint32) []string {
	e := m.state.Load().environment(env)
	if e == nil {
		return nil
	}
	return e.listedOrigins()
}

// OriginListed reports whether any environment lists an origin: what a browser asks before it sends
// a key cannot name an environment.
func (m *Machine) OriginListed(origin string) bool {
	for _, e := range m.state.Load().environments.all() {
		for _, listed := range e.listedOrigins() {
			if listed == origin {
				return true
			}
		}
	}
	return false
}
