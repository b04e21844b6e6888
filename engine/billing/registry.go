package billing

import (
	"tollgate/engine"
	"tollgate/engine/wire"
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

	// The numbers from 134 on are left to what is built beside it.
	KindSubmit engine.Kind = 156

	KindNoteMembership engine.Kind = 180

	KindDemoteKeys        engine.Kind = 191
	KindRecordProbedUsage engine.Kind = 192
)

// A command states its effect once. apply runs on the goroutine of Machine.Apply: guards first, one
// block of mutation last, so that a refused command has changed nothing.
type command interface {
	apply(t *turn) engine.Outcome
}

// definition is what the registry knows of a kind.
type definition struct {
	// name is the command's name, for logs and scenarios.
	name string
	// decode reads a payload; it changes nothing but the machine's scratch memory.
	decode func(m *Machine, payload []byte) (command, error)
}

// registry is the one table of commands: kind → how it decodes, and by the command's apply, what
// it does. A kind that is not here stops the replica.
var registry = [...]definition{
	engine.KindTick:        {"Tick", decodeTick},
	engine.KindCheckState:  {"CheckState", decodeCheckState},
	engine.KindHandOver:    {"HandOver", decodeHandOver},
	engine.KindSetVersion:  {"SetVersion", decodeSetVersion},
	KindRecordAudits:       {"RecordAudits", decodeAudits},
	KindRecordUsage:        {"RecordUsage", decodeUsage},
	KindCreateAccount:      {"CreateAccount", decodeFields[CreateAccount]},
	KindCreateKey:          {"CreateKey", decodeFields[CreateKey]},
	KindRevokeKey:          {"RevokeKey", decodeFields[RevokeKey]},
	KindApplyCatalog:       {"ApplyCatalog", decodeFields[ApplyCatalog]},
	KindCreateCustomer:     {"CreateCustomer", decodeFields[CreateCustomer]},
	KindCreateSubscription: {"CreateSubscription", decodeFields[CreateSubscription]},
	KindMarkInvoicePaid:    {"MarkInvoicePaid", decodeFields[MarkInvoicePaid]},
	KindSetLimits:          {"SetLimits", decodeFields[SetLimits]},

	KindCreatePool:         {"CreatePool", decodeFields[CreatePool]},
	KindGrantCredits:       {"GrantCredits", decodeFields[GrantCredits]},
	KindDeductCredits:      {"DeductCredits", decodeFields[DeductCredits]},
	KindFreezePool:         {"FreezePool", decodeFields[FreezePool]},
	KindUnfreezePool:       {"UnfreezePool", decodeFields[UnfreezePool]},
	KindArchivePool:        {"ArchivePool", decodeFields[ArchivePool]},
	KindReverseTransaction: {"ReverseTransaction", decodeFields[ReverseTransaction]},

	KindUpdateCustomer:  {"UpdateCustomer", decodeFields[UpdateCustomer]},
	KindArchiveCustomer: {"ArchiveCustomer", decodeFields[ArchiveCustomer]},
	KindEraseCustomer:   {"EraseCustomer", decodeFields[EraseCustomer]},
	KindOnce:            {"Once", decodeOnce},
	KindSetOrigins:      {"SetOrigins", decodeFields[SetOrigins]},

	KindSetPaymentProvider: {"SetPaymentProvider", decodeFields[SetPaymentProvider]},
	KindOpenCheckout:       {"OpenCheckout", decodeFields[OpenCheckout]},
	KindNoteCheckout:       {"NoteCheckout", decodeFields[NoteCheckout]},
	KindRecordPayment:      {"RecordPayment", decodeFields[RecordPayment]},
	KindCancelSubscription: {"CancelSubscription", decodeFields[CancelSubscription]},
	KindRevertCancellation: {"RevertCancellation", decodeFields[RevertCancellation]},
	KindChangePlan:         {"ChangePlan", decodeFields[ChangePlan]},
	KindCancelPlanChange:   {"CancelPlanChange", decodeFields[CancelPlanChange]},
	KindVoidInvoice:        {"VoidInvoice", decodeFields[VoidInvoice]},
	KindVoidUsage:          {"VoidUsage", decodeFields[VoidUsage]},
	KindAmendUsage:         {"AmendUsage", decodeFields[AmendUsage]},
	KindAdvanceClock:       {"AdvanceClock", decodeFields[AdvanceClock]},
	KindSetPaymentTerms:    {"SetPaymentTerms", decodeFields[SetPaymentTerms]},

	KindCreateWebhookEndpoint: {"CreateWebhookEndpoint", decodeFields[CreateWebhookEndpoint]},
	KindUpdateWebhookEndpoint: {"UpdateWebhookEndpoint", decodeFields[UpdateWebhookEndpoint]},
	KindDeleteWebhookEndpoint: {"DeleteWebhookEndpoint", decodeFields[DeleteWebhookEndpoint]},
	KindRotateWebhookSecret:   {"RotateWebhookSecret", decodeFields[RotateWebhookSecret]},
	KindRecordDelivery:        {"RecordDelivery", decodeFields[RecordDelivery]},
	KindResendWebhook:         {"ResendWebhook", decodeFields[ResendWebhook]},
	KindSubmit:                {"Submit", decodeSubmit},
	KindNoteMembership:        {"NoteMembership", decodeFields[NoteMembership]},
	KindDemoteKeys:            {"DemoteKeys", decodeFields[DemoteKeys]},
	KindRecordProbedUsage:     {"RecordProbedUsage", decodeProbedUsage},
	KindAdminister:            {"Administer", decodeAdminister},
	KindKeepAnswer:            {"KeepAnswer", decodeFields[KeepAnswer]},
}

// define finds a kind in the registry.
func define(kind engine.Kind) (d *definition, ok bool) {
	if int(kind) >= len(registry) || registry[kind].decode == nil {
		return nil, false
	}
	return &registry[kind], true
}

// decodeFields reads a command that states its fields to the codec.
func decodeFields[T any, P interface {
	*T
	command
	wire.Fielder
}](_ *Machine, payload []byte) (command, error) {
	c := P(new(T))
	return c, wire.Decode(payload, c)
}

// turn is one record's turn in Apply: the state it may change, and the entry it belongs to.
type turn struct {
	*state
	m *Machine
	// index and position are the record's place in the log, stamp its time.
	index    uint64
	position uint32
	stamp    int64
	// payload is the record as the log carries it.
	payload []byte
	// reply becomes Result.Value.
	reply []byte
	// hash is the rolling hash so far.
	hash uint64
	// told counts the record's webhook messages.
	told uint32
}

// fold mixes a value into the rolling hash.
func (t *turn) fold(v uint64) { t.hash = fold(t.hash, v) }
