package workspace

import (
	"fmt"
	"strconv"

	"tollgate/engine"
	"tollgate/engine/wire"
)

// Act is a command that the person gives who owns a workspace, or an operator for them. What it
// changed is kept with it for good, so that the owner can be told who did what. With a key it is
// carried out once: the same again is the same success again.
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
	// inner is the command that Payload holds.
	inner command
}

// acts are what owners do, and operators for them.
var acts = map[engine.Kind]struct {
	name   string
	decode func(m *Machine, payload []byte) (command, error)
}{
	KindClaimWorkspace:    {"claim", decodeFields[ClaimWorkspace]},
	KindConfirmSignup:     {"confirm_signup", decodeFields[ConfirmSignup]},
	KindApprovePurchase:   {"approve", decodeFields[ApprovePurchase]},
	KindDenyPurchase:      {"deny", decodeFields[DenyPurchase]},
	KindCancelPurchase:    {"cancel", decodeFields[CancelPurchase]},
	KindSetBilling:        {"set_billing", decodeFields[SetBilling]},
	KindGrantCredits:      {"grant_credits", decodeFields[GrantCredits]},
	KindRetryRefund:       {"retry_refund", decodeFields[RetryRefund]},
	KindRemoveWorkspace:   {"remove", decodeFields[RemoveWorkspace]},
	KindSetAlerts:         {"set_alerts", decodeFields[SetAlerts]},
	KindRotateAlertSecret: {"rotate_alert_secret", decodeFields[RotateAlertSecret]},
	KindSendTestAlert:     {"test_alert", decodeFields[SendTestAlert]},
	KindRotateKeys:        {"rotate_keys", decodeFields[RotateKeys]},
	KindScheduleFlow:      {"schedule_flow", decodeFields[ScheduleFlow]},
	KindSetTestAccess:     {"set_test_access", decodeFields[SetTestAccess]},
	KindRemoveTestAccess:  {"remove_test_access", decodeFields[RemoveTestAccess]},
}

func decodeAct(m *Machine, payload []byte) (command, error) {
	c := new(Act)
	if err := wire.Decode(payload, c); err != nil {
		return nil, err
	}
	known, ok := acts[c.Kind]
	if !ok {
		return nil, fmt.Errorf("%w: nobody acts by kind %d", wire.ErrField, c.Kind)
	}
	var err error
	c.inner, err = known.decode(m, c.Payload)
	return c, err
}

// subject is the purchase or flow that the command is about; zero is none.
func (c *Act) subject() [16]byte {
	switch inner := c.inner.(type) {
	case *ConfirmSignup:
		return inner.ID
	case *ApprovePurchase:
		return inner.ID
	case *DenyPurchase:
		return inner.ID
	case *CancelPurchase:
		return inner.ID
	case *RetryRefund:
		return inner.ID
	case *SetAlerts:
		return inner.Flow
	case *RotateAlertSecret:
		return inner.Flow
	case *SendTestAlert:
		return inner.Flow
	case *ScheduleFlow:
		return inner.Flow
	}
	return [16]byte{}
}

// within reports whether the command is about this workspace and its own records.
func (c *Act) within(t *turn) bool {
	switch inner := c.inner.(type) {
	case *ClaimWorkspace:
		return c.Person == 0 && inner.Code == [32]byte{} && t.workspaceRow(inner.ID) == c.Workspace ||
			c.Person != 0 && t.claimRow(&inner.Code) == c.Workspace
	case *ConfirmSignup:
		return inner.Workspace == c.Workspace
	case *CancelPurchase:
		return inner.Workspace == c.Workspace
	case *SetBilling:
		return inner.Workspace == c.Workspace
	case *GrantCredits:
		return inner.Workspace == c.Workspace
	case *RemoveWorkspace:
		return inner.Workspace == c.Workspace
	case *RotateKeys:
		return inner.Workspace == c.Workspace
	case *SetAlerts:
		return inner.Workspace == c.Workspace
	case *RotateAlertSecret:
		return inner.Workspace == c.Workspace
	case *SendTestAlert:
		return inner.Workspace == c.Workspace
	case *ScheduleFlow:
		return inner.Workspace == c.Workspace
	case *SetTestAccess:
		return inner.Workspace == c.Workspace
	case *RemoveTestAccess:
		return inner.Workspace == c.Workspace
	}
	return t.purchaseRow(c.Workspace, c.subject()) != 0
}

