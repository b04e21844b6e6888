package fetch_test

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/server/provider/fetch"
)

// TestHostOf: one host has one spelling, and a port only where it is not the scheme's.
func TestHostOf(t *testing.T) {
	for url, want := range map[string]string{
		"https://bücher.example/x":             "xn--bcher-kva.example",
		"https://xn--bcher-kva.example":        "xn--bcher-kva.example",
		"https://Example.COM./":                "example.com",
		"https://example.com:443/":             "example.com",
		"http://example.com:443/":              "example.com:443",
		"http://[2001:DB8::1]:80/":             "[2001:db8::1]",
		"http://[2001:db8::1]:8080/":           "[2001:db8::1]:8080",
		"http://127.0.0.1:8090/":               "127.0.0.1:8090",
		"ftp://example.com/":                   "",
		"http://user@example.com/":             "",
		"not a url":                            "",
		"https://" + strings.Repeat("a", 5000): "",
	} {
		require.Equal(t, want, fetch.HostOf(url), url)
	}
}

func TestURLsThatAreRefusedUnasked(t *testing.T) {
	client := newClient(t, nil)
	for _, test := range []struct {
		url  string
		rule fetch.Rule
	}{
		{"", fetch.RuleURL},
		{"/relative", fetch.RuleURL},
		{"ftp://example.com/", fetch.RuleURL},
		{"file:///etc/passwd", fetch.RuleURL},
		{"http:example.com", fetch.RuleURL},
		{"http:///path", fetch.RuleURL},
		{"http://exa mple.com/", fetch.RuleURL},
		{"http://example.com/\x7f", fetch.RuleURL},
		{"http://example.com/" + strings.Repeat("a", 5000), fetch.RuleURL},
		{"https://user@example.com/", fetch.RuleUserinfo},
		{"https://user:secret@example.com/", fetch.RuleUserinfo},
		{"https://@example.com/", fetch.RuleUserinfo},
		{"http://example.com:8080/", fetch.RulePort},
		{"http://example.com:22/", fetch.RulePort},
		{"http://example.com:0/", fetch.RulePort},
		{"http://example.com:65536/", fetch.RulePort},
		// Spellings that some resolvers take for 127.0.0.1.
		{"http://2130706433/", fetch.RuleHost},
		{"http://0x7f000001/", fetch.RuleHost},
		{"http://0X7F.1/", fetch.RuleHost},
		{"http://017700000001/", fetch.RuleHost},
		{"http://127.1/", fetch.RuleHost},
		{"http://127.0.0.1./", fetch.RuleHost},
		{"http://127.0.0.01/", fetch.RuleHost},
		{"http://0/", fetch.RuleHost},
		{"http://１２７.１/", fetch.RuleHost},
		{"http://example.com../", fetch.RuleHost},
		{"http://a_b c/", fetch.RuleURL},
		{"http://[fe80::1%25eth0]/", fetch.RuleHost},
		// Addresses that are not public.
		{"http://127.0.0.1/", fetch.RuleAddress},
		{"http://127.255.255.254/", fetch.RuleAddress},
		{"http://0.0.0.0/", fetch.RuleAddress},
		{"http://10.1.2.3/", fetch.RuleAddress},
		{"http://100.64.0.1/", fetch.RuleAddress},
		{"http://169.254.169.254/latest/meta-data/", fetch.RuleAddress},
		{"http://172.16.0.1/", fetch.RuleAddress},
		{"http://192.168.1.1/", fetch.RuleAddress},
		{"http://198.18.0.1/", fetch.RuleAddress},
		{"http://224.0.0.1/", fetch.RuleAddress},
		{"http://255.255.255.255/", fetch.RuleAddress},
		{"http://[::]/", fetch.RuleAddress},
		{"http://[::1]/", fetch.RuleAddress},
		{"http://[::ffff:127.0.0.1]/", fetch.RuleAddress},
		{"http://[::ffff:7f00:1]/", fetch.RuleAddress},
		{"http://[::127.0.0.1]/", fetch.RuleAddress},
		{"http://[64:ff9b::7f00:1]/", fetch.RuleAddress},
		{"http://[2002:7f00:1::]/", fetch.RuleAddress},
		{"http://[fc00::1]/", fetch.RuleAddress},
		{"http://[fe80::1]/", fetch.RuleAddress},
		{"http://[ff02::1]/", fetch.RuleAddress},
	} {
		err := client.Check(test.url)
		require.Error(t, err, test.url)
		refusal := refusalOf(t, err)
		require.Equal(t, test.rule, refusal.Rule, test.url)
		require.True(t, refusal.Local(), test.url)
		require.NotContains(t, err.Error(), "secret")
		_, doErr := get(t, client, test.url)
		require.Equal(t, err, doErr, test.url)
	}
	for _, url := range []string{
		"http://example.com", "HTTPS://Example.COM:443/a?b#c", "http://bücher.example/",
		"http://example.com./", "http://8.8.8.8/", "https://[2606:4700::1111]/", "http://a.0xyz/",
		"http://" + reachable + "/", "http://[::ffff:" + reachable + "]/",
	} {
		require.NoError(t, client.Check(url), url)
	}
}

