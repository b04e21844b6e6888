package client

import (
	"bytes"
	"math/big"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"tollgate/server/scan"
)

// oracle is an event as json/v2 reads it.
type oracle struct {
	Key          *jsontext.Value `json:"eventIdempotencyKey"`
	Name         *jsontext.Value `json:"eventName"`
	OccurredAt   *jsontext.Value `json:"occurredAt"`
	Flow         *jsontext.Value `json:"flowId"`
	FeatureKey   *jsontext.Value `json:"featureKey"`
	FeatureID    *jsontext.Value `json:"featureId"`
	Customer     *jsontext.Value `json:"customerReferenceId"`
	CustomerID   *jsontext.Value `json:"customerId"`
	Subscription *jsontext.Value `json:"subscriptionId"`
	Entitlement  *jsontext.Value `json:"entitlementId"`
	Invoice      *jsontext.Value `json:"invoiceId"`
	Cost         *jsontext.Value `json:"costAmount"`
	Units        *jsontext.Value `json:"usageUnits"`
	Meta         *jsontext.Value `json:"meta"`
}

func FuzzEventAgreesWithJSONv2(f *testing.F) {
	const whole = `{"eventIdempotencyKey":"k","eventName":"tokens","occurredAt":"2026-01-31T15:00:00.5+01:00",` +
		`"customerReferenceId":"a","usageUnits":1.5e1,"costAmount":0,"meta":{"a":[1]},"flowId":"\u00e9"}`
	for _, text := range []string{
		whole, strings.Replace(whole, "1.5e1", "-1", 1), strings.Replace(whole, "usageUnits", "units", 1),
		strings.Replace(whole, `"k"`, `null`, 1), `[]`, `{}`, `{"meta":{"a":1,"a":2}}`, whole + `,`,
		strings.Replace(whole, `"flowId"`, `"eventName"`, 1), `{"usageUnits":1e400}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if bytes.Count(text, []byte("{"))+bytes.Count(text, []byte("[")) > scan.MaxDepth {
			return
		}
		var want oracle
		err := json.Unmarshal(text, &want, json.RejectUnknownMembers(true))
		var in ingest
		in.form.Reset(text)
		in.read(1, nil)
		fault := in.form.Leave()
		if err != nil {
			require.NotNil(t, fault, "%s: json/v2 refuses it: %v", text, err)
			return
		}
		if fault != nil {
			require.Equal(t, "validation_failed", fault.Code, "%s: %s", text, fault.Detail)
			return
		}
		sameText(t, want.Name, in.record.EventName)
		sameText(t, want.Key, in.record.KeyText)
		sameText(t, want.Flow, in.record.FlowID)
		sameText(t, want.FeatureKey, in.record.FeatureKey)
		sameText(t, want.Customer, in.record.Customer)
		if want.Units != nil && want.Units.Kind() == '0' {
			number, ok := new(big.Rat).SetString(string(*want.Units))
			require.True(t, ok)
			got, ok := new(big.Rat).SetString(in.record.Units.String())
			require.True(t, ok)
			require.Zero(t, number.Cmp(got))
		}
		if want.Meta != nil && want.Meta.Kind() == '{' {
			require.NoError(t, want.Meta.Compact(jsontext.PreserveRawStrings(true)))
			require.Equal(t, string(*want.Meta), string(in.record.Meta))
		}
	})
}

func sameText(t *testing.T, want *jsontext.Value, got []byte) {
	if want == nil || want.Kind() != '"' {
		require.Empty(t, got)
		return
	}
	text, err := jsontext.AppendUnquote(nil, *want)
	require.NoError(t, err)
	require.Equal(t, string(text), string(got))
}

func FuzzBatchNeverPanics(f *testing.F) {
	for _, text := range []string{`[{},{"a":1}]`, "{}\n{}", `[[1],{"a":"]"}]`, `[{"a":"\`, `[1 2]`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, media := range []string{mediaCloudEvents, mediaLines} { // must not panic
			var other ingest
			other.readBatch(1, media, text)
		}
		var in ingest
		fault := in.readBatch(1, "application/json", text)
		if fault == nil && len(text) > 0 && bytes.TrimLeft(text, " \t\r\n")[0] == '[' &&
			jsontext.Value(text).IsValid() {
			var items []jsontext.Value
			require.NoError(t, json.Unmarshal(text, &items))
			require.Len(t, in.faults, len(items))
		}
		if fault != nil && fault.Code == "malformed_json" && bytes.Count(text, []byte("[")) < 30 {
			value := jsontext.Value(text)
			require.False(t, value.IsValid() && value.Kind() == '[', "%s", text)
		}
	})
}
