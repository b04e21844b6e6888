package server_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/fair"
	"tollgate/server"
)

// account is a caller that is known by its flow alone.
type account struct{ flow fair.Flow }

func (a *account) Reset()          { *a = account{} }
func (a *account) Flow() fair.Flow { return a.flow }

func newAccount() server.Caller { return new(account) }

// TestCall: a row that is called within the process sees what a request would have brought, and its
// answer, or its refusal, comes back.
func TestCall(t *testing.T) {
	body := []byte(`{"a":1}`)
	table, err := server.NewTable([]server.Route{
		{
			Method: "POST", Path: "/api/v1/admin/things/{thing}/of/{owner}", Operation: "make",
			Access: server.AccessOperator, Limit: 16,
			Handle: func(x *server.Exchange) {
				key, fault := server.OnceKey(x)
				require.Nil(t, fault)
				require.Equal(t, "once", string(key))
				require.Equal(t, "a/b c", string(x.Param(0)))
				require.Equal(t, "ü?", string(x.Param(1)))
				require.Equal(t, "/api/v1/admin/things/a%2Fb%20c/of/%C3%BC%3F?limit=5",
					string(x.Ctx.Request.Header.RequestURI()))
				require.Equal(t, "5", string(x.Ctx.QueryArgs().Peek("limit")))
				require.Equal(t, "application/json", x.Media())
				require.Equal(t, "anna@example.com", x.Actor)
				require.EqualValues(t, 3, x.Flow())
				data := x.Begin()
				data.Open('{')
				data.Text("body", string(x.Body))
				data.Close('}')
				x.End(201)
			},
		},
		{
			Method: "GET", Path: "/refuse", Operation: "refuse",
			Handle: func(x *server.Exchange) {
				require.Empty(t, x.Actor, "what an earlier call had")
				require.Equal(t, server.AnonymousFlow, x.Flow())
				x.Refuse(server.FaultScope)
			},
		},
		{Method: "GET", Path: "/panic", Operation: "panic", Handle: func(*server.Exchange) { panic(1) }},
	}, server.TableConfig{
		Authenticate: func(*server.Exchange) *server.Fault { return server.FaultKey },
		NewCaller:    newAccount,
	})
	require.NoError(t, err)
	call := server.Call{
		Operation: "make", Path: []string{"a/b c", "ü?"}, Query: url.Values{"limit": {"5"}},
		Body: body, OnceKey: "once", Actor: "anna@example.com", Caller: &account{3},
	}
	for range 3 {
		reply := table.Call(call)
		require.Nil(t, reply.Fault)
		require.Equal(t, 201, reply.Status)
		require.Equal(t, `{"success":true,"data":{"body":"{\"a\":1}"}}`, string(reply.Body))
		reply = table.Call(server.Call{Operation: "refuse"})
		require.Equal(t, server.FaultScope, reply.Fault)
		require.Equal(t, 403, reply.Status)
	}
	call.Body = make([]byte, 17)
	require.Equal(t, 413, table.Call(call).Status)
	for _, wrong := range []server.Call{
		{Operation: "nothing"}, {Operation: "make", Path: []string{"one"}}, {Operation: "panic"},
	} {
		reply := table.Call(wrong)
		require.Equal(t, 500, reply.Status)
		require.NotNil(t, reply.Fault)
	}
}

// TestInternalRowsAreCalledOnly: no request reaches one, and no list of rows has it.
func TestInternalRowsAreCalledOnly(t *testing.T) {
	done := func(x *server.Exchange) { x.Succeed(200) }
	table, err := server.NewTable([]server.Route{
		{Method: "GET", Path: "/things/{thing}", Operation: "get", Handle: done},
	}, server.TableConfig{Internal: []server.Route{
		{Method: "PUT", Path: "/things/{thing}", Operation: "put", Handle: done},
		{Method: "POST", Path: "/secret", Operation: "secret", Handle: done},
	}})
	require.NoError(t, err)
	require.Equal(t, 200, table.Call(server.Call{Operation: "put", Path: []string{"a"}}).Status)
	require.Equal(t, 200, table.Call(server.Call{Operation: "secret"}).Status)
	require.Equal(t, 405, request(table, "PUT", "/things/a").Response.StatusCode())
	require.Equal(t, 404, request(table, "POST", "/secret").Response.StatusCode())
	require.Len(t, table.Routes(), 1)
}

// TestALongNameIsCut: whoever acts under a name that is longer than the record of changes takes is
// recorded under its beginning, in whole characters.
func TestALongNameIsCut(t *testing.T) {
	var by string
	table, err := server.NewTable([]server.Route{{
		Method: "POST", Path: "/act", Operation: "act", Access: server.AccessOperator,
		Handle: func(x *server.Exchange) {
			by = x.By()
			x.Succeed(200)
		},
	}}, server.TableConfig{Authenticate: func(*server.Exchange) *server.Fault { return nil }})
	require.NoError(t, err)
	for name, want := range map[string]string{
		strings.Repeat("a", 512):       strings.Repeat("a", 512),
		strings.Repeat("a", 600):       strings.Repeat("a", 512),
		"a" + strings.Repeat("ü", 300): "a" + strings.Repeat("ü", 255),
	} {
		require.Equal(t, 200, table.Call(server.Call{Operation: "act", Actor: name}).Status)
		require.Equal(t, want, by)
	}
}

// TestAnOpenRouteHasNoCaller: the Exchange may have served one before.
func TestAnOpenRouteHasNoCaller(t *testing.T) {
	var flow fair.Flow
	look := func(x *server.Exchange) {
		flow = x.Flow()
		x.Succeed(200)
	}
	table, err := server.NewTable([]server.Route{
		{Method: "GET", Path: "/own", Operation: "own", Access: server.AccessFull, Handle: look},
		{Method: "GET", Path: "/open", Operation: "open", Handle: look},
	}, server.TableConfig{
		Authenticate: func(x *server.Exchange) *server.Fault {
			x.Caller.(*account).flow = 3
			return nil
		},
		NewCaller: newAccount,
	})
	require.NoError(t, err)
	for range 10 {
		require.Equal(t, 200, request(table, "GET", "/own").Response.StatusCode())
		require.Equal(t, fair.Flow(3), flow)
		require.Equal(t, 200, request(table, "GET", "/open").Response.StatusCode())
		require.Equal(t, server.AnonymousFlow, flow)
	}
}
