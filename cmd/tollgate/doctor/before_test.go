package doctor_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/certs"
	"tollgate/cmd/tollgate/config"
	"tollgate/cmd/tollgate/devdata"
	"tollgate/cmd/tollgate/doctor"
)

// requireFound reports whether what is not ok is this: level, node or "cluster", check: a part of
// what is said.
func requireFound(t *testing.T, report doctor.Report, want []string) {
	t.Helper()
	var bad []doctor.Finding
	for _, f := range report.Findings {
		if f.Level > doctor.LevelOK {
			require.NotEmpty(t, f.Do, f.Says)
			requireChapter(t, f.Do)
			bad = append(bad, f)
		}
	}
	for _, text := range want {
		head, says, _ := strings.Cut(text, ": ")
		at := slices.IndexFunc(bad, func(f doctor.Finding) bool {
			return head == f.Level.String()+" "+cmp.Or(f.Node, "cluster")+" "+f.Check &&
				strings.Contains(f.Says, says)
		})
		require.GreaterOrEqual(t, at, 0, "%q is not among %v", text, bad)
		bad = slices.Delete(bad, at, at+1)
	}
	require.Empty(t, bad, "nothing else")
}

var chapterOf = regexp.MustCompile(`OPERATIONS\.md, ([A-Z][A-Za-z ]*[a-z])`)

// requireChapter reports whether the chapter of OPERATIONS.md that a remedy names is there.
func requireChapter(t *testing.T, remedy string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "cluster", "OPERATIONS.md"))
	require.NoError(t, err)
	for _, found := range chapterOf.FindAllStringSubmatch(remedy, -1) {
		require.Regexp(t, `(?m)^##+ `+found[1]+`$`, string(text))
	}
}

// site is where a node shall run: its certificates, its folder, and its configuration.
type site struct {
	*config.Config
	folder    string
	authority *certs.Authority
}

// prepare makes all that a node needs, in the way that OPERATIONS.md says.
func prepare(t *testing.T) *site {
	t.Helper()
	folder := t.TempDir()
	authority, err := certs.OpenAuthority(folder)
	require.NoError(t, err)
	require.NoError(t, authority.Issue(folder, "node1", []string{"127.0.0.1"}))
	hash := sha256.Sum256([]byte("an admin key"))
	settings := config.Default()
	settings.Node, settings.Data = "node1", filepath.Join(folder, "data")
	settings.HTTP, settings.Ops, settings.Raft = free(t), free(t), free(t)
	settings.AdminKeyHash, settings.DiskReserve = hex.EncodeToString(hash[:]), 1
	settings.Memory, settings.Connections.Total, settings.Connections.PerAddress = 64, 1, 1
	settings.Members = []config.Member{
		{ID: "node1", Raft: settings.Raft, Ops: settings.Ops},
		{ID: "node2", Raft: "127.0.0.1:1", Ops: "127.0.0.1:2"},
		{ID: "node3", Raft: "127.0.0.1:3", Ops: "127.0.0.1:4"},
	}
	settings.TLS = config.TLS{
		Authority:   filepath.Join(folder, certs.AuthorityFile),
		Certificate: filepath.Join(folder, certs.CertificateFile("node1")),
		Key:         filepath.Join(folder, certs.KeyFile("node1")),
	}
	return &site{&settings, folder, authority}
}

const day = 24 * time.Hour

// today is when the test runs, which is when its authority begins.
var today = time.Now()

func lasting(d time.Duration) certs.Validity {
	return certs.Validity{From: today.Add(-2 * 365 * day), Until: today.Add(d)}
}

// free is an address that nobody listens at.
func free(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return listener.Addr().String()
}

// look writes the configuration and looks at it.
func (s *site) look(t *testing.T, at time.Time) doctor.Report {
	t.Helper()
	text, err := s.YAML()
	require.NoError(t, err)
	file := filepath.Join(s.folder, "node1.yaml")
	write(t, file, string(text), 0o600)
	return before(file, at)
}

