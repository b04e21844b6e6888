package cli

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// TestCallsNameTheirFields: what a tag puts in place of a name is a flag or an argument of the
// command.
func TestCallsNameTheirFields(t *testing.T) {
	var all struct {
		BillCommands `embed:""`
		Catalog      CatalogCommand `cmd:""`
		Cluster      ClusterCommand `cmd:""`
		Audit        AuditCommand   `cmd:"" call:"GET /audit"`
	}
	parser, err := kong.New(&all)
	require.NoError(t, err)
	checked := 0
	require.NoError(t, kong.Visit(parser.Model, func(at kong.Visitable, next kong.Next) error {
		node, is := at.(*kong.Command)
		if !is || node.Tag == nil || !node.Tag.Has("call") {
			return next(nil)
		}
		checked++
		flags := node.Target.FieldByName("Flags")
		text := node.Tag.Get("call") + node.Tag.Get("says") + node.Tag.Get("notes")
		if !strings.Contains(node.Tag.Get("call"), " /") {
			text += "{Account}{Environment}"
		}
		for _, name := range placeholder.FindAllString(text, -1) {
			require.True(t, flags.FieldByName(name[1:len(name)-1]).IsValid(), "%s: %s", node.Path(), name)
		}
		return next(nil)
	}))
	require.Greater(t, checked, 40)
}
