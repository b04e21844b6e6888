package clustertest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What a user does first: start, paste the lines that were printed, stop, start again.
func TestDevGoesOnWithItsData(t *testing.T) {
	t.Parallel()
	d := startCluster(t)
	d.requireFile()
	require.Equal(t, 1200, d.pasteCurls())
	first := d.Running
	ids := d.tree()
	require.Len(t, ids, 3)

	printed, err := d.tollgate(d.flags...)
	require.Error(t, err)
	require.Contains(t, printed, "another `tollgate dev` runs there")
	d.refusesPorts()
	printed, err = d.tollgate("dev", "--data", string(d.folder), "--node", "node2")
	require.Error(t, err)
	require.Contains(t, printed, "node2 is running, as process "+strconv.Itoa(d.node("node2").PID))

	require.Zero(t, d.stop(), "Ctrl-C stops everything cleanly:\n%s", d.output)
	for _, id := range ids {
		require.ErrorIs(t, syscall.Kill(id, 0), syscall.ESRCH, "process %d is still there", id)
	}

	printed, err = d.tollgate("dev", "--data", string(d.folder), "--http-port", "1")
	require.Error(t, err)
	require.Contains(t, printed, "was made with other ports")

	d.start()
	require.Equal(t, first.Keys, d.Keys, "keys are kept")
	printed, err = d.tollgate("clock", "advance", "10d", "--data", string(d.folder))
	require.NoError(t, err, "%s", printed)
	require.Equal(t, 2400, d.pasteCurls(), "the counter goes on where it was, whatever the clock")
	d.pasteREADME()
	d.revokeKeys()
	require.Zero(t, d.stop())

	d.start()
	require.NotEqual(t, first.SandboxKey, d.SandboxKey, "revoked keys are replaced")
	require.Equal(t, first.LiveKey, d.LiveKey)
	require.Equal(t, 4800, d.pasteCurls())
	require.Zero(t, d.stop())
}

// pasteREADME runs the README's first requests as they are, but for folder and addresses.
func (d *development) pasteREADME() {
	d.t.Helper()
	text, err := os.ReadFile("../../README.md")
	require.NoError(d.t, err)
	_, rest, found := strings.Cut(string(text), "## A first request")
	section, _, ended := strings.Cut(rest, "\n## ")
	require.True(d.t, found && ended)
	var lines []string
	for line := range strings.Lines(section) {
		if command, indented := strings.CutPrefix(line, "    "); indented {
			lines = append(lines, command)
		}
	}
	printed := paste(d.t, strings.NewReplacer(".tollgate/dev.json", d.folder.File(),
		"127.0.0.1:8080", d.Nodes[0].HTTP, "127.0.0.1:8081", d.Nodes[1].HTTP).
		Replace(strings.Join(lines, "")))
	require.Contains(d.t, printed, `"isAllowed":true`)
	require.Contains(d.t, printed, `"success":true`)
	require.NotContains(d.t, printed, `"success":false`)
}

// refusesPorts says which ports cannot be had, and leaves no folder behind that insists on them.
func (d *development) refusesPorts() {
	d.t.Helper()
	folder := filepath.Join(d.t.TempDir(), "new")
	busy := portOf(d.t, d.Nodes[0].HTTP)
	for _, row := range []struct{ http, ops, raft, says string }{
		{busy, "28580", "28590", "127.0.0.1:" + busy + " cannot be used"},
		{"65534", "28580", "28590", "--http-port 65534: want 3 ports"},
		{"28578", "28580", "28590", "127.0.0.1:28580 is a port of both --ops-port and --http-port"},
	} {
		printed, err := d.tollgate("dev", "--data", folder, "--http-port", row.http,
			"--ops-port", row.ops, "--raft-port", row.raft)
		require.Error(d.t, err)
		require.Contains(d.t, printed, row.says)
		require.NoFileExists(d.t, filepath.Join(folder, "node1", "config.yaml"))
	}
}

// revokeKeys revokes all keys of the sandbox.
func (d *development) revokeKeys() {
	d.t.Helper()
	printed, err := d.tollgate("keys", "list", "--data", string(d.folder))
	require.NoError(d.t, err, "%s", printed)
	ids := regexp.MustCompile(`(?m)^[0-9a-f-]{36}`).FindAllString(printed, -1)
	require.Len(d.t, ids, 2)
	for _, id := range ids {
		printed, err = d.tollgate("keys", "revoke", "--data", string(d.folder), id)
		require.NoError(d.t, err, "%s", printed)
	}
}

// requireFile checks dev.json by what it says, not by our own struct.
func (d *development) requireFile() {
	d.t.Helper()
	info, err := os.Stat(d.folder.File())
	require.NoError(d.t, err)
	require.Equal(d.t, os.FileMode(0o600), info.Mode().Perm())
	text, err := os.ReadFile(d.folder.File())
	require.NoError(d.t, err)
	var file map[string]any
	require.NoError(d.t, json.Unmarshal(text, &file))
	require.Len(d.t, file, 9)
	require.Equal(d.t, "demo", file["account"])
	require.Regexp(d.t, "^sk_test_", file["sandboxKey"])
	require.Regexp(d.t, "^sk_live_", file["liveKey"])
	require.Regexp(d.t, "^sk_test_", file["readKey"])
	require.Regexp(d.t, "^http://127.0.0.1:", file["identity"])
	require.Regexp(d.t, "^dev_mailbox_", file["mailboxKey"])
	nodes, ok := file["nodes"].([]any)
	require.True(d.t, ok)
	require.Len(d.t, nodes, 3)
}

