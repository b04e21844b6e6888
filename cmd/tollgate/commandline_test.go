package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"tollgate/cluster"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/demo"
	"tollgate/cmd/tollgate/devdata"
	"tollgate/cmd/tollgate/licenses"
	"tollgate/cmd/tollgate/local"
	"tollgate/examples"

	api "tollgate/sdk/go"
)

// alone runs a command line that talks to no cluster, or to one that its arguments name.
func alone(args ...string) (out string, code int) {
	var b bytes.Buffer
	code = run(args, &b)
	return b.String(), code
}

// TestNegativeNumbersBelongToTheirFlag: as the help of --identity-port has one.
func TestNegativeNumbersBelongToTheirFlag(t *testing.T) {
	require.Equal(t, []string{"dev", "--identity-port=-1", "--nodes", "3", "-5", "--", "-1"},
		withNegatives([]string{"dev", "--identity-port", "-1", "--nodes", "3", "-5", "--", "-1"}))
	_, code := alone("dev", "--identity-port", "-1", "--help")
	require.Zero(t, code)
	require.Empty(t, withNegatives(nil))
}

func TestHelpAndVersionAreThereAsPeopleTypeThem(t *testing.T) {
	for _, args := range [][]string{{"help"}, {"--help"}} {
		out, code := alone(args...)
		require.Zero(t, code)
		require.Contains(t, out, "Usage: tollgate <command>")
		require.Contains(t, out, "doctor")
	}
	for _, args := range [][]string{
		{"help", "catalog", "diff"}, {"catalog", "diff", "--help"}, {"help", "catalog", "diff", "--prune"},
	} {
		out, code := alone(args...)
		require.Zero(t, code, args)
		require.Contains(t, out, "Usage: tollgate catalog diff <file>")
		require.Contains(t, out, "--exit-code")
	}
	_, code := alone("help", "nonsense")
	require.Equal(t, 2, code)
	for _, args := range [][]string{{"--version"}, {"version"}} {
		out, code := alone(args...)
		require.Zero(t, code)
		require.Regexp(t, `^tollgate .* entry format \d+, cluster version \d+\n$`, out)
	}
	out, code := alone("licenses")
	require.Zero(t, code)
	require.Equal(t, licenses.Notices+"\n", out)
}

func TestCustomersAreListed(t *testing.T) {
	s := newShell(t)
	s.client("POST", "customers", map[string]any{
		"externalClientCustomerId": "bob", "firstName": "Bob", "lastName": "B",
		"email": "bob@example.com",
	}, nil)
	s.ok("customers", "archive", "bob")
	out := s.ok("customers", "list")
	s.holds(out, "bob", "Bob B", "bob@example.com")
	s.holds(out, "archived", "–", "–", "–", "ada", "Ada Lovelace", "ada@example.com")
	require.Contains(t, out, "active")
	var rows []api.Customer
	s.json(&rows, "customers", "list")
	require.Len(t, rows, 2)
	require.Equal(t, "bob", rows[0].ExternalClientCustomerID)
	out = s.ok("customers", "list", "--limit", "1")
	require.NotContains(t, out, "ada")
	require.Contains(t, out, "There are more: raise --limit.")
	require.Contains(t, s.ok("customers", "list", "--env", "live"),
		"No customers in the live environment of demo.")
}

// wrongCatalog has mistakes in lines 3, 6, 8, 9 and, two of them, 13.
const wrongCatalog = `features:
  - key: calls
    nmae: Calls
plans:
  - key: p
    priceAmount: abc
    name: P
    currency: XXQ
    intervalMonths: 0
    features:
      - key: calls
        pricingType: graduated
        pricing: {tiers: [{upTo: 5, pricePerUnit: -1}, {upTo: 5}]}
`

