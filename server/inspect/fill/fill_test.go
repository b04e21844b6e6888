package fill

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"tollgate/server/inspect/tree"
)

// TestBodies: what a schema asks for, and nothing else, the same for the same run.
func TestBodies(t *testing.T) {
	f := New(IdentityOf("run_1", "Sign up as qa@acme.example, please."))
	of := func(schema string) string {
		root, err := tree.ParseJSON(schema)
		require.NoError(t, err)
		value, why := f.Body(root)
		if why != nil {
			return why.Rule
		}
		text, err := json.Marshal(value, json.Deterministic(true))
		require.NoError(t, err)
		return string(text)
	}
	one := func(property string) string {
		return of(`{"required":["x"],"properties":{"x":` + property + `,"y":{"type":"string"}}}`)
	}
	for schema, wanted := range map[string]string{
		`{"type":"string","enum":["b","a"]}`: `{"x":"b"}`,
		`{"const":7}`:                        `{"x":7}`,
		`{"type":"string","format":"email","example":"you@x.test"}`:       `{"x":"qa@acme.example"}`,
		`{"type":"string","example":"blue"}`:                              `{"x":"blue"}`,
		`{"type":"string"}`:                                               `{"x":"tollgate-37ddff8ee1"}`,
		`{"type":"string","maxLength":8}`:                                 `{"x":"tollgate"}`,
		`{"type":"string","minLength":21}`:                                `{"x":"tollgate-37ddff8ee1xx"}`,
		`{"type":"string","pattern":"^[a-z0-9]+$"}`:                       `{"x":"tollgate37ddff8ee1"}`,
		`{"type":"string","pattern":"^[0-9]{4}$"}`:                        `body_not_fillable`,
		`{"type":"string","pattern":"^[0-9]{4}$","example":"1234"}`:       `{"x":"1234"}`,
		`{"type":"string","format":"uri"}`:                                `{"x":"https://agents.example/tollgate-37ddff8ee1"}`,
		`{"type":"string","format":"password"}`:                           `password_wanted`,
		`{"type":["null","integer"],"minimum":3}`:                         `{"x":3}`,
		`{"type":"integer","exclusiveMinimum":3}`:                         `{"x":4}`,
		`{"type":"number","maximum":0.5}`:                                 `{"x":0.5}`,
		`{"type":"boolean"}`:                                              `{"x":false}`,
		`{"type":"boolean","default":true}`:                               `{"x":true}`,
		`{"type":"array","items":{"type":"string"}}`:                      `{"x":[]}`,
		`{"type":"array","minItems":2,"items":{"enum":["read"]}}`:         `{"x":["read","read"]}`,
		`{"oneOf":[{"type":"string","format":"password"},{"const":"b"}]}`: `{"x":"b"}`,
		`{"allOf":[{"required":["a"],"properties":{"a":{"const":1}}},
		  {"required":["b"],"properties":{"b":{"const":2}}}]}`: `{"x":{"a":1,"b":2}}`,
	} {
		require.Equal(t, wanted, one(schema), schema)
	}
	for schema, wanted := range map[string]string{
		`{"type":"object","required":["number"]}`: `payment_required`,
		`{"type":"integer"}`:                      `payment_required`,
		`{"example":"4111111111111111"}`:          `payment_required`,
		`{"type":"array","items":{}}`:             `{"credit_card":[]}`,
		`{"type":"array","minItems":1}`:           `payment_required`,
		`{"type":"boolean"}`:                      `{"credit_card":false}`,
		`{"const":"none"}`:                        `{"credit_card":"none"}`,
	} {
		got := of(`{"required":["credit_card"],"properties":{"credit_card":` + schema + `}}`)
		require.Equal(t, wanted, got, schema)
	}
	for name, wanted := range map[string]string{
		"work_email": `"qa@acme.example"`, "companyName": `"tollgate-37ddff8ee1"`,
		"captchaToken": "captcha", "password": "password_wanted", "phone_number": "phone",
		"invite_code": "approval", "otp": "email_code", "card_number": "payment_required",
	} {
		got := of(`{"required":["` + name + `"]}`)
		if wanted[0] == '"' {
			wanted = `{"` + name + `":` + wanted + `}`
		}
		require.Equal(t, wanted, got, name)
	}
	require.Equal(t, `{"acceptTerms":true}`,
		of(`{"required":["acceptTerms"],"properties":{"acceptTerms":{"type":"boolean"}}}`))
}
