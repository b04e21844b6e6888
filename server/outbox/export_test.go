package outbox

import (
	"context"

	"tollgate/engine/billing"
)

// Deliver makes one attempt at a delivery that fell due, however long ago.
func (o *Outbox) Deliver(ctx context.Context, d *billing.DueDelivery) { o.deliver(ctx, d) }
