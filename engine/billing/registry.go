package billing

import (
	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/charging"
	"tollgate/engine/billing/internal/lifecycle"
	"tollgate/engine/machine"
)

// Kinds of the billing group's commands. Numbers are never reused.
const (
	KindRecordAudits       engine.Kind = 16
	KindRecordUsage        engine.Kind = 17
	KindCreateAccount      engine.Kind = 18
	KindCreateKey          engine.Kind = 19
	KindRevokeKey          engine.Kind = 20
	KindApplyCatalog       engine.Kind = 21
	KindCreateCustomer     engine.Kind = 22
	KindCreateSubscription engine.Kind = 23
	KindMarkInvoicePaid    engine.Kind = 24
	KindSetLimits          engine.Kind = 25

	KindCreatePool         engine.Kind = 64
	KindGrantCredits       engine.Kind = 65
	KindDeductCredits      engine.Kind = 66
	KindFreezePool         engine.Kind = 67
	KindUnfreezePool       engine.Kind = 68
	KindArchivePool        engine.Kind = 69
	KindReverseTransaction engine.Kind = 70

	KindUpdateCustomer  engine.Kind = 96
	KindArchiveCustomer engine.Kind = 97
	KindEraseCustomer   engine.Kind = 98
	KindOnce            engine.Kind = 99
	KindSetOrigins      engine.Kind = 100

	KindSetPaymentProvider engine.Kind = 101
	KindOpenCheckout       engine.Kind = 102
	KindNoteCheckout       engine.Kind = 103
	KindRecordPayment      engine.Kind = 104
	KindCancelSubscription engine.Kind = 32
	KindSetPaymentTerms    engine.Kind = 144
	KindRevertCancellation engine.Kind = 33
	KindChangePlan         engine.Kind = 34
	KindCancelPlanChange   engine.Kind = 35
	KindVoidInvoice        engine.Kind = 37
	KindVoidUsage          engine.Kind = 38
	KindAmendUsage         engine.Kind = 39
	KindAdvanceClock       engine.Kind = 40
	KindAdminister         engine.Kind = 56
	KindKeepAnswer         engine.Kind = 51

	KindCreateWebhookEndpoint engine.Kind = 128
	KindUpdateWebhookEndpoint engine.Kind = 129
	KindDeleteWebhookEndpoint engine.Kind = 130
	KindRotateWebhookSecret   engine.Kind = 131
	KindRecordDelivery        engine.Kind = 132
	KindResendWebhook         engine.Kind = 133

	// The numbers 134 to 155 are reserved.
	KindSubmit engine.Kind = 156

	KindNoteMembership engine.Kind = 180

	KindPutBudget     engine.Kind = 208
	KindMoveBudget    engine.Kind = 209
	KindArchiveBudget engine.Kind = 210
	KindFreezeBudget  engine.Kind = 211
	KindBindKey       engine.Kind = 212
	KindNoteKeyUse    engine.Kind = 213

	KindDemoteKeys        engine.Kind = 191
	KindRecordProbedUsage engine.Kind = 192

	KindReserve            engine.Kind = 200
	KindSettleReservation  engine.Kind = 201
	KindExtendReservation  engine.Kind = 202
	KindReleaseReservation engine.Kind = 203

	KindSetSeller         engine.Kind = 224
	KindSetPortal         engine.Kind = 225
	KindRevokePortalLinks engine.Kind = 226
	KindNotePortalLink    engine.Kind = 227
	KindSetLowBalance     engine.Kind = 228
	KindSetTopUp          engine.Kind = 229
	KindStopTopUp         engine.Kind = 230
	KindRecordTopUp       engine.Kind = 231
	KindEndTopUp          engine.Kind = 232
	KindResendWebhooks    engine.Kind = 233
	KindTestWebhook       engine.Kind = 234
)

// op is a decoded command.
type op = machine.Op[*turn]

// command is a row of the table: see machine.Command.
type command struct {
	machine.Command[*Machine, *turn]
	// record tells how an operator's command gets into the record of changes.
	record recording
}

// recording is a way into the record of changes.
type recording uint8

const (
	recordedNever  recording = iota // no operator gives it
	recordedByself                  // it names its actor and records itself
	recordedAround                  // Administer carries it and describes its effect
)

func of[C any, P machine.Payload[C]](apply func(P, *turn) engine.Outcome) command {
	c := command{Command: machine.Of[*Machine](apply)}
	if _, ok := any(P(new(C))).(describer); ok {
		c.record = recordedAround
	}
	return c
}

