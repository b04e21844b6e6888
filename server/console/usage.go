package console

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"

	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/page"
)

type entitlement struct{ api.Entitlement }

// Status is the decision in one word.
func (e entitlement) Status() string {
	if e.IsAllowed {
		return "allowed"
	}
	return "blocked"
}

// usageMeter draws a feature's usage, and what reservations hold, against its limit; one without a
// limit is nothing to draw.
func usageMeter(e entitlement) template.HTML {
	used, err := strconv.ParseFloat(string(e.Usage.Used), 64)
	limit, err2 := strconv.ParseFloat(string(e.Usage.Limit), 64)
	if err != nil || err2 != nil {
		return ""
	}
	held, _ := strconv.ParseFloat(string(e.Usage.Held), 64)
	title := e.FeatureKey + ": " + page.Amount(e.Usage.Used)
	if held > 0 {
		title += " used and " + page.Amount(e.Usage.Held) + " held of " + page.Amount(e.Usage.Limit)
	} else {
		title += " of " + page.Amount(e.Usage.Limit) + " used"
	}
	return page.HeldMeter(used, held, limit, title)
}

// showUsage is the part of the customer's page that renews itself.
func showUsage(v *visit) {
	list := need[[]entitlement](v, v.client, server.Call{
		Operation: "listEntitlements", Path: []string{string(v.x.Param(2))},
	})
	v.fragment("customer", "usage", list)
}

func recordUsage(v *visit) {
	reply := v.client(server.Call{
		Operation: "ingestEvent", Body: body(map[string]any{
			"eventIdempotencyKey": page.OnceKey(v.fields),
			"customerReferenceId": string(v.x.Param(2)), "featureKey": v.fields.Get("feature"),
			"eventName": v.fields.Get("feature"), "usageUnits": literal(v.fields.Get("units")),
			"occurredAt": string(server.AppendTime(nil, v.console.config.Machine.EnvironmentNow(
				v.env, v.console.config.Now().UnixMilli()))),
		}),
	})
	if reply.Fault != nil && reply.Fault.Code == "duplicate_key" {
		reply.Fault = nil // the same form, sent twice
	}
	v.customerForm(reply, "usage")
}

// unmatched are the names of this environment's events that match no feature.
func (v *visit) unmatched() (names []api.UnmatchedName) {
	type list struct {
		Names []api.UnmatchedName `json:"names"`
	}
	return need[list](v, v.admin, v.adminCall("listUnmatchedNames")).Names
}

// request is how a program sends a body to the client API: a line for a shell, with what is known
// of a key of this environment.
func request(v *visit, path, body string) string {
	hint := map[string]string{"live": "sk_live_"}[v.environment]
	if hint == "" {
		hint = "sk_test_"
	}
	keys, _ := dataOf[[]api.Key](v, v.admin(v.adminCall("listKeys")))
	for _, k := range slices.Backward(keys) {
		if k.RevokedAt.IsZero() && k.Scope == "full" {
			hint = k.Hint
			break
		}
	}
	return "curl -sS \"$API" + path + "\" -H 'Authorization: Bearer " + hint + "…' \\\n" +
		"  -H 'Content-Type: application/json' -d '" + strings.ReplaceAll(body, "'", `'\''`) + "'"
}

// firstEvent is the request for a usage event at the environment's present, of a feature of its
// catalog where it has one.
func firstEvent(v *visit, customer string) string {
	name := "api.call"
	if keys := v.console.config.Machine.CatalogFeatures(v.env); len(keys) > 0 {
		name = keys[0]
	}
	now := v.console.config.Machine.EnvironmentNow(v.env, v.console.config.Now().UnixMilli())
	return request(v, "/events", fmt.Sprintf(
		`{"eventIdempotencyKey": "first-1", "eventName": %q, "usageUnits": 1,`+"\n"+
			`  "customerReferenceId": %q, "occurredAt": %q}`,
		name, cmp.Or(customer, "acme"), server.AppendTime(nil, now)))
}
