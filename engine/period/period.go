// Package period computes billing periods from an anchor instant and the proration of a part of
// one. Instants are milliseconds since 1970 UTC, periods are [start, end), the calendar is the
// proleptic Gregorian one in UTC, in the years 1970–9999. See DESIGN.md.
package period

import "tollgate/engine/decimal"

// RatioPlaces is the number of decimal places of a proration ratio.
const RatioPlaces = 8

// MaxIntervalMonths is the longest interval of a Cycle.
const MaxIntervalMonths = 120

// Cycle defines all periods of a subscription: period n begins n × IntervalMonths after the anchor,
// at the anchor's time of day, on the anchor's day or the last day of a month that is too short for
// it. A short month moves no later period: Jan 31 → Feb 28 → Mar 31.
type Cycle struct {
	Anchor         int64  // milliseconds since 1970 UTC
	IntervalMonths uint32 // 1–120
}

// Period is one period of a Cycle.
type Period struct {
	Number     uint32 // the first is 0
	Start, End int64  // [Start, End), milliseconds since 1970 UTC
}

// Period returns the period of a number. ok is false when the cycle's fields are out of range or
// the period ends after the year 9999.
func (c Cycle) Period(number uint32) (p Period, ok bool) {
	if !c.valid() {
		return Period{}, false
	}
	first := uint64(number) * uint64(c.IntervalMonths)
	if first > maxMonths {
		return Period{}, false
	}
	anchor := civilOf(c.Anchor)
	start, _ := anchor.later(int64(first))
	end, ok := anchor.later(int64(first) + int64(c.IntervalMonths))
	return Period{Number: number, Start: start, End: end}, ok
}

// At returns the period that holds an instant. ok is false when the cycle's fields are out of
// range, the instant lies before the anchor, or the period ends after the year 9999.
func (c Cycle) At(instant int64) (p Period, ok bool) {
	if !c.valid() || instant < c.Anchor || instant > lastInstant {
		return Period{}, false
	}
	months := civilOf(instant).months() - civilOf(c.Anchor).months()
	number := uint32(months / int64(c.IntervalMonths))
	p, ok = c.Period(number)
	if instant < p.Start {
		return c.Period(number - 1)
	}
	return p, ok
}

// valid reports whether the fields are in range.
func (c Cycle) valid() bool {
	return c.IntervalMonths >= 1 && c.IntervalMonths <= MaxIntervalMonths &&
		c.Anchor >= 0 && c.Anchor <= lastInstant
}

// RemainingRatio returns what part of the period is left at an instant: remaining ÷ total, in
// milliseconds, at 8 decimals, half up. It is 1 at and before the start, 0 at and after the end.
// ok is false for a period that does not end after it starts.
func (p Period) RemainingRatio(instant int64) (ratio decimal.Decimal, ok bool) {
	remaining := p.End - min(max(instant, p.Start), p.End)
	return decimal.Ratio(remaining, p.End-p.Start, RatioPlaces)
}

// DayOfMonth returns an instant's day of the month in UTC, 1–31: of an anchor, the billing anchor
// day.
func DayOfMonth(instant int64) int { return civilOf(instant).day }
