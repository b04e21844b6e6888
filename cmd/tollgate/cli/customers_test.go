package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestASortedListSaysWhatItLeavesOutOnceItIsRead: what --limit leaves out is said to be more.
func TestASortedListSaysWhatItLeavesOutOnceItIsRead(t *testing.T) {
	next := `,"nextCursor":"1"`
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"success":true,"data":{"customers":[{}],"omitted":2000%s}}`, next)
	}))
	defer node.Close()
	list := customersListCommand{Sort: "pastDue", Limit: 1}
	list.Ops, list.AdminKey = []string{node.Listener.Addr().String()}, "key"
	said := func() string {
		var out strings.Builder
		require.NoError(t, list.Run(t.Context(), &out))
		return out.String()
	}
	text := said()
	require.Contains(t, text, "raise --limit")
	require.NotContains(t, text, "left out")
	next = ""
	text = said()
	require.Contains(t, text, "no more than 1: 2000 customers are left out")
	require.NotContains(t, text, "raise --limit")
}
