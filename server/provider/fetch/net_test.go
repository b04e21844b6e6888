package fetch_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"

	"tollgate/server/provider/fetch"
)

// On Linux all of 127/8 is this machine. The tests configure 127.0.0.2 as reachable and nothing
// else, so that 127.0.0.1 is what a private address is to a server on the internet.
const (
	reachable = "127.0.0.2"
	private   = "127.0.0.1"
)

func refusalOf(t *testing.T, err error) *fetch.Refusal {
	t.Helper()
	var refusal *fetch.Refusal
	require.ErrorAs(t, err, &refusal)
	return refusal
}

// serve runs a real HTTP server on an address and returns its host:port.
func serve(t *testing.T, address string, handler http.HandlerFunc) string {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(handler)
	require.NoError(t, server.Listener.Close())
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	return listener.Addr().String()
}

// serveRaw answers every connection with what talk writes, which net/http would not send.
func serveRaw(t *testing.T, talk func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(reachable, "0"))
	require.NoError(t, err)
	var open sync.WaitGroup
	open.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() {
				defer conn.Close()
				buffer := make([]byte, 4096)
				if _, err := conn.Read(buffer); err == nil {
					talk(conn)
				}
			})
		}
	})
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		open.Wait()
	})
	return listener.Addr().String()
}

// newClient makes a client that may reach 127.0.0.2 on the given host:port pairs.
func newClient(t *testing.T, change func(*fetch.Config), hosts ...string) *fetch.Client {
	t.Helper()
	config := fetch.Config{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix(reachable + "/32")},
		AllowHosts:   hosts,
		Timeout:      5 * time.Second,
	}
	if change != nil {
		change(&config)
	}
	client, err := fetch.New(config)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func get(t *testing.T, client *fetch.Client, url string) (*fetch.Response, error) {
	t.Helper()
	return client.Do(t.Context(), &fetch.Request{URL: url})
}

// names is a real DNS server on loopback whose answers the test decides.
type names struct {
	mu sync.Mutex
	// answer returns the addresses of a name for its nth question of one type, from 0.
	answer func(name string, nth int) []string
	asked  map[string]int
}

// resolver starts the server and returns a resolver that asks only it.
func (n *names) resolver(t *testing.T) *net.Resolver {
	t.Helper()
	n.asked = map[string]int{}
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 1500)
		for {
			size, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			if reply := n.reply(buffer[:size]); reply != nil {
				if _, err := conn.WriteTo(reply, from); err != nil {
					return
				}
			}
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, conn.Close())
		<-done
	})
	return &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "udp", conn.LocalAddr().String())
		},
	}
}

func (n *names) reply(query []byte) []byte {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil || len(m.Questions) != 1 {
		return nil
	}
	m.Header.Response, m.Header.RecursionAvailable = true, true
	m.Additionals = nil
	question := m.Questions[0]
	n.mu.Lock()
	defer n.mu.Unlock()
	kind := question.Name.String() + question.Type.String()
	addresses := n.answer(question.Name.String(), n.asked[kind])
	n.asked[kind]++
	for _, text := range addresses {
		addr := netip.MustParseAddr(text)
		header := dnsmessage.ResourceHeader{
			Name: question.Name, Class: dnsmessage.ClassINET, Type: question.Type,
		}
		switch {
		case question.Type == dnsmessage.TypeA && addr.Is4():
			m.Answers = append(m.Answers,
				dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: addr.As4()}})
		case question.Type == dnsmessage.TypeAAAA && !addr.Is4():
			m.Answers = append(m.Answers,
				dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
		}
	}
	packed, err := m.Pack()
	if err != nil {
		return nil
	}
	return packed
}
