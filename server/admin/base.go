package admin

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
)

// look runs what is copied out of memory that holds every acknowledged write. answer may run more
// than once; it returns a fault, or has written the answer.
func (a *API) look(answer func() *server.Fault) *server.Fault {
	deadline := time.Now().Add(a.config.ReadTimeout)
	for time.Now().Before(deadline) {
		ticket, outcome := a.config.Reader.BeginRead(deadline)
		if outcome != engine.OutcomeDone {
			break
		}
		fault := answer()
		if !a.config.Reader.ReadStands(ticket) {
			continue
		}
		return fault
	}
	f := server.FaultConsistency.With("Nothing was changed. Repeat the request.")
	return &f
}

// read answers with what look found.
func (a *API) read(x *server.Exchange, answer func() *server.Fault) {
	if fault := a.look(answer); fault != nil {
		x.Refuse(*fault)
	}
}

// propose brings one command of a request into the log.
func (a *API) propose(x *server.Exchange, kind engine.Kind, payload []byte) engine.Result {
	records := [1]engine.Record{a.config.Machine.Repeatable(kind, payload, newID)}
	var results [1]engine.Result
	server.Propose(x, a.machine, a.config.Proposer, time.Now().Add(a.config.WriteTimeout), records[:],
		results[:])
	return results[0]
}

// once proposes a command in an environment, or in none (0); see server.Once.
func (a *API) once(x *server.Exchange, env uint32, kind engine.Kind, payload []byte) (
	engine.Result, billing.OnceReply, *server.Fault,
) {
	return server.Once(x, &server.OnceCommand{
		Env: env, Realm: "operator", Kind: kind, Payload: payload,
		Propose: func(kind engine.Kind, payload []byte) engine.Result {
			return a.propose(x, kind, payload)
		},
	})
}

// environment finds the environment that a path names and passes its number on.
func (a *API) environment(x *server.Exchange, then func(env uint32) *server.Fault) {
	kind, known := environments[string(x.Param(1))]
	if !known {
		x.Refuse(server.FaultNotFound.With("An environment is live or sandbox."))
		return
	}
	a.read(x, func() *server.Fault {
		env, found := a.machine.Environment(string(x.Param(0)), kind)
		if !found {
			fault := server.FaultOf(engine.OutcomeAccountUnknown)
			return &fault
		}
		return then(env)
	})
}

// locate finds the number of the environment that a path names; what cannot be found is answered.
// Environments are never removed, so it stays good.
func (a *API) locate(x *server.Exchange) (env uint32, ok bool) {
	a.environment(x, func(number uint32) *server.Fault {
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
func (a *API) carryOut(
	x *server.Exchange, kind engine.Kind, prepare func(env uint32) wire.Fielder,
) {
	env, ok := a.locate(x)
	if !ok {
		return
	}
	result := a.propose(x, kind, wire.Encode(nil, prepare(env)))
	if result.Outcome != engine.OutcomeDone {
		x.Refuse(server.FaultOf(result.Outcome))
		return
	}
	x.Succeed(200)
}

// onceID is the id of what a request makes: a new one, or with an Idempotency-Key always the same
// one, so that the state machine knows a repeat by it.
func (a *API) onceID(x *server.Exchange) (id [16]byte, fault *server.Fault) {
	key, fault := server.OnceKey(x)
	if fault != nil {
		return id, fault
	}
	if len(key) == 0 {
		return newID(), nil
	}
	account := x.Param(0)
	if named, ok := a.machine.Account(string(account)); ok {
		account = []byte(named.Name) // the path may have its id
	}
	h := sha256.New()
	for _, part := range [][]byte{[]byte(x.Route.Operation), account, x.Param(1), key} {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part))))
		h.Write(part)
	}
	copy(id[:], h.Sum(nil))
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // a UUID of version 8
	return id, nil
}

func (a *API) journalFailed(x *server.Exchange, err error) {
	a.config.Log.Error("the journal cannot be read", "error", err,
		"request_id", string(x.RequestID()))
	x.Refuse(faultJournal)
}
