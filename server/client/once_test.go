package client_test

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
	"tollgate/server/client"
)

// once sends a request with an Idempotency-Key.
func (n *node) once(key, method, path, body string) answer {
	n.t.Helper()
	return n.send(method, path, body, n.sandbox, map[string]string{"Idempotency-Key": key})
}

// TestARepeatIsTheFirstAnswer: though what it is about has changed since, byte for byte; the body
// is compared as a JSON value.
func TestARepeatIsTheFirstAnswer(t *testing.T) {
	n := start(t)
	n.customer("acme")
	const body = `{"planId":"team","customerReferenceId":"acme","gracePeriod":10}`
	first := n.once("k", "POST", "subscriptions", body).is(201, "")
	require.Empty(t, first.header.Get("Idempotency-Replayed"))
	id := first.data("subscription", "id").(string)
	n.call("POST", "subscriptions/cancellation/"+id, "").is(200, "")
	n.call("PATCH", "customers/acme", `{"firstName":"Grace"}`).is(200, "")
	invoice := first.data("invoice", "id").(string)
	n.call("POST", "billing/invoices/"+invoice+"/mark-paid", "").is(200, "")
	for _, again := range []string{
		body, ` {"gracePeriod" : 1e1, "customerReferenceId":"\u0061cme",` + "\n" + `"planId":"team"} `,
	} {
		repeat := n.once("k", "POST", "subscriptions", again).is(201, "")
		require.Equal(t, string(first.raw), string(repeat.raw))
		require.Equal(t, "true", repeat.header.Get("Idempotency-Replayed"))
	}
	n.once("k", "POST", "subscriptions", `{"planId":"team","customerReferenceId":"acme"}`).
		is(409, "idempotency_key_reused")
	require.Len(t, n.call("GET", "customers/acme/subscriptions", "").data(), 2)

	// Erasure forgets the answer, which has the customer's name.
	n.Do(t, billing.KindEraseCustomer, &billing.EraseCustomer{Env: n.env, ExternalID: "acme"})
	repeat := n.once("k", "POST", "subscriptions", body).is(201, "")
	require.NotContains(t, string(repeat.raw), "Lovelace")
	require.Equal(t, id, repeat.data("subscription", "id"))
}

// shortOfMemory refuses to keep answers.
type shortOfMemory struct{ server.Proposer }

func (p shortOfMemory) Propose(by time.Time, records []engine.Record, results []engine.Result) {
	if records[0].Kind == billing.KindKeepAnswer {
		results[0] = engine.Result{Outcome: engine.OutcomeMemoryLow}
		return
	}
	p.Proposer.Propose(by, records, results)
}

// TestAnAnswerLeavesThoughMemoryIsLow: where there is no memory to keep it, what was carried out is
// answered all the same, and its repeat shows the state as it is.
func TestAnAnswerLeavesThoughMemoryIsLow(t *testing.T) {
	n := start(t, func(c *client.Config) { c.Proposer = shortOfMemory{c.Proposer} })
	n.customer("acme")
	const body = `{"planId":"team","customerReferenceId":"acme"}`
	first := n.once("k", "POST", "subscriptions", body).is(201, "")
	repeat := n.once("k", "POST", "subscriptions", body).is(201, "")
	require.Equal(t, first.data("subscription", "id"), repeat.data("subscription", "id"))
}

// roomless is a log that has no room for keys of reservations. It counts kept answers.
type roomless struct {
	server.Proposer
	kept *atomic.Int32
}

func (p roomless) Propose(by time.Time, records []engine.Record, results []engine.Result) {
	switch records[0].Kind {
	case billing.KindOnce:
		var c billing.Once
		if err := wire.Decode(records[0].Payload, &c); err != nil {
			panic(err)
		}
		p.Proposer.Propose(by, []engine.Record{c.Carried()}, results)
		results[0].Value = wire.Encode(nil, &billing.OnceReply{Reply: results[0].Value, Unkept: true})
		return
	case billing.KindKeepAnswer:
		p.kept.Add(1)
	}
	p.Proposer.Propose(by, records, results)
}

