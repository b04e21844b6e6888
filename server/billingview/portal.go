package billingview

import "tollgate/server"

// FaultNoPortal answers where a node makes no links to the portal.
var FaultNoPortal = server.NewFault(503, "portal_unavailable", "This node has no customer portal").
	With("Nothing was made. Ask another node.").Retry(server.RetryOperator)
