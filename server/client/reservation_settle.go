package client

import (
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/billinglog"
	"tollgate/server/form"
)

func readSettlement(f *form.Reader, c *billing.SettleReservation) {
	var r reservationSettlement
	final := true
	for f.Next() {
		switch string(f.Name) {
		case "items":
			r.Items = readItems(f, true, false)
		case "final":
			f.Bool(fieldFinal, &final)
		case "eventIdempotencyKey":
			f.Text(fieldEventKey, &r.EventKey, 1, maxKey)
		case "occurredAt":
			f.Instant(fieldEventTime, &r.OccurredAt)
		case "meta":
			f.Object(fieldReservationMeta, &r.Meta)
		default:
			if !r.field(f) {
				f.Unknown()
			}
		}
	}
	c.EventKey, c.OccurredAt, c.Meta = r.EventKey, r.OccurredAt, append([]byte(nil), r.Meta...)
	for _, i := range itemsOf(f, r.Items, &r.reservedItem, false, false) {
		c.Items = append(c.Items, billing.SettleItem(i))
	}
	c.Partial = !final
}

// settleReservation is POST /reservations/{reservationId}/settle.
func (a *API) settleReservation(x *server.Exchange, id [16]byte) *server.Fault {
	p := principal(x)
	c := &billing.SettleReservation{Env: p.Env, ID: id, KeyBudget: p.Budget, Bindings: p.Bindings}
	if fault := form.Read(x.Body, c, readSettlement); fault != nil {
		return fault
	}
	settler := billinglog.Settler{
		Machine: a.machine, Events: a.events, Keys: a.keys, Log: a.log, NoJournal: faultJournal,
	}
	return a.guarded(x, 200, func(g *guard) (engine.Result, *server.Fault) {
		return settler.Settle(x, billinglog.Settlement{
			SettleReservation: c, Propose: g.propose,
			Read: func(look func() *server.Fault) *server.Fault { return a.read(x, look) },
		})
	})
}
