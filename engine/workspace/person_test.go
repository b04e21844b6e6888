package workspace_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
)

// TestAnAddressIsNobodyElses: letters that look alike, or that Unicode's lower case makes the same,
// are others: whoever has the one address gets nothing that was promised to the other.
func TestAnAddressIsNobodyElses(t *testing.T) {
	b := newBench(t)
	signIn := func(name, email string) uint32 {
		var r workspace.SignInReply
		require.NoError(t, wire.Decode(b.done(workspace.KindSignIn, &workspace.SignIn{
			ID: enginetest.ID(name), Issuer: "https://id.example", Subject: name, Email: email,
			Session: [32]byte{name[0], name[1]}, Surface: workspace.SurfaceWorkspaces,
		}), &r))
		return r.Person
	}
	b.done(workspace.KindSignUp, &workspace.SignUp{
		ID: enginetest.ID("kit"), KeyID: enginetest.ID("kit key"), KeyHash: [32]byte{9},
		ClaimHash: [32]byte{10}, Label: "kit",
	})
	b.done(workspace.KindClaimWorkspace, &workspace.ClaimWorkspace{
		ID: enginetest.ID("kit"), Owner: "Kit@kitinit.example",
	})
	row := b.m.WorkspaceRow(enginetest.ID("kit"))
	for name, email := range map[string]string{
		"a1": "\u212ait@kitinit.example", "a2": "kit@k\u0130tinit.example",
		"a3": "kit@\u212aitinit.example", "a4": "k\u0131t@kitinit.example",
	} {
		require.NotEqual(t, "kit@kitinit.example", workspace.Address(email))
		require.False(t, b.m.Owns(row, signIn(name, email)), email)
	}
	require.True(t, b.m.Owns(row, signIn("b1", "kIT@KITINIT.example")))
	require.Equal(t, strings.ToLower("A-Z@[.EXAMPLE"), workspace.Address("A-Z@[.EXAMPLE"))
}
