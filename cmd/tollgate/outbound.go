package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/netip"

	"tollgate/server/outbox"
	"tollgate/server/provider/fetch"
)

// outboundClient makes the guarded client by which requests leave the machine.
func (n *node) outboundClient() (*fetch.Client, error) {
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
	return guarded, nil
}

// sealKey is the key that secrets are sealed with before they enter the log.
func (n *node) sealKey() (key [32]byte, err error) {
	text := n.settings.SecretsKey
	if text == "" {
		text = n.settings.AdminKeyHash
	}
	raw, err := hex.DecodeString(text)
	if err != nil {
		return key, fmt.Errorf("secretsKey: %w", err)
	}
	copy(key[:], raw)
	return key, nil
}

// openOutbox makes what sends webhooks while this node leads.
func (n *node) openOutbox(guarded *fetch.Client) (*outbox.Outbox, error) {
	key, err := n.sealKey()
	if err != nil {
		return nil, err
	}
	group := n.cluster.Billing()
	return outbox.New(outbox.Config{
		Machine: n.machine, Proposer: group, Fetch: guarded, SealKey: key, Log: n.log,
		Leads: func() bool {
			_, leads := group.Leads()
			return leads
		},
	})
}

// sendWebhooks runs the outbox until the node closes.
func (n *node) sendWebhooks() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n.watchers.Go(func() {
		<-n.closing
		cancel()
	})
	n.outbox.Run(ctx)
}
