package openapi

import (
	"slices"

	"tollgate/server/inspect/tree"
)

// Bounds of the work that a description may cost. A document of 2 MiB that names each thing once
// takes a tenth of MaxWork; one that shares (YAML aliases, $ref) could make a walker read a list of
// a hundred thousand parameters for each of five thousand operations.
const (
	// MaxWork is how many steps are made through a document: a value that is looked at is a step,
	// and so are 64 bytes of a name or a reference.
	MaxWork = 500_000
	// MaxParameters and MaxAlternatives are of one operation, of each list.
	MaxParameters   = 200
	MaxAlternatives = 200
	// maxText is how much of a text is taken, maxName of a name, in bytes.
	maxText = 2_000
	maxName = 200
)

// spend takes steps from what the document may cost; false reports whether there are none left.
func (w *walker) spend(steps int) bool {
	w.left -= steps
	return w.left >= 0
}

// named is what it costs to look a name up.
func named(name string) int { return 1 + len(name)/64 }

// incomplete notes why not every operation was read.
func (w *walker) incomplete(reason string) { note(&w.out.Incomplete, reason) }

// leftOut notes what was not read of operations that were.
func (w *walker) leftOut(reason string) { note(&w.out.LeftOut, reason) }

// note adds a reason once, up to a bound.
func note(list *[]string, reason string) {
	if len(*list) < 20 && !slices.Contains(*list, reason) {
		*list = append(*list, reason)
	}
}

// resolve follows $ref within the document; nil where it leads nowhere, out of it, or in a circle,
// and where the document has cost what it may.
func (w *walker) resolve(n *tree.Node) *tree.Node {
	for range maxRefs {
		reference := n.Of("$ref")
		if reference == nil {
			return n
		}
		if n = w.follow(reference.AsText()); n == nil {
			return nil
		}
	}
	return nil
}

func (w *walker) follow(reference string) *tree.Node {
	if !w.spend(named(reference)) {
		return nil
	}
	return w.root.Follow(reference)
}
