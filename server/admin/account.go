package admin

import (
	"crypto/sha256"
	"unicode"
	"unicode/utf8"

	"github.com/gofrs/uuid/v5"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
)

// actor is who an admin key's changes are recorded for.
const actor = "admin-key"

func newID() [16]byte { return uuid.Must(uuid.NewV7()) }

func newIDs(n int) []byte {
	ids := make([]byte, 0, 16*n)
	for range n {
		id := newID()
		ids = append(ids, id[:]...)
	}
	return ids
}

// accountName says that a name is 1–64 of a-z, 0-9 and '-', beginning with a letter or digit.
func accountName(name string) bool {
	if name == "" || len(name) > 64 || name[0] == '-' {
		return false
	}
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// createAccount is POST /accounts.
func (a *API) createAccount(x *server.Exchange) {
	c := billing.CreateAccount{ID: newID(), Actor: actor}
	var w walk
	if fault := body(x, &w, map[string]reader{"name": w.text(&c.Name)}); fault != nil {
		x.Refuse(*fault)
		return
	}
	if !accountName(c.Name) {
		x.Refuse(server.FaultFields.With(
			"name must be 1–64 of a-z, 0-9 and -, beginning with a letter or a digit"))
		return
	}
	result := a.propose(billing.KindCreateAccount, wire.Encode(nil, &c))
	if result.Outcome != engine.OutcomeDone {
		x.Refuse(server.FaultOf(result.Outcome))
		return
	}
	data := x.Begin()
	data.Open('{')
	data.UUID("id", c.ID)
	data.Text("name", c.Name)
	data.Close('}')
	x.End(201)
}

// listAccounts is GET /accounts.
func (a *API) listAccounts(x *server.Exchange) {
	a.read(x, func() *server.Fault {
		data := x.Begin()
		data.Open('[')
		for _, account := range a.machine.Accounts() {
			data.Open('{')
			data.UUID("id", account.ID)
			data.Text("name", account.Name)
			data.Time("createdAt", account.CreatedAt)
			data.Close('}')
		}
		data.Close(']')
		x.End(200)
		return nil
	})
}

var scopes = map[string]billing.Scope{
	"full": billing.ScopeFull, "read": billing.ScopeRead, "customer": billing.ScopeCustomer,
}

// longestLabel is the length of a key's label in characters.
const longestLabel = 80

// createKey is POST …/keys. The key is in this answer and nowhere else.
func (a *API) createKey(x *server.Exchange) {
	c := billing.CreateKey{ID: newID(), Actor: actor}
	var scope string
	var w walk
	fault := body(x, &w, map[string]reader{
		"scope": w.text(&scope), "label": w.text(&c.Label), "customer": w.text(&c.Customer),
	})
	if fault == nil {
		var known bool
		if c.Scope, known = scopes[scope]; !known {
			w.problem("scope", "must be full, read or customer")
		}
		if (c.Scope == billing.ScopeCustomer) != (c.Customer != "") {
			w.problem("customer", "must name the customer of a key with the scope customer, and of no other")
		}
		if utf8.RuneCountInString(c.Label) > longestLabel || !printable(c.Label) {
			w.problem("label", "must have at most 80 characters, none of them a control character")
		}
		fault = w.fault()
	}
	if fault != nil {
		x.Refuse(*fault)
		return
	}
	prefix := keyPrefixes[string(x.Param(1)) == "live"][c.Scope == billing.ScopeCustomer]
	key, err := server.MintKey(prefix)
	if err != nil {
		a.config.Log.Error("no key can be minted", "error", err)
		x.Refuse(server.FaultInternal)
		return
	}
	var ok bool
	if c.Env, ok = a.locate(x); !ok {
		return
	}
	c.Hash, c.Hint = sha256.Sum256([]byte(key)), key[:len(prefix)+4]
	result := a.propose(billing.KindCreateKey, wire.Encode(nil, &c))
	if result.Outcome != engine.OutcomeDone {
		x.Refuse(server.FaultOf(result.Outcome))
		return
	}
	data := x.Begin()
	data.Open('{')
	data.UUID("id", c.ID)
	data.Text("key", key)
	data.Text("scope", scope)
	data.Text("label", c.Label)
	data.Text("hint", c.Hint)
	data.Close('}')
	x.End(201)
}

// keyPrefixes are by environment (is it live?) and by holder (is it a customer?).
var keyPrefixes = map[bool]map[bool]string{
	false: {false: server.KeyPrefixSandbox, true: server.KeyPrefixCustomerSandbox},
	true:  {false: server.KeyPrefixLive, true: server.KeyPrefixCustomerLive},
}

func printable(text string) bool {
	for _, r := range text {
		if unicode.IsControl(r) {
			return false
		}
	}
	return utf8.ValidString(text)
}

// listKeys is GET …/keys.
func (a *API) listKeys(x *server.Exchange) {
	a.environment(x, func(env uint32) *server.Fault {
		data := x.Begin()
		data.Open('[')
		for _, key := range a.machine.Keys(env) {
			data.Open('{')
			data.UUID("id", key.ID)
			data.Text("scope", key.Scope.String())
			data.Text("label", key.Label)
			data.Text("hint", key.Hint)
			data.TextIf("customer", key.Customer)
			data.Time("createdAt", key.CreatedAt)
			data.Time("revokedAt", key.RevokedAt)
			data.Close('}')
		}
		data.Close(']')
		x.End(200)
		return nil
	})
}

// revokeKey is DELETE …/keys/{id}.
func (a *API) revokeKey(x *server.Exchange) {
	if id, ok := pathUUID(x, 2, "the key's id"); ok {
		a.carryOut(x, billing.KindRevokeKey, func(env uint32) wire.Fielder {
			return &billing.RevokeKey{Env: env, ID: id, Actor: actor}
		})
	}
}
