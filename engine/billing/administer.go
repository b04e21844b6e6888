package billing

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/machine"
	"tollgate/engine/uuid"
	"tollgate/engine/wire"
)

// MaxActor bounds the name of the actor of a command, in bytes.
const MaxActor = 512

// Administer carries a command that an operator gives, and records what it changed: who, when,
// before, after. A command that is refused or repeated changes nothing and leaves no record.
type Administer struct {
	Actor   string      `wire:"1"`
	Kind    engine.Kind `wire:"2"`
	Payload []byte      `wire:"3"`

	inner describer
	whole op // what Payload holds: inner, or the Once or Submit around it
}

// describer is a command whose effect the record of changes can describe. Given by a program, it
// leaves no record.
type describer interface {
	// describe returns what the command is about and, in After, the present values of what it may
	// change. It changes only what apply would change first.
	describe(t *turn) accounts.Change
}

// ErrUnrecorded means that a command by an operator would leave no record.
var ErrUnrecorded = errors.New("billing: the record of changes cannot describe this command")

// Administered turns the record that a program would propose into that of an operator's command. It
// returns ErrUnrecorded for a command that the record of changes does not cover, so that a new one
// cannot be forgotten.
func (m *Machine) Administered(actor string, r engine.Record) (engine.Record, error) {
	kind := r.Kind
	if kind == KindOnce || kind == KindSubmit {
		inner, ok := table.Carried(r)
		if !ok {
			return r, fmt.Errorf("%w: it does not decode", ErrUnrecorded)
		}
		kind = inner.Kind
	}
	record := recordedNever
	if table.Find(kind) != nil {
		record = registry[kind].record
	}
	if record == recordedByself {
		return r, nil
	}
	if record == recordedNever || len(actor) > MaxActor {
		return r, fmt.Errorf("%w: kind %d", ErrUnrecorded, kind)
	}
	c := Administer{Actor: actor, Kind: r.Kind, Payload: r.Payload}
	return engine.Record{Kind: KindAdminister, Payload: wire.Encode(nil, &c)}, nil
}

// open reads the command that it carries.
func (c *Administer) open(m *Machine) (err error) {
	row := m.kernel.Table.Find(c.Kind)
	if row == nil || row.Open == nil || c.Kind == KindAdminister {
		return fmt.Errorf("a command of kind %d is not carried by Administer", c.Kind)
	}
	if c.whole, err = row.Open(m, c.Payload); err != nil {
		return err
	}
	inner := c.whole
	switch outer := c.whole.(type) {
	case *Once:
		inner = outer.inner
	case *Submit:
		inner = outer.inner
	}
	var ok bool
	if c.inner, ok = machine.Inner(inner).(describer); !ok {
		return fmt.Errorf("what a command of kind %d carries, Administer does not", c.Kind)
	}
	return nil
}

// Carried is part of machine.Carrier.
func (c *Administer) Carried() engine.Record {
	return engine.Record{Kind: c.Kind, Payload: c.Payload}
}

// carries is the command that it carries, for what prefetches the others.
func (c *Administer) carries() op { return c.whole }

// Apply implements machine.Op.
func (c *Administer) Apply(t *turn) engine.Outcome {
	if len(c.Actor) > MaxActor {
		return engine.OutcomeTooLarge
	}
	before := c.inner.describe(t)
	t.Payload = c.Payload
	outcome := c.whole.Apply(t)
	if outcome.Refused() || outcome == engine.OutcomeDeferred {
		return outcome
	}

	after := c.inner.describe(t)
	after.Actor, after.Values = c.Actor, compared(before.Values, after.Values)
	if len(after.Values) > 0 {
		t.Note(after)
	}
	return outcome
}

// private begins a value of describe that is compared but never recorded: personal data.
const private = "\x00"

