package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"tollgate/server/payments"
	"tollgate/server/provider/fetch"
)

// paymentDesk makes what collects invoices.
func (n *node) paymentDesk() (*payments.Desk, error) {
	outbound := fetch.Config{AllowHosts: n.settings.Outbound.AllowHosts}
	for _, text := range n.settings.Outbound.AllowNetworks {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("outbound.allowNetworks: %w", err)
		}
		outbound.AllowPrivate = append(outbound.AllowPrivate, network)
	}
	guarded, err := fetch.New(outbound)
	if err != nil {
		return nil, fmt.Errorf("outbound: %w", err)
	}
	group := n.cluster.Billing()
	c := payments.Config{
		Machine: n.machine, Proposer: group, Reader: group, Fetch: guarded,
		PublicURL: strings.TrimSuffix(n.settings.PublicURL, "/"), Log: n.log,
	}
	if c.PublicURL == "" {
		c.PublicURL = "http://" + n.settings.HTTP
	}
	key := n.settings.SecretsKey
	if key == "" {
		key = n.settings.AdminKeyHash
	}
	raw, err := hex.DecodeString(key)
	if err != nil {
		return nil, fmt.Errorf("secretsKey: %w", err)
	}
	copy(c.SealKey[:], raw)
	return payments.New(c)
}

// reconcilePayments polls, while this node leads, what became of checkouts that no webhook closed.
func (n *node) reconcilePayments() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-n.closing
		cancel()
	}()
	tick := time.NewTicker(payments.ReconcileEvery)
	defer tick.Stop()
	for {
		select {
		case <-n.closing:
			return
		case <-tick.C:
		}
		if _, leads := n.cluster.Billing().Leads(); leads {
			n.payments.Reconcile(ctx)
		}
	}
}
