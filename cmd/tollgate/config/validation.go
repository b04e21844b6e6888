package config

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// complainer notes what is wrong with a setting.
type complainer func(format string, args ...any)

// when complains where something is so.
func (complain complainer) when(is bool, format string, args ...any) {
	if is {
		complain(format, args...)
	}
}

// within complains about a number that is not from low to high.
func (complain complainer) within(setting string, n, low, high int) {
	complain.when(n < low || n > high, "%s: %d: want %d to %d", setting, n, low, high)
}

// oneOf complains about a text that is none of the words.
func (complain complainer) oneOf(setting, text string, words ...string) {
	if last := len(words) - 1; !slices.Contains(words, text) {
		complain("%s: %q: want %s or %s", setting, text, strings.Join(words[:last], ", "), words[last])
	}
}

// networks complains about texts that are not networks.
func (complain complainer) networks(setting string, texts []string) {
	if _, err := ParseNetworks(texts); err != nil {
		complain("%s: %w, such as 10.0.0.0/8", setting, err)
	}
}

// validateListeners checks the settings of what clients connect to.
func (c *Config) validateListeners(complain complainer) {
	for name, files := range map[string]Certificate{"httpTLS": c.HTTPTLS, "opsTLS": c.OpsTLS} {
		complain.when((files.Certificate == "") != (files.Key == ""),
			"%s: want certificate and key, or neither", name)
	}
	const high = 1_000_000
	n := c.Connections
	complain.when(n.Total < 1 || n.Total > high || n.PerAddress < 1 || n.PerAddress > n.Total,
		"connections: want total from 1 to %d, and perAddress from 1 to total", high)
	complain.when(n.Requests < 1 || n.Requests > high || n.BodiesMiB < 8 || n.BodiesMiB > high,
		"connections: want requests from 1 to %d, and bodiesMiB from 8 (the largest body) to %d", high,
		high)
}

// validateOutside checks the settings of what is outside of the cluster.
func (c *Config) validateOutside(complain complainer) {
	if u, err := url.Parse(c.PublicURL); c.PublicURL != "" &&
		(err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "") {
		complain("publicURL: want http(s)://host, without a path")
	}
	if key, err := hex.DecodeString(c.SecretsKey); err != nil || len(key) != 0 && len(key) != 32 {
		complain("secretsKey: want 64 hex digits")
	}
	complain.networks("outbound.allowNetworks", c.Outbound.AllowNetworks)
	complain.networks("proxies", c.Proxies)
	if c.RateLimit.Requests < 0 || c.RateLimit.Requests > 1_000_000_000 ||
		c.RateLimit.Window < time.Second || c.RateLimit.Window > time.Hour {
		complain("rateLimit: 0 to 1000000000 requests in a window of 1s to 1h")
	}
	complain.when(c.RateLimit.Items < 0 || c.RateLimit.Bytes < 0,
		"rateLimit.items, rateLimit.bytes: want 0 or more")
}

// Validate says everything that is wrong with the settings, one line each.
func (c *Config) Validate() error {
	var wrong []error
	complain := complainer(func(format string, args ...any) {
		wrong = append(wrong, fmt.Errorf(format, args...))
	})
	c.validateOutside(complain)
	c.validateListeners(complain)
	c.Workspaces.validate(complain)
	c.validateLease(complain)
	c.validateSignIn(complain)
	c.Mail.validate(c.Ops, complain)
	c.Backups.validate(complain)
	c.Tracing.validate(complain)
	complain.when(!nodeName.MatchString(c.Node), "node: %q: want 1 to 32 of a-z, 0-9 and '-'", c.Node)
	complain.when(c.Data == "", "data: want a folder")
	for name, address := range map[string]string{"http": c.HTTP, "ops": c.Ops, "raft": c.Raft} {
		if err := validAddress(address); err != nil {
			complain("%s: %w", name, err)
		}
	}
	c.validateMembers(complain)
	if id, err := hex.DecodeString(c.Cluster); err != nil || len(id) != 0 && len(id) != 16 {
		complain("cluster: want 32 hex digits, as tollgate restore prints them")
	}
	c.validateTLS(complain)
	if hash, err := hex.DecodeString(c.AdminKeyHash); err != nil || len(hash) != 32 {
		complain("adminKeyHash: want SHA-256 of the admin key, 64 hex digits " +
			"(printf %%s \"$KEY\" | sha256sum)")
	}
	complain.oneOf("audit", c.Audit, "async", "committed")
	c.validateLimits(complain)
	for i, skip := range c.Skip {
		complain.when((skip.Group != "billing" && skip.Group != "workspace") || skip.Index == 0,
			"skip[%d]: want group billing or workspace, and an index", i)
	}
	return errors.Join(wrong...)
}

// ParseNetworks reads networks such as 10.0.0.0/8; the error names the one that is none.
func ParseNetworks(texts []string) (networks []netip.Prefix, err error) {
	for _, text := range texts {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%q is not a network", text)
		}
		networks = append(networks, network)
	}
	return networks, nil
}

