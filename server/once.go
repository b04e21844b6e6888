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
	About: "the same key and request within 24 hours: nothing is done again, and the answer is " +
		"made of the present state of what the first request made",
}

// OnceKey is a request's Idempotency-Key; empty when it has none.
func OnceKey(x *Exchange) ([]byte, *Fault) {
	key, one := SoleHeader(x.Ctx, "Idempotency-Key")
	if !one {
		return nil, FieldFault("Idempotency-Key", FieldRepeated, "is there twice, with two values")
	}
	bad := len(key) > longestOnce
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
	Realm   string
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
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint32([]byte(o.Realm), o.Env), key...))
	c := billing.Once{
		Env: o.Env, Key: [16]byte(sum[:16]), Body: requestHash(x), Kind: o.Kind, Payload: o.Payload,
	}
	result = o.Propose(billing.KindOnce, wire.Encode(nil, &c))
	if result.Outcome == engine.OutcomeDone {
		if err := wire.Decode(result.Value, &first); err != nil {
			x.table.config.Log.Error("the reply to a repeatable request does not decode", "error", err)
			return result, first, &FaultInternal
		}
	}
	return result, first, nil
}

// requestHash stands for everything that makes two requests the same: route, path, query, body.
func requestHash(x *Exchange) [16]byte {
	h := sha256.New()
	uri := x.Ctx.Request.Header.RequestURI()
	h.Write(binary.BigEndian.AppendUint32([]byte(x.Route.Operation+"\n"), uint32(len(uri))))
	h.Write(uri)
	h.Write(x.Body)
	return [16]byte(h.Sum(nil)[:16])
}