// compared pairs the values of before and after by name and omits those that did not change; where
// some did, it adds what the change is about.
func compared(before, after []accounts.FieldChange) (changed []accounts.FieldChange) {
	var about []accounts.FieldChange
	for _, f := range after {
		if value, ok := f.About(); ok {
			about = append(about, accounts.Given(f.Name, value))
			continue
		}
		for _, b := range before {
			if b.Name == f.Name {
				f.Before = b.After
			}
		}
		if f.Before == f.After {
			continue
		}
		if strings.HasPrefix(f.After, private) {
			f.Before, f.After = masked(f.Before, "set"), masked(f.After, "changed")
		}
		changed = append(changed, f)
	}
	if len(changed) == 0 {
		return nil
	}
	return append(about, changed...)
}

// masked stands for a private value; "" if there is none.
func masked(value, word string) string {
	if len(value) <= len(private) {
		return ""
	}
	return word
}

// maxMemberText bounds each text of NoteMembership, in bytes.
const maxMemberText = 512

// NoteMembership adds a change of the cluster's nodes to the record of admin changes. The cluster
// has made the change already.
type NoteMembership struct {
	Actor string `wire:"1"`
	// Action is member.joined, member.promoted, member.removed or leadership.transferred.
	Action string `wire:"2"`
	// Node is the member. Raft, HTTP and Ops are the addresses of a member that joined.
	Node string `wire:"3"`
	Raft string `wire:"4"`
	HTTP string `wire:"5"`
	Ops  string `wire:"6"`
}

func (c *NoteMembership) apply(t *turn) engine.Outcome {
	for _, text := range []string{c.Actor, c.Action, c.Node, c.Raft, c.HTTP, c.Ops} {
		if len(text) > maxMemberText {
			return engine.OutcomeTooLarge
		}
	}
	t.NoteChange(0, c.Actor, c.Action, c.Node,
		accounts.Given("raft", c.Raft), accounts.Given("http", c.HTTP),
		accounts.Given("ops", c.Ops))
	return engine.OutcomeDone
}

// What follows describes, for the record of changes, the effects of commands that both programs and
// operators give. It never includes personal data: of a name or an address it says only that it was
// set or changed.

func (c *CreateCustomer) describe(t *turn) accounts.Change {
	d := accounts.Change{Env: c.Env, Action: "customer.created", Subject: uuid.Text(c.ID)}
	if row := t.CustomerIn(c.Env, &c.ID); row != 0 {
		name := string(t.ExternalID(t.Customers.Read(row)))
		d.Values = append(d.Values, accounts.Given("customer", name))
	}
	return d
}

func (c *UpdateCustomer) describe(t *turn) accounts.Change {
	d := accounts.Change{Env: c.Env, Action: "customer.changed"}
	row := t.CustomerNamed(c.Env, []byte(c.ExternalID))
	if row == 0 {
		return d
	}
	d.Subject = uuid.Text(t.Customers.Read(row).ID)
	p := t.Profile(row)
	for _, f := range [...]struct{ name, value string }{
		{"firstName", p.FirstName},
		{"lastName", p.LastName},
		{"email", p.Email},
		{"phoneNumber", p.PhoneNumber},
		{"address", p.Address},
	} {
		d.Values = append(d.Values, accounts.Given(f.name, private+f.value))
	}
	return d
}

func (c *CreateSubscription) describe(t *turn) accounts.Change {
	d := accounts.Change{Env: c.Env, Action: "subscription.created", Subject: uuid.Text(c.ID)}
	if row := t.SubscriptionIn(c.Env, &c.ID); row != 0 {
		b, catalog := t.Subscriptions.Whole(row), t.Environment(c.Env).Catalog.Load()
		name := string(t.ExternalID(t.Customers.Read(b.Customer)))
		d.Values = append(d.Values, accounts.Given("customer", name),
			accounts.Given("plan", catalog.PlanKey(b.Version)),
			accounts.Given("gracePeriodDays", strconv.Itoa(int(b.GraceDays))))
	}
	if row := t.InvoiceIn(c.Env, &c.InvoiceID); row != 0 {
		d.Values = append(d.Values, accounts.Given("invoice", uuid.Text(c.InvoiceID)))
	}
	return d
}

