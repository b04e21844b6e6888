package workspaceapi

import (
	"crypto/sha256"
	"net/netip"

	"tollgate/engine"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/form"
)

// Longest texts, in characters.
const (
	maxLabel    = 80
	maxNote     = 2000
	maxFeedback = 2000
)

// signupRequest makes a workspace.
//
//schema:described workspaceapi SignupRequest
type signupRequest struct {
	Label string `json:"label" rule:"required,min=1,max=80"`
	// Scopes are what its key may do, out of read, write and run; everything where there are none.
	Scopes []string `json:"scopes"`
}

// signedUp is a new workspace, with what is shown once.
//
//schema:answer workspaceapi SignedUp
type signedUp struct {
	ID        [16]byte    `json:"workspace" id:"markWorkspace"`
	Key       string      `json:"key" rule:"min=1"`
	ClaimCode string      `json:"claimCode" rule:"min=1"`
	Claimed   bool        `json:"claimed"`
	Limits    localLimits `json:"limits" ref:"Limits"`
}

func (m *Members) signUp(x *server.Exchange) *server.Fault {
	b := open(x, false)
	label := b.text("label", 1, maxLabel)
	scopes := b.scopes()
	if refused := b.close(); refused != nil {
		return refused
	}
	key, code := server.MintKey(server.KeyPrefixWorkspace), server.MintKey(server.KeyPrefixClaim)
	c := &workspace.SignUp{
		ID: mint(), KeyID: mint(), KeyHash: sha256.Sum256([]byte(key)),
		ClaimHash: sha256.Sum256([]byte(code)), Scopes: scopes, Label: label,
	}
	c.Source, c.Wider, c.Network = server.Sources(server.ClientAddress(x.Ctx, m.proxies))
	if fault := m.do(x, workspace.KindSignUp, c); fault != nil {
		return fault
	}
	writeSignedUp(x.BeginBare(), &signedUp{
		ID: c.ID, Key: key, ClaimCode: code, Limits: m.localLimits(0),
	})
	return x.EndBare(201)
}

// scopes reads the optional field; omitted means all.
func (b *body) scopes() workspace.Scopes {
	if !b.has("scopes") {
		return workspace.ScopesAll
	}
	list, ok := b.fields["scopes"].([]any)
	var scopes workspace.Scopes
	for _, item := range list {
		name, _ := item.(string)
		scope, known := workspace.ParseScope(name)
		scopes, ok = scopes|scope, ok && known
	}
	b.refuse(!ok || scopes == 0, "invalid_field", "scopes")
	return scopes
}

// networkText is the network that a workspace was signed up from; empty where it is not known.
func networkText(network [16]byte) string {
	ip, bits := netip.AddrFrom16(network).Unmap(), 24
	if ip.Is6() {
		bits = 48
	}
	if network == ([16]byte{}) {
		return ""
	}
	return netip.PrefixFrom(ip, bits).String()
}

// localLimits are the limits of a workspace that has used so many of these runs today.
func (m *Members) localLimits(used uint32) localLimits {
	maximum := m.machine.Policy().LocalRunsPerDay
	return localLimits{
		Limited: used >= maximum, Window: "day", Limit: maximum, Used: used,
		Remaining: maximum - min(maximum, used), ResetsAt: workspace.DayEnd(m.now()),
	}
}

func (m *Members) revokeSelf(x *server.Exchange) *server.Fault {
	fault := fieldless(x)
	if fault == nil {
		fault = m.do(x, workspace.KindRevokeKey,
			&workspace.RevokeKey{Workspace: tenant(x).Workspace, ID: tenant(x).KeyID})
	}
	if fault != nil {
		return fault
	}
	return x.BareObject(200, func(j *server.JSON) { j.Bool("revoked", true) })
}

func (m *Members) startLocal(x *server.Exchange) *server.Fault {
	if fault := fieldless(x); fault != nil {
		return fault
	}
	c := &workspace.StartLocalRun{Workspace: tenant(x).Workspace, ID: mint()}
	switch r := m.propose(x.Flow(), workspace.KindStartLocalRun, c); r.Outcome {
	case engine.OutcomeDone:
		return m.answerLocal(x, c.ID, 201)
	case engine.OutcomeRunLimit:
		return m.retry(no("run_limit_reached"), r.Value).Saying("The runs that this version of the " +
			"local tool may report today are used. Upgrade it: later versions report no runs here, and have " +
			"no such limit.")
	default:
		return m.refusal(r)
	}
}

func (m *Members) answerLocal(x *server.Exchange, id [16]byte, status int) *server.Fault {
	return m.read(x, func() *server.Fault {
		v, ok := m.machine.Run(tenant(x).Workspace, id)
		account, _ := m.machine.Account(tenant(x).Workspace, m.now())
		if !ok {
			return no("not_found")
		}
		return x.BareObject(status, func(j *server.JSON) {
			j.Name("run")
			writeRun(j, &v)
			j.Name("limits")
			writeLimits(j, new(m.localLimits(account.LocalToday)))
		})
	})
}

func (m *Members) finishLocal(x *server.Exchange, id [16]byte) *server.Fault {
	b := open(x, false)
	outcome, known := map[string]workspace.RunOutcome{
		"passed": workspace.OutcomePassed, "blocked": workspace.OutcomeBlocked,
		"inconclusive": workspace.OutcomeInconclusive,
	}[b.text("outcome", 1, 20)]
	if !known {
		b.mistake("outcome", form.NotAllowed("passed", "blocked", "inconclusive"))
	}
	fault := b.close()
	if fault == nil {
		fault = m.do(x, workspace.KindFinishLocalRun,
			&workspace.FinishLocalRun{Workspace: tenant(x).Workspace, ID: id, Outcome: outcome})
	}
	if fault != nil {
		return fault
	}
	return m.answerLocal(x, id, 200)
}

// decoded reads a reply of the state machine.
func decoded(value []byte, v wire.Fielder) bool { return wire.Decode(value, v) == nil }
