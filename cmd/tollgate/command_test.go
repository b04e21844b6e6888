package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"tollgate/bench/enginetest"
	"tollgate/bench/servertest"
	"tollgate/cmd/tollgate/demo"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/journal"
	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/admin"
	"tollgate/server/client"
	"tollgate/server/link"
	"tollgate/server/outbox"
	"tollgate/server/payments"
	"tollgate/server/provider/fetch"
)

// lone is what a node without a cluster says about it.
type lone struct{}

func (lone) Status() any              { return map[string]any{"nodeId": "n1"} }
func (lone) NotReady() []admin.Reason { return nil }
func (lone) Causes() []string         { return nil }
func (lone) Leads() bool              { return true }

// Change makes every change but a promotion.
func (lone) Change(_ context.Context, c admin.MemberChange) error {
	if c.Action == "promote" {
		return errors.New("wait")
	}
	return nil
}

// shell runs command lines against a state machine behind the two real APIs.
type shell struct {
	*servertest.Cluster
	t    *testing.T
	args []string // that every command gets
	// clientArgs are those of commands that call the client API.
	clientArgs []string
	api        *api.Client
	// workspaces is the other group.
	workspaces *servertest.Workspaces
}

func newShell(t *testing.T) *shell {
	s := &shell{Cluster: servertest.New(), t: t, workspaces: servertest.NewWorkspaces()}
	key := server.MintKey(server.KeyPrefixAdmin)
	guarded, err := fetch.New(fetch.Config{})
	require.NoError(t, err)
	t.Cleanup(guarded.Close)
	service, err := payments.New(payments.Config{
		Machine: s.Machine, Proposer: s, Reader: s, Fetch: guarded, PublicURL: "http://x.example",
		SealKey: [32]byte{1},
	})
	require.NoError(t, err)
	links := link.New([32]byte{1}, "https://tollgate.example")
	clients, err := client.New(client.Config{
		Machine: s.Machine, Proposer: s, Reader: s, Events: s, Counts: s, NodeID: 1,
		SpoolDir: t.TempDir(),
		Payments: service, Links: links,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, clients.Close()) })
	hooks, err := outbox.New(outbox.Config{
		Machine: s.Machine, Proposer: s, Fetch: guarded, SealKey: [32]byte{1},
		Leads: func() (uint64, bool) { return 1, true },
	})
	require.NoError(t, err)
	operations, err := admin.New(admin.Config{
		Links: links, Outbox: hooks, More: workspaceTools(t, s.workspaces).Operator.Routes(),
		Machine: s.Machine, Proposer: s, Reader: s, Cluster: lone{},
		Sources:  admin.Sources{Events: s, Counts: s},
		Payments: service,
		Metrics:  admin.NewMetrics(), KeyHash: sha256.Sum256([]byte(key)), SealKey: [32]byte{1},
		SettleTimeout: time.Nanosecond,
	})
	require.NoError(t, err)
	s.args = []string{"--ops", s.serve(operations.Handler()), "--admin-key", key}
	s.furnish(s.serve(clients.Handler()))
	return s
}

func (s *shell) serve(handler fasthttp.RequestHandler) (address string) {
	listener, err := server.Listen("127.0.0.1:0", handler, server.DefaultLimits())
	require.NoError(s.t, err)
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		require.NoError(s.t, listener.Shutdown(ctx))
	})
	return listener.Addr().String()
}

// furnish makes the demo account with its catalog, and the customer ada with a subscription.
func (s *shell) furnish(clients string) {
	s.ok("accounts", "create", "demo")
	file := filepath.Join(s.t.TempDir(), "catalog.yaml")
	require.NoError(s.t, os.WriteFile(file, demo.Catalog, 0o600))
	s.ok("catalog", "apply", file)
	key := strings.TrimSpace(s.ok("keys", "create", "--label", "test"))
	var err error
	s.clientArgs = []string{"--url", clients, "--key", key}
	s.api, err = api.New([]string{clients}, key, 1)
	require.NoError(s.t, err)
	s.t.Cleanup(s.api.Close)
	s.client("POST", "customers", map[string]any{
		"externalClientCustomerId": "ada", "firstName": "Ada", "lastName": "Lovelace",
		"email": "ada@example.com",
	}, nil)
	s.client("POST", "subscriptions", map[string]any{
		"planId": demo.ReplayPlan, "customerReferenceId": "ada",
	}, nil)
}