func TestANameIsJudgedByTheAddressDialled(t *testing.T) {
	for name, addresses := range map[string][]string{
		"loopback": {private}, "mapped loopback": {"::ffff:" + private}, "any": {"0.0.0.0"},
		"metadata": {"169.254.169.254"}, "loopback 6": {"::1"}, "any 6": {"::"},
		"all private": {"10.0.0.1", "192.168.0.1", "fc00::1"},
	} {
		t.Run(name, func(t *testing.T) {
			server := &names{answer: func(string, int) []string { return addresses }}
			client := newClient(t, func(c *fetch.Config) { c.Resolver = server.resolver(t) })
			_, err := get(t, client, "http://innocent.example/path?token=secret")
			refusal := refusalOf(t, err)
			require.Equal(t, fetch.RuleAddress, refusal.Rule)
			require.Equal(t, "innocent.example:80", refusal.Host)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

func TestRebinding(t *testing.T) {
	var hits atomic.Int32
	inside := func(w http.ResponseWriter, _ *http.Request) {
		hits.Add(1)
		_, _ = io.WriteString(w, "inside")
	}
	_, port, err := net.SplitHostPort(serve(t, private, inside))
	require.NoError(t, err)
	listener, err := net.Listen("tcp", net.JoinHostPort(reachable, port))
	require.NoError(t, err)
	outside := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		_, _ = io.WriteString(w, "outside")
	})}
	go func() { _ = outside.Serve(listener) }()
	t.Cleanup(func() { _ = outside.Close() })

	// The name is good when it is looked at first, and loopback from then on.
	server := &names{answer: func(_ string, nth int) []string {
		if nth == 0 {
			return []string{reachable}
		}
		return []string{private}
	}}
	client := newClient(t, func(c *fetch.Config) { c.Resolver = server.resolver(t) },
		"rebind.example:"+port)
	answer, err := get(t, client, "http://rebind.example:"+port)
	require.NoError(t, err)
	require.Equal(t, "outside", string(answer.Body))
	for range 3 {
		_, err = get(t, client, "http://rebind.example:"+port)
		require.Equal(t, fetch.RuleAddress, refusalOf(t, err).Rule)
	}
	require.Zero(t, hits.Load(), "the private server was reached")
}

func TestMixedAnswersReachOnlyWhatIsAllowed(t *testing.T) {
	_, port, err := net.SplitHostPort(serve(t, reachable,
		func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "outside") }))
	require.NoError(t, err)
	server := &names{answer: func(string, int) []string {
		return []string{private, "::1", "10.0.0.1", reachable}
	}}
	client := newClient(t, func(c *fetch.Config) { c.Resolver = server.resolver(t) },
		"mixed.example:"+port)
	answer, err := get(t, client, "http://mixed.example:"+port)
	require.NoError(t, err)
	require.Equal(t, "outside", string(answer.Body))
}

