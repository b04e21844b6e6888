package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/config"
)

const someHash = "0000000000000000000000000000000000000000000000000000000000000000"

func TestSampleSaysTheDefaults(t *testing.T) {
	got, err := config.Parse([]byte(config.Sample))
	require.NoError(t, err)
	require.NoError(t, got.Validate())
	want := config.Default()
	require.Empty(t, want.AdminKeyHash, "its digits would let whoever finds its key in")
	want.AdminKeyHash = someHash
	require.Equal(t, want, got)

	got, err = config.Parse([]byte("limits: {keyRetention: 48h}"))
	require.NoError(t, err)
	want = config.Default()
	want.Limits.KeyRetention = 48 * time.Hour
	require.Equal(t, want, got, "what a document leaves out has its default")
	require.Equal(t, 7*24*time.Hour, got.Limits.EventWindow)
}

// A setting without a line in the sample would be found by nobody.
func TestSampleNamesEverySetting(t *testing.T) {
	c := config.Default()
	c.Members = []config.Member{{}}
	c.Skip = []config.SkipEntry{{}}
	text, err := c.YAML()
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(strings.TrimLeft(line, " -"), ":")
		require.Contains(t, config.Sample, strings.TrimSpace(name)+":", "sample.yaml")
	}
}

func TestUnknownSettingsAreNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "node.yaml")
	require.NoError(t, os.WriteFile(file, []byte("nodes: 3\n"), 0o600))
	_, err := config.Load(file)
	require.ErrorContains(t, err, "field nodes not found")
	require.ErrorContains(t, err, file)

	_, err = config.Parse([]byte("node: a\n---\nnode: b\n"))
	require.ErrorContains(t, err, "more than one document")
}

func TestValidateSaysEverythingThatIsWrong(t *testing.T) {
	valid := config.Default()
	valid.AdminKeyHash = someHash
	valid.Members = []config.Member{{ID: "node1", Raft: "127.0.0.1:7080"}}
	require.NoError(t, valid.Validate())

	for want, breakIt := range map[string]func(*config.Config){
		"node: \"N 1\"":      func(c *config.Config) { c.Node = "N 1" },
		"data: want":         func(c *config.Config) { c.Data = "" },
		"http: \"8080\"":     func(c *config.Config) { c.HTTP = "8080" },
		"ops: \"a:0\"":       func(c *config.Config) { c.Ops = "a:0" },
		"members: \"node9\"": func(c *config.Config) { c.Node = "node9" },
		"members[1].id":      func(c *config.Config) { c.Members = append(c.Members, c.Members[0]) },
		"dial.node1: \"h:1\"": func(c *config.Config) {
			c.Dial = map[string]string{"node1": "h:1"} // itself
		},
		"dial.node2: \"h\"": func(c *config.Config) {
			c.Members = append(c.Members, config.Member{ID: "node2", Raft: "h:2"})
			c.Dial = map[string]string{"node2": "h"}
		},
		"tls: want":                      func(c *config.Config) { c.TLS.Key = "x" },
		"adminKeyHash: want":             func(c *config.Config) { c.AdminKeyHash = "00" },
		"audit: \"off\"":                 func(c *config.Config) { c.Audit = "off" },
		"limits.keyRetention: 2184h0m0s": func(c *config.Config) { c.Limits.KeyRetention = 91 * 24 * time.Hour },
		"limits.auditRetention: 59m0s": func(c *config.Config) {
			c.Limits.AuditRetention = 59 * time.Minute
		},
		"limits.auditRetention: 87841h0m0s": func(c *config.Config) {
			c.Limits.AuditRetention = 87841 * time.Hour
		},
		"limits.eventWindow: 169h0m0s": func(c *config.Config) { c.Limits.EventWindow = 169 * time.Hour },
		"snapshots.logMiB":             func(c *config.Config) { c.Snapshots.LogMiB = 0 },
		"drain: 6s":                    func(c *config.Config) { c.Drain = 6 * time.Second },
		"drain: -1s":                   func(c *config.Config) { c.Drain = -time.Second },
		"stopTimeout: 0s":              func(c *config.Config) { c.StopTimeout = 0 },
		"log.level: \"loud\"":          func(c *config.Config) { c.Log.Level = "loud" },
		"log.format: \"xml\"":          func(c *config.Config) { c.Log.Format = "xml" },
		"skip[0]: want group":          func(c *config.Config) { c.Skip = []config.SkipEntry{{Index: 1}} },
		"limits.reservationMemoryMiB":  func(c *config.Config) { c.Limits.ReservationMemory = -1 },
		"memoryMiB, diskReserveMiB":    func(c *config.Config) { c.Memory = -1 },
		"tls: 0.0.0.0:7080 is reached": func(c *config.Config) { c.Raft = "0.0.0.0:7080" },
		"tls: 10.0.0.2:7080 is reached": func(c *config.Config) {
			c.Members = append(c.Members, config.Member{ID: "node2", Raft: "10.0.0.2:7080"})
		},
		"workspaces.lease: 59s: want": func(c *config.Config) {
			c.Workspaces.Lease, c.Raft = 59*time.Second, "10.0.0.1:7080"
			c.TLS = config.TLS{Authority: "a", Certificate: "c", Key: "k"}
		},
		"tracing.url: want http": func(c *config.Config) { c.Tracing.URL = "collector:4318" },
		"tracing.url: want no user": func(c *config.Config) {
			c.Tracing.URL = "https://collector.example/v1/traces?api-key=k"
		},
		"and no query: a key": func(c *config.Config) {
			c.Tracing.URL = "https://user:k@collector.example/v1/traces"
		},
		"httpTLS: want":              func(c *config.Config) { c.HTTPTLS.Key = "x" },
		"opsTLS: want":               func(c *config.Config) { c.OpsTLS.Certificate = "x" },
		"connections: want total":    func(c *config.Config) { c.Connections.PerAddress = 16_385 },
		"connections: want requests": func(c *config.Config) { c.Connections.BodiesMiB = 7 },
	} {
		c := valid
		c.Members = append([]config.Member(nil), valid.Members...)
		breakIt(&c)
		require.ErrorContains(t, c.Validate(), want)
	}

	nothing := config.Config{}
	require.Greater(t, strings.Count(nothing.Validate().Error(), "\n"), 6, "all at once")
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	c := config.Default()
	c.Members = []config.Member{{ID: "node1", Raft: "h:1", HTTP: "h:2", Ops: "h:3"}}
	c.Skip = []config.SkipEntry{{Group: "billing", Index: 7, CRC: 9}}
	c.Dial = map[string]string{"node2": "tunnel:1"}
	text, err := c.YAML()
	require.NoError(t, err)
	read, err := config.Parse(text)
	require.NoError(t, err)
	require.Equal(t, c, read)
}

