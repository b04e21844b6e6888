package client

import (
	"crypto/sha256"
	"encoding/binary"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
)

// requestKey describes Idempotency-Key in the route table.
var requestKey = server.Param{
	In: "header", Name: "Idempotency-Key", Schema: text(1, longestKey),
	About: "the same key and request within 24 hours: nothing is done again, and the answer is " +
		"made of the present state of what the first request made",
}

// once proposes a command; with an Idempotency-Key it is carried out once, however often the
// request comes, on whichever node. first are the ids that the first request made; zero without a
// key.
func (a *API) once(x *server.Exchange, kind engine.Kind, payload []byte) (
	result engine.Result, first billing.OnceReply, fault *server.Fault,
) {
	key, one := server.SoleHeader(x.Ctx, "Idempotency-Key")
	if !one {
		f := server.FaultFields.With("Idempotency-Key is there twice, with two values")
		return result, first, &f
	}
	if len(key) == 0 {
		return a.propose(kind, payload), first, nil
	}
	if !visibleKey(key) {
		f := server.FaultFields.With("Idempotency-Key must be 1–255 visible ASCII characters")
		return result, first, &f
	}
	c := billing.Once{
		Env: x.Principal.Env, Key: onceKey(x.Principal.Env, key), Body: requestHash(x),
		Kind: kind, Payload: payload,
	}
	result = a.propose(billing.KindOnce, wire.Encode(nil, &c))
	if result.Outcome == engine.OutcomeDone {
		if err := wire.Decode(result.Value, &first); err != nil {
			a.config.Log.Error("the reply to a repeatable request does not decode", "error", err)
			return result, first, &server.FaultInternal
		}
	}
	return result, first, nil
}

// keyed says that the request may be repeated safely.
func keyed(x *server.Exchange) bool {
	return len(x.Ctx.Request.Header.Peek("Idempotency-Key")) > 0
}

func visibleKey(key []byte) bool {
	for _, c := range key {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return len(key) <= longestKey
}

// onceKey is the key within the environment: its hash, so that the state holds no caller's text.
func onceKey(env uint32, key []byte) [16]byte {
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint32([]byte("request"), env), key...))
	return [16]byte(sum[:16])
}

// requestHash stands for everything that makes two requests the same: route, path, query, body.
func requestHash(x *server.Exchange) [16]byte {
	h := sha256.New()
	uri := x.Ctx.Request.Header.RequestURI()
	h.Write(binary.BigEndian.AppendUint32([]byte(x.Route.Operation+"\n"), uint32(len(uri))))
	h.Write(uri)
	h.Write(x.Body)
	return [16]byte(h.Sum(nil)[:16])
}