// All mistakes are told at once, each with its line: those of form, and those that only the catalog
// knows of.
func TestSubscriptionsFromTheCommandLine(t *testing.T) {
	s := newShell(t)
	call := func(args ...string) string {
		out, code := alone(append(append([]string{"subscriptions"}, args...), s.clientArgs...)...)
		require.Zero(t, code)
		return out
	}
	out := call("create", "ada", demo.ReplayPlan, "--grace-period", "9")
	s.holds(out, "Customer", "ada", "Plan", demo.ReplayPlan+" version 1", "State", "active")
	s.holds(out, "Grace period", "9 days")
	var all []api.Subscription
	require.NoError(t, json.Unmarshal([]byte(call("list", "ada", "--json")), &all))
	require.Len(t, all, 2)
	require.Equal(t, out, call("show", all[1].ID))
	s.holds(call("list", "ada"), all[1].ID, demo.ReplayPlan, "active")

	id := all[1].ID
	s.holds(call("cancel", id), "the cancellation is recorded")
	s.holds(call("show", id), "Scheduled", "ends")
	s.holds(call("keep", id), "no longer cancelled")
	require.Equal(t, out, call("show", id))
	_, _, code := s.asClient("subscriptions", "change", id, "nonsense", "--type", "UPGRADE")
	require.Equal(t, 1, code)
	_, _, code = s.asClient("subscriptions", "stay", id)
	require.Equal(t, 1, code, "no change is scheduled")
	call("cancel", id, "--mode", "IMMEDIATE")
	s.holds(call("show", id), "ended")

	_, said, code := s.asClient("customers", "change", "ada", "--address", "1 Main St, Oslo")
	require.Zero(t, code, said)
	shown, _, _ := s.asClient("customers", "show", "ada")
	s.holds(shown, "Address", "1 Main St, Oslo")
	s.holds(s.ok("seller", "set", "Demo Ltd", "--tax-id", "NO 1"), "issued by Demo Ltd")
	s.holds(s.ok("seller", "show"), "Name", "Demo Ltd")
	s.holds(s.ok("seller", "show"), "Tax number", "NO 1")
	s.holds(s.ok("search", "ada"), "customer", "Ada Lovelace")
	_, said, code = s.asClient("payments", "record", s.firstInvoice(), "--note", "by hand")
	require.Zero(t, code, said)
}

func TestCatalogDiffNamesEveryMistakeWithItsLine(t *testing.T) {
	s := newShell(t)
	file := filepath.Join(t.TempDir(), "catalog.yaml")
	diff := func(text string, more ...string) (said string, code int) {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		stderr, done := captureStderr(t)
		_, code = s.run(append([]string{"catalog", "diff", file}, more...)...)
		done()
		return stderr(), code
	}
	for _, text := range []string{wrongCatalog, string(asJSON(t, wrongCatalog))} {
		said, code := diff(text)
		require.Equal(t, 1, code)
		require.Contains(t, said, "catalog.yaml has 6 mistakes; nothing was changed:\n")
		lines := regexp.MustCompile(`(?m)^  line (\d+), column (\d+): (\S+)`).
			FindAllStringSubmatch(said, -1)
		require.Len(t, lines, 6, said)
	}
	said, _ := diff(wrongCatalog)
	for _, want := range []string{
		`line 3, column 11: unknown field features[0]."nmae"`,
		`line 6, column 18: plans[0].priceAmount`, `line 8, column 15: plans[0].currency`,
		`line 9, column 21: plans[0].intervalMonths`,
		`line 13, column 51: plans[0].features[0].pricing.tiers[0].pricePerUnit`,
		`line 13, column 63: plans[0].features[0].pricing.tiers[1].upTo`,
	} {
		require.Contains(t, said, "\n  "+want, said)
	}
	good := "features:\n  - {key: fresh, name: Fresh}\n"
	_, code := diff(good)
	require.Zero(t, code, "a document that can be applied")
	_, code = diff(good, "--exit-code")
	require.Equal(t, 5, code, "and that would change something")
	s.ok("catalog", "apply", file)
	_, code = diff(good, "--exit-code")
	require.Zero(t, code)
}

