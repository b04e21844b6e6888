package billing

import (
	"github.com/cespare/xxhash/v2"

	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// WithDraw is a reference that says that a grant has paid for the event: a forged one, well-formed.
func (r UsageRef) WithDraw(pool, grant uint32, amount decimal.Decimal) UsageRef {
	var u usageEntry
	if err := wire.Decode(r.Payload, &u); err != nil {
		panic(err)
	}
	u.Draws = wire.Encode(
		nil, &credits.DrawList{Draws: []credits.Draw{{Pool: pool, Grant: grant, Amount: amount}}},
	)
	u.Covered = decimal.FromInt(1)
	r.Payload = wire.Encode(nil, &u)
	r.Hash = xxhash.Sum64(r.Payload)
	return r
}
