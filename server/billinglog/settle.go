package billinglog

import (
	"log/slog"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/idempotency"
	"tollgate/engine/journal"
	"tollgate/engine/wire"
	"tollgate/server"
)

// Settler settles reservations: it looks up what a settlement has to bring along, in files of keys
// and in the journal.
type Settler struct {
	Machine *billing.Machine
	Events  journal.Source     // nil: what an expiry has billed cannot be amended
	Keys    idempotency.Finder // nil where no key ever leaves memory
	Log     *slog.Logger
	// NoJournal is the fault where the journal cannot be read.
	NoJournal *server.Fault
}

// Settlement is one that is asked for.
type Settlement struct {
	*billing.SettleReservation
	// Propose brings a command into the log.
	Propose func(kind engine.Kind, payload []byte) engine.Result
	// Read runs look on memory that holds every acknowledged write.
	Read func(look func() *server.Fault) *server.Fault
}

// settleTries bounds how often a settlement is proposed with what this node has to look up for it.
const settleTries = 3

// Settle proposes a settlement until what it brings along is what the log's order asks for.
func (s *Settler) Settle(x *server.Exchange, c Settlement) (r engine.Result, _ *server.Fault) {
	if c.EventKey != "" {
		c.Key = billing.UsageKey(c.Env, []byte(c.EventKey))
	} else {
		c.Own = billing.FirstEventKey(c.Env, c.ID)
	}
	for range settleTries {
		if fault := s.probeKey(x, c); fault != nil {
			return r, fault
		}
		r = c.Propose(billing.KindSettleReservation, wire.Encode(nil, c.SettleReservation))
		switch r.Outcome {
		case engine.OutcomeKeyUnproven:
			continue
		case engine.OutcomeReservationBilled:
			if fault := s.billedAs(x, c); fault != nil {
				return r, fault
			}
			continue
		}
		break
	}
	return s.withRecorded(c, r), nil
}

// withRecorded adds to the answer of a settlement the event that was recorded under its key before,
// as it counts now. Where that cannot be read, or is not found, the answer stands without it: what
// was to be done is done.
func (s *Settler) withRecorded(c Settlement, r engine.Result) engine.Result {
	var v billing.ReservationView
	if r.Outcome != engine.OutcomeDone || c.EventKey == "" || s.Events == nil ||
		wire.Decode(r.Value, &v) != nil || !v.Recorded {
		return r
	}
	found := false
	fault := c.Read(func() *server.Fault {
		key := billing.UsageKey(c.Env, []byte(v.Event))
		ref, counted, _, err := s.Machine.FindCounted(s.Events, s.Keys, c.Env, &key)
		if found = counted && err == nil; found {
			v.RecordedEvent = s.Machine.RecordedEvent(c.Env, &ref)
		}
		return nil
	})
	if fault != nil || !found {
		return r
	}
	r.Value = wire.Encode(nil, &v)
	return r
}

// probeKey looks for the settlement's event key among those that have left memory.
func (s *Settler) probeKey(x *server.Exchange, c Settlement) *server.Fault {
	if c.EventKey == "" || s.Keys == nil || s.Machine.KeySpan().OnDisk() == 0 {
		return nil
	}
	v, err := s.Keys.FindKey(c.Key)
	if err != nil {
		s.Log.Error("an idempotency key cannot be looked up", "error", err,
			"request_id", string(x.RequestID()))
		return server.FaultOf(engine.OutcomeKeyUnproven)
	}
	c.Through, c.Found, c.Number = v.Through, v.Found, v.Number
	return nil
}

// billedAs finds the events by which an expired reservation was billed, for a settlement that
// amends them.
func (s *Settler) billedAs(x *server.Exchange, c Settlement) *server.Fault {
	if s.Events == nil {
		return s.NoJournal
	}
	return c.Read(func() *server.Fault {
		c.Originals = nil
		for _, key := range s.Machine.ReservationEventKeys(c.Env, c.ID) {
			original, found, err := s.Machine.FindUsage(s.Events, s.Keys, c.Env, key)
			if err != nil {
				s.Log.Error("a usage event cannot be looked up", "error", err,
					"request_id", string(x.RequestID()))
				return s.NoJournal
			}
			if found {
				c.Originals = append(c.Originals, original)
			}
		}
		return nil
	})
}
