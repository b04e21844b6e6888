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

// Findings are all verdicts of the document, in its order.
func (d *Document) Findings() (found []Finding) {
	Walk("", reflect.ValueOf(d).Elem(), func(path string, v reflect.Value) bool {
		switch value := v.Interface().(type) {
		case Evaluation:
			f := Finding{path, string(value.Verdict), value.Rule, ""}
			if len(value.Evidence) > 0 {
				f.Quote = value.Evidence[0].Quote
			} else {
				f.Quote = d.quote(path, value.BasedOn)
			}
			found = append(found, f)
			return false
		case AuthRequired:
			found = append(found, Finding{
				path, string(value.Value), value.Rule, d.quote(path, value.BasedOn),
			})
			return false
		}
		return v.Kind() == reflect.Struct
	})
	return found
}

// quote is the first evidence, within the part of the document that a verdict belongs to, from what
// the verdict rests on; else how that begins. Evidence of other verdicts does not count.
func (d *Document) quote(path string, basedOn []string) (quote string) {
	part, _, _ := strings.Cut(path, ".")
	within := func(path string) bool {
		rest, is := strings.CutPrefix(path, part)
		return is && (rest == "" || rest[0] == '.' || rest[0] == '[')
	}
	Walk("", reflect.ValueOf(d).Elem(), func(path string, v reflect.Value) bool {
		if e, is := v.Interface().(Evidence); is && quote == "" && slices.Contains(basedOn, e.Obs) {
			quote = e.Quote
		}
		_, ruled := v.Interface().(Evaluation)
		return !ruled && quote == "" && (path == "" || within(path))
	})
	for i := range d.Observations {
		o := &d.Observations[i]
		if quote == "" && len(basedOn) > 0 && o.ID == basedOn[0] {
			return o.Excerpt
		}
	}
	return quote
}
