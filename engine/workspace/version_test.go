package workspace_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/enginetest"
	"tollgate/engine/workspace"
)

// last is the last kind that every build knows, also those that do not know of cluster versions.
const last = 45

// A kind that not every build knows waits for the version with which it came. A new kind that fails
// here needs a row in the table of its machine, and engine.Version is raised once for a release.
func TestNewKindsWaitForTheirVersion(t *testing.T) {
	m := workspace.New(workspace.Config{Shard: 1})
	for kind := range engine.Kind(1000) {
		since := m.Since(kind)
		require.LessOrEqual(t, since, engine.Version)
		require.Equal(t, kind > last, since > 0, "kind %d", kind)
	}
}

var versions = enginetest.Versions[*workspace.Machine]{
	Shard: 1,
	Open:  opened,
	Agree: workspace.Agree,
}

func TestVersionOnlyRises(t *testing.T) { versions.OnlyRise(t) }

func TestVersionThatIsNotKnownStopsTheReplica(t *testing.T) { versions.StopTheReplica(t) }