// TestDocumentsAreValidatedWithoutACluster: with the same mistakes as a cluster finds, each at its
// place.
func TestDocumentsAreValidatedWithoutACluster(t *testing.T) {
	t.Chdir(t.TempDir())
	validate := func(file, text string) (out string, code int) {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return alone("catalog", "validate", file)
	}
	out, code := validate("wrong.yaml", wrongCatalog)
	require.Equal(t, 1, code)
	places := regexp.MustCompile(`(?m)^wrong\.yaml:(\d+:\d+): `).FindAllStringSubmatch(out, -1)
	var found []string
	for _, place := range places {
		found = append(found, place[1])
	}
	require.Equal(t, []string{"3:11", "6:18", "8:15", "9:21", "13:51", "13:63"}, found, out)
	out, code = validate("wrong.json", "{\"features\": [\n  {\"key\": \"é\", \"nmae\": 1}]}")
	require.Equal(t, 1, code)
	require.Contains(t, out, "wrong.json:2:24: unknown field")
	for _, c := range [][3]string{
		{"a.yaml", "", "1:1"},
		{"b.json", "{", "1:2"},
		{"c.yaml", "plans:\n  - a: [", "2:1"},
		{"d.json", "{\n  \"plans\": x}", "2:12"},
		{"e.yaml", "plans:\n  - &a 1", "2:1"},
	} {
		out, code = validate(c[0], c[1])
		require.Equal(t, 1, code)
		require.Contains(t, out, c[0]+":"+c[2]+": Malformed")
	}
	_, code = alone("catalog", "validate", "nothing.yaml")
	require.Equal(t, 1, code)

	_, code = alone("catalog", "init")
	require.Zero(t, code)
	out, code = alone("catalog", "validate", "catalog.yaml")
	require.Zero(t, code)
	require.Equal(t, "catalog.yaml is valid.\n", out)
	require.NoError(t, os.WriteFile("catalog.yaml", []byte("mine"), 0o600))
	_, code = alone("catalog", "init")
	require.Equal(t, 1, code)
	text, err := os.ReadFile("catalog.yaml")
	require.NoError(t, err)
	require.Equal(t, "mine", string(text), "a file that exists stays")
	out, code = alone("catalog", "init", "-")
	require.Zero(t, code)
	require.Equal(t, strings.Replace(examples.Catalog, "examples/catalog.yaml", "-", 2), out)
}

func TestReadyAsksTheNodesOfDevJSON(t *testing.T) {
	status := http.StatusOK
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
	}))
	defer node.Close()
	folder := t.TempDir()
	address := node.Listener.Addr().String()
	require.NoError(t, devdata.Folder(folder).Save(devdata.Running{
		Nodes: []devdata.Node{{ID: "node1", Ops: address}, {ID: "node2", Ops: address}},
	}))
	out, code := alone("ready", "--data", folder)
	require.Zero(t, code)
	require.Equal(t, "ready\n", out)
	status = http.StatusServiceUnavailable
	_, code = alone("ready", "--data", folder)
	require.Equal(t, 1, code)
}

// Every command in the README and in docs/commands.md parses, and the files that they name exist.
func TestTheREADMEsCommandsAreOnes(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	reference, err := os.ReadFile("../../docs/commands.md")
	require.NoError(t, err)
	text = append(text, reference...)
	require.True(t, strings.Contains(string(text), "\n    export PATH=\"$PWD/bin:$PATH\"\n"),
		"tollgate is on no other path")
	commandLine := regexp.MustCompile(`(?m)^    tollgate ([^#\n]*)`)
	found := commandLine.FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(found), 20)
	for _, line := range found {
		args := strings.Fields(line[1])
		for i, arg := range args {
			if strings.HasPrefix(arg, "examples/") {
				_, err = os.Stat(filepath.Join("../..", arg))
				require.NoError(t, err, line[0])
				args[i] = filepath.Join("../..", arg)
			}
		}
		var c commands
		parser, err := kong.New(&c)
		require.NoError(t, err)
		_, err = parser.Parse(args)
		if err != nil && strings.Contains(err.Error(), "no such file") {
			continue // of the reader's own, as node1.yaml
		}
		require.NoError(t, err, line[0])
	}
	require.False(t, strings.Contains(string(text), " catalog.yaml"), "there is none at the root")
	s := newShell(t)
	require.NotEmpty(t, s.ok("catalog", "diff", "../../examples/catalog.yaml"))
	s.ok("catalog", "apply", "../../examples/catalog.yaml")
}

