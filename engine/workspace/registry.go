package workspace

import (
	"fmt"
	"math/bits"

	"tollgate/engine"
	"tollgate/engine/wire"
)

// Kinds of the workspace group's commands. Numbers are never reused: 111 opened sessions with the
// admin key.
const (
	KindSetPolicy        engine.Kind = 16
	KindSignUp           engine.Kind = 17
	KindRotateKeys       engine.Kind = 18
	KindRevokeKey        engine.Kind = 19
	KindClaimWorkspace   engine.Kind = 20
	KindSaveFlow         engine.Kind = 21
	KindArchiveFlow      engine.Kind = 22
	KindConfirmSignup    engine.Kind = 23
	KindNotePreflight    engine.Kind = 24
	KindStartRun         engine.Kind = 25
	KindRequestRun       engine.Kind = 26
	KindCancelRun        engine.Kind = 27
	KindResumeRun        engine.Kind = 28
	KindClaimRun         engine.Kind = 29
	KindExtendLease      engine.Kind = 30
	KindAwaitPerson      engine.Kind = 31
	KindFinishRun        engine.Kind = 32
	KindRequestPurchase  engine.Kind = 33
	KindApprovePurchase  engine.Kind = 34
	KindDenyPurchase     engine.Kind = 35
	KindCancelPurchase   engine.Kind = 36
	KindRenewLink        engine.Kind = 37
	KindNoteCheckout     engine.Kind = 38
	KindNotePayment      engine.Kind = 39
	KindSetBilling       engine.Kind = 40
	KindGrantCredits     engine.Kind = 41
	KindMarkIssueReady   engine.Kind = 42
	KindReadNotification engine.Kind = 43
	KindStartLocalRun    engine.Kind = 44
	KindFinishLocalRun   engine.Kind = 45

	KindNoteRefund  engine.Kind = 70
	KindAct         engine.Kind = 71
	KindNoteSurplus engine.Kind = 82
	KindRetryRefund engine.Kind = 83

	KindSaveInspection    engine.Kind = 90
	KindAddInspectionPart engine.Kind = 91

	KindNoteUse         engine.Kind = 102
	KindRemoveWorkspace engine.Kind = 103

	KindSignIn            engine.Kind = 110
	KindEndSession        engine.Kind = 112
	KindNoteSession       engine.Kind = 113
	KindChooseWorkspace   engine.Kind = 114
	KindOpenWorkspace     engine.Kind = 115
	KindAnswerLink        engine.Kind = 116
	KindSetAlerts         engine.Kind = 130
	KindRotateAlertSecret engine.Kind = 131
	KindSendTestAlert     engine.Kind = 132
	KindBeginAlert        engine.Kind = 133
	KindNoteAlert         engine.Kind = 134
	KindSetAgents         engine.Kind = 141
	KindScheduleFlow      engine.Kind = 142
	KindSetTestAccess     engine.Kind = 143
	KindRemoveTestAccess  engine.Kind = 144
	KindAskAddress        engine.Kind = 150
	KindConfirmAddress    engine.Kind = 151
)

// A command states its effect once. apply runs on the goroutine of Machine.Apply, under the state's
// lock: guards first, one block of mutation last, so that a refused command has changed nothing.
type command interface {
	apply(t *turn) engine.Outcome
}

// definition is what the registry knows of a kind.
type definition struct {
	// name is the command's name, for logs and scenarios.
	name string
	// decode reads a payload and changes nothing.
	decode func(m *Machine, payload []byte) (command, error)
}

