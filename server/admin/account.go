package admin

import (
	"cmp"
	"crypto/sha256"
	"time"

	"github.com/gofrs/uuid/v5"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/form"
)

func newID() [16]byte { return uuid.Must(uuid.NewV7()) }

func newIDs(n int) []byte {
	ids := make([]byte, 0, 16*n)
	for range n {
		id := newID()
		ids = append(ids, id[:]...)
	}
	return ids
}

// accountName reports whether a name is 1–64 of a-z, 0-9 and '-', beginning with a letter or digit.
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

func (a *accounts) createAccount(x *server.Exchange) *server.Fault {
	c := billing.CreateAccount{ID: newID(), Actor: x.By()}
	var w walk
	if fault := body(x, &w, map[string]reader{"name": w.text(&c.Name)}); fault != nil {
		return fault
	}
	if !accountName(c.Name) {
		return server.FieldFault("name", server.FieldFormat,
			"must be 1–64 of a-z, 0-9 and -, beginning with a letter or a digit")
	}
	first, fault := a.once(x, 0, billing.KindCreateAccount, &c)
	if fault != nil {
		return fault
	}
	if first.Repeated {
		c.ID = first.First
	}
	return server.One(x, 201, &madeAccount{c.ID, c.Name}, writeMadeAccount)
}

// madeAccount is a new account.
//
//schema:answer admin MadeAccount
type madeAccount struct {
	ID   [16]byte `json:"id"`
	Name string   `json:"name" rule:"min=1,max=64"`
}

func (a *accounts) listAccounts(x *server.Exchange) *server.Fault {
	return a.read(x, func() *server.Fault {
		return server.List(x, a.machine.Accounts(), writeAccount)
	})
}

// showAccount is GET /accounts/{account}: what it holds of what it may hold.
func (a *accounts) showAccount(x *server.Exchange) *server.Fault {
	return a.read(x, func() *server.Fault {
		name := string(x.Param(0))
		use, bounds, known := a.machine.Use(name)
		if !known {
			return server.FaultOf(engine.OutcomeAccountUnknown)
		}
		return server.One(x, 200, &accountAnswer{
			name,
			held{use.Customers, bounds.Customers},
			held{use.Keys, bounds.Keys},
			held{use.Catalog, bounds.Catalog},
			held{use.Endpoints, bounds.Endpoints},
		}, writeAccountHoldings)
	})
}

// accountAnswer is what an account holds of the records that it may hold a limited number of.
//
//schema:answer admin AccountHoldings
type accountAnswer struct {
	Name      string `json:"name" rule:"min=1,max=64"`
	Customers held   `json:"holds.customers"`
	Keys      held   `json:"holds.keys"`
	Catalog   held   `json:"holds.catalog"`
	Endpoints held   `json:"holds.webhookEndpoints"`
}

// held is how many records of a kind there are, and may be.
//
//schema:answer admin Held
type held struct {
	Used  uint64 `json:"used"`
	Limit uint64 `json:"limit"`
}

var scopes = map[string]billing.Scope{
	"full": billing.ScopeFull, "read": billing.ScopeRead, "customer": billing.ScopeCustomer,
}

// maxLabel is the length of a key's label in characters.
const maxLabel = 80

// keyRequest is the body of POST …/keys.
//
//schema:described admin KeyRequest
type keyRequest struct {
	Scope string `json:"scope" rule:"required,oneof=full|read|customer"`
	Label string `json:"label" rule:"max=80"`
	// Customer is whose data a key with the scope customer reaches, and no other key.
	Customer string `json:"customer" rule:"min=1,max=128"`
}

// createKey is POST …/keys. The key is in this answer and nowhere else; see makeKey.
func (a *accounts) createKey(x *server.Exchange) *server.Fault {
	c := billing.CreateKey{ID: newID(), Actor: x.By()}
	var scope string
	var w walk
	fault := body(x, &w, map[string]reader{
		"scope": w.text(&scope), "label": w.text(&c.Label), "customer": w.text(&c.Customer),
	})
	if fault == nil {
		var known bool
		if c.Scope, known = scopes[scope]; !known {
			w.wrong(true, "scope", form.NotAllowed("full", "read", "customer"))
		}
		w.when((c.Scope == billing.ScopeCustomer) != (c.Customer != ""), "customer", server.FieldConflict,
			"must name the customer of a key with the scope customer, and of no other")
		if wrong, ok := form.CheckText([]byte(c.Label), 0, maxLabel); !ok {
			w.problem("label", wrong.Code, "%s", wrong.Text)
		}
		fault = w.fault()
	}
	if fault == nil {
		_, fault = server.OnceKey(x)
	}
	if fault == nil {
		c.Env, fault = a.locate(x)
	}
	if fault != nil {
		return fault
	}
	prefix := keyPrefixes[string(x.Param(1)) == "live"][c.Scope == billing.ScopeCustomer]
	key, fault := a.makeKey(x, prefix, &c)
	if fault != nil {
		return fault
	}
	made := madeKey{ID: c.ID, Key: key, Scope: scope, Label: c.Label, Hint: c.Hint}
	return server.One(x, 201, &made, writeMadeKey)
}

