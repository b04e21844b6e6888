package admin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/server/admin"
)

// saves makes the node's backups what save writes.
func (n *node) saves(save func(ctx context.Context, w io.Writer, stale bool, pace int) error) {
	n.save.Store(&save)
}

func (n *node) openBackup(ctx context.Context) *http.Response {
	request, err := http.NewRequestWithContext(ctx, "GET", "http://"+n.addr+admin.Prefix+"/backup", nil)
	require.NoError(n.t, err)
	request.Header.Set("Authorization", "Bearer "+n.key)
	response, err := http.DefaultClient.Do(request)
	require.NoError(n.t, err)
	return response
}

func TestBackupIsStreamed(t *testing.T) {
	n := start(t)
	whole := bytes.Repeat([]byte("backup"), 1<<20)
	n.saves(func(_ context.Context, w io.Writer, stale bool, pace int) error {
		require.Equal(t, []any{true, 3 << 20}, []any{stale, pace})
		_, err := w.Write(whole)
		return err
	})
	answer := n.call("GET", "backup?stale=true&mibPerSecond=3", "").is(200, "")
	require.Equal(t, admin.BackupMedia, answer.header.Get("Content-Type"))
	require.True(t, answer.raw == string(whole))

	n.send("GET", "backup", "", "", "").is(401, "invalid_key")
	for _, query := range []string{
		"stale=yes", "mibPerSecond=0", "mibPerSecond=x", "mibPerSecond=65537", "mibPerSecond=-1",
	} {
		n.call("GET", "backup?"+query, "").is(400, "validation_failed")
	}
}

func TestBackupThatCannotBeMadeIsRefused(t *testing.T) {
	n := start(t)
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{admin.ErrBackupRunning, 409, "backup_running"},
		{admin.ErrNotCurrent, 503, "unavailable"},
		{errors.New("disk on fire"), 500, "internal_error"},
	} {
		n.saves(func(context.Context, io.Writer, bool, int) error { return fmt.Errorf("x: %w", c.err) })
		require.NotContains(t, n.call("GET", "backup", "").is(c.status, c.code).raw, "fire")
	}
}

// A backup that fails in the middle is cut off: its client sees that it is not whole.
func TestBackupThatFailsIsCutOff(t *testing.T) {
	n := start(t)
	n.saves(func(_ context.Context, w io.Writer, _ bool, _ int) error {
		_, err := w.Write(make([]byte, 1<<20))
		return errors.Join(err, errors.New("a segment is damaged"))
	})
	response := n.openBackup(context.Background())
	require.Equal(t, 200, response.StatusCode)
	_, err := io.Copy(io.Discard, response.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NoError(t, response.Body.Close())
}

// A client that goes away ends the backup: the node does not go on for nobody.
func TestBackupEndsWithItsClient(t *testing.T) {
	n := start(t)
	ended := make(chan error, 1)
	n.saves(func(ctx context.Context, w io.Writer, _ bool, _ int) error {
		for {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				ended <- ctx.Err()
				return err
			}
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	response := n.openBackup(ctx)
	_, err := io.CopyN(io.Discard, response.Body, 1<<20)
	require.NoError(t, err)
	cancel()
	require.NoError(t, response.Body.Close())
	select {
	case err := <-ended:
		require.ErrorIs(t, err, context.Canceled)
	case <-time.After(20 * time.Second):
		require.Fail(t, "the backup goes on")
	}
}

// A stream may take longer than one answer may: each piece has that time.
func TestStreamOutlivesTheTimeOfAnAnswer(t *testing.T) {
	n := startWithin(t, 300*time.Millisecond)
	n.saves(func(_ context.Context, w io.Writer, _ bool, _ int) error {
		for range 10 {
			if _, err := io.WriteString(w, strings.Repeat("x", 64<<10)); err != nil {
				return err
			}
			<-time.After(100 * time.Millisecond)
		}
		return nil
	})
	answer := n.call("GET", "backup", "").is(200, "")
	require.Len(t, answer.raw, 10*64<<10)
}
