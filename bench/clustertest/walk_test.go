package clustertest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/config"
)

// walk is an operator with machines: folders, whose addresses are loopback addresses of this
// machine in place of those that OPERATIONS.md has.
type walk struct {
	t *testing.T
	// root has a folder for each machine, and the operator's own.
	root string
	// first and second are 10.0.0 and 10.0.9 here.
	first, second string
	env           []string
	// running is the process of each machine, bootstrap its first configuration.
	running   map[string]*served
	bootstrap map[string][]byte
	// identity is what the last restore printed.
	identity string
}

const walkSecrets = "5ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2e75ec2"

func newWalk(t *testing.T) *walk {
	t.Helper()
	w := &walk{
		t: t, root: t.TempDir(), running: map[string]*served{}, bootstrap: map[string][]byte{},
	}
	w.choose()
	tools := filepath.Join(w.root, "tools")
	require.NoError(t, os.MkdirAll(tools, 0o700))
	require.NoError(t, os.Symlink(program, filepath.Join(tools, "tollgate")))
	for name, script := range map[string]string{
		"scp":     `exec cp "$@"`,
		"chgrp":   `test "$1" = tollgate`, // there is one user here, who is that one, too
		"runuser": `test "$1 $2 $3" = "-u tollgate --" && shift 3 && exec "$@"`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(tools, name), []byte("#!/bin/sh\n"+script+"\n"),
			0o700))
	}
	require.NoError(t, os.MkdirAll(w.folder(""), 0o700))
	w.env = append(os.Environ(), "PATH="+tools+string(os.PathListSeparator)+os.Getenv("PATH"),
		"TOLLGATE_ADMIN_KEY="+adminKey)
	w.export("export TOLLGATE_CA=certs/ca.pem OPS=https://10.0.0.1:9080")
	for _, host := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"} {
		w.install(host)
	}
	return w
}

// choose finds addresses that nobody listens at.
func (w *walk) choose() {
	for try := range 200 {
		n := os.Getpid() + 101*try
		w.first = fmt.Sprintf("127.%d.%d", 10+n%200, n/200%120)
		w.second = fmt.Sprintf("127.%d.%d", 10+n%200, 128+n/200%120)
		if listener, err := net.Listen("tcp", w.first+".1:9080"); err == nil {
			require.NoError(w.t, listener.Close())
			return
		}
	}
	require.Fail(w.t, "no free addresses")
}

// folder is where a machine's files lie; "" is the operator's.
func (w *walk) folder(host string) string {
	if host == "" {
		return filepath.Join(w.root, "operator")
	}
	return filepath.Join(w.root, "machine"+host[strings.LastIndexByte(host, '.')+1:])
}

// install makes a machine as deploy/README.md does, and has a newer program ready.
func (w *walk) install(host string) {
	for _, name := range []string{"etc/tollgate/certs", "var/lib/tollgate", "usr/local/bin"} {
		require.NoError(w.t, os.MkdirAll(filepath.Join(w.folder(host), name), 0o700))
	}
	require.NoError(w.t, os.Symlink(program, filepath.Join(w.folder(host), "tollgate-new")))
}

var (
	remotePath  = regexp.MustCompile(`(10\.0\.\d\.\d):(/\S+)`)
	machinePath = regexp.MustCompile(`(^|[\s"'=])(/(?:etc|var/lib|usr/local/bin)/tollgate)`)
)

// here is a text of OPERATIONS.md with the addresses and paths of this walk.
func (w *walk) here(text, host string) string {
	text = remotePath.ReplaceAllStringFunc(text, func(found string) string {
		parts := remotePath.FindStringSubmatch(found)
		return w.folder(parts[1]) + parts[2]
	})
	if host != "" {
		text = machinePath.ReplaceAllString(text, "${1}"+w.folder(host)+"${2}")
	}
	text = strings.ReplaceAll(text, "10.0.0.", w.first+".")
	text = strings.ReplaceAll(text, "10.0.9.", w.second+".")
	return strings.ReplaceAll(text, "5f0c…", w.identity)
}

// export takes in variables for the operator's commands to come.
func (w *walk) export(line string) {
	for _, setting := range strings.Fields(line)[1:] {
		w.env = append(w.env, w.here(setting, ""))
	}
}

// do carries out a step.
func (w *walk) do(s step) {
	begin := time.Now()
	switch {
	case s.event != "":
		w.happens(s)
	case s.file != "":
		for _, host := range s.hosts {
			w.configure(host, s.file, s.content)
		}
	case len(s.hosts) == 0:
		w.run("", s)
	}
	if len(s.commands) > 0 {
		for _, host := range s.hosts {
			w.run(host, s)
		}
	}
	w.t.Logf("%s, line %d: %s", s.chapter, s.line, time.Since(begin).Round(time.Millisecond))
}

