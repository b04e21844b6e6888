package workspace_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
)

// TestASnapshotHasReturnsAsTheyWere: what is noted of a payment that is to be sent back, while a
// snapshot of before is written, is not in it.
func TestASnapshotHasReturnsAsTheyWere(t *testing.T) {
	m, id := opened(), enginetest.ID
	log := enginetest.NewLog(m, enginetest.Epoch)
	log.Shard = 1
	do := func(kind engine.Kind, c wire.Fielder) {
		t.Helper()
		require.Equal(t, engine.OutcomeDone, log.Do(kind, c).Outcome)
	}
	do(workspace.KindSignUp, &workspace.SignUp{
		ID: id("w"), KeyID: id("k"), KeyHash: [32]byte{1}, ClaimHash: [32]byte{2},
		Scopes: workspace.ScopesAll, Label: "acme",
	})
	do(workspace.KindRequestPurchase, &workspace.RequestPurchase{
		Workspace: 1, ID: id("p"), Runs: 1, Link: [32]byte{3},
	})
	do(workspace.KindApprovePurchase, &workspace.ApprovePurchase{ID: id("p"), Owner: "ada"})
	do(workspace.KindNotePayment, &workspace.NotePayment{
		ID: id("p"), Result: workspace.PaymentPaid, Payment: "pi_1",
	})
	do(workspace.KindNoteSurplus, &workspace.NoteSurplus{ID: id("p"), Payment: "pi_2"})

	begun, err := m.Snapshot()
	require.NoError(t, err)
	do(workspace.KindNoteRefund, &workspace.NoteRefund{
		ID: id("p"), Refund: "re_2", Payment: "pi_2",
	})
	do(workspace.KindNoteSurplus, &workspace.NoteSurplus{ID: id("p"), Payment: "pi_3"})
	var written bytes.Buffer
	_, err = begun.WriteTo(&written)
	require.NoError(t, err)
	begun.Release()
	v, ok := restored(t, written.Bytes()).Purchase(1, id("p"))
	require.True(t, ok)
	require.Equal(t, []workspace.Return{{Payment: "pi_2"}}, v.Returns)
	v, ok = m.Purchase(1, id("p"))
	require.True(t, ok)
	require.Equal(t, []workspace.Return{
		{Payment: "pi_2", Refund: "re_2", At: m.Stamp()}, {Payment: "pi_3"},
	}, v.Returns)
	for _, n := range []string{"4", "5", "6", "7", "8", "9"} {
		do(workspace.KindNoteSurplus, &workspace.NoteSurplus{ID: id("p"), Payment: "pi_" + n})
	}
	last := &workspace.NoteSurplus{ID: id("p"), Payment: "pi_10"}
	require.Equal(t, engine.OutcomeWorkspaceFull, log.Do(workspace.KindNoteSurplus, last).Outcome)
}

// TestALatePaymentOfAPurchaseThatWaitsAgain: the card was declined, its owner is asked, and then
// the provider says that the card paid after all. That payment goes back, and no other, also once
// the owner has paid on the page; said once more it pays nothing.
func TestALatePaymentOfAPurchaseThatWaitsAgain(t *testing.T) {
	for _, refunded := range []bool{false, true} {
		b := newBench(t)
		id := enginetest.ID
		pay := func(purchase [16]byte, payment string, result workspace.PaymentResult) {
			b.done(workspace.KindNotePayment, &workspace.NotePayment{
				ID: purchase, Result: result, Card: "card", Payment: payment,
			})
		}
		ask := func(name string) [16]byte {
			b.done(workspace.KindRequestPurchase, &workspace.RequestPurchase{
				Workspace: 1, ID: id(name), Runs: 1, Link: keyOf(name),
			})
			return id(name)
		}
		approve := func(p [16]byte) {
			b.done(workspace.KindApprovePurchase, &workspace.ApprovePurchase{ID: p, Owner: "ada"})
		}
		first := ask("first") // saves the card
		approve(first)
		pay(first, "pi_0", workspace.PaymentPaid)
		p := ask("second")
		pay(p, "", workspace.PaymentDeclined)
		pay(p, "pi_late", workspace.PaymentPaid)
		late := workspace.Return{Payment: "pi_late"}
		if refunded {
			b.done(workspace.KindNoteRefund, &workspace.NoteRefund{
				ID: p, Refund: "re_1", Payment: "pi_late",
			})
			late.Refund, late.At = "re_1", b.log.Stamp
		}
		v, _ := b.m.Purchase(1, p)
		require.Equal(t, workspace.PurchaseApproval, v.Status)
		require.Equal(t, []workspace.Return{late}, v.Returns)

		approve(p)
		pay(p, "pi_late", workspace.PaymentPaid)
		v, _ = b.m.Purchase(1, p)
		require.Equal(t, workspace.PurchaseCheckout, v.Status, "paid by what goes back")
		pay(p, "pi_page", workspace.PaymentPaid)
		v, _ = b.m.Purchase(1, p)
		require.Equal(t, workspace.PurchaseSucceeded, v.Status)
		require.Equal(t, "pi_page", v.Payment)
		require.Equal(t, []workspace.Return{late}, v.Returns)
		require.Equal(t, !refunded, len(b.m.PaymentTasks(workspace.TaskRefund, 0, 9)) == 1)
		require.Empty(t, b.m.Broken())
		b.m = restored(t, enginetest.Snapshot(t, b.m))
		v, _ = b.m.Purchase(1, p)
		require.Equal(t, []workspace.Return{late}, v.Returns)
	}
}
