package daemon

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/config"
)

func TestConnectionsFitTheOpenFiles(t *testing.T) {
	for files, want := range map[uint64][2]int{
		1 << 63: {16_384, 4_096}, 18_432: {16_384, 4_096}, 18_431: {16_383, 4_096},
		4_096: {2_048, 2_048}, 2_049: {1, 1}, 256: {1, 1},
	} {
		c := config.Default().Connections
		lowerConnections(&c, files)
		require.Equal(t, want, [2]int{c.Total, c.PerAddress}, "%d open files", files)
	}
}