func TestAllowedHostsMustMatchWhollyAndStayPublic(t *testing.T) {
	hostPort := serve(t, private, func(http.ResponseWriter, *http.Request) {})
	client := newClient(t, nil, hostPort, "Good.Example:8443")
	_, err := get(t, client, "http://"+hostPort)
	require.Equal(t, fetch.RuleAddress, refusalOf(t, err).Rule, "a host:port opens no network")
	require.NoError(t, client.Check("https://good.example:8443/"))
	for _, other := range []string{
		"https://bad.example:8443/", "https://good.example:8444/", "https://good.example.evil:8443/",
	} {
		require.Equal(t, fetch.RulePort, refusalOf(t, client.Check(other)).Rule, other)
	}

	client = newClient(t, nil, private+":*", "good.example:*")
	_, err = get(t, client, "http://"+hostPort)
	require.Equal(t, fetch.RuleAddress, refusalOf(t, err).Rule, "nor does host:*")
	require.NoError(t, client.Check("https://good.example:8444/"))
	require.Equal(t, fetch.RulePort,
		refusalOf(t, client.Check("https://good.example.evil:8443/")).Rule)
}

// net/http reads the environment once per process, so this test runs in one of its own.
func TestProxiesOfTheEnvironmentAreIgnored(t *testing.T) {
	const child = "FETCH_TEST_PROXY"
	server := &names{answer: func(string, int) []string { return []string{private} }}
	if proxy := os.Getenv(child); proxy != "" {
		client := newClient(t, func(c *fetch.Config) { c.Resolver = server.resolver(t) }, proxy)
		_, err := get(t, client, "http://inside.example/")
		require.Equal(t, fetch.RuleAddress, refusalOf(t, err).Rule)
		return
	}
	var proxied atomic.Int32
	proxy := serve(t, reachable, func(http.ResponseWriter, *http.Request) { proxied.Add(1) })
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	again.Env = append(os.Environ(), child+"="+proxy, "HTTP_PROXY=http://"+proxy,
		"http_proxy=http://"+proxy, "HTTPS_PROXY=http://"+proxy, "ALL_PROXY=http://"+proxy)
	output, err := again.CombinedOutput()
	require.NoError(t, err, string(output))
	require.Zero(t, proxied.Load())
}

func TestSettingsThatAreWrong(t *testing.T) {
	for name, config := range map[string]fetch.Config{
		"no prefix":     {AllowPrivate: []netip.Prefix{{}}},
		"wider than v4": {AllowPrivate: []netip.Prefix{netip.MustParsePrefix("::ffff:0:0/90")}},
		"no port":       {AllowHosts: []string{"example.com"}},
		"empty port":    {AllowHosts: []string{"example.com:"}},
		"no host":       {AllowHosts: []string{":8080"}},
		"time":          {Timeout: 11e9},
		"negative time": {Timeout: -1},
		"body":          {BodyLimit: 2<<20 + 1},
	} {
		_, err := fetch.New(config)
		require.Error(t, err, name)
	}
	client, err := fetch.New(fetch.Config{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("::ffff:127.0.0.0/104")},
	})
	require.NoError(t, err)
	require.NoError(t, client.Check("http://127.0.0.1/"), "a mapped prefix is the IPv4 prefix")
	require.Error(t, client.Check("http://10.0.0.1/"))
}

func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		"http://example.com/", "http://[::ffff:127.0.0.1]:80/", "https://a:b@c/", "http://0x7f.1",
		"http://127。0。0。1/", "http://%31%32%37.0.0.1/", "http://[::1%25lo]/", "http:\\\\127.0.0.1",
	} {
		f.Add(seed)
	}
	client, err := fetch.New(fetch.Config{})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, url string) {
		if err := client.Check(url); err != nil {
			refusal := refusalOf(t, err)
			require.True(t, refusal.Local())
		}
	})
}
