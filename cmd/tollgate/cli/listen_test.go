package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestListenRemovesWhatAKilledOneLeft: endpoints of processes of this machine that have ended, and
// no others.
func TestListenRemovesWhatAKilledOneLeft(t *testing.T) {
	ended := exec.Command("true")
	require.NoError(t, ended.Run())
	gone := strconv.Itoa(ended.Process.Pid)
	var removed []string
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "DELETE" {
			removed = append(removed, path.Base(r.URL.Path))
			fmt.Fprint(w, `{"success":true}`)
			return
		}
		var all []map[string]any
		for id, e := range map[string][2]string{
			"left":    {listenURL, listenMark() + gone},
			"running": {listenURL, listenMark() + strconv.Itoa(os.Getpid())},
			"theirs":  {listenURL, "tollgate listen on another machine, process " + gone},
			"hook":    {"https://books.example/hook", listenMark() + gone},
			"older":   {listenURL, "tollgate listen"},
		} {
			all = append(all, map[string]any{"id": id, "url": e[0], "description": e[1]})
		}
		json.NewEncoder(w).Encode(map[string]any{"success": true, "data": all})
	}))
	defer node.Close()
	admin, err := Connect([]string{node.Listener.Addr().String()}, "key", "")
	require.NoError(t, err)
	defer admin.Close()
	new(ListenCommand).removeLeft(t.Context(), admin)
	require.Equal(t, []string{"left"}, removed)
}

// TestUnseenMessagesAreReadPageByPage checks that pages are read until a known message, or the end.
func TestUnseenMessagesAreReadPageByPage(t *testing.T) {
	newest, asked := 5, 0 // messages are 1 to newest, two to a page
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		at := newest
		if cursor := r.FormValue("cursor"); cursor != "" {
			at, _ = strconv.Atoi(cursor)
		}
		messages, next := fmt.Sprintf(`{"id":"%d"}`, at), ""
		if at > 1 {
			messages += fmt.Sprintf(`,{"id":"%d"}`, at-1)
		}
		if at > 2 {
			next = fmt.Sprintf(`,"nextCursor":"%d"`, at-2)
		}
		fmt.Fprintf(w, `{"success":true,"data":{"deliveries":[%s]%s}}`, messages, next)
	}))
	defer node.Close()
	admin, err := Connect([]string{node.Listener.Addr().String()}, "key", "")
	require.NoError(t, err)
	defer admin.Close()

	fresh, seen, err := unseen(t.Context(), admin, "/deliveries", nil)
	require.NoError(t, err)
	require.Equal(t, []string{"5", "4", "3", "2", "1"}, fresh)
	newest, asked = 9, 0
	fresh, seen, err = unseen(t.Context(), admin, "/deliveries", seen)
	require.NoError(t, err)
	require.Equal(t, []string{"9", "8", "7", "6"}, fresh)
	require.Equal(t, 3, asked)
	require.Len(t, seen, 6, "what is far behind is forgotten")
	fresh, _, err = unseen(t.Context(), admin, "/deliveries", seen)
	require.NoError(t, err)
	require.Empty(t, fresh)
}
