package main

import (
	"context"
	"time"

	"tollgate/server/payments"
)

// paymentDesk makes what collects invoices.
func (n *node) paymentDesk() (*payments.Desk, error) {
	web, err := n.outboundClient()
	if err != nil {
		return nil, err
	}
	group := n.cluster.Billing()
	c := payments.Config{
		Machine: n.machine, Proposer: group, Reader: group, Fetch: web,
		PublicURL: n.settings.BaseURL(), Log: n.log,
	}
	if c.SealKey, err = n.sealKey(); err != nil {
		return nil, err
	}
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
