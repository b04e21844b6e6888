package daemon

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/config"
)

// scheduled is the schedule of node1, which makes backups in a bucket or has another node do so.
func scheduled(makes string) *schedule {
	settings := config.Default()
	settings.Node = "node1"
	settings.Backups.Folder, settings.Backups.Node = "s3://books/a", makes
	n := newNode(settings, slog.New(slog.DiscardHandler))
	n.backups = newBackupMetrics(prometheus.NewRegistry())
	return &schedule{node: n}
}

// TestOnlyTheNodeThatMakesBackupsNeedsCredentials: the others do not complain, and it does each
// time.
func TestOnlyTheNodeThatMakesBackupsNeedsCredentials(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	other, maker := scheduled("node2"), scheduled("node1")
	for i := range 3 {
		require.Equal(t, bucketLook, other.step(t.Context()))
		require.Zero(t, other.backups.failures.Load())
		require.Equal(t, scheduleRetry, maker.step(t.Context()))
		require.EqualValues(t, i+1, maker.backups.failures.Load())
	}
}

// TestLooksAreFew: each is a request that costs. They list backups alone, which segments may be
// thousands of times as many as, and rarely where another node makes them.
func TestLooksAreFew(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Query().Get("prefix"))
		fmt.Fprint(w, `<R><Contents><Key>a/tollgate-20261121T120000Z.tgb</Key></Contents>
			<Contents><Key>a/tollgate-20261121T120000Z.tgb.proven</Key></Contents></R>`)
	}))
	defer server.Close()
	t.Setenv("AWS_ACCESS_KEY_ID", "ID")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "SECRET")
	t.Setenv("AWS_ENDPOINT_URL", server.URL)
	s := scheduled("node2")
	for range 9 {
		require.Equal(t, bucketLook, s.step(t.Context()))
	}
	require.Equal(t, []string{"a/tollgate-"}, asked)
	require.Equal(t, 2026, s.backups.newest.Load().Year(), "it knows of the backup all the same")
	s.looked = s.looked.Add(-othersLook)
	s.step(t.Context())
	require.Len(t, asked, 2)
}