func (s *shell) client(method, path string, body, data any) {
	s.t.Helper()
	_, err := s.api.Call(context.Background(), method, client.Prefix+"/"+path, body, data)
	require.NoError(s.t, err)
}

// use records an event of ada's.
func (s *shell) use(tokens int) {
	s.t.Helper()
	s.client("POST", "events", map[string]any{
		"eventIdempotencyKey": "k", "eventName": "output-tokens", "customerReferenceId": "ada",
		"usageUnits": tokens, "occurredAt": time.Now().UTC().Format(time.RFC3339),
	}, nil)
}

// run runs one command line; commands that talk to a cluster talk to this one.
func (s *shell) run(args ...string) (out string, code int) {
	s.t.Helper()
	var b bytes.Buffer
	code = run(append(args, s.args...), &b)
	return b.String(), code
}

func (s *shell) ok(args ...string) (out string) {
	s.t.Helper()
	out, code := s.run(args...)
	require.Zero(s.t, code, out)
	return out
}

// json runs a command with --json and decodes what it prints.
func (s *shell) json(v any, args ...string) {
	s.t.Helper()
	require.NoError(s.t, json.Unmarshal([]byte(s.ok(append(args, "--json")...)), v))
}

// firstInvoice is the id of ada's oldest invoice.
func (s *shell) firstInvoice() string {
	s.t.Helper()
	var list []api.Invoice
	s.json(&list, "invoice", "list", "ada")
	return list[0].ID
}

// holds reports whether a line of out has these words in this order, with blanks between them.
func (s *shell) holds(out string, words ...string) {
	s.t.Helper()
	for i := range words {
		words[i] = regexp.QuoteMeta(words[i])
	}
	require.Regexp(s.t, strings.Join(words, `\s+`), out)
}

func TestInvoicesFromTheCommandLine(t *testing.T) {
	s := newShell(t)
	s.use(1234567)
	out := s.ok("clock", "advance", "32d")
	require.Contains(t, out, time.Now().AddDate(0, 0, 32).UTC().Format("2006-01-02T"))
	require.Equal(t, out[:13], s.ok("clock", "show")[:13])
	require.Contains(t, out, "\n1 invoice issued, 1 invoice past due, 1 suspension.\n")

	out = s.ok("invoice", "list", "ada")
	s.holds(out, "1", s.firstInvoice(), "IN_ADVANCE_INITIAL", "PAST_DUE", "20.00 USD")
	s.holds(out, "REGULAR", "DUE", "38.52 USD")
	var list []api.Invoice
	s.json(&list, "invoices", "list", "ada")
	require.Len(t, list, 3, "with the pending one")
	s.json(&list, "invoices", "list", "ada", "--status", "due")
	require.Len(t, list, 1)
	out = s.ok("invoices", "list")
	s.holds(out, "2", list[0].ID, "REGULAR", "DUE", "38.52 USD")
	require.Less(t, strings.Index(out, list[0].ID), strings.Index(out, s.firstInvoice()), "the newest")
	s.json(&list, "invoices", "list", "--status=past_due")
	require.Len(t, list, 1)
	require.Equal(t, s.firstInvoice(), list[0].ID)
	require.Contains(t, s.ok("invoices", "list", "--status=void"), "No such invoice in the sandbox")
	require.Contains(t, s.ok("invoices", "list", "--limit=1"), "There are more: raise --limit.")
	s.json(&list, "invoices", "list", "ada")
	out = s.ok("invoice", "show", list[1].ID)
	s.holds(out, "Invoice", "2 of ada, REGULAR, DUE")
	s.holds(out, "1,234,567", "0.000015 USD", "18.52 USD", "5.4320948 USD")
	s.holds(out, "1", "20.00 USD", "20.00 USD", "0.00 USD")
	require.Equal(t, out, s.ok("invoice", "show", "2"), "by the number that the list has")
	out = s.ok("invoice", "explain", list[1].ID)
	require.Equal(t, out, s.ok("invoice", "explain", "#2"))
	for arg, want := range map[string]string{
		"ada": "If it is a customer, tollgate invoice list ada lists its invoices",
		"77":  "no invoice 77 in the sandbox environment of demo",
	} {
		stderr, done := captureStderr(t)
		_, code := s.run("invoice", "explain", arg)
		done()
		require.Equal(t, 1, code)
		require.Contains(t, stderr(), want)
	}
	s.holds(out, "1,234,567", "1", "18.52 USD", "18.52 USD")
	require.Contains(t, out, "Equal: the journal explains every line. Usage is from log entries ")
	require.Contains(t, s.ok("invoice", "verify", "--all"),
		"2 invoices and 0 credit pools of 1 customers in 2 environments: 0 different.")

	require.Contains(t, s.ok("invoice", "void", list[1].ID), "is void")
	s.holds(s.ok("invoice", "list", "ada"), "REGULAR", "VOID")
	_, code := s.run("invoice", "void", "nonsense")
	require.Equal(t, 1, code)
	_, code = s.run("invoice", "explain", list[2].ID)
	require.Equal(t, 1, code, "the pending one")
	year := time.Now().Year()
	s.holds(s.ok("margin", "--from", time.Date(year-1, 1, 1, 0, 0, 0, 0, time.UTC).Format(time.RFC3339),
		"--to", time.Date(year+2, 1, 1, 0, 0, 0, 0, time.UTC).Format(time.RFC3339), "--by", "plan"),
		demo.ReplayPlan, "20.00 USD", "5.4320948 USD", "14.5679052 USD", "1")
}

