package cmd_test

import (
	"bytes"
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"regexp"
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// refused are phrases that the project's texts do not use, with what they say instead.
var refused = []struct {
	phrase  *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`\bfor ever\b`), "forever"},
	{regexp.MustCompile(`\bin clear\b`), "in plaintext, unencrypted"},
	{regexp.MustCompile(`\bis there twice\b`), "appears more than once"},
	{regexp.MustCompile(`\bfinds done what is done\b`), "is idempotent"},
	{regexp.MustCompile(`\bnot made for liars\b`), "is not Byzantine fault tolerant"},
	{regexp.MustCompile(`\bmay (?:do )?everything\b`), "can do everything"},
	{regexp.MustCompile(`\b[Ss]hould you ask\b`), "if you contact support"},
	{regexp.MustCompile(`\bas much as may be\b`), "limit reached"},
	{regexp.MustCompile(`\bas are possible\b`), "limit reached"},
	{
		regexp.MustCompile(`\b[Aa]s (?:many|much)\b[^.;:]* as (?:(?:it|they|one|you) )?may\b`),
		"limit reached",
	},
	{regexp.MustCompile(`\bis no well-formed\b`), "malformed"},
	{regexp.MustCompile(`\bof the expected format\b`), "invalid"},
	{regexp.MustCompile(`\bWhat stays at most\b`), "maximum carried over"},
	{regexp.MustCompile(`\btaken without a restart\b`), "picked up without a restart"},
	{regexp.MustCompile(`\bsays whether\b`), "reports whether"},
	{regexp.MustCompile(`\b[Ww]hoever operates\b`), "the operator"},
	{regexp.MustCompile(`\b[Nn]obody is signed in\b`), "not signed in"},
	{regexp.MustCompile(`\bdoes what the package says\b`), "what it does"},
	{regexp.MustCompile(`\bat the most\b`), "at most"},
	{regexp.MustCompile(`\bin the place of\b`), "in place of, instead of"},
	{regexp.MustCompile(`\bfor it is\b`), "because it is"},
	{regexp.MustCompile(`\bin vain\b`), "without effect"},
	{regexp.MustCompile(`\bin its turn\b`), "too"},
	{regexp.MustCompile(`\b(?:had|has|have had) (?:its|their) say\b`), "has answered"},
	{regexp.MustCompile(`\banswered lately\b`), "answered recently"},
	{regexp.MustCompile(`\btakes? in (?:what|that|who)\b`), "reads, records, counts"},
	{regexp.MustCompile(`\braft's word\b`), "what raft answered"},
	{regexp.MustCompile(`\bamid\b`), "between, during"},
	{regexp.MustCompile(`\bworks? out again\b`), "computes again"},
	{regexp.MustCompile(`\blets? happen\b`), "carries out"},
	{regexp.MustCompile(`\bcomes? to pass\b`), "happens, takes effect"},
	{regexp.MustCompile(`\bbrought forth\b`), "made"},
	{regexp.MustCompile(`\bleads? to rows that exist\b`), "refers to existing rows"},
	{regexp.MustCompile(`\bthrice\b|\bbesides that\b|\bwherefore\b|\bamidst\b`), "a plain word"},
}

// refusedOfProduct are phrases that documents, pages, comments and string literals do not use, but
// for those of tests. Names of functions and of customers are exempt.
var refusedOfProduct = []struct {
	phrase  *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?i)(?:^|[^"])\bnobody\b`), "no client, no node, no one"},
	{regexp.MustCompile(`(?i)(?:^|\w )beside\b`), "next to, alongside, with, compared with, during"},
	{regexp.MustCompile(`(?i)//.*\bsays that\b`), "means that, reports"},
}

// refusedOfTexts are phrases that string literals, pages and guides do not use, other than those of
// tests: what users read.
var refusedOfTexts = []struct {
	phrase  *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`\bno more(?:$|["<.,;:] ?)`), "no longer"},
	{regexp.MustCompile(`\b(?:come|came) of it\b`), "result, status"},
	{regexp.MustCompile(`\bis told\b`), "is notified, is reported, is documented"},
	{regexp.MustCompile(`\bare told\b`), "are notified, are reported, are documented"},
	{regexp.MustCompile(`\blies there\b`), "the file"},
	{regexp.MustCompile(`\bas long as that\b`), "while"},
	{regexp.MustCompile(`\b[Aa]t most (?:in )?a (?:month|window|period)\b`), "Monthly maximum"},
	{regexp.MustCompile(`\w, at most(?:$|["<])`), "Maximum …"},
}

// refusedLabels are those that pages, help and the summaries of routes do not have: what a person
// presses or reads in a table's head is the field's own word, a verb with its noun.
var refusedLabels = []struct {
	label   *regexp.Regexp
	instead string
}{
	{
		regexp.MustCompile(`(?:<(?:button|summary|h2)\b|class="button)[^>]*>(?:{{[^}]*}})*Make\b`),
		"Create …",
	},
	{
		regexp.MustCompile(`(?:Button|Title): +"Make\b|\b[Ww]as made"}|\bMake one below\b`),
		"Create …",
	},
	{regexp.MustCompile(`"Action" "Make\b|(?:help|about):"Make\b|row\([^)]*"Make\b`), "Create …"},
	{
		regexp.MustCompile(`<th\b[^>]*>(?:May|Made|Answers|Next use)</th>`),
		"Scope, Created, Role, Health, State",
	},
	{regexp.MustCompile(`<(?:button|summary|a)\b[^>]*>[A-Z][a-z]+ (?:it|them)\b`), "verb and noun"},
	{regexp.MustCompile(`Button: +"[^"]*\b(?:it|them)"`), "verb and noun"},
	{regexp.MustCompile(`\bIt stands in addresses\b`), "Used in URLs."},
}

