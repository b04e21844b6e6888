package billing

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/machine"
	"tollgate/engine/page"
)

// Bounds of the kept keys: of one group, of the idempotent commands among them, and of the other
// commands of one environment, where the operators' own count as environment 0. Beyond them new
// keys are refused with OutcomeKeysFull until older ones have expired: dropping one early would
// carry a request out twice. Keys of idempotent commands are not kept then; they take no room of
// the others.
const (
	MaxRequests            = 500_000
	MaxIdempotentRequests  = 50_000
	MaxEnvironmentRequests = 100_000

	otherRequests  = MaxRequests - MaxIdempotentRequests
	requestReserve = otherRequests / 3
)

// idempotents stands in request.env for idempotent commands, those of all environments.
const idempotents uint32 = math.MaxUint32

// Once carries out another command unless a request with this key was carried out before. Env is
// the environment whose room the answer takes; 0 for none. Key hashes environment and
// Idempotency-Key, Body the rest of the request. Only a command that was carried out uses up the
// key; a checkout of a PAID invoice counts, a success without a page. Once the room for the keys of
// idempotent commands is taken, these still run but their keys are not kept. The reply is an
// encoded OnceReply.
type Once struct {
	Env     uint32      `wire:"1"`
	Key     [16]byte    `wire:"2"`
	Body    [16]byte    `wire:"3"`
	Kind    engine.Kind `wire:"4"`
	Payload []byte      `wire:"5"`

	inner op
}

// onceable is a command with ids from which its answer is given again; receipt returns them. The
// answers of others that Once may carry are read from the state.
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

func (c *RotateWebhookSecret) receipt() (first, second [16]byte) {
	return SecretReceipt(c.Secret), second
}

// SecretReceipt stands for a sealed secret in OnceReply.First.
func SecretReceipt(sealed []byte) [16]byte {
	sum := sha256.Sum256(sealed)
	return [16]byte(sum[:16])
}

// open reads the command that it carries.
func (c *Once) open(m *Machine) (err error) {
	row := m.kernel.Table.Find(c.Kind)
	if row == nil || !row.Once {
		return fmt.Errorf("a command of kind %d is not carried by Once", c.Kind)
	}
	c.inner, err = row.Open(m, c.Payload)
	return err
}

// carries is the command that may have been prefetched.
func (c *Once) carries() op { return c.inner }

// idempotent reports whether the command has no second effect under whatever key: of these there
// may be so many that their keys must not take the room of the others'.
func (c *Once) idempotent() bool {
	switch c.Kind {
	case KindReserve, KindSettleReservation, KindReleaseReservation:
		return true
	}
	return false
}

// Carried is part of machine.Carrier.
func (c *Once) Carried() engine.Record { return engine.Record{Kind: c.Kind, Payload: c.Payload} }

// OnceReply has the ids that the first request made.
type OnceReply struct {
	// Repeated reports whether an earlier request was carried out instead of this one.
	Repeated bool `wire:"1"`
	// First is zero if an invoice was paid and no checkout opened.
	First  [16]byte `wire:"2"`
	Second [16]byte `wire:"3"`
	// Status and Answer are the answer that KeepAnswer kept; 0 if there is none.
	Status uint32 `wire:"4"`
	Answer []byte `wire:"5"`
	// Reply is the command's own, if it has one and was carried out now.
	Reply []byte `wire:"6"`
	// Unkept is set where an idempotent command was carried out and its key found no room.
	Unkept bool `wire:"7"`
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
	env := c.Env
	if c.idempotent() {
		env = idempotents
	}
	full := t.requests.full(env)
	if full && env != idempotents {
		return engine.OutcomeKeysFull
	}
	outcome := c.inner.Apply(t)
	if outcome != engine.OutcomeDone && outcome != engine.OutcomeInvoicePaid {
		return outcome
	}
	if full {
		t.Answer(&OnceReply{Reply: t.Reply, Unkept: true})
		return outcome
	}

	r := request{key: c.Key, body: c.Body, at: t.Stamp, env: env}
	if made, ok := machine.Inner(c.inner).(onceable); ok && outcome == engine.OutcomeDone {
		r.first, r.second = made.receipt()
	}
	t.requests.keep(r)
	t.Answer(&OnceReply{First: r.first, Second: r.second, Reply: t.Reply})
	t.Fold(t.requests.To)
	return engine.OutcomeDone
}

// request is a request that was carried out, with the ids for its answer.
//
//schema:row
type request struct {
	key, body     [16]byte
	first, second [16]byte
	at            int64
	env           uint32 // or idempotents
}

