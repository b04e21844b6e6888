package follower

import (
	"bytes"
	"compress/gzip"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/server/inspect/tree"
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
