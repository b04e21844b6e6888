package enginetest

import (
	"fmt"

	"pgregory.net/rapid"

	"tollgate/engine"
	"tollgate/engine/billing"
)

// DeferringEntries draws a history of the billing group in which entries do more than their share:
// dozens of customers are years behind when their commands come. What is deferred comes again in
// the next entry, as the cluster would propose it.
func DeferringEntries(t *rapid.T) [][]byte {
	g := newGenerator(t)
	n := rapid.IntRange(30, 50).Draw(t, "customers")
	var records []engine.Record
	for i := range n {
		records = append(records, g.customer(crowdName(i)), g.crowdSubscription(i))
	}
	propose := func(records []engine.Record) {
		for again := 0; len(records) > 0 && again < 4; again++ {
			g.add(records)
			var left []engine.Record
			for i, r := range g.shadow.out.Results {
				if r.Outcome == engine.OutcomeDeferred {
					left = append(left, records[i])
				}
			}
			records = left
		}
	}
	propose(records)
	for range rapid.IntRange(2, 4).Draw(t, "leaps") {
		g.stamp += rapid.Int64Range(200, 1100).Draw(t, "days") * 86_400_000
		records = records[:0]
		for range rapid.IntRange(30, 60).Draw(t, "records") {
			records = append(records, g.crowdRecord(n))
		}
		propose(records)
	}
	return g.entries
}

func crowdName(i int) string { return fmt.Sprint("one of many, ", i) }

func (g *generator) crowdSubscription(i int) engine.Record {
	return record(billing.KindCreateSubscription, &billing.CreateSubscription{
		Env: Sandbox, ID: ID(fmt.Sprint("subscription ", i)), InvoiceID: ID(fmt.Sprint("invoice ", i)),
		Customer: crowdName(i), Plan: g.pick("plan", "llm-team", "llm-team", "prepaid"), GraceDays: 7,
	})
}

// crowdRecord is a command about one of many customers, seldom another one.
func (g *generator) crowdRecord(n int) engine.Record {
	i := rapid.IntRange(0, n-1).Draw(g.t, "of")
	id := ID(fmt.Sprint("subscription ", i))
	switch rapid.IntRange(0, 19).Draw(g.t, "crowd") {
	case 0:
		return record(billing.KindChangePlan, &billing.ChangePlan{
			Env: Sandbox, ID: id, Plan: g.pick("plan", "llm-team", "prepaid"),
			ChangeID: ID(fmt.Sprint("change ", i, " ", g.stamp)), Type: billing.ChangeUpgrade,
		})
	case 1:
		return record(billing.KindCancelSubscription, &billing.CancelSubscription{
			Env: Sandbox, ID: id, Mode: billing.CancelImmediate,
		})
	case 2:
		return record(billing.KindMarkInvoicePaid, &billing.MarkInvoicePaid{
			Env: Sandbox, ID: ID(fmt.Sprint("invoice ", i)),
		})
	case 3:
		return engine.Record{Kind: engine.KindTick}
	case 4:
		return g.record()
	}
	key := fmt.Appendf(nil, "crowd-%d-%d", i, rapid.IntRange(0, 99).Draw(g.t, "key"))
	c := &billing.RecordUsage{
		Env: Sandbox, Key: billing.UsageKey(Sandbox, key), KeyText: key, Attempt: 1,
		Customer: []byte(crowdName(i)), Units: g.amount(), OccurredAt: g.now() -
			rapid.Int64Range(0, 3*86_400_000).Draw(g.t, "ago"),
		EventName: []byte(g.pick("event", "requests", "prompt", "output-tokens", "images", "videos")),
	}
	g.keys = append(g.keys, string(key))
	return engine.Record{Kind: billing.KindRecordUsage, Payload: c.Seal(nil)}
}
