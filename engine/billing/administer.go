package billing

import (
	"errors"
	"fmt"
	"strings"

	"tollgate/engine"
	"tollgate/engine/wire"
)

// LongestActor bounds the name of whoever gives a command, in bytes.
const LongestActor = 512

// Administer carries a command that an operator gives, and adds what it changed to the record of
// changes: who, when, before, after. A command that changes nothing, because it was refused or was
// carried out before, adds nothing.
type Administer struct {
	Actor   string      `wire:"1"`
	Kind    engine.Kind `wire:"2"`
	Payload []byte      `wire:"3"`

	inner recorded
	whole command // what Payload holds: inner, or the Once or Submit around it
}

// recorded is a command whose effect the record of changes can describe. Programs give it, too, and
// then it leaves no record.
type recorded interface {
	command
	// describe says what the command is about and, in After, the values that it may change as they
	// are now. It changes nothing that apply would not change first.
	describe(t *turn) change
}

// selfRecorded are the commands that name their actor and add to the record by themselves.
var selfRecorded = map[engine.Kind]bool{
	KindCreateAccount: true, KindCreateKey: true, KindRevokeKey: true, KindApplyCatalog: true,
	KindArchiveCustomer: true, KindEraseCustomer: true, KindSetOrigins: true,
	KindSetPaymentProvider: true, KindSetPaymentTerms: true, KindVoidInvoice: true,
	KindAdvanceClock: true, KindNoteMembership: true, KindKeepAnswer: true,
	KindCreatePool: true, KindFreezePool: true, KindUnfreezePool: true, KindArchivePool: true,
	KindGrantCredits: true, KindDeductCredits: true, KindReverseTransaction: true,
	KindCreateWebhookEndpoint: true, KindUpdateWebhookEndpoint: true,
	KindDeleteWebhookEndpoint: true, KindRotateWebhookSecret: true, KindResendWebhook: true,
}

// ErrUnrecorded means that a command would leave no record of the operator who gives it.
var ErrUnrecorded = errors.New("billing: the record of changes cannot describe this command")

// Administered makes the record of a command that an operator gives, from the record that a program
// would propose. Every command that the record of changes does not cover is ErrUnrecorded, so that
// a new one cannot be forgotten.
func (m *Machine) Administered(actor string, r engine.Record) (engine.Record, error) {
	kind, payload := r.Kind, r.Payload
	switch kind {
	case KindOnce:
		var c Once
		if err := wire.Decode(payload, &c); err != nil {
			return r, err
		}
		kind = c.Kind
	case KindSubmit:
		var c Submit
		if err := wire.Decode(payload, &c); err != nil {
			return r, err
		}
		kind = c.Kind
	}
	if selfRecorded[kind] {
		return r, nil
	}
	if describable[kind] == nil || len(actor) > LongestActor {
		return r, fmt.Errorf("%w: kind %d", ErrUnrecorded, kind)
	}
	c := Administer{Actor: actor, Kind: r.Kind, Payload: payload}
	return engine.Record{Kind: KindAdminister, Payload: wire.Encode(nil, &c)}, nil
}

// describable are the commands that Administer carries, by themselves or in a Once or a Submit.
var describable = map[engine.Kind]func(m *Machine, payload []byte) (command, error){
	KindCreateCustomer:     decodeFields[CreateCustomer],
	KindUpdateCustomer:     decodeFields[UpdateCustomer],
	KindCreateSubscription: decodeFields[CreateSubscription],
	KindCancelSubscription: decodeFields[CancelSubscription],
	KindRevertCancellation: decodeFields[RevertCancellation],
	KindChangePlan:         decodeFields[ChangePlan],
	KindCancelPlanChange:   decodeFields[CancelPlanChange],
	KindMarkInvoicePaid:    decodeFields[MarkInvoicePaid],
	KindOpenCheckout:       decodeFields[OpenCheckout],
	KindRecordUsage:        decodeUsage,
	KindRecordProbedUsage:  decodeProbedUsage,
	KindVoidUsage:          decodeFields[VoidUsage],
	KindAmendUsage:         decodeFields[AmendUsage],
}

// decodeAdminister reads the command and the one that it carries.
func decodeAdminister(m *Machine, payload []byte) (command, error) {
	c := new(Administer)
	if err := wire.Decode(payload, c); err != nil {
		return nil, err
	}
	var err error
	switch {
	case c.Kind == KindOnce:
		c.whole, err = decodeOnce(m, c.Payload)
	case c.Kind == KindSubmit:
		c.whole, err = decodeSubmit(m, c.Payload)
	case describable[c.Kind] != nil:
		c.whole, err = describable[c.Kind](m, c.Payload)
	default:
		err = fmt.Errorf("a command of kind %d is not carried by Administer", c.Kind)
	}
	if err != nil {
		return nil, err
	}
	inner := c.whole
	switch outer := c.whole.(type) {
	case *Once:
		inner = outer.inner
	case *Submit:
		inner = outer.inner
	}
	var ok bool
	if c.inner, ok = inner.(recorded); !ok {
		return nil, fmt.Errorf("what a command of kind %d carries, Administer does not", c.Kind)
	}
	return c, nil
}

func (c *Administer) apply(t *turn) engine.Outcome {
	if len(c.Actor) > LongestActor {
		return engine.OutcomeTooLarge
	}
	before := c.inner.describe(t)
	t.payload = c.Payload
	outcome := c.whole.apply(t)
	if outcome.Refused() || outcome == engine.OutcomeDeferred {
		return outcome
	}

	after := c.inner.describe(t)
	after.Actor, after.Values = c.Actor, compared(before.Values, after.Values)
	if len(after.Values) > 0 {
		t.note(after)
	}
	return outcome
}

// private begins a value of describe that is compared and never recorded: personal data.
const private = "\x00"

// compared joins the values of before and after by their names; what did not change is left out.
func compared(before, after []FieldChange) (changed []FieldChange) {
	for _, f := range after {
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
	return changed
}

// masked stands for a private value: "" where there is none.
func masked(value, word string) string {
	if len(value) <= len(private) {
		return ""
	}
	return word
}
