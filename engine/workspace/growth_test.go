package workspace_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
)

// grow are the kinds that are refused while memory is low, keep all the others: they free, end,
// replace, answer or pay something, configure the service, or keep it going.
var grow, keep = []engine.Kind{
	workspace.KindSignUp, workspace.KindSaveFlow, workspace.KindStartRun, workspace.KindRequestRun,
	workspace.KindStartLocalRun, workspace.KindSaveInspection, workspace.KindAddInspectionPart,
	workspace.KindRequestPurchase, workspace.KindOpenWorkspace, workspace.KindSetTestAccess,
	workspace.KindGrantCredits, workspace.KindSetAlerts, workspace.KindSendTestAlert,
}, []engine.Kind{
	engine.KindTick, engine.KindCheckState, engine.KindHandOver, engine.KindSetVersion,
	workspace.KindSetPolicy, workspace.KindRotateKeys, workspace.KindRevokeKey,
	workspace.KindClaimWorkspace, workspace.KindArchiveFlow, workspace.KindConfirmSignup,
	workspace.KindNotePreflight, workspace.KindCancelRun, workspace.KindResumeRun,
	workspace.KindClaimRun, workspace.KindExtendLease, workspace.KindAwaitPerson,
	workspace.KindFinishRun, workspace.KindApprovePurchase, workspace.KindDenyPurchase,
	workspace.KindCancelPurchase, workspace.KindRenewLink, workspace.KindNoteCheckout,
	workspace.KindNotePayment, workspace.KindSetBilling, workspace.KindMarkIssueReady,
	workspace.KindReadNotification, workspace.KindFinishLocalRun, workspace.KindNoteRefund,
	workspace.KindNoteSurplus, workspace.KindRetryRefund, workspace.KindNoteUse,
	workspace.KindRemoveWorkspace, workspace.KindSignIn, workspace.KindEndSession,
	workspace.KindNoteSession, workspace.KindChooseWorkspace, workspace.KindAnswerLink,
	workspace.KindRotateAlertSecret, workspace.KindBeginAlert, workspace.KindNoteAlert,
	workspace.KindSetAgents, workspace.KindRemoveTestAccess, workspace.KindAskAddress,
	workspace.KindConfirmAddress,
}

// TestWhatGrowsIsKnown: every kind of the registry either makes the state grow or does not, also
// where Act carries it; and so it waits for the cluster version that it came with. A new kind
// belongs in one of the two lists.
func TestWhatGrowsIsKnown(t *testing.T) {
	byFields := []engine.Kind{workspace.KindAct, workspace.KindScheduleFlow}
	require.ElementsMatch(t, workspace.RegisteredKinds(), slices.Concat(grow, keep, byFields))

	grows := func(kind engine.Kind, payload []byte) bool {
		plain := workspace.Grows(engine.Record{Kind: kind, Payload: payload})
		act := workspace.Act{Kind: kind, Payload: payload}
		carried := engine.Record{Kind: workspace.KindAct, Payload: wire.Encode(nil, &act)}
		require.Equal(t, plain, workspace.Grows(carried), "%d, carried by Act", kind)
		require.EqualValues(t, 7, workspace.SinceKind(kind, 7, carried), "%d, carried by Act", kind)
		return plain
	}
	for _, kind := range grow {
		require.True(t, grows(kind, nil), kind)
	}
	for _, kind := range keep {
		require.False(t, grows(kind, nil), kind)
	}
	for want, c := range map[bool]workspace.ScheduleFlow{true: {EveryHours: 24}, false: {}} {
		require.Equal(t, want, grows(workspace.KindScheduleFlow, wire.Encode(nil, &c)))
	}
	require.False(t, workspace.Grows(engine.Record{Kind: workspace.KindAct, Payload: []byte{255}}))
}
