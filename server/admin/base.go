package admin

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"log/slog"
	"time"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/idempotency"
	"tollgate/engine/journal"
	"tollgate/engine/rollup"
	"tollgate/engine/wire"
	"tollgate/server"
	"tollgate/server/billinglog"
)

// base is what the handlers of all subjects use: reads, commands, environments.
type base struct {
	machine  *billing.Machine
	proposer server.Proposer
	reader   server.Reader
	events   journal.Source     // lists usage events; nil where this node cannot
	keys     idempotency.Finder // nil where no key ever leaves memory
	counts   rollup.Source      // nil where this node keeps no journal
	now      func() time.Time
	log      *slog.Logger

	writeTimeout, readTimeout time.Duration
}

func newBase(c *Config) *base {
	return &base{
		machine: c.Machine, proposer: c.Proposer, reader: c.Reader, events: c.Events, keys: c.Keys,
		counts: c.Counts,
		now:    c.Now, log: c.Log,
		writeTimeout: c.WriteTimeout, readTimeout: c.ReadTimeout,
	}
}

// read runs an answer that is copied out of memory that holds every acknowledged write, or out of
// the node's own where another part of this process asks for that. answer may run more than once;
// it returns a fault, or has written the answer.
func (b *base) read(x *server.Exchange, answer func() *server.Fault) *server.Fault {
	if server.OwnMemory(x) {
		return answer()
	}
	fault, ok := server.ReadFresh(b.reader, time.Now().Add(b.readTimeout), answer)
	if !ok {
		return server.FaultConsistency.With("Nothing was changed. Repeat the request.")
	}
	return fault
}

// nowMS is the cluster's clock, in milliseconds since 1970 UTC.
func (b *base) nowMS() int64 { return b.now().UnixMilli() }

// done proposes a command, and returns what keeps it from being carried out.
func (b *base) done(x *server.Exchange, kind engine.Kind, c wire.Fielder) *server.Fault {
	result := b.propose(x, kind, wire.Encode(nil, c))
	if result.Outcome != engine.OutcomeDone {
		return server.FaultOf(result.Outcome)
	}
	return nil
}

// propose brings one command of a request into the log.
func (b *base) propose(x *server.Exchange, kind engine.Kind, payload []byte) engine.Result {
	records := [1]engine.Record{b.machine.Repeatable(kind, payload, newID)}
	var results [1]engine.Result
	billinglog.Propose(x, b.machine, b.proposer, time.Now().Add(b.writeTimeout), records[:],
		results[:])
	return results[0]
}

// once carries a command out in an environment, or in none (0); see billinglog.Once.
func (b *base) once(x *server.Exchange, env uint32, kind engine.Kind, c wire.Fielder) (
	billing.OnceReply, *server.Fault,
) {
	result, first, fault := billinglog.Once(x, &billinglog.OnceCommand{
		Env: env, Realm: "operator", Kind: kind, Payload: wire.Encode(nil, c), Propose: b.proposing(x),
	})
	if fault == nil && result.Outcome != engine.OutcomeDone {
		fault = server.FaultOf(result.Outcome)
	}
	return first, fault
}

func (b *base) proposing(x *server.Exchange) func(engine.Kind, []byte) engine.Result {
	return func(kind engine.Kind, payload []byte) engine.Result { return b.propose(x, kind, payload) }
}

// environment finds the environment that a path names and passes its number on.
func (b *base) environment(
	x *server.Exchange, then func(env uint32) *server.Fault,
) *server.Fault {
	kind, known := environments[string(x.Param(1))]
	if !known {
		return server.FaultNotFound.With("An environment is live or sandbox.")
	}
	return b.read(x, func() *server.Fault {
		env, found := b.machine.Environment(string(x.Param(0)), kind)
		if !found {
			return server.FaultOf(engine.OutcomeAccountUnknown)
		}
		return then(env)
	})
}

// within is the handler of what is read of the environment that the path names.
func (b *base) within(
	answer func(x *server.Exchange, env uint32) *server.Fault,
) func(*server.Exchange) *server.Fault {
	return func(x *server.Exchange) *server.Fault {
		return b.environment(x, func(env uint32) *server.Fault { return answer(x, env) })
	}
}

// of is the handler of what is about the record that the path's third parameter names.
func of(
	handle func(x *server.Exchange, id [16]byte) *server.Fault,
) func(*server.Exchange) *server.Fault {
	return func(x *server.Exchange) *server.Fault {
		id, ok := server.ParseUUID(x.Param(2))
		if !ok {
			name := x.Route.Parameter(2)
			noun := map[string]string{"id": "key"}[name]
			return server.FieldsFault([]server.FieldError{{
				Field: name, Code: server.FieldFormat,
				Message: "the " + cmp.Or(noun, name) + "'s id must be a UUID",
			}})
		}
		return handle(x, id)
	}
}

