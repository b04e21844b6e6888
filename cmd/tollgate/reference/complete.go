package reference

import (
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// CompleteWord is the command by which the shells' completions ask what may come next.
const CompleteWord = "__complete"

//go:embed shell
var shells embed.FS

// Completion is the text by which a shell completes command lines: bash, zsh or fish.
func Completion(shell string) (string, error) {
	text, err := shells.ReadFile("shell/" + shell)
	return string(text), err
}

// Complete writes what the last of the words may become: each on a line, with a tab and what it is.
// It writes nothing where that is a file, or unknown. words are those after the program's name;
// contexts are what a value with a tag names:"context" may be.
func Complete(
	w io.Writer, app *kong.Application, words []string, contexts func() []string,
) error {
	last := ""
	if len(words) > 0 {
		last, words = words[len(words)-1], words[:len(words)-1]
	}
	// For bash, --env=live is three words.
	last = strings.TrimPrefix(last, "=")
	words = slices.DeleteFunc(slices.Clone(words), func(word string) bool { return word == "=" })
	node, value, arguments := app.Node, (*kong.Value)(nil), 0
	for i, word := range words {
		switch child := childNamed(node, word); {
		case value != nil:
			value = nil
		case i == 0 && word == "help":
		case strings.HasPrefix(word, "-"):
			name, _, whole := strings.Cut(word, "=")
			if flag := flagNamed(node, name); flag != nil && !whole && !flag.IsBool() {
				value = flag.Value
			}
		case child != nil:
			node = child
		default:
			arguments++
		}
	}
	out := &paragraphs{w: w}
	offer := func(text, help string) {
		if strings.HasPrefix(text, last) {
			out.line("%s\t%s", text, help)
		}
	}
	// offerAll offers the values that a flag or an argument may have, where they are a few.
	offerAll := func(value *kong.Value, front string) {
		all := value.EnumSlice()
		if value.Tag.Get("names") == "context" {
			all = contexts()
		}
		for _, text := range all {
			if text != "" {
				offer(front+text, "")
			}
		}
	}
	name, _, whole := strings.Cut(last, "=")
	switch flag := flagNamed(node, name); {
	case value != nil:
		offerAll(value, "")
	case whole && flag != nil:
		offerAll(flag.Value, name+"=")
	case strings.HasPrefix(last, "-"):
		for _, level := range node.AllFlags(true) {
			for _, flag := range level {
				offer("--"+flag.Name, flag.Help)
			}
		}
	case arguments < len(node.Positional):
		offerAll(node.Positional[arguments], "")
	case arguments == 0:
		for _, child := range node.Children {
			if !child.Hidden {
				offer(child.Name, child.Help)
			}
		}
	}
	return out.err
}

func childNamed(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == name || slices.Contains(child.Aliases, name) {
			return child
		}
	}
	return nil
}

// flagNamed finds a flag as it is written: --json, -h.
func flagNamed(node *kong.Node, written string) *kong.Flag {
	for _, level := range node.AllFlags(false) {
		for _, flag := range level {
			if written == "--"+flag.Name || flag.Short != 0 && written == fmt.Sprintf("-%c", flag.Short) {
				return flag
			}
		}
	}
	return nil
}
