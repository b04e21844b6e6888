package signup

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCommands: curl commands as texts write them.
func TestCommands(t *testing.T) {
	for text, wanted := range map[string]*Shown{
		"curl -X POST https://a.example/keys -d '{\"a\": \"b c\"}'\nmore": {
			Method: "POST", URL: "https://a.example/keys", Body: `{"a": "b c"}`,
		},
		"curl -s \\\n  --json \"{\\\"a\\\":1}\" /keys | jq .": {
			Method: "POST", URL: "/keys", Body: `{"a":1}`,
		},
		"curl --data-urlencode name=x --url=/keys": {
			Method: "POST", URL: "/keys", Body: "name=x", Form: true,
		},
		"curl -XPOST /keys -H 'Authorization: Bearer x'": {Method: "POST", URL: "/keys", Keyed: true},
		"curl /keys": {URL: "/keys"},
		"curl -X":    nil,
	} {
		words, _ := shellWords(text)
		require.Equal(t, wanted, curlRequest(words), text)
	}
}