// Hours for which a key goes on that another one has replaced.
const (
	overlapHours    = 24
	maxOverlapHours = billing.MaxKeyOverlapMS / (60 * 60 * 1000)
)

// rollKey is POST …/keys/{id}/roll: a new key replaces one, which goes on for a time.
func (a *accounts) rollKey(x *server.Exchange, id [16]byte) *server.Fault {
	c := billing.CreateKey{ID: newID(), Replaces: id, Actor: x.By()}
	hours := uint32(overlapHours)
	var w walk
	fault := body(x, &w, map[string]reader{"overlapHours": w.whole(&hours)})
	if fault == nil {
		w.wrong(hours > maxOverlapHours, "overlapHours", form.Outside(0, maxOverlapHours))
		fault = w.fault()
	}
	if fault == nil {
		_, fault = server.OnceKey(x)
	}
	if fault != nil {
		return fault
	}
	var old billing.KeyView
	fault = a.environment(x, func(env uint32) *server.Fault {
		c.Env = env
		for _, k := range a.machine.Keys(env) {
			if k.ID == id { // also one that has ended: a repeated request is answered as the first
				old = k
				return nil
			}
		}
		return server.FaultOf(engine.OutcomeKeyUnknown)
	})
	if fault != nil {
		return fault
	}
	c.OverlapMS = int64(hours) * 60 * 60 * 1000
	prefix := keyPrefixes[string(x.Param(1)) == "live"][old.Scope == billing.ScopeCustomer]
	key, fault := a.makeKey(x, prefix, &c)
	if fault != nil {
		return fault
	}
	made := madeKey{
		ID: c.ID, Key: key, Scope: old.Scope.String(), Label: old.Label, Hint: c.Hint,
		ReplacedEndsAt: a.endOf(c.Env, id),
	}
	return server.One(x, 201, &made, writeMadeKey)
}

// endOf is when a key that was replaced ends, or has ended; 0 where this node cannot learn it now:
// the new key, which is shown once, is answered all the same.
func (a *accounts) endOf(env uint32, id [16]byte) int64 {
	if server.Fresh(a.reader, time.Now().Add(a.readTimeout)) {
		for _, k := range a.machine.Keys(env) {
			if k.ID == id {
				return min(k.EndsAt, cmp.Or(k.RevokedAt, k.EndsAt))
			}
		}
	}
	return 0
}

// madeKey is a new API key, with the key itself.
//
//schema:answer admin MadeKey
type madeKey struct {
	ID    [16]byte `json:"id"`
	Key   string   `json:"key" rule:"min=1"`
	Scope string   `json:"scope" rule:"min=1"`
	Label string   `json:"label" rule:"max=80"`
	Hint  string   `json:"hint" rule:"min=1"`
	// ReplacedEndsAt is when the key ends, or has ended, that this one replaces.
	ReplacedEndsAt int64 `json:"replacedEndsAt,omitzero" as:"time"`
}

// faultKeyLost answers a repeated request whose key cannot be shown again.
var faultKeyLost = server.NewFault(409, "key_not_shown",
	"The key was made, and cannot be shown again").With("The node's secretsKey was changed since. " +
	"Revoke the key, and make one with a new Idempotency-Key.")

// makeKey makes the key that a command is about, and carries it out. Without an Idempotency-Key the
// key is random, and it cannot be shown again. With one it is derived from its id and the node's
// own secret, so that a repeated request shows the key of the first: the state holds its hash only.
func (a *accounts) makeKey(
	x *server.Exchange, prefix string, c *billing.CreateKey,
) (key string, fault *server.Fault) {
	derive := func() string {
		return server.DeriveKey(prefix, a.vault.Derive(c.Env, "API key", c.ID))
	}
	if once, _ := server.OnceKey(x); len(once) > 0 {
		key = derive()
	} else {
		key = server.MintKey(prefix)
	}
	c.Hash, c.Hint = sha256.Sum256([]byte(key)), key[:len(prefix)+4]
	first, fault := a.once(x, c.Env, billing.KindCreateKey, c)
	if fault != nil || !first.Repeated {
		return key, fault
	}
	c.ID = first.First
	key = derive()
	c.Hash, c.Hint = sha256.Sum256([]byte(key)), key[:len(prefix)+4]
	return key, a.read(x, func() *server.Fault {
		for _, made := range a.machine.Keys(c.Env) {
			if made.ID == c.ID && made.Hash == c.Hash {
				return nil
			}
		}
		return faultKeyLost
	})
}

// keyPrefixes are by environment (is it live?) and by holder (is it a customer?).
var keyPrefixes = map[bool]map[bool]string{
	false: {false: server.KeyPrefixSandbox, true: server.KeyPrefixCustomerSandbox},
	true:  {false: server.KeyPrefixLive, true: server.KeyPrefixCustomerLive},
}

func (a *accounts) listKeys(x *server.Exchange, env uint32) *server.Fault {
	return server.List(x, a.machine.KeysUsed(env, a.nowMS()), writeKey)
}

func (a *accounts) revokeKey(x *server.Exchange, id [16]byte) *server.Fault {
	c := billing.RevokeKey{ID: id, Actor: x.By()}
	return a.carryOut(x, billing.KindRevokeKey, &c, &c.Env)
}
