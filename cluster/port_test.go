package cluster

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tollgate/engine"
	"tollgate/engine/workspace"
)

// authority makes certificates for a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "cluster"}, IsCA: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &authority{cert, key, pool}
}

// config is the TLS configuration of a node whose certificate this authority signed.
func (a *authority) config(t *testing.T) *tls.Config {
	return a.configOf(t, func(*x509.Certificate) {})
}

// configOf is config with another certificate.
func (a *authority) configOf(t *testing.T, change func(*x509.Certificate)) *tls.Config {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "node"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	change(template)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	require.NoError(t, err)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		RootCAs:      a.pool, ClientCAs: a.pool,
	}
}

// anyGreeter speaks with everybody, and expects one node wherever it dials.
type anyGreeter struct{ wanted string }

func (d anyGreeter) introduce(string) greeting    { return greeting{Node: "x", WantNode: d.wanted} }
func (anyGreeter) answer(byte, greeting) greeting { return greeting{Node: "y"} }
func (anyGreeter) meet(string, greeting) error    { return nil }

// dialWait is enough for a handshake on a machine that is busy with other things.
const dialWait = 30 * time.Second

func openTestPort(t *testing.T, secure *tls.Config) *port {
	p, err := openPort(&Config{Network: tcp{}, Listen: "127.0.0.1:0", TLS: secure, Log: testLog()},
		anyGreeter{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func TestPortTellsStreamsApart(t *testing.T) {
	for _, secure := range []*tls.Config{nil, newAuthority(t).config(t)} {
		p, q := openTestPort(t, secure), openTestPort(t, secure)
		for _, stream := range []byte{streamRaftBilling, streamRaftWorkspace, streamLink} {
			conn, err := q.dial(p.Addr().String(), stream, dialWait)
			require.NoError(t, err)
			there, err := p.layer(stream, "").Accept()
			require.NoError(t, err)
			_, err = conn.Write([]byte("hello"))
			require.NoError(t, err)
			got := make([]byte, 5)
			_, err = there.Read(got)
			require.NoError(t, err)
			require.Equal(t, "hello", string(got))
			require.Equal(t, secure != nil, isTLS(there))
		}
	}
}

func isTLS(c net.Conn) bool {
	_, ok := c.(*portConn).Conn.(*tls.Conn)
	return ok
}

// A detour is another way to a member, not to another member: the certificate is still asked for by
// the member's own host.
func TestPortDialsByADetour(t *testing.T) {
	secure := newAuthority(t).config(t)
	p := openTestPort(t, secure)
	_, number, err := net.SplitHostPort(p.Addr().String())
	require.NoError(t, err)
	byDetour := func(member string) (net.Conn, error) {
		q, err := openPort(&Config{
			Network: tcp{}, Listen: "127.0.0.1:0", TLS: secure, Log: testLog(),
			Dial: map[string]string{"b": "localhost:" + number},
		}, anyGreeter{"b"})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, q.Close()) })
		return q.dial(member, streamLink, dialWait)
	}
	conn, err := byDetour("127.0.0.1:1")
	require.NoError(t, err)
	_, err = conn.Write([]byte("hello"))
	require.NoError(t, err)
	there, err := p.layer(streamLink, "").Accept()
	require.NoError(t, err)
	got := make([]byte, 5)
	_, err = there.Read(got)
	require.NoError(t, err)
	require.Equal(t, "hello", string(got))

	_, err = byDetour("node-b.example:1")
	require.ErrorContains(t, err, "handshake with node-b.example:1")
}

// expiredNode, elsewhere and serverOnly make certificates that are not a node's of this cluster,
// here and now.
func expiredNode(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
func elsewhere(c *x509.Certificate)   { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 2)} }
func serverOnly(c *x509.Certificate) {
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
}

