package follower

import (
	"bytes"
	"compress/gzip"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"tollgate/server/inspect/tree"
	"tollgate/server/provider/runner"
)

// bombed is eight megabytes of zeroes in a small gzip.
var bombed = func() []byte {
	var b bytes.Buffer
	w, block := gzip.NewWriter(&b), make([]byte, 1<<20)
	for range 8 {
		if _, err := w.Write(block); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}()

// TestBodies: what a schema asks for, and nothing else, the same for the same run.
func TestBodies(t *testing.T) {
	f := newFiller(&runner.Task{RunID: "run_1", Task: "Sign up as qa@acme.example, please."})
	of := func(schema string) string {
		root, err := tree.ParseJSON(schema)
		require.NoError(t, err)
		value, why := f.body(root)
		if why != nil {
			return why.rule
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

// TestKeysInAnswers: by what the schema says, by what keys are called, by how they look.
func TestKeysInAnswers(t *testing.T) {
	for text, wanted := range map[string]string{
		`{"token":"token-12345","api_key":"key-123456"}`:       "key-123456",
		`{"data":{"apiKey":{"id":"k1","value":"v-12345678"}}}`: "v-12345678",
		`{"keys":[{"secret":"s-12345678"}]}`:                   "s-12345678",
		`{"id":"user_123","result":"sk_live_0123456789ab"}`:    "sk_live_0123456789ab",
		`{"key":"short"}`:                                           "",
		`{"key":"two words here"}`:                                  "",
		`{"token":"https://product.example/confirm"}`:               "",
		`{"claim_token":"claim-123456","code":"sc_ABCDEFGHIJKLMN"}`: "",
		`{"wanted":"w-12345678","key":"k-12345678"}`:                "w-12345678",
	} {
		root, err := tree.ParseJSON(text)
		require.NoError(t, err)
		key, _ := credentialIn(root, []string{"wanted"})
		require.Equal(t, wanted, key, text)
	}
}
