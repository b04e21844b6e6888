package admin_test

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
)

// browser opens one page after the other and sends its form, as a browser without scripts does.
type browser struct {
	t       *testing.T
	http    *http.Client
	address string
	page    string
	status  int
}

func newBrowser(t *testing.T) *browser {
	b := &browser{t: t, http: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	t.Cleanup(b.http.CloseIdleConnections)
	return b
}

func (b *browser) take(response *http.Response, err error) {
	b.t.Helper()
	require.NoError(b.t, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(b.t, err)
	require.NoError(b.t, response.Body.Close())
	b.page, b.status = string(text), response.StatusCode
}

func (b *browser) open(address string) {
	b.t.Helper()
	b.address = address
	b.take(b.http.Get(address))
	b.is(200)
}

// press sends the page's form: its hidden fields, and what the payer chose.
func (b *browser) press(choice url.Values) *browser {
	b.t.Helper()
	for _, input := range b.inputs() {
		if input["type"] == "hidden" {
			choice.Set(input["name"], input["value"])
		}
	}
	b.take(b.http.PostForm(b.address, choice))
	return b
}

func (b *browser) is(status int) {
	b.t.Helper()
	require.Equal(b.t, status, b.status, b.page)
}

// inputs are the page's fields.
func (b *browser) inputs() (all []map[string]string) {
	b.t.Helper()
	page, err := html.Parse(strings.NewReader(b.page))
	require.NoError(b.t, err)
	for node := range page.Descendants() {
		switch node.Data {
		case "input", "select", "textarea", "button":
			attributes := map[string]string{}
			for _, a := range node.Attr {
				attributes[a.Key] = a.Val
			}
			all = append(all, attributes)
		}
	}
	return all
}

// fields are the names of what the page's forms send.
func (b *browser) fields() (names []string) {
	for _, input := range b.inputs() {
		if input["name"] != "" {
			names = append(names, input["name"])
		}
	}
	return names
}

// lockedBuffer collects what several goroutines write.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
