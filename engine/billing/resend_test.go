package billing_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
)

// TestRecordsAreSafeToSendAgain: the cluster proposes a record again whose answer was lost. In any
// history the second one changes nothing, and its outcome is the first one's success.
func TestRecordsAreSafeToSendAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, twin := billing.New(billing.Config{}), billing.New(billing.Config{})
		var kinds []engine.Kind
		for index, e := range enginetest.BillingEntries(t) {
			h, records, err := engine.ParseEntry(e)
			require.NoError(t, err)
			log := enginetest.Log{Stamp: h.Stamp, Shard: h.Shard}
			for r, ok := records.Next(); ok; r, ok = records.Next() {
				if r.Kind < engine.FirstDomainKind {
					continue
				}
				r = submitted(r.Kind, bytes.Clone(r.Payload), fmt.Sprint(len(kinds)))
				kinds = append(kinds, r.Kind)
				at := m.Applied() + 1
				// The tick does what falls due with the record itself, as an invoice with no days to
				// pay does; the repetition would do it for one of the two alone.
				once := log.Entry(r, engine.Record{Kind: engine.KindTick})
				first := enginetest.Outcomes(t, m, at, [][]byte{once})[0][0].Outcome
				enginetest.Outcomes(t, twin, at, [][]byte{once})
				again := log.Entry(r)
				if first.Refused() {
					again = log.Entry()
				}
				second := enginetest.Outcomes(t, m, at+1, [][]byte{again})[0]
				enginetest.Outcomes(t, twin, at+1, [][]byte{log.Entry()})
				switch {
				case first.Refused():
				case r.Kind == billing.KindRecordAudits:
					require.Equal(t, engine.OutcomeDuplicate, second[0].Outcome)
				default:
					require.Equal(t, first, second[0].Outcome, "kind %d", r.Kind)
				}
				require.True(t, bytes.Equal(behindHeader(t, m), behindHeader(t, twin)),
					"entry %d: a record sent again changed the state: kinds %v", index, kinds)
			}
			requireSameTails(t, m, twin)
		}
	})
}
