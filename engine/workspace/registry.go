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

// command is a row of the table: see machine.Command. act is what is said of a command that Act
// carries; nil of the others.
type command struct {
	machine.Command[*Machine, *turn]
	act action
}

func of[C any, P machine.Payload[C]](apply func(P, *turn) engine.Outcome) command {
	return command{Command: machine.Of[*Machine](apply)}
}

func (c command) growing() command { return c.growingBy(func([]byte) bool { return true }) }

func (c command) growingBy(grows func(payload []byte) bool) command {
	c.Grows = grows
	return c
}

// registry states each command once, but for Act, which looks into it: see table.
var registry = [...]command{
	KindSetPolicy: of((*SetPolicy).apply),
	KindSignUp:    of((*SignUp).apply).growing(),
	KindRotateKeys: act((*RotateKeys).apply, acting[RotateKeys]{
		name:     "rotate_keys",
		about:    func(c *RotateKeys) (uint32, [16]byte) { return c.Workspace, [16]byte{} },
		personal: true,
	}),
	KindRevokeKey: of((*RevokeKey).apply),
	KindClaimWorkspace: act((*ClaimWorkspace).apply, acting[ClaimWorkspace]{
		name: "claim",
		within: func(c *ClaimWorkspace, t *turn, a *Act) bool {
			return a.Person == 0 && c.Code == [32]byte{} && t.workspaceRow(c.ID) == a.Workspace ||
				a.Person != 0 && t.claimRow(&c.Code) == a.Workspace
		},
		may: func(c *ClaimWorkspace, p visitor) bool { return p.free && c.Person == p.person },
	}),
	KindSaveFlow:    of((*SaveFlow).apply).growing(),
	KindArchiveFlow: of((*ArchiveFlow).apply),
	KindConfirmSignup: act((*ConfirmSignup).apply, acting[ConfirmSignup]{
		name:  "confirm_signup",
		about: func(c *ConfirmSignup) (uint32, [16]byte) { return c.Workspace, c.ID },
	}),
	KindNotePreflight:   of((*NotePreflight).apply),
	KindStartRun:        of((*StartRun).apply).growing(),
	KindRequestRun:      of((*RequestRun).apply).growing(),
	KindCancelRun:       of((*CancelRun).apply),
	KindResumeRun:       of((*ResumeRun).apply),
	KindClaimRun:        of((*ClaimRun).apply),
	KindExtendLease:     of((*ExtendLease).apply),
	KindAwaitPerson:     of((*AwaitPerson).apply),
	KindFinishRun:       of((*FinishRun).apply),
	KindRequestPurchase: of((*RequestPurchase).apply).growing(),
	KindApprovePurchase: act((*ApprovePurchase).apply, acting[ApprovePurchase]{
		name:  "approve",
		about: func(c *ApprovePurchase) (uint32, [16]byte) { return 0, c.ID },
		may: func(c *ApprovePurchase, p visitor) bool {
			return (p.owns || p.free) && c.Person == p.person
		},
	}),
	KindDenyPurchase: act((*DenyPurchase).apply, acting[DenyPurchase]{
		name:  "deny",
		about: func(c *DenyPurchase) (uint32, [16]byte) { return 0, c.ID },
		may:   func(_ *DenyPurchase, p visitor) bool { return p.owns || p.free },
	}),
	KindCancelPurchase: act((*CancelPurchase).apply, acting[CancelPurchase]{
		name:     "cancel",
		about:    func(c *CancelPurchase) (uint32, [16]byte) { return c.Workspace, c.ID },
		may:      func(c *CancelPurchase, p visitor) bool { return p.owns && c.Person },
		personal: true,
	}),
	KindRenewLink:    of((*RenewLink).apply),
	KindNoteCheckout: of((*NoteCheckout).apply),
	KindNotePayment:  of((*NotePayment).apply),
	KindSetBilling: act((*SetBilling).apply, acting[SetBilling]{
		name:  "set_billing",
		about: func(c *SetBilling) (uint32, [16]byte) { return c.Workspace, [16]byte{} },
	}),
	KindGrantCredits: act((*GrantCredits).apply, acting[GrantCredits]{
		name:  "grant_credits",
		about: func(c *GrantCredits) (uint32, [16]byte) { return c.Workspace, [16]byte{} },
		may:   operators[GrantCredits],
		note:  func(c *GrantCredits) string { return c.Note },
	}).growing(),
	KindMarkIssueReady:   of((*MarkIssueReady).apply),
	KindReadNotification: of((*ReadNotification).apply),
	KindStartLocalRun:    of((*StartLocalRun).apply).growing(),
	KindFinishLocalRun:   of((*FinishLocalRun).apply),
	KindNoteRefund:       of((*NoteRefund).apply),
	KindNoteSurplus:      of((*NoteSurplus).apply),
	KindRetryRefund: act((*RetryRefund).apply, acting[RetryRefund]{
		name:  "retry_refund",
		about: func(c *RetryRefund) (uint32, [16]byte) { return 0, c.ID },
		may:   operators[RetryRefund],
	}),
	KindSaveInspection:    of((*SaveInspection).apply).growing(),
	KindAddInspectionPart: of((*AddInspectionPart).apply).growing(),
	KindNoteUse:           of((*NoteUse).apply),
	KindRemoveWorkspace: act((*RemoveWorkspace).apply, acting[RemoveWorkspace]{
		name:  "remove",
		about: func(c *RemoveWorkspace) (uint32, [16]byte) { return c.Workspace, [16]byte{} },
		may:   operators[RemoveWorkspace],
	}),
	KindSignIn:          of((*SignIn).apply),
	KindEndSession:      of((*EndSession).apply),
	KindNoteSession:     of((*NoteSession).apply),
	KindChooseWorkspace: of((*ChooseWorkspace).apply),
	KindOpenWorkspace:   of((*OpenWorkspace).apply).growing(),
	KindAnswerLink:      of((*AnswerLink).apply),
	KindSetAlerts: act((*SetAlerts).apply, acting[SetAlerts]{
		name:  "set_alerts",
		about: func(c *SetAlerts) (uint32, [16]byte) { return c.Workspace, c.Flow },
	}).growing(),
	KindRotateAlertSecret: act((*RotateAlertSecret).apply, acting[RotateAlertSecret]{
		name:  "rotate_alert_secret",
		about: func(c *RotateAlertSecret) (uint32, [16]byte) { return c.Workspace, c.Flow },
	}),
	KindSendTestAlert: act((*SendTestAlert).apply, acting[SendTestAlert]{
		name:  "test_alert",
		about: func(c *SendTestAlert) (uint32, [16]byte) { return c.Workspace, c.Flow },
	}).growing(),
	KindBeginAlert: of((*BeginAlert).apply),
	KindNoteAlert:  of((*NoteAlert).apply),
	KindSetAgents:  of((*SetAgents).apply),
	KindScheduleFlow: act((*ScheduleFlow).apply, acting[ScheduleFlow]{
		name:  "schedule_flow",
		about: func(c *ScheduleFlow) (uint32, [16]byte) { return c.Workspace, c.Flow },
	}).growingBy(growsBySchedule),
	KindSetTestAccess: act((*SetTestAccess).apply, acting[SetTestAccess]{
		name:  "set_test_access",
		about: func(c *SetTestAccess) (uint32, [16]byte) { return c.Workspace, [16]byte{} },
		note:  func(c *SetTestAccess) string { return c.Host },
	}).growing(),
	KindRemoveTestAccess: act((*RemoveTestAccess).apply, acting[RemoveTestAccess]{
		name:  "remove_test_access",
		about: func(c *RemoveTestAccess) (uint32, [16]byte) { return c.Workspace, [16]byte{} },
		note:  func(c *RemoveTestAccess) string { return c.Host },
	}),
	KindAskAddress:     of((*AskAddress).apply),
	KindConfirmAddress: of((*ConfirmAddress).apply),
}

// table is the registry with Act and with what every machine knows.
var table = func() machine.Table[*Machine, *turn] {
	t := make(machine.Table[*Machine, *turn], len(registry))
	for kind := range registry {
		t[kind] = registry[kind].Command
	}
	t[KindAct] = machine.Command[*Machine, *turn]{
		Name: "Act", Open: openAct, Carries: carriedByAct,
	}
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

// turn is one entry's turn in Apply: the state that it may change, and the record that is carried
// out.
type turn struct {
	machine.Turn
	*state
}
