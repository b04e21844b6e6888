// Package zone has the program's database of time zones, from which commands get theirs.
package zone

import (
	"errors"
	"fmt"
	"time"
	_ "time/tzdata" // for systems that have no database of zones

	"tollgate/engine/zone"
)

// ErrUnknown means that the database does not have a name.
var ErrUnknown = errors.New("zone: no such time zone")

var (
	first = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	last  = time.Date(2101, 1, 1, 0, 0, 0, 0, time.UTC)
)

// Load returns a zone as the database has it, from 2020 to 2100. (Time.ZoneBounds, which would tell
// each next change, stays where it is at the end of leap years.)
func Load(name string) (*zone.Zone, error) {
	if name == "" || name == "Local" || len(name) > zone.MaxName {
		return nil, ErrUnknown
	}
	place, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return zone.Sampled(name, first.UnixMilli(), last.UnixMilli(), func(at int64) int64 {
		_, seconds := time.UnixMilli(at).In(place).Zone()
		return int64(seconds) * 1000
	}), nil
}
