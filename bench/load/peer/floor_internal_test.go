package peer

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine/billing"
)

const usageForTest = `{"eventIdempotencyKey":"k","eventName":"e","featureKey":"f",` +
	`"customerReferenceId":"c", "occurredAt":"2026-11-21T17:00:00.25Z" ,"usageUnits":2.5}`

func TestTheFloorReadsAnEvent(t *testing.T) {
	var r billing.RecordUsage
	rest, ok := readUsage([]byte(usageForTest+" ,"), &r)
	require.True(t, ok)
	require.Equal(t, " ,", string(rest))
	require.Equal(t, []string{"k", "e", "f", "c", "2.5"}, []string{
		string(r.KeyText), string(r.EventName), string(r.FeatureKey), string(r.Customer),
		r.Units.String(),
	})
	require.Equal(t, time.Date(2026, 11, 21, 17, 0, 0, 250e6, time.UTC).UnixMilli(), r.OccurredAt)
	require.Equal(t, billing.UsageKey(1, []byte("k")), r.Key)
}

// TestTheFloorRefusesWhatIsNoEvent: each changes one thing.
func TestTheFloorRefusesWhatIsNoEvent(t *testing.T) {
	for was, is := range map[string]string{
		`"k"`: `""`, `"e"`: "\"\x01\"", `"f"`: `"\u0041"`, `"c"`: "\"\xff\"", "2.5": "-1",
		"usageUnits": "units", `"featureKey":`: `"featureKey"`, `"customerReferenceId"`: `"eventName"`,
		"T17": "T24", "2026-11-21": "2026-02-29", ".25Z": ".25", "17:00:00.25": "17:00:00.",
		`"eventName":"e",`: "", "5}": "5", `"eventName"`: `eventName`, "2.5}": "2.5,}",
		"}": `,"flowId":"a","flowId":"a"}`, `"usageUnits":`: `"costAmount":1e99,"usageUnits":`,
	} {
		changed := strings.Replace(usageForTest, was, is, 1)
		require.NotEqual(t, usageForTest, changed)
		var r billing.RecordUsage
		_, ok := readUsage([]byte(changed), &r)
		require.False(t, ok, changed)
	}
}

func TestTheFloorReadsInstants(t *testing.T) {
	at := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 20_000 {
		at = at.Add(31*time.Hour + 7*time.Minute + 13*time.Second + 101*time.Millisecond)
		ms, ok := readInstant([]byte(at.Format(time.RFC3339Nano)))
		require.True(t, ok, at)
		require.Equal(t, at.UnixMilli(), ms, at)
	}
}
