package admin_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/server/client"
)

// workedServer plays worked cases over HTTP: each in an account of its own, whose sandbox's clock
// it moves.
type workedServer struct {
	*node
	sandbox, customerKey string
	subscription         string
	pool                 string
	grants               map[string]string // ids by name
	events               int
}

// encoded is a request's body.
func (b *workedServer) encoded(fields map[string]any) string {
	text, err := json.Marshal(fields)
	require.NoError(b.t, err)
	return string(text)
}

// asClient calls the client API.
func (b *workedServer) asClient(method, path string, fields map[string]any) answer {
	b.t.Helper()
	body := ""
	if fields != nil {
		body = b.encoded(fields)
	}
	return exact(b.send(method, client.Prefix+path, body, b.customerKey, "application/json"))
}

// call calls the admin API.
func (b *workedServer) call(method, path, body string) answer {
	b.t.Helper()
	return exact(b.node.call(method, path, body))
}

// exact reads the answer's body again, with numbers as the text that they were written as: a float
// would hide what is wrong in the last places of an amount.
func exact(a answer) answer {
	a.t.Helper()
	if a.body != nil {
		a.body = nil
		d := json.NewDecoder(strings.NewReader(a.raw))
		d.UseNumber()
		require.NoError(a.t, d.Decode(&a.body), a.raw)
	}
	return a
}

func (b *workedServer) Begin(doc billing.CatalogDocument, at time.Time) {
	name := fmt.Sprintf("case-%d", len(b.call("GET", "accounts", "").is(200, "").list()))
	b.call("POST", "accounts", b.encoded(map[string]any{"name": name})).is(201, "")
	b.sandbox = "accounts/" + name + "/environments/sandbox/"
	b.customerKey = b.call("POST", b.sandbox+"keys", `{"scope":"full"}`).is(201, "").
		data()["key"].(string)
	b.Advance(at)
	b.call("PUT", b.sandbox+"catalog", b.encoded(catalogJSON(doc))).is(200, "")
	b.asClient("POST", "/customers", map[string]any{
		"externalClientCustomerId": "ada", "firstName": "Ada", "lastName": "Lovelace",
		"email": "ada@example.com",
	}).is(201, "")
	a := b.asClient("POST", "/subscriptions", map[string]any{
		"planId": "plan", "customerReferenceId": "ada", "gracePeriod": 365,
	}).is(201, "")
	b.subscription = a.data()["subscription"].(map[string]any)["id"].(string)
}

// catalogJSON writes the parts of a catalog that worked cases use.
func catalogJSON(doc billing.CatalogDocument) map[string]any {
	plans := []any{}
	for _, p := range doc.Plans {
		features := []any{}
		for _, f := range p.Features {
			features = append(features, map[string]any{
				"key": f.Key, "pricingType": f.PricingType, "pricing": pricingJSON(&f.Pricing),
			})
		}
		allocations := []any{}
		for _, c := range p.CreditAllocations {
			fields := map[string]any{
				"pool": c.Pool, "amount": c.Amount.String(), "rolloverPolicy": c.RolloverPolicy,
			}
			if c.HasCap {
				fields["rolloverCap"] = c.RolloverCap.String()
			}
			allocations = append(allocations, fields)
		}
		plans = append(plans, map[string]any{
			"key": p.Key, "name": p.Key, "priceAmount": p.PriceAmount.String(),
			"currency": p.Currency, "intervalMonths": p.IntervalMonths, "features": features,
			"creditAllocations": allocations,
		})
	}
	return map[string]any{
		"features": []any{map[string]any{"key": "usage", "name": "usage"}}, "plans": plans,
	}
}

func pricingJSON(p *billing.PricingDocument) map[string]any {
	fields := map[string]any{}
	if p.Model != "" {
		fields["model"] = p.Model
	}
	for key, d := range map[string]decimal.Decimal{
		"pricePerUnit": p.PricePerUnit, "packageSize": p.PackageSize,
		"pricePerPackage": p.PricePerPackage,
	} {
		if !d.IsZero() {
			fields[key] = d.String()
		}
	}
	if p.ResetMode != "" {
		fields["resetMode"] = p.ResetMode
	}
	if p.Credits.Pool != "" {
		fields["credits"] = map[string]any{"pool": p.Credits.Pool}
	}
	tiers := []any{}
	for _, tier := range p.Tiers {
		upTo := any("inf")
		if !tier.Infinite {
			upTo = tier.UpTo.String()
		}
		tiers = append(tiers, map[string]any{
			"upTo": upTo, "pricePerUnit": tier.PricePerUnit.String(),
			"flatFee": tier.FlatFee.String(),
		})
	}
	if len(tiers) > 0 {
		fields["tiers"] = tiers
	}
	return fields
}

func (b *workedServer) Advance(to time.Time) {
	b.t.Helper()
	a := b.call("POST", b.sandbox+"clock", b.encoded(map[string]any{"advanceTo": to}))
	require.Equal(b.t, true, a.is(200, "").data()["settled"])
}

