package billing

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/machine"
)

// TestSinceIsAskedOfAllCommands: a command of which a field came later waits for its version, also
// where it is opened by hand.
func TestSinceIsAskedOfAllCommands(t *testing.T) {
	byHand := map[engine.Kind][]any{
		KindRecordAudits: {}, KindRecordUsage: {&RecordUsage{}},
		KindRecordProbedUsage: {&probedUsage{}, &RecordUsage{}},
		KindOnce:              {&Once{}}, KindSubmit: {&Submit{}}, KindAdminister: {&Administer{}},
		KindReserve: {&Reserve{}}, KindSettleReservation: {&SettleReservation{}},
	}
	for kind, row := range registry {
		if row.Name == "" {
			continue // of every machine, or none
		}
		decoded, known := byHand[engine.Kind(kind)]
		if !known {
			open, _ := row.Open(nil, nil)
			inner := machine.Inner(open)
			require.NotEqual(t, open, inner, "%s is opened by hand: list what it decodes", row.Name)
			decoded = []any{inner}
		}
		asks := false
		for _, c := range decoded {
			_, later := c.(interface{ Since() uint32 })
			asks = asks || later
		}
		require.Equal(t, asks, row.Since != nil, "Since of %s", row.Name)
	}
}