// TestStrangersGetNothing: whoever has no certificate of the cluster that is good now is not let
// through to any stream, and reads not one byte that a node wrote.
func TestStrangersGetNothing(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	p := openTestPort(t, ours.config(t))
	let := make(chan byte, 16)
	for _, stream := range []byte{streamRaftBilling, streamRaftWorkspace, streamLink} {
		layer := p.layer(stream, "")
		go func() {
			for {
				conn, err := layer.Accept()
				if err != nil {
					return
				}
				if _, err = conn.Write([]byte("state")); err == nil {
					let <- stream
				}
			}
		}()
	}
	believer := theirs.config(t) // takes our node for one of its own, and shows what it has
	believer.RootCAs = ours.pool
	for name, stranger := range map[string]*tls.Config{
		"in the clear":                 nil,
		"no certificate":               {RootCAs: ours.pool},
		"a certificate of another CA":  believer,
		"an expired certificate":       ours.configOf(t, expiredNode),
		"a certificate for other uses": ours.configOf(t, serverOnly),
	} {
		for _, stream := range []byte{streamRaftBilling, streamRaftWorkspace, streamLink} {
			raw, err := net.Dial("tcp", p.Addr().String())
			require.NoError(t, err)
			require.NoError(t, raw.SetDeadline(time.Now().Add(dialWait)))
			conn := raw
			if stranger != nil {
				stranger.ServerName, stranger.MinVersion = "127.0.0.1", tls.VersionTLS13
				conn = tls.Client(raw, stranger)
			}
			_, err = conn.Write(append([]byte{stream}, "this is not a handshake"...))
			var got []byte
			if err == nil { // in TLS 1.3 a client learns that it is refused as it reads
				got, err = io.ReadAll(conn)
			}
			require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "%s was let in", name)
			require.NotContains(t, string(got), "state", name)
			require.NoError(t, raw.Close())
		}
	}
	require.Empty(t, let)
	conn, err := openTestPort(t, ours.config(t)).dial(p.Addr().String(), streamLink, dialWait)
	require.NoError(t, err)
	_, err = io.ReadFull(conn, make([]byte, 5))
	require.NoError(t, err)
	require.Equal(t, streamLink, <-let, "a node of the cluster gets it")
}

// TestNodesSpeakToNoStranger: a node that dials takes only a node of its cluster for the one that
// it looks for, and sends the others nothing.
func TestNodesSpeakToNoStranger(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	for name, there := range map[string]*tls.Config{
		"in the clear":                  nil,
		"a certificate of another CA":   theirs.config(t),
		"an expired certificate":        ours.configOf(t, expiredNode),
		"a certificate of another host": ours.configOf(t, elsewhere),
	} {
		if there != nil {
			there.ClientCAs = ours.pool
		}
		stranger := openTestPort(t, there)
		_, err := openTestPort(t, ours.config(t)).
			dial(stranger.Addr().String(), streamLink, dialWait)
		require.ErrorContains(t, err, "handshake with", name)
	}
}

// TestUnknownStreamsAreClosed: a first byte that says nothing ends the connection.
func TestUnknownStreamsAreClosed(t *testing.T) {
	open := openTestPort(t, nil)
	conn, err := net.Dial("tcp", open.Addr().String())
	require.NoError(t, err)
	_, err = conn.Write([]byte{99})
	require.NoError(t, err)
	require.NoError(t, conn.SetDeadline(time.Now().Add(dialWait)))
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, conn.Close())
}

func TestMessagesAreBounded(t *testing.T) {
	var b bytes.Buffer
	w := bufio.NewWriter(&b)
	require.NoError(t, writeMessage(w, message{callFrame, 1, 77, []byte("payload")}))
	require.NoError(t, w.Flush())
	data := b.Bytes()
	m, err := readMessage(bytes.NewReader(data), 7)
	require.NoError(t, err)
	require.Equal(t, message{callFrame, 1, 77, []byte("payload")}, m)
	_, err = readMessage(bytes.NewReader(data), 6)
	require.ErrorIs(t, err, errMessage)
	_, err = readMessage(bytes.NewReader([]byte{3, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}), 100)
	require.ErrorIs(t, err, errMessage)
	for cut := range len(data) {
		_, err = readMessage(bytes.NewReader(data[:cut]), 100)
		require.Error(t, err)
	}
}