// registry is the one table of commands: kind → how it decodes, and by the command's apply, what
// it does. A kind that is not here stops the replica.
var registry = [...]definition{
	engine.KindTick:       {"Tick", decodeTick},
	engine.KindCheckState: {"CheckState", decodeCheckState},
	engine.KindHandOver:   {"HandOver", decodeHandOver},
	engine.KindSetVersion: {"SetVersion", decodeSetVersion},
	KindSetPolicy:         {"SetPolicy", decodeFields[SetPolicy]},
	KindSignUp:            {"SignUp", decodeFields[SignUp]},
	KindRotateKeys:        {"RotateKeys", decodeFields[RotateKeys]},
	KindRevokeKey:         {"RevokeKey", decodeFields[RevokeKey]},
	KindClaimWorkspace:    {"ClaimWorkspace", decodeFields[ClaimWorkspace]},
	KindSaveFlow:          {"SaveFlow", decodeFields[SaveFlow]},
	KindArchiveFlow:       {"ArchiveFlow", decodeFields[ArchiveFlow]},
	KindConfirmSignup:     {"ConfirmSignup", decodeFields[ConfirmSignup]},
	KindNotePreflight:     {"NotePreflight", decodeFields[NotePreflight]},
	KindStartRun:          {"StartRun", decodeFields[StartRun]},
	KindRequestRun:        {"RequestRun", decodeFields[RequestRun]},
	KindCancelRun:         {"CancelRun", decodeFields[CancelRun]},
	KindResumeRun:         {"ResumeRun", decodeFields[ResumeRun]},
	KindClaimRun:          {"ClaimRun", decodeFields[ClaimRun]},
	KindExtendLease:       {"ExtendLease", decodeFields[ExtendLease]},
	KindAwaitPerson:       {"AwaitPerson", decodeFields[AwaitPerson]},
	KindFinishRun:         {"FinishRun", decodeFields[FinishRun]},
	KindRequestPurchase:   {"RequestPurchase", decodeFields[RequestPurchase]},
	KindApprovePurchase:   {"ApprovePurchase", decodeFields[ApprovePurchase]},
	KindDenyPurchase:      {"DenyPurchase", decodeFields[DenyPurchase]},
	KindCancelPurchase:    {"CancelPurchase", decodeFields[CancelPurchase]},
	KindRenewLink:         {"RenewLink", decodeFields[RenewLink]},
	KindNoteCheckout:      {"NoteCheckout", decodeFields[NoteCheckout]},
	KindNotePayment:       {"NotePayment", decodeFields[NotePayment]},
	KindSetBilling:        {"SetBilling", decodeFields[SetBilling]},
	KindGrantCredits:      {"GrantCredits", decodeFields[GrantCredits]},
	KindMarkIssueReady:    {"MarkIssueReady", decodeFields[MarkIssueReady]},
	KindReadNotification:  {"ReadNotification", decodeFields[ReadNotification]},
	KindStartLocalRun:     {"StartLocalRun", decodeFields[StartLocalRun]},
	KindFinishLocalRun:    {"FinishLocalRun", decodeFields[FinishLocalRun]},
	KindNoteRefund:        {"NoteRefund", decodeFields[NoteRefund]},
	KindAct:               {"Act", decodeAct},
	KindNoteSurplus:       {"NoteSurplus", decodeFields[NoteSurplus]},
	KindRetryRefund:       {"RetryRefund", decodeFields[RetryRefund]},
	KindSaveInspection:    {"SaveInspection", decodeFields[SaveInspection]},
	KindAddInspectionPart: {"AddInspectionPart", decodeFields[AddInspectionPart]},
	KindNoteUse:           {"NoteUse", decodeFields[NoteUse]},
	KindRemoveWorkspace:   {"RemoveWorkspace", decodeFields[RemoveWorkspace]},
	KindSignIn:            {"SignIn", decodeFields[SignIn]},
	KindEndSession:        {"EndSession", decodeFields[EndSession]},
	KindNoteSession:       {"NoteSession", decodeFields[NoteSession]},
	KindChooseWorkspace:   {"ChooseWorkspace", decodeFields[ChooseWorkspace]},
	KindOpenWorkspace:     {"OpenWorkspace", decodeFields[OpenWorkspace]},
	KindAnswerLink:        {"AnswerLink", decodeFields[AnswerLink]},
	KindSetAlerts:         {"SetAlerts", decodeFields[SetAlerts]},
	KindRotateAlertSecret: {"RotateAlertSecret", decodeFields[RotateAlertSecret]},
	KindSendTestAlert:     {"SendTestAlert", decodeFields[SendTestAlert]},
	KindBeginAlert:        {"BeginAlert", decodeFields[BeginAlert]},
	KindNoteAlert:         {"NoteAlert", decodeFields[NoteAlert]},
	KindSetAgents:         {"SetAgents", decodeFields[SetAgents]},
	KindScheduleFlow:      {"ScheduleFlow", decodeFields[ScheduleFlow]},
	KindSetTestAccess:     {"SetTestAccess", decodeFields[SetTestAccess]},
	KindRemoveTestAccess:  {"RemoveTestAccess", decodeFields[RemoveTestAccess]},
	KindAskAddress:        {"AskAddress", decodeFields[AskAddress]},
	KindConfirmAddress:    {"ConfirmAddress", decodeFields[ConfirmAddress]},
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

// turn is one entry's turn in Apply: the state it may change, and the record that is carried out.
type turn struct {
	*state
	m *Machine
	// index is the entry's place in the log, stamp its time.
	index uint64
	stamp int64
	// reply becomes Result.Value.
	reply []byte
	// hash is the rolling hash so far.
	hash uint64
}

// fold mixes a value into the rolling hash: one multiplication to 128 bits, halves joined, as
// wyhash does. It detects divergence, not malice.
func (t *turn) fold(v uint64) {
	high, low := bits.Mul64(t.hash^0xa0761d6478bd642f, v^0xe7037ed1a0b428db)
	t.hash = high ^ low ^ v
}

// answer makes a reply the record's.
func (t *turn) answer(reply wire.Fielder) { t.reply = wire.Encode(nil, reply) }

// tick is KindTick: what is due happened before it.
type tick struct{}

func decodeTick(_ *Machine, payload []byte) (command, error) {
	if len(payload) != 0 {
		return nil, fmt.Errorf("a tick with %d bytes", len(payload))
	}
	return tick{}, nil
}

func (tick) apply(*turn) engine.Outcome { return engine.OutcomeDone }

// checkState was compared when it was decoded: a replica that differs stops before it changes.
type checkState struct{}

func decodeCheckState(m *Machine, payload []byte) (command, error) {
	c, ok := engine.ParseCheckState(payload)
	if !ok {
		return nil, fmt.Errorf("malformed state check")
	}
	if !m.ring.Agrees(c) {
		return nil, fmt.Errorf("state differs from the leader's at entry %d", c.Index)
	}
	return checkState{}, nil
}

func (checkState) apply(*turn) engine.Outcome { return engine.OutcomeDone }

// handOver is the cluster's word to itself: it changes nothing here.
type handOver struct{}

func decodeHandOver(_ *Machine, payload []byte) (command, error) {
	if _, ok := engine.ParseHandOver(payload); !ok {
		return nil, fmt.Errorf("malformed hand-over")
	}
	return handOver{}, nil
}

func (handOver) apply(*turn) engine.Outcome { return engine.OutcomeDone }
