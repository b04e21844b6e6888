package local

import (
	"io"

	"github.com/alecthomas/kong"

	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/reference"
)

// CompletionCommand prints what a shell completes command lines by.
type CompletionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help says where the text goes.
func (c *CompletionCommand) Help() string {
	return "In ~/.bashrc: source <(tollgate completion bash). In ~/.zshrc, after compinit: " +
		"source <(tollgate completion zsh). For fish: tollgate completion fish > " +
		"~/.config/fish/completions/tollgate.fish"
}

// Run prints the completions of a shell.
func (c *CompletionCommand) Run(out io.Writer) error {
	text, err := reference.Completion(c.Shell)
	if err != nil {
		return err
	}
	return cli.Say(out, "%s", text)
}

// ManCommand prints the reference of all commands.
type ManCommand struct {
	Markdown bool `help:"Print it as the page docs/cli.md."`
}

// Help says how to read it.
func (c *ManCommand) Help() string {
	return "To read it: tollgate man | man -l -. Packages install it as tollgate(1)."
}

// Run prints the man page.
func (c *ManCommand) Run(out io.Writer, k *kong.Context) error {
	if c.Markdown {
		return reference.Markdown(out, k.Model)
	}
	return reference.Man(out, k.Model)
}
