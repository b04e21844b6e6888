package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Tag is a part of an API: the operations that are about one thing.
type Tag struct{ Name, About string }

// Guide is what is said about the operations of an API in addition to their rows: the parts in
// their order, and a text for each operation, both in Markdown.
type Guide struct {
	Tags  []Tag
	texts map[string]explanation
}

type explanation struct{ tag, about string }

// ReadGuide reads a guide: "# Name" begins a part, "## operation" a text about an operation of it.
func ReadGuide(text string) (*Guide, error) {
	g := &Guide{texts: map[string]explanation{}}
	for i, part := range strings.Split("\n"+text, "\n# ") {
		if i == 0 {
			if strings.TrimSpace(part) != "" {
				return nil, fmt.Errorf("server: a guide begins with a part, not with %q", part)
			}
			continue
		}
		sections := strings.Split(part, "\n## ")
		name, about, _ := strings.Cut(sections[0], "\n")
		g.Tags = append(g.Tags, Tag{name, strings.TrimSpace(about)})
		for _, section := range sections[1:] {
			operation, about, _ := strings.Cut(section, "\n")
			if _, again := g.texts[operation]; again {
				return nil, fmt.Errorf("server: the guide explains %s twice", operation)
			}
			g.texts[operation] = explanation{name, strings.TrimSpace(about)}
		}
	}
	return g, nil
}

// Explain gives each route its part and its text. A route without a text, and a text without a
// route, are errors.
func (g *Guide) Explain(routes []Route) error {
	known, wrong := map[string]bool{}, []string{}
	for i := range routes {
		r := &routes[i]
		text := g.texts[r.Operation]
		if text.about == "" {
			wrong = append(wrong, r.Operation+" is not explained")
		}
		known[r.Operation] = true
		r.Tag, r.About = text.tag, text.about
	}
	for _, operation := range slices.Sorted(maps.Keys(g.texts)) {
		if !known[operation] {
			wrong = append(wrong, operation+" is no operation")
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("server: the guide: %s", strings.Join(wrong, "; "))
	}
	return nil
}
