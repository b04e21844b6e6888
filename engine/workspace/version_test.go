package workspace_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/workspace"
)

// TestNewKindsWaitForTheirVersion: no kind waits for a version that this build does not know.
func TestNewKindsWaitForTheirVersion(t *testing.T) {
	m := workspace.New(workspace.Config{Shard: 1})
	for kind := range engine.Kind(1000) {
		require.LessOrEqual(t, m.Since(engine.Record{Kind: kind}), engine.Version)
	}
}

var versions = enginetest.Versions[*workspace.Machine]{
	Shard: 1,
	Open:  opened,
	Agree: workspace.Agree,
}

func TestVersionOnlyRises(t *testing.T) { versions.OnlyRise(t) }

func TestVersionThatIsNotKnownStopsTheReplica(t *testing.T) { versions.StopTheReplica(t) }
