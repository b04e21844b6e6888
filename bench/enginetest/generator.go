package enginetest

import (
	"fmt"

	"pgregory.net/rapid"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// BillingEntries draws a history of the billing group: entries of a few records each, over few
// names, so that records meet. Much of it is refused; all of it is well-formed.
func BillingEntries(t *rapid.T) [][]byte {
	g := newGenerator(t)
	for range rapid.IntRange(0, 20).Draw(t, "entries") {
		records := drawn(t, 5, g.record)
		g.stamp += sample[int64](t, "later", 0, 1, 1000, 3_600_000, 86_400_000, 40*86_400_000)
		g.add(records)
	}
	return g.entries
}

type generator struct {
	t       *rapid.T
	stamp   int64
	entries [][]byte // of the billing group, so far
	shadow  *shadow  // of a machine that has applied them
	keys    []string // of usage events
	notes   uint64   // of keys' uses
}

// newGenerator begins a history of the billing group.
func newGenerator(t *rapid.T) *generator {
	g := &generator{t: t, stamp: Epoch, shadow: newShadow()}
	g.add(g.opening())
	return g
}

// add appends an entry to the history.
func (g *generator) add(records []engine.Record) {
	entry := entryOf(0, g.stamp, records...)
	g.entries = append(g.entries, entry)
	g.shadow.apply(entry)
}

// drawn calls draw for up to that many records.
func drawn(t *rapid.T, maximum int, draw func() engine.Record) (records []engine.Record) {
	for range rapid.IntRange(0, maximum).Draw(t, "records") {
		records = append(records, draw())
	}
	return records
}

// sample draws one of some values.
func sample[V any](t *rapid.T, label string, of ...V) V {
	return rapid.SampledFrom(of).Draw(t, label)
}

// now is the time in the sandbox, whose clock histories move.
func (g *generator) now() int64 { return g.shadow.m.EnvironmentNow(Sandbox, g.stamp) }

func (g *generator) pick(label string, of ...string) string {
	return sample(g.t, label, of...)
}

func (g *generator) customerName() string {
	return g.pick("customer", "ada", "ada", "ada", "ada", "grace", "", "nobody",
		"an identifier that is too long for the hot record of a customer")
}

func (g *generator) env() uint32 {
	return sample[uint32](g.t, "env", 1, 1, 1, 1, 1, 1, 1, 1, 2, 9)
}

func record(kind engine.Kind, c wire.Fielder) engine.Record {
	return engine.Record{Kind: kind, Payload: wire.Encode(nil, c)}
}

// opening makes an account whose sandbox has something to sell.
func (g *generator) opening() []engine.Record {
	return []engine.Record{
		record(billing.KindCreateAccount, &billing.CreateAccount{ID: ID("demo"), Name: "demo"}),
		record(billing.KindApplyCatalog, ApplyCatalog(Sandbox, TokenPlan())),
		record(billing.KindApplyCatalog, ApplyCatalog(Sandbox, PrepaidPlan())),
		record(billing.KindCreateWebhookEndpoint, &billing.CreateWebhookEndpoint{
			Env: Sandbox, ID: hookID("one"), URL: "https://a.example", Secret: []byte{1},
		}),
		g.customer("ada"), g.subscription("ada"), subscribePrepaid(),
		record(billing.KindSetPaymentProvider, &billing.SetPaymentProvider{
			Env: Sandbox, Provider: "sandbox",
		}),
		agreed(rapid.Uint32Range(0, 1).Draw(g.t, "version")),
	}
}

func (g *generator) record() engine.Record {
	makers := []func() engine.Record{
		g.usage, g.usage, g.usage, g.usage, g.audits, g.audits,
		func() engine.Record { return g.customer(g.customerName()) },
		func() engine.Record { return g.subscription(g.customerName()) },
		g.catalog, g.account, g.key, g.revoke, g.pay, g.limits, g.platform, g.platform,
		g.credits, g.credits, g.credits, g.topUp, g.topUp, g.webhook, g.webhook, g.webhook,
		g.lifecycle, g.lifecycle, g.lifecycle, g.settlement, g.correction, g.correction, g.correction,
		g.reservation, g.reservation, g.reservation,
		g.budget, g.budget,
		func() engine.Record { return engine.Record{Kind: engine.KindTick} },
	}
	return rapid.SampledFrom(makers).Draw(g.t, "command")()
}

func (g *generator) customer(name string) engine.Record {
	env := Sandbox
	if name != "ada" {
		env = int(g.env())
	}
	return record(billing.KindCreateCustomer, &billing.CreateCustomer{
		Env: uint32(env), ID: ID(fmt.Sprint("customer ", name, env)), ExternalID: name,
		FirstName: "Ada", LastName: "Lovelace", Email: "ada@example.com",
		Address: g.pick("address", "", "London"), Blank: g.blank(),
	})
}

func (g *generator) subscription(customer string) engine.Record {
	id := g.pick("subscription", "a", "b", "c", "d")
	return record(billing.KindCreateSubscription, &billing.CreateSubscription{
		Env: Sandbox, ID: ID("subscription " + id), InvoiceID: ID("invoice " + id),
		Customer: customer, Plan: g.pick("plan", "llm-team", "seats", "none"), GraceDays: 7,
	})
}

func (g *generator) usage() engine.Record {
	key := fmt.Appendf(nil, "key-%d", rapid.IntRange(0, 30).Draw(g.t, "key"))
	env := g.env()
	c := &billing.RecordUsage{
		Env: env, Key: billing.UsageKey(env, key), KeyText: key,
		Attempt:  rapid.Uint32Range(1, 3).Draw(g.t, "attempt"),
		Customer: []byte(g.customerName()),
		EventName: []byte(g.pick("event", "requests", "prompt", "output-tokens", "seats", "x",
			"images", "videos", "images")),
		FeatureKey: []byte(g.pick("feature", "", "", "", "", "input-tokens", "unknown")),
		Units: sample(g.t, "units", decimal.FromInt(1), decimal.FromInt(0), decimal.FromInt(4000),
			decimal.MustParse("0.000000000001"), decimal.Largest()),
		OccurredAt: g.now() + rapid.OneOf(rapid.Int64Range(-9*86_400_000, 400_000),
			rapid.Int64Range(-86_400_000, 1000), rapid.Int64Range(-1000, 1000)).Draw(g.t, "occurred"),
	}
	g.keys = append(g.keys, string(key))
	c.Budget = []byte(g.pick("at", "", "", "", "", "", "", "", "b1", "b2", "nothing"))
	c.KeyBudget = sample[uint32](g.t, "bound to", 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 99)
	if rapid.IntRange(0, 9).Draw(g.t, "explicit") == 0 {
		c.SubscriptionID = ID("subscription " + g.pick("subscription", "a", "b", "c", "d"))
	}
	return engine.Record{Kind: billing.KindRecordUsage, Payload: c.Seal(nil)}
}

func (g *generator) audits() engine.Record {
	var b billing.AuditBlock
	b.Reset(rapid.Uint64Range(1, 3).Draw(g.t, "origin"), 1,
		rapid.Uint64Range(1, 20).Draw(g.t, "sequence"))
	for range rapid.IntRange(0, 4).Draw(g.t, "checks") {
		b.Add(&billing.AuditCheck{
			Env: g.env(), CustomerRow: rapid.Uint32Range(0, 3).Draw(g.t, "row"),
			CustomerText:  []byte(g.customerName()),
			FeatureNumber: rapid.Uint32Range(0, 3).Draw(g.t, "number"), FeatureText: []byte("x"),
			Reason: billing.ReasonAllowed, At: g.stamp,
		})
	}
	return engine.Record{Kind: billing.KindRecordAudits, Payload: b.Encode(nil)}
}

func (g *generator) catalog() engine.Record {
	doc := TokenPlan()
	p := &doc.Plans[0]
	p.PriceAmount = decimal.FromInt(rapid.Int64Range(-1, 3).Draw(g.t, "price"))
	p.Currency = g.pick("currency", "USD", "USD", "EUR")
	p.Status = g.pick("status", "", "ARCHIVED")
	if rapid.Bool().Draw(g.t, "above") {
		p.InvoiceAbove = sample(g.t, "invoiceAbove", decimal.FromInt(1), decimal.FromInt(1000))
	}
	if rapid.Bool().Draw(g.t, "seats") {
		doc.Features = append(doc.Features, billing.FeatureDocument{Key: "seats"})
		doc.Plans = append(doc.Plans, billing.PlanDocument{
			Key: "seats", Currency: "JPY", IntervalMonths: 12, BillingTiming: "IN_ARREARS",
			Metadata: []byte(`{"a":1}`),
			Features: []billing.PlanFeatureDocument{{
				Key: "seats", PricingType: "usage_based", Pricing: billing.PricingDocument{
					PricePerUnit: decimal.FromInt(5), HasMax: true, MaxUsage: decimal.FromInt(3),
					LimitMode: "hard", ResetMode: "accumulate", Thresholds: []byte{34, 60, 100},
				},
			}},
		})
	}
	c := ApplyCatalog(Sandbox, doc)
	c.Prune = rapid.Bool().Draw(g.t, "prune")
	return record(billing.KindApplyCatalog, c)
}

func (g *generator) account() engine.Record {
	name := g.pick("account", "demo", "other", "third")
	return record(billing.KindCreateAccount, &billing.CreateAccount{
		ID: ID(g.pick("id", name, "x")), Name: name,
	})
}

func (g *generator) key() engine.Record {
	name := g.pick("api key", "k1", "k2", "k3")
	return record(billing.KindCreateKey, &billing.CreateKey{
		Env: g.env(), ID: ID(name), Hash: secret(name), Scope: billing.ScopeRead,
		Label: "label", Hint: "sk_test_12",
	})
}

func (g *generator) revoke() engine.Record {
	return record(billing.KindRevokeKey, &billing.RevokeKey{
		Env: g.env(), ID: ID(g.pick("api key", "k1", "k2", "k3")),
	})
}

func (g *generator) pay() engine.Record {
	return record(billing.KindMarkInvoicePaid, &billing.MarkInvoicePaid{
		Env: g.env(), ID: ID("invoice " + g.pick("invoice", "a", "b", "c", "d")),
	})
}

func (g *generator) limits() engine.Record {
	return record(billing.KindSetLimits, &billing.SetLimits{
		KeyRetentionMS: rapid.Int64Range(0, 10).Draw(g.t, "retention") * 86_400_000,
		WindowMS:       rapid.Int64Range(0, 10).Draw(g.t, "window") * 86_400_000,
		MaxKeys:        rapid.Uint64Range(0, 30).Draw(g.t, "keys"),

		AuditRetentionMS: rapid.Int64Range(0, 60).Draw(g.t, "audits") * 86_400_000,
	})
}
