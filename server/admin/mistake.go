package admin

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"tollgate/engine/billing"
	"tollgate/server"
)

// mistake is something wrong with a document. All that is wrong is reported at once.
type mistake struct {
	line, column int
	is           server.FieldError
}

// CatalogMistake is something wrong with a catalog document. Line and Column count from 1; they are
// 0 where mistakes are left out.
type CatalogMistake struct {
	Line, Column int
	Message      string
}

// malformedAt finds where a document can be read no further, as YAML and JSON say it.
var malformedAt = regexp.MustCompile(`^(?:(?:yaml: )?line (\d+): |byte (\d+): )?`)

// CheckCatalog returns all that is wrong with a catalog document, in YAML or in JSON, for an
// environment without a catalog. It asks no cluster.
func CheckCatalog(text []byte, inYAML bool) (wrong []CatalogMistake) {
	var document billing.CatalogDocument
	var w walk
	fault := w.document(text, inYAML, readCatalog(&w, &document))
	if fault != nil && w.root == nil {
		line, column := 1, 1
		if at := malformedAt.FindStringSubmatch(fault.Detail); at[1] != "" {
			line, _ = strconv.Atoi(at[1])
		} else if at[2] != "" {
			offset, _ := strconv.Atoi(at[2])
			line, column = lineOf(text, offset)
		}
		return []CatalogMistake{{line, column, fault.Message + ": " + fault.Detail}}
	}
	all, more := w.mistakes(text, billing.JudgeCatalog(&document))
	for _, m := range all {
		wrong = append(wrong, CatalogMistake{m.line, m.column, m.is.Message})
	}
	if more != "" {
		wrong = append(wrong, CatalogMistake{Message: more})
	}
	return wrong
}

// mistakes are all that is wrong with a catalog document, each with its place, in the order of the
// document: what cannot be read, and what the catalog does not take of the rest. What the catalog
// says of a place that could not be read is left out. more states that there are others.
func (w *walk) mistakes(body []byte, reply billing.CatalogReply) (all []mistake, more string) {
	note := func(wrong server.FieldError) {
		line, column := w.placeOf(body, wrong.Field)
		all = append(all, mistake{line, column, wrong})
	}
	for _, problem := range w.problems {
		note(problem)
	}
	for _, p := range reply.Problems {
		if !w.unread(p.Place) {
			note(server.FieldError{
				Field: p.Place, Code: server.FieldNotAllowed, Message: p.Place + ": " + p.Text,
			})
		}
	}
	switch {
	case w.omitted > 0:
		more = fmt.Sprintf("and more: the first %d are named", len(all))
	case reply.Omitted > 0:
		more = fmt.Sprintf("and %d more", reply.Omitted)
	}
	slices.SortStableFunc(all, func(a, b mistake) int {
		return cmp.Or(a.line-b.line, a.column-b.column)
	})
	return all, more
}

// placed are mistakes as an answer tells them.
func placed(all []mistake, more string) (wrong []server.FieldError) {
	for _, m := range all {
		m.is.Message = fmt.Sprintf("line %d, column %d: %s", m.line, m.column, m.is.Message)
		wrong = append(wrong, m.is)
	}
	if more != "" {
		wrong = append(wrong, server.FieldError{
			Field: "body", Code: server.FieldNotAllowed, Message: more,
		})
	}
	return wrong
}

// unread reports whether a place, or what it is in, could not be read.
func (w *walk) unread(place string) bool {
	return slices.ContainsFunc(w.problems, func(bad server.FieldError) bool {
		rest, within := strings.CutPrefix(place, bad.Field)
		return within && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// placeOf returns the line and column of a place that a problem names, such as
// plans[0].features[1].key, or of its innermost parent that exists. Both count from 1, columns in
// characters.
func (w *walk) placeOf(body []byte, place string) (line, column int) {
	t := w.root
	for t != nil {
		var next *tree
		if next, place = t.step(place); next == nil {
			break
		}
		t = next
	}
	switch {
	case t == nil:
		return 1, 1
	case t.line > 0:
		return t.line, t.column
	}
	return lineOf(body, t.at)
}

// lineOf is the line and column of an offset.
func lineOf(body []byte, at int) (line, column int) {
	before := body[:min(at, len(body))]
	begin := bytes.LastIndexByte(before, '\n') + 1
	return 1 + bytes.Count(before, []byte{'\n'}), 1 + utf8.RuneCount(before[begin:])
}

// step goes one step of a place further into a tree; nil where there is no such step.
func (t *tree) step(place string) (next *tree, rest string) {
	if index, found := strings.CutPrefix(place, "["); found {
		digits, rest, _ := strings.Cut(index, "]")
		i, err := strconv.Atoi(digits)
		if err != nil || i >= len(t.items) || len(t.names) > 0 {
			return nil, ""
		}
		return t.items[i], rest
	}
	place = strings.TrimPrefix(place, ".")
	for i, name := range t.names {
		for _, written := range []string{name, strconv.Quote(name)} {
			rest, found := strings.CutPrefix(place, written)
			if found && (rest == "" || rest[0] == '.' || rest[0] == '[') {
				return t.items[i], rest
			}
		}
	}
	return nil, ""
}

// judgeCatalog says what the catalog, as this node knows it, would refuse of what could be read of
// a document; nothing where there is no such environment.
func (a *catalogs) judgeCatalog(
	x *server.Exchange, document *billing.CatalogDocument, prune bool,
) (reply billing.CatalogReply) {
	env, found := a.machine.Environment(string(x.Param(0)), environments[string(x.Param(1))])
	if found {
		reply = a.machine.DiffCatalog(env, document, prune)
	}
	return reply
}

// refuseCatalog is the refusal of a document, with all that is wrong with it; nil where nothing is.
func refuseCatalog(
	x *server.Exchange, w *walk, reply billing.CatalogReply,
) *server.Fault {
	refused := server.FaultFields
	switch {
	case len(w.problems) == 0 && !reply.Outcome.Refused():
		return nil
	case len(w.problems) == 0 && len(reply.Problems) == 0:
		return server.FaultOf(reply.Outcome)
	case len(w.problems) == 0:
		refused = server.FaultOf(reply.Outcome)
	}
	wrong := server.FieldsFault(placed(w.mistakes(x.Body, reply)))
	refused = refused.With("Nothing was changed. " + wrong.Detail)
	refused.Fields = wrong.Fields
	return refused
}