func TestVerifyEndsWith5WhereAnInvoiceDiffers(t *testing.T) {
	s := newShell(t)
	require.JSONEq(t, `{"environments":2,"customers":1,"invoices":1,"pools":0,"records":0,
		"different":0,"differences":[]}`,
		s.ok("invoice", "verify", "--all", "--json"))
	require.Contains(t, s.ok("invoice", "verify", "--account", "demo", "--env", "live"),
		"0 invoices and 0 credit pools of 0 customers in 1 environments")
	require.Contains(t, s.ok("invoice", "verify", "--customer", "ada"), "1 invoices and 0 credit pools of 1 customers")
	_, code := s.run("invoice", "verify", "--customer", "nobody")
	require.Equal(t, 1, code)
	_, code = s.run("invoice", "verify", "--account", "nobody")
	require.Equal(t, 1, code)

	s.use(10)
	s.ok("clock", "advance", "32d")
	var list []api.Invoice
	s.json(&list, "invoice", "list", "ada")
	s.ok("invoice", "explain", list[1].ID)
	s.Hidden.Store(uint64(journal.Kinds(journal.KindUsage))) // as if an event had been lost
	out, code := s.run("invoice", "verify", "--all")
	require.Equal(t, 5, code, out)
	s.holds(out, "demo", "sandbox", "ada", "2", list[1].ID,
		"the number of lines is 2, the journal makes 1")
	require.Contains(t, out, "2 invoices and 0 credit pools of 1 customers in 2 environments: 1 different.")
	out, code = s.run("invoice", "explain", list[1].ID)
	require.Equal(t, 5, code, out)
	require.Contains(t, out, "DIFFERENT")

	s.Hidden.Store(uint64(journal.Kinds(journal.KindBilling)))
	out, code = s.run("invoice", "verify", "--all")
	require.Equal(t, 5, code, out)
	require.Contains(t, out, "the journal does not explain the invoice")
	_, code = s.run("invoice", "explain", list[1].ID)
	require.Equal(t, 1, code)
	s.ok("invoice", "show", list[1].ID)
	s.Hidden.Store(0)
	s.ok("invoice", "verify", "--all")
}