func TestReservationsHaveAQuarterOfTheMemory(t *testing.T) {
	c := config.Default()
	c.Memory = 4096
	require.Equal(t, uint64(1<<30/config.ReservationBytes), c.MaxReservations())
	c.Memory = 64 << 10
	require.Equal(t, uint64(16<<20), c.MaxReservations())
	c.Limits.ReservationMemory = 10 << 10
	require.Equal(t, uint64(10<<30/config.ReservationBytes), c.MaxReservations())
}

func TestKeyBudgetIsHalfOfTheMemory(t *testing.T) {
	c := config.Default()
	c.Memory = 8000
	require.Equal(t, uint64(8000<<20/2/4/config.KeyBytes), c.MaxKeysInMemory())
	c.Limits.KeyMemory = 40
	require.Equal(t, uint64(1<<18), c.MaxKeysInMemory())
	require.Equal(t, uint64(1<<18+20<<20), c.MaxKeys())
	c.Limits.KeyMemory = 6 << 10 // of a node of 16 GB
	require.Greater(t, c.MaxKeys(), uint64(35*86_400*1000), "35 days at 1,000 events/s")
	c.Memory = 0
	require.Greater(t, c.MemoryBytes(), uint64(64<<20))
}

func TestBaseURLFollowsTheListener(t *testing.T) {
	c := config.Default()
	require.Equal(t, "http://127.0.0.1:8080", c.BaseURL())
	c.HTTPTLS = config.Certificate{Certificate: "a", Key: "b"}
	require.Equal(t, "https://127.0.0.1:8080", c.BaseURL())
	c.PublicURL = "https://billing.example/"
	require.Equal(t, "https://billing.example", c.BaseURL())
}

// TestDevelopmentIsForLoopback: a node with the identity provider of `tollgate dev` does not start
// where anybody else could reach it, and without it an issuer is reached over https alone.
func TestDevelopmentIsForLoopback(t *testing.T) {
	valid := config.Default()
	valid.AdminKeyHash = someHash
	valid.Members = []config.Member{{ID: "node1", Raft: "127.0.0.1:7080"}}
	valid.SignIn.Development = true
	valid.SignIn.Persons = config.Issuer{Issuer: "http://127.0.0.1:1/persons", ClientID: "c"}
	require.NoError(t, valid.Validate())
	for want, breakIt := range map[string]func(*config.Config){
		"http is 0.0.0.0:8080":  func(c *config.Config) { c.HTTP = "0.0.0.0:8080" },
		"http is :8080":         func(c *config.Config) { c.HTTP = ":8080" },
		"ops is 10.0.0.1:9080":  func(c *config.Config) { c.Ops = "10.0.0.1:9080" },
		"publicURL is https://": func(c *config.Config) { c.PublicURL = "https://billing.example" },
		"signIn.persons.issuer": func(c *config.Config) { c.SignIn.Development = false },
		"signIn.persons: want": func(c *config.Config) {
			c.SignIn.Agents, c.SignIn.Persons = c.SignIn.Persons, config.Issuer{}
		},
		"signIn.operators[0]": func(c *config.Config) {
			c.SignIn.Operators = []config.Operator{{Email: "ada@acme.example", On: "account:", May: "view"}}
		},
		"signIn.origin":        func(c *config.Config) { c.SignIn.Origin = "https://a.example/path" },
		"signIn.allowNetworks": func(c *config.Config) { c.SignIn.AllowNetworks = []string{"10.0.0.1"} },
		"sessions do not go in plaintext": func(c *config.Config) {
			c.SignIn.Development, c.PublicURL = false, "http://billing.example"
			c.SignIn.Persons.Issuer = "https://id.example"
		},
	} {
		c := valid
		breakIt(&c)
		require.ErrorContains(t, c.Validate(), want)
	}
}

