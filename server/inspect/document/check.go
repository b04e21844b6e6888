package document

import (
	"fmt"
	"reflect"
	"strings"
)

// Check refuses a document that cites what was not observed: each id that evidence or a verdict
// names must be an observation of the document, and holds must find each quote in what that
// observation read. The error names the place.
func Check(d *Document, holds func(obs, quote string) bool) error {
	return CheckCited(d.Observations, d, holds)
}

// CheckCited is Check for any struct that cites observations as a document does.
func CheckCited(seen []Observation, cites any, holds func(obs, quote string) bool) (err error) {
	known := map[string]bool{}
	for i := range seen {
		id := seen[i].ID
		if id == "" || known[id] {
			return fmt.Errorf("document: observation %d has no id of its own: %q", i, id)
		}
		known[id] = true
	}
	fail := func(format string, args ...any) {
		if err == nil {
			err = fmt.Errorf("document: "+format, args...)
		}
	}
	rests := func(path string, ids []string) {
		for _, obs := range ids {
			if !known[obs] {
				fail("%s rests on %q, which was not observed", path, obs)
			}
		}
	}
	Walk("document", reflect.ValueOf(cites), func(path string, v reflect.Value) bool {
		switch value := v.Interface().(type) {
		case Evaluation:
			if len(value.Evidence) == 0 { // a rule may rest on what is not there
				rests(path+".basedOn", value.BasedOn)
				return false
			}
		case []string:
			if strings.HasSuffix(path, ".basedOn") {
				rests(path, value)
			}
		case []Evidence:
			if len(value) == 0 {
				fail("%s is empty: nothing shows where it stands", path)
			}
		case Evidence:
			if !known[value.Obs] {
				fail("%s cites %q, which was not observed", path, value.Obs)
			} else if value.Quote == "" || !holds(value.Obs, value.Quote) {
				fail("%s quotes what %s does not hold: %q", path, value.Obs, value.Quote)
			}
		}
		return err == nil
	})
	return err
}
