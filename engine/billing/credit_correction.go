package billing

import (
	"tollgate/engine"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// drawsOf are the credits that an event has burnt as of its newest correction.
func (t *turn) drawsOf(k *correcting) (was burnt) {
	was = burnt{units: k.units, covered: k.original.Covered}
	data := string(k.original.Draws)
	if k.stored {
		was.covered = t.corrections.Read(k.row).covered
		data = t.correctionDraws.Read(k.row).data
	}
	var list drawList
	decodeText(data, &list)
	was.draws = list.Draws
	return was
}

// recredit decides what a correction does to the event's credits, before the correction changes
// anything.
func (k *correcting) recredit(t *turn, units decimal.Decimal) engine.Outcome {
	was := t.drawsOf(k)
	k.was, k.newly = was, was
	k.newly.units = units
	if k.ledger == nil {
		return engine.OutcomeDone
	}
	k.at = k.ledger.placeOf(k.spot, k.original.Feature)
	r, outcome := t.planCorrection(k.owner, k.at, was, units, k.now)
	if outcome.Refused() {
		return outcome
	}
	k.change, k.newly = r, r.now
	k.ledger.cover(k.spot, k.original.Feature, difference(r.now.covered, was.covered))
	return engine.OutcomeDone
}

// recredited carries out what recredit decided.
func (t *turn) recredited(k *correcting) {
	lock := t.stripe(k.owner)
	lock.Lock()
	t.correctCredits(k.at, &k.change, k.now)
	lock.Unlock()
}

// ownDraws reports whether encoded draws are well-formed, and of pools and grants of a customer.
func (t *turn) ownDraws(customer uint32, encoded []byte) bool {
	var list drawList
	if wire.Decode(encoded, &list) != nil {
		return false
	}
	for _, d := range list.Draws {
		if d.Pool == 0 || d.Pool > t.pools.Len() || d.Grant > t.grants.Len() ||
			t.pools.Read(d.Pool).customer != customer ||
			d.Grant != 0 && t.grants.Read(d.Grant).pool != d.Pool {
			return false
		}
	}
	return true
}
