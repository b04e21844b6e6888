package workspace

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
	require.NoError(t, json.Unmarshal(n.api.document, &document))
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

// TestWhatAFlowSaysIsExplained, in the document and for agents.
func TestWhatAFlowSaysIsExplained(t *testing.T) {
	n := start(t)
	for _, text := range []string{
		string(n.api.document), string(n.send("GET", "/llms.txt", "", "", nil).raw),
	} {
		for _, name := range []string{
			"{run_id}", "test_account", "x-api-key", "two wrong keys", "verification_open",
			"verification_missing", "signup_not_confirmed", "test_access_missing", "no_agent", "unclear",
		} {
			require.Contains(t, text, name)
		}
	}
}
