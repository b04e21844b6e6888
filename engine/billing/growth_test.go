package billing_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/enginetest"
	"tollgate/engine/wire"
)

// TestWhatGrowsIsKnown: what makes the state grow is known in whatever command it is wrapped; what
// ends or frees something never is.
func TestWhatGrowsIsKnown(t *testing.T) {
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
	for _, kind := range []engine.Kind{
		billing.KindRecordUsage, billing.KindCreateCustomer, billing.KindApplyCatalog,
		billing.KindCreateWebhookEndpoint, billing.KindCreateSubscription,
	} {
		for i, r := range wrapped(kind) {
			require.True(t, billing.Grows(r), "%d, wrapped in way %d", kind, i)
		}
	}
	for _, kind := range []engine.Kind{
		billing.KindCancelSubscription, billing.KindVoidUsage, billing.KindRevokeKey,
		billing.KindArchiveCustomer, billing.KindEraseCustomer, billing.KindMarkInvoicePaid,
		billing.KindDeleteWebhookEndpoint, billing.KindSetLimits, billing.KindRecordAudits,
		engine.KindTick,
	} {
		for i, r := range wrapped(kind) {
			require.False(t, billing.Grows(r), "%d, wrapped in way %d", kind, i)
		}
	}
	require.False(t, billing.Grows(engine.Record{Kind: billing.KindOnce, Payload: []byte{255}}))
}
