package limits_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/gob"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"tollgate/bench/enginetest"
	"tollgate/bench/servertest"
	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/admin"
	"tollgate/server/client"
)

// connections is how many clients each wait for an answer before they ask again.
const connections = 64

// loadEnv has the test binary send requests to the address that it holds.
const loadEnv = "TOLLGATE_LIMITS_LOAD"

// order is what the process that sends requests reads from its standard input.
type order struct {
	Request  []byte
	Requests int64
}

// load sends an order's requests over all connections.
func load(addr string, in io.Reader) error {
	var o order
	if err := gob.NewDecoder(in).Decode(&o); err != nil {
		return err
	}
	var left atomic.Int64
	left.Store(o.Requests)
	failed := make(chan error, connections)
	for range connections {
		go func() { failed <- ask(addr, o.Request, &left) }()
	}
	for range connections {
		if err := <-failed; err != nil {
			return err
		}
	}
	return nil
}

func ask(addr string, request []byte, left *atomic.Int64) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	size, answer := 0, make([]byte, 16<<10)
	for left.Add(-1) >= 0 {
		if _, err := conn.Write(request); err != nil {
			return err
		}
		if size == 0 { // all answers are as long as the first one
			var read bytes.Buffer
			answered, err := http.ReadResponse(bufio.NewReader(io.TeeReader(conn, &read)), nil)
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, answered.Body)
			if err != nil || answered.StatusCode != http.StatusOK {
				return fmt.Errorf("answer %s: %w", answered.Status, err)
			}
			size = read.Len()
			continue
		}
		if _, err := io.ReadFull(conn, answer[:size]); err != nil {
			return err
		}
	}
	return nil
}

// asked measures the processor time of b.N requests, which another process sends.
func asked(b *testing.B, addr string, request []byte) {
	b.Helper()
	var in bytes.Buffer
	require.NoError(b, gob.NewEncoder(&in).Encode(order{request, int64(b.N)}))
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), loadEnv+"="+addr)
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	stop := perUnit(b, 1)
	require.NoError(b, cmd.Run())
	stop()
}

// prepared is a node without Raft that has one customer, and a request that checks it.
func prepared(b *testing.B) (api *client.API, key string, request []byte) {
	c := servertest.New()
	const name = "customer-00000001"
	id := enginetest.ID(name)
	c.Do(b, billing.KindCreateAccount, &billing.CreateAccount{ID: id, Name: "demo"})
	c.Do(b, billing.KindApplyCatalog,
		enginetest.ApplyCatalog(enginetest.Sandbox, enginetest.TokenPlan()))
	c.Do(b, billing.KindCreateCustomer, &billing.CreateCustomer{
		Env: enginetest.Sandbox, ID: id, ExternalID: name,
	})
	c.Do(b, billing.KindCreateSubscription, &billing.CreateSubscription{
		Env: enginetest.Sandbox, ID: id, InvoiceID: id, Customer: name, Plan: "llm-team",
	})
	key = server.MintKey(server.KeyPrefixSandbox)
	hash := sha256.Sum256([]byte(key))
	c.Do(b, billing.KindCreateKey, &billing.CreateKey{
		Env: enginetest.Sandbox, ID: [16]byte(hash[:16]), Hash: hash, Scope: billing.ScopeFull,
		Hint: key[:12],
	})
	api, err := client.New(client.Config{
		Machine: c.Machine, Proposer: c, Reader: c, Events: c, Counts: c, Keys: c, NodeID: 1,
		NoteKeys: true, SpoolDir: b.TempDir(), Observe: admin.NewMetrics().Observer("client"),
	})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, api.Close()) })
	return api, key, []byte("GET " + client.Prefix + "/entitlements/" + name + "/output-tokens HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + key + "\r\n\r\n")
}

// constant is a route table whose one route compares a constant key and gives a constant answer.
func constant(b *testing.B, key string, body []byte) *server.Table {
	bearer := "Bearer " + key
	table, err := server.NewTable([]server.Route{{
		Method: "GET", Path: client.Prefix + "/entitlements/{customerReferenceId}/{feature-key}",
		Operation: "check", Access: server.AccessRead,
		Handle: func(x *server.Exchange) { x.Bare(fasthttp.StatusOK, "application/json", body) },
	}}, server.TableConfig{
		Authenticate: func(x *server.Exchange) *server.Fault {
			if string(x.Ctx.Request.Header.Peek("Authorization")) != bearer {
				return server.FaultScope
			}
			return nil
		},
		Observe: admin.NewMetrics().Observer("client"),
	})
	require.NoError(b, err)
	return table
}

// BenchmarkHTTPCeiling gives one answer from ever more of a node.
func BenchmarkHTTPCeiling(b *testing.B) {
	api, key, request := prepared(b)
	var once sync.Once
	var body []byte
	plain := func(ctx *fasthttp.RequestCtx) {
		ctx.SetContentType("application/json")
		ctx.Response.Header.Set("X-Request-Id", "req_0123456789abcdef01234567")
		ctx.SetBody(body)
	}
	ours := func(b *testing.B, handler fasthttp.RequestHandler) (addr string) {
		s, err := server.Listen("127.0.0.1:0", handler, server.DefaultLimits())
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, s.Shutdown(context.WithoutCancel(b.Context()))) })
		return s.Addr().String()
	}
	for _, row := range []struct {
		name  string
		serve func(b *testing.B) (addr string)
	}{
		{"check", func(b *testing.B) string { return ours(b, api.Handler()) }},
		{"fasthttp", func(b *testing.B) string {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(b, err)
			s := &fasthttp.Server{NoDefaultServerHeader: true, Handler: plain}
			go func() { _ = s.Serve(ln) }()
			b.Cleanup(func() { require.NoError(b, s.Shutdown()) })
			return ln.Addr().String()
		}},
		{"listener", func(b *testing.B) string { return ours(b, plain) }},
		{"table", func(b *testing.B) string { return ours(b, constant(b, key, body).Serve) }},
	} {
		b.Run(row.name, func(b *testing.B) {
			addr := row.serve(b)
			once.Do(func() {
				conn, err := net.Dial("tcp", addr)
				require.NoError(b, err)
				_, err = conn.Write(request)
				require.NoError(b, err)
				answered, err := http.ReadResponse(bufio.NewReader(conn), nil)
				require.NoError(b, err)
				body, err = io.ReadAll(answered.Body)
				require.NoError(b, err)
				require.NoError(b, conn.Close())
			})
			asked(b, addr, request)
		})
	}
}
