package machine

import (
	"reflect"

	"tollgate/engine"
	"tollgate/engine/wire"
)

// An Op is a decoded command. T is the target of a machine's commands. Apply runs on the goroutine
// of the machine's Apply: guards first, one block of mutation last, so that a refused command has
// changed nothing.
type Op[T any] interface {
	Apply(t T) engine.Outcome
}

// Command is a row of a machine's table, which describes one kind. M is the machine.
type Command[M, T any] struct {
	// Name is for logs and scenarios.
	Name string
	// Open decodes a payload. It changes only memory that the machine reuses.
	Open func(m M, payload []byte) (Op[T], error)
	// Once reports whether the command may be carried out once for each Idempotency-Key.
	Once bool
	// Submitted reports whether a proposer that lost the answer needs a Submit around the command.
	Submitted bool
	// Since is from which cluster version on the command may be proposed; nil is always.
	Since func(payload []byte) uint32
	// Always reports whether the command is carried out even in an entry that has reached its work
	// limit.
	Always bool
	// Grows reports whether the command makes the state grow for good; nil is never.
	Grows func(payload []byte) bool
	// Carries returns the command that this one carries; false when it does not decode.
	Carries func(payload []byte) (inner engine.Record, ok bool)
}

// Payload is a command that states its fields to the codec.
type Payload[C any] interface {
	*C
	wire.Fielder
}

// bound is a command with its effect: one allocation for each.
type bound[T, C any, P Payload[C]] struct {
	command C
	apply   func(P, T) engine.Outcome
}

func (b *bound[T, C, P]) Apply(t T) engine.Outcome { return b.apply(&b.command, t) }

func (b *bound[T, C, P]) inner() any { return P(&b.command) }

// Inner returns the command behind an Op: the one that Of decoded, or the Op itself.
func Inner[T any](op Op[T]) any {
	if b, ok := op.(interface{ inner() any }); ok {
		return b.inner()
	}
	return op
}

// Of is the row of a command that is called as its type is.
func Of[M, T, C any, P Payload[C]](apply func(P, T) engine.Outcome) Command[M, T] {
	return Command[M, T]{
		Name: reflect.TypeFor[C]().Name(),
		Open: func(_ M, payload []byte) (Op[T], error) {
			b := &bound[T, C, P]{apply: apply}
			return b, wire.Decode(payload, P(&b.command))
		},
		Since: sinceOf[C, P](),
	}
}

// Carrier is the row of a command that carries another one, which open opens.
func Carrier[M, T, C any, P interface {
	Payload[C]
	Op[T]
	// Carried is the record of the other command.
	Carried() engine.Record
}](open func(P, M) error) Command[M, T] {
	return Command[M, T]{
		Name: reflect.TypeFor[C]().Name(),
		Open: func(m M, payload []byte) (Op[T], error) {
			c := P(new(C))
			if err := wire.Decode(payload, c); err != nil {
				return nil, err
			}
			return c, open(c, m)
		},
		Carries: func(payload []byte) (engine.Record, bool) {
			c := P(new(C))
			err := wire.Decode(payload, c)
			return c.Carried(), err == nil
		},
	}
}

// later is a command of which fields came with a cluster version.
type later interface{ Since() uint32 }

// sinceOf is from which cluster version on a command may be proposed, by the fields that are set;
// nil where all of them were there from the beginning.
func sinceOf[C any, P Payload[C]]() func(payload []byte) uint32 {
	if _, ok := any(P(new(C))).(later); !ok {
		return nil
	}
	return func(payload []byte) uint32 {
		var c C
		if wire.Decode(payload, P(&c)) != nil {
			return 0
		}
		return any(P(&c)).(later).Since()
	}
}

// Table holds a machine's commands by kind. A kind that is not in it stops the replica.
type Table[M, T any] []Command[M, T]

// Find returns the row of a kind; nil when there is none.
func (t Table[M, T]) Find(kind engine.Kind) *Command[M, T] {
	if int(kind) >= len(t) || t[kind].Name == "" {
		return nil
	}
	return &t[kind]
}

// Kinds are the kinds that the table has.
func (t Table[M, T]) Kinds() (kinds []engine.Kind) {
	for kind := range t {
		if t[kind].Name != "" {
			kinds = append(kinds, engine.Kind(kind))
		}
	}
	return kinds
}

// Carried returns the record that another one carries; false where it carries none, or every
// replica will refuse it.
func (t Table[M, T]) Carried(r engine.Record) (inner engine.Record, ok bool) {
	if row := t.Find(r.Kind); row != nil && row.Carries != nil {
		return row.Carries(r.Payload)
	}
	return inner, false
}

// Since is from which cluster version on a record may be proposed, by its kind, by its fields, and
// by those of the records that it carries; 0 is always.
func (t Table[M, T]) Since(r engine.Record) (version uint32) {
	for carried := true; carried; r, carried = t.Carried(r) {
		if row := t.Find(r.Kind); row != nil && row.Since != nil {
			version = max(version, row.Since(r.Payload))
		}
	}
	return version
}

// Grows reports whether a record makes the state grow, also where another command carries it.
func (t Table[M, T]) Grows(r engine.Record) bool {
	for inner, carried := t.Carried(r); carried; inner, carried = t.Carried(r) {
		r = inner
	}
	row := t.Find(r.Kind)
	return row != nil && row.Grows != nil && row.Grows(r.Payload)
}

// CameWith is the table as it would be if a kind had come with a cluster version.
func (t Table[M, T]) CameWith(kind engine.Kind, version uint32) Table[M, T] {
	t = append(Table[M, T](nil), t...)
	t[kind].Since = func([]byte) uint32 { return version }
	return t
}