// TestWatchGoesOnUntilItIsInterrupted, also while no node answers.
func TestWatchGoesOnUntilItIsInterrupted(t *testing.T) {
	asked := make(chan struct{}, 100)
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		w.Write([]byte(`{"success":true,"data":{"nodeId":"node7"}}`))
	}))
	defer node.Close()
	var out bytes.Buffer
	ended := make(chan int)
	go func() {
		ended <- run([]string{
			"cluster", "status", "--watch", "--every", "100ms", "--ops", node.Listener.Addr().String(),
			"--admin-key", "k",
		}, &out)
	}()
	for range 3 {
		<-asked
	}
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
	require.Zero(t, <-ended)
	require.GreaterOrEqual(t, strings.Count(out.String(), "As "), 2)
	require.NotContains(t, out.String(), "\x1b", "this is not a terminal")
	_, code := alone("cluster", "status", "--watch", "--every", "1ms")
	require.Equal(t, 1, code)
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		w.Write([]byte(`{"success":false,"error":{"message":"No such key"}}`))
	}))
	defer refusing.Close()
	_, code = alone("cluster", "status", "--watch", "--ops", refusing.Listener.Addr().String(),
		"--admin-key", "wrong")
	require.Equal(t, 1, code)
}

func TestConnectionRefusedIsSaidAtOnce(t *testing.T) {
	begin := time.Now()
	stderr, done := captureStderr(t)
	_, code := alone("customers", "list", "--ops", "127.0.0.1:1", "--ops", "127.0.0.1:2",
		"--admin-key", "x")
	done()
	require.Equal(t, 1, code)
	require.Less(t, time.Since(begin), 5*time.Second)
	require.Contains(t, stderr(), "cannot connect to http://127.0.0.1:1, http://127.0.0.1:2: "+
		"connection refused. Is a node running there?")
}

// TestExitCodes: scripts and systemd tell by them what happened.
func TestExitCodes(t *testing.T) {
	for err, code := range map[error]int{
		errors.New("refused"): 1, cluster.ErrOtherFolder: 3,
		cli.ErrDiffers: 5, cli.ErrCatalogDiffers: 5, cli.ErrDenied: 5, local.ErrWarns: 6,
		cli.ErrDown: 6, local.ErrFails: 7,
	} {
		require.Equal(t, code, exitCode(fmt.Errorf("in context: %w", err)), err)
	}
	unit, err := os.ReadFile("../../deploy/systemd/tollgate.service")
	require.NoError(t, err)
	_, stay, found := strings.Cut(string(unit), "\nRestartPreventExitStatus=")
	require.True(t, found)
	stay, _, _ = strings.Cut(stay, "\n")
	require.Equal(t, []string{"2", "3"}, strings.Fields(stay), "another try may find the port there")
	require.Equal(t, []int{3, 4}, []int{cluster.ExitFatal, cluster.ExitRestart})
}

// captureStderr takes what is written to standard error until done is called.
func captureStderr(t *testing.T) (text func() string, done func()) {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "stderr")
	require.NoError(t, err)
	before := os.Stderr
	os.Stderr = file
	return func() string {
			written, err := os.ReadFile(file.Name())
			require.NoError(t, err)
			return string(written)
		}, func() {
			os.Stderr = before
			require.NoError(t, file.Close())
		}
}

// asJSON is a document of YAML in JSON, indented.
func asJSON(t *testing.T, text string) []byte {
	t.Helper()
	var v any
	require.NoError(t, yaml.Unmarshal([]byte(text), &v))
	b, err := json.MarshalIndent(v, "", "  ")
	require.NoError(t, err)
	return b
}
