package billing_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/enginetest"
)

// always are the kinds that every build knows, also those that do not know of cluster versions.
var always = []engine.Kind{
	1, 2, 3, 4, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 32, 33, 34, 35, 37, 38, 39, 40, 64, 65, 66, 67,
	68, 69, 70, 96, 97, 98, 99, 100, 101, 102, 103, 104, 128, 129, 130, 131, 132, 133, 144, 156, 180,
}

// A kind that not every build knows waits for the version with which it came. A new kind that fails
// here needs a row in the table of its machine, and engine.Version is raised once for a release.
func TestNewKindsWaitForTheirVersion(t *testing.T) {
	m := billing.New(billing.Config{})
	for kind := range engine.Kind(1000) {
		since := m.Since(kind)
		require.LessOrEqual(t, since, engine.Version)
		if slices.Contains(always, kind) {
			require.Zero(t, since, "kind %d", kind)
		} else if kind > 180 {
			require.Positive(t, since, "kind %d", kind)
		}
		entry := engine.AppendRecord(engine.AppendHeader(nil, 0), engine.Record{
			Kind: kind, Payload: []byte{0xff},
		})
		if err := m.Apply(1, entry, &engine.Applied{}); err != nil &&
			!bytes.Contains([]byte(err.Error()), []byte("unknown kind")) {
			require.True(t, since > 0 || slices.Contains(always, kind),
				"kind %d is registered, is not of the first builds, and waits for no version", kind)
		}
	}
}

var versions = enginetest.Versions[*billing.Machine]{
	Open:  func() *billing.Machine { return billing.New(billing.Config{}) },
	Agree: billing.Agree,
}

func TestVersionOnlyRises(t *testing.T) { versions.OnlyRise(t) }

func TestVersionThatIsNotKnownStopsTheReplica(t *testing.T) { versions.StopTheReplica(t) }