// one is the handler of what is read of such a record.
func (b *base) one(
	answer func(x *server.Exchange, env uint32, id [16]byte) *server.Fault,
) func(*server.Exchange) *server.Fault {
	return of(func(x *server.Exchange, id [16]byte) *server.Fault {
		return b.environment(x, func(env uint32) *server.Fault { return answer(x, env, id) })
	})
}

// locate finds the number of the environment that a path names. Environments are never removed, so
// it stays good.
func (b *base) locate(x *server.Exchange) (env uint32, fault *server.Fault) {
	fault = b.environment(x, func(number uint32) *server.Fault {
		env = number
		return nil
	})
	return env, fault
}

var environments = map[string]billing.EnvironmentKind{
	"live": billing.EnvironmentLive, "sandbox": billing.EnvironmentSandbox,
}

// carryOut proposes a command, whose field env it sets to the environment that the path names; a
// success has no data.
func (b *base) carryOut(
	x *server.Exchange, kind engine.Kind, c wire.Fielder, env *uint32,
) (fault *server.Fault) {
	if *env, fault = b.locate(x); fault == nil {
		fault = b.done(x, kind, c)
	}
	if fault != nil {
		return fault
	}
	return x.Succeed(200)
}

// onceIn finds the environment in which a request makes something, and the id of what it makes: a
// new one, or with an Idempotency-Key always the same one, so that the state machine knows a repeat
// by it. wrong is what else is wrong with the request.
func (b *base) onceIn(x *server.Exchange, wrong *server.Fault) (
	env uint32, id [16]byte, fault *server.Fault,
) {
	if wrong != nil {
		return env, id, wrong
	}
	key, fault := server.OnceKey(x)
	if fault == nil {
		env, fault = b.locate(x)
	}
	if fault != nil || len(key) == 0 {
		return env, newID(), fault
	}
	h := sha256.New()
	// The account is known here: locate has waited for it, where this node was behind.
	for _, part := range [][]byte{[]byte(x.Route.Operation), b.account(x), x.Param(1), key} {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part))))
		h.Write(part)
	}
	copy(id[:], h.Sum(nil))
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // a UUID of version 8
	return env, id, nil
}

// onceCommand is a command under an Idempotency-Key, which belongs to one operation here, as the id
// that onceIn makes does.
func (b *base) onceCommand(
	x *server.Exchange, env uint32, kind engine.Kind, payload []byte,
) *billinglog.OnceCommand {
	return &billinglog.OnceCommand{
		Env: env, Realm: "operator " + x.Route.Operation,
		Subject: bytes.Join([][]byte{b.account(x), x.Param(1), x.Param(2)}, []byte{0}),
		Kind:    kind, Payload: payload, Propose: b.proposing(x),
	}
}

// make carries out a command whose id onceIn made. A repeat within 24 hours is answered with the
// first answer: replayed. One whose answer is not kept, for lack of room or since it is older, the
// command knows by its id.
func (b *base) make(
	x *server.Exchange, env uint32, kind engine.Kind, c wire.Fielder,
) (result engine.Result, replayed bool, fault *server.Fault) {
	payload := wire.Encode(nil, c)
	result, first, fault := billinglog.Once(x, b.onceCommand(x, env, kind, payload))
	switch {
	case fault != nil:
	case billinglog.Replay(x, &first):
		replayed = true
	case first.Repeated && kind == billing.KindCreateWebhookEndpoint:
		result = engine.Result{Outcome: engine.OutcomeDone} // a deleted one stays deleted
	case first.Repeated, result.Outcome == engine.OutcomeKeysFull:
		result = b.propose(x, kind, payload)
	case first.First != [16]byte{}:
		result.Value = first.Reply // the command's, without what Once adds
	}
	return result, replayed, fault
}

// singly carries out a command that makes nothing with an id; with an Idempotency-Key, once. A
// repeat within 24 hours is answered with the first answer: replayed. One whose answer is not kept
// does nothing: first.Repeated alone.
func (b *base) singly(
	x *server.Exchange, env uint32, kind engine.Kind, c wire.Fielder,
) (first billing.OnceReply, replayed bool, fault *server.Fault) {
	result, first, fault := billinglog.Once(x, b.onceCommand(x, env, kind, wire.Encode(nil, c)))
	switch {
	case fault != nil:
		return first, false, fault
	case result.Outcome != engine.OutcomeDone:
		return first, false, server.FaultOf(result.Outcome)
	}
	return first, billinglog.Replay(x, &first), nil
}

// account is the name of the account that a path begins with; the path may have its id.
func (b *base) account(x *server.Exchange) []byte {
	if named, ok := b.machine.Account(string(x.Param(0))); ok {
		return []byte(named.Name)
	}
	return x.Param(0)
}

// noJournal refuses what needs the journal where this node cannot read it.
func (b *base) noJournal() *server.Fault {
	if b.events == nil {
		return faultJournal
	}
	return nil
}

func (b *base) journalFailed(x *server.Exchange, err error) *server.Fault {
	b.log.Error("the journal cannot be read", "error", err,
		"request_id", string(x.RequestID()))
	return faultJournal
}
