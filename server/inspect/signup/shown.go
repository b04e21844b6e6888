package signup

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"tollgate/server/inspect/tree"
)

const (
	maxBlock = 4096
	// maxBlocks is how many requests of one text are looked at.
	maxBlocks = 50
)

var (
	curl     = regexp.MustCompile(`\bcurl\s`)
	postLine = regexp.MustCompile("\\bPOST\\s+(https?://[^\\s\"'`<>]+|/[^\\s\"'`<>]*)")
)

// keyHeader is a header of a shown request that carries a credential.
var keyHeader = regexp.MustCompile(`(?im)^\s*(authorization|x-api-key|cookie):`)

// Shown is a request as a text shows it.
type Shown struct {
	Method, URL, Body string
	// Quote is where it is in the text, At where that begins.
	Quote string
	At    int
	// Keyed reports whether it carries a credential, Form whether its body is a form's.
	Keyed, Form bool
}

// Requests are the requests that a text shows: curl commands, and lines "POST address" with a JSON
// body after them.
func Requests(text string) (all []*Shown) {
	for _, at := range curl.FindAllStringIndex(text, maxBlocks) {
		block := head(text[at[0]:], maxBlock)
		words, length := shellWords(block)
		if r := curlRequest(words); r != nil {
			r.Quote, r.At = block[:length], at[0]
			all = append(all, r)
		}
	}
	for _, at := range postLine.FindAllStringSubmatchIndex(text, maxBlocks) {
		if line := text[strings.LastIndexByte(text[:at[0]], '\n')+1 : at[0]]; curl.MatchString(line) {
			continue // read as the command that it is
		}
		if at[3]-at[0] > maxBlock {
			continue // longer than addresses are
		}
		block := head(text[at[0]:], maxBlock)
		r := &Shown{Method: http.MethodPost, URL: text[at[2]:at[3]], At: at[0]}
		rest := block[at[3]-at[0]:]
		if next := postLine.FindStringIndex(rest); next != nil {
			rest = rest[:next[0]]
		}
		r.Body = objectIn(rest)
		before, _, _ := strings.Cut(rest, "{")
		r.Keyed = keyHeader.MatchString(head(before, 400))
		r.Quote, _, _ = strings.Cut(block, "\n")
		all = append(all, r)
	}
	return all
}

// SignsUp is the address that the request signs somebody up at, where the text that shows it stands
// at base: a POST without a credential. Empty where it is none.
func (r *Shown) SignsUp(base string) string {
	if r.Method != http.MethodPost || r.Keyed || r.URL == "" {
		return ""
	}
	at, err := url.Parse(base)
	if err != nil {
		return ""
	}
	to, err := at.Parse(strings.TrimRight(r.URL, ".,;)"))
	if err != nil || Score(to.Path, "") == 0 {
		return ""
	}
	return to.String()
}

func head(text string, n int) string { return tree.Cut(strings.ToValidUTF8(text, "?"), n) }

// objectIn is the first JSON object that a text begins within its first 400 bytes; empty where
// there is none.
func objectIn(text string) string {
	from := strings.IndexByte(head(text, 400), '{')
	if from < 0 {
		return ""
	}
	depth, inText := 0, false
	for i := from; i < len(text); i++ {
		switch c := text[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				return text[from : i+1]
			}
		}
	}
	return ""
}

// shellWords splits a command as a shell does, up to the end of its line; quotes and a backslash
// before the line break go on. Nothing is expanded.
func shellWords(text string) (words []string, length int) {
	var word strings.Builder
	open, begun := byte(0), false
	end := func() {
		if begun {
			words = append(words, word.String())
		}
		word.Reset()
		begun = false
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case open == '\'' && c != '\'' || open == '"' && c != '"' && c != '\\':
			word.WriteByte(c)
		case c == '\\' && i+1 < len(text):
			if i++; text[i] != '\n' && text[i] != '\r' {
				word.WriteByte(text[i])
				begun = true
			}
		case open != 0: // its end
			open = 0
		case c == '\'' || c == '"':
			open, begun = c, true
		case c == '\n' || c == '|' || c == ';' || c == '`':
			end()
			return words, i
		case c == ' ' || c == '\t' || c == '\r':
			end()
		default:
			word.WriteByte(c)
			begun = true
		}
	}
	end()
	return words, len(text)
}

// curlRequest reads a curl command; nil where it is none that is understood.
func curlRequest(words []string) *Shown {
	r := &Shown{}
	for i := 1; i < len(words); i++ {
		name, value, joined := strings.Cut(words[i], "=")
		argument := func() string {
			if joined && strings.HasPrefix(name, "--") {
				return value
			}
			if i++; i < len(words) {
				return words[i]
			}
			return ""
		}
		switch {
		case name == "-X" || name == "--request":
			r.Method = strings.ToUpper(argument())
		case strings.HasPrefix(words[i], "-X"):
			r.Method = strings.ToUpper(words[i][2:])
		case name == "-d" || name == "--json" || strings.HasPrefix(name, "--data"):
			r.Body = argument()
		case name == "-H" || name == "--header":
			header := strings.ToLower(argument())
			r.Form = r.Form || strings.Contains(header, "form-urlencoded")
			r.Keyed = r.Keyed || keyHeader.MatchString(header)
		case name == "-u" || name == "--user" || name == "-b" || name == "--oauth2-bearer":
			r.Keyed = true
		case name == "-o" || name == "-m" || name == "-A" || name == "--url":
			if given := argument(); name == "--url" {
				r.URL = given
			}
		case strings.HasPrefix(words[i], "-"):
		case r.URL == "":
			r.URL = words[i]
		}
	}
	if r.Method == "" && r.Body != "" {
		r.Method = http.MethodPost
	}
	if r.Body != "" && !strings.HasPrefix(strings.TrimSpace(r.Body), "{") &&
		strings.Contains(r.Body, "=") {
		r.Form = true
	}
	if r.URL == "" {
		return nil
	}
	return r
}