// inEnvironment is the row of a command in an environment, which has to exist.
func inEnvironment[C any, P interface {
	machine.Payload[C]
	environment() uint32
}](apply func(P, *turn, *accounts.Environment) engine.Outcome) command {
	return of(func(c P, t *turn) engine.Outcome {
		e := t.Environment(c.environment())
		if e == nil {
			return engine.OutcomeAccountUnknown
		}
		return apply(c, t, e)
	})
}

// ofBudgets is the row of a command about budgets.
func ofBudgets[C any, P machine.Payload[C]](
	apply func(*charging.Budgets, *lifecycle.Runner, P) engine.Outcome,
) command {
	return of(func(c P, t *turn) engine.Outcome { return apply(&t.budgets, &t.Runner, c) })
}

// opened is the row of a command that decodes itself.
func opened(name string, open func(m *Machine, payload []byte) (op, error)) command {
	return command{Command: machine.Command[*Machine, *turn]{Name: name, Open: open}}
}

// growing is the row of a command that makes the state grow, permanently or while keys are kept.
// Commands that end, free, correct, replace or pay something do not. TestWhatGrowsIsKnown places
// every kind.
func (c command) growing() command {
	c.Grows = func([]byte) bool { return true }
	return c
}

// once is the row of a command that Once may carry: see Once.
func (c command) once() command {
	c.Once = true
	return c
}

// submitted is the row of a command that does not recognize its repetition: see Submit.
func (c command) submitted() command {
	c.Submitted = true
	return c
}

func (c command) always() command {
	c.Always = true
	return c
}

func (c command) recorded() command {
	c.record = recordedByself
	return c
}

func (c command) described() command {
	c.record = recordedAround
	return c
}

