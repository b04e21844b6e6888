package admin

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"log/slog"
	"time"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/journal"
	"tollgate/engine/wire"
	"tollgate/server"
	"tollgate/server/billinglog"
)

// base is what the handlers of all subjects use: reads, commands, environments.
type base struct {
	machine  *billing.Machine
	proposer server.Proposer
	reader   server.Reader
	events   journal.Source // lists usage events; nil where this node cannot
	log      *slog.Logger

	writeTimeout, readTimeout time.Duration
}

func newBase(c *Config) *base {
	return &base{
		machine: c.Machine, proposer: c.Proposer, reader: c.Reader, events: c.Events, log: c.Log,
		writeTimeout: c.WriteTimeout, readTimeout: c.ReadTimeout,
	}
}

// look runs what is copied out of memory that holds every acknowledged write. answer may run more
// than once; it returns a fault, or has written the answer.
func (b *base) look(answer func() *server.Fault) *server.Fault {
	deadline := time.Now().Add(b.readTimeout)
	for time.Now().Before(deadline) {
		ticket, outcome := b.reader.BeginRead(deadline)
		if outcome != engine.OutcomeDone {
			break
		}
		fault := answer()
		if !b.reader.ReadStands(ticket) {
			continue
		}
		return fault
	}
	return server.FaultConsistency.With("Nothing was changed. Repeat the request.")
}

// read answers with what look found.
func (b *base) read(x *server.Exchange, answer func() *server.Fault) {
	if fault := b.look(answer); fault != nil {
		x.Refuse(fault)
	}
}

// done proposes a command; what keeps it from being carried out is answered.
func (b *base) done(x *server.Exchange, kind engine.Kind, c wire.Fielder) bool {
	result := b.propose(x, kind, wire.Encode(nil, c))
	if result.Outcome != engine.OutcomeDone {
		x.Refuse(server.FaultOf(result.Outcome))
	}
	return result.Outcome == engine.OutcomeDone
}

// propose brings one command of a request into the log.
func (b *base) propose(x *server.Exchange, kind engine.Kind, payload []byte) engine.Result {
	records := [1]engine.Record{b.machine.Repeatable(kind, payload, newID)}
	var results [1]engine.Result
	billinglog.Propose(x, b.machine, b.proposer, time.Now().Add(b.writeTimeout), records[:],
		results[:])
	return results[0]
}

// once proposes a command in an environment, or in none (0); see billinglog.Once.
func (b *base) once(x *server.Exchange, env uint32, kind engine.Kind, payload []byte) (
	engine.Result, billing.OnceReply, *server.Fault,
) {
	return billinglog.Once(x, &billinglog.OnceCommand{
		Env: env, Realm: "operator", Kind: kind, Payload: payload,
		Propose: func(kind engine.Kind, payload []byte) engine.Result {
			return b.propose(x, kind, payload)
		},
	})
}

// environment finds the environment that a path names and passes its number on.
func (b *base) environment(x *server.Exchange, then func(env uint32) *server.Fault) {
	kind, known := environments[string(x.Param(1))]
	if !known {
		x.Refuse(server.FaultNotFound.With("An environment is live or sandbox."))
		return
	}
	b.read(x, func() *server.Fault {
		env, found := b.machine.Environment(string(x.Param(0)), kind)
		if !found {
			return server.FaultOf(engine.OutcomeAccountUnknown)
		}
		return then(env)
	})
}

// locate finds the number of the environment that a path names; what cannot be found is answered.
// Environments are never removed, so it stays good.
func (b *base) locate(x *server.Exchange) (env uint32, ok bool) {
	b.environment(x, func(number uint32) *server.Fault {
		env = number
		return nil
	})
	return env, !x.Answered()
}

var environments = map[string]billing.EnvironmentKind{
	"live": billing.EnvironmentLive, "sandbox": billing.EnvironmentSandbox,
}

// carryOut finds the environment that the path names, lets prepare put it into the command, and
// proposes that; a success has no data.
func (b *base) carryOut(
	x *server.Exchange, kind engine.Kind, prepare func(env uint32) wire.Fielder,
) {
	if env, ok := b.locate(x); ok && b.done(x, kind, prepare(env)) {
		x.Succeed(200)
	}
}

// onceIn finds the environment in which a request makes something, and the id of what it makes: a
// new one, or with an Idempotency-Key always the same one, so that the state machine knows a repeat
// by it. fault is what else is wrong with the request; what is wrong is answered.
func (b *base) onceIn(x *server.Exchange, fault *server.Fault) (env uint32, id [16]byte, ok bool) {
	var key []byte
	if fault == nil {
		key, fault = server.OnceKey(x)
	}
	if fault != nil {
		x.Refuse(fault)
		return env, id, false
	}
	if env, ok = b.locate(x); !ok {
		return env, id, false
	}
	if len(key) == 0 {
		return env, newID(), true
	}
	h := sha256.New()
	// The account is known here: locate has waited for it, where this node was behind.
	for _, part := range [][]byte{[]byte(x.Route.Operation), b.account(x), x.Param(1), key} {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part))))
		h.Write(part)
	}
	copy(id[:], h.Sum(nil))
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // a UUID of version 8
	return env, id, true
}

// onceCommand is a command under an Idempotency-Key, which belongs to one operation here, as the id
// that onceIn makes does.
func (b *base) onceCommand(
	x *server.Exchange, env uint32, kind engine.Kind, payload []byte,
) *billinglog.OnceCommand {
	return &billinglog.OnceCommand{
		Env: env, Realm: "operator " + x.Route.Operation,
		Subject: bytes.Join([][]byte{b.account(x), x.Param(1), x.Param(2)}, []byte{0}),
		Kind:    kind, Payload: payload,
		Propose: func(kind engine.Kind, payload []byte) engine.Result {
			return b.propose(x, kind, payload)
		},
	}
}

// make carries out a command whose id onceIn made. A repeat within 24 hours is answered with the
// first answer, and !ok. One whose answer is not kept, for lack of room or since it is older, the
// command knows by its id.
func (b *base) make(
	x *server.Exchange, env uint32, kind engine.Kind, c wire.Fielder,
) (result engine.Result, ok bool) {
	payload := wire.Encode(nil, c)
	result, first, fault := billinglog.Once(x, b.onceCommand(x, env, kind, payload))
	switch {
	case fault != nil:
		x.Refuse(fault)
		return result, false
	case billinglog.Replay(x, &first):
		return result, false
	case first.Repeated && kind == billing.KindCreateWebhookEndpoint:
		return engine.Result{Outcome: engine.OutcomeDone}, true // a deleted one stays deleted
	case first.Repeated, result.Outcome == engine.OutcomeKeysFull:
		return b.propose(x, kind, payload), true
	case first.First != [16]byte{}:
		result.Value = first.Reply // the command's, without what Once adds
	}
	return result, true
}

// account is the name of the account that a path begins with; the path may have its id.
func (b *base) account(x *server.Exchange) []byte {
	if named, ok := b.machine.Account(string(x.Param(0))); ok {
		return []byte(named.Name)
	}
	return x.Param(0)
}

func (b *base) journalFailed(x *server.Exchange, err error) {
	b.log.Error("the journal cannot be read", "error", err,
		"request_id", string(x.RequestID()))
	x.Refuse(faultJournal)
}
