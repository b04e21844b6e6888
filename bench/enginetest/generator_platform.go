package enginetest

import (
	"pgregory.net/rapid"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

// lifecycle makes a command about what becomes of a subscription.
func (g *generator) lifecycle() engine.Record {
	env, id := g.env(), ID("subscription "+g.pick("subscription", "a", "prepaid", "prepaid"))
	switch g.pick("lifecycle", "cancel", "revert", "change", "cancel change", "terms", "clock",
		"void") {
	case "cancel":
		return record(billing.KindCancelSubscription, &billing.CancelSubscription{
			Env: env, ID: id, Mode: sample(g.t, "mode", billing.CancelAtPeriodEnd,
				billing.CancelByCustomer, billing.CancelImmediate),
		})
	case "revert":
		return record(billing.KindRevertCancellation, &billing.RevertCancellation{
			Env: env, ID: id, ByCustomer: rapid.Bool().Draw(g.t, "by customer"),
		})
	case "change":
		return record(billing.KindChangePlan, &billing.ChangePlan{
			Env: env, ID: id, ChangeID: ID("change " + g.pick("change", "1", "2", "3", "4")),
			Plan: g.pick("plan", "llm-team", "prepaid", "none"),
			Type: sample(g.t, "type", billing.ChangeUpgrade, billing.ChangeDowngrade),
		})
	case "cancel change":
		return record(billing.KindCancelPlanChange, &billing.CancelPlanChange{Env: env, ID: id})
	case "terms":
		return record(billing.KindSetPaymentTerms, &billing.SetPaymentTerms{
			Env: env, Days: sample[uint32](g.t, "days", 0, 7, 30, 366),
			KeepDays: rapid.Bool().Draw(g.t, "keep"), SetSettle: rapid.Bool().Draw(g.t, "settles"),
			SettleMinutes: sample[uint32](g.t, "settle", 0, 90, 10_080, 10_081),
		})
	case "clock":
		return record(billing.KindAdvanceClock, &billing.AdvanceClock{
			Env: env,
			To:  g.stamp + rapid.Int64Range(-1, 60).Draw(g.t, "days")*86_400_000,
		})
	}
	return record(billing.KindVoidInvoice, &billing.VoidInvoice{
		Env: env, ID: ID("invoice " + g.pick("subscription", "a", "b", "c", "d", "prepaid")),
	})
}

// platform makes a command around billing: customers' data, customer keys, repeated requests.
func (g *generator) platform() engine.Record {
	env, name := g.env(), g.customerName()
	switch g.pick("platform", "update", "archive", "erase", "origins", "key", "once", "payment") {
	case "update":
		return record(billing.KindUpdateCustomer, &billing.UpdateCustomer{
			Env: env, ExternalID: name, Set: rapid.Uint8Range(0, 31).Draw(g.t, "set"),
			FirstName: "Grace", LastName: "Hopper", Email: "grace@example.com",
			Address: g.pick("address", "", "Arlington"), Blank: g.blank(),
		})
	case "archive":
		return record(billing.KindArchiveCustomer, &billing.ArchiveCustomer{
			Env: env, ExternalID: name, Actor: g.pick("actor", "", "admin"),
		})
	case "erase":
		return record(billing.KindEraseCustomer, &billing.EraseCustomer{
			Env: env, ExternalID: name, Actor: "admin",
		})
	case "origins":
		return record(billing.KindSetOrigins, &billing.SetOrigins{
			Env: env, Origins: []string{g.pick("origin", "https://a.example", "https://b.example")},
		})
	case "key":
		id := g.pick("key", "x", "y")
		return record(billing.KindCreateKey, &billing.CreateKey{
			Env: env, ID: ID("customer key " + id), Hash: secret("customer key " + id),
			Scope: billing.ScopeCustomer, Customer: name,
		})
	case "once":
		return g.once()
	}
	return g.payment()
}

// blank draws which of phone number and address are given as "".
func (g *generator) blank() uint8 {
	return sample[uint8](g.t, "blank", 0, billing.CustomerPhoneNumber, billing.CustomerAddress)
}

// once wraps another command under one of a few keys.
func (g *generator) once() engine.Record {
	inner := rapid.SampledFrom([]func() engine.Record{
		func() engine.Record { return g.customer(g.customerName()) },
		func() engine.Record { return g.subscription(g.customerName()) }, g.pay,
		g.checkout,
	}).Draw(g.t, "inner")()
	return record(billing.KindOnce, &billing.Once{
		Env: Sandbox, Key: ID(g.pick("once", "k1", "k2", "k3")), Body: ID(g.pick("body", "b1", "b2")),
		Kind: inner.Kind, Payload: inner.Payload,
	})
}

func (g *generator) checkout() engine.Record {
	return record(billing.KindOpenCheckout, &billing.OpenCheckout{
		Env: Sandbox, ID: ID("checkout " + g.pick("checkout", "1", "2")),
		InvoiceID: ID("invoice " + g.pick("subscription", "a", "b", "c", "d")),
	})
}

// payment makes one of the commands around payments.
func (g *generator) payment() engine.Record {
	switch g.pick("payment", "open", "provider", "checkout", "paid") {
	case "open":
		return g.checkout()
	case "provider":
		return record(billing.KindSetPaymentProvider, &billing.SetPaymentProvider{
			Env: g.env(), Provider: g.pick("provider", "none", "sandbox", "sandbox", "stripe"),
			SecretKey: []byte{1}, Actor: "admin", ForgetPrevious: rapid.Bool().Draw(g.t, "forget"),
		})
	case "checkout":
		return record(billing.KindNoteCheckout, &billing.NoteCheckout{
			ID: ID("checkout " + g.pick("checkout", "1", "2", "3")), ProviderID: "cs_1",
			Closed: rapid.Bool().Draw(g.t, "closed"), Provider: billing.ProviderStripe,
			Revision: rapid.Uint32Range(0, 2).Draw(g.t, "revision"),
		})
	}
	return record(billing.KindRecordPayment, &billing.RecordPayment{
		Env: Sandbox, Provider: "sandbox", EventID: g.pick("event", "e1", "e2", "e3"),
		CheckoutID: g.pick("checkout", "", "c1", "c2"),
		InvoiceID:  ID("invoice " + g.pick("subscription", "a", "b", "c", "d")),
		Amount:     decimal.MustParse(g.pick("amount", "20", "20", "19.99", "0")),
		Currency:   g.pick("currency", "USD", "USD", "EUR"),
		Other:      g.pick("other", "", "", "", "charge.refunded"),
	})
}
