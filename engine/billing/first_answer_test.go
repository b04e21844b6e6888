package billing_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
)

// An environment that has kept all the answers it may goes on: its requests are carried out once,
// and only their answers are not kept. Others keep theirs.
func TestFullAnswersRefuseNoKey(t *testing.T) {
	d := newDesk(t)
	keep := func(key string, size int) billing.OnceReply {
		customer := d.ada()
		customer.ID, customer.ExternalID = enginetest.ID(key), key
		request := once(key, "b", billing.KindCreateCustomer, customer)
		d.is(engine.OutcomeDone, billing.KindOnce, request)
		d.is(engine.OutcomeDone, billing.KindKeepAnswer, &billing.KeepAnswer{
			Env: enginetest.Sandbox, Key: enginetest.ID(key), Status: 201, Answer: make([]byte, size),
		})
		return reply(t, d.is(engine.OutcomeDone, billing.KindOnce, request))
	}
	for n := range billing.MaxEnvironmentAnswers / billing.MaxAnswer {
		require.EqualValues(t, 201, keep(fmt.Sprint("large ", n), billing.MaxAnswer).Status, n)
	}
	beyond := keep("beyond", 100)
	require.True(t, beyond.Repeated)
	require.Zero(t, beyond.Status, "its answer is not kept")
	require.Equal(t, enginetest.ID("beyond"), beyond.First)
}

// Of two answers to one request, the first that is kept is the answer.
func TestTheFirstKeptAnswerStays(t *testing.T) {
	d := newDesk(t)
	request := once("k", "b", billing.KindCreateSubscription, d.subscribe())
	d.is(engine.OutcomeDone, billing.KindOnce, request)
	for n, text := range []string{"first", "second"} {
		kept := reply(t, d.is(engine.OutcomeDone, billing.KindKeepAnswer, &billing.KeepAnswer{
			Env: enginetest.Sandbox, Key: enginetest.ID("k"), Status: uint32(201 + n), Answer: []byte(text),
		}))
		require.Equal(t, n > 0, kept.Repeated)
		require.Equal(t, "first", string(kept.Answer))
	}
	repeat := reply(t, d.is(engine.OutcomeDone, billing.KindOnce, request))
	require.EqualValues(t, 201, repeat.Status)
	require.Equal(t, "first", string(repeat.Answer))
}
