package workspace

import (
	"encoding/binary"
	"errors"

	"tollgate/engine/pack"
)

// words are what runs say anyway: they come before every text that is packed. It is a matter of
// memory alone, so another build may have other words.
var words = pack.NewWords(
	"The agent asked for a person more often than a run may.Nobody helped in time." +
		"No worker was free in time.It took too long.The worker that ran it was lost." +
		"queue_timeout\x0dhuman_timeout\x0bhuman_limit\x0cwall_timeout\x0bworker_lost" +
		"provider_unavailable\x1fThe agent was not available." +
		"verification_unavailable\x21The verification gave no answer." +
		"answers_without_key\x2aThe verification answers without a key." +
		"answers_wrong_key\x40The verification accepts a wrong key that looks like a real one." +
		"no_credential\x1bThe agent obtained no key." +
		"verification_failed\x2cThe verification is not as the flow wants it." +
		"agent_did_nothing\x34The agent did nothing that could have made this true." +
		"captcha payment email_code terms no_signup error no_answer not_fetched cached redirect " +
		"retried was kept from another host has used up what a run may cost " +
		"The page asks for confirmation code sent by e-mail to continue, and signup was refused with " +
		"discover understand signup acquire_credential authenticate verify " +
		"opened https://docs. read https://www. /docs/quickstart filled in the form and submitted it " +
		"created an account and an API key in the dashboard, called the account endpoint with it, " +
		"which answered with status 200 and the key works; clicked Sign up → 404 → 302 → 401 " +
		"hands a key over\x13GET /llms.txt → 200\x14GET /auth.md → 200\x0fGET / → 200" +
		"\x19GET /openapi.json → 200\x10GET /docs → 200\x16POST /signup → 201" +
		"\x17POST /v1/keys → 201\x19GET /v1/account → 200" +
		"key_refused\x34The key that the agent obtained does not work." +
		"\x0cauthenticate\x03run\x00\x02n1\x04none\x00\x05wrong\x00\x05wrong\x00\x04real\x00\x04none\x00")

// appendColumns appends the text as it is packed: numbers first, instants as differences, then
// texts in the order of texts, each behind its length. Checkpoint and Answer are not part of it.
func (r *RunText) appendColumns(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(r.Calls)))
	dst = binary.AppendUvarint(dst, uint64(len(r.Events)))
	dst = binary.AppendUvarint(dst, uint64(r.Steps))
	dst = binary.AppendUvarint(dst, uint64(r.Tokens))
	dst = binary.AppendVarint(dst, r.WallLeft)
	for i := range r.Calls {
		c := &r.Calls[i]
		status := uint64(c.Status) << 2
		if c.Refused {
			status |= 2
		}
		if c.Matched {
			status |= 1
		}
		dst = binary.AppendUvarint(dst, status)
	}
	at := int64(0)
	for i := range r.Events {
		dst, at = binary.AppendVarint(dst, r.Events[i].At-at), r.Events[i].At
	}
	dst = binary.AppendVarint(dst, r.DecidedAt-at)
	r.texts(func(text *string) {
		dst = append(binary.AppendUvarint(dst, uint64(len(*text))), *text...)
	})
	return dst
}

// texts calls each with all texts.
func (r *RunText) texts(each func(text *string)) {
	for _, text := range [...]*string{&r.Code, &r.Reason, &r.Question, &r.Step, &r.Proof, &r.Worker} {
		each(text)
	}
	for i := range r.Calls {
		each(&r.Calls[i].Case)
		each(&r.Calls[i].Note)
	}
	for i := range r.Events {
		each(&r.Events[i].Text)
	}
}

// readColumns makes r what appendColumns wrote. It uses the memory of its lists again.
func (r *RunText) readColumns(b []byte) {
	c := columns{b: b}
	calls, events := int(c.uint()), int(c.uint())
	*r = RunText{Calls: sized(r.Calls, calls), Events: sized(r.Events, events)}
	r.Steps, r.Tokens, r.WallLeft = uint32(c.uint()), uint32(c.uint()), c.int()
	for i := range r.Calls {
		status := c.uint()
		r.Calls[i] = Call{
			Status: uint32(status >> 2), Refused: status&2 != 0, Matched: status&1 != 0,
		}
	}
	at := int64(0)
	for i := range r.Events {
		at += c.int()
		r.Events[i].At = at
	}
	r.DecidedAt = at + c.int()
	all := string(c.b) // one piece of memory for all texts
	r.texts(func(text *string) {
		size := int(c.uint())
		begin := len(all) - len(c.b)
		*text, c.b = all[begin:begin+size], c.b[size:]
	})
}

// sized is a list of so many items, nil for none, as wire decodes it.
func sized[T any](list []T, size int) []T {
	if size > cap(list) {
		return make([]T, size)
	}
	return list[:size]
}

// columns reads numbers, of bytes that this process wrote.
type columns struct{ b []byte }

func (c *columns) uint() uint64 {
	v, n := binary.Uvarint(c.b)
	c.b = c.b[n:]
	return v
}

func (c *columns) int() int64 {
	v, n := binary.Varint(c.b)
	c.b = c.b[n:]
	return v
}

// errText means that a text of a snapshot is cut short.
var errText = errors.New("workspace: truncated text in a snapshot")
