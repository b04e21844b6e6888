package load

import (
	"bytes"
	"fmt"
	"strconv"
)

// record sends the events of a request and notes what became of each.
func (w *worker) record(t *template) (uint64, error) {
	status, body, err := w.do(t.bytes)
	switch {
	case err != nil:
		w.fateUnknown()
		return 0, err
	case status == 503 && bytes.Contains(body, unknownCode):
		w.fateUnknown()
		return 0, fmt.Errorf("event: 503 outcome unknown")
	case status == 201 || (status == 200 && !w.Scenario.batches() && len(w.customers) == 1):
		w.acknowledged[w.customers[0]].Add(1)
		return 1, nil
	case status == 200:
		return w.batch(body)
	}
	w.refused.Add(uint64(len(w.customers)))
	return 0, fmt.Errorf("event: %d %.200s", status, body)
}

func (w *worker) fateUnknown() {
	for _, c := range w.customers {
		w.unknown[c].Add(1)
	}
}

var (
	unknownCode   = []byte(`"outcome_unknown"`)
	acceptedField = []byte(`"accepted":`)
	statusField   = []byte(`"status":`)
)

// batch notes the results of a batch. Mostly all of them were accepted, and nothing else is read.
func (w *worker) batch(body []byte) (uint64, error) {
	accepted, _, ok := number(body, acceptedField)
	if !ok {
		w.fateUnknown()
		return 0, fmt.Errorf("batch: no count in %.200s", body)
	}
	if accepted == len(w.customers) {
		for _, c := range w.customers {
			w.acknowledged[c].Add(1)
		}
		return uint64(accepted), nil
	}
	rest, units := body, uint64(0)
	for _, c := range w.customers {
		status, after, ok := number(rest, statusField)
		switch {
		case !ok || status == 503:
			w.unknown[c].Add(1)
		case status == 200 || status == 201:
			w.acknowledged[c].Add(1)
			units++
		default:
			w.refused.Add(1)
		}
		rest = after
	}
	if units == 0 {
		return 0, fmt.Errorf("batch: nothing accepted: %.300s", body)
	}
	return units, nil
}

// number reads the whole number after the first occurrence of field, and returns what follows it.
func number(text, field []byte) (n int, rest []byte, ok bool) {
	_, after, found := bytes.Cut(text, field)
	if !found {
		return 0, nil, false
	}
	end := 0
	for end < len(after) && after[end] >= '0' && after[end] <= '9' {
		end++
	}
	n, err := strconv.Atoi(string(after[:end]))
	return n, after[end:], err == nil
}
