package billing

import (
	"fmt"

	"tollgate/engine"
	"tollgate/engine/page"
	"tollgate/engine/wire"
)

// RequestRetentionMS is how long the answer to an Idempotency-Key is kept, in log time: 24 hours.
const RequestRetentionMS = dayMS

// Answers that are kept at a time: by one group, and of one environment, the operators' own (number
// 0) included. Beyond it new keys are refused with OutcomeKeysFull until older ones have expired:
// forgetting an answer before its time would carry a request out twice.
const (
	MaxRequests                   = 500_000
	MaxEnvironmentRequests        = 100_000
	requestReserve         uint64 = MaxRequests / 3
)

// Once carries out another command unless a request with this key was carried out before. Env is
// whose room the answer takes, 0 of what belongs to no environment. Key and Body are hashes: of
// environment and Idempotency-Key, and of all else in the request. Only a
// command that was carried out uses up the key. The reply is an encoded OnceReply.
type Once struct {
	Env     uint32      `wire:"1"`
	Key     [16]byte    `wire:"2"`
	Body    [16]byte    `wire:"3"`
	Kind    engine.Kind `wire:"4"`
	Payload []byte      `wire:"5"`

	inner onceable
}

// onceable is a command that Once may carry: receipt are the ids by which its answer is given
// again.
type onceable interface {
	command
	receipt() (first, second [16]byte)
}

func (c *CreateAccount) receipt() (first, second [16]byte)      { return c.ID, second }
func (c *CreateKey) receipt() (first, second [16]byte)          { return c.ID, second }
func (c *CreateCustomer) receipt() (first, second [16]byte)     { return c.ID, second }
func (c *CreateSubscription) receipt() (first, second [16]byte) { return c.ID, c.InvoiceID }
func (c *MarkInvoicePaid) receipt() (first, second [16]byte)    { return c.ID, second }
func (c *CancelSubscription) receipt() (first, second [16]byte) { return c.ID, second }
func (c *ChangePlan) receipt() (first, second [16]byte)         { return c.ChangeID, second }

// decodeOnce reads the command and the one that it carries.
func decodeOnce(m *Machine, payload []byte) (command, error) {
	c := new(Once)
	if err := wire.Decode(payload, c); err != nil {
		return nil, err
	}
	var inner command
	var err error
	switch c.Kind {
	case KindCreateAccount:
		inner, err = decodeFields[CreateAccount](m, c.Payload)
	case KindCreateKey:
		inner, err = decodeFields[CreateKey](m, c.Payload)
	case KindCreateCustomer:
		inner, err = decodeFields[CreateCustomer](m, c.Payload)
	case KindCreateSubscription:
		inner, err = decodeFields[CreateSubscription](m, c.Payload)
	case KindMarkInvoicePaid:
		inner, err = decodeFields[MarkInvoicePaid](m, c.Payload)
	case KindCancelSubscription:
		inner, err = decodeFields[CancelSubscription](m, c.Payload)
	case KindChangePlan:
		inner, err = decodeFields[ChangePlan](m, c.Payload)
	case KindOpenCheckout:
		inner, err = decodeFields[OpenCheckout](m, c.Payload)
	default:
		return nil, fmt.Errorf("a command of kind %d is not carried by Once", c.Kind)
	}
	if err != nil {
		return nil, err
	}
	c.inner = inner.(onceable)
	return c, nil
}

// OnceReply says which ids the first request made.
type OnceReply struct {
	// Repeated reports whether an earlier request was carried out, and this one was not.
	Repeated bool     `wire:"1"`
	First    [16]byte `wire:"2"`
	Second   [16]byte `wire:"3"`
	// Status and Answer are what KeepAnswer kept; 0 where nothing is kept.
	Status uint32 `wire:"4"`
	Answer []byte `wire:"5"`
}

func (c *Once) apply(t *turn) engine.Outcome {
	if r := t.requests.find(&c.Key, t.stamp-RequestRetentionMS); r != nil {
		if r.body != c.Body {
			return engine.OutcomeRequestKeyReused
		}
		reply := OnceReply{Repeated: true, First: r.first, Second: r.second}
		reply.Status, reply.Answer = t.requests.answer(&c.Key)
		t.reply = wire.Encode(nil, &reply)
		return engine.OutcomeDone
	}
	if t.requests.full(c.Env) {
		return engine.OutcomeKeysFull
	}
	if outcome := c.inner.apply(t); outcome != engine.OutcomeDone {
		return outcome
	}

	r := request{key: c.Key, body: c.Body, at: t.stamp, env: c.Env}
	r.first, r.second = c.inner.receipt()
	t.requests.keep(&r)
	t.reply = wire.Encode(nil, &OnceReply{First: r.first, Second: r.second})
	t.fold(t.requests.to)
	return engine.OutcomeDone
}

