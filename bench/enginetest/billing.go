package enginetest

import (
	"fmt"

	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

// Epoch is where the tests' logs begin: 2026-01-31T15:00:00Z, in milliseconds.
const Epoch = 1769871600000

// Sandbox is the number of the first account's sandbox.
const Sandbox = 1

// TokenPlan is a catalog document with three features and one plan that prices each in its own
// way: the shape of the demo.
func TokenPlan() billing.CatalogDocument {
	return billing.CatalogDocument{
		Features: []billing.FeatureDocument{
			{Key: "requests", Name: "Requests"},
			{
				Key: "input-tokens", Name: "Input tokens", Labels: []string{"prompt"},
				HasCost: true, CostPerUnit: decimal.MustParse("0.000001"),
			},
			{Key: "output-tokens", Name: "Output tokens"},
		},
		Plans: []billing.PlanDocument{{
			Key: "llm-team", Name: "LLM team", Currency: "USD", IntervalMonths: 1,
			PriceAmount: decimal.FromInt(20),
			Features: []billing.PlanFeatureDocument{
				{Key: "requests", PricingType: "included"},
				{Key: "input-tokens", PricingType: "graduated", Pricing: billing.PricingDocument{
					Tiers: []billing.TierDocument{
						{UpTo: decimal.FromInt(100000), PricePerUnit: decimal.MustParse("0.000003")},
						{Infinite: true, PricePerUnit: decimal.MustParse("0.000002")},
					},
				}},
				{Key: "output-tokens", PricingType: "usage_based", Pricing: billing.PricingDocument{
					PricePerUnit: decimal.MustParse("0.000015"),
					HasMax:       true, MaxUsage: decimal.FromInt(5000),
				}},
			},
		}},
	}
}

// ApplyCatalog makes the command for a document, with ids minted from the keys.
func ApplyCatalog(env uint32, doc billing.CatalogDocument) *billing.ApplyCatalog {
	c := &billing.ApplyCatalog{Env: env, Document: doc}
	for _, f := range doc.Features {
		id := ID(fmt.Sprintf("feature %d %s", env, f.Key))
		c.FeatureIDs = append(c.FeatureIDs, id[:]...)
	}
	for _, p := range doc.Plans {
		id := ID(fmt.Sprintf("plan %d %s", env, p.Key))
		c.PlanIDs = append(c.PlanIDs, id[:]...)
	}
	return c
}

// NewAccount makes the account "demo" with the catalog doc in its sandbox.
func NewAccount(l *Log, doc billing.CatalogDocument) {
	l.Do(billing.KindCreateAccount, &billing.CreateAccount{ID: ID("demo"), Name: "demo"})
	l.Do(billing.KindApplyCatalog, ApplyCatalog(Sandbox, doc))
}

// NewCustomer makes a customer of the sandbox, and where plan is not empty, a subscription.
func NewCustomer(l *Log, externalID, plan string) {
	l.Do(billing.KindCreateCustomer, &billing.CreateCustomer{
		Env: Sandbox, ID: ID("customer " + externalID), ExternalID: externalID,
		FirstName: "Ada", LastName: "Lovelace", Email: externalID + "@example.com",
	})
	if plan != "" {
		l.Do(billing.KindCreateSubscription, &billing.CreateSubscription{
			Env: Sandbox, ID: ID("subscription " + externalID + " " + plan),
			InvoiceID: ID("invoice " + externalID + " " + plan),
			Customer:  externalID, Plan: plan, GraceDays: 7,
		})
	}
}

// Usage makes a usage event of the sandbox that occurs now.
func Usage(l *Log, key, customer, feature string, units int64) *billing.RecordUsage {
	return &billing.RecordUsage{
		Env: Sandbox, Key: billing.UsageKey(Sandbox, []byte(key)), Attempt: 1,
		KeyText: []byte(key), Customer: []byte(customer), EventName: []byte(feature),
		Units: decimal.FromInt(units), OccurredAt: l.Stamp,
	}
}
