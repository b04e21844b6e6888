package clustertest

import (
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/certs"
	"tollgate/cmd/tollgate/config"
	"tollgate/cmd/tollgate/doctor"
)

// doctorExits are the exit codes by what was found.
var doctorExits = map[doctor.Level]int{
	doctor.LevelOK: 0, doctor.LevelWarn: 6, doctor.LevelFail: 7,
}

// examine runs doctor, whose exit code must say what it found.
func examine(t *testing.T, args ...string) doctor.Report {
	t.Helper()
	return examineBy(t, exec.Command(program, append([]string{"doctor", "--json"}, args...)...))
}

func examineBy(t *testing.T, command *exec.Cmd) doctor.Report {
	t.Helper()
	printed, err := command.Output()
	code := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		require.NoError(t, err)
	}
	var report doctor.Report
	require.NoError(t, json.Unmarshal(printed, &report), "%s", printed)
	require.Equal(t, doctorExits[report.Level], code, "%s", printed)
	return report
}

func (d *development) examine(at string) doctor.Report {
	d.t.Helper()
	return examine(d.t, "--ops", d.node(at).Ops, "--admin-key", d.AdminKey)
}

// finds reports whether something was found: level, node or "", check, and a part of what is said.
func finds(r doctor.Report, l doctor.Level, node, check, says string) bool {
	return slices.ContainsFunc(r.Findings, func(f doctor.Finding) bool {
		return f.Level == l && f.Node == node && f.Check == check && strings.Contains(f.Says, says)
	})
}

// Doctor is told of one node and finds the others by itself. All is well; then one is killed, and
// one more joins that has no vote.
func TestDoctorExaminesACluster(t *testing.T) {
	t.Parallel()
	d := startCluster(t)
	for _, node := range d.Nodes {
		d.ready(node.ID)
	}
	var report doctor.Report
	require.Eventually(t, func() bool { // the nodes have met, and follow the same leaders
		report = d.examine("node2")
		return finds(report, doctor.LevelOK, "", "leader of workspace", "") &&
			finds(report, doctor.LevelOK, "node1", "member", "reached by all")
	}, patience, statusEvery, "%v", report)
	for _, check := range []string{"majority", "leader of billing", "versions", "settings"} {
		require.True(t, finds(report, doctor.LevelOK, "", check, ""), "%s: %v", check, report)
	}
	for _, node := range d.Nodes {
		for _, check := range []string{
			"ready", "member", "progress of billing", "progress of workspace", "memory",
			"certificate peers", "certificate authority", "idempotency keys",
		} {
			require.True(t, finds(report, doctor.LevelOK, node.ID, check, ""),
				"%s of %s: %v", check, node.ID, report)
		}
		for _, check := range []string{"disk space", "disk speed", "open files", "clock"} {
			require.True(t, slices.ContainsFunc(report.Findings, func(f doctor.Finding) bool {
				return f.Node == node.ID && f.Check == check
			}), "%s of %s: %v", check, node.ID, report)
		}
	}

	dead := d.followers()[0]
	alive := d.leader()
	d.signal(dead, syscall.SIGKILL)
	require.Eventually(t, func() bool {
		report = d.examine(alive)
		return finds(report, doctor.LevelFail, dead, "answers", "connection refused") &&
			finds(report, doctor.LevelFail, dead, "member", "not reached by") &&
			finds(report, doctor.LevelWarn, "", "majority", "2 are ready")
	}, patience, statusEvery)
	printed, err := d.operate(alive, "doctor")
	require.Error(t, err)
	require.Regexp(t, `(?m)^FAIL +`+dead+` +answers `, printed)
	require.Regexp(t, `(?m)^ +→ see whether it runs`, printed)
	require.Regexp(t, `(?m)^\d+ fail, \d+ warn, \d+ ok\.$`, printed)

	d.addNode("node4", dead)
	require.Eventually(t, func() bool {
		_, err := d.operate(alive, "cluster", "join", "node4", "--raft", d.node("node4").Raft,
			"--member-ops", d.node("node4").Ops)
		return err == nil
	}, patience, statusEvery)
	require.Eventually(t, func() bool {
		report = d.examine(alive)
		return finds(report, doctor.LevelWarn, "node4", "member", "it has no vote") &&
			finds(report, doctor.LevelOK, "node4", "ready", "")
	}, patience, statusEvery)
	report = examine(t, "--ops", d.node(alive).Ops, "--admin-key", "another")
	require.True(t, finds(report, doctor.LevelFail, d.node(alive).Ops, "answers", "401"), "%v", report)
}

// A node whose certificates end, whose disk is too small and whose limit of open files is too low
// says so, to doctor, while it runs; and the same is said of its configuration before it does.
func TestDoctorExaminesANodeThatIsBadlyOff(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	authority, err := certs.OpenAuthority(folder)
	require.NoError(t, err)
	now := time.Now()
	for name, until := range map[string]time.Duration{
		"solo": -time.Hour, "front": 10*24*time.Hour + time.Hour,
	} {
		require.NoError(t, authority.IssueFor(folder, name, []string{"127.0.0.1"}, certs.Validity{
			From: now.AddDate(-1, 0, 0), Until: now.Add(until),
		}))
	}
	settings, file := solo(t, func(c *config.Config) {
		c.TLS = config.TLS{
			Authority:   filepath.Join(folder, certs.AuthorityFile),
			Certificate: filepath.Join(folder, certs.CertificateFile("solo")),
			Key:         filepath.Join(folder, certs.KeyFile("solo")),
		}
		c.HTTPTLS = config.Certificate{
			Certificate: filepath.Join(folder, certs.CertificateFile("front")),
			Key:         filepath.Join(folder, certs.KeyFile("front")),
		}
		c.DiskReserve = 1 << 40 // MiB
		c.Connections.Total = 900_000
	})
	badlyOff := func(report doctor.Report) {
		t.Helper()
		require.True(t, finds(report, doctor.LevelFail, "solo", "certificate peers", "ended at") &&
			finds(report, doctor.LevelWarn, "solo", "certificate http", "in 10 days") &&
			finds(report, doctor.LevelFail, "solo", "disk space", "writes are refused") &&
			finds(report, doctor.LevelWarn, "solo", "open files", "in place of 900000"), "%v", report)
	}
	limited := func(args ...string) *exec.Cmd {
		return exec.Command("sh", append([]string{"-c", `ulimit -n 4096; exec "$0" "$@"`, program},
			args...)...)
	}
	badlyOff(examineBy(t, limited("doctor", "--json", "--config", file)))
	node := launch(t, limited("serve", "--config", file)) // it is not ready on a disk that is full
	var report doctor.Report
	require.Eventually(t, func() bool {
		report = examine(t, "--ops", settings.Ops, "--admin-key", adminKey)
		return finds(report, doctor.LevelOK, "", "leader of workspace", "solo") &&
			finds(report, doctor.LevelFail, "solo", "ready", "disk")
	}, patience, statusEvery)
	badlyOff(report)
	require.True(t, finds(report, doctor.LevelFail, "", "majority", "0 are ready"), "%v", report)
	require.True(t, finds(examine(t, "--config", file), doctor.LevelOK, "solo", "process", "runs there"))
	require.Zero(t, node.stop())
}
