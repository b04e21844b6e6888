package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

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
