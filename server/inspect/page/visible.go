package page

import (
	"slices"
	"strings"
)

// Bounds of what is tracked: how deep elements lie, and how many steps it takes to find those that
// end. Text beyond them is not read, and Unread says so.
const (
	maxDepth = 512
	maxSteps = 5_000_000
)

// unshown are elements whose text a browser does not show, or shows only where it cannot show what
// they are for.
var unshown = setOf("script style template noscript svg title audio canvas datalist iframe " +
	"noembed noframes video")

// void are elements that hold nothing.
var void = setOf("area base br col embed hr img input link meta source track wbr")

// blockTags end an open paragraph.
var blockTags = setOf("address article aside blockquote center details dialog dir div dl " +
	"fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr main menu nav ol p " +
	"pre search section summary table ul li dt dd")

// scope are elements that a tag does not look beyond for one that it ends.
var scope = []string{"button", "caption", "html", "object", "table", "td", "template", "th"}

func setOf(words string) map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(words) {
		set[word] = true
	}
	return set
}

// ended says which open elements a start tag ends, and which elements it does not look beyond.
var ended = map[string]struct{ ends, within []string }{
	"li":     {[]string{"li"}, []string{"ul", "ol", "menu"}},
	"dt":     {[]string{"dt", "dd"}, []string{"dl"}},
	"dd":     {[]string{"dt", "dd"}, []string{"dl"}},
	"option": {[]string{"option"}, []string{"select", "datalist"}},
	"tr":     {[]string{"tr"}, []string{"table"}},
	"td":     {[]string{"td", "th"}, []string{"tr", "table"}},
	"th":     {[]string{"td", "th"}, []string{"tr", "table"}},
	"tbody":  {[]string{"thead", "tbody"}, []string{"table"}},
	"tfoot":  {[]string{"thead", "tbody"}, []string{"table"}},
}

// element is an open element.
type element struct {
	tag string
	// hides reports whether it is not shown, by itself.
	hides bool
}

// elements are those that are open where a page is read, the innermost last. It is not the tree
// that a browser builds: it knows the end tags that authors leave out.
type elements struct {
	open []element
	// of counts the open elements of a tag, hiding those that hide; beyond counts those deeper than
	// are tracked, steps those that were made.
	of                    map[string]int
	hiding, beyond, steps int
	sheet                 sheet
}

// styles takes the text of a style element; what a template holds does not count.
func (e *elements) styles(css string) bool {
	if len(e.open) == 0 || e.open[len(e.open)-1].tag != "style" {
		return false
	}
	if e.sheet == nil {
		e.sheet = sheet{}
	}
	if e.of["template"] == 0 {
		e.sheet.learn(css)
	}
	return true
}

// lost reports whether it is not known what is open here.
func (e *elements) lost() bool { return e.beyond > 0 || e.steps > maxSteps }

// shown reports whether a browser shows text here, as far as the page itself says.
func (e *elements) shown() bool { return e.hiding == 0 && !e.lost() }

// begin takes a start tag.
func (e *elements) begin(tag string, attributes map[string]string, closed bool) {
	if blockTags[tag] {
		e.end([]string{"p"}, scope)
	}
	if rule, known := ended[tag]; known {
		e.end(rule.ends, rule.within)
	}
	hides := e.sheet.hidden(tag, attributes)
	if void[tag] || closed && (!hides || unshown[tag]) {
		return
	}
	if len(e.open) == maxDepth {
		e.beyond++
		return
	}
	if e.of == nil {
		e.of = map[string]int{}
	}
	e.open = append(e.open, element{tag, hides})
	e.of[tag]++
	if hides {
		e.hiding++
	}
}

// finish takes an end tag.
func (e *elements) finish(tag string) {
	if e.beyond > 0 {
		e.beyond--
		return
	}
	e.end([]string{tag}, scope)
}

// end ends the innermost open element of some tags, and what is within it. It does not look beyond
// an element of the tags within.
func (e *elements) end(tags, within []string) {
	if !slices.ContainsFunc(tags, func(tag string) bool { return e.of[tag] > 0 }) {
		return
	}
	for i := len(e.open) - 1; i >= 0 && !e.lost(); i-- {
		e.steps++
		tag := e.open[i].tag
		if slices.Contains(tags, tag) {
			e.leave(i)
			return
		}
		if slices.Contains(within, tag) {
			return
		}
	}
}

// leave ends the elements from a depth on.
func (e *elements) leave(depth int) {
	for _, one := range e.open[depth:] {
		e.of[one.tag]--
		if one.hides {
			e.hiding--
		}
	}
	e.open = e.open[:depth]
}

// hidden reports whether a browser does not show an element, by its tag, its attributes, its own
// style, or a style element before it.
func (s sheet) hidden(tag string, attributes map[string]string) bool {
	if unshown[tag] {
		return true
	}
	display, visibility := displayed(attributes["style"])
	if display == "" && visibility == "" && s.hides(tag, attributes) {
		return true
	}
	_, marked := attributes["hidden"]
	if _, open := attributes["open"]; tag == "dialog" && !open {
		marked = true
	}
	return display == "none" || visibility == "hidden" || marked && display == ""
}

// displayed are the values of display and visibility among declarations.
func displayed(declarations string) (display, visibility string) {
	for declaration := range strings.SplitSeq(strings.ToLower(declarations), ";") {
		name, value, _ := strings.Cut(declaration, ":")
		value, _, _ = strings.Cut(value, "!")
		switch strings.TrimSpace(name) {
		case "display":
			display = strings.TrimSpace(value)
		case "visibility":
			visibility = strings.TrimSpace(value)
		}
	}
	return display, visibility
}

// scripts are the types of script elements that run, and so does one without a type; all others
// hold data.
var scripts = []string{
	"", "module", "text/javascript", "application/javascript", "text/ecmascript",
	"application/ecmascript", "application/x-javascript", "application/x-ecmascript",
	"text/x-javascript", "text/x-ecmascript", "text/jscript", "text/livescript",
}

// runs reports whether a browser runs a script element of a type.
func runs(kind string) bool {
	return slices.Contains(scripts, kind) || strings.HasPrefix(kind, "text/javascript1.")
}
