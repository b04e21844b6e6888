package daemon

import (
	"tollgate/server/payments"
)

// paymentService makes what collects invoices.
func (n *node) paymentService() (*payments.Service, error) {
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