// request is a request that was carried out, and what its answer is given again from.
type request struct {
	key, body     [16]byte
	first, second [16]byte
	at            int64
	env           uint32
}

var requestCodec = page.Codec[request]{
	Append: func(dst []byte, r *request) []byte {
		dst = append(append(dst, r.key[:]...), r.body[:]...)
		dst = append(append(dst, r.first[:]...), r.second[:]...)
		return appendU32(appendI64(dst, r.at), r.env)
	},
	Read: func(src []byte, r *request) ([]byte, error) {
		in := reader{rest: src}
		r.key, r.body, r.first, r.second = in.id(), in.id(), in.id(), in.id()
		r.at, r.env = in.i64(), in.u32()
		return in.rest, in.err
	},
}

// requests are kept in a ring: request n, counted from 0, is row 1 + n mod MaxRequests. Those from
// from to to are there. Only Apply uses it.
type requests struct {
	table    *page.Table[request]
	from, to uint64
	// answers has the answer to the request of the same row, where one is kept; see KeepAnswer.
	answers *page.Table[page.Blob]
	bytes   uint64              // no state: of all answers
	envs    map[uint32]uint64   // no state: of an environment's answers
	byKey   map[[16]byte]uint64 // no state: key → number
	byEnv   map[uint32]uint64   // no state: how many are there of an environment
}

func (q *requests) open(store *page.Store) {
	q.table = page.NewTable(store, tableRequests, requestCodec)
	q.answers = page.NewBlobTable(store, tableAnswers)
	q.byKey, q.byEnv = map[[16]byte]uint64{}, map[uint32]uint64{}
	q.envs = map[uint32]uint64{}
}

func requestRow(n uint64) uint32 { return uint32(n%MaxRequests) + 1 }

// full reports whether an environment has no room for another answer. The last third of the room is
// for those that keep little: there each has an equal share, so that some cannot lock out the
// others.
func (q *requests) full(env uint32) bool {
	all, own := q.to-q.from, q.byEnv[env]
	return all >= MaxRequests || own >= MaxEnvironmentRequests ||
		all >= MaxRequests-requestReserve && own*uint64(len(q.byEnv)) >= requestReserve
}

// find returns what was kept under a key after an instant; nil when nothing was.
func (q *requests) find(key *[16]byte, after int64) *request {
	n, ok := q.byKey[*key]
	if !ok {
		return nil
	}
	if r := q.table.Read(requestRow(n)); r.at > after {
		return r
	}
	return nil
}

// expiredAtOnce bounds what one entry forgets.
const expiredAtOnce = 1024

// expire forgets some of what was kept until an instant; stamps never go backwards, so the oldest
// come first.
func (q *requests) expire(until int64) {
	for range expiredAtOnce {
		if q.from == q.to {
			return
		}
		r := q.table.Read(requestRow(q.from))
		if r.at > until {
			return
		}
		if q.byKey[r.key] == q.from { // else the key was used again since it expired
			delete(q.byKey, r.key)
		}
		if q.byEnv[r.env]--; q.byEnv[r.env] == 0 {
			delete(q.byEnv, r.env)
		}
		q.forget(q.from)
		q.from++
	}
}

func (q *requests) keep(r *request) {
	row := requestRow(q.to)
	if row > q.table.Len() {
		_, next := q.table.Append()
		*next = *r
	} else {
		*q.table.Write(row) = *r
	}
	q.byKey[r.key] = q.to
	q.byEnv[r.env]++
	q.to++
}

// consistent says, after a restore, that the ring's numbers have rows.
func (q *requests) consistent() bool {
	return q.from <= q.to && q.to-q.from <= MaxRequests &&
		min(q.to, MaxRequests) == uint64(q.table.Len())
}

// reindex rebuilds the index, after a restore.
func (q *requests) reindex() {
	for n := q.from; n < q.to; n++ {
		r := q.table.Read(requestRow(n))
		q.byKey[r.key] = n
		q.byEnv[r.env]++
		q.count(r.env, len(q.kept(n)))
	}
}
