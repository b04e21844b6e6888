package manual

import (
	"fmt"
	"strings"
)

// Markdown makes the reference of an API as files in Markdown, for who reads the repository without
// a node: README.md, objects.md, errors.md and one for each part.
func Markdown(document []byte) (files map[string]string, err error) {
	p, err := readOpenAPI(document)
	if err != nil {
		return nil, err
	}
	r := reader{published: p, root: "."}
	parts, err := r.parts()
	if err != nil {
		return nil, err
	}
	var overview file
	overview.line("# %s", p.Info.Title)
	overview.line("%s", p.Info.Description)
	overview.line("Every node shows these pages, too, below `/docs/api`. " +
		"Tests generate them from the OpenAPI document.")
	files = map[string]string{
		"objects.md": explained("Objects", "A name with * is always there.", r.objects()),
		"errors.md": explained("Errors",
			"Every code with which an operation answers, with an example if a test got one.", r.errors()),
	}
	for _, part := range parts {
		name := strings.TrimPrefix(part.URL, "./") + ".md"
		overview.line("## [%s](%s)", part.Name, name)
		overview.line("%s", part.text)
		overview.row("operation", "request")
		overview.row("---", "---")
		for _, o := range part.Operations {
			overview.row(fmt.Sprintf("[%s](%s#%s)", cell(o.Summary), name, strings.ToLower(o.ID)),
				code(o.Method+" "+o.Path))
		}
		files[name] = part.markdown()
	}
	overview.line("## Also")
	overview.line("- [Objects](objects.md): what requests and answers are made of\n" +
		"- [Errors](errors.md): every code, with answers")
	files["README.md"] = overview.String()
	return files, nil
}

// file is a file in Markdown: paragraphs, and tables of rows.
type file struct {
	strings.Builder
	table bool
}

// line adds a paragraph, a heading or a block.
func (t *file) line(format string, args ...any) {
	said := strings.TrimSpace(fmt.Sprintf(format, args...))
	if said == "" {
		return
	}
	if t.Len() > 0 {
		t.WriteString("\n")
	}
	t.table = false
	t.WriteString(said + "\n")
}

// row adds a row to a table, which it begins where there is none.
func (t *file) row(cells ...string) {
	if !t.table {
		t.WriteString("\n")
		t.table = true
	}
	t.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

// block adds lines of code.
func (t *file) block(kind, source string) {
	if source != "" {
		t.line("```%s\n%s\n```", kind, strings.TrimRight(source, "\n"))
	}
}

func (t *file) fields(all []field) {
	t.row("name", "type", "meaning")
	t.row("---", "---", "---")
	for i := range all {
		f := &all[i]
		name, kind := code(f.Name), f.Before+f.Type
		if f.Required {
			name += " *"
		}
		if page, object, found := strings.Cut(f.Ref, "#"); found {
			kind = f.Before + "[" + f.Type + "](" + strings.TrimPrefix(page, "./") + ".md#" +
				strings.ToLower(object) + ")"
		}
		t.row(name, kind, cell(f.About))
	}
}

// cell is a text within a row.
func cell(said string) string {
	return strings.NewReplacer("|", `\|`, "<", `\<`, "\n", " ").Replace(said)
}

// code is a name within a row.
func code(name string) string { return "`" + strings.ReplaceAll(name, "|", `\|`) + "`" }

func (p *part) markdown() string {
	var t file
	t.line("# %s", p.Name)
	t.line("%s", p.text)
	t.line("A name with * is always there. [Overview](README.md)")
	for _, o := range p.Operations {
		o.markdown(&t)
	}
	return t.String()
}

func (o *operation) markdown(t *file) {
	t.line("## %s", o.ID)
	key := ""
	if o.Open {
		key = " It needs no key."
	}
	t.line("`%s %s`: %s.%s", o.Method, o.Path, strings.TrimSuffix(o.Summary, "."), key)
	t.line("%s", o.text)
	if len(o.Parameters) > 0 {
		t.line("Parameters:")
		t.fields(o.Parameters)
	}
	if len(o.Body) > 0 {
		optional := ""
		if o.BodyOptional {
			optional = ", optional"
		}
		t.line("Body, `%s`%s:", strings.Join(o.Media, "`, `"), optional)
		t.fields(o.Body)
	}
	t.block("bash", o.Request)
	for _, a := range o.Answers {
		t.line("**%s** %s", a.Status, a.About)
		if len(a.Fields) > 0 {
			t.fields(a.Fields)
		}
		for _, e := range a.Examples {
			t.block("json", e)
		}
	}
	if len(o.Refusals) == 0 {
		return
	}
	t.line("Refusals:")
	t.row("status", "code", "meaning")
	t.row("---", "---", "---")
	for _, f := range o.Refusals {
		name := code(f.Code)
		if f.Name != "" {
			name = "[" + name + "](errors.md#" + strings.ToLower(f.Name) + ")"
		}
		t.row(f.Status, name, cell(f.About))
	}
}

// explained is the file of objects, or of errors.
func explained(title, lead string, all []object) string {
	var t file
	t.line("# %s", title)
	t.line("%s [Overview](README.md)", lead)
	for i := range all {
		o := &all[i]
		t.line("## %s", o.ID)
		if o.Title != o.ID {
			t.line("%s", o.Title)
		}
		t.line("%s", o.About)
		if len(o.Fields) > 0 {
			t.fields(o.Fields)
		}
		t.block("json", o.Example)
	}
	return t.String()
}
