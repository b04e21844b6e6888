package client

import (
	"tollgate/engine/billing"
	"tollgate/server"
)

// writePools writes a customer's credit pools; an array also when there are none.
func writePools(data *server.JSON, pools []billing.PoolView) {
	data.Array("creditPools")
	for i := range pools {
		server.WritePool(data, &pools[i])
	}
	data.Close(']')
}
