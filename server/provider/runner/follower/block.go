package follower

import (
	"html"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"tollgate/server/inspect/collect"
	"tollgate/server/inspect/page"
	"tollgate/server/inspect/signup"
	"tollgate/server/inspect/tree"
)

const (
	longestBlock = 4096
	// maxBlocks is how many requests of one text are looked at.
	maxBlocks = 50
)

var (
	curl     = regexp.MustCompile(`\bcurl\s`)
	postLine = regexp.MustCompile("\\bPOST\\s+(https?://[^\\s\"'`<>]+|/[^\\s\"'`<>]*)")
)

// keyHeader is a header of a shown request that carries a credential.
var keyHeader = regexp.MustCompile(`(?im)^\s*(authorization|x-api-key|cookie):`)

// blocks are requests that texts show and that sign somebody up: a curl command, or a line
// "POST address" with a JSON body after it.
func (p *published) blocks() (ways []way) {
	for _, o := range p.texts {
		text := o.Text
		if page.IsHTML(text) {
			text = html.UnescapeString(strings.Join(page.HTML(text).Runs, "\n"))
		}
		for _, at := range curl.FindAllStringIndex(text, maxBlocks) {
			block := head(text[at[0]:], longestBlock)
			words, length := shellWords(block)
			ways = p.block(ways, o, block[:length], curlRequest(words))
		}
		for _, at := range postLine.FindAllStringSubmatchIndex(text, maxBlocks) {
			if line := text[strings.LastIndexByte(text[:at[0]], '\n')+1 : at[0]]; curl.MatchString(line) {
				continue // read as the command that it is
			}
			if at[3]-at[0] > longestBlock {
				continue // an address that nobody writes
			}
			block := head(text[at[0]:], longestBlock)
			shown := &shownRequest{method: http.MethodPost, url: text[at[2]:at[3]]}
			rest := block[at[3]-at[0]:]
			if next := postLine.FindStringIndex(rest); next != nil {
				rest = rest[:next[0]]
			}
			shown.body = objectIn(rest)
			before, _, _ := strings.Cut(rest, "{")
			shown.keyed = keyHeader.MatchString(head(before, 400))
			line, _, _ := strings.Cut(block, "\n")
			ways = p.block(ways, o, line, shown)
		}
	}
	return ways
}

// shownRequest is a request as a text shows it.
type shownRequest struct {
	method, url, body string
	// keyed reports whether it carries a credential.
	keyed, form bool
}

// block adds a way where a shown request is one.
func (p *published) block(ways []way, o *collect.Observation, quote string, r *shownRequest) []way {
	if r == nil || r.method != http.MethodPost || r.keyed {
		return ways
	}
	address := resolved(o.URL, strings.TrimRight(r.url, ".,;)"))
	u, err := url.Parse(address)
	if err != nil || address == "" || signup.Score(u.Path, "", false) == 0 {
		return ways
	}
	w := way{kind: "code_block", at: o.URL, quote: quote}
	w.first = &request{method: r.method, url: address, media: "application/json"}
	if r.form {
		w.first.media = "application/x-www-form-urlencoded"
		if values, err := url.ParseQuery(r.body); err == nil {
			fields := map[string]any{}
			for _, name := range slices.Sorted(maps.Keys(values)) {
				value := &tree.Node{Kind: tree.Text, Value: values.Get(name)}
				if fields[name], w.why = p.fill.shown(name, value, 0); w.why != nil {
					break
				}
			}
			w.first.body = fields
		}
		return append(ways, w)
	}
	if root, err := tree.ParseJSON(r.body); err == nil {
		w.first.body, w.why = p.fill.shown("", root, 0)
	}
	return append(ways, w)
}

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
func curlRequest(words []string) *shownRequest {
	r := &shownRequest{}
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
			r.method = strings.ToUpper(argument())
		case strings.HasPrefix(words[i], "-X"):
			r.method = strings.ToUpper(words[i][2:])
		case name == "-d" || name == "--json" || strings.HasPrefix(name, "--data"):
			r.body = argument()
		case name == "-H" || name == "--header":
			header := strings.ToLower(argument())
			r.form = r.form || strings.Contains(header, "form-urlencoded")
			r.keyed = r.keyed || strings.HasPrefix(header, "authorization:") ||
				strings.HasPrefix(header, "x-api-key:") || strings.HasPrefix(header, "cookie:")
		case name == "-u" || name == "--user" || name == "-b" || name == "--oauth2-bearer":
			r.keyed = true
		case name == "-o" || name == "-m" || name == "-A" || name == "--url":
			if given := argument(); name == "--url" {
				r.url = given
			}
		case strings.HasPrefix(words[i], "-"):
		case r.url == "":
			r.url = words[i]
		}
	}
	if r.method == "" && r.body != "" {
		r.method = http.MethodPost
	}
	if r.body != "" && !strings.HasPrefix(strings.TrimSpace(r.body), "{") &&
		strings.Contains(r.body, "=") {
		r.form = true
	}
	if r.url == "" {
		return nil
	}
	return r
}