// TestLabelsAreTheFieldsWords: pages, command help and the operations of the APIs use the words of
// the field.
func TestLabelsAreTheFieldsWords(t *testing.T) {
	t.Chdir(root)
	list, err := exec.Command("git", "ls-files", "server/*.html", "server/*.go", "cmd/*.go").Output()
	require.NoError(t, err)
	var offenders []string
	for _, path := range strings.Fields(string(list)) {
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) || path == "cmd/english_test.go" {
			continue
		}
		require.NoError(t, err)
		for i, line := range strings.Split(string(text), "\n") {
			for _, r := range refusedLabels {
				if found := r.label.FindString(line); found != "" {
					offenders = append(offenders, fmt.Sprintf("%s:%d: %q: say %q", path, i+1, found, r.instead))
				}
			}
		}
	}
	report(t, "labels are the field's words", offenders)
}

// prose is what product code and documents say to readers, by line: of Go its string literals of
// more than a word, and after "//" its comments.
func prose(path string, lines []string) []string {
	switch {
	case strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "_gen.go"):
		return nil
	case strings.HasSuffix(path, ".go"):
		texts := literals(lines)
		for i, line := range lines {
			_, comment, _ := strings.Cut(line, "//")
			texts[i] += "//" + comment
		}
		return texts
	}
	return lines
}

// userTexts are the lines of prose that users read.
func userTexts(path string, lines []string) []string {
	switch {
	case strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "_gen.go"):
		return nil
	case strings.HasSuffix(path, ".go"):
		return literals(lines)
	case strings.HasSuffix(path, ".html") || strings.HasSuffix(path, "/guide.md") ||
		path == "server/workspaceapi/operators.md":
		return lines
	}
	return nil
}

// inState is a reason that is part of the workspace engine's state, as its pins have it, and of the
// dictionary by which texts are packed.
const inState = "Nobody helped in time."

// literals are the string literals of a Go file's lines that have more than one word.
func literals(lines []string) []string {
	text := []byte(strings.Join(lines, "\n"))
	found := make([]string, len(lines))
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	for {
		pos, kind, literal := s.Scan()
		if kind == token.EOF {
			return found
		}
		if kind != token.STRING || !strings.Contains(literal, " ") {
			continue
		}
		first := file.Line(pos) - 1
		for i, line := range strings.Split(strings.Trim(literal, "`\""), "\n") {
			found[first+i] += strings.ReplaceAll(line, inState, "") + "\" "
		}
	}
}

// isNo finds "a 5 is no boolean"; "there is no", "is no longer" and "is no more than" are English.
var isNo = regexp.MustCompile(`(\w+) (?:is|are) no (\w+)`)

// quick is a phrase with a text that whatever it matches contains, in lower case. Looking for that
// in a file first takes a tenth of the time.
type quick struct {
	phrase  *regexp.Regexp
	instead string
	part    []byte
}

func quickly(t *testing.T, phrase *regexp.Regexp, instead string) quick {
	t.Helper()
	tree, err := syntax.Parse(phrase.String(), syntax.Perl)
	require.NoError(t, err)
	q := quick{phrase, instead, nil}
	if tree.Op != syntax.OpConcat {
		return q
	}
	for _, sub := range tree.Sub {
		if sub.Op == syntax.OpLiteral && len(sub.Rune) > len(q.part) {
			q.part = []byte(strings.ToLower(string(sub.Rune)))
		}
	}
	return q
}

// TestTextsArePlainEnglish: comments, errors, pages and documents read as the Go standard library
// does. What is refused came of translating; CONTRIBUTING.md, "Style".
func TestTextsArePlainEnglish(t *testing.T) {
	t.Chdir(root)
	list, err := exec.Command("git", "ls-files", "*.go", "*.md", "*.html", "*.js", "*.yaml", "*.txt").Output()
	require.NoError(t, err)
	var everywhere, ofProduct, ofTexts []quick
	for _, r := range refused {
		everywhere = append(everywhere, quickly(t, r.phrase, r.instead))
	}
	for _, r := range refusedOfProduct {
		ofProduct = append(ofProduct, quickly(t, r.phrase, r.instead))
	}
	for _, r := range refusedOfTexts {
		ofTexts = append(ofTexts, quickly(t, r.phrase, r.instead))
	}
	var offenders []string
	for _, path := range strings.Fields(string(list)) {
		if path == "cmd/english_test.go" || strings.Contains(path, "/testdata/") ||
			strings.HasPrefix(path, "docs/api/") { // made of other texts, and of what tests are answered
			continue
		}
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue
		}
		require.NoError(t, err)
		lower := bytes.ToLower(text)
		all := strings.Split(string(text), "\n")
		look := func(phrases []quick, lines []string) {
			for _, q := range phrases {
				if !bytes.Contains(lower, q.part) {
					continue
				}
				for i, line := range lines {
					if found := q.phrase.FindString(line); found != "" {
						offenders = append(offenders,
							fmt.Sprintf("%s:%d: %q: say %q", path, i+1, found, q.instead))
					}
				}
			}
		}
		look(everywhere, all)
		look(ofProduct, prose(path, all))
		look(ofTexts, userTexts(path, all))
		for i, line := range all {
			if !strings.Contains(line, " no ") {
				continue
			}
			for _, found := range isNo.FindAllStringSubmatch(line, -1) {
				if !strings.EqualFold(found[1], "there") && !isEnglish[found[2]] {
					offenders = append(offenders, fmt.Sprintf("%s:%d: %q: say \"is not a\"", path, i+1, found[0]))
				}
			}
		}
	}
	report(t, "texts are plain English", offenders)
}

var isEnglish = map[string]bool{"longer": true, "more": true, "larger": true, "limit": true}
