package budgets

import (
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/period"
	"tollgate/engine/zone"
)

// Window is how long a limit counts before it begins again. Numbers are never reused.
//
//schema:enum
type Window uint8

const (
	WindowHour  Window = 1 // hour
	WindowDay   Window = 2 // day
	WindowWeek  Window = 3 // week
	WindowMonth Window = 4 // month
	WindowYear  Window = 5 // year
	// WindowLifetime never begins again.
	WindowLifetime Window = 6 // lifetime
)

const (
	hourMS = 60 * 60 * 1000
	weekMS = 7 * accounts.DayMS
	// mondayMS is the first Monday after the instant 0, a Thursday.
	mondayMS = 4 * accounts.DayMS
)

// Around is the window that an instant is in, [start, end).
func (w Window) Around(at int64, z *zone.Zone) (start, end int64) {
	offset, from, until := z.At(at)
	switch local := at + offset; w {
	case WindowHour:
		start = floor(local, hourMS) - offset
		return max(start, from), min(start+hourMS, until)
	case WindowLifetime:
		return 0, rows.Never
	default:
		p := w.dates(local)
		start, end = z.Begins(p.Start), z.Begins(p.End)
		for end <= at { // the clock was put back behind a date that had come
			p = w.dates(p.End)
			start, end = end, z.Begins(p.End)
		}
		return start, end
	}
}

// dates is the stretch of dates that a local time is in.
func (w Window) dates(local int64) (p period.Period) {
	switch w {
	case WindowWeek:
		p.Start = floor(local-mondayMS, weekMS) + mondayMS
		p.End = p.Start + weekMS
	case WindowMonth:
		return period.Month(local)
	case WindowYear:
		return period.Year(local)
	default:
		p.Start = floor(local, accounts.DayMS)
		p.End = p.Start + accounts.DayMS
	}
	return p
}

// floor is the greatest multiple of unit that is not above v.
func floor(v, unit int64) int64 {
	rest := v % unit
	if rest < 0 {
		rest += unit
	}
	return v - rest
}
