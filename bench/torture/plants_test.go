package torture

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// plant is a bug behind a build tag, the faults that bring it to light, and the checks that may
// find it: of answers only.
type plant struct {
	tag   string
	kinds []string
	by    []check
}

// plants are all of them. `make planted` builds each into a program that does not compare its
// states (planted_blind), and sees that one of its checks finds it.
var plants = []plant{
	{"planted_lease", []string{"pause"}, []check{byHistories}},
	{
		"planted_answer",
		[]string{"kill", "partition", "pause", "restart all"},
		[]check{
			byHistories, byAnswers, byListings, byCounters, byWebhooks, byCredits, byReservations,
			byTopUps,
		},
	},
	{"planted_key", []string{"snapshot", "kill"}, []check{byDuplicates, byHistories}},
	{"planted_hold", []string{"pause", "partition"}, []check{byReservations}},
	{"planted_billed", []string{"pause", "kill"}, []check{byReservations}},
	{"planted_topup", []string{"pause", "kill"}, []check{byTopUps}},
}

// blind is the tag of a program that leaves it to its clients to find what is wrong.
const blind = "planted_blind"

// A bug that only an inspection of the nodes finds is one that clients could be harmed by unseen.
func TestPlantsAreFoundByWhatClientsSee(t *testing.T) {
	design, err := os.ReadFile("DESIGN.md")
	require.NoError(t, err)
	listed := map[string]bool{blind: true}
	for _, p := range plants {
		listed[p.tag] = true
		require.NotEmpty(t, p.by, p.tag)
		var names []string
		for _, c := range p.by {
			require.False(t, c.inside, "%s: %s looks into the nodes", p.tag, c.name)
			names = append(names, c.name)
		}
		for _, kind := range p.kinds {
			require.True(t, slices.ContainsFunc(faults, func(f fault) bool { return f.name == kind }), kind)
		}
		row := "| `" + p.tag + "` | " + strings.Join(p.kinds, ", ") + " | " +
			strings.Join(names, ", ") + " |"
		require.Contains(t, string(design), row, "the table of planted bugs in DESIGN.md")
	}
	tags := regexp.MustCompile(`(?m)^//go:build (planted_\w+)$`)
	root := filepath.Join("..", "..")
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range tags.FindAllSubmatch(text, -1) {
			require.True(t, listed[string(found[1])], "%s: %s is not in plants", path, found[1])
			delete(listed, string(found[1]))
		}
		return err
	}))
	require.Empty(t, listed, "listed here, and built nowhere")
}
