package enginetest

import (
	"time"
	_ "time/tzdata" // for systems that have no database of zones

	"tollgate/engine/zone"
)

// Zone is a time zone as the Go library knows it, from 2020 to 2060; nil is UTC. It panics where
// there is no such zone.
func Zone(name string) *zone.Zone {
	if name == "UTC" {
		return nil
	}
	place, err := time.LoadLocation(name)
	if err != nil {
		panic(err)
	}
	first := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	return zone.Sampled(name, first, first+40*366*24*3_600_000, func(at int64) int64 {
		_, seconds := time.UnixMilli(at).In(place).Zone()
		return int64(seconds) * 1000
	})
}
