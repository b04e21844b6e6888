package billing_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/enginetest"
)

// TestRecordsAreSafeToSendAgain: the cluster proposes a record again whose answer was lost. In any
// history the second one changes nothing, and its outcome is the first one's success.
func TestRecordsAreSafeToSendAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, twin := billing.New(billing.Config{}), billing.New(billing.Config{})
		tick := engine.Record{Kind: engine.KindTick}
		index := uint64(0)
		for _, e := range enginetest.BillingEntries(t) {
			h, records, err := engine.ParseEntry(e)
			require.NoError(t, err)
			for r, ok := records.Next(); ok; r, ok = records.Next() {
				if r.Kind == engine.KindCheckState {
					continue
				}
				log := enginetest.Log{Stamp: h.Stamp, Shard: h.Shard}
				first := outcomes(t, m, index+1, [][]byte{log.Entry(r)})[0][0].Outcome
				outcomes(t, twin, index+1, [][]byte{log.Entry(r)})
				again := r
				if first.Refused() {
					again = tick
				}
				second := outcomes(t, m, index+2, [][]byte{log.Entry(again)})[0][0].Outcome
				outcomes(t, twin, index+2, [][]byte{log.Entry(tick)})
				index += 2
				if r.Kind == billing.KindRecordAudits && !first.Refused() {
					require.Equal(t, engine.OutcomeDuplicate, second)
				} else if !first.Refused() {
					require.Equal(t, first, second, "kind %d", r.Kind)
				}
			}
			require.True(t, bytes.Equal(behindHeader(snapshotOf(t, m)),
				behindHeader(snapshotOf(t, twin))), "a record sent again changed the state")
			require.True(t, bytes.Equal(m.Journal().Tail(), twin.Journal().Tail()))
		}
	})
}