// TestWithoutItsKeyNoAnswerIsKept: a reservation is made all the same.
func TestWithoutItsKeyNoAnswerIsKept(t *testing.T) {
	var kept atomic.Int32
	n := start(t, func(c *client.Config) { c.Proposer = roomless{c.Proposer, &kept} })
	n.customer("acme")
	first := n.once("k", "POST", "reservations", hold("r", calls+`1`)).is(201, "")
	again := n.once("k", "POST", "reservations", hold("r", calls+`1`)).is(201, "")
	require.Equal(t, first.data("id"), again.data("id"))
	require.Zero(t, kept.Load())
}

// answeredElsewhere is a log in which another node keeps its answer to a request first.
type answeredElsewhere struct{ server.Proposer }

func (p answeredElsewhere) Propose(by time.Time, records []engine.Record, results []engine.Result) {
	if records[0].Kind == billing.KindKeepAnswer {
		var theirs billing.KeepAnswer
		if err := wire.Decode(records[0].Payload, &theirs); err != nil {
			panic(err)
		}
		theirs.Answer = bytes.ReplaceAll(theirs.Answer, []byte("Lovelace"), []byte("Hopper"))
		p.Proposer.Propose(by, []engine.Record{{
			Kind: billing.KindKeepAnswer, Payload: wire.Encode(nil, &theirs),
		}}, make([]engine.Result, 1))
	}
	p.Proposer.Propose(by, records, results)
}

// TestTheAnswerThatWasKeptFirstLeaves: two nodes may answer one request of different states; both
// give the answer that is kept.
func TestTheAnswerThatWasKeptFirstLeaves(t *testing.T) {
	n := start(t, func(c *client.Config) { c.Proposer = answeredElsewhere{c.Proposer} })
	n.customer("acme")
	const body = `{"planId":"team","customerReferenceId":"acme"}`
	for range 2 {
		a := n.once("k", "POST", "subscriptions", body).is(201, "")
		require.Contains(t, string(a.raw), "Hopper")
		require.NotContains(t, string(a.raw), "Lovelace")
	}
}

// TestAnEmptyIdempotencyKeyIsRefused: it is a client's mistake, and not the wish for no key.
func TestAnEmptyIdempotencyKeyIsRefused(t *testing.T) {
	n := start(t)
	for _, key := range []string{"", " "} {
		n.once(key, "POST", "customers", `{"firstName":"a","lastName":"b","email":"a@b.c"}`).
			is(400, "validation_failed")
	}
}

// answersLost is a proposer whose first attempts are carried out, and their answers lost.
type answersLost struct{ server.Proposer }

func (p answersLost) Propose(by time.Time, records []engine.Record, results []engine.Result) {
	p.Proposer.Propose(by, records, results)
	for i := range records {
		if records[i].Kind == billing.KindExtendReservation {
			results[i] = engine.Result{Outcome: results[i].Outcome}
		}
	}
}

// TestAnExtensionWhoseAnswerWasLostAnswersWithTheReservation: an attempt after it finds the command
// carried out, and has no answer of its own.
func TestAnExtensionWhoseAnswerWasLostAnswersWithTheReservation(t *testing.T) {
	n := start(t, func(c *client.Config) { c.Proposer = answersLost{c.Proposer} })
	n.customer("acme")
	id := n.call("POST", "reservations", hold("r", calls+`1`)).is(201, "").data("id").(string)
	a := n.call("POST", "reservations/"+id+"/extend", `{"usageUnits":2}`).is(200, "")
	require.Equal(t, []any{id, "open"}, []any{a.data("id"), a.data("state")})
	require.Equal(t, 2.0, a.data("items").([]any)[0].(map[string]any)["heldUnits"])
}
