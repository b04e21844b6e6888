package local

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/archive"
)

// TestWhereABackupIs: the name of a bucket without a file is not a folder "s3:".
func TestWhereABackupIs(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "ID")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "SECRET")
	for _, wrong := range []string{"s3://", "s3:///f", "s3://books", "s3://books/", "s3://books/a/"} {
		_, _, err := storeOf(wrong)
		require.ErrorContains(t, err, "want s3://BUCKET/", wrong)
	}
	for name, want := range map[string][2]string{
		"s3://books/f":     {"s3://books/f", "f"},
		"s3://books/a/b/f": {"s3://books/a/b/f", "f"},
		"f":                {"f", "f"},
		"/a/f":             {"/a/f", "f"},
	} {
		store, file, err := storeOf(name)
		require.NoError(t, err, name)
		require.Equal(t, want, [2]string{store.Name(file), file})
	}
	store, _, err := storeOf("a/f")
	require.NoError(t, err)
	require.Equal(t, archive.Folder("a"), store)
}
