package billing

import (
	"fmt"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/machine"
	"tollgate/engine/page"
	"tollgate/engine/wire"
)

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
// environment and Idempotency-Key, and of all else in the request. Only a command that was carried
// out uses up the key, and a checkout of an invoice that is paid, which is a success without a
// page. The reply is an encoded OnceReply.
type Once struct {
	Env     uint32      `wire:"1"`
	Key     [16]byte    `wire:"2"`
	Body    [16]byte    `wire:"3"`
	Kind    engine.Kind `wire:"4"`
	Payload []byte      `wire:"5"`

	inner op
}

// onceable is a command that Once may carry: receipt are the ids by which its answer is given
// again.
type onceable interface {
	receipt() (first, second [16]byte)
}

func (c *CreateAccount) receipt() (first, second [16]byte) { return c.ID, second }

func (c *CreateKey) receipt() (first, second [16]byte) { return c.ID, second }

func (c *CreateCustomer) receipt() (first, second [16]byte) { return c.ID, second }

func (c *CreateSubscription) receipt() (first, second [16]byte) { return c.ID, c.InvoiceID }

func (c *MarkInvoicePaid) receipt() (first, second [16]byte) { return c.ID, second }

func (c *CancelSubscription) receipt() (first, second [16]byte) { return c.ID, second }

func (c *ChangePlan) receipt() (first, second [16]byte) { return c.ChangeID, second }

func (c *CreatePool) receipt() (first, second [16]byte) { return c.ID, second }

func (c *GrantCredits) receipt() (first, second [16]byte) { return c.ID, second }

func (c *DeductCredits) receipt() (first, second [16]byte) { return c.ID, second }

func (c *ReverseTransaction) receipt() (first, second [16]byte) { return c.ID, second }

func (c *CreateWebhookEndpoint) receipt() (first, second [16]byte) { return c.ID, second }

// openOnce reads the command and the one that it carries.
func openOnce(m *Machine, payload []byte) (op, error) {
	c := new(Once)
	if err := wire.Decode(payload, c); err != nil {
		return nil, err
	}
	row := m.kernel.Table.Find(c.Kind)
	if row == nil || !row.Once {
		return nil, fmt.Errorf("a command of kind %d is not carried by Once", c.Kind)
	}
	var err error
	c.inner, err = row.Open(m, c.Payload)
	return c, err
}

func onceCarries(payload []byte) (engine.Record, bool) {
	var c Once
	err := wire.Decode(payload, &c)
	return engine.Record{Kind: c.Kind, Payload: c.Payload}, err == nil
}

// OnceReply says which ids the first request made.
type OnceReply struct {
	// Repeated reports whether an earlier request was carried out, and this one was not.
	Repeated bool `wire:"1"`
	// First is zero where an invoice was paid, and no checkout opened.
	First  [16]byte `wire:"2"`
	Second [16]byte `wire:"3"`
	// Status and Answer are what KeepAnswer kept; 0 where nothing is kept.
	Status uint32 `wire:"4"`
	Answer []byte `wire:"5"`
	// Reply is the command's own, where it has one and was carried out now.
	Reply []byte `wire:"6"`
}

// Apply implements machine.Op.
func (c *Once) Apply(t *turn) engine.Outcome {
	if row := t.requests.Find(c.Key, t.Stamp-accounts.RequestRetentionMS); row != 0 {
		r := t.requests.Table.Read(row)
		if r.body != c.Body {
			return engine.OutcomeRequestKeyReused
		}
		reply := OnceReply{Repeated: true, First: r.first, Second: r.second}
		reply.Status, reply.Answer = t.requests.answer(&c.Key)
		t.Answer(&reply)
		return engine.OutcomeDone
	}
	if t.requests.full(c.Env) {
		return engine.OutcomeKeysFull
	}
	outcome := c.inner.Apply(t)
	if outcome != engine.OutcomeDone && outcome != engine.OutcomeInvoicePaid {
		return outcome
	}

	r := request{key: c.Key, body: c.Body, at: t.Stamp, env: c.Env}
	if outcome == engine.OutcomeDone {
		r.first, r.second = machine.Inner(c.inner).(onceable).receipt()
	}
	t.requests.keep(r)
	t.Answer(&OnceReply{First: r.first, Second: r.second, Reply: t.Reply})
	t.Fold(t.requests.To)
	return engine.OutcomeDone
}

// request is a request that was carried out, and what its answer is given again from.
//
//schema:row
type request struct {
	key, body     [16]byte
	first, second [16]byte
	at            int64
	env           uint32
}

// requests are a ring of them. Only Apply uses it.
type requests struct {
	machine.Ring[request]
	// answers has the answer to the request of the same row, where one is kept; see KeepAnswer.
	answers *page.Table[page.Blob]
	bytes   uint64            // no state: of all answers
	envs    map[uint32]uint64 // no state: of an environment's answers
	byEnv   map[uint32]uint64 // no state: how many are there of an environment
}

func (q *requests) open(s *state) {
	q.Ring = machine.Ring[request]{
		Table: page.NewTable(s.Store, accounts.TableRequests, requestCodec), Max: MaxRequests,
		By: page.NewIndex(), Hash: s.IDHash, Key: func(r *request) [16]byte { return r.key },
		At: func(r *request) int64 { return r.at },
		Forgets: func(row uint32, r *request) {
			if q.byEnv[r.env]--; q.byEnv[r.env] == 0 {
				delete(q.byEnv, r.env)
			}
			q.forgetAnswer(row)
		},
	}
	q.answers = page.NewBlobTable(s.Store, accounts.TableAnswers)
	q.byEnv, q.envs = map[uint32]uint64{}, map[uint32]uint64{}
}

// full reports whether an environment has no room for another answer. The last third of the room is
// for those that keep little: there each has an equal share, so that some cannot lock out the
// others.
func (q *requests) full(env uint32) bool {
	all, own := q.To-q.From, q.byEnv[env]
	return all >= MaxRequests || own >= MaxEnvironmentRequests ||
		all >= MaxRequests-requestReserve && own*uint64(len(q.byEnv)) >= requestReserve
}

func (q *requests) keep(r request) {
	q.Keep(r)
	q.byEnv[r.env]++
}

// reindex rebuilds the index and the counts, after a restore.
func (q *requests) reindex() {
	q.Reindex()
	for n := q.From; n < q.To; n++ {
		env := q.Table.Read(q.Row(n)).env
		q.byEnv[env]++
		q.count(env, len(q.kept(q.Row(n))))
	}
}