// requests is a ring of them. Only Apply uses it.
type requests struct {
	machine.Ring[request]
	// answers has the kept answer to the request of the same row; see KeepAnswer.
	answers *page.Table[page.Blob]
	bytes   uint64            // all answers; not state
	envs    map[uint32]uint64 // an environment's answers; not state
	byEnv   map[uint32]uint64 // how many an environment has; not state
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

// full reports whether an environment, or idempotents, has no room for another key. The last third
// of the environments' room is divided equally among those that keep little, so that some cannot
// lock out the others.
func (q *requests) full(env uint32) bool {
	idempotent, envs, own := q.byEnv[idempotents], uint64(len(q.byEnv)), q.byEnv[env]
	if env == idempotents {
		return own >= MaxIdempotentRequests
	}
	if idempotent > 0 {
		envs-- // which is none
	}
	all := q.To - q.From - idempotent
	return all >= otherRequests || own >= MaxEnvironmentRequests ||
		all >= otherRequests-requestReserve && own*envs >= requestReserve
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

// Bounds of kept answers, in bytes: of all but those to idempotent commands, of these, of one
// environment, of one answer. An answer beyond any of them is not kept. Its repeated request still
// changes nothing, and gets the present state. So a few environments cannot lock out the others.
const (
	MaxAnswers            = 128 << 20
	MaxIdempotentAnswers  = 16 << 20
	MaxEnvironmentAnswers = 32 << 20
	MaxAnswer             = 64 << 10
)

// KeepAnswer keeps the answer to a request that Once carried out, before the answer leaves. The
// first answer kept is the answer, from any node. Answers that never change need none. Erasing a
// customer drops the answers about it. The reply is a OnceReply.
type KeepAnswer struct {
	Env uint32 `wire:"1"`
	// Key is the Once's.
	Key [16]byte `wire:"2"`
	// Customer is the row of the customer that the answer is about; 0 if there is none.
	Customer uint32 `wire:"3"`
	Status   uint32 `wire:"4"`
	Answer   []byte `wire:"5"`
}

func (c *KeepAnswer) apply(t *turn) engine.Outcome {
	reply := OnceReply{Repeated: true}
	if reply.Status, reply.Answer = t.requests.answer(&c.Key); reply.Status != 0 {
		t.Answer(&reply)
		return engine.OutcomeDone
	}
	reply.Repeated, reply.Status, reply.Answer = false, c.Status, c.Answer
	t.Answer(&reply)
	row := t.requests.Newest(&c.Key)
	if row == 0 || len(c.Answer) > MaxAnswer || c.Status == 0 || !t.requests.keepsMore(row) {
		return engine.OutcomeDone // expired meanwhile, or no room
	}

	t.requests.keepAnswer(row, c)
	t.Fold(t.requests.Number(row))
	return engine.OutcomeDone
}

// answerHead is the size of an answer's header: its status and customer.
const answerHead = 4 + 4

// kept returns the stored answer of a request by row; nil if there is none.
func (q *requests) kept(row uint32) []byte {
	if row > 0 && row <= q.answers.Len() {
		return q.answers.Read(row).Bytes
	}
	return nil
}

// answer returns the answer that is kept under a key; status 0 if there is none.
func (q *requests) answer(key *[16]byte) (status uint32, text []byte) {
	if kept := q.kept(q.Newest(key)); len(kept) >= answerHead {
		return binary.LittleEndian.Uint32(kept), kept[answerHead:]
	}
	return 0, nil
}

// keepsMore reports whether the answer to a request may be kept.
func (q *requests) keepsMore(row uint32) bool {
	env := q.Table.Read(row).env
	if env == idempotents {
		return q.envs[env] < MaxIdempotentAnswers
	}
	return q.bytes-q.envs[idempotents] < MaxAnswers && q.envs[env] < MaxEnvironmentAnswers
}

func (q *requests) keepAnswer(row uint32, c *KeepAnswer) {
	for q.answers.Len() < row {
		q.answers.Append()
	}
	kept := rows.AppendU32(rows.AppendU32(make([]byte, 0, answerHead+len(c.Answer)), c.Status),
		c.Customer)
	*q.answers.Write(row) = page.Blob{Bytes: append(kept, c.Answer...)}
	q.count(q.Table.Read(row).env, len(kept)+len(c.Answer))
}

// count adds to the size of all answers; size may be negative.
func (q *requests) count(env uint32, size int) {
	q.bytes += uint64(size)
	if q.envs[env] += uint64(size); q.envs[env] == 0 {
		delete(q.envs, env)
	}
}

// forgetAnswer drops the answer to a request.
func (q *requests) forgetAnswer(row uint32) {
	if kept := q.kept(row); len(kept) > 0 {
		q.count(q.Table.Read(row).env, -len(kept))
		*q.answers.Write(row) = page.Blob{}
	}
}

// forgetCustomer drops the answers about a customer, which may have its personal data.
func (q *requests) forgetCustomer(customer uint32) {
	for n := q.From; n < q.To; n++ {
		if kept := q.kept(q.Row(n)); len(kept) >= answerHead &&
			binary.LittleEndian.Uint32(kept[4:]) == customer {
			q.forgetAnswer(q.Row(n))
		}
	}
}
