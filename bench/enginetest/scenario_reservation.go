package enginetest

import (
	"fmt"
	"strings"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// reservationLines are the commands about reservations, which are called as their keys.
type reservationLines struct{ *scenario }

// features are the arguments FEATURE=UNITS of a line: all but those of other names.
func (l *line) features(others ...string) (keys []string, units []decimal.Decimal) {
	for _, a := range l.d.CmdArgs {
		if len(a.Vals) != 1 || strings.Contains(" "+strings.Join(others, " ")+" ", " "+a.Key+" ") {
			continue
		}
		n, err := decimal.Parse(a.Vals[0])
		l.must(err)
		l.used++
		keys, units = append(keys, a.Key), append(units, n)
	}
	return keys, units
}

// reserve holds units: reserve KEY CUSTOMER FEATURE=UNITS… [budget=] [ttl=] [partial] [refuse]
// [bill] [dry]. refuse refuses what goes beyond it, bill makes usage of it when it expires.
func (s reservationLines) reserve(l *line) string {
	env, key := s.environment(l), l.word(0)
	c := &billing.Reserve{
		Env: env, ID: ID("reservation " + key), KeyText: key,
		Key: billing.ReservationKey(env, []byte(key)), Customer: l.word(1),
		TTLMS: l.duration(l.value("ttl", "10m")), Partial: l.has("partial"),
		RefuseOverrun: l.has("refuse"), SettleOnExpiry: l.has("bill"), DryRun: l.has("dry"),
		Budget: l.value("budget", ""),
	}
	features, units := l.features("ttl", "env", "budget")
	for i := range features {
		c.Items = append(c.Items, billing.ReserveItem{FeatureKey: features[i], Units: units[i]})
	}
	return s.reserved(l, s.log.Do(billing.KindReserve, c))
}

// settle settles a reservation: settle-hold KEY [FEATURE=]UNITS… [part] [event=KEY] [at=].
func (s reservationLines) settle(l *line) string {
	env, key := s.environment(l), l.word(0)
	now := s.m.EnvironmentNow(env, s.log.Stamp)
	c := &billing.SettleReservation{
		Env: env, ID: ID("reservation " + key), Partial: l.has("part"), EventKey: l.value("event", ""),
		OccurredAt: l.instantOr("at", now, 0),
	}
	c.Key, c.Own = billing.UsageKey(env, []byte(c.EventKey)), billing.FirstEventKey(env, c.ID)
	features, units := l.features("event", "at", "env")
	for i := range features {
		c.Items = append(c.Items, billing.SettleItem{FeatureKey: features[i], Units: units[i]})
	}
	r := s.log.Do(billing.KindSettleReservation, c)
	if r.Outcome == engine.OutcomeReservationBilled {
		s.outcome(r)
		for _, key := range s.m.ReservationEventKeys(env, c.ID) {
			ref, _, err := s.m.FindUsage(s.src, nil, env, key)
			l.must(err)
			c.Originals = append(c.Originals, ref)
		}
		r = s.log.Do(billing.KindSettleReservation, c)
	}
	return s.reserved(l, r)
}

// extend makes a reservation hold more, or longer: extend KEY [units=] [ttl=].
func (s reservationLines) extend(l *line) string {
	c := &billing.ExtendReservation{
		Env: s.environment(l), ID: ID("reservation " + l.word(0)), TTLMS: l.span("ttl"),
	}
	c.Units, _ = l.optional("units")
	return s.reserved(l, s.log.Do(billing.KindExtendReservation, c))
}

func (s reservationLines) release(l *line) string {
	return s.reserved(l, s.log.Do(billing.KindReleaseReservation, &billing.ReleaseReservation{
		Env: s.environment(l), ID: ID("reservation " + l.word(0)),
	}))
}

// reserved prints the outcome of a command about a reservation, and what it replies with.
func (s reservationLines) reserved(l *line, r engine.Result) string {
	answer := s.outcome(r)
	switch {
	case r.Value == nil || strings.HasPrefix(r.Outcome.String(), "budget_"): // which says why
		return answer
	case r.Outcome == engine.OutcomeDone:
		var v billing.ReservationView
		l.decode(r.Value, &v)
		return answer + "\n" + reservationText(&v)
	}
	var lack billing.Shortage
	if l.must(wire.Decode(r.Value, &lack)); lack.State != "" {
		return answer + ": " + lack.State
	}
	if lack.Reason != 0 {
		return fmt.Sprintf("%s: %s %s", answer, lack.FeatureKey, lack.Reason)
	}
	return fmt.Sprintf("%s: %s %s asked=%s used=%s held=%s limit=%s", answer, lack.Level,
		lack.FeatureKey, lack.Asked, lack.Used, lack.Held, lack.Limit)
}

// reservationText is one line about a reservation, and one for each of its items.
func reservationText(v *billing.ReservationView) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s until %s", v.Key, v.State, show(v.ExpiresAt))
	b.WriteString(when(v.Budget != "", " budget=%s", v.Budget))
	b.WriteString(when(v.DryRun, " dry") + when(v.Late, " late") +
		when(v.Recorded, " recorded before"))
	b.WriteString(when(v.LimitBudget != "", " limit=%s,%s,%s remaining=%s of %s%s", v.LimitBudget,
		v.LimitOf, v.LimitWindow, v.LimitLeft, v.LimitMax, v.LimitCurrency))
	for i := range v.Items {
		item := &v.Items[i]
		fmt.Fprintf(&b, "\n  %s granted=%s settled=%s held=%s", item.FeatureKey, item.Granted,
			item.Settled, item.Held)
		b.WriteString(when(!item.Overrun.IsZero(), " overrun=%s", item.Overrun))
		b.WriteString(when(item.Rule != "", " rule=%s", item.Rule))
		b.WriteString(when(item.HasLimit, " remaining=%s", item.Remaining))
		b.WriteString(when(item.HasCredits, " credits=%s", item.CreditsLeft))
	}
	return b.String()
}

// holds lists a customer's reservations, newest first.
func (s reservationLines) holds(l *customerLine) {
	list, _, _ := s.m.Reservations(&billing.ReservationQuery{
		Env: l.env, Customer: l.customer.ExternalID, Limit: 100, Now: s.m.Clock(s.log.Stamp),
	})
	for i := range list {
		fmt.Fprintln(l, reservationText(&list[i]))
	}
}
