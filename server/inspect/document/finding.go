package document

import (
	"reflect"
	"slices"
	"strings"
)

// Finding is what one rule says, with a quote from what it rests on: what two inspections of a host
// are compared by.
type Finding struct {
	// Field is the verdict's path in the document.
	Field, Verdict, Rule string
	// Quote is the verdict's evidence, else evidence of the same part of the document, else the
	// beginning of what was observed; empty where nothing was.
	Quote string
}

// Findings are all verdicts of the document, in its order. They are found by the document's types,
// so that no new one can be forgotten.
func (d *Document) Findings() []Finding {
	f := finder{document: d}
	f.walk("", reflect.ValueOf(d).Elem())
	return f.found
}

type finder struct {
	document *Document
	found    []Finding
}

func (f *finder) walk(path string, v reflect.Value) {
	switch value := v.Interface().(type) {
	case Evaluation:
		f.add(path, string(value.Verdict), value.Rule, value.BasedOn)
		if len(value.Evidence) > 0 {
			f.found[len(f.found)-1].Quote = value.Evidence[0].Quote
		}
		return
	case AuthRequired:
		f.add(path, string(value.Value), value.Rule, value.BasedOn)
		return
	}
	if v.Kind() != reflect.Struct {
		return
	}
	for i := range v.NumField() {
		name := v.Type().Field(i).Tag.Get("json")
		if path != "" {
			name = path + "." + name
		}
		f.walk(name, v.Field(i))
	}
}

func (f *finder) add(path, verdict, rule string, basedOn []string) {
	f.found = append(f.found, Finding{
		Field: path, Verdict: verdict, Rule: rule, Quote: f.quote(path, basedOn),
	})
}

// quote is the first evidence, within the part of the document that a verdict belongs to, from what
// the verdict rests on; else how that begins.
func (f *finder) quote(path string, basedOn []string) string {
	part, _, _ := strings.Cut(path, ".")
	whole := reflect.ValueOf(f.document).Elem()
	for i := range whole.NumField() {
		if whole.Type().Field(i).Tag.Get("json") != part {
			continue
		}
		if quote := firstQuote(whole.Field(i), basedOn); quote != "" {
			return quote
		}
	}
	for i := range f.document.Observations {
		o := &f.document.Observations[i]
		if len(basedOn) > 0 && o.ID == basedOn[0] {
			return o.Excerpt
		}
	}
	return ""
}

func firstQuote(v reflect.Value, basedOn []string) (quote string) {
	if _, ruled := v.Interface().(Evaluation); ruled {
		return "" // another verdict's
	}
	if e, ok := v.Interface().(Evidence); ok {
		if slices.Contains(basedOn, e.Obs) {
			return e.Quote
		}
		return ""
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return firstQuote(v.Elem(), basedOn)
		}
	case reflect.Slice:
		for i := 0; i < v.Len() && quote == ""; i++ {
			quote = firstQuote(v.Index(i), basedOn)
		}
	case reflect.Struct:
		for i := 0; i < v.NumField() && quote == ""; i++ {
			quote = firstQuote(v.Field(i), basedOn)
		}
	}
	return quote
}
