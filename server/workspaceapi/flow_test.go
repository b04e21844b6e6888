package workspaceapi

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNullTakesAway: in a change null takes away what a flow need not have, and is a wrong field
// where a flow needs one; in a new flow it is the same as nothing.
func TestNullTakesAway(t *testing.T) {
	n := start(t)
	c := n.signUp("")
	id := c.flow(`{` + flowText + `,"agent":"other","credential":"bearer",` +
		`"verification":{"url":"https://product.example/me","status":200,"contains":"ok"}}`)
	path := "/v1/flows/" + id
	for field, code := range map[string]string{
		"name": "invalid_field", "url": "invalid_field", "task": "invalid_field",
		"successCriteria": "invalid_field", "access": "invalid_field",
	} {
		a := c.call("PATCH", path, `{"`+field+`":null}`).is(400, code)
		require.Equal(t, field, a.at("field"))
	}
	a := c.call("PATCH", path, `{"verification":null}`).is(400, "invalid_flow_options")
	require.Equal(t, "credential", a.at("field"), "a credential needs a verification")
	require.EqualValues(t, 1, c.call("GET", path, "").at("flow", "version"), "nothing was changed")

	flow := c.call("PATCH", path, `{"credential":null,"agent":null}`).is(200, "").at("flow").(map[string]any)
	require.NotContains(t, flow, "credential")
	require.NotContains(t, flow, "agent")
	require.Equal(t, "ok", flow["verification"].(map[string]any)["contains"], "what is not named stays")
	flow = c.call("PATCH", path, `{"verification":null}`).is(200, "").at("flow").(map[string]any)
	require.NotContains(t, flow, "verification")
	require.Equal(t, "verification_missing", c.quote(id)["reason"])

	a = c.call("POST", "/v1/flows", `{`+flowText+`,"verification":null,"credential":null,"agent":null}`)
	flow = a.is(201, "").at("flow").(map[string]any)
	for _, name := range []string{"verification", "credential", "agent"} {
		require.NotContains(t, flow, name)
	}
}
