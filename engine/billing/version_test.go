package billing_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
)

// TestNewKindsWaitForTheirVersion: no kind waits for a version that this build does not know.
func TestNewKindsWaitForTheirVersion(t *testing.T) {
	m := billing.New(billing.Config{})
	for kind := range engine.Kind(1000) {
		require.LessOrEqual(t, m.Since(engine.Record{Kind: kind}), engine.Version)
	}
}

var versions = enginetest.Versions[*billing.Machine]{
	Open:  func() *billing.Machine { return billing.New(billing.Config{}) },
	Agree: billing.Agree,
}

func TestVersionOnlyRises(t *testing.T) { versions.OnlyRise(t) }

func TestVersionThatIsNotKnownStopsTheReplica(t *testing.T) { versions.StopTheReplica(t) }
