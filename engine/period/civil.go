package period

import "fmt"

const (
	dayMS = 24 * 60 * 60 * 1000
	// lastInstant is 9999-12-31T23:59:59.999Z.
	lastInstant = 253_402_300_799_999
	// maxMonths is how many months the years 1970–9999 hold.
	maxMonths = (9999 - 1970 + 1) * 12
)

// civil is an instant as a date and a time of day, in UTC.
type civil struct {
	year, month, day int // month 1–12, day 1–31
	timeMS           int64
}

// civilOf splits an instant. Dates and day numbers are converted as in Howard Hinnant,
// "chrono-Compatible Low-Level Date Algorithms", civil_from_days and days_from_civil: the year is
// taken to begin in March, so that the leap day is its last.
func civilOf(instant int64) civil {
	day, timeMS := instant/dayMS, instant%dayMS
	if timeMS < 0 {
		day, timeMS = day-1, timeMS+dayMS
	}
	day += 719_468 // from 0000-03-01
	era := day / 146_097
	if day < 0 {
		era = (day - 146_096) / 146_097
	}
	ofEra := day - era*146_097
	yearOfEra := (ofEra - ofEra/1_460 + ofEra/36_524 - ofEra/146_096) / 365
	ofYear := ofEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	fromMarch := (5*ofYear + 2) / 153
	c := civil{
		year:   int(yearOfEra + era*400),
		month:  int(fromMarch) + 3,
		day:    int(ofYear-(153*fromMarch+2)/5) + 1,
		timeMS: timeMS,
	}
	if c.month > 12 {
		c.month -= 12
		c.year++
	}
	return c
}

// instant is the inverse of civilOf, for years from 0.
func (c civil) instant() int64 {
	year, fromMarch := int64(c.year), int64(c.month)-3
	if fromMarch < 0 {
		year, fromMarch = year-1, fromMarch+12
	}
	era := year / 400
	ofEra := year - era*400
	ofYear := (153*fromMarch+2)/5 + int64(c.day) - 1
	day := era*146_097 + ofEra*365 + ofEra/4 - ofEra/100 + ofYear - 719_468
	return day*dayMS + c.timeMS
}

// Format writes an instant, in milliseconds since 1970, as the APIs do: 2026-01-31T15:00:00.000Z.
func Format(instant int64) string {
	c := civilOf(instant)
	seconds, ms := c.timeMS/1000, c.timeMS%1000
	return fmt.Sprintf("%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", c.year, c.month, c.day,
		seconds/3600, seconds/60%60, seconds%60, ms)
}

// months counts months from year 0.
func (c civil) months() int64 { return int64(c.year)*12 + int64(c.month) - 1 }

// later returns the instant some months later, its day clamped to the month's end. ok is false
// after the year 9999.
func (c civil) later(months int64) (instant int64, ok bool) {
	total := c.months() + months
	c.year, c.month = int(total/12), int(total%12)+1
	c.day = min(c.day, daysIn(c.year, c.month))
	return c.instant(), c.year <= 9999
}

// daysIn returns the length of a month.
func daysIn(year, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// Month is the month (UTC) that an instant is in, from the year 0 on.
func Month(instant int64) Period {
	c := civilOf(instant)
	c.day, c.timeMS = 1, 0
	p := Period{Start: c.instant()}
	p.End, _ = c.later(1)
	return p
}

// Year is the year (UTC) that an instant is in, from the year 0 on.
func Year(instant int64) Period {
	c := civilOf(instant)
	c.month, c.day, c.timeMS = 1, 1, 0
	p := Period{Start: c.instant()}
	p.End, _ = c.later(12)
	return p
}
