package billinglog

import (
	"crypto/sha256"
	"encoding/binary"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
)

// OnceCommand is the command that a request asks for.
type OnceCommand struct {
	// Env is the environment that keeps the answer; 0 for what belongs to none.
	Env uint32
	// Realm tells callers of one environment apart whose keys must not meet: the client API's are
	// "request".
	Realm string
	// Subject is what the request is about, where paths that differ mean the same; nil is its URI.
	Subject []byte
	Kind    engine.Kind
	Payload []byte
	Propose func(kind engine.Kind, payload []byte) engine.Result
}

// Once proposes a command; with an Idempotency-Key it is carried out once, however often the
// request comes, on whichever node. first are the ids that the first request made; zero without a
// key.
func Once(x *server.Exchange, o *OnceCommand) (
	result engine.Result, first billing.OnceReply, fault *server.Fault,
) {
	key, fault := server.OnceKey(x)
	if fault != nil {
		return result, first, fault
	}
	if len(key) == 0 {
		return o.Propose(o.Kind, o.Payload), first, nil
	}
	// The state holds a hash of the key within its environment, and no caller's text.
	c := billing.Once{
		Env: o.Env, Key: onceHash(o, key), Body: requestHash(x, o.Subject),
		Kind: o.Kind, Payload: o.Payload,
	}
	result = o.Propose(billing.KindOnce, wire.Encode(nil, &c))
	if result.Outcome == engine.OutcomeDone {
		if err := wire.Decode(result.Value, &first); err != nil {
			panic("billinglog: the reply to a repeatable request does not decode: " + err.Error())
		}
		if first.Repeated {
			x.Ctx.Response.Header.Set("Idempotency-Replayed", "true")
		}
	}
	return result, first, nil
}

// onceHash is the name under which the state keeps a request.
func onceHash(o *OnceCommand, key []byte) [16]byte {
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint32([]byte(o.Realm), o.Env), key...))
	return [16]byte(sum[:16])
}

// Replay answers with what is kept of the first request's answer; false where nothing is.
func Replay(x *server.Exchange, first *billing.OnceReply) bool {
	if first.Status == 0 {
		return false
	}
	data := x.BeginBare()
	*data = append(*data, first.Answer...)
	x.EndBare(int(first.Status))
	return true
}

// KeepAnswer keeps the answer that x holds under its Idempotency-Key, where it has one, before it
// leaves. Where another answer to the same request was kept before, that one leaves: two nodes may
// have made them of different states. customer is whom the answer is about; see billing.KeepAnswer.
func KeepAnswer(x *server.Exchange, o *OnceCommand, customer uint32) *server.Fault {
	key, fault := server.OnceKey(x)
	status, answer := x.Answer()
	if fault != nil || len(key) == 0 || status >= 400 {
		return nil
	}
	c := billing.KeepAnswer{
		Env: o.Env, Key: onceHash(o, key), Customer: customer, Status: uint32(status), Answer: answer,
	}
	result := o.Propose(billing.KindKeepAnswer, wire.Encode(nil, &c))
	var first billing.OnceReply
	if result.Outcome == engine.OutcomeMemoryLow {
		return nil // as where answers fill their room: it leaves, and is not kept
	}
	if result.Outcome != engine.OutcomeDone {
		return server.FaultOf(engine.OutcomeUnknown) // what was done is done: a repeat is answered
	}
	if err := wire.Decode(result.Value, &first); err == nil {
		Replay(x, &first)
	}
	return nil
}

// requestHash stands for everything that makes two requests the same: route, subject, body.
func requestHash(x *server.Exchange, subject []byte) [16]byte {
	h := sha256.New()
	if subject == nil {
		subject = x.Ctx.Request.Header.RequestURI()
	}
	h.Write(binary.BigEndian.AppendUint32([]byte(x.Route.Operation+"\n"), uint32(len(subject))))
	h.Write(subject)
	body, ok := appendCanonical(nil, x.Body)
	if !ok { // another form than JSON
		body = x.Body
	}
	h.Write(body)
	return [16]byte(h.Sum(nil)[:16])
}
