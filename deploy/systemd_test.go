package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// unit is a unit file: section, directive, values in their order.
type unit map[string]map[string][]string

func readUnit(t *testing.T, text string) unit {
	t.Helper()
	u, section := unit{}, ""
	heading := regexp.MustCompile(`^\[(\w+)\]$`)
	directive := regexp.MustCompile(`^(\w+)=(.*)$`)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if found := heading.FindStringSubmatch(line); found != nil {
			section = found[1]
			u[section] = map[string][]string{}
			continue
		}
		found := directive.FindStringSubmatch(line)
		require.NotNil(t, found, line)
		require.NotEmpty(t, section, line)
		u[section][found[1]] = append(u[section][found[1]], found[2])
	}
	return u
}

// service is a directive of the service that is there once.
func (u unit) service(t *testing.T, directive string) string {
	t.Helper()
	values := u["Service"][directive]
	require.Len(t, values, 1, directive)
	return values[0]
}

func (u unit) seconds(t *testing.T, directive string) time.Duration {
	t.Helper()
	n, err := strconv.Atoi(u.service(t, directive))
	require.NoError(t, err)
	return time.Duration(n) * time.Second
}

func TestUnitFitsTheNode(t *testing.T) {
	text, err := os.ReadFile("systemd/tollgate.service")
	require.NoError(t, err)
	u := readUnit(t, string(text))
	settings := settingsOf(t, "systemd/tollgate.yaml", "node1")
	require.Len(t, settings.Members, 3)

	line := strings.Fields(u.service(t, "ExecStart"))
	require.Equal(t, []string{"serve", "--config", "/etc/tollgate/tollgate.yaml"}, line[1:])
	require.Greater(t, u.seconds(t, "TimeoutStopSec"), settings.StopTimeout+5*time.Second)
	files, err := strconv.Atoi(u.service(t, "LimitNOFILE"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, files, settings.Connections.Total+ownFiles)
	require.Equal(t, "0", u.service(t, "LimitCORE"))
	state := filepath.Join("/var/lib", u.service(t, "StateDirectory"))
	require.Equal(t, state, filepath.Dir(settings.Data))
	require.Equal(t, "strict", u.service(t, "ProtectSystem"))
	require.Equal(t, "yes", u.service(t, "NoNewPrivileges"))
	require.Empty(t, u.service(t, "CapabilityBoundingSet"))
	for _, file := range []string{
		settings.TLS.Authority, settings.TLS.Certificate, settings.OpsTLS.Certificate,
	} {
		require.Equal(t, "/etc/tollgate/certs", filepath.Dir(file))
	}

	require.Equal(t, "on-failure", u.service(t, "Restart"))

	users, err := os.ReadFile("systemd/tollgate.conf")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^u `+u.service(t, "User")+` `, string(users))
}

// Where systemd is installed, it reads the unit itself: every directive is known, and its exposure
// is low.
func TestSystemdAcceptsTheUnit(t *testing.T) {
	text, err := os.ReadFile("systemd/tollgate.service")
	require.NoError(t, err)
	require.Equal(t, []string{"Install", "Service", "Unit"}, sections(readUnit(t, string(text))))
	program, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("no systemd here: the unit's directives were read by this test alone")
		return
	}
	// The program and the user are not installed here.
	text = []byte(strings.NewReplacer("/usr/local/bin/tollgate", "/bin/true",
		"User=tollgate", "User=daemon", "Group=tollgate", "Group=daemon").Replace(string(text)))
	file := filepath.Join(t.TempDir(), "tollgate.service")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	out, err := exec.Command(program, "verify", "--man=no", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "tollgate.service", "systemd warns")
	out, err = exec.Command(program, "security", "--offline=true", "--threshold=25", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func sections(u unit) (names []string) {
	for name := range u {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
