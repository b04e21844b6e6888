package workspace

import (
	"tollgate/engine"
	"tollgate/engine/machine"
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

// registry states each command once, but for Act, which looks into it: see table.
var registry = [...]command{
	KindSetPolicy: of(ofSpaces, (*SetPolicy).apply),
	KindSignUp:    of(ofSpaces, (*SignUp).apply).growing(),
	KindRotateKeys: act(ofSpaces, existing((*spaces).living, (*RotateKeys).apply),
		"rotate_keys").personal(),
	KindRevokeKey:      of(ofSpaces, existing((*spaces).living, (*RevokeKey).apply)),
	KindClaimWorkspace: act(ofSpaces, (*ClaimWorkspace).apply, "claim"),
	KindSaveFlow:       of(ofFlows, (*SaveFlow).apply).growing(),
	KindArchiveFlow:    of(ofRuns, existing((*runner).flowRow, (*ArchiveFlow).apply)),
	KindConfirmSignup: act(ofFlows, existing((*flowStore).flowRow, (*ConfirmSignup).apply),
		"confirm_signup"),
	KindNotePreflight:   of(ofRuns, existing((*runner).flowRow, (*NotePreflight).apply)),
	KindStartRun:        of(ofRuns, (*StartRun).apply).growing(),
	KindRequestRun:      of(ofRuns, (*RequestRun).apply).growing(),
	KindCancelRun:       of(ofRuns, existing((*runner).runRow, (*CancelRun).apply)),
	KindResumeRun:       of(ofRuns, existing((*runner).runRow, (*ResumeRun).apply)),
	KindClaimRun:        of(ofRuns, (*ClaimRun).apply),
	KindExtendLease:     of(ofRuns, (*ExtendLease).apply),
	KindAwaitPerson:     of(ofRuns, (*AwaitPerson).apply),
	KindFinishRun:       of(ofRuns, (*FinishRun).apply),
	KindRequestPurchase: of(ofMoney, existing((*money).living, (*RequestPurchase).apply)).growing(),
	KindApprovePurchase: act(ofMoney, existing((*money).anyPurchase, (*ApprovePurchase).apply),
		"approve"),
	KindDenyPurchase: act(ofMoney, existing((*money).anyPurchase, (*DenyPurchase).apply), "deny"),
	KindCancelPurchase: act(ofMoney, existing((*money).purchaseIn, (*CancelPurchase).apply),
		"cancel").personal(),
	KindRenewLink:    of(ofMoney, existing((*money).purchaseIn, (*RenewLink).apply)),
	KindNoteCheckout: of(ofMoney, existing((*money).anyPurchase, (*NoteCheckout).apply)),
	KindNotePayment:  of(ofMoney, existing((*money).anyPurchase, (*NotePayment).apply)),
	KindSetBilling:   act(ofMoney, existing((*money).living, (*SetBilling).apply), "set_billing"),
	KindGrantCredits: act(ofMoney, existing((*money).living, (*GrantCredits).apply),
		"grant_credits").operators().growing(),
	KindMarkIssueReady:   of(ofNotices, (*MarkIssueReady).apply),
	KindReadNotification: of(ofNotices, (*ReadNotification).apply),
	KindStartLocalRun:    of(ofRuns, existing((*runner).living, (*StartLocalRun).apply)).growing(),
	KindFinishLocalRun:   of(ofRuns, existing((*runner).runRow, (*FinishLocalRun).apply)),
	KindNoteRefund:       of(ofMoney, existing((*money).anyPurchase, (*NoteRefund).apply)),
	KindNoteSurplus:      of(ofMoney, existing((*money).anyPurchase, (*NoteSurplus).apply)),
	KindRetryRefund: act(ofMoney, existing((*money).anyPurchase, (*RetryRefund).apply),
		"retry_refund").operators(),
	KindSaveInspection:    of(ofRuns, (*SaveInspection).apply).growing(),
	KindAddInspectionPart: of(ofRuns, (*AddInspectionPart).apply).growing(),
	KindNoteUse:           of(ofSpaces, existing((*spaces).living, (*NoteUse).apply)),
	KindRemoveWorkspace: act(ofPeople, existing((*people).living, (*RemoveWorkspace).apply),
		"remove").operators(),
	KindSignIn:            of(ofPeople, (*SignIn).apply),
	KindEndSession:        of(ofPeople, (*EndSession).apply),
	KindNoteSession:       of(ofPeople, (*NoteSession).apply),
	KindChooseWorkspace:   of(ofPeople, (*ChooseWorkspace).apply),
	KindOpenWorkspace:     of(ofPeople, (*OpenWorkspace).apply).growing(),
	KindAnswerLink:        of(ofPeople, (*AnswerLink).apply),
	KindSetAlerts:         act(ofNotices, (*SetAlerts).apply, "set_alerts").growing(),
	KindRotateAlertSecret: act(ofNotices, (*RotateAlertSecret).apply, "rotate_alert_secret"),
	KindSendTestAlert:     act(ofNotices, (*SendTestAlert).apply, "test_alert").growing(),
	KindBeginAlert:        of(ofNotices, (*BeginAlert).apply),
	KindNoteAlert:         of(ofNotices, (*NoteAlert).apply),
	KindSetAgents:         of(ofRuns, (*SetAgents).apply),
	KindScheduleFlow: act(ofRuns, (*ScheduleFlow).apply, "schedule_flow").
		growingBy(growsBySchedule),
	KindSetTestAccess:    act(ofFlows, (*SetTestAccess).apply, "set_test_access").growing(),
	KindRemoveTestAccess: act(ofFlows, (*RemoveTestAccess).apply, "remove_test_access"),
	KindAskAddress:       of(ofNotices, (*AskAddress).apply),
	KindConfirmAddress:   of(ofNotices, (*ConfirmAddress).apply),
}

// table is the registry with Act and with what every machine knows.
var table = func() machine.Table[*Machine, *turn] {
	t := make(machine.Table[*Machine, *turn], len(registry))
	for kind := range registry {
		t[kind] = registry[kind].Command
	}
	t[KindAct] = machine.Carrier[*Machine, *turn]((*Act).open)
	return machine.Builtin(t)
}()

// Since is from which cluster version on a record may be proposed.
func (m *Machine) Since(r engine.Record) uint32 { return table.Since(r) }

// Grows reports whether a record makes the state grow, also where Act carries it. What ends,
// claims, pays, replaces or answers something does not, nor does a sign-in: who frees something has
// to sign in. TestWhatGrowsIsKnown places every kind.
func Grows(r engine.Record) bool { return table.Grows(r) }

func growsBySchedule(payload []byte) bool {
	var c ScheduleFlow
	return wire.Decode(payload, &c) == nil && (c.Save || c.EveryHours != 0)
}
