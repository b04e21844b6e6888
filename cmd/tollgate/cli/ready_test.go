package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadyAsksTheUsualAddressWithoutDevJSON(t *testing.T) {
	nodes, err := (&ReadyCommand{Data: t.TempDir()}).nodes()
	require.NoError(t, err)
	require.Equal(t, []string{"127.0.0.1:9080"}, nodes, "as health checks in containers have it")
}