// allowed reports whether a person may do this: they own the workspace, or nobody does and they
// have its claim code, or the link of its purchase. Rotating keys and cancelling are a person's
// alone: an operator denies.
func (c *Act) allowed(t *turn) engine.Outcome {
	if c.Person == 0 {
		if c.Kind == KindRotateKeys || c.Kind == KindCancelPurchase {
			return engine.OutcomePersonRequired
		}
		return engine.OutcomeDone
	}
	p, ok := t.person(c.Person)
	if p.roll(t.stamp); !ok || p.Agent {
		return engine.OutcomePersonRequired
	}
	if p.Acted >= MaxActsPerDay {
		t.answer(&RetryReply{ResetsAt: nextDay(t.stamp), Limit: MaxActsPerDay})
		return engine.OutcomeActLimit
	}
	free := t.workspaces.Read(c.Workspace).ClaimedAt == 0
	may := t.ownedBy(c.Workspace, c.Person)
	switch inner := c.inner.(type) {
	case *ClaimWorkspace:
		may = free && inner.Person == c.Person
	case *ApprovePurchase:
		may = (may || free) && inner.Person == c.Person
	case *DenyPurchase:
		may = may || free
	case *CancelPurchase:
		may = may && inner.Person
	case *GrantCredits, *RetryRefund, *RemoveWorkspace:
		may = false
	}
	if !may {
		return engine.OutcomeRecordUnknown
	}
	return engine.OutcomeDone
}

func (c *Act) apply(t *turn) engine.Outcome {
	if _, ok := t.workspace(c.Workspace); !ok || !c.within(t) {
		return engine.OutcomeRecordUnknown
	}
	if refused := c.allowed(t); refused != engine.OutcomeDone {
		return refused
	}
	if _, outcome := t.replay(c.Key, c.Body); outcome != engine.OutcomeNone {
		return outcome
	}
	if c.Key != ([16]byte{}) && t.requests.full() {
		return engine.OutcomeKeysFull
	}
	if set, ok := c.inner.(*SetAlerts); ok && c.Person != 0 {
		set.unvouched = t.emailBy[Address(set.Email)] != c.Person
	}
	before := t.values(c.Workspace, c.subject())
	if outcome := c.inner.apply(t); outcome != engine.OutcomeDone {
		return outcome
	}
	after := t.values(c.Workspace, c.subject())
	if c.Person != 0 {
		p := t.persons.Write(c.Person)
		p.roll(t.stamp)
		p.Acted++
	}

	w := t.workspaces.Write(c.Workspace)
	row, next := t.actRows.Append()
	*next = act{
		ID: c.ID, Workspace: c.Workspace, Before: w.Acts, At: t.stamp, Actor: c.Actor, Kind: c.Kind,
		Subject: c.subject(), Person: c.Person,
	}
	switch inner := c.inner.(type) {
	case *GrantCredits:
		next.Note = inner.Note
	case *SetTestAccess:
		next.Note = inner.Host
	case *RemoveTestAccess:
		next.Note = inner.Host
	}
	for i := range before {
		if before[i].After != after[i].After {
			next.Changes = append(next.Changes, ActChange{
				Name: before[i].Name, Before: before[i].After, After: after[i].After,
			})
		}
	}
	w.Acts = row
	t.keepRequest(c.Key, c.Body, madeAct, row)
	t.fold(uint64(row))
	return engine.OutcomeDone
}

// values are what acts change, as it is now, always in the same order. The subject is a
// purchase or a flow of the workspace.
func (t *turn) values(row uint32, subject [16]byte) []ActChange {
	w := t.workspaces.Read(row)
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
	if p := t.purchaseRow(row, subject); p != 0 {
		values[5].After = t.purchases.Read(p).Status.String()
		values[7].After = t.purchases.Read(p).refund()
	}
	f := t.flowRow(row, subject)
	if f != 0 {
		values[6].After = strconv.FormatBool(t.flows.Read(f).SignupConfirmed)
	}
	return append(append(values, t.alertValues(f)...), t.scheduleValues(f))
}