// TestVerifyEndsWith5WhereStateAndJournalPart: one machine goes on, and its state is compared with
// the other one's journal, and the other way round.
func TestVerifyEndsWith5WhereStateAndJournalPart(t *testing.T) {
	s := newShell(t)
	s.use(10)
	var list []api.Invoice
	s.json(&list, "invoice", "list", "ada")
	fork := func() *billing.Machine {
		sn, err := s.Machine.Snapshot()
		require.NoError(t, err)
		defer sn.Release()
		var b bytes.Buffer
		_, err = sn.WriteTo(&b)
		require.NoError(t, err)
		m := billing.New(billing.Config{})
		require.NoError(t, m.Restore(&b))
		return m
	}
	differs := func(what ...string) {
		t.Helper()
		out, code := s.run("invoice", "verify", "--all")
		require.Equal(t, 5, code, out)
		s.holds(out, what...)
	}
	older := fork()
	s.ok("clock", "advance", "32d")
	s.Other.Store(older.Journal())
	s.json(&list, "invoice", "list", "ada")
	differs("ada", "2", list[1].ID, "billing: the journal does not explain the invoice")
	ops, err := api.New(s.args[1:2], "", 1)
	require.NoError(t, err)
	defer ops.Close()
	told, err := ops.Try(context.Background(), api.Request{Method: "GET", Path: "/metrics"})
	require.NoError(t, err)
	require.Contains(t, string(told.Body), "\ntollgate_verification_differences_total 1\n")
	s.Other.Store(nil)
	s.ok("invoice", "verify", "--all")

	older = fork()
	s.ok("invoice", "void", list[0].ID)
	s.Other.Store(older.Journal())
	differs("ada", "1", list[0].ID, "status is VOID, the journal makes PAST_DUE")

	// What the journal has made is looked for in the state, too.
	month := 40 * 24 * time.Hour.Milliseconds()
	enginetest.NewLog(older, older.Stamp()+month).DoPayload(engine.KindTick, nil)
	s.Other.Store(older.Journal())
	out, code := s.run("invoice", "verify", "--all")
	require.Equal(t, 5, code, out)
	require.Contains(t, out, "the journal has made this invoice, and the state has none of its id")
}

func TestCreditsFromTheCommandLine(t *testing.T) {
	s := newShell(t)
	var pool api.CreditPool
	s.json(&pool, "pools", "create", "ada", "--name", "tokens", "--hard-limit",
		"--rollover", "CAPPED", "--rollover-cap", "50.5", "--priority=-1")
	s.holds(s.ok("pools", "grant", pool.ID, "1234567.5", "--type", "PURCHASED", "--note", "order 7"),
		"GRANT", "1,234,567.5", "1,234,567.5", "order 7")
	s.holds(s.ok("pools", "list", "ada"), pool.ID, "tokens", "ACTIVE", "1,234,567.5 credits",
		"0", "1,234,567.5", "0", "0", "0", "true", "-1", "CAPPED at 50.5")
	var x struct {
		ID      string
		Balance json.Number
	}
	s.json(&x, "pools", "deduct", pool.ID, "4567.5")
	require.Equal(t, "1230000", x.Balance.String())
	_, code := s.run("pools", "deduct", pool.ID, "1230000.1")
	require.Equal(t, 1, code, "past the hard limit")
	s.ok("pools", "freeze", pool.ID)
	_, code = s.run("pools", "deduct", pool.ID, "1")
	require.Equal(t, 1, code, "frozen")
	s.ok("pools", "unfreeze", pool.ID)
	s.holds(s.ok("pools", "reverse", x.ID), "REVERSAL", "4,567.5", "1,234,567.5")
	s.holds(s.ok("pools", "transactions", pool.ID), "DEDUCTION", "4,567.5", "1,230,000", "(reversed)")
	s.holds(s.ok("pools", "grants", pool.ID), "PURCHASED", "1,234,567.5", "1,234,567.5", "0")
	s.ok("pools", "archive", pool.ID)
	_, code = s.run("pools", "grant", pool.ID, "1")
	require.Equal(t, 1, code, "archived")
	_, code = s.run("pools", "create", "ada", "--name", "x", "--rollover", "SOME")
	require.Equal(t, 2, code)
}

