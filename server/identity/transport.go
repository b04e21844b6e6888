package identity

import (
	"bytes"
	"fmt"
	"io"
	"net/http"

	"tollgate/server/provider/fetch"
)

// transport carries the requests of the OpenID Connect libraries over the guarded client: addresses
// in an issuer's documents are checked before they are dialled, and every answer is bounded.
// Redirects are answers.
type transport struct{ web *fetch.Client }

// maxAsked bounds a request's body: a token request has a code and a secret.
const maxAsked = 64 << 10

// RoundTrip makes a request.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	asked := &fetch.Request{Method: r.Method, URL: r.URL.String(), Header: r.Header}
	if r.Body != nil {
		body, err := io.ReadAll(io.LimitReader(r.Body, maxAsked))
		if closeErr := r.Body.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return nil, fmt.Errorf("identity: read a request: %w", err)
		}
		asked.Body = body
	}
	answer, err := t.web.Do(r.Context(), asked)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: answer.Status, Status: http.StatusText(answer.Status), Header: answer.Header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Body: io.NopCloser(bytes.NewReader(answer.Body)), ContentLength: int64(len(answer.Body)),
	}, nil
}

// client is the HTTP client of the libraries. It follows no redirect.
func client(web *fetch.Client) *http.Client {
	return &http.Client{
		Transport: transport{web},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
}
