package archive

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/cluster/backup"
)

// TestOneClusterWithoutAnIdentityHasAFolder: it goes on while its machines are replaced one by one;
// another one is refused.
func TestOneClusterWithoutAnIdentityHasAFolder(t *testing.T) {
	s := Folder(filepath.Join(t.TempDir(), "new"))
	claims := func(cluster string, folders ...string) error {
		claimed, err := Claim(t.Context(), s, cluster, folders)
		require.Equal(t, err == nil && (cluster != "" || len(folders) > 0), claimed)
		return err
	}
	require.NoError(t, claims("", "a", "b", "c"))
	require.NoError(t, claims("", "c", "b", "a"))
	require.NoError(t, claims(""), "a node that has met no leader yet cannot tell")
	require.NoError(t, claims(strings.Repeat("0", 32), "x"), "a restored one has names of its own")
	require.ErrorIs(t, claims("", "x", "y", "z"), ErrOtherCluster)
	require.ErrorContains(t, claims("", "x"), s.Name("cluster.json"))
	require.NoError(t, claims("", "d", "b", "c"))
	require.NoError(t, claims("", "d", "e", "f"))
	require.ErrorIs(t, claims("", "a", "b", "c"), ErrOtherCluster)

	require.NoError(t, os.WriteFile(s.Name(claimFile), []byte(`{"folders":[]}`), 0o600))
	require.ErrorIs(t, claims("", "d"), backup.ErrDamaged)
	require.NoError(t, os.Remove(s.Name(claimFile)))
	require.NoError(t, claims("", "a", "b", "c"))
}
