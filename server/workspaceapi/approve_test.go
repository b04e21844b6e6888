package workspaceapi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/workspace"
)

const (
	approves = `{"action":"approve"}`
	denies   = `{"action":"deny"}`
)

// linked makes a purchase that waits for its owner, and returns its id and its link.
func (c *caller) linked() (purchase, link string) {
	c.t.Helper()
	a := c.keyed("/v1/purchases", "buy-three", `{"runs":3}`).is(402, "payment_required")
	return a.at("purchase", "id").(string), a.at("approval_url").(string)[len(publicURL):]
}

// TestAPersonApprovesByJSON: as on the page. The workspace becomes theirs, the answer says where it
// is paid, and again it is the same answer; once it is paid, the link is gone.
func TestAPersonApprovesByJSON(t *testing.T) {
	n := start(t)
	c := n.signUp("")
	id, link := c.linked()
	shown := c.call("GET", link, "").is(200, "")
	require.Equal(t, []any{5000.0, true}, []any{shown.at("capCents"), shown.at("setsCap")})
	ada := n.signIn("ada")
	a := ada.call("POST", link, approves).is(200, "")
	require.Equal(t, []any{5000.0, false}, []any{a.at("capCents"), a.at("setsCap")})
	require.Equal(t, "checkout", a.at("purchase", "status"))
	require.Equal(t, true, a.at("claimed"))
	require.Contains(t, a.at("checkout_url"), publicURL+pagePath)
	require.Equal(t, "no-store", a.header.Get("Cache-Control"))
	require.Equal(t, "no-referrer", a.header.Get("Referrer-Policy"))
	require.Equal(t, c.workspace, ada.call("GET", "/v1/account", "").at("workspace", "id"))
	again := ada.call("POST", link, approves).is(200, "")
	require.Equal(t, a.at("checkout_url"), again.at("checkout_url"))
	raw, _ := parseID(markPurchase, id)
	ws, _ := parseID(markWorkspace, c.workspace)
	acts, _ := n.Machine.Acts(n.Machine.WorkspaceRow(ws), workspace.Page{Limit: 10})
	require.Equal(t, "ada@acme.example", acts[0].Email)
	require.Equal(t, raw, acts[0].Subject)

	n.payWith(a.at("checkout_url").(string), "success")
	c.purchased(id, "succeeded")
	for _, body := range []string{approves, denies} { // a link that is replayed
		gone := ada.call("POST", link, body).is(404, "not_found")
		require.Contains(t, gone.at("message"), "Nothing was changed")
	}
	require.EqualValues(t, 3, c.usage()["runsLeft"])
}

// TestAStolenLinkDecidesNothing: of a workspace that somebody owns, its owner decides, whoever
// has the link; nor does one that was replaced, or made up.
func TestAStolenLinkDecidesNothing(t *testing.T) {
	n := start(t)
	c := n.signUp("")
	ada, eve := n.signIn("ada"), n.signIn("eve")
	ada.call("POST", "/v1/claims", `{"code":"`+c.code+`"}`).is(200, "")
	id, link := c.linked()
	agent := n.signIn("robot", asAgent("eve@acme.example"))
	for _, body := range []string{approves, denies} {
		stolen := eve.call("POST", link, body).is(403, "person_required")
		require.Contains(t, stolen.at("message"), "Nothing was changed")
		agent.call("POST", link, body).is(403, "person_required")
		c.call("POST", link, body).is(403, "person_required")
		n.send("POST", link, body, "", nil).is(401, "sign_in_required")
		n.send("POST", link, body, ada.token, nil).is(403, "origin_not_allowed")
		n.send("POST", link, body, ada.token,
			map[string]string{"Origin": "https://evil.example"}).is(403, "origin_not_allowed")
		ada.call("POST", link+"x", body).is(404, "not_found")
		ada.call("POST", "/approve/"+id, body).is(404, "not_found")
	}
	ada.call("POST", link, `{}`).is(400, "invalid_field")
	ada.call("POST", link, `{"action":"steal"}`).is(400, "invalid_field")
	ada.call("POST", link, `{"action":"approve","owner":"eve"}`).is(400, "unexpected_field")
	c.purchased(id, "requires_approval")

	next := c.call("POST", "/v1/purchases/"+id+"/approval-link", "").is(200, "").
		at("approval_url").(string)[len(publicURL):]
	ada.call("POST", link, approves).is(404, "not_found")
	c.purchased(id, "requires_approval")
	require.Equal(t, "denied", ada.call("POST", next, denies).is(200, "").at("purchase", "status"))
	ada.call("POST", next, approves).is(404, "not_found")
	c.purchased(id, "denied")
}

// TestAnOwnersCancelIsKept: with their name; a key's is not, and counts against the day's limit.
func TestAnOwnersCancelIsKept(t *testing.T) {
	n := start(t)
	c := n.signUp("")
	ada := n.signIn("ada")
	ada.call("POST", "/v1/claims", `{"code":"`+c.code+`"}`).is(200, "")
	ws, _ := parseID(markWorkspace, c.workspace)
	id, link := c.linked()
	require.Equal(t, "checkout", ada.call("POST", link, approves).at("purchase", "status"))
	for range 2 {
		ada.call("POST", "/v1/purchases/"+id+"/cancel", "").is(200, "")
	}
	c.purchased(id, "cancelled")
	acts, _ := n.Machine.Acts(n.Machine.WorkspaceRow(ws), workspace.Page{Limit: 10})
	require.Equal(t, "cancel", acts[1].Action)
	require.Equal(t, "ada@acme.example", acts[1].Email)
	require.Equal(t, []workspace.ActChange{
		{Name: "status", Before: "checkout", After: "cancelled"},
	}, acts[1].Changes)
	account, _ := n.Machine.Account(n.Machine.WorkspaceRow(ws), n.api.now())
	require.Zero(t, account.CancelsToday)

	next := c.keyed("/v1/purchases", "buy-two-runs", `{"runs":2}`).is(402, "").at("purchase", "id").(string)
	c.call("POST", "/v1/purchases/"+next+"/cancel", "").is(200, "")
	again, _ := n.Machine.Acts(n.Machine.WorkspaceRow(ws), workspace.Page{Limit: 10})
	require.Len(t, again, len(acts))
}
