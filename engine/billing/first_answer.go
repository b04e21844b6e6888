package billing

import (
	"encoding/binary"

	"tollgate/engine"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/page"
)

// Bounds of kept answers, in bytes: of all, of one environment, of one answer. An answer beyond any
// of them is not kept. Its repeated request still changes nothing, and gets the present state. So a
// few environments cannot lock out the others.
const (
	MaxAnswers            = 128 << 20
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
	return q.bytes < MaxAnswers && q.envs[env] < MaxEnvironmentAnswers
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
