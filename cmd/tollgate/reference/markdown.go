package reference

import (
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// Markdown writes the page docs/cli.md.
func Markdown(w io.Writer, app *kong.Application) error {
	p, out := describe(app), &paragraphs{w: w}
	out.line("# Command line\n\n`tollgate man --markdown` writes this page from the program. " +
		"[Commands](commands.md) has the usual ones by task.\n")
	out.line("- `tollgate help COMMAND` shows a command and its flags; a mistyped word is answered " +
		"with the nearest.\n- `tollgate completion bash|zsh|fish` prints completions for your shell, " +
		"`tollgate man` this reference as a man page.\n")
	out.line("## Exit codes\n\n| code | meaning |\n|---|---|")
	for _, exit := range Exits {
		out.line("| %s | %s |", exit[0], exit[1])
	}
	out.line("\n## Shared flags\n")
	out.flags(p.shared)
	group := ""
	for _, c := range p.commands {
		if g := c.ClosestGroup(); g != nil && g.Title != group {
			group = g.Title
			out.line("\n## %s", strings.TrimSuffix(group, ":"))
		}
		out.line("\n### %s\n\n%s\n\n    tollgate %s", strings.TrimPrefix(c.Path(), "tollgate "), c.Help,
			usage(c.Node))
		if c.Detail != "" {
			out.line("\n%s", c.Detail)
		}
		if len(c.Positional)+len(c.flags) > 0 {
			out.line("\n| argument or flag | |\n|---|---|")
		}
		for _, argument := range c.Positional {
			out.row("<"+argument.Name+">", argument)
		}
		for _, flag := range c.flags {
			out.row(flag.String(), flag.Value)
		}
		var shared []string
		for _, flag := range c.shared {
			shared = append(shared, "`--"+flag.Name+"`")
		}
		if len(shared) > 0 {
			out.line("\n[Shared](#shared-flags): %s", strings.Join(shared, ", "))
		}
	}
	return out.err
}

func (p *paragraphs) flags(all []*kong.Flag) {
	p.line("| flag | |\n|---|---|")
	for _, flag := range all {
		p.row(flag.String(), flag.Value)
	}
}

func (p *paragraphs) row(name string, value *kong.Value) {
	help := kong.DefaultHelpValueFormatter(value)
	p.line("| `%s` | %s |", name, strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(help))
}