// registry states each command once.
var registry = [...]command{
	engine.KindTick:        {Command: machine.Tick[*Machine]((*turn).Tick)},
	KindRecordAudits:       opened("RecordAudits", decodeAudits).always(),
	KindRecordUsage:        opened("RecordUsage", openUsage).described().growing(),
	KindCreateAccount:      of((*CreateAccount).apply).growing().once().recorded(),
	KindCreateKey:          inEnvironment((*CreateKey).apply).growing().once().recorded(),
	KindRevokeKey:          inEnvironment((*RevokeKey).apply).recorded(),
	KindApplyCatalog:       inEnvironment((*ApplyCatalog).apply).growing().submitted().recorded(),
	KindCreateCustomer:     inEnvironment((*CreateCustomer).apply).growing().once(),
	KindCreateSubscription: inEnvironment((*CreateSubscription).apply).growing().once(),
	KindMarkInvoicePaid:    of((*MarkInvoicePaid).apply).once(),
	KindSetLimits:          of((*SetLimits).apply).submitted(),
	KindCreatePool:         inEnvironment((*CreatePool).apply).growing().once().recorded(),
	KindGrantCredits:       of((*GrantCredits).apply).growing().once().recorded(),
	KindDeductCredits:      of((*DeductCredits).apply).growing().once().recorded(),
	KindFreezePool:         of((*FreezePool).apply).submitted().recorded(),
	KindUnfreezePool:       of((*UnfreezePool).apply).submitted().recorded(),
	KindSetLowBalance:      of((*SetLowBalance).apply).submitted().recorded(),
	KindSetTopUp:           of((*SetTopUp).apply).once().growing().submitted().recorded(),
	KindStopTopUp:          of((*StopTopUp).apply).once().submitted().recorded(),
	KindRecordTopUp:        inEnvironment((*RecordTopUp).apply),
	KindEndTopUp:           inEnvironment((*EndTopUp).apply).submitted().recorded(),
	KindArchivePool:        of((*ArchivePool).apply).recorded(),
	KindReverseTransaction: inEnvironment((*ReverseTransaction).apply).once().recorded(),
	KindUpdateCustomer:     of((*UpdateCustomer).apply).submitted(),
	KindArchiveCustomer:    of((*ArchiveCustomer).apply).recorded(),
	KindEraseCustomer:      of((*EraseCustomer).apply).recorded(),
	KindOnce:               {Command: machine.Carrier[*Machine, *turn]((*Once).open)},
	KindSetOrigins:         inEnvironment((*SetOrigins).apply).submitted().recorded(),
	KindSetPaymentProvider: inEnvironment((*SetPaymentProvider).apply).submitted().recorded(),
	KindOpenCheckout:       inEnvironment((*OpenCheckout).apply).growing().once(),
	KindNoteCheckout:       of((*NoteCheckout).apply).submitted(),
	KindRecordPayment:      inEnvironment((*RecordPayment).apply),
	KindCancelSubscription: of((*CancelSubscription).apply).once().submitted(),
	KindRevertCancellation: of((*RevertCancellation).apply).submitted(),
	KindChangePlan:         of((*ChangePlan).apply).growing().once(),
	KindCancelPlanChange:   of((*CancelPlanChange).apply).submitted(),
	KindVoidInvoice:        of((*VoidInvoice).apply).recorded(),
	KindVoidUsage:          of((*VoidUsage).apply).once(),
	KindAmendUsage:         of((*AmendUsage).apply).once().submitted(),
	KindAdvanceClock:       inEnvironment((*AdvanceClock).apply).growing().submitted().recorded(),
	KindSetPaymentTerms:    inEnvironment((*SetPaymentTerms).apply).submitted().recorded(),
	KindCreateWebhookEndpoint: inEnvironment((*CreateWebhookEndpoint).apply).growing().once().
		submitted().recorded(),
	KindUpdateWebhookEndpoint: of((*UpdateWebhookEndpoint).apply).submitted().recorded(),
	KindDeleteWebhookEndpoint: inEnvironment((*DeleteWebhookEndpoint).apply).submitted().recorded(),
	KindRotateWebhookSecret:   of((*RotateWebhookSecret).apply).once().submitted().recorded(),
	KindRecordDelivery:        of((*RecordDelivery).apply),
	KindResendWebhook:         of((*ResendWebhook).apply).submitted().recorded(),
	KindResendWebhooks:        of((*ResendWebhooks).apply).once().submitted().recorded(),
	KindTestWebhook:           of((*TestWebhook).apply).growing().once().submitted().recorded(),
	KindSubmit:                {Command: machine.Carrier[*Machine, *turn]((*Submit).open)},
	KindNoteMembership:        of((*NoteMembership).apply).recorded(),
	KindPutBudget: ofBudgets((*charging.Budgets).Put).growing().once().
		submitted().recorded(),
	KindMoveBudget:         ofBudgets((*charging.Budgets).Move).once().submitted().recorded(),
	KindArchiveBudget:      ofBudgets((*charging.Budgets).Archive).once().recorded(),
	KindFreezeBudget:       ofBudgets((*charging.Budgets).Freeze).once().submitted().recorded(),
	KindBindKey:            inEnvironment((*BindKey).apply).once().submitted().recorded(),
	KindNoteKeyUse:         of((*NoteKeyUse).apply),
	KindDemoteKeys:         of((*DemoteKeys).apply),
	KindRecordProbedUsage:  opened("RecordProbedUsage", openProbedUsage).described().growing(),
	KindAdminister:         {Command: machine.Carrier[*Machine, *turn]((*Administer).open)},
	KindReserve:            opened("Reserve", openReserve).described().growing().once(),
	KindSettleReservation:  opened("SettleReservation", openSettlement).described().once(),
	KindExtendReservation:  of((*ExtendReservation).apply).once().submitted(),
	KindReleaseReservation: of((*ReleaseReservation).apply).once().recorded(),
	KindKeepAnswer:         of((*KeepAnswer).apply).growing().recorded(),
	KindSetSeller:          inEnvironment((*SetSeller).apply).submitted().recorded(),
	KindSetPortal:          inEnvironment((*SetPortal).apply).submitted().recorded(),
	KindRevokePortalLinks:  of((*RevokePortalLinks).apply).submitted().recorded(),
	KindNotePortalLink:     of((*NotePortalLink).apply).once().submitted().recorded(),
}

// table is the registry with the rows of every machine.
var table = func() machine.Table[*Machine, *turn] {
	t := make(machine.Table[*Machine, *turn], len(registry))
	for kind := range registry {
		t[kind] = registry[kind].Command
	}
	return machine.Builtin(t)
}()

// Since returns the first cluster version in which a record may be proposed.
func (m *Machine) Since(r engine.Record) uint32 { return table.Since(r) }

// Grows reports whether a record makes the state grow, directly or through the command that it
// carries.
func Grows(r engine.Record) bool { return table.Grows(r) }
