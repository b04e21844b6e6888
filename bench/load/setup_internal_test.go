package load

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// TestABatchThatIsNotAcceptedQuotesTheFirstRefusal: whoever reads the error learns the cause, such
// as a full disk, though later tries were refused for something else.
func TestABatchThatIsNotAcceptedQuotesTheFirstRefusal(t *testing.T) {
	const full, busy = `{"error":{"message":"the disk is full"}}`, `{"error":{"message":"busy"}}`
	items := func(one string) string { return `{"results":[{"index":0,"status":201},` + one + `]}` }
	refused := items(`{"index":1,"status":503,"message":"the disk is full"}`)
	type answer struct {
		status int
		body   string
	}
	for _, c := range []struct {
		first, later answer
		want         []string
	}{
		{answer{503, full}, answer{429, busy}, []string{"2 of 2 events", "503 " + full}},
		{answer{200, refused}, answer{503, busy}, []string{
			"1 of 2 events", `event 1: "status":503,"message":"the disk is full"`,
		}},
		{answer{200, "nonsense"}, answer{200, refused}, []string{"event 0: nonsense"}},
		{answer{503, busy}, answer{400, full}, []string{"400 " + full}},
	} {
		synctest.Test(t, func(t *testing.T) {
			here, there := net.Pipe()
			go func() {
				for answer, in := c.first, bufio.NewReader(there); ; answer = c.later {
					r, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					if _, err = io.Copy(io.Discard, r.Body); err == nil {
						_, err = fmt.Fprintf(there, "HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s",
							answer.status, len(answer.body), answer.body)
					}
					if err != nil {
						return
					}
				}
			}()
			conn := newConnection("pipe")
			conn.conn = here
			conn.reader.Reset(here)
			r := &Run{}
			err := r.insist(conn, []byte("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"), 2)
			for _, text := range c.want {
				require.ErrorContains(t, err, text)
			}
			require.NotContains(t, err.Error(), "busy")
			require.NoError(t, conn.close())
		})
	}
}
