package workspace

import (
	"fmt"
	"strconv"

	"tollgate/engine"
	"tollgate/engine/machine"
	"tollgate/engine/wire"
)

// Act is a command of the person who owns a workspace, or of an operator on their behalf. A record
// of what it changed is kept for good, so that the owner can see who did what. A command with a key
// is carried out once; repeating it succeeds and changes nothing.
type Act struct {
	Workspace uint32   `wire:"1"`
	ID        [16]byte `wire:"2"`
	Actor     string   `wire:"3"` // who acts, ≤ 80 characters
	// Key and Body are hashes of the request's Idempotency-Key and of what it asks for; zero is
	// none.
	Key     [16]byte    `wire:"4"`
	Body    [16]byte    `wire:"5"`
	Kind    engine.Kind `wire:"6"`
	Payload []byte      `wire:"7"`
	// Person is the owner who has signed in; 0 for an operator.
	Person uint32 `wire:"8"`
	// inner is the command that Payload holds, row what is said of it.
	inner machine.Op[*turn]
	row   action
}

// visitor is the person who acts. The workspace is that person's, or has no owner.
type visitor struct {
	person     uint32
	owns, free bool
}

// acting is what is said of a command that Act carries.
type acting[C any] struct {
	name string
	// about returns the workspace that the command is for, 0 where its purchase says so, and the
	// purchase or flow that it is about; zero is none.
	about func(c *C) (workspace uint32, subject [16]byte)
	// within, where it is set, says in place of about whether the command is about the Act's
	// workspace.
	within func(c *C, x *money, a *Act) bool
	// may reports whether a person may do this; nil is that the workspace must be theirs.
	may func(c *C, p visitor) bool
	// personal reports whether an operator may not.
	personal bool
	// note is what the record of the act says in addition to its changes.
	note func(c *C) string
}

// operators is the may of what no person does.
func operators[C any](*C, visitor) bool { return false }

// action is an acting, whatever command it is of.
type action interface {
	called() string
	subjectOf(a *Act) [16]byte
	isWithin(x *money, a *Act) bool
	permits(a *Act, p visitor) bool
	isPersonal() bool
	noteOf(a *Act) string
}

// act is the row of a command that Act carries.
func act[O, C any, P machine.Payload[C]](owner func(*state) *O,
	apply func(P, *O, *machine.Turn) engine.Outcome, how acting[C],
) command {
	c := of(owner, apply)
	c.act = how
	return c
}

func (r acting[C]) command(a *Act) *C { return machine.Inner(a.inner).(*C) }

func (r acting[C]) called() string   { return r.name }
func (r acting[C]) isPersonal() bool { return r.personal }

func (r acting[C]) subjectOf(a *Act) (subject [16]byte) {
	if r.about != nil {
		_, subject = r.about(r.command(a))
	}
	return subject
}

func (r acting[C]) isWithin(x *money, a *Act) bool {
	if r.within != nil {
		return r.within(r.command(a), x, a)
	}
	workspace, subject := r.about(r.command(a))
	return workspace == a.Workspace || workspace == 0 && x.purchases.of(a.Workspace, subject) != 0
}

func (r acting[C]) permits(a *Act, p visitor) bool {
	if r.may == nil {
		return p.owns
	}
	return r.may(r.command(a), p)
}

func (r acting[C]) noteOf(a *Act) string {
	if r.note == nil {
		return ""
	}
	return r.note(r.command(a))
}

// actionOf finds what is said of a kind that Act carries; nil of another.
func actionOf(kind engine.Kind) action {
	if int(kind) >= len(registry) {
		return nil
	}
	return registry[kind].act
}

func openAct(m *Machine, payload []byte) (machine.Op[*turn], error) {
	c := new(Act)
	if err := wire.Decode(payload, c); err != nil {
		return nil, err
	}
	if c.row = actionOf(c.Kind); c.row == nil {
		return nil, fmt.Errorf("%w: kind %d is not an act", wire.ErrField, c.Kind)
	}
	var err error
	c.inner, err = registry[c.Kind].Open(m, c.Payload)
	return c, err
}

func carriedByAct(payload []byte) (inner engine.Record, ok bool) {
	var c Act
	err := wire.Decode(payload, &c)
	return engine.Record{Kind: c.Kind, Payload: c.Payload}, err == nil
}

