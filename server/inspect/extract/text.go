package extract

import (
	"iter"
	"regexp"
	"slices"

	"tollgate/server/inspect/collect"
	"tollgate/server/inspect/document"
)

// spoken are the roles of answers that people read, in the order in which they are read.
var spoken = []string{
	collect.RoleHome, collect.RoleHomeMarkdown, collect.RoleLLMs, collect.RoleLLMsFull,
	collect.RoleAuthMD, collect.RoleDocs, collect.RoleAuthDocs, collect.RolePricing,
	collect.RoleSignup,
}

// atOnce are roles whose address is known without a link: they count only when they are not HTML.
var atOnce = []string{
	collect.RoleHomeMarkdown, collect.RoleLLMs, collect.RoleLLMsFull, collect.RoleAuthMD,
}

// phrase is something that texts speak of; what is denied (no) does not count.
type phrase struct {
	name   string
	is, no *regexp.Regexp
}

// terms are ways to authenticate, as texts mention them.
var terms = []phrase{
	{"api_key", regexp.MustCompile(`(?i)\bAPI[ -]?keys?\b`), nil},
	{"bearer", regexp.MustCompile(`(?i)\bbearer (token|auth)|authorization: bearer\b`), nil},
	{"oauth", regexp.MustCompile(`(?i)\bOAuth ?(2(\.[01])?)?\b`), nil},
	{"access_token", regexp.MustCompile(`(?i)\b(personal )?access tokens?\b`), nil},
	{"basic", regexp.MustCompile(`(?i)\b(HTTP )?basic auth(entication)?\b`), nil},
}

// setup is how texts say where a credential comes from.
var setup = regexp.MustCompile(`(?i)\b(creat|generat|get|obtain|issu|request|find|copy|mint)\w*\b` +
	`[^.!?]{0,60}\b(API[ -]?keys?|access tokens?|tokens?|credentials?)\b|` +
	`/v\d/(signup|sign-up|register|keys)\b`)

// frictions stop an agent on its way to a credential.
var frictions = []phrase{
	{
		"captcha", regexp.MustCompile(`(?i)\b(re|h)?captcha\b|cf-turnstile`),
		regexp.MustCompile(`(?i)\bno (re|h)?captcha`),
	},
	{
		"contact_sales",
		regexp.MustCompile(`(?i)\b(contact|talk to|speak (to|with)) (our )?sales\b|\bbook a demo\b`), nil,
	},
	{
		"approval", regexp.MustCompile(`(?i)\brequest access\b|\b(join|on) the wait-?list\b|` +
			`\binvite[- ]only\b|\bmanual(ly)? (approv|review)`), nil,
	},
	{
		"payment_first", regexp.MustCompile(`(?i)\bcredit card (is )?required\b`),
		regexp.MustCompile(`(?i)\b(no|without( a)?) credit card`),
	},
	{
		"phone", regexp.MustCompile(`(?i)\b(verify your|phone) (phone )?(number|verification)\b`), nil,
	},
	{
		"person", regexp.MustCompile(`(?i)\bin (the|your) (dashboard|console|account settings)\b|` +
			`\b(log|sign) in to (the|your) (dashboard|console|account)\b`), nil,
	},
}

var (
	mcpWords = regexp.MustCompile(`\bMCP (server|endpoint)s?\b|\bModel Context Protocol\b`)
	apiWords = regexp.MustCompile(`\b(REST(ful)?|HTTP|GraphQL|JSON|Web|Public)[ -]APIs?\b|` +
		`\bAPI (reference|documentation|docs|endpoints?|keys?)\b|https://api\.`)
	cliWords   = regexp.MustCompile(`\bCLI\b|(?i)\bcommand[- ]line (tool|interface|client)\b`)
	cliInstall = regexp.MustCompile(`\bnpm (install|i) (-g|--global) [@\w]|\bnpx (-y )?[@\w]|` +
		`\bbrew install \w|\bcargo install \w|\bpipx install \w|\bgo install \S+@|` +
		`\bcurl [^|]{1,200}\| ?(sudo )?(ba)?sh\b|\bwinget install \w`)
)

// texts reads what people read.
func (r *reader) texts() {
	mentions := map[string][]document.Evidence{}
	stops := map[string][]document.Evidence{}
	for o := range r.spoken() {
		r.f.Spoken = append(r.f.Spoken, o.ID)
		if r.page(o).Unread {
			r.unread++
		}
		for _, run := range r.page(o).Runs {
			note(mentions, terms, o.ID, run)
			note(stops, frictions, o.ID, run)
			r.run(o.ID, run)
		}
	}
	for _, t := range terms {
		if list := mentions[t.name]; list != nil {
			r.f.Mentions = append(r.f.Mentions, document.AuthMention{Term: t.name, Evidence: list})
		}
	}
	for _, s := range frictions {
		if list := stops[s.name]; list != nil {
			r.f.Friction = append(r.f.Friction, document.Friction{Kind: s.name, Evidence: list})
		}
	}
}

// spoken are the answers that people read.
func (r *reader) spoken() iter.Seq[*collect.Observation] {
	return func(yield func(*collect.Observation) bool) {
		for _, role := range spoken {
			all := r.counts(role)
			if slices.Contains(atOnce, role) {
				all = r.plain(role)
			}
			for _, o := range all {
				if !r.over(o) && !yield(o) {
					return
				}
			}
		}
	}
}

// around is the piece of a run about a match: what can be quoted.
func around(run string, at []int) string {
	from, to := near(run, at)
	return run[from:to]
}

// near is where that piece is.
func near(run string, at []int) (from, to int) {
	from, to = max(at[0]-60, 0), min(at[1]+60, len(run))
	for from > 0 && run[from]&0xc0 == 0x80 {
		from--
	}
	for to < len(run) && run[to]&0xc0 == 0x80 {
		to++
	}
	return from, to
}

// note adds evidence of each phrase that a run has.
func note(found map[string][]document.Evidence, phrases []phrase, obs, run string) {
	for _, s := range phrases {
		if len(found[s.name]) == maxEvidence {
			continue
		}
		if at := s.is.FindStringIndex(run); at != nil && (s.no == nil || !s.no.MatchString(run)) {
			found[s.name] = add(found[s.name], obs, around(run, at))
		}
	}
}

func (r *reader) run(obs, run string) {
	for _, w := range []struct {
		is *regexp.Regexp
		to *[]document.Evidence
	}{
		{setup, &r.f.Setup},
		{mcpWords, &r.f.MCPTexts},
		{apiWords, &r.f.APITexts},
		{cliWords, &r.f.CLITexts},
		{cliInstall, &r.f.CLIInstalls},
		{onRequest, &r.f.OnDemand},
	} {
		if len(*w.to) == maxEvidence {
			continue
		}
		if at := w.is.FindStringIndex(run); at != nil {
			*w.to = add(*w.to, obs, around(run, at))
		}
	}
}
