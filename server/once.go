package server

import (
	"crypto/sha256"
	"encoding/binary"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
)

// longestOnce is the length of an Idempotency-Key in bytes.
const longestOnce = 255

// RequestKey describes Idempotency-Key in a route table.
var RequestKey = Param{
	In: "header", Name: "Idempotency-Key", Schema: TextSchema(1, longestOnce),
	About: "the same key and request within 24 hours: nothing is done again, and the first answer " +
		"comes once more, with Idempotency-Replayed: true",
}

// OnceKey is a request's Idempotency-Key; empty when it has none.
func OnceKey(x *Exchange) ([]byte, *Fault) {
	key, one := SoleHeader(x.Ctx, "Idempotency-Key")
	if !one {
		return nil, RepeatedHeader("Idempotency-Key")
	}
	bad := len(key) > longestOnce ||
		len(key) == 0 && len(x.Ctx.Request.Header.PeekAll("Idempotency-Key")) > 0
	for _, c := range key {
		bad = bad || c <= ' ' || c > '~'
	}
	if bad {
		return nil, FieldFault("Idempotency-Key", FieldFormat, "must be 1–255 visible ASCII characters")
	}
	return key, nil
}

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
func Once(x *Exchange, o *OnceCommand) (
	result engine.Result, first billing.OnceReply, fault *Fault,
) {
	key, fault := OnceKey(x)
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
			x.table.config.Log.Error("the reply to a repeatable request does not decode", "error", err)
			return result, first, &FaultInternal
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
func Replay(x *Exchange, first *billing.OnceReply) bool {
	if first.Status == 0 {
		return false
	}
	x.Out = append(x.Out[:0], first.Answer...)
	x.status = int(first.Status)
	return true
}

// KeepAnswer keeps the answer that x holds under its Idempotency-Key, where it has one, before it
// leaves. Where another answer to the same request was kept before, that one leaves: two nodes may
// have made them of different states. customer is whom the answer is about; see billing.KeepAnswer.
func KeepAnswer(x *Exchange, o *OnceCommand, customer uint32) {
	key, fault := OnceKey(x)
	if fault != nil || len(key) == 0 || x.status >= 400 {
		return
	}
	c := billing.KeepAnswer{
		Env: o.Env, Key: onceHash(o, key), Customer: customer, Status: uint32(x.status), Answer: x.Out,
	}
	result := o.Propose(billing.KindKeepAnswer, wire.Encode(nil, &c))
	var first billing.OnceReply
	if result.Outcome == engine.OutcomeMemoryLow {
		return // as where answers fill their room: it leaves, and is not kept
	}
	if result.Outcome != engine.OutcomeDone {
		x.Refuse(FaultOf(engine.OutcomeUnknown)) // what was done is done: a repeat is answered
		return
	}
	if err := wire.Decode(result.Value, &first); err == nil {
		Replay(x, &first)
	}
}

// requestHash stands for everything that makes two requests the same: route, subject, body.
func requestHash(x *Exchange, subject []byte) [16]byte {
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
