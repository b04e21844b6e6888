package workspaceapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"time"

	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/provider/fetch"
)

// quoteMark begins a fingerprint, which is valid until the end of the next day. After it come the
// instant at which it expires, in base 36, and an HMAC-SHA256 of everything quoted.
const (
	quoteMark = "q1."
	quoteLife = 24 * time.Hour
)

// fingerprint signs a quote: the flow's version, price, credits, agent and limits.
func (f *Flows) fingerprint(
	v *workspace.FlowView, agent Agent, p *workspace.SetPolicy, expires int64,
) string {
	h := hmac.New(sha256.New, f.quoteKey[:])
	h.Write([]byte("tollgate quote"))
	h.Write(v.ID[:])
	cents, credits := p.Price(agent)
	for _, n := range []uint64{
		uint64(v.Version), uint64(cents), uint64(credits), uint64(p.WallMS),
		uint64(p.HumanMS), uint64(expires),
	} {
		h.Write(binary.BigEndian.AppendUint64(nil, n))
	}
	h.Write([]byte(agent.String()))
	return quoteMark + strconv.FormatInt(expires, 36) + "." +
		base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// wellFormedQuote returns when a fingerprint expires; false if it is not well-formed.
func wellFormedQuote(text string) (expires int64, ok bool) {
	rest, ok := strings.CutPrefix(text, quoteMark)
	if !ok {
		return 0, false
	}
	when, mac, ok := strings.Cut(rest, ".")
	expires, err := strconv.ParseInt(when, 36, 64)
	raw, err2 := base64.RawURLEncoding.DecodeString(mac)
	return expires, ok && err == nil && err2 == nil && len(raw) == sha256.Size
}

// quoted reports whether a fingerprint matches the present quote.
func (f *Flows) quoted(
	text string, v *workspace.FlowView, agent Agent, p *workspace.SetPolicy,
) bool {
	expires, ok := wellFormedQuote(text)
	return ok && f.now() < expires &&
		hmac.Equal([]byte(text), []byte(f.fingerprint(v, agent, p, expires)))
}

// getQuote is GET /v1/flows/{flow_id}/quote. It first calls the flow's verification if its last
// finding is missing, old or unclear.
func (f *Flows) getQuote(x *server.Exchange, id [16]byte) *server.Fault {
	if !f.fresh() {
		return no("workspace_busy")
	}
	v, known := f.machine.Flow(tenant(x).Workspace, id)
	switch {
	case !f.current(x):
		return no("invalid_key")
	case !known:
		return no("not_found")
	}
	account, _ := f.machine.Account(tenant(x).Workspace, f.now())
	if f.verifier != nil && v.PreflightAged(f.now()) {
		leave := f.calling.take(preflightPlaces, tenant(x).Workspace, account.Claimed)
		if leave == nil {
			return no("runner_busy")
		}
		f.preflight(tenant(x).Workspace, &v)
		leave()
		if v, known = f.machine.Flow(tenant(x).Workspace, id); !known {
			return no("not_found")
		}
		account, _ = f.machine.Account(tenant(x).Workspace, f.now())
	}
	return f.answerQuote(x, &v, &account)
}

func (f *Flows) answerQuote(
	x *server.Exchange, v *workspace.FlowView, account *workspace.AccountView,
) *server.Fault {
	policy, unready := f.machine.Policy(), v.Unready
	agent, hasAgent := f.agentNamed(v.Agent)
	if !hasAgent {
		unready = workspace.UnreadyNoAgent
	}
	// The same until the day ends, so that a start that is sent again with a fresh quote of the
	// same is the same request.
	expires := workspace.DayEnd(f.now()) + quoteLife.Milliseconds()
	q := quote{
		Fingerprint: f.fingerprint(v, agent, &policy, expires), ExpiresAt: expires,
		Ready: unready == workspace.UnreadyNot, Unready: unready,
		Charge: chargeOf(account, &policy, agent), Hosts: hostsOf(v),
		Limits:      runLimits{uint64(policy.WallMS / 1000), uint64(policy.HumanMS / 1000)},
		AlreadyTrue: v.AlreadyTrue, CheckedAt: v.PreflightAt,
	}
	q.PriceCents, q.Credits = policy.Price(agent)
	if hasAgent {
		q.Agent = &agent
	}
	if v.Credential != "" {
		q.NoKey, q.WrongKey = v.NoKey.String(), v.WrongKey.String()
		if v.NoKey == workspace.CalledUnclear || v.WrongKey == workspace.CalledUnclear {
			q.Note = unclearNote
		}
	}
	return x.BareObject(200, func(j *server.JSON) {
		j.Name("quote")
		writeQuote(j, &q)
	})
}

// chargeOf is what would pay for a run now: free, paid, or none, where nothing could or has to. A
// bought run pays on a day whose free ones are used.
func chargeOf(account *workspace.AccountView, policy *workspace.SetPolicy, agent Agent) string {
	switch {
	case agent.Idle():
	case account.Claimed && account.FreeUsed < policy.FreeRunsPerMonth && account.FreeLeftToday > 0:
		return "free"
	case account.RunsLeft > 0:
		return "paid"
	}
	return "none"
}

// hostsOf are the hosts that a run of a flow may reach: the product's and the verification's.
func hostsOf(v *workspace.FlowView) []string {
	hosts := []string{fetch.HostOf(v.URL)}
	if other := fetch.HostOf(v.VerificationURL); other != "" && other != hosts[0] {
		hosts = append(hosts, other)
	}
	slices.Sort(hosts)
	return hosts
}
