package daemon

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"

	"tollgate/cmd/tollgate/config"
	"tollgate/server/outbox"
	"tollgate/server/provider/fetch"
)

// outboundConfig is what the settings say of requests that leave the machine.
func (n *node) outboundConfig() (fetch.Config, error) {
	outbound := fetch.Config{AllowHosts: n.settings.Outbound.AllowHosts, Own: n.ownPairs}
	base, err := url.Parse(n.settings.BaseURL())
	if err != nil {
		return outbound, fmt.Errorf("publicURL: %w", err)
	}
	if host := base.Hostname(); !ownAddress(host) {
		outbound.OwnNames = []string{host}
	}
	allowed := n.settings.Outbound.AllowNetworks
	if outbound.AllowPrivate, err = config.ParseNetworks(allowed); err != nil {
		return outbound, fmt.Errorf("outbound.allowNetworks: %w", err)
	}
	return outbound, nil
}

// ownAddress reports whether a host is an address, or this machine, and no name that may lead
// elsewhere.
func ownAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil || host == "" || host == "localhost"
}

// ownPairs are the addresses on which the nodes of this cluster listen: no address that a stranger
// names leads there.
func (n *node) ownPairs() []string {
	s := &n.settings
	pairs := []string{s.HTTP, s.Ops, s.Raft}
	if base, err := url.Parse(s.BaseURL()); err == nil && ownAddress(base.Hostname()) {
		port := cmp.Or(base.Port(), map[string]string{"http": "80", "https": "443"}[base.Scheme])
		pairs = append(pairs, net.JoinHostPort(base.Hostname(), port))
	}
	for _, address := range s.Dial {
		pairs = append(pairs, address)
	}
	for _, m := range s.Members {
		pairs = append(pairs, m.Raft, m.HTTP, m.Ops)
	}
	if n.cluster != nil {
		for _, m := range n.cluster.Members() {
			pairs = append(pairs, m.Raft, m.HTTP, m.Ops)
		}
	}
	return pairs
}

// outboundClient makes a guarded client by which requests leave the machine. Each kind of traffic
// has its own: none uses a connection that another one has left open.
func (n *node) outboundClient() (*fetch.Client, error) {
	return n.clientFor("outbound", false, nil, nil)
}

// clientFor makes a guarded client that also reaches the hosts and private networks of one setting.
// They are for its requests alone: no address that a stranger names leads there.
func (n *node) clientFor(setting string, patient bool, hosts, networks []string,
) (*fetch.Client, error) {
	outbound, err := n.outboundConfig()
	if err != nil {
		return nil, err
	}
	private, err := config.ParseNetworks(networks)
	if err != nil {
		return nil, fmt.Errorf("%s.allowNetworks: %w", setting, err)
	}
	outbound.AllowPrivate = slices.Concat(outbound.AllowPrivate, private)
	outbound.AllowHosts = slices.Concat(outbound.AllowHosts, hosts)
	outbound.Patient = patient
	guarded, err := fetch.New(outbound)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	return guarded, nil
}

// sealKey is the key that secrets are sealed with before they enter the log.
func (n *node) sealKey() (key [32]byte, err error) {
	text := cmp.Or(n.settings.SecretsKey, n.settings.AdminKeyHash)
	raw, err := hex.DecodeString(text)
	if err != nil {
		return key, fmt.Errorf("secretsKey: %w", err)
	}
	copy(key[:], raw)
	return key, nil
}

// openOutbox makes what sends webhooks while this node leads.
func (n *node) openOutbox() (*outbox.Outbox, error) {
	key, err := n.sealKey()
	if err != nil {
		return nil, err
	}
	web, err := n.outboundClient()
	if err != nil {
		return nil, err
	}
	group := n.cluster.Billing()
	return outbox.New(outbox.Config{
		Machine: n.machine, Proposer: group, Fetch: web, SealKey: key, Log: n.log,
		Leads: group.Leads, Mail: n.tenants.mail,
	})
}
