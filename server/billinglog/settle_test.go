package billinglog_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
	"tollgate/server"
	"tollgate/server/billinglog"
)

// TestTheRecordedEventIsRead: of a memory that holds every acknowledged write, also on a node that
// has not applied what its leader has; where that cannot be read the settlement is answered alone.
func TestTheRecordedEventIsRead(t *testing.T) {
	log := enginetest.NewLog(billing.New(billing.Config{}), enginetest.Epoch)
	enginetest.NewAccount(log, enginetest.TokenPlan())
	enginetest.NewCustomer(log, "ada", "llm-team")
	r := log.Do(billing.KindReserve, enginetest.Reservation("r", "ada", "output-tokens", 5))
	require.Equal(t, engine.OutcomeDone, r.Outcome)
	event := enginetest.Usage(log, "mine", "ada", "output-tokens", 3)
	require.Equal(t, engine.OutcomeDone,
		log.DoPayload(billing.KindRecordUsage, event.Seal(nil)).Outcome)

	m := billing.New(billing.Config{})
	follower := enginetest.NewLog(m, enginetest.Epoch)
	source := &enginetest.Source{Journal: m.Journal()}
	catchUp := func() {
		for _, entry := range log.Entries[follower.Index:] {
			_, err := follower.ApplyEntry(entry)
			require.NoError(t, err)
			source.Keep(&follower.Applied)
		}
	}
	settle := func(read func(look func() *server.Fault) *server.Fault) (v billing.ReservationView) {
		s := billinglog.Settler{Machine: m, Events: source}
		r, fault := s.Settle(nil, billinglog.Settlement{
			SettleReservation: &billing.SettleReservation{
				Env: enginetest.Sandbox, ID: enginetest.ID("reservation r"), EventKey: "mine",
				Items: []billing.SettleItem{{Units: decimal.FromInt(5)}},
			},
			Propose: func(kind engine.Kind, payload []byte) engine.Result {
				return log.DoPayload(kind, payload)
			},
			Read: read,
		})
		require.Nil(t, fault)
		require.Equal(t, engine.OutcomeDone, r.Outcome)
		require.NoError(t, wire.Decode(r.Value, &v))
		require.True(t, v.Recorded)
		return v
	}
	require.Empty(t, settle(func(func() *server.Fault) *server.Fault {
		return server.FaultConsistency
	}).RecordedEvent)
	v := settle(func(look func() *server.Fault) *server.Fault {
		catchUp()
		return look()
	})
	require.Equal(t, "mine", v.RecordedKey)
	require.Equal(t, decimal.FromInt(3), v.RecordedUnits)
}
