package clustertest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/config"
	"tollgate/cmd/tollgate/demo"
	api "tollgate/sdk/go"
)

// secret is something that must not be found; link reports whether it may lie in the data folder,
// as the pages that a checkout has must be found again.
type secret struct {
	what, text string
	link       bool
}

// forms are the ways in which a secret could be written down.
func (s secret) forms() map[string]string {
	return map[string]string{
		"as it is": s.text, "in base64": base64.StdEncoding.EncodeToString([]byte(s.text))[:len(s.text)],
		"in hexadecimal": hex.EncodeToString([]byte(s.text)),
	}
}

// TestSecretsAreNowhere: every kind of secret is made, used as it should be, and sent to where it
// does not belong. None is found in what a node logs (at its most talkative), measures, answers to
// mistakes, dumps and profiles, in a dump of all goroutines, or in its data folder.
func TestSecretsAreNowhere(t *testing.T) {
	t.Parallel()
	settings, file := solo(t, func(c *config.Config) { c.Log.Level = "debug" })
	node := startServe(t, settings, []string{"serve", "--config", file})
	secrets := everySecret(t, settings.HTTP, settings.Ops)
	require.GreaterOrEqual(t, len(secrets), 11)

	places := map[string][]byte{"error bodies": misuse(t, []string{settings.HTTP, settings.Ops}, secrets)}
	for _, path := range []string{
		"/metrics", "/readyz", "/api/v1/admin/cluster", "/api/v1/admin/node",
		"/api/v1/admin/audit",
		"/debug/pprof/goroutine?debug=1", "/debug/pprof/goroutine?debug=2",
		"/debug/pprof/heap?debug=1", "/debug/pprof/allocs?debug=1", "/debug/pprof/cmdline",
	} {
		places[path] = fetched(t, settings.Ops, path)
	}
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", node.command.Process.Pid))
	require.NoError(t, err)
	places["the process's arguments"] = cmdline
	require.NoError(t, node.command.Process.Signal(syscall.SIGQUIT)) // it dumps its goroutines
	<-node.ended
	places["the log"] = []byte(node.printed.String())
	require.Contains(t, node.printed.String(), "goroutine 1")
	for _, group := range []string{"billing", "workspace"} {
		places["wal dump "+group], err = exec.Command(program, "wal", "dump",
			filepath.Join(settings.Data, group, "log")).Output()
		require.NoError(t, err)
	}
	kept := folder(t, settings.Data)
	require.Contains(t, string(kept), customerOfSecrets, "what is not a secret is found")

	for _, s := range secrets {
		require.GreaterOrEqual(t, len(s.text), 16, s.what)
		for form, text := range s.forms() {
			for place, content := range places {
				require.False(t, bytes.Contains(content, []byte(text)), "%s %s in %s", s.what, form, place)
			}
			require.True(t, s.link || !bytes.Contains(kept, []byte(text)), "%s %s on disk", s.what, form)
		}
	}
}

const customerOfSecrets = "customer-of-secrets"

