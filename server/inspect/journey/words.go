package journey

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"tollgate/server/inspect/document"
)

// common are words that say nothing about what a task is about.
var common = strings.Fields(`
	a able about account after all also an and any api app application as at be been before
	but by call calls can create created delete do does each end ensure every existing find
	first for from get given has have how if in into is it its list make me my need new not of
	off on one only or our out over own product read remove request result return see service
	set should show site so some such sure test than that the their them then there these they
	this through to try up update use user using value via want was way we web website what
	when where which who will with work would you your`)

// wordsOf are the stems of a text's words that say what it is about, each once, in order.
func wordsOf(text string) (words []string) {
	// A name in camel case is words, too.
	var spaced strings.Builder
	before := ' '
	for _, r := range text {
		if unicode.IsUpper(r) && unicode.IsLower(before) {
			spaced.WriteByte(' ')
		}
		spaced.WriteRune(r)
		before = r
	}
	for word := range strings.FieldsFuncSeq(strings.ToLower(spaced.String()), func(r rune) bool {
		return !unicode.IsLetter(r)
	}) {
		if len(word) < 3 || slices.Contains(common, word) {
			continue
		}
		if stem := stemOf(word); !slices.Contains(words, stem) {
			words = append(words, stem)
		}
	}
	return words
}

var endings = []string{"ations", "ation", "ings", "ing", "ies", "ed", "es", "s", "y", "e"}

// stemOf takes an English ending off, where enough is left.
func stemOf(word string) string {
	for _, ending := range endings {
		if stem, ok := strings.CutSuffix(word, ending); ok && len(stem) >= 3 {
			return stem
		}
	}
	return word
}

// understand compares the task's words with the names of what the product can do: a word that
// occurs there is what an agent would look for.
func (j *Journey) understand(d *document.Document) Stage {
	wanted := wordsOf(j.Task)
	if len(wanted) > maxWords {
		wanted = wanted[:maxWords]
	}
	var found, obs []string
	look := func(name string, basedOn ...string) {
		for _, word := range wordsOf(name) {
			if slices.Contains(wanted, word) {
				found, obs = document.Distinct(append(found, word)), document.Distinct(append(obs, basedOn...))
			}
		}
	}
	for i := range d.Capabilities {
		look(d.Capabilities[i].Name, d.Capabilities[i].Evidence[0].Obs)
	}
	for i := range d.Required.Operations {
		o := &d.Required.Operations[i]
		look(o.Operation, o.BasedOn...)
	}
	switch {
	case len(found) > 0:
		return say(Success, "understand_words", fmt.Sprintf(
			"Of %d words of the task, what is published names %d: %s.",
			len(wanted), len(found), strings.Join(found, ", ")), obs...)
	case len(d.Capabilities)+len(d.Required.Operations) == 0:
		return say(Unknown, "understand_nothing_published",
			"Nothing that was read says what the product can do.")
	}
	return say(Unknown, "understand_no_word",
		"What is published names no word of the task; no model compared their meanings.")
}

// maxWords is how many words of a task are compared.
const maxWords = 100