// curlLines are the printed requests, each with the line before it that sets a variable for it.
var curlLines = regexp.MustCompile(
	`(?m)^  ((?:NOW=[^\n]*\n  )?curl (?:[^\n]*\\\n)*[^\n]*)$`)

// pasteCurls runs the printed lines as they are: an event, then a check; it returns what the check
// says was used.
func (d *development) pasteCurls() int {
	d.t.Helper()
	require.Eventually(d.t, func() bool {
		return strings.Contains(d.output.String(), "Ctrl-C stops the cluster")
	}, patience, statusEvery, "the end of the summary")
	lines := curlLines.FindAllStringSubmatch(d.output.String(), -1)
	require.Len(d.t, lines, 2, "two requests are printed:\n%s", d.output)
	check, event := lines[0][1], lines[1][1]
	require.Contains(d.t, paste(d.t, event), `"success":true`)
	var answer struct {
		Data struct {
			IsAllowed bool `json:"isAllowed"`
			Usage     struct {
				Used int `json:"used"`
			} `json:"usage"`
		} `json:"data"`
	}
	require.NoError(d.t, json.Unmarshal([]byte(paste(d.t, check)), &answer))
	require.True(d.t, answer.Data.IsAllowed)
	return answer.Data.Usage.Used
}

func paste(t *testing.T, line string) string {
	t.Helper()
	printed, err := exec.Command("bash", "-c", line).Output()
	require.NoError(t, err, line)
	return string(printed)
}

// tree lists the children of dev, and leaves out what has ended.
func (d *development) tree() []int {
	d.t.Helper()
	var ids []int
	for _, node := range d.Nodes {
		if syscall.Kill(node.PID, 0) == nil {
			ids = append(ids, node.PID)
		}
	}
	return ids
}

func portOf(t *testing.T, address string) string {
	t.Helper()
	_, port, ok := strings.Cut(address, ":")
	require.True(t, ok)
	return port
}

// A dev that is killed takes its nodes along: nothing is left behind that holds the ports.
func TestNodesEndWithDev(t *testing.T) {
	t.Parallel()
	d := startCluster(t)
	nodes := d.tree()
	require.Len(t, nodes, 3)
	require.NoError(t, d.command.Process.Kill())
	require.Eventually(t, func() bool { return len(d.tree()) == 0 }, patience, 50*time.Millisecond)
}

// The command line, against a running cluster.
func TestOperatingAClusterFromTheCommandLine(t *testing.T) {
	t.Parallel()
	d := startCluster(t)
	data := "--data=" + string(d.folder)
	must := func(args ...string) string {
		printed, err := d.tollgate(append(args, data)...)
		require.NoError(t, err, printed)
		return printed
	}
	status := must("cluster", "status")
	for _, node := range d.Nodes {
		require.Contains(t, status, node.HTTP)
	}
	leads := regexp.MustCompile(`(?m)^node\d +leads (both|billing) `)
	require.Len(t, leads.FindAllString(status, -1), 1, status)
	require.Contains(t, status, "billing")
	require.Contains(t, status, "workspace")

	catalog := filepath.Join(t.TempDir(), "catalog.yaml")
	require.NoError(t, os.WriteFile(catalog, []byte("features:\n  - {key: seats, name: Seats}\n"), 0o600))
	require.Contains(t, must("catalog", "diff", catalog), "created")
	require.Contains(t, must("catalog", "apply", catalog), "seats")
	require.Contains(t, must("catalog", "diff", catalog), "No changes.")

	created := strings.Fields(must("keys", "create", "--scope=read", "--label=dashboard"))
	key := created[0]
	require.Regexp(t, "^sk_test_", key)
	listing := must("keys", "list")
	require.Contains(t, listing, "dashboard")
	require.NotContains(t, listing, key, "a key is shown once")
	id := regexp.MustCompile(`Key (\S+) of`).FindStringSubmatch(strings.Join(created, " "))[1]
	d.requireStatus(key, 200)
	must("keys", "revoke", id)
	d.requireStatus(key, 401)

	logs, err := filepath.Glob(filepath.Join(d.folder.NodeFolder("node1"), "*", "log"))
	require.NoError(t, err)
	require.NotEmpty(t, logs)
	for _, log := range logs {
		printed, err := d.tollgate("wal", "dump", "--summary", log)
		require.NoError(t, err, printed)
		require.Contains(t, printed, "segments")
	}
	printed, err := d.tollgate("version")
	require.NoError(t, err)
	require.Contains(t, printed, "entry format 1")
	printed, err = d.tollgate("keys", "revoke")
	require.Error(t, err)
	require.Contains(t, printed, "--help")
}

func (d *development) requireStatus(key string, status int) {
	d.t.Helper()
	client := d.client("node2", key)
	require.Eventually(d.t, func() bool {
		answer, err := client.Call(d.t.Context(), "GET", "/api/v1/client/plans", nil, nil)
		return answer.Status == status || (err == nil && status == 200)
	}, patience, 20*time.Millisecond, fmt.Sprintf("want %d", status))
}