// configure writes a file for a machine: what it says of node1 and its address is that machine's.
func (w *walk) configure(host, file, content string) {
	w.t.Helper()
	number := host[strings.LastIndexByte(host, '.')+1:]
	hash := sha256.Sum256([]byte(adminKey))
	var lines []string
	for line := range strings.Lines(content) {
		if !strings.Contains(line, "{id:") {
			line = strings.ReplaceAll(line, "node1", "node"+number)
			line = strings.ReplaceAll(line, "10.0.0.1:", host+":")
		}
		if strings.HasPrefix(line, "adminKeyHash:") {
			line = strings.Replace(line, "…", hex.EncodeToString(hash[:]), 1)
		}
		lines = append(lines, strings.Replace(line, `secretsKey: "…"`, `secretsKey: "`+walkSecrets+`"`, 1))
	}
	text := []byte(w.here(strings.Join(lines, ""), host))
	if w.bootstrap[host] == nil {
		w.bootstrap[host] = text
	}
	require.NoError(w.t, os.WriteFile(w.here(file, host), text, 0o600))
}

// run carries out a block, line by line, on a machine or the operator's own.
func (w *walk) run(host string, s step) {
	w.t.Helper()
	for i, line := range s.commands {
		at := fmt.Sprintf("OPERATIONS.md:%d %s", s.line+1+i, line)
		line, _, _ = strings.Cut(line, "  #")
		switch line = strings.TrimSpace(line); {
		case line == "":
		case strings.HasPrefix(line, "systemctl "):
			w.systemctl(host, line, at)
		case strings.HasPrefix(line, "export "):
			w.export(line)
		case strings.Contains(line, "tollgate doctor"):
			require.Eventually(w.t, func() bool {
				printed, err := w.shell(host, line)
				return wellEnough(w.t, printed, err)
			}, patience, statusEvery, at)
		default:
			printed, err := w.shell(host, line)
			require.NoError(w.t, err, "%s\n%s\n%s", at, printed, w.logs())
			if found := identityLine.FindStringSubmatch(printed); found != nil {
				w.identity = found[1]
			}
		}
	}
}

var identityLine = regexp.MustCompile(`(?m)^Cluster ([0-9a-f]{32}): restore its other nodes`)

func (w *walk) shell(host, line string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	command := exec.CommandContext(ctx, "sh", "-c", w.here(line, host))
	command.Dir, command.Env = w.folder(host), w.env
	if host != "" {
		command.Env = append(command.Env, "HOST="+w.here(host, ""),
			"TOLLGATE_CA="+w.folder(host)+"/etc/tollgate/certs/ca.pem")
	}
	printed, err := command.CombinedOutput()
	return string(printed), err
}

// ofThisMachine are findings about the machine that runs the test, and not about the cluster.
var ofThisMachine = regexp.MustCompile(`^FAIL +\S+ +(disk speed|open files|disk space) `)

// wellEnough reports whether doctor found nothing that fails.
func wellEnough(t *testing.T, printed string, err error) bool {
	t.Helper()
	exit := (*exec.ExitError)(nil)
	if err != nil {
		require.ErrorAs(t, err, &exit)
		require.Contains(t, []int{6, 7}, exit.ExitCode(), printed)
	}
	for line := range strings.Lines(printed) {
		if strings.HasPrefix(line, "FAIL") && !ofThisMachine.MatchString(line) {
			t.Log(strings.TrimSpace(line))
			return false
		}
	}
	require.Regexp(t, `\d+ ok\.`, printed)
	return true
}

// systemctl starts or stops the node of a machine.
func (w *walk) systemctl(host, line, at string) {
	w.t.Helper()
	machine := w.folder(host)
	switch line {
	case "systemctl start tollgate":
		w.start(host)
	case "systemctl stop tollgate":
		require.Zero(w.t, w.running[machine].stop(), at)
	case "systemctl restart tollgate":
		require.Zero(w.t, w.running[machine].stop(), at)
		w.start(host)
	default:
		require.Fail(w.t, "no such command here", at)
	}
}

// start runs a machine's node until it listens, as by the time that an operator goes on it does.
func (w *walk) start(host string) {
	w.t.Helper()
	machine := w.folder(host)
	binary := filepath.Join(machine, "usr/local/bin/tollgate")
	if _, err := os.Stat(binary); err != nil {
		binary = program
	}
	file := filepath.Join(machine, "etc/tollgate/tollgate.yaml")
	settings, err := config.Load(file)
	require.NoError(w.t, err)
	s := launch(w.t, exec.Command(binary, "serve", "--config", file))
	w.running[machine] = s
	require.Eventually(w.t, func() bool {
		conn, err := net.DialTimeout("tcp", settings.Ops, time.Second)
		if err == nil {
			require.NoError(w.t, conn.Close())
		}
		return err == nil || s.hasEnded()
	}, patience, statusEvery)
	require.False(w.t, s.hasEnded(), "%s: %s", host, s.printed)
}

