package workspace_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
)

// asked is a workspace that ada owns, who has signed in with ada@acme.example.
func asked(t *testing.T) *bench {
	b := newBench(t)
	b.done(workspace.KindSignIn, &workspace.SignIn{
		ID: enginetest.ID("person ada"), Issuer: "i", Subject: "ada", Email: "Ada@Acme.example",
		Session: [32]byte{9}, Surface: workspace.SurfaceWorkspaces,
	})
	b.done(workspace.KindOpenWorkspace, &workspace.OpenWorkspace{
		Person: 1, ID: enginetest.ID("hers"), Label: "hers",
	})
	b.done(workspace.KindSaveFlow, &workspace.SaveFlow{
		Workspace: 2, ID: enginetest.ID("her flow"), Document: workspace.FlowDocument{Name: "Sign up"},
	})
	return b
}

// mailTo has ada set where alerts of her flow go, and sends a test there.
func (b *bench) mailTo(email string) workspace.AlertsView {
	b.t.Helper()
	b.done(workspace.KindAct, &workspace.Act{
		Workspace: 2, ID: enginetest.ID(email), Actor: "owner", Person: 1, Kind: workspace.KindSetAlerts,
		Payload: wire.Encode(nil, &workspace.SetAlerts{
			Workspace: 2, Flow: enginetest.ID("her flow"), HasEmail: true, Email: email, HasOn: true,
			On: true,
		}),
	})
	return b.hers()
}

func (b *bench) hers() workspace.AlertsView {
	b.t.Helper()
	_, v, _, ok := b.m.Alerts(2, enginetest.ID("her flow"))
	require.True(b.t, ok)
	return v
}

func (b *bench) asks(link byte) *workspace.AskAddress {
	return &workspace.AskAddress{Workspace: 2, Flow: enginetest.ID("her flow"), Link: [32]byte{link}}
}

func confirms(link byte) *workspace.ConfirmAddress {
	return &workspace.ConfirmAddress{Flow: enginetest.ID("her flow"), Link: [32]byte{link}}
}

// TestAnAddressIsAskedFirst: nothing is mailed to an address that its setter has not signed in
// with, until whoever has it says yes, by the newest link, once, within a day.
func TestAnAddressIsAskedFirst(t *testing.T) {
	b := asked(t)
	require.False(t, b.mailTo("ada@ACME.example").Unconfirmed, "her own")
	b.refused(engine.OutcomeAddressConfirmed, workspace.KindAskAddress, b.asks(1))
	require.True(t, b.mailTo("team@acme.example").Unconfirmed)
	b.done(workspace.KindSendTestAlert, &workspace.SendTestAlert{
		Workspace: 2, Flow: enginetest.ID("her flow"),
	})
	require.Empty(t, b.due())
	v := b.hers()
	require.Equal(t, workspace.DeliveryUnconfirmed, v.Deliveries[0].Status)
	b.refused(engine.OutcomeAlertsInvalid, workspace.KindAskAddress, b.asks(0))
	b.refused(engine.OutcomeRecordUnknown, workspace.KindConfirmAddress, confirms(0))

	b.done(workspace.KindAskAddress, b.asks(1))
	b.done(workspace.KindAskAddress, b.asks(2))
	b.refused(engine.OutcomeRecordUnknown, workspace.KindConfirmAddress, confirms(1))
	b.pass(24 * time.Hour)
	b.refused(engine.OutcomeRecordUnknown, workspace.KindConfirmAddress, confirms(2))
	b.done(workspace.KindAskAddress, b.asks(3))
	// The form of a page that was sent twice, with the link before it.
	b.pass(time.Second)
	until := b.hers().LinkUntil
	next, again := b.asks(4), b.asks(5)
	next.Replaces, again.Replaces = until, until
	b.done(workspace.KindAskAddress, next)
	b.done(workspace.KindAskAddress, again)
	b.refused(engine.OutcomeRecordUnknown, workspace.KindConfirmAddress, confirms(5))
	again.Replaces, again.Link = 1, [32]byte{6}
	b.done(workspace.KindAskAddress, again)
	b.refused(engine.OutcomeRecordUnknown, workspace.KindConfirmAddress, confirms(6))
	b.pass(time.Second)
	next.Replaces, next.Link = b.hers().LinkUntil, [32]byte{3}
	b.done(workspace.KindAskAddress, next)
	asks, ok := b.m.AddressByLink(enginetest.ID("her flow"), [32]byte{3}, b.log.Stamp)
	require.True(t, ok)
	require.Equal(t, workspace.AddressView{
		Email: "team@acme.example", Flow: "Sign up", Label: "hers",
	}, asks)
	b.done(workspace.KindConfirmAddress, confirms(3))
	b.refused(engine.OutcomeRecordUnknown, workspace.KindConfirmAddress, confirms(3))
	require.False(t, b.hers().Unconfirmed)
	require.Len(t, b.due(), 1, "what waited goes out")
	require.False(t, b.mailTo("team@acme.example").Unconfirmed, "the same address stays confirmed")
}

// TestALinkIsOfOneAddress: another address takes the link away that asked for the one before, and
// one that nobody vouches for is asked again though it was confirmed once.
func TestALinkIsOfOneAddress(t *testing.T) {
	b := asked(t)
	b.mailTo("team@acme.example")
	b.done(workspace.KindAskAddress, b.asks(1))
	require.True(t, b.mailTo("eve@evil.example").Unconfirmed)
	b.refused(engine.OutcomeRecordUnknown, workspace.KindConfirmAddress, confirms(1))
	for link := byte(2); link <= workspace.MaxAddressAsks; link++ {
		b.done(workspace.KindAskAddress, b.asks(link))
	}
	b.refused(engine.OutcomeAddressAskLimit, workspace.KindAskAddress, b.asks(9))
	require.False(t, b.mailTo("ada@acme.example").Unconfirmed)
	b.refused(engine.OutcomeRecordUnknown, workspace.KindConfirmAddress,
		confirms(workspace.MaxAddressAsks))
	require.True(t, b.mailTo("team@acme.example").Unconfirmed)
	b.done(workspace.KindAct, &workspace.Act{ // an operator vouches
		Workspace: 2, ID: enginetest.ID("operator"), Actor: "operator", Kind: workspace.KindSetAlerts,
		Payload: wire.Encode(nil, &workspace.SetAlerts{
			Workspace: 2, Flow: enginetest.ID("her flow"), HasEmail: true, Email: "team@acme.example",
		}),
	})
	require.False(t, b.hers().Unconfirmed)
}

func (b *bench) due() []workspace.DueAlert {
	due, _ := b.m.DueAlerts(b.log.Stamp, 0, 9)
	return due
}
