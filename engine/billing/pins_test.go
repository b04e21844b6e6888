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
)

// TestPins replays stored histories and compares all that came of them with what is pinned, so that
// nothing that an entry does changes by accident, not even the order of two steps. The journal cuts
// short segments, so that histories seal some. See engine/DESIGN.md, "Pins".
func TestPins(t *testing.T) {
	enginetest.Pins{
		Folder: "testdata/pins",
		Open:   func() engine.Machine { return billing.NewCutting(2 << 10) },
		Work:   func(m engine.Machine) int { return m.(*billing.Machine).Work() },
		Draw:   drawHistories,
	}.Check(t)
}

// drawHistories makes what is pinned: 200 histories, 24 whose entries do more than their share, and
// those of the scenarios.
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
	scenarios, err := filepath.Glob("../testdata/*.txt")
	require.NoError(t, err)
	scenarios = slices.DeleteFunc(scenarios, func(file string) bool {
		return strings.HasPrefix(filepath.Base(file), "workspace-")
	})
	return slices.Concat(
		enginetest.Drawn("commands", 110, enginetest.BillingEntries),
		enginetest.Drawn("credits", 30, enginetest.CreditEntries),
		enginetest.Drawn("corrected credits", 30, credits),
		enginetest.Drawn("invoices", 30, invoices),
		enginetest.Drawn("deferring", 24, enginetest.DeferringEntries),
		enginetest.Played(t, scenarios, enginetest.RunBilling),
	)
}