// happens is what becomes of machines between two blocks.
func (w *walk) happens(s step) {
	w.t.Helper()
	words := strings.Fields(s.event)
	switch words[0] {
	case "loses":
		machine := w.folder(words[1])
		killProcess(w.t, w.running[machine].command.Process.Pid)
		<-w.running[machine].ended
		require.NoError(w.t, os.RemoveAll(machine))
		w.install(words[1])
	case "copies": // FILE from A to B
		from, to := words[3], words[5]
		text, err := os.ReadFile(w.here(words[1], from))
		require.NoError(w.t, err)
		changed := strings.NewReplacer(
			w.folder(from), w.folder(to), w.here(from, ""), w.here(to, ""),
			"node"+from[strings.LastIndexByte(from, '.')+1:], "node"+to[strings.LastIndexByte(to, '.')+1:],
		).Replace(string(text))
		require.NoError(w.t, os.WriteFile(w.here(words[1], to), []byte(changed), 0o600))
	case "configures": // HOSTS as at the bootstrap
		for _, host := range words[1:] {
			if strings.HasPrefix(host, "10.") {
				require.NoError(w.t, os.WriteFile(w.here("/etc/tollgate/tollgate.yaml", host),
					w.bootstrap[host], 0o600))
			}
		}
	case "waits": // until the certificates of HOSTS are those of certs-new
		for _, host := range words {
			if strings.HasPrefix(host, "10.") {
				w.awaitCertificate(host)
			}
		}
	default:
		require.Fail(w.t, "nothing of that kind happens here", "OPERATIONS.md:%d %s", s.line, s.event)
	}
}

// awaitCertificate waits until a machine shows its certificate of certs-new.
func (w *walk) awaitCertificate(host string) {
	w.t.Helper()
	number := host[strings.LastIndexByte(host, '.')+1:]
	text, err := os.ReadFile(filepath.Join(w.folder(""), "certs-new", "node"+number+".pem"))
	require.NoError(w.t, err)
	want, _ := pem.Decode(text)
	require.Eventually(w.t, func() bool {
		conn, err := tls.Dial("tcp", w.here(host, "")+":9080", &tls.Config{
			InsecureSkipVerify: true, // what it shows is looked at, not who it is
		})
		if err != nil {
			return false
		}
		shown := conn.ConnectionState().PeerCertificates[0].Raw
		return errors.Join(conn.Close()) == nil && bytes.Equal(shown, want.Bytes)
	}, patience, statusEvery, host)
}

// logs are the ends of what the nodes said.
func (w *walk) logs() string {
	var all strings.Builder
	for machine, s := range w.running {
		text := s.printed.String()
		fmt.Fprintf(&all, "%s:\n%s\n", filepath.Base(machine), text[max(0, len(text)-2000):])
	}
	return all.String()
}

// members are the lines of cluster status about members, by name.
func (w *walk) members() map[string]string {
	w.t.Helper()
	printed, err := w.shell("", "tollgate cluster status --ops $OPS")
	require.Contains(w.t, printed, "MEMBER", "%v", err) // it ends with 6 while a member is down
	members := map[string]string{}
	for line := range strings.Lines(printed) {
		if name, rest, ok := strings.Cut(line, " "); ok && strings.HasPrefix(name, "node") {
			members[name] = strings.TrimSpace(rest)
		}
	}
	return members
}

// afterwards is what must be so when a chapter was walked through.
func (w *walk) afterwards(chapter string) {
	w.t.Helper()
	three := func() {
		w.t.Helper()
		require.Eventually(w.t, func() bool {
			members := w.members()
			voters := 0
			for _, line := range members {
				if strings.HasPrefix(line, "leads") || strings.HasPrefix(line, "follower") {
					voters++
				}
			}
			return len(members) == 3 && voters == 3
		}, patience, statusEvery, "three voters")
	}
	switch chapter {
	case "Bootstrap":
		three()
		printed, err := w.shell("", "tollgate accounts create walked --ops $OPS")
		require.NoError(w.t, err, printed)
	case "Replace a node", "Add and remove nodes", "Upgrade":
		three()
	case "Hand over leadership":
		require.Regexp(w.t, `^leads both`, w.members()["node3"])
	case "Backup and restore":
		three()
		require.NotEmpty(w.t, w.identity)
		printed, err := w.shell("", "tollgate accounts list --ops $OPS")
		require.NoError(w.t, err, printed)
		require.Contains(w.t, printed, "walked", "what was there before the backup")
	}
}

// An operator goes through OPERATIONS.md, command by command, from the first to the last, on
// machines of real processes.
func TestOperatorsWalk(t *testing.T) {
	t.Parallel()
	w := newWalk(t)
	chapter := ""
	for _, s := range operations(t) {
		if chapter != s.chapter {
			w.afterwards(chapter)
			chapter = s.chapter
		}
		w.do(s)
	}
	require.Equal(t, "Certificates", chapter, "the last of the chapters with commands")
	printed, err := w.shell("", "tollgate accounts list --ops $OPS")
	require.NoError(t, err, printed)
	require.Contains(t, printed, "walked")
	for _, s := range w.running {
		if !s.hasEnded() {
			require.NoError(t, s.command.Process.Signal(syscall.SIGTERM))
		}
	}
}