func (b *workedServer) Use(units string, at time.Time) {
	b.t.Helper()
	b.events++
	b.asClient("POST", "/events", map[string]any{
		"eventIdempotencyKey": fmt.Sprint(b.events), "eventName": "usage",
		"usageUnits": json.Number(units), "customerReferenceId": "ada", "occurredAt": at,
	}).is(201, "")
}

func (b *workedServer) Upgrade(plan string) {
	b.asClient("POST", "/subscriptions/"+b.subscription+"/plan-change", map[string]any{
		"changeToPlanId": plan, "changeType": "UPGRADE",
	}).is(200, "")
}

func (b *workedServer) number(v any) decimal.Decimal {
	b.t.Helper()
	require.IsType(b.t, json.Number(""), v)
	d, err := decimal.Parse(string(v.(json.Number)))
	require.NoError(b.t, err)
	require.Equal(b.t, d.String(), string(v.(json.Number)), "not the shortest exact text")
	return d
}

func (b *workedServer) instant(v any) time.Time {
	b.t.Helper()
	at, err := time.Parse(time.RFC3339, v.(string))
	require.NoError(b.t, err)
	return at.UTC()
}

func (b *workedServer) Invoices() (all []enginetest.WorkedInvoice) {
	for _, one := range b.asClient("GET", "/billing/invoices/ada", nil).is(200, "").list() {
		v := one.(map[string]any)
		w := enginetest.WorkedInvoice{Type: v["type"].(string), Amount: b.number(v["amount"])}
		items, _ := v["items"].([]any)
		for _, each := range items {
			item := each.(map[string]any)
			feature, _ := item["featureKey"].(string)
			w.Lines = append(w.Lines, enginetest.WorkedLine{
				Feature: feature, Amount: b.number(item["amount"]),
				Start: b.instant(item["periodStart"]), End: b.instant(item["periodEnd"]),
			})
		}
		all = append(all, w)
	}
	return all
}

func (b *workedServer) Period() (start, end time.Time) {
	v := b.asClient("GET", "/subscriptions/"+b.subscription, nil).is(200, "").data()
	return b.instant(v["currentPeriodStart"]), b.instant(v["currentPeriodEnd"])
}

func (b *workedServer) Grant(name, amount string, priority int64, expires time.Time) {
	if b.pool == "" {
		a := b.call("POST", b.sandbox+"customers/ada/pools", `{"name":"pool"}`).is(201, "")
		b.pool, b.grants = a.data()["id"].(string), map[string]string{}
	}
	fields := map[string]any{"amount": amount, "priority": priority}
	if !expires.IsZero() {
		fields["expiresAt"] = expires
	}
	a := b.call("POST", b.sandbox+"pools/"+b.pool+"/grants", b.encoded(fields)).is(201, "")
	b.grants[name] = a.data()["id"].(string)
}

func (b *workedServer) Remaining(name string) decimal.Decimal {
	grants := b.call("GET", b.sandbox+"pools/"+b.pool+"/grants", "").is(200, "").list()
	for _, one := range grants {
		if g := one.(map[string]any); g["id"] == b.grants[name] {
			return b.number(g["remaining"])
		}
	}
	return decimal.Decimal{} // nothing is left of it
}

func (b *workedServer) Pool() (balance, expired decimal.Decimal) {
	pools := b.asClient("GET", "/customers/ada", nil).is(200, "").data()["creditPools"].([]any)
	require.Len(b.t, pools, 1)
	p := pools[0].(map[string]any)
	return b.number(p["balance"]), b.number(p["totalExpired"])
}

// TestWorkedCasesOverHTTP plays the worked billing cases again from end to end: through the admin
// and the client API, on the test clock. Then every invoice of every account is explained.
func TestWorkedCasesOverHTTP(t *testing.T) {
	n := start(t)
	const days = 24 * 60 * 60 * 1000
	began := time.Date(2023, 6, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	n.Stamp.Store(began - 100*days) // longer limits do not reach back behind what was the window
	n.Do(t, billing.KindSetLimits, &billing.SetLimits{
		KeyRetentionMS: 100 * days, WindowMS: 100 * days,
	})
	n.Stamp.Store(began)
	played := enginetest.PlayWorkedCases(t, "../../engine/testdata/billing-cases.json",
		func(*enginetest.Worked) bool { return true },
		func(t *testing.T) enginetest.Biller {
			n.t = t
			return &workedServer{node: n}
		})
	n.t = t
	require.Equal(t, 63, played)
	for i := range played {
		path := fmt.Sprintf("accounts/case-%d/environments/sandbox/invoices/verify", i)
		verified := n.call("GET", path, "").is(200, "").data()
		require.Empty(t, verified["differences"])
		require.Positive(t, verified["invoices"])
	}
}
