package console_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

// TestEventsPage: the newest first, of the kind and feature that the address selects, with what the
// API answers; voids, amendments and checks among them.
func TestEventsPage(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const anna = "/console/accounts/demo/sandbox/customers/anna"
	r := &recorder{browser: b, names: map[string]string{}}
	at := n.now().UTC().Format(time.RFC3339)
	for _, event := range []string{`"first","eventName":"calls"`, `"second","eventName":"nothing"`} {
		r.ask(n.programs, "ingestEvent", `{"eventIdempotencyKey":`+event+
			`,"customerReferenceId":"anna","occurredAt":"`+at+`"}`)
	}
	block := billing.AuditBlock{}
	block.Reset(1, 1, 1)
	check := billing.AuditCheck{
		Env: n.environment(), CustomerRow: n.row("anna"), FeatureNumber: 1,
		Reason: billing.ReasonLimitReached, At: n.now().UnixMilli(),
		Figures: billing.CheckFigures{
			Limited: true, Used: decimal.FromInt(1200), Held: decimal.FromInt(1),
			Limit: decimal.FromInt(1300), Asked: decimal.FromInt(100), Budget: "team",
		},
	}
	block.Add(&check)
	check.Reason, check.Figures = billing.ReasonAllowed, billing.CheckFigures{}
	block.Add(&check)
	n.Propose(n.now(), []engine.Record{{
		Kind: billing.KindRecordAudits, Payload: block.Encode(nil),
	}}, make([]engine.Result, 1))

	shows := func(path string, want, not []string) shown {
		t.Helper()
		p := b.get(anna+"/events"+path).is(200, want...)
		safe(t, p)
		for _, text := range not {
			require.NotContains(t, p.body, text)
		}
		return p
	}
	all := shows("", []string{"first", "second", "not billed", "limit reached", `data-live="`}, nil)
	require.Less(t, strings.Index(all.body, "<code>second"), strings.Index(all.body, "<code>first"))
	require.Contains(t, all.body, `&#34;eventName&#34;: &#34;calls&#34;`, "what the API answers")
	shows("?feature=calls&kind=usage", []string{"first"}, []string{"<code>second", "limit reached"})
	shows("?kind=usage&unbilled=true", []string{"second"}, []string{"<code>first"})
	shows("?kind=audit&denied=true", []string{"limit reached", "1,200 used, 1 held of 1,300 in budget team, 100 requested"}, []string{"<code>first"})
	everyone := b.get("/console/accounts/demo/sandbox/events?key=first&at="+at).
		is(200, "Usage events, corrections and checks of all customers", "<code>first", "<code>second")
	safe(t, everyone)
	require.NotContains(t, everyone.body, "No event of this customer")
	shows("?to=2020-01-01", []string{"No event here matches"}, []string{"data-live"})
	b.get(anna+"/events?from=x").is(400, "from")
	b.get(anna+"/events/live?kind=usage").is(200, "second")

	const every = "/console/accounts/demo/sandbox/events"
	p := b.get(every).is(200, "first", "second", "limit reached", `href="`+anna+`"`, `data-live="`,
		anna+"/events?at=")
	safe(t, p)
	require.Less(t, strings.Index(p.body, "<code>second"), strings.Index(p.body, "<code>first"))
	b.get(every+"?kind=usage&unbilled=true").is(200, "second")
	b.get(every+"?kind=void").is(200, "No event here matches")
	b.get(every+"/live?kind=usage").is(200, "second")
	b.get(every+"?from=x").is(400, "from")

	const denied = "/console/accounts/demo/sandbox/denied"
	p = b.get(denied).is(200, "anna", "limit reached", "Denied checks")
	safe(t, p)
	b.get(b.firstLink(denied, anna+"/events[^\"]+")).is(200, "limit reached")
	b.get(denied+"?reason=no_subscription").is(200, "No check was denied")
	b.get(denied+"?from=x").is(400, "from")
	b.get("/console/accounts/demo/sandbox/overview").is(200, `id="denied"`)
}
