package workspaceapi

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"

	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/provider/fetch"
	"tollgate/server/provider/runner"
	"tollgate/server/vault"
)

// accessPurpose derives the key under which test credentials are sealed.
const accessPurpose = "tollgate test credentials"

// accessPlace is what test credentials are sealed for: those of one workspace and host open for no
// other.
func accessPlace(ws [16]byte, host string) string {
	return idText(markWorkspace, ws) + " " + host
}

// storedAccess are test credentials as they are sealed.
type storedAccess struct {
	Username string `json:"username"`
	Password string `json:"password"`
	Note     string `json:"note,omitzero"`
}

// secrets are what an agent must not repeat: both of the credentials, and what in the note is more
// than plain words.
func (s *storedAccess) secrets() []string {
	return append(answerSecrets(s.Note), s.Username, s.Password)
}

// errAccess means that a run has no credentials to sign in with.
var errAccess = fmt.Errorf("%w: no test credentials are stored", runner.ErrUnavailable)

// account is what the run signs in with at its flow's host; nil where its flow is public. It is
// known to the scrubber from then on.
func (h *held) account() (*runner.Account, error) {
	if h.flow.Access != "test_account" {
		return nil, nil
	}
	sealed := h.config.Machine.TestAccess(h.run.Workspace, h.flow.Host)
	if sealed == nil {
		return nil, errAccess
	}
	account, _ := h.config.Machine.Account(h.run.Workspace, h.config.Machine.Stamp())
	stored, err := openAccess(h.access, account.ID, h.flow.Host, sealed)
	if err != nil {
		return nil, err
	}
	h.addSecrets(stored.secrets()...)
	return &runner.Account{
		Host: h.flow.Host, Username: stored.Username, Password: stored.Password, Note: stored.Note,
	}, nil
}

func openAccess(v *vault.Vault, ws [16]byte, host string, sealed []byte) (
	stored storedAccess, err error,
) {
	text, err := v.Open(0, accessPlace(ws, host), sealed)
	if err == nil && json.Unmarshal([]byte(text), &stored) != nil {
		err = errors.New("they are none") // the error of json may repeat them
	}
	if err != nil {
		return stored, fmt.Errorf("%w: test credentials: %w", runner.ErrUnavailable, err)
	}
	return stored, nil
}

// hostNamed reads a host as flows' urls have it: small letters, and its port where that is not the
// scheme's own.
func hostNamed(text string) (host string, ok bool) {
	scheme := "https://"
	if strings.HasSuffix(text, ":80") {
		scheme = "http://"
	}
	u, err := url.Parse(scheme + text)
	if err != nil || u.Host != text || u.User != nil {
		return "", false
	}
	host = fetch.HostOf(u.String())
	return host, host != ""
}

// accessHost is the host whose test credentials a flow's runs get; empty where it is public.
func accessHost(d *workspace.FlowDocument) string {
	if d.Access != "test_account" {
		return ""
	}
	return fetch.HostOf(d.URL)
}

// accessOf reads the host of a request's path.
func accessOf(x *server.Exchange) (string, *server.Fault) {
	host, ok := hostNamed(string(x.Param(0)))
	if !ok {
		return "", badField("invalid_field", "host").Saying("host must be a host name, such as " +
			"app.example.com, with its port where it has one. Nothing was changed.")
	}
	return host, nil
}

// setAccess is PUT /v1/test-access/{host}: a person's alone.
func (f *Flows) setAccess(x *server.Exchange) *server.Fault {
	host, fault := accessOf(x)
	if fault != nil {
		return fault
	}
	b := open(x, false)
	stored := storedAccess{
		Username: b.text("username", 1, maxUsername),
		Password: b.text("password", 1, maxPassword),
	}
	if b.has("note") {
		stored.Note = b.text("note", 0, maxAccessNote)
	}
	c, err := f.sealAccess(tenant(x), host, &stored, b)
	fault = b.close()
	switch {
	case err != nil:
		return f.unsealed(err)
	case fault == nil:
		// Of what the form holds no hash is kept, since a password may be guessed by one.
		fault = f.actOnce(x, c.Workspace, workspace.KindSetTestAccess, c, host)
	}
	if fault != nil {
		return fault
	}
	return f.listAccess(x)
}

// sealAccess makes the command that stores test credentials; those that are too long are what is
// wrong with the body.
func (f *Flows) sealAccess(of *workspace.Principal, host string, stored *storedAccess, b *body) (
	c *workspace.SetTestAccess, err error,
) {
	c = &workspace.SetTestAccess{Workspace: of.Workspace, Host: host}
	text, err := json.Marshal(stored, json.Deterministic(true))
	if err != nil {
		return c, errors.New("they are not text") // the error of json may repeat them
	}
	if len(text) > workspace.MaxTestAccessBytes {
		b.fail(badField("invalid_field", "password").Saying(fmt.Sprintf(
			"Together they may have %d bytes. Nothing was changed.", workspace.MaxTestAccessBytes)))
		return c, nil
	}
	c.Sealed = f.access.Seal(0, accessPlace(of.ID, host), string(text))
	return c, nil
}

// How long test credentials may be, in characters.
const (
	maxUsername   = 255
	maxPassword   = 500
	maxAccessNote = 500
)

// removeAccess is DELETE /v1/test-access/{host}: a person's alone.
func (f *Flows) removeAccess(x *server.Exchange) *server.Fault {
	host, fault := accessOf(x)
	if fault == nil {
		c := &workspace.RemoveTestAccess{Workspace: tenant(x).Workspace, Host: host}
		fault = f.actAsOwner(x, c.Workspace, workspace.KindRemoveTestAccess, c)
	}
	if fault != nil {
		return fault
	}
	return f.listAccess(x)
}

// listAccess is GET /v1/test-access: the hosts, and never what is stored for them.
func (f *Flows) listAccess(x *server.Exchange) *server.Fault {
	return f.read(x, func() *server.Fault {
		return x.BareObject(200, func(j *server.JSON) {
			writeAll(j, "testAccess", f.machine.TestAccesses(tenant(x).Workspace), writeTestAccess)
			null(j, "next_cursor")
		})
	})
}

func (f *Flows) accessRoutes() []server.Route {
	listed := func(about string) func(*server.Route) {
		return gives(200, about, server.Must("testAccess", server.ArrayOf(
			server.AnswerSchema[workspace.AccessView]())),
			server.Must("next_cursor", server.OrNull(text)))
	}
	return []server.Route{
		row("GET", "/v1/test-access", "listTestAccess",
			"The hosts for which test credentials are stored: a person", anyScope, f.listAccess, signedIn,
			listed("By host; what is stored is never shown")),
		row("PUT", "/v1/test-access/{host}", "setTestAccess",
			"Store what runs sign in with at a host, in place of what was stored: a person", anyScope,
			f.setAccess, signedIn, takes(server.Must("username", server.TextSchema(1, maxUsername)),
				server.Must("password", server.TextSchema(1, maxPassword)),
				server.May("note", server.TextSchema(0, maxAccessNote))), listed("Stored; never shown again")),
		row("DELETE", "/v1/test-access/{host}", "removeTestAccess",
			"Forget what runs sign in with at a host: a person", anyScope, f.removeAccess, signedIn,
			listed("Forgotten")),
	}
}
