package billing_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
)

// grow are the kinds that are refused while memory is low, keep all the others: they free, end,
// correct, replace or pay something, configure the service, or keep it going. What they replace may
// stay, within bounds: UpdateCustomer and SetSeller keep who a former invoice names.
var grow, keep = []engine.Kind{
	billing.KindRecordUsage, billing.KindRecordProbedUsage, billing.KindCreateAccount,
	billing.KindCreateKey, billing.KindApplyCatalog, billing.KindCreateCustomer,
	billing.KindCreateSubscription, billing.KindChangePlan, billing.KindCreatePool,
	billing.KindGrantCredits, billing.KindDeductCredits, billing.KindOpenCheckout,
	billing.KindKeepAnswer, billing.KindAdvanceClock, billing.KindCreateWebhookEndpoint,
	billing.KindReserve, billing.KindSetTopUp,
	billing.KindPutBudget, billing.KindTestWebhook,
}, []engine.Kind{
	engine.KindTick, engine.KindCheckState, engine.KindHandOver, engine.KindSetVersion,
	billing.KindRecordAudits, billing.KindRevokeKey, billing.KindMarkInvoicePaid,
	billing.KindSetLimits, billing.KindFreezePool, billing.KindUnfreezePool,
	billing.KindArchivePool, billing.KindReverseTransaction, billing.KindUpdateCustomer,
	billing.KindArchiveCustomer, billing.KindEraseCustomer, billing.KindSetOrigins,
	billing.KindSetPaymentProvider, billing.KindNoteCheckout, billing.KindRecordPayment,
	billing.KindCancelSubscription, billing.KindSetPaymentTerms, billing.KindRevertCancellation,
	billing.KindCancelPlanChange, billing.KindVoidInvoice, billing.KindVoidUsage,
	billing.KindSettleReservation, billing.KindExtendReservation, billing.KindReleaseReservation,
	billing.KindAmendUsage, billing.KindUpdateWebhookEndpoint, billing.KindDeleteWebhookEndpoint,
	billing.KindRotateWebhookSecret, billing.KindRecordDelivery, billing.KindResendWebhook,
	billing.KindNoteMembership, billing.KindDemoteKeys, billing.KindSetSeller, billing.KindMoveBudget,
	billing.KindSetPortal, billing.KindRevokePortalLinks, billing.KindNotePortalLink,
	billing.KindArchiveBudget, billing.KindFreezeBudget, billing.KindBindKey,
	billing.KindNoteKeyUse,
	billing.KindSetLowBalance, billing.KindStopTopUp, billing.KindRecordTopUp,
	billing.KindEndTopUp, billing.KindResendWebhooks,
}

// TestWhatGrowsIsKnown: every kind of the registry either makes the state grow or does not, in
// whatever command it is wrapped; and so it waits for the cluster version that it came with. A new
// kind belongs in one of the two lists.
func TestWhatGrowsIsKnown(t *testing.T) {
	wrappers := []engine.Kind{billing.KindOnce, billing.KindSubmit, billing.KindAdminister}
	require.ElementsMatch(t, billing.RegisteredKinds(), slices.Concat(grow, keep, wrappers))

	m := billing.New(billing.Config{})
	mint := func() [16]byte { return enginetest.ID("one") }
	wrapped := func(kind engine.Kind) []engine.Record {
		plain := m.Repeatable(kind, nil, mint)
		once := billing.Once{Kind: kind}
		operator := billing.Administer{Kind: plain.Kind, Payload: plain.Payload}
		return []engine.Record{
			plain,
			{Kind: billing.KindOnce, Payload: wire.Encode(nil, &once)},
			{Kind: billing.KindAdminister, Payload: wire.Encode(nil, &operator)},
		}
	}
	for _, kind := range grow {
		for i, r := range wrapped(kind) {
			require.True(t, billing.Grows(r), "%d, wrapped in way %d", kind, i)
			require.EqualValues(t, 7, billing.SinceKind(kind, 7, r), "%d, wrapped in way %d", kind, i)
		}
	}
	for _, kind := range keep {
		for i, r := range wrapped(kind) {
			require.False(t, billing.Grows(r), "%d, wrapped in way %d", kind, i)
			require.EqualValues(t, 7, billing.SinceKind(kind, 7, r), "%d, wrapped in way %d", kind, i)
		}
	}
	require.False(t, billing.Grows(engine.Record{Kind: billing.KindOnce, Payload: []byte{255}}))
}