// allowed reports whether the person or operator may do this.
func (c *Act) allowed(x *state, t *machine.Turn) engine.Outcome {
	if c.Person == 0 {
		if c.row.isPersonal() {
			return engine.OutcomePersonRequired
		}
		return engine.OutcomeDone
	}
	p, ok := x.person(c.Person)
	if p.roll(t.Stamp); !ok || p.Agent {
		return engine.OutcomePersonRequired
	}
	if p.Acted >= MaxActsPerDay {
		t.Answer(&RetryReply{ResetsAt: nextDay(t.Stamp), Limit: MaxActsPerDay})
		return engine.OutcomeActLimit
	}
	if !c.row.permits(c, visitor{
		person: c.Person, owns: x.ownedBy(c.Workspace, c.Person),
		free: x.workspaces.Read(c.Workspace).ClaimedAt == 0,
	}) {
		return engine.OutcomeRecordUnknown
	}
	return engine.OutcomeDone
}

// Apply implements machine.Op.
func (c *Act) Apply(turn *turn) engine.Outcome {
	x, t := turn.state, &turn.Turn
	if _, ok := x.workspace(c.Workspace); !ok || !c.row.isWithin(&x.money, c) {
		return engine.OutcomeRecordUnknown
	}
	if refused := c.allowed(x, t); refused != engine.OutcomeDone {
		return refused
	}
	if _, outcome := x.replay(c.Key, c.Body); outcome != engine.OutcomeNone {
		return outcome
	}
	if c.Key != ([16]byte{}) && x.requests.Full() {
		return engine.OutcomeKeysFull
	}
	if set, ok := machine.Inner(c.inner).(*SetAlerts); ok && c.Person != 0 {
		set.unvouched = x.emailBy[Address(set.Email)] != c.Person
	}
	subject := c.row.subjectOf(c)
	before := x.values(c.Workspace, subject)
	if outcome := c.inner.Apply(turn); outcome != engine.OutcomeDone {
		return outcome
	}
	after := x.values(c.Workspace, subject)
	if c.Person != 0 {
		p := x.persons.Write(c.Person)
		p.roll(t.Stamp)
		p.Acted++
	}

	w := x.workspaces.Write(c.Workspace)
	row, next := x.actRows.Append()
	*next = actRow{
		actFacts: actFacts{
			ID: c.ID, At: t.Stamp, Actor: c.Actor, Subject: subject, Note: c.row.noteOf(c),
		},
		Workspace: c.Workspace, Before: w.Acts, Kind: c.Kind, Person: c.Person,
	}
	for i := range before {
		if before[i].After != after[i].After {
			next.Changes = append(next.Changes, ActChange{
				Name: before[i].Name, Before: before[i].After, After: after[i].After,
			})
		}
	}
	w.Acts = row
	x.keepRequest(t, c.Key, c.Body, madeAct, row)
	t.Fold(uint64(row))
	return engine.OutcomeDone
}

// values are what acts change, as it is now, always in the same order. The subject is a
// purchase or a flow of the workspace.
func (x *state) values(row uint32, subject [16]byte) []ActChange {
	w := x.workspaces.Read(row)
	values := []ActChange{
		{Name: "owner", After: w.Owner},
		{Name: "capCents", After: strconv.FormatUint(uint64(w.Ledger.CapCents), 10)},
		{Name: "capApproved", After: strconv.FormatBool(w.Ledger.CapApproved)},
		{Name: "paused", After: strconv.FormatBool(w.Ledger.Paused)},
		{Name: "creditsGranted", After: strconv.FormatUint(w.Ledger.CreditsGranted, 10)},
		{Name: "status"},
		{Name: "signupConfirmed"},
		{Name: "refund"},
		{Name: "removed", After: strconv.FormatBool(w.GoneAt != 0)},
	}
	if p := x.purchases.of(row, subject); p != 0 {
		values[5].After = x.purchases.Read(p).Status.String()
		values[7].After = x.purchases.Read(p).refund()
	}
	f := x.flowRow(row, subject)
	if f != 0 {
		values[6].After = strconv.FormatBool(x.flows.Read(f).SignupConfirmed)
	}
	return append(append(values, x.alertValues(f)...), x.scheduleValues(f))
}
