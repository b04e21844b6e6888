package reference

import (
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

// Man writes the man page tollgate(1).
func Man(w io.Writer, app *kong.Application) error {
	p, out := describe(app), &paragraphs{w: w}
	out.line(`.TH TOLLGATE 1 "" "Tollgate" "User Commands"`)
	out.line(".SH NAME\ntollgate \\- %s", roff(strings.ToLower(app.Help[:1])+app.Help[1:]))
	out.line(".SH SYNOPSIS\n.B tollgate\n.I command\n[\n.I flags\n]")
	out.line(".SH COMMANDS")
	for _, c := range p.commands {
		out.line(".SS %s\n%s", roff(usage(c.Node)), roff(c.Help))
		if c.Detail != "" {
			out.line(".PP\n%s", roff(c.Detail))
		}
		for _, argument := range c.Positional {
			out.term("<"+argument.Name+">", argument)
		}
		for _, flag := range c.flags {
			out.term(flag.String(), flag.Value)
		}
		var shared []string
		for _, flag := range c.shared {
			shared = append(shared, "--"+flag.Name)
		}
		if len(shared) > 0 {
			out.line(".PP\nAnd, as below: %s.", roff(strings.Join(shared, ", ")))
		}
	}
	out.line(".SH SHARED FLAGS")
	for _, flag := range p.shared {
		out.term(flag.String(), flag.Value)
	}
	out.line(".SH EXIT STATUS")
	for _, exit := range Exits {
		out.line(".TP\n%s\n%s", exit[0], roff(exit[1]))
	}
	return out.err
}

func (p *paragraphs) term(name string, value *kong.Value) {
	p.line(".TP\n.B %s\n%s", roff(name), roff(kong.DefaultHelpValueFormatter(value)))
}

// roff escapes a text of one line.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
