package client

import (
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
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

// settleTries bounds how often a settlement is proposed with what this node has to look up for it.
const settleTries = 3

// settleReservation is POST /reservations/{reservationId}/settle.
func (a *API) settleReservation(x *server.Exchange, id [16]byte) *server.Fault {
	p := principal(x)
	c := &billing.SettleReservation{Env: p.Env, ID: id, KeyBudget: p.Budget, Bindings: p.Bindings}
	if fault := form.Read(x.Body, c, readSettlement); fault != nil {
		return fault
	}
	if c.EventKey != "" {
		c.Key = billing.UsageKey(c.Env, []byte(c.EventKey))
	}
	var r engine.Result
	for range settleTries {
		if fault := a.probeKey(x, c); fault != nil {
			return fault
		}
		r = a.propose(x, billing.KindSettleReservation, wire.Encode(nil, c))
		switch r.Outcome {
		case engine.OutcomeKeyUnproven:
			continue
		case engine.OutcomeReservationBilled:
			if fault := a.billedAs(x, c); fault != nil {
				return fault
			}
			continue
		}
		break
	}
	return a.answerReservation(x, 200, r)
}

// probeKey looks for the settlement's event key among those that have left memory.
func (a *API) probeKey(x *server.Exchange, c *billing.SettleReservation) *server.Fault {
	if c.EventKey == "" || a.keys == nil || a.machine.KeySpan().OnDisk() == 0 {
		return nil
	}
	v, err := a.keys.FindKey(c.Key)
	if err != nil {
		a.log.Error("an idempotency key cannot be looked up", "error", err,
			"request_id", string(x.RequestID()))
		return server.FaultOf(engine.OutcomeKeyUnproven)
	}
	c.Through, c.Found, c.Number = v.Through, v.Found, v.Number
	return nil
}

// billedAs finds the events by which an expired reservation was billed, for a settlement that
// amends them.
func (a *API) billedAs(x *server.Exchange, c *billing.SettleReservation) *server.Fault {
	if a.events == nil {
		return faultJournal
	}
	return a.read(x, func() *server.Fault {
		c.Originals = nil
		for _, key := range a.machine.ReservationEventKeys(c.Env, c.ID) {
			original, found, err := a.machine.FindUsage(a.events, a.keys, c.Env, key)
			if err != nil {
				a.log.Error("a usage event cannot be looked up", "error", err,
					"request_id", string(x.RequestID()))
				return faultJournal
			}
			if found {
				c.Originals = append(c.Originals, original)
			}
		}
		return nil
	})
}
