package admin

import (
	"context"
	"io"
	"time"

	"github.com/valyala/fasthttp"

	"tollgate/server/audit"
	"tollgate/server/outbox"
	"tollgate/server/payments"
	"tollgate/server/vault"
)

// accounts are the rows about accounts, their keys and terms, origins and the record of changes.
type accounts struct {
	*base
	vault *vault.Vault // derives API keys that are made with an Idempotency-Key
	// operatorActs lists what operators did for owners of workspaces; see Config.Acts.
	operatorActs func(before uint32, limit, scan int, stale bool) (
		list []audit.Act, next uint32, ok bool)
}

// catalogs are the rows about catalogs: as applied, with their mistakes, and what one would change.
type catalogs struct{ *base }

// customers are the rows about customers and the events that fit none.
type customers struct{ *base }

// credits are the rows about credit pools, grants and their transactions.
type credits struct{ *base }

// invoices are the rows about invoices, and what the journal makes of them.
type invoices struct {
	*base
	metrics *Metrics
}

// providers are the rows about payment providers and payments.
type providers struct {
	*base
	payments *payments.Service // nil refuses settings
}

// hooks are the rows about webhook endpoints and deliveries.
type hooks struct {
	*base
	outbox *outbox.Outbox // nil makes no endpoint
}

// clocks are the rows about the clocks of sandboxes.
type clocks struct {
	*base
	settling time.Duration // see Config.SettleTimeout
}

// nodeTools are the rows about this node and its cluster: health, metrics, members, backups.
type nodeTools struct {
	*base
	state       Cluster
	metrics     fasthttp.RequestHandler
	vitals      func() any                                                         // nil answers 503
	writeBackup func(ctx context.Context, w io.Writer, stale bool, pace int) error // nil answers 503
}
