package billingview

import "tollgate/server"

// FaultNoTopUp answers where a pool was never told to be topped up.
var FaultNoTopUp = server.NewFault(404, "top_up_not_found", "The pool is not topped up").
	With("Nothing buys credits for it.")
