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
	// inner is the command that Payload holds, deed the same as what is done.
	inner machine.Op[*turn]
	deed  deed
}

// visitor is the person who acts. The workspace is that person's, or has no owner.
type visitor struct {
	person     uint32
	owns, free bool
}

// deed is a command that Act carries.
type deed interface {
	// about returns the workspace that the command is for, 0 where its purchase says so, and the
	// purchase or flow that it is about; zero is none. Act judges by it who may do this. A command
	// whose row finds what it is about (existing) has it generated, of its fields Workspace and ID.
	about() (workspace uint32, subject [16]byte)
}

// A deed may also have these methods.
type (
	// placed says in place of about whether the deed is about the Act's workspace.
	placed interface{ concerns(x *money, a *Act) bool }
	// judged reports whether a person may do it; without it the workspace must be theirs.
	judged interface{ may(p visitor) bool }
	// noted is what the record of the act says in addition to its changes.
	noted interface{ note() string }
)

func (c *ClaimWorkspace) about() (uint32, [16]byte)    { return 0, [16]byte{} }
func (c *GrantCredits) about() (uint32, [16]byte)      { return c.Workspace, [16]byte{} }
func (c *SetAlerts) about() (uint32, [16]byte)         { return c.Workspace, c.Flow }
func (c *RotateAlertSecret) about() (uint32, [16]byte) { return c.Workspace, c.Flow }
func (c *SendTestAlert) about() (uint32, [16]byte)     { return c.Workspace, c.Flow }
func (c *ScheduleFlow) about() (uint32, [16]byte)      { return c.Workspace, c.Flow }
func (c *SetTestAccess) about() (uint32, [16]byte)     { return c.Workspace, [16]byte{} }
func (c *RemoveTestAccess) about() (uint32, [16]byte)  { return c.Workspace, [16]byte{} }

func (c *ClaimWorkspace) concerns(x *money, a *Act) bool {
	return a.Person == 0 && c.Code == [32]byte{} && x.workspaces.find(c.ID) == a.Workspace ||
		a.Person != 0 && x.claimRow(&c.Code) == a.Workspace
}

func (c *ClaimWorkspace) may(p visitor) bool  { return p.free && c.Person == p.person }
func (c *ApprovePurchase) may(p visitor) bool { return (p.owns || p.free) && c.Person == p.person }
func (c *DenyPurchase) may(p visitor) bool    { return p.owns || p.free }
func (c *CancelPurchase) may(p visitor) bool  { return p.owns && c.Person }

func (c *GrantCredits) note() string     { return c.Note }
func (c *SetTestAccess) note() string    { return c.Host }
func (c *RemoveTestAccess) note() string { return c.Host }

func (c *Act) isWithin(x *money) bool {
	if of, ok := c.deed.(placed); ok {
		return of.concerns(x, c)
	}
	workspace, subject := c.deed.about()
	return workspace == c.Workspace || workspace == 0 && x.purchases.of(c.Workspace, subject) != 0
}

func (c *Act) permits(p visitor) bool {
	if of, ok := c.deed.(judged); ok {
		return of.may(p)
	}
	return p.owns && !registry[c.Kind].operatorsOnly
}

// isAct reports whether Act carries a kind.
func isAct(kind engine.Kind) bool { return int(kind) < len(registry) && registry[kind].act != "" }

// open reads the command that it carries.
func (c *Act) open(m *Machine) (err error) {
	if !isAct(c.Kind) {
		return fmt.Errorf("%w: kind %d is not an act", wire.ErrField, c.Kind)
	}
	if c.inner, err = registry[c.Kind].Open(m, c.Payload); err == nil {
		c.deed = machine.Inner(c.inner).(deed)
	}
	return err
}

// Carried is part of machine.Carrier.
func (c *Act) Carried() engine.Record { return engine.Record{Kind: c.Kind, Payload: c.Payload} }

// allowed reports whether the person or operator may do this.
func (c *Act) allowed(x *state, t *machine.Turn) engine.Outcome {
	if c.Person == 0 {
		if registry[c.Kind].ownersOnly {
			return engine.OutcomePersonRequired
		}
		return engine.OutcomeDone
	}
	p, ok := x.person(c.Person)
	if p.roll(t.Stamp); !ok || p.Agent {
		return engine.OutcomePersonRequired
	}
	if p.Acted >= MaxActsPerDay {
		t.Answer(&RetryReply{ResetsAt: DayEnd(t.Stamp), Limit: MaxActsPerDay})
		return engine.OutcomeActLimit
	}
	if !c.permits(visitor{
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
	if _, ok := x.workspace(c.Workspace); !ok || !c.isWithin(&x.money) {
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
	if set, ok := c.deed.(*SetAlerts); ok && c.Person != 0 {
		set.unvouched = x.emailBy[Address(set.Email)] != c.Person
	}
	_, subject := c.deed.about()
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
			ID: c.ID, At: t.Stamp, Actor: c.Actor, Subject: subject,
		},
		Workspace: c.Workspace, Before: w.Acts, Kind: c.Kind, Person: c.Person,
	}
	if of, ok := c.deed.(noted); ok {
		next.Note = of.note()
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