// validateTLS lets nodes talk in plaintext within one machine only: without TLS, everyone who
// reaches the port of a node can write into its log.
func (c *Config) validateTLS(complain complainer) {
	if c.TLS == (TLS{}) {
		if address := c.elsewhere(); address != "" {
			complain("tls: %s is reached from other machines: nodes need certificates there "+
				"(tollgate certs makes them)", address)
		}
		return
	}
	complain.when(c.TLS.Authority == "" || c.TLS.Certificate == "" || c.TLS.Key == "",
		"tls: want authority, certificate and key, or none of them")
}

// elsewhere is the first address of a node that other machines reach; empty where all nodes are on
// this one.
func (c *Config) elsewhere() string {
	addresses := []string{c.Raft}
	for _, m := range c.Members {
		addresses = append(addresses, m.Raft)
	}
	if at := slices.IndexFunc(addresses, func(a string) bool { return !OnThisMachine(a) }); at >= 0 {
		return addresses[at]
	}
	return ""
}

// validateLease keeps a run's agent from being there yet when its lease is over: the worker counts
// the lease by its own clock, and the log by another's, which may be 10 s ahead. A quarter of the
// lease is for that and for the agent's end.
func (c *Config) validateLease(complain complainer) {
	const minLease, minHere, maxLease = time.Minute, 2 * time.Second, 10 * time.Minute
	lease := c.Workspaces.Lease
	complain.when(lease < minHere || lease > maxLease || lease < minLease && c.elsewhere() != "",
		"workspaces.lease: %s: want %s to %s, or %s and more where all nodes are on one machine", lease,
		minLease, maxLease, minHere)
}

// OnThisMachine reports whether an address with a port is reached from this machine only.
func OnThisMachine(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err != nil || Loopback(host) // the first is complained about elsewhere
}

func (c *Config) validateLimits(complain complainer) {
	const minKept, maxKeys, maxAudit = time.Hour, 90 * 24 * time.Hour, 3660 * 24 * time.Hour
	l := &c.Limits
	complain.when(l.KeyRetention < minKept || l.KeyRetention > maxKeys,
		"limits.keyRetention: %s: want 1h to 2160h", l.KeyRetention)
	complain.when(l.EventWindow < minKept || l.EventWindow > l.KeyRetention,
		"limits.eventWindow: %s: want 1h to limits.keyRetention", l.EventWindow)
	complain.when(l.AuditRetention < minKept || l.AuditRetention > maxAudit,
		"limits.auditRetention: %s: want 1h to 87840h", l.AuditRetention)
	for name, v := range map[string]int{
		"customers": l.CustomersPerAccount, "keys": l.KeysPerAccount,
		"catalog": l.CatalogPerAccount, "webhooks": l.WebhooksPerAccount,
	} {
		complain.when(v < 1, "limits.%sPerAccount: %d: want 1 or more", name, v)
	}
	complain.within("limits.reservationsPerCustomer", l.ReservationsPerCustomer, 1, 100_000)
	complain.within("limits.reservationsPerEnvironment", l.ReservationsPerEnvironment, 1, 4_000_000)
	complain.when(l.MaxReservation < time.Second || l.MaxReservation > 7*24*time.Hour,
		"limits.longestReservation: %s: want 1s to 168h", l.MaxReservation)
	for name, weight := range c.Weights {
		complain.within("weights."+name, weight, 1, 1000)
	}
	complain.within("limits.reservationMemoryMiB", l.ReservationMemory, 0, 128<<10)
	complain.when(l.KeyMemory < 0 || c.Memory < 0 || c.DiskReserve < 0,
		"limits.keyMemoryMiB, memoryMiB, diskReserveMiB: want 0 or more")
	complain.when(c.Snapshots.LogMiB < 1 || c.Snapshots.TrailingMiB < 1,
		"snapshots.logMiB, snapshots.trailingMiB: want 1 or more")
	complain.when(c.StopTimeout < time.Second || c.StopTimeout > 10*time.Minute,
		"stopTimeout: %s: want 1s to 10m", c.StopTimeout)
	complain.when(c.Drain < 0 || c.Drain > c.StopTimeout/2,
		"drain: %s: want 0s to half of stopTimeout", c.Drain)
	complain.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	complain.oneOf("log.format", c.Log.Format, "text", "json")
}

func (c *Config) validateMembers(complain complainer) {
	ids, rafts := map[string]bool{}, map[string]bool{}
	for i, m := range c.Members {
		complain.when(!nodeName.MatchString(m.ID) || ids[m.ID],
			"members[%d].id: %q: want a node's name, each once", i, m.ID)
		if err := validAddress(m.Raft); err != nil || rafts[m.Raft] {
			complain("members[%d].raft: %q: want host:port, each once", i, m.Raft)
		}
		ids[m.ID], rafts[m.Raft] = true, true
	}
	for id, address := range c.Dial {
		if err := validAddress(address); err != nil || !nodeName.MatchString(id) || id == c.Node {
			complain("dial.%s: %q: want another node's name, and host:port", id, address)
		}
	}
	complain.when(c.Backups.Node != "" && !ids[c.Backups.Node], "backups.node: %q is not a member",
		c.Backups.Node)
	complain.when(len(c.Members) > 0 && !ids[c.Node], "members: %q, this node, is not among them",
		c.Node)
	complain.when(len(c.Members) > 9, "members: %d: want 9 at most", len(c.Members))
}

func validAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%q: want host:port", address)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("%q: want a port from 1 to 65535", address)
	}
	return nil
}
