package page

import (
	"regexp"
	"strings"
)

// maxSelectors is how many selectors of a page's own style elements are kept.
const maxSelectors = 500

// sheet says of simple selectors (.class, #id, tag) whether the page's own style elements hide what
// they select. What another rule may show, in whichever circumstances, is shown.
type sheet map[string]bool

var (
	cssComment = regexp.MustCompile(`(?s)/\*.*?\*/`)
	cssSimple  = regexp.MustCompile(`^([.#][A-Za-z_][\w-]*|[a-z][a-z0-9]*)$`)
	// cssLast is the last simple selector of one that is not simple.
	cssLast = regexp.MustCompile(`[.#]?[A-Za-z_][\w-]*$`)
)

// learn reads a style element.
func (s sheet) learn(css string) {
	depth, from := 0, 0
	css = cssComment.ReplaceAllString(css, " ")
	selectors := ""
	for i := range len(css) {
		switch css[i] {
		case '{':
			selectors, from = css[from:i], i+1
			depth++
		case '}':
			s.rule(selectors, css[from:i], depth == 1)
			selectors, from = "", i+1
			depth = max(depth-1, 0)
		case ';':
			if depth == 0 {
				from = i + 1
			}
		}
	}
}

// rule takes a rule: what it hides counts where it is always so.
func (s sheet) rule(selectors, declarations string, always bool) {
	display, visibility := displayed(declarations)
	if display == "" && visibility == "" {
		return
	}
	hides := display == "none" || display == "" && visibility == "hidden"
	for selector := range strings.SplitSeq(selectors, ",") {
		selector = strings.TrimSpace(selector)
		simple := cssSimple.MatchString(selector)
		switch name := cssLast.FindString(selector); {
		case hides && always && simple && selector != "html" && selector != "body":
			if _, known := s[selector]; !known && len(s) < maxSelectors {
				s[selector] = true
			}
		case !hides && name != "" && (len(s) < maxSelectors || s[name]):
			s[name] = false
		}
	}
}

// hides reports whether an element is hidden: by its id, else by its classes, else by its tag.
func (s sheet) hides(tag string, attributes map[string]string) bool {
	if len(s) == 0 {
		return false
	}
	if hides, known := s["#"+attributes["id"]]; known {
		return hides
	}
	hidden, known := false, false
	for class := range strings.FieldsSeq(attributes["class"]) {
		hides, is := s["."+class]
		if is && !hides {
			return false
		}
		hidden, known = hidden || hides, known || is
	}
	return hidden || !known && s[tag]
}