// describeSubscription returns what commands change of an existing subscription.
func (t *turn) describeSubscription(env uint32, id *[16]byte, action string) accounts.Change {
	d := accounts.Change{Env: env, Action: action, Subject: uuid.Text(*id)}
	l, _, _ := t.Current(env, id)
	if l == nil {
		return d
	}
	state, scheduled := "active", ""
	if l.Sub.EndedAt != 0 {
		state = "ended"
	}
	if p := l.PendingChange(); p != nil {
		scheduled = l.Catalog.VersionName(p.To)
	}
	d.Values = append(d.Values, accounts.Given("state", state),
		accounts.Given("cancelMode", l.Sub.CancelMode.Named().String()),
		accounts.Given("plan", l.Catalog.VersionName(l.Sub.Version)),
		accounts.Given("scheduledPlan", scheduled))
	return d
}

func (c *CancelSubscription) describe(t *turn) accounts.Change {
	return t.describeSubscription(c.Env, &c.ID, "subscription.cancelled")
}

func (c *RevertCancellation) describe(t *turn) accounts.Change {
	return t.describeSubscription(c.Env, &c.ID, "subscription.cancellation-reverted")
}

func (c *ChangePlan) describe(t *turn) accounts.Change {
	return t.describeSubscription(c.Env, &c.ID, "subscription.plan-changed")
}

func (c *CancelPlanChange) describe(t *turn) accounts.Change {
	return t.describeSubscription(c.Env, &c.ID, "subscription.plan-change-cancelled")
}

func (c *MarkInvoicePaid) describe(t *turn) accounts.Change {
	d := accounts.Change{Env: c.Env, Action: "invoice.paid", Subject: uuid.Text(c.ID)}
	status := ""
	if l, at, _ := t.unpaid(c.Env, &c.ID); l != nil {
		status = l.Unpaid[at].Status.String()
	} else if row := t.InvoiceIn(c.Env, &c.ID); row != 0 {
		status = t.Invoices.Read(row).Status.String()
	}
	d.Values = append(d.Values, accounts.Given("status", status))
	paid := status == book.InvoicePaid.String()
	if paid && rows.Plain(c.Note, 1, maxPaidNote) {
		d.Values = append(d.Values, accounts.Given("note", c.Note))
	}
	return d
}

func (c *OpenCheckout) describe(t *turn) accounts.Change {
	d := accounts.Change{Env: c.Env, Action: "checkout.opened", Subject: uuid.Text(c.InvoiceID)}
	if t.checkouts.find(c.ID) != 0 {
		d.Values = append(d.Values, accounts.Given("checkout", uuid.Text(c.ID)))
	}
	return d
}

func (c *RecordUsage) describe(t *turn) accounts.Change {
	d := accounts.Change{Env: c.Env, Action: "usage.recorded"}
	if row := c.customerRow(t.state); row != 0 {
		d.Subject = uuid.Text(t.Customers.Read(row).ID)
	}
	if _, recorded := t.keys.Find(c.Key, t.keys.Hash(c.Key)); !recorded {
		return d
	}
	d.Values = append(d.Values,
		accounts.Given("feature", cmp.Or(string(c.FeatureKey), string(c.EventName))),
		accounts.Given("units", c.Units.String()), accounts.Given("key", string(c.KeyText)))
	return d
}

// describeUsage returns what corrections change of an event.
func (t *turn) describeUsage(
	env uint32, key *[16]byte, of *UsageRef, action string,
) accounts.Change {
	d := accounts.Change{Env: env, Action: action}
	k, _ := t.openCorrection(env, key, of)
	if k == nil || k.key == ([16]byte{}) {
		return d
	}
	d.Subject = uuid.Text(t.Customers.Read(k.owner).ID)
	d.Values = append(d.Values, accounts.Given("units", k.units.String()),
		accounts.Given("voided", strconv.FormatBool(k.voidedAt != 0)))
	return d
}

func (c *VoidUsage) describe(t *turn) accounts.Change {
	return t.describeUsage(c.Env, &c.Key, &c.Original, "usage.voided")
}

func (c *AmendUsage) describe(t *turn) accounts.Change {
	return t.describeUsage(c.Env, &c.Key, &c.Original, "usage.amended")
}
