package client

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/form"
)

// values are what a field may hold, right and wrong.
var values = []string{
	`"a"`, `"ada@example.com"`, `""`, `null`, `7`, `365`, `366`, `1.5`, `7e0`, `-1`, `1e30`,
	`0.0000000000001`, `true`, `[]`, `{}`, `{"a":{"b":[1]}}`, `{"a":1,"a":2}`, `"UPGRADE"`, `"\u0001"`,
	`"\ud800"`, `"é"`, `"2026-01-31T15:00:00.5+01:00"`, `"018f0000-0000-7000-8000-000000000001"`,
	`"00000000-0000-0000-0000-000000000000"`, `"` + strings.Repeat("x", 127) + `"`,
	`"` + strings.Repeat("é", 129) + `"`, `tru`, `"x`, ``,
}

// drawBody draws a body with some of these fields and a few others.
func drawBody(t *rapid.T, names []string) string {
	var b strings.Builder
	b.WriteString(rapid.SampledFrom([]string{"{", " {", "{", "{", "[", `"`}).Draw(t, "open"))
	names = append(slices.Clone(names), "nick", "n\\u0061me", "")
	for i := range rapid.IntRange(0, 9).Draw(t, "fields") {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + rapid.SampledFrom(names).Draw(t, "name") + `":`)
		b.WriteString(rapid.SampledFrom(values).Draw(t, "value"))
	}
	b.WriteString(rapid.SampledFrom([]string{"}", "} ", "}", "}", "", "}x", "]"}).Draw(t, "close"))
	return b.String()
}

// wordings are the texts that changed when the readers did.
var wordings = strings.NewReplacer("appears twice.", "appears more than once.")

// sameFault compares faults: status, code, and all that is wrong, in any order.
func sameFault(t *rapid.T, body string, want, got *server.Fault) {
	if want == nil || got == nil {
		require.Equal(t, want, got, body)
		return
	}
	require.Equal(t, want.Status, got.Status, body)
	require.Equal(t, want.Code, got.Code, "%s: %s / %s", body, want.Detail, got.Detail)
	problems := func(f *server.Fault) (all []server.FieldError) {
		for _, e := range f.Fields {
			if shown, found := strings.CutSuffix(e.Message, " is not a field of this request"); found {
				e.Message = "unknown field " + shown
			}
			e.Message, _, _ = strings.Cut(e.Message, ", did you mean ")
			all = append(all, e)
		}
		slices.SortFunc(all, func(a, b server.FieldError) int {
			return strings.Compare(a.Message, b.Message)
		})
		return all
	}
	require.Equal(t, problems(want), problems(got), body)
	if len(want.Fields) == 0 {
		require.Equal(t, wordings.Replace(want.Detail), got.Detail, body)
	}
}

// agree draws bodies for a reader and the one by hand; both fill a value of the same type.
func agree[T any](
	t *testing.T, names []string, hand, generated func(body []byte, v *T) *server.Fault,
) {
	rapid.Check(t, func(t *rapid.T) {
		body := drawBody(t, names)
		var want, got T
		fault := hand([]byte(body), &want)
		sameFault(t, body, fault, generated([]byte(body), &got))
		if fault == nil {
			require.Equal(t, want, got, body)
		}
	})
}

func reader[T any](fields func(*form.Reader, *T)) func([]byte, *T) *server.Fault {
	return func(body []byte, v *T) *server.Fault { return form.Read(body, v, fields) }
}

var eventFields = []string{
	"eventIdempotencyKey", "eventName", "occurredAt", "flowId", "featureKey", "featureId",
	"customerReferenceId", "customerId", "subscriptionId", "entitlementId", "invoiceId", "costAmount",
	"usageUnits", "meta",
}

// TestReadersAgreeWithThoseByHand: the generated readers and those on server/form take, refuse and
// fill in what the code by hand did that they replaced.
func TestReadersAgreeWithThoseByHand(t *testing.T) {
	t.Run("customer", func(t *testing.T) {
		agree(t, []string{
			"externalClientCustomerId", "customerReferenceId", "firstName", "lastName", "email",
			"phoneNumber", "address",
		}, handCustomer, func(body []byte, c *billing.CreateCustomer) *server.Fault {
			var request customerRequest
			fault := form.Read(body, &request, readCustomerRequest)
			*c = request.CreateCustomer
			return fault
		})
	})
	t.Run("change", func(t *testing.T) {
		agree(t, []string{"firstName", "lastName", "email", "phoneNumber", "address"}, handChange,
			reader(readCustomerChange))
	})
	t.Run("subscription", func(t *testing.T) {
		agree(t, []string{"planId", "customerReferenceId", "gracePeriod"}, handSubscription,
			reader(readSubscriptionRequest))
	})
	t.Run("plan change", func(t *testing.T) {
		agree(t, []string{"changeToPlanId", "changeType"}, handPlanChange,
			reader(readPlanChangeRequest))
	})
	t.Run("amendment", func(t *testing.T) {
		agree(t, []string{"usageUnits", "reason"}, handAmendment, reader(readEventAmendment))
	})
	t.Run("event", func(t *testing.T) {
		agree(t, eventFields, func(body []byte, r *billing.RecordUsage) *server.Fault {
			var in handEvent
			in.form.reset(body)
			fault := in.read(1, nil)
			if fault == nil {
				fault = in.form.leave()
			}
			*r = in.record
			r.Attempt = 1
			return fault
		}, func(body []byte, r *billing.RecordUsage) *server.Fault {
			var in ingest
			in.form.Reset(body)
			in.read(1, nil)
			*r = in.record
			r.Attempt = 1
			return in.form.Leave()
		})
	})
}

func BenchmarkReadSubscription(b *testing.B) {
	body := []byte(`{"planId":"team","customerReferenceId":"acme","gracePeriod":30}`)
	for name, read := range map[string]func([]byte, *billing.CreateSubscription) *server.Fault{
		"hand": handSubscription, "generated": reader(readSubscriptionRequest),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var c billing.CreateSubscription
				if read(body, &c) != nil {
					b.Fatal()
				}
			}
		})
	}
}

func BenchmarkReadEvent(b *testing.B) {
	body := []byte(`{"eventIdempotencyKey":"gen-7-000123","eventName":"output-tokens",` +
		`"customerReferenceId":"acme","featureKey":"output-tokens","usageUnits":1200,` +
		`"occurredAt":"2026-01-31T15:00:00Z"}`)
	b.Run("hand", func(b *testing.B) {
		b.ReportAllocs()
		var in handEvent
		for b.Loop() {
			in.form.reset(body)
			if in.read(1, nil) != nil || in.form.leave() != nil {
				b.Fatal()
			}
		}
	})
	b.Run("form", func(b *testing.B) {
		b.ReportAllocs()
		var in ingest
		for b.Loop() {
			in.form.Reset(body)
			if in.read(1, nil); in.form.Leave() != nil {
				b.Fatal()
			}
		}
	})
}
