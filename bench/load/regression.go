package load

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// bytesThreshold is by how much the bytes of an operation may grow in any case. Most of them are of
// tables that grow meanwhile, and a run's share of that growth depends on how many operations it
// came to.
const bytesThreshold = 0.1

// Regressions reads what benchstat prints as CSV of an old and a new series of benchmarks, and
// returns what got worse by more than threshold (0.1 is a tenth): of time, processor time,
// allocations and, from bytesThreshold on, bytes, where benchstat does not take the difference for
// noise. It is an error when nothing was compared.
func Regressions(table io.Reader, threshold float64) (worse []string, err error) {
	reader := csv.NewReader(table)
	reader.FieldsPerRecord = -1 // lines of the configuration have one field
	lines, err := reader.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("benchstat: %w", err)
	}
	unit, compared := "", 0
	for _, line := range lines {
		switch {
		case len(line) != 7:
		case line[0] == "" && line[2] == "CI":
			unit = line[1]
		case line[0] == "" || line[0] == "geomean" || strings.HasSuffix(unit, "/s"):
		case line[1] != "" && line[3] != "": // else only one side has it
			compared++
			by, err := change(line)
			if err != nil {
				return nil, err
			}
			limit := threshold
			if unit == "B/op" {
				limit = max(threshold, bytesThreshold)
			}
			if by > limit {
				worse = append(worse, fmt.Sprintf("%s: %s of %s (%s → %s %s, %s)", line[0], line[5], unit,
					line[1], line[3], unit, line[6]))
			}
		}
	}
	if compared == 0 {
		return nil, fmt.Errorf("benchstat: no benchmark stands on both sides")
	}
	return worse, nil
}

// change is by how much a line got larger; 0 when that is noise. benchstat has no ratio to nothing:
// what began to cost something is worse without bound.
func change(line []string) (float64, error) {
	switch line[5] {
	case "~":
		return 0, nil
	case "?":
		if line[1] == "0" && line[3] != "0" {
			return 1e9, nil
		}
		return 0, nil
	}
	percent, err := strconv.ParseFloat(strings.TrimSuffix(line[5], "%"), 64)
	if err != nil {
		return 0, fmt.Errorf("benchstat: %s: %w", line[0], err)
	}
	return percent / 100, nil
}