// TestOperatorsByAddress: an operator is whom the configured issuer gives the address, whatever its
// case, and nobody whose address only looks like it.
func TestOperatorsByAddress(t *testing.T) {
	s := config.SignIn{
		Persons:   config.Issuer{Issuer: "https://id.example"},
		Operators: []config.Operator{{Email: "kit@kits.example", On: "cluster", May: "manage"}},
	}
	require.Len(t, s.Allows("https://id.example", "Kit@KITS.example"), 1)
	require.Empty(t, s.Allows("https://other.example", "kit@kits.example"))
	for _, email := range []string{
		"", "\u212ait@kits.example", "kit@\u212aits.example", "kit@kit\u017f.example",
	} {
		require.Empty(t, s.Allows("https://id.example", email), email)
	}
}

// TestKeptMailsAreForLoopback: whoever reaches the operations listener reads them.
func TestKeptMailsAreForLoopback(t *testing.T) {
	c := config.Default()
	c.AdminKeyHash = someHash
	c.Members = []config.Member{{ID: "node1", Raft: "127.0.0.1:7080"}}
	c.Mail.Folder = "/var/mails"
	require.NoError(t, c.Validate())
	for _, ops := range []string{"0.0.0.0:9080", ":9080", "10.0.0.1:9080"} {
		c.Ops = ops
		require.ErrorContains(t, c.Validate(), "mail.folder")
	}
}

// TestWhoOperates: by the issuer's word and the address, and where their sessions may go.
func TestWhoOperates(t *testing.T) {
	valid := config.Default()
	valid.AdminKeyHash = someHash
	valid.Members = []config.Member{{ID: "node1", Raft: "127.0.0.1:7080"}}
	require.True(t, valid.SignIn.KeySignsIn(), "nobody else could")
	valid.SignIn.Persons = config.Issuer{Issuer: "https://id.example", ClientID: "c"}
	require.True(t, valid.SignIn.KeySignsIn())
	valid.SignIn.OpsURL = "https://ops.example"
	valid.SignIn.Operators = []config.Operator{
		{Email: "Kim@acme.example", On: "cluster", May: "view"},
		{Email: "kim@acme.example", On: "account:acme", May: "manage"},
		{Issuer: "https://id.example", Email: "bob@acme.example", On: "account:acme", May: "manage"},
	}
	require.NoError(t, valid.Validate())
	require.False(t, valid.SignIn.KeySignsIn())
	rows := valid.SignIn.Allows("https://id.example", "KIM@ACME.example")
	require.Len(t, rows, 2)
	require.Equal(t, []string{"", "acme"}, []string{rows[0].Account(), rows[1].Account()})
	require.Len(t, valid.SignIn.Allows("https://id.example", "bob@acme.example"), 1)
	for _, stranger := range []string{"", "eve@acme.example", "kim@acme.example.evil", "\u212aim@acme.example"} {
		require.Empty(t, valid.SignIn.Allows("https://id.example", stranger), stranger)
	}
	require.Empty(t, valid.SignIn.Allows("https://evil.example", "kim@acme.example"))
	for want, breakIt := range map[string]func(*config.Config){
		"0.0.0.0:9080 is not an address": func(c *config.Config) { c.SignIn.OpsURL, c.Ops = "", "0.0.0.0:9080" },
		":9080 is not an address":        func(c *config.Config) { c.SignIn.OpsURL, c.Ops = "", ":9080" },
		"in plaintext":                   func(c *config.Config) { c.SignIn.OpsURL = "http://ops.example" },
		"without a path":                 func(c *config.Config) { c.SignIn.OpsURL = "https://ops.example/" },
		"must be that of signIn.persons": func(c *config.Config) { c.SignIn.Persons = config.Issuer{} },
		"operators[1]: its issuer": func(c *config.Config) {
			c.SignIn.Operators = []config.Operator{
				c.SignIn.Operators[0],
				{Issuer: "https://other.example", Email: "a@b", On: "cluster", May: "view"},
			}
		},
		"opsURL is https://ops.example": func(c *config.Config) { c.SignIn.Development = true },
	} {
		c := valid
		breakIt(&c)
		require.ErrorContains(t, c.Validate(), want)
	}
	valid.SignIn.OpsURL = ""
	require.NoError(t, valid.Validate(), "on loopback")
}
