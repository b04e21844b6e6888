package billingview

import (
	"cmp"

	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/server"
	"tollgate/server/form"
)

// FaultNoTopUp answers where a pool was never told to be topped up.
var FaultNoTopUp = server.NewFault(404, "top_up_not_found", "The pool is not topped up").
	With("Nothing buys credits for it.")

// TopUpRequest is the body of PUT /pools/{poolId}/top-up.
//
//schema:request client TopUpRequest check
type TopUpRequest struct {
	billing.SetTopUp
	CooldownSeconds uint32 `json:"cooldownSeconds" rule:"min=60,max=2678400,default=3600"`
}

// Judge completes the command and judges its amounts as the state machine does, which names no
// field. right reports whether a field was read and nothing is wrong with it, wrong takes what is.
func (r *TopUpRequest) Judge(
	right func(field string) bool, wrong func(field string, m form.Mistake),
) {
	r.CooldownMS = int64(r.CooldownSeconds) * 1000
	positive := func(name string, amount decimal.Decimal) bool {
		if right(name) && amount.Sign() <= 0 {
			wrong(name, form.NotPositive)
			return false
		}
		return right(name)
	}
	positive("below", r.Below)
	positive("amount", r.Amount)
	priced := positive("price", r.Price)
	capped := positive("monthlyCap", r.MonthlyCap)
	currency := cmp.Or(r.Currency, "USD")
	places, known := decimal.MinorUnits(currency)
	switch {
	case !known && right("currency"):
		wrong("currency", form.NotCurrency)
	case known && priced && r.Price != r.Price.Round(places):
		wrong("price", form.NotMinorUnits(currency))
	case priced && capped && r.MonthlyCap.Less(r.Price):
		wrong("monthlyCap", form.BelowPrice)
	}
}