// before is doctor.Before without what is so of the machine that runs the test: its clock, its
// limit of open files, how busy its disk is, and that it is nearly full.
func before(file string, at time.Time) doctor.Report {
	report := doctor.Before(file, at)
	return doctor.NewReport(slices.DeleteFunc(report.Findings, func(f doctor.Finding) bool {
		return f.Check == "clock" || f.Check == "open files" || f.Check == "disk speed" ||
			f.Check == "disk space" && f.Level == doctor.LevelWarn
	}))
}

func (s *site) issue(t *testing.T, validity certs.Validity, hosts ...string) {
	t.Helper()
	require.NoError(t, s.authority.IssueFor(s.folder, "node1", hosts, validity))
}

func write(t *testing.T, file, text string, mode os.FileMode) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	require.NoError(t, os.Chmod(file, mode))
}

// TestBeforeTheStart: for each mistake in a configuration, or on the machine, exactly that is found
// before a node is started, and nothing is changed by looking.
func TestBeforeTheStart(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	const identity = `{"node":"%","disk":"0123456789abcdef","begun":true}`
	for name, c := range map[string]struct {
		change func(t *testing.T, s *site)
		found  []string
	}{
		"nothing": {func(*testing.T, *site) {}, nil},
		"what serve refuses": {
			func(_ *testing.T, s *site) { s.Audit, s.Log.Level = "off", "loud" },
			[]string{"fail node1 configuration: audit:", "fail node1 configuration: log.level:"},
		},
		"the sample's key": {
			func(_ *testing.T, s *site) { s.AdminKeyHash = strings.Repeat("0", 64) },
			[]string{"fail node1 configuration: belongs to no key"},
		},
		"in the clear": {func(_ *testing.T, s *site) {
			s.HTTP, s.Ops = ":"+port(s.HTTP), "0.0.0.0:"+port(s.Ops)
		}, []string{"warn node1 configuration: http is served in the clear", "warn node1 configuration: ops is"}},
		"secrets without a key": {
			func(_ *testing.T, s *site) { s.Raft = ":" + port(s.Raft) },
			[]string{"warn node1 configuration: secretsKey is empty"},
		},
		"two voters": {
			func(_ *testing.T, s *site) { s.Members = s.Members[:2] },
			[]string{"warn node1 configuration: 2 voters"},
		},
		"no operations": {
			func(_ *testing.T, s *site) { s.Members[1].Ops = "" },
			[]string{"warn node1 configuration: node2 has no ops address"},
		},
		"another port": {
			func(_ *testing.T, s *site) { s.Members[0].Raft = "127.0.0.1:5" },
			[]string{"warn node1 configuration: and members says 5"},
		},
		"out of reach": {func(_ *testing.T, s *site) {
			s.Members[0].Raft = "192.0.2.1:" + port(s.Raft)
		}, []string{"fail node1 configuration: which other machines do not reach", "fail node1 certificate peers: 192.0.2.1"}},
		"no such host": {
			func(_ *testing.T, s *site) { s.Members[1].Raft = "node2.invalid:7080" },
			[]string{"fail node1 names: member node2"},
		},
		"more memory than there is": {
			func(_ *testing.T, s *site) { s.Memory = 1 << 30 },
			[]string{"fail node1 memory: the kernel ends the process"},
		},
		"a disk that is too small": {
			func(_ *testing.T, s *site) { s.DiskReserve = 1 << 40 },
			[]string{"fail node1 disk space: writes are refused"},
		},
		"a port in use": {
			func(_ *testing.T, s *site) { s.Ops = listener.Addr().String() },
			[]string{"fail node1 ports: address already in use"},
		},
		"backups beside the data": {func(t *testing.T, s *site) {
			s.Backups.Folder = filepath.Join(s.Data, "backups")
			require.NoError(t, os.MkdirAll(s.Backups.Folder, 0o700))
		}, []string{"warn node1 backups: within the data folder"}},
		"no folder for backups": {
			func(_ *testing.T, s *site) { s.Backups.Folder = s.folder + "/none" },
			[]string{"fail node1 backups: no such file"},
		},
		"no keys of the bucket": {
			func(t *testing.T, s *site) {
				t.Setenv("AWS_ACCESS_KEY_ID", "")
				s.Backups.Folder = "s3://books"
			},
			[]string{"warn node1 backups: AWS_ACCESS_KEY_ID"},
		},
		"a bucket that refuses": {
			func(t *testing.T, s *site) {
				refusing := httptest.NewServer(http.NotFoundHandler())
				t.Cleanup(refusing.Close)
				t.Setenv("AWS_ACCESS_KEY_ID", "ID")
				t.Setenv("AWS_SECRET_ACCESS_KEY", "SECRET")
				t.Setenv("AWS_ENDPOINT_URL", refusing.URL)
				s.Backups.Folder = "s3://books/a"
			},
			[]string{"fail node1 backups: the bucket answers 404"},
		},
		"another node's bucket": {func(t *testing.T, s *site) {
			t.Setenv("AWS_ACCESS_KEY_ID", "")
			s.Backups.Folder, s.Backups.Node = "s3://books", "node2"
		}, nil},
		"no certificate": {
			func(t *testing.T, s *site) { require.NoError(t, os.Remove(s.TLS.Key)) },
			[]string{"fail node1 certificate peers: no such file"},
		},
		"a key for everybody": {
			func(t *testing.T, s *site) { require.NoError(t, os.Chmod(s.TLS.Key, 0o644)) },
			[]string{"warn node1 certificate peers: can be read, or changed, by others"},
		},
		"files as deploy/README.md has them": {func(t *testing.T, s *site) {
			s.SecretsKey = strings.Repeat("ab", 32)
			require.NoError(t, os.Chmod(s.TLS.Key, installed(t)))
		}, nil},
		"a key for the group to change": {
			func(t *testing.T, s *site) { require.NoError(t, os.Chmod(s.TLS.Key, 0o660)) },
			[]string{"warn node1 certificate peers: can be read, or changed, by others"},
		},
		"no authority": {
			func(t *testing.T, s *site) { write(t, s.TLS.Authority, "none", 0o600) },
			[]string{"fail node1 certificate authority: holds no certificate"},
		},
		"another authority": {func(t *testing.T, s *site) {
			other := prepare(t)
			s.TLS.Authority = other.TLS.Authority
		}, []string{"fail node1 certificate peers: signed by none of the authorities"}},
		"a certificate that has ended": {func(t *testing.T, s *site) {
			s.issue(t, lasting(-time.Hour), "127.0.0.1")
		}, []string{"fail node1 certificate peers: ended at"}},
		"a certificate of another host": {func(t *testing.T, s *site) {
			s.issue(t, lasting(365*day), "10.0.0.1")
		}, []string{"fail node1 certificate peers: 127.0.0.1"}},
		"a listener's certificate ends": {func(t *testing.T, s *site) {
			s.HTTPTLS = config.Certificate{Certificate: s.TLS.Certificate, Key: s.TLS.Key}
			s.issue(t, lasting(20*day+time.Hour), "127.0.0.1")
		}, []string{"warn node1 certificate peers: in 20 days", "warn node1 certificate http: in 20 days"}},
		"another node's folder": {func(t *testing.T, s *site) {
			write(t, filepath.Join(s.Data, "node.json"), strings.ReplaceAll(identity, "%", "node2"), 0o600)
		}, []string{`fail node1 data folder: that of node "node2"`}},
		"its own folder": {func(t *testing.T, s *site) {
			write(t, filepath.Join(s.Data, "node.json"), strings.ReplaceAll(identity, "%", "node1"), 0o600)
			write(t, filepath.Join(s.Data, "folder.json"), `{"format":6}`, 0o600)
		}, nil},
		"a newer build's folder": {func(t *testing.T, s *site) {
			write(t, filepath.Join(s.Data, "folder.json"), `{"format":99}`, 0o600)
		}, []string{"fail node1 data folder: written by a newer version"}},
		"another user's folder": {func(t *testing.T, s *site) {
			require.NoError(t, os.MkdirAll(s.Data, 0o700))
			if os.Geteuid() == 0 { // nobody else may give a folder away; TestWhoseAFolderIs needs not
				require.NoError(t, os.Chown(s.Data, 65532, 65532))
			}
		}, byRoot("warn node1 data folder: belongs to 65532")},
		"half a restore": {
			func(t *testing.T, s *site) { write(t, s.Data+"/restoring", "", 0o600) },
			[]string{"fail node1 data folder: was not finished"},
		},
		"another cluster's folder": {func(t *testing.T, s *site) {
			write(t, filepath.Join(s.Data, "folder.json"), `{"format":6}`, 0o600)
			s.Cluster = strings.Repeat("ab", 16)
		}, []string{"fail node1 data folder: belongs to another cluster"}},
		"a folder that is not empty, for a restored cluster": {func(t *testing.T, s *site) {
			write(t, filepath.Join(s.Data, "billing", "vote"), "", 0o600)
			s.Cluster = strings.Repeat("ab", 16)
		}, []string{"fail node1 data folder: is not empty"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := prepare(t)
			s.issue(t, lasting(365*day), "127.0.0.1")
			c.change(t, s)
			before := files(t, s.Data)
			requireFound(t, s.look(t, today), c.found)
			require.Equal(t, before, files(t, s.Data), "looking changes nothing")
		})
	}
}

