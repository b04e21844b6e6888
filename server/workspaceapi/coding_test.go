package workspaceapi

import (
	"bytes"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"
)

// TestCompressedBodies: the limit of 32,768 bytes counts what comes out, and a media type that is
// not looked at hides no coding.
func TestCompressedBodies(t *testing.T) {
	t.Parallel()
	n := start(t)
	send := func(coding, text string) answer {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := z.Write([]byte(text))
		require.NoError(t, err)
		require.NoError(t, z.Close())
		return n.send("POST", "/v1/signup", b.String(), "",
			map[string]string{"Content-Encoding": coding, "Content-Type": "text/plain"})
	}
	const body = `{"label":"compressed"}`
	pad := strings.Repeat(" ", bodyLimit-len(body))
	send("gzip", body).is(201, "")
	send("gzip", body+pad).is(201, "")
	send("gzip", body+pad+" ").is(413, "request_too_large")
	send("gzip", strings.Repeat(" ", 64<<20)).is(413, "request_too_large")
	send("zstd", body).is(400, "invalid_json")
	send("gzip, gzip", body).is(400, "invalid_json")
	refused := send("br", body).is(415, "unsupported_media_type")
	require.Equal(t, "gzip, zstd", refused.header.Get("Accept-Encoding"))
}