// everySecret makes one of each kind, over HTTP, and uses what is a key.
func everySecret(t *testing.T, clients, ops string) []secret {
	t.Helper()
	call := func(address, key, method, path string, body, out any) {
		t.Helper()
		c, err := api.New([]string{address}, key, 1)
		require.NoError(t, err)
		defer c.Close()
		_, err = c.Call(context.Background(), method, path, body, out)
		require.NoError(t, err, path)
	}
	operate := func(method, path string, body, out any) {
		t.Helper()
		call(ops, adminKey, method, "/api/v1/admin/accounts"+path, body, out)
	}
	const shop = "/shop/environments/"
	type object = map[string]string
	var made struct{ Key, Secret, URL string }
	secrets := []secret{{what: "admin key", text: adminKey}}
	keep := func(what, text string) string {
		secrets = append(secrets, secret{what: what, text: text})
		return text
	}
	operate("POST", "", object{"name": "shop"}, nil)
	admin, err := api.New([]string{ops}, adminKey, 1)
	require.NoError(t, err)
	defer admin.Close()
	applied, err := admin.Do(context.Background(), api.Request{
		Method: "PUT", Path: "/api/v1/admin/accounts" + shop + "sandbox/catalog", Body: demo.Catalog,
		ContentType: "application/yaml",
	})
	require.NoError(t, err)
	require.NoError(t, applied.Err())
	operate("POST", shop+"sandbox/keys", object{"scope": "full"}, &made)
	full := keep("sandbox key", made.Key)
	operate("POST", shop+"live/keys", object{"scope": "read"}, &made)
	keep("live key", made.Key)
	call(clients, full, "POST", "/api/v1/client/customers", object{
		"externalClientCustomerId": customerOfSecrets, "firstName": "A", "lastName": "B",
		"email": "a@b.example",
	}, nil)
	operate("POST", shop+"sandbox/keys", object{"scope": "customer", "customer": customerOfSecrets}, &made)
	own := keep("customer key", made.Key)
	call(clients, own, "GET", "/api/v1/client/customers/"+customerOfSecrets, nil, nil)
	operate("POST", shop+"sandbox/webhook-endpoints", object{"url": "https://hooks.example/x"}, &made)
	keep("webhook secret", made.Secret)
	keep("webhook secret without its mark", strings.TrimPrefix(made.Secret, "whsec_"))
	operate("PUT", shop+"live/payment-provider", object{
		"provider": "stripe", "secretKey": keep("provider's key", "sk_live_51HcIrQprovidersOwnKey"),
		"webhookSecret": keep("provider's webhook secret", "whsec_providersOwnWebhookSecret"),
	}, nil)
	operate("PUT", shop+"sandbox/payment-provider", object{"provider": "sandbox"}, nil)
	var subscribed struct{ Invoice struct{ ID string } }
	call(clients, full, "POST", "/api/v1/client/subscriptions", object{
		"planId": demo.ReplayPlan, "customerReferenceId": customerOfSecrets,
	}, &subscribed)
	call(clients, full, "POST", "/api/v1/client/billing/invoices/"+subscribed.Invoice.ID+
		"/payprovider/checkout", nil, &made)
	require.NotEmpty(t, made.URL)
	secrets = append(secrets, secret{"checkout link", made.URL[strings.LastIndex(made.URL, "/")+1:], true})

	keepWorkspace(t, clients, keep)
	return secrets
}

// keepWorkspace signs a workspace up.
func keepWorkspace(t *testing.T, clients string, keep func(what, text string) string) {
	t.Helper()
	agent, err := api.New([]string{clients}, "", 1)
	require.NoError(t, err)
	defer agent.Close()
	answer, err := agent.Try(context.Background(), api.Request{
		Method: "POST", Path: "/v1/signup", Body: []byte(`{"label":"acme"}`),
	})
	require.NoError(t, err)
	require.Equal(t, 201, answer.Status, string(answer.Body))
	var made struct{ Key, ClaimCode string }
	require.NoError(t, json.Unmarshal(answer.Body, &made))
	keep("workspace key", made.Key)
	keep("claim code", made.ClaimCode)
}

// misuse sends each secret where it does not belong, and returns all that is answered.
func misuse(t *testing.T, addresses []string, secrets []secret) []byte {
	t.Helper()
	var all bytes.Buffer
	send := func(address, text string) {
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
		_, err = io.WriteString(conn, text)
		require.NoError(t, err)
		require.NoError(t, conn.(*net.TCPConn).CloseWrite())
		_, err = all.ReadFrom(conn)
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	}
	for _, s := range secrets {
		for _, address := range addresses {
			head := " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
			bearer := head + "Authorization: Bearer " + s.text + "\r\n"
			send(address, "GET /api/v1/client/plans"+bearer+"\r\n")
			send(address, "GET /api/v1/admin/accounts"+bearer+"X-API-Key: other\r\n\r\n")
			send(address, "GET /v1/flows"+bearer+"\r\n")
			send(address, "GET /v1/flows"+head+"Authorization: Basic "+s.text+"\r\n\r\n")
			send(address, "GET /api/v1/client/plans"+bearer+"Broken "+s.text+"\r\n\r\n")
			send(address, "GET /api/v1/client/plans"+bearer) // and then nothing
			send(address, "GET /api/v1/client/plans"+head+"X-API-Key: "+s.text+"\x01\r\n\r\n")
			send(address, "GET /nowhere/"+s.text+head+"\r\n")
			send(address, "GET /api/v1/client/plans?key="+s.text+bearer+"\r\n")
			send(address, "BREW /"+s.text+head+"\r\n")
			send(address, "POST /api/v1/client/customers"+bearer+
				"Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{\"broken\"")
		}
	}
	require.Contains(t, all.String(), "invalid_key")
	return all.Bytes()
}

// fetched is an answer of the operations listener.
func fetched(t *testing.T, ops, path string) []byte {
	t.Helper()
	request, err := http.NewRequest("GET", "http://"+ops+path, nil)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+adminKey)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, 200, response.StatusCode, "%s: %s", path, text)
	return text
}

// folder is the content of all files of a folder.
func folder(t *testing.T, path string) []byte {
	t.Helper()
	var all bytes.Buffer
	require.NoError(t, filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(file)
		all.Write(text)
		return err
	}))
	return all.Bytes()
}