// byRoot is what is found where root runs the test.
func byRoot(found ...string) []string {
	if os.Geteuid() != 0 {
		return nil
	}
	return found
}

func port(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

// files lists what is in a folder.
func files(t *testing.T, folder string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
		if err == nil {
			all = append(all, path)
		}
		return nil
	})
	require.NoError(t, err)
	return all
}

// TestConfigurationsThatCannotBeRead: a setting that does not exist, and one file for all eyes.
func TestConfigurationsThatCannotBeRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "node.yaml")
	write(t, file, "fsync: false\n", 0o600)
	requireFound(t, before(file, today), []string{
		"fail cluster configuration: field fsync not found",
	})
	s := prepare(t)
	s.SecretsKey = strings.Repeat("ab", 32)
	text, err := s.YAML()
	require.NoError(t, err)
	write(t, file, string(text), 0o644)
	s.issue(t, lasting(365*day), "127.0.0.1")
	requireFound(t, before(file, today), []string{
		"warn node1 configuration: holds secretsKey, and can be read, or changed, by others",
	})
	write(t, file, string(text), installed(t))
	requireFound(t, before(file, today), nil)
}

// installed is the mode with which deploy/README.md installs the configuration.
func installed(t *testing.T) os.FileMode {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "README.md"))
	require.NoError(t, err)
	found := regexp.MustCompile(`install -m (\d+) -g tollgate \S*tollgate\.yaml`).
		FindSubmatch(text)
	require.NotNil(t, found)
	mode, err := strconv.ParseUint(string(found[1]), 8, 32)
	require.NoError(t, err)
	return os.FileMode(mode)
}

