// Package reference describes the command line by the parser's own model: as a page of the
// documents, as a man page, and as completions in shells.
package reference

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Exits are the exit codes of all commands.
var Exits = [][2]string{
	{"0", "done"},
	{"1", "failed or refused; nothing was changed unless the message says so"},
	{"2", "unknown command or flag"},
	{"3, 4", "serve: the node ended itself; 3 needs an operator; after 4, just restart it"},
	{"5", "two things differ: invoice verify, invoice explain, catalog diff --exit-code"},
	{"6", "it works, and less than it should: doctor, cluster status"},
	{"7", "doctor: something is wrong now"},
}

// manyCommands is how many commands have a flag that is described once for all of them.
const manyCommands = 8

// command is one command as it is described.
type command struct {
	*kong.Node
	flags  []*kong.Flag // its own
	shared []*kong.Flag // those that are described once
}

// page is the whole command line.
type page struct {
	app      *kong.Application
	shared   []*kong.Flag
	commands []command // in the order of the list of commands
}

func describe(app *kong.Application) *page {
	p := &page{app: app}
	uses := map[string]int{}
	leaves := app.Leaves(true)
	for _, leaf := range leaves {
		for _, flag := range flagsOf(leaf) {
			uses[meaning(flag)]++
		}
	}
	listed := map[string]bool{}
	for _, leaf := range leaves {
		c := command{Node: leaf}
		for _, flag := range flagsOf(leaf) {
			if uses[meaning(flag)] < manyCommands {
				c.flags = append(c.flags, flag)
				continue
			}
			c.shared = append(c.shared, flag)
			if !listed[meaning(flag)] {
				listed[meaning(flag)] = true
				p.shared = append(p.shared, flag)
			}
		}
		p.commands = append(p.commands, c)
	}
	slices.SortStableFunc(p.shared, func(a, b *kong.Flag) int {
		return strings.Compare(a.Name, b.Name)
	})
	return p
}

// flagsOf are the flags of a command, without those that every command has.
func flagsOf(node *kong.Node) (all []*kong.Flag) {
	for ; node.Parent != nil; node = node.Parent {
		for _, flag := range node.Flags {
			if !flag.Hidden {
				all = append(all, flag)
			}
		}
	}
	return all
}

func meaning(flag *kong.Flag) string { return flag.Name + "\n" + flag.Help }

// usage is a command line with its arguments, without the program's name.
func usage(node *kong.Node) string {
	text := node.Summary()
	return strings.TrimSuffix(strings.TrimPrefix(text, "tollgate "), " [flags]")
}

// paragraphs writes lines, and remembers the first error.
type paragraphs struct {
	w   io.Writer
	err error
}

func (p *paragraphs) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}
