package document

import (
	"fmt"
	"reflect"
)

// Check refuses a document that cites what was not observed: each id that evidence or a verdict
// names must be an observation of the document, and holds must find each quote in what that
// observation read. The error names the place. It walks the whole document by its types, so that no
// new field can be forgotten.
func Check(d *Document, holds func(obs, quote string) bool) error {
	return CheckCited(d.Observations, d, holds)
}

// CheckCited is Check for any struct that cites observations as a document does.
func CheckCited(seen []Observation, cites any, holds func(obs, quote string) bool) error {
	c := checker{known: map[string]bool{}, holds: holds}
	for i := range seen {
		id := seen[i].ID
		if id == "" || c.known[id] {
			return fmt.Errorf("document: observation %d has no id of its own: %q", i, id)
		}
		c.known[id] = true
	}
	return c.walk("document", reflect.ValueOf(cites).Elem())
}

type checker struct {
	known map[string]bool
	holds func(obs, quote string) bool
}

func (c *checker) walk(path string, v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return c.walk(path, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			if err := c.walk(fmt.Sprintf("%s[%d]", path, i), v.Index(i)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		return c.object(path, v)
	}
	return nil
}

func (c *checker) object(path string, v reflect.Value) error {
	if e, ok := v.Interface().(Evidence); ok {
		return c.evidence(path, e)
	}
	_, ruled := v.Interface().(Evaluation)
	for i := range v.NumField() {
		f, at := v.Type().Field(i), path+"."+v.Type().Field(i).Tag.Get("json")
		if f.Name == "BasedOn" {
			for _, obs := range v.Field(i).Interface().([]string) {
				if !c.known[obs] {
					return fmt.Errorf("document: %s rests on %q, which was not observed", at, obs)
				}
			}
		}
		if f.Name == "Evidence" && v.Field(i).Len() == 0 && !ruled {
			return fmt.Errorf("document: %s is empty: nothing shows where it stands", at)
		}
		if err := c.walk(at, v.Field(i)); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) evidence(path string, e Evidence) error {
	if !c.known[e.Obs] {
		return fmt.Errorf("document: %s cites %q, which was not observed", path, e.Obs)
	}
	if e.Quote == "" || !c.holds(e.Obs, e.Quote) {
		return fmt.Errorf("document: %s quotes what %s does not hold: %q", path, e.Obs, e.Quote)
	}
	return nil
}
