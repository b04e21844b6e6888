package workspaceapi

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/workspace"
)

// TestErrorsAreDescribed: every code stands in the published document with its status, at an
// operation that answers it, and no operation names a code that there is not. That what is answered
// is what is described is seen by every test of this package, which validates each answer.
func TestErrorsAreDescribed(t *testing.T) {
	n := start(t)
	var document struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct {
				Description string
				Content     map[string]struct {
					Schema struct {
						Ref        string `json:"$ref"`
						Properties map[string]struct{ Enum []string }
					}
				}
			}
		}
		Components struct {
			Schemas map[string]struct {
				Properties map[string]struct{ Enum []string }
			}
		}
	}
	require.NoError(t, json.Unmarshal(n.published(), &document))
	described := map[string]bool{}
	for path, methods := range document.Paths {
		for method, operation := range methods {
			for status, response := range operation.Responses {
				if status < "400" || status == "default" {
					continue
				}
				schema := response.Content["application/json"].Schema
				codes := schema.Properties["error"].Enum
				if schema.Ref != "" {
					name := schema.Ref[strings.LastIndex(schema.Ref, "/")+1:]
					codes = document.Components.Schemas[name].Properties["error"].Enum
				}
				require.NotEmpty(t, codes, "%s %s %s", method, path, status)
				for _, code := range codes {
					described[code] = true
					require.Equal(t, status, strconv.Itoa(statusOf(code)), code)
				}
				require.NotContains(t, response.Description, ": \n", "%s %s %s", method, path, status)
			}
		}
	}
	// account_not_found is the operator's, authentication_not_configured that of the pages to sign in.
	for _, code := range slices.Sorted(maps.Keys(errorTable)) {
		switch code {
		case "account_not_found", "authentication_not_configured", "alerts_claim_required":
		default:
			require.True(t, described[code], code)
		}
	}
	for _, o := range [][2]string{{"/v1/signup", "post"}, {"/approve/{token}", "get"}} {
		require.Contains(t, document.Paths[o[0]][o[1]].Responses["503"].Description, "workspace_busy", o)
	}
	operations := map[string]bool{}
	for _, r := range n.api.routes() {
		operations[r.Operation] = true
	}
	for operation := range operationErrors {
		require.True(t, operations[operation], operation)
	}
	payment := document.Components.Schemas["PaymentRequired"].Properties
	for _, name := range []string{
		"next_action", "approval_url", "poll_url", "reason", "purchase", "required", "balance",
	} {
		require.Contains(t, payment, name)
	}
}

// TestWhatAFlowSaysIsExplained: what each field of a flow and of its quote means, and each value
// that it may have, in the description of the field and for agents.
func TestWhatAFlowSaysIsExplained(t *testing.T) {
	n := start(t)
	agents := strings.Join(strings.Fields(string(n.send("GET", "/llms.txt", "", "", nil).raw)), " ")
	var document any
	require.NoError(t, json.Unmarshal(n.published(), &document))
	described := map[string]string{}
	var walk func(any)
	walk = func(node any) {
		switch node := node.(type) {
		case map[string]any:
			properties, _ := node["properties"].(map[string]any)
			for name, property := range properties {
				text, err := json.Marshal(property)
				require.NoError(t, err)
				described[name] += string(text)
			}
			for _, inner := range node {
				walk(inner)
			}
		case []any:
			for _, inner := range node {
				walk(inner)
			}
		}
	}
	walk(document)
	rows := []struct{ field, value, about, forAgents string }{
		{"access", "public", ": the agent signs up, or needs no account", " (the agent signs up, or needs no account)"},
		{"access", "test_account", ": it signs in with the test credentials", " (it signs in with what the owner has stored"},
		{"url", "", "what this service calls, without credentials, or with the key", "this service calls url without credentials"},
		{"status", "", "any 2xx where it is left out", "the status is equal (any 2xx where it is left out)"},
		{"contains", "", "a text that the right answer contains", "the body contains the text"},
		{"contains", "{run_id}", " stands for the run's id, here and in task", ", in task and contains, stands for the run's id"},
		{"credential", "bearer", "", ", token or x-api-key. The agent is to obtain a key"},
		{"credential", "two wrong keys", " must be refused there", ", the real one, none. The real key must be accepted"},
		{"credential", "", "POST /v1/flows/{flow_id}/confirm-signup", "The owner confirms once that an agent may sign up"},
		{"reason", "no_agent", ": the flow's agent is not configured", " (the flow's agent is not configured)"},
		{"reason", "verification_missing", ": the flow has none", " (the flow has none)"},
		{"reason", "verification_open", ": without a key, or with a wrong one, its verification gave the right answer", " (without a key, or with a wrong one,"},
		{"reason", "signup_not_confirmed", ": its owner has not said that an agent may", " (the owner has not said"},
		{"reason", "test_access_missing", ": no test credentials are stored", " (no test credentials are stored"},
	}
	called := [][2]string{
		{"refused", "401 or 403; of wrong keys: both got 401 or 403"},
		{"unclear", "another answer than the right one"},
		{"accepted", "the right answer"},
		{"unknown", "none, 429 or 5xx; of wrong keys: to either"},
	}
	for _, c := range called {
		for _, field := range []string{"noKey", "wrongKey"} {
			rows = append(rows, struct{ field, value, about, forAgents string }{
				field, c[0], ": " + c[1], " (" + c[1],
			})
		}
	}
	explained := map[string]bool{}
	for _, row := range rows {
		explained[row.value] = true
		require.Contains(t, agents, row.value+row.forAgents)
		if row.about != "" {
			require.Contains(t, described[row.field], row.value+row.about, row.field)
		}
	}
	for reason := workspace.UnreadyNoAgent; reason <= workspace.UnreadyTestAccessMissing; reason++ {
		require.True(t, explained[reason.String()], reason)
	}
	for _, name := range workspace.CalledUnknown.Names() {
		require.True(t, explained[name], name)
	}
}
