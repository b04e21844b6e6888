package daemon

import (
	"tollgate/server/admin"
	"tollgate/server/console/portal"
	"tollgate/server/link"
)

// openPortal makes the pages of customers, on the public listener.
func (n *node) openPortal(metrics *admin.Metrics, links *link.Signer) (err error) {
	n.portal, err = portal.New(portal.Config{
		Client: n.client.Table(), Machine: n.machine, Reader: n.cluster.Billing(), Links: links,
		Payments: n.payments,
		Origin:   n.settings.BaseURL(), Observe: metrics.Observer("portal"), Gate: n.gate,
		Now: n.cluster.Now, Log: n.log,
	})
	return err
}
