// Package robots reads robots.txt as RFC 9309 says, and names the line that decided: a verdict
// without its line cannot be checked. Its source is the RFC, section
// 2.2; Content-Signal is read as contentsignals.org describes it.
package robots

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// MaxBytes is how much of a file is read; RFC 9309 asks for at least 500 KiB.
const MaxBytes = 512_000

// File is a robots.txt.
type File struct {
	groups []group
	// Sitemaps are what Sitemap lines name; Signals are Content-Signal lines, as they are.
	Sitemaps, Signals []string
	// Lines counts the lines that say something.
	Lines int
}

type group struct {
	agents []string
	rules  []rule
}

type rule struct {
	allow bool
	path  string
	line  string
}

// Decision reports whether a path may be read.
type Decision struct {
	Allowed bool
	// Line is the line that decided, as it is in the file; empty where none did.
	Line string
}

// Parse reads a file; what is not a directive is passed over.
func Parse(text string) *File {
	f := &File{}
	if len(text) > MaxBytes {
		text = text[:MaxBytes]
	}
	text = strings.TrimPrefix(text, "\ufeff")
	naming := false // the line before named an agent: one more belongs to the same group
	breaks := func(r rune) bool { return r == '\n' || r == '\r' }
	for _, line := range strings.FieldsFunc(text, breaks) {
		plain, _, _ := strings.Cut(line, "#")
		name, value, ok := strings.Cut(plain, ":")
		if !ok {
			continue
		}
		name, value = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value)
		switch name {
		case "user-agent", "useragent", "user agent":
			if !naming || len(f.groups) == 0 {
				f.groups = append(f.groups, group{})
			}
			last := &f.groups[len(f.groups)-1]
			last.agents = append(last.agents, product(value))
			naming = true
		case "allow", "disallow":
			naming = false
			if len(f.groups) == 0 {
				continue // a rule before any agent belongs to none
			}
			if value != "" { // an empty rule matches nothing
				last := &f.groups[len(f.groups)-1]
				last.rules = append(last.rules, rule{name == "allow", encoded(value), strings.TrimSpace(line)})
			}
		case "sitemap": // belongs to no group, and ends none
			f.Sitemaps = append(f.Sitemaps, value)
		case "content-signal":
			f.Signals = append(f.Signals, strings.TrimSpace(line))
		default:
			continue
		}
		f.Lines++
	}
	return f
}

// product is the product token of a user agent: what comes before a slash or a space.
func product(agent string) string {
	end := strings.IndexFunc(agent, func(r rune) bool {
		return r != '-' && r != '_' && r != '*' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	if end >= 0 {
		agent = agent[:end]
	}
	return strings.ToLower(agent)
}

// Decide reports whether an agent (its product token) may read a path with its query. Groups of the
// same agent are one; without one of its own an agent is bound by *. The longest rule that matches
// decides; of two as long, allow.
func (f *File) Decide(agent, path string) Decision {
	path = cmp.Or(path, "/")
	if path == "/robots.txt" {
		return Decision{Allowed: true}
	}
	rules, named := f.rulesOf(product(agent))
	if !named {
		rules, _ = f.rulesOf("*")
	}
	path = encoded(path)
	best, decision := -1, Decision{Allowed: true}
	for _, r := range rules {
		if !matches(r.path, path) {
			continue
		}
		if n := len(r.path); n > best || n == best && r.allow && !decision.Allowed {
			best, decision = n, Decision{Allowed: r.allow, Line: r.line}
		}
	}
	return decision
}

func (f *File) rulesOf(agent string) (rules []rule, named bool) {
	for i := range f.groups {
		for _, a := range f.groups[i].agents {
			if a == agent {
				rules, named = append(rules, f.groups[i].rules...), true
				break
			}
		}
	}
	return rules, named
}

// matches reports whether a pattern matches the beginning of a path: * is anything, a final $ the
// end.
func matches(pattern, path string) bool {
	pattern, whole := strings.CutSuffix(pattern, "$")
	parts := strings.Split(pattern, "*")
	if !strings.HasPrefix(path, parts[0]) {
		return false
	}
	rest := path[len(parts[0]):]
	if len(parts) == 1 {
		return !whole || rest == ""
	}
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	last := parts[len(parts)-1]
	if whole {
		return strings.HasSuffix(rest, last)
	}
	return strings.Contains(rest, last)
}

// encoded brings a path into one spelling: octets that are not ASCII are percent-encoded, and what
// is percent-encoded but unreserved is not.
func encoded(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		octet, escaped := path[i], false
		if rest := path[i:]; octet == '%' && len(rest) > 2 {
			if n, err := strconv.ParseUint(rest[1:3], 16, 8); err == nil {
				octet, escaped = byte(n), true
				i += 2
			}
		}
		if octet >= 0x80 || escaped && !unreserved(octet) {
			fmt.Fprintf(&b, "%%%02X", octet)
		} else {
			b.WriteByte(octet)
		}
	}
	return b.String()
}

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		strings.IndexByte("-._~", c) >= 0
}