func TestTheRestOfTheCommandLine(t *testing.T) {
	s := newShell(t)
	s.ok("origins", "set", "https://shop.example", "https://app.example")
	require.Equal(t, "https://shop.example\nhttps://app.example\n", s.ok("origins", "list"))
	s.ok("origins", "set")
	require.Empty(t, s.ok("origins", "list"))
	s.ok("payments", "set", "sandbox")
	s.holds(s.ok("payments", "show"), "Provider", "sandbox")
	out, code := s.run("payments", "set", "stripe", "--secret-key", "sk_1")
	require.Equal(t, 1, code, out)
	require.Contains(t, s.ok("payments", "show"), "sandbox", "nothing was changed")
	s.ok("payments", "set", "stripe", "--secret-key", "sk_1", "--webhook-secret", "whsec_1")
	s.holds(s.ok("payments", "show"), "Still heard of", "sandbox, replaced")
	s.ok("payments", "set", "sandbox", "--forget-previous")
	require.NotContains(t, s.ok("payments", "show"), "Still heard of")
	require.Contains(t, s.ok("payments", "terms"), "due 7 days after")
	s.ok("payments", "terms", "30")
	require.Contains(t, s.ok("payments", "terms"), "due 30 days after")
	terms := s.ok("payments", "terms", "--settle", "90")
	require.Contains(t, terms, "issued 90 minutes after their period's end, and fall due 30 days after")
	require.Equal(t, terms, s.ok("payments", "terms"))
	for _, bad := range [][]string{{"366"}, {"--settle", "10081"}, {"--settle=-1"}, {"1.5"}} {
		_, code := s.run(append([]string{"payments", "terms"}, bad...)...)
		require.NotZero(t, code, bad)
	}
	require.Equal(t, terms, s.ok("payments", "terms"), "what is refused changes nothing")
	s.holds(s.ok("payments", "list", s.firstInvoice()), "AT", "PROVIDER", "EVENT",
		"AMOUNT", "RESULT", "REPORTED")
	_, code = s.run("payments", "set", "sandbox", "--env", "live")
	require.Equal(t, 1, code, "it cannot collect there")
	_, code = s.run("payments", "set", "paypal")
	require.Equal(t, 2, code)
	require.Contains(t, s.ok("keys", "create", "--customer", "ada"), "ck_test_")
	s.holds(s.ok("keys", "list"), "customer ada", "–")
	s.holds(s.ok("accounts", "list"), "NAME", "ID", "CREATED", "demo")
	require.Contains(t, s.ok("catalog", "show"), `"creditAllocations"`)

	out = s.ok("audit")
	s.holds(out, "admin-key", "payment-provider.set", "demo/sandbox")
	s.holds(out, "account.created", "–", "demo")
	var page struct {
		Changes []struct{ Number uint32 }
	}
	require.Contains(t, s.ok("audit", "--limit", "1", "--before", "3"), "--before 2.1\n")
	require.NotContains(t, s.ok("audit", "--before", "3"), "Older ones")
	s.json(&page, "audit", "--limit", "1", "--before", "3")
	require.Equal(t, uint32(2), page.Changes[0].Number)

	_, code = s.run("customers", "erase", "ada")
	require.Equal(t, 1, code, "without --yes")
	s.ok("customers", "erase", "ada", "--yes")
	var ada struct{ FirstName string }
	s.client("GET", "customers/ada", nil, &ada)
	require.Equal(t, "erased", ada.FirstName)
	_, code = s.run("customers", "archive", "nobody")
	require.Equal(t, 1, code)
}

func TestAClockThatSettlesSlowlyIsWaitedFor(t *testing.T) {
	s := newShell(t)
	s.NoTicks.Store(true)
	done := make(chan int, 1)
	said := ""
	go func() {
		out, code := s.run("clock", "advance", "40d")
		said = out
		done <- code
	}()
	require.Eventually(t, func() bool {
		return strings.Contains(s.ok("clock", "show"), "still running")
	}, 5*time.Second, 10*time.Millisecond)
	s.Tick()
	require.Zero(t, <-done)
	require.Contains(t, said, "Nothing that is counted fell due.")
	for _, bad := range []string{"yesterday", "2001-01-01T00:00:00Z", "0d", "3000d"} {
		_, code := s.run("clock", "advance", bad)
		require.Equal(t, 1, code, bad)
	}
}

func TestHelpAndUnknownCommands(t *testing.T) {
	var out bytes.Buffer
	require.Equal(t, 2, run([]string{"invoice"}, &out))
	require.Equal(t, 2, run([]string{"invoice", "frame"}, &out))
	require.Equal(t, 2, run([]string{"pools", "grant", "x"}, &out))
	empty := t.TempDir()
	require.Equal(t, 1, run([]string{"audit", "--data", empty}, &out), "no cluster runs there")
}
