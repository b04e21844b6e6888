package billing_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
)

// TestPins replays stored histories and compares all that came of them with what is pinned, so that
// nothing that an entry does changes by accident, not even the order of two steps. The journal cuts
// short segments, so that histories seal some. See engine/DESIGN.md, "Pins".
func TestPins(t *testing.T) {
	pins := enginetest.Pins{
		Folder: "testdata/pins",
		Open:   func() engine.Machine { return billing.NewCutting(2 << 10) },
		Work:   func(m engine.Machine) int { return m.(*billing.Machine).Work() },
		Draw:   drawHistories,
	}
	pins.Check(t)
	var files []string
	for _, file := range billingScenarios(t) {
		files = append(files, filepath.Base(file))
	}
	pins.Covers(t, billing.RegisteredKinds(), unpinned, files)
}

// unpinned are the kinds that no history has: their payloads depend on a state's hash, on another
// node, or on files of keys.
var unpinned = []engine.Kind{
	engine.KindCheckState, engine.KindHandOver, billing.KindDemoteKeys, billing.KindRecordProbedUsage,
}

// billingScenarios are the files of scenarios of this machine.
func billingScenarios(t *testing.T) []string {
	scenarios, err := filepath.Glob("../testdata/*.txt")
	require.NoError(t, err)
	return slices.DeleteFunc(scenarios, func(file string) bool {
		return strings.HasPrefix(filepath.Base(file), "workspace-")
	})
}

// operated is a history of what nothing draws, most of it by operators.
func operated(t *testing.T) enginetest.History {
	d := hooked(t)
	hook := d.hook().ID
	d.sells("Acme")
	for _, colour := range []string{"#000000", ""} {
		d.is(engine.OutcomeDone, billing.KindSetPortal, &billing.SetPortal{
			Env: enginetest.Sandbox, Portal: billing.Portal{Colour: colour}, Actor: "ops",
		})
	}
	d.is(engine.OutcomeDone, billing.KindNotePortalLink, &billing.NotePortalLink{
		Env: enginetest.Sandbox, Customer: "ada", Expires: "tomorrow", Actor: "ops",
	})
	d.is(engine.OutcomeDone, billing.KindRevokePortalLinks, &billing.RevokePortalLinks{
		Env: enginetest.Sandbox, Customer: "ada", Actor: "ops",
	})
	d.is(engine.OutcomeDone, billing.KindTestWebhook, &billing.TestWebhook{
		Env: enginetest.Sandbox, Endpoint: hook, Actor: "ops",
	})
	d.is(engine.OutcomeDone, billing.KindResendWebhooks, &billing.ResendWebhooks{
		Env: enginetest.Sandbox, Endpoint: hook, Actor: "ops",
		Deliveries: []billing.DeliveryName{{Row: 1, Sequence: 1}, {Row: 77, Sequence: 1}},
	})
	request := once("k", "b", billing.KindCreateSubscription, d.subscribe())
	d.is(engine.OutcomeDone, billing.KindOnce, request)
	d.is(engine.OutcomeDone, billing.KindKeepAnswer, &billing.KeepAnswer{
		Env: enginetest.Sandbox, Key: enginetest.ID("k"), Status: 201, Answer: []byte("first"),
	})
	d.is(engine.OutcomeDone, billing.KindOnce, request)
	d.is(engine.OutcomeDone, billing.KindNoteMembership, &billing.NoteMembership{
		Actor: "ops", Action: "member.joined", Node: "n4", Raft: "a:1", HTTP: "a:2", Ops: "a:3",
	})
	seller := wire.Encode(nil, &billing.SetSeller{
		Env: enginetest.Sandbox, Seller: billing.Seller{Name: "B"},
	})
	bob := d.ada()
	bob.ID, bob.ExternalID = enginetest.ID("bob"), "bob"
	for range 2 { // sent again
		for _, r := range []engine.Record{
			submitted(billing.KindSetSeller, seller, "pins"),
			administered(t, billing.KindCreateCustomer, bob),
		} {
			_, err := d.Apply(r)
			require.NoError(t, err)
		}
	}
	return enginetest.History{Name: "operated", Entries: d.Entries}
}

// drawHistories makes what is pinned: 240 histories, 24 whose entries do more than their share, and
// one of what operators do, and those of the scenarios.
func drawHistories(t *testing.T) []enginetest.History {
	credits := func(t *rapid.T) [][]byte {
		h := newHistory(t)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			h.step()
		}
		return h.l.Entries
	}
	invoices := func(t *rapid.T) [][]byte {
		h := newProjections(t)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			h.step()
		}
		return h.l.Entries
	}
	holds := func(t *rapid.T) [][]byte {
		h := newHeldHistory(t)
		t.Repeat(h.actions())
		return h.l.Entries
	}
	return slices.Concat(
		enginetest.Drawn("commands", 110, enginetest.BillingEntries),
		enginetest.Drawn("credits", 30, enginetest.CreditEntries),
		enginetest.Drawn("corrected credits", 30, credits),
		enginetest.Drawn("invoices", 30, invoices),
		enginetest.Drawn("holds and budgets", 40, holds),
		enginetest.Drawn("deferring", 24, enginetest.DeferringEntries),
		[]enginetest.History{operated(t)},
		enginetest.Played(t, billingScenarios(t), enginetest.RunBilling),
	)
}