// TestANodeThatRunsIsSeen: its ports are its own.
func TestANodeThatRunsIsSeen(t *testing.T) {
	s := prepare(t)
	unlock, err := devdata.Lock(devdata.NodeLock(s.Data), false)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", s.Ops)
	require.NoError(t, err)
	report := s.look(t, today)
	requireFound(t, report, nil)
	require.True(t, slices.ContainsFunc(report.Findings, func(f doctor.Finding) bool {
		return f.Check == "process" && strings.Contains(f.Says, "a node runs there")
	}), report.Findings)
	require.NoError(t, listener.Close())
	require.NoError(t, unlock())
	requireFound(t, s.look(t, today), nil)
}

// TestACertificateEndsWithItsAuthority: with that which signed it, whatever others lie beside that.
func TestACertificateEndsWithItsAuthority(t *testing.T) {
	s, other := prepare(t), prepare(t)
	s.issue(t, lasting(30*365*day), "127.0.0.1")
	authorities, err := doctor.Authorities(s.TLS.Authority)
	require.NoError(t, err)
	ends := authorities[0].NotAfter
	requireFound(t, s.look(t, ends.Add(-20*day)), []string{
		"warn node1 certificate peers: in 20 days", "warn node1 certificate authority: in 20 days",
	})
	ours, err := os.ReadFile(s.TLS.Authority)
	require.NoError(t, err)
	theirs, err := os.ReadFile(other.TLS.Authority)
	require.NoError(t, err)
	write(t, s.TLS.Authority, string(theirs)+string(ours), 0o600)
	requireFound(t, s.look(t, today), nil)
	write(t, s.TLS.Authority, string(theirs), 0o600)
	requireFound(t, s.look(t, today), []string{"fail node1 certificate peers: signed by none"})
}