// act is something that an owner did, or an operator for them.
type act struct {
	ID        [16]byte    `wire:"1"`
	Workspace uint32      `wire:"2"`
	Before    uint32      `wire:"3"`
	At        int64       `wire:"4"`
	Actor     string      `wire:"5"`
	Kind      engine.Kind `wire:"6"`
	Subject   [16]byte    `wire:"7"`
	Note      string      `wire:"8"`
	Changes   []ActChange `wire:"9"`
	Person    uint32      `wire:"10"` // who did it; 0 for an operator
}

// ActChange is a value that an act changed.
type ActChange struct {
	Name   string `wire:"1"`
	Before string `wire:"2"`
	After  string `wire:"3"`
}

// ActView is something that an owner did, or an operator for them.
type ActView struct {
	ID    [16]byte
	At    int64
	Actor string
	// Action is its name: claim, approve, deny, cancel, confirm_signup, set_billing, rotate_keys,
	// grant_credits, retry_refund, remove, set_alerts, rotate_alert_secret, test_alert,
	// schedule_flow, set_test_access, remove_test_access.
	Action  string
	Subject [16]byte // the purchase or flow; zero is none
	Note    string
	Changes []ActChange
	// Person is the owner who did it; zero for an operator.
	Person [16]byte
	Email  string
}

// Acts lists what was done for a workspace's owner, also to one that was removed; more says
// that there are others behind.
func (m *Machine) Acts(number uint32, p Page) (views []ActView, more bool) {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	var w workspace
	if s.owned(number) {
		w = *s.workspaces.Read(number)
	}
	return list(&p, chain[ActView]{
		newest: w.Acts,
		before: func(row uint32) uint32 { return s.actRows.Read(row).Before },
		find: func(id [16]byte) uint32 {
			row := w.Acts
			for row != 0 && s.actRows.Read(row).ID != id {
				row = s.actRows.Read(row).Before
			}
			return row
		},
		view: s.actView,
	})
}

// OwnedBy is the newest workspace of an owner; 0 when there is none. It looks at all of them.
func (m *Machine) OwnedBy(owner string) uint32 {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	for row := s.workspaces.Len(); row > 0 && owner != ""; row-- {
		if s.workspaces.Read(row).Owner == owner {
			return row
		}
	}
	return 0
}

// TenantView is a workspace in an operator's list.
type TenantView struct {
	ID           [16]byte
	Label, Owner string
	CreatedAt    int64
	// RunsLeft were bought; Waiting is the purchase that waits for its owner or is charged, zero
	// when there is none.
	RunsLeft uint32
	Waiting  [16]byte
	// Network is where it was signed up from; see SignUp. Bytes is what it holds, UsedAt the newest
	// use that is known of one without an owner, EndsAt when that is removed unless it is used
	// before; 0 is not known, and never.
	Network        [16]byte
	Bytes          uint64
	UsedAt, EndsAt int64
}

// Tenants lists all workspaces, or those that nobody has claimed, newest first; more reports
// whether there are others behind.
func (m *Machine) Tenants(p Page, unclaimed bool) (views []TenantView, more bool) {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	return list(&p, chain[TenantView]{
		newest: s.workspaces.Len(),
		before: func(row uint32) uint32 { return row - 1 },
		find:   s.workspaceRow,
		hidden: func(row uint32) bool {
			w := s.workspaces.Read(row)
			return w.GoneAt != 0 || unclaimed && w.claimed()
		},
		view: func(row uint32) TenantView {
			w := s.workspaces.Read(row)
			v := TenantView{
				ID: w.ID, Label: w.Label, Owner: w.Owner, CreatedAt: w.CreatedAt,
				RunsLeft: w.Ledger.RunsLeft, Network: w.Network, Bytes: s.rooms.of[row].bytes,
				EndsAt: s.unusedEnd(w),
			}
			if !w.claimed() {
				v.UsedAt = max(w.CreatedAt, w.UsedAt)
			}
			if w.Ledger.Open != 0 {
				v.Waiting = s.purchases.Read(w.Ledger.Open).ID
			}
			return v
		},
	})
}