// listening is TCP with a listener that is there before its node: nobody else gets its port.
type listening struct {
	tcp
	listener net.Listener
}

func (l listening) Listen(string) (net.Listener, error) { return l.listener, nil }

// realNodes is three nodes on TCP.
func realNodes(t testing.TB, tune func(*Config)) []*Node {
	var list []Member
	var networks []listening
	for i := range 3 {
		l, err := tcp{}.Listen("127.0.0.1:0")
		require.NoError(t, err)
		networks = append(networks, listening{listener: l})
		list = append(list, Member{ID: fmt.Sprint("n", i), Raft: l.Addr().String()})
	}
	var nodes []*Node
	for i, m := range list {
		c := Config{
			NodeID: m.ID, Members: list, Network: networks[i],
			Dir: t.TempDir(), Log: testLog().With("node", m.ID),
			Billing:   Shard{Machine: newLedger(ShardBilling)},
			Workspace: Shard{Machine: workspace.New(workspace.Config{Shard: ShardWorkspace})},
			Limits:    Limits{DiskLowBytes: 1},
			Fatal:     func(err error) { t.Error(err) },
		}
		tune(&c)
		n, err := Open(c)
		require.NoError(t, err)
		nodes = append(nodes, n)
	}
	return nodes
}

// leading waits until one node leads and the others know it.
func leading(t testing.TB, nodes []*Node) *Node {
	var leader *Node
	require.Eventually(t, func() bool {
		known := 0
		for _, n := range nodes {
			r := n.Billing().route.Load()
			if r.ready {
				leader = n
			}
			if r.leader != "" {
				known++
			}
		}
		return leader != nil && known == len(nodes)
	}, 30*time.Second, 5*time.Millisecond)
	return leader
}

func TestRealNodesOverTLSLeaveNothingBehind(t *testing.T) {
	before := goleak.IgnoreCurrent()
	secure := newAuthority(t).config(t)
	nodes := realNodes(t, func(c *Config) { c.TLS = secure })
	leading(t, nodes)
	for i, n := range nodes {
		results := make([]engine.Result, 1)
		n.Billing().Propose(time.Now().Add(dialWait), records(uint64(i)), results)
		require.Equal(t, engine.OutcomeDone, results[0].Outcome)
		_, o := n.Billing().BeginRead(time.Now().Add(dialWait))
		require.Equal(t, engine.OutcomeDone, o)
		require.True(t, n.Billing().Machine().(*ledger).has(uint64(i)))
	}
	for _, n := range nodes {
		start := time.Now()
		require.NoError(t, n.Close())
		require.NoError(t, n.Close(), "again")
		require.Less(t, time.Since(start), dialWait)
	}
	// Raft leaves a barrier unanswered that it took in while it shut down.
	goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("tollgate/cluster.(*router).barrier.func1"))
}

func TestConfigIsChecked(t *testing.T) {
	good := func() Config {
		return Config{
			NodeID: "a", Members: members(), Dir: t.TempDir(),
			Billing: Shard{Machine: newLedger(0)}, Workspace: Shard{Machine: newLedger(1)},
		}
	}
	_, err := good().withDefaults()
	require.NoError(t, err)
	for name, spoil := range map[string]func(*Config){
		"no id":            func(c *Config) { c.NodeID = "" },
		"not a member":     func(c *Config) { c.NodeID = "z" },
		"no folder":        func(c *Config) { c.Dir = "" },
		"no machine":       func(c *Config) { c.Workspace.Machine = nil },
		"double member":    func(c *Config) { c.Members = append(c.Members, c.Members[0]) },
		"tiny queue":       func(c *Config) { c.QueueBytes = 1 },
		"detour to nobody": func(c *Config) { c.Dial = map[string]string{"": "h:1"} },
		"detour to itself": func(c *Config) { c.Dial = map[string]string{"a": "h:1"} },
		"unverified peers": func(c *Config) { c.TLS = &tls.Config{} },
	} {
		c := good()
		spoil(&c)
		_, err := c.withDefaults()
		require.ErrorIs(t, err, ErrConfig, name)
	}
}
